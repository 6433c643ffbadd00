"""Waiting for other processes, with a timeout, because a test that hangs reports nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60
"""Timeout in seconds, for events that take a moment on an idle machine."""


def wait_until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"after {PATIENCE} seconds: not yet {what}"
        time.sleep(0.001)
