"""Iceberg tables: what their metadata names, and whether it is there."""
