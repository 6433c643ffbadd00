"""Copies of a version at another place: made, gone on with, verified, dropped.

It writes at destinations, and one commit that records an export. It deletes nothing but the files of a full export.
"""
