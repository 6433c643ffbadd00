"""Catalogs of the Olympia format: a library, and the program `olympia` over it."""

__version__ = "0.1.0"
