"""Exports: copies of a version at another location. Create, resume, verify and drop them.

This package writes to destinations, and commits the record of an export. It deletes only the files of full exports.
"""
