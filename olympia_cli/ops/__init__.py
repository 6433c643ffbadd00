"""The administration of a catalog, one folder per kind of operation. Functions return values, and the command line
renders them.
"""
