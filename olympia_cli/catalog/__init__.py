"""Versions, snapshots and transactions of a catalog."""
