"""What people ask of a catalog: its log, differences, histories, node files, the shape of its tree, how it is doing.

It only reads.
"""
