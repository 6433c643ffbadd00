"""Imports of existing catalogs and files: tables are registered, and data stays where it is unless a rewrite is
requested."""
