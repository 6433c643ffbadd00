"""The latest version, for requests that come together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError

QUICK = 0.0003
"""A store that has answered within so many seconds is on this machine: asking it here costs less than a thread does."""
SLOW = 0.05
"""Whoever takes so long is asked in a thread from then on, for as long as a whole look is good for."""

R = TypeVar("R")
S = TypeVar("S", Snapshot, Snapshot | None)


class Latest:
    """Every request gets a version that was the latest at some moment after the request came. Requests that come
    together ask the store once."""

    def __init__(self, catalog: Catalog, executor: Executor) -> None:
        self._head = catalog.remembering().head
        self._executor = executor
        self._lock = threading.Lock()
        self._is_quick = False
        self._running: asyncio.Task[Snapshot] | None = None
        self._next: asyncio.Task[Snapshot] | None = None

    async def snapshot(self) -> Snapshot:
        known = self._look_here() if self._is_quick else None
        if known is not None:
            return known
        # a look that began before this request came may miss what was committed in between
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._look_after(self._running))
        return await asyncio.shield(self._next)

    async def run(self, work: Callable[[], R]) -> R:
        """Work that waits for a store, in a thread."""

        def done() -> R:
            try:
                return work()
            except StopIteration as error:
                # no future can hold it: whoever waits would wait for ever
                raise RuntimeError("something ended too early") from error

        return await asyncio.get_running_loop().run_in_executor(self._executor, done)

    async def _look_after(self, running: asyncio.Task[Snapshot] | None) -> Snapshot:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self.run(self.look)

    def _look_here(self) -> Snapshot | None:
        """The version that is known, if one question is enough to say that it is still the latest."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._timed(self._head.still)
        except OlympiaError:
            # whoever looks again tells it
            return None
        finally:
            self._lock.release()

    def look(self) -> Snapshot:
        """Look now, in this thread."""
        with self._lock:
            return self._timed(self._head.look)

    def _timed(self, ask: Callable[[], S]) -> S:
        began = time.perf_counter()
        found = ask()
        took = time.perf_counter() - began
        self._is_quick = took < QUICK or (self._is_quick and took < SLOW)
        return found
