"""Preserved catalogs of IOx, versions 14 to 19: read, checked and imported. Nothing of them is ever written."""
