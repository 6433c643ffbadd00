"""The tree of node files: the format over a store."""
