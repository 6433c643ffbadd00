"""DeltaCAT catalogs: their metadata is read as it lies there, and their tables become tables here."""
