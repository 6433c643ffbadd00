"""Expire: retention policies, plans, the quarantine and the purge.

This package decides which files are in use. `sweep` decides about one file, `survey` collects the facts about it,
`plan` runs both for all files. Mark, undo and purge begin with a commit; only a purge deletes files.
"""
