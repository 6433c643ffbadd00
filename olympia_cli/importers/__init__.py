"""What exists elsewhere is adopted: its tables are registered, and its data is not moved."""
