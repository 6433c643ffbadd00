"""Encoding and decoding of the format's files, without I/O."""
