"""One node's bytes become its facts, and one way leads down a tree: every other room looks at trees through this one.

It reads stores and decodes files. It decides nothing: what facts mean for a version is said in `ops/fsck`.
"""
