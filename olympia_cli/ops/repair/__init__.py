"""Mending: a version that is whole on top of one that is not, or a new catalog from what can be read of an old one.

It commits, and writes the two hints. It deletes nothing.
"""
