"""Import DeltaCAT catalogs: their metadata is read in place, and their tables become tables here."""
