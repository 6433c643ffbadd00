"""Changes from JSON lines: the parser of a line, and the commits of many lines."""
