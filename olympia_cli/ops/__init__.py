"""What an administrator does with a catalog, a room for each kind of work. Values come back; the command line renders
them.
"""
