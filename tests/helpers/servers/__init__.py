"""Servers for the tests: on 127.0.0.1, on a free port, each in a thread of its own."""
