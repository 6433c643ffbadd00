"""Repair: commit a sound version on top of a damaged one, or salvage a new catalog from the readable parts of an old
one.

This package commits, and writes the two hints. It deletes only stray roots, after copying them.
"""
