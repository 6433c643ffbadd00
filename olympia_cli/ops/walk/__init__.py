"""Reading of trees: the walk from the roots down, and the facts about each node. All other operations walk trees with
this package.

The package reads and decodes files. It does not judge what facts mean for a version; `ops/fsck` does.
"""
