"""Many changes from JSON lines: what a line means, and how lines are committed.

It commits, and reads the log to see what an earlier run committed.
"""
