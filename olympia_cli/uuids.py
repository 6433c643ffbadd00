"""Ids that nobody else has."""

from __future__ import annotations

import os


def new_uuid() -> str:
    """A random uuid (version 4). The `uuid` of Python takes twice as long for one, and a start for its import."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
