"""Which versions and files go: policies, plans, the quarantine and the purge.

It owns what is live and what is not: `sweep` decides about one file, `survey` brings together what is known of it,
`plan` asks about all of them. A mark, an undo and a purge are commits first; only a purge deletes files.
"""
