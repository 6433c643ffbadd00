"""Versions, snapshots and transactions."""
