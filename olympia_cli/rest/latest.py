"""The latest version, looked up once for simultaneous requests."""

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
"""Seconds. A store that answers faster is local, and asking it on the event loop costs less than a thread."""
SLOW = 0.05
"""Seconds. A store that takes longer is asked in a thread, until it answers within QUICK again."""

R = TypeVar("R")
S = TypeVar("S", Snapshot, Snapshot | None)


class Latest:
    """Looks up the latest version for requests.

    Every request gets a version that was the latest at some moment after it arrived. Simultaneous requests share a
    lookup.
    """

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
        # a lookup that began before this request may miss a commit in between
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._look_after(self._running))
        return await asyncio.shield(self._next)

    async def run(self, work: Callable[[], R]) -> R:
        """Run blocking work in a thread."""

        def done() -> R:
            try:
                return work()
            except StopIteration as error:
                # a Future cannot hold StopIteration, and its waiter would never return
                raise RuntimeError("something ended too early") from error

        return await asyncio.get_running_loop().run_in_executor(self._executor, done)

    async def _look_after(self, running: asyncio.Task[Snapshot] | None) -> Snapshot:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self.run(self.look)

    def _look_here(self) -> Snapshot | None:
        """Return the known version if a single request proves that it is still the latest."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._timed(self._head.still)
        except OlympiaError:
            # the next lookup raises the error
            return None
        finally:
            self._lock.release()

    def look(self) -> Snapshot:
        """Look up the latest version in this thread."""
        with self._lock:
            return self._timed(self._head.look)

    def _timed(self, ask: Callable[[], S]) -> S:
        began = time.perf_counter()
        found = ask()
        took = time.perf_counter() - began
        self._is_quick = took < QUICK or (self._is_quick and took < SLOW)
        return found
