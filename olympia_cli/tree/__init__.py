"""The tree of node files in a store."""
