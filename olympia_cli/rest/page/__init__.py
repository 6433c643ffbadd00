"""The page at `/`: a read-only look at the catalog. Every state has a URL; no script, nothing from elsewhere."""
