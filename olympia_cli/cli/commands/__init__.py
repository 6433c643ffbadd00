"""The commands, one per module: `table show` is `table_show.py`. Each parses, calls the core once, and renders."""
