"""The web page at `/`: a read-only view of the catalog. Every state has a URL. No scripts, no external resources."""
