"""Which versions and files go: policies, plans, the quarantine and the purge.

It owns what is live and what is not. A mark, an undo and a purge are commits first; only a purge deletes files.
"""
