"""What happens elsewhere is waited for, and not for ever: a test that hangs says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60
"""Seconds, for what takes a moment where nobody else works."""


def wait_until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"after {PATIENCE} seconds: not yet {what}"
        time.sleep(0.001)
