"""The latest version, kept as long as it is the latest."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import Moment, moment
from olympia_cli.catalog.commit import newer_versions
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError
from olympia_cli.format.paths import root_path

SURE_FOR_MILLIS = 60_000
"""So long it is enough that the next root is missing. An expire deletes a version after an hour of quarantine at the
earliest, so within a minute of a whole look the next version cannot have come and gone."""

QUICK = 0.0003
"""A store that has answered within so many seconds is on this machine: asking it here costs less than a thread does."""
SLOW = 0.05
"""Whoever takes so long is asked in a thread from then on, for as long as a whole look is good for."""

R = TypeVar("R")


class Latest:
    """Every request gets a version that was the latest at some moment after the request came. Requests that come
    together ask the store once."""

    def __init__(self, catalog: Catalog, executor: Executor) -> None:
        self._catalog = catalog
        self._executor = executor
        self._lock = threading.Lock()
        self._known: Snapshot | None = None
        self._looked_at = Moment(0, 0)
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
            known = self._known
            if known is None or not self._is_sure() or self._has_next(known):
                return None
            return known
        except OlympiaError:
            # whoever looks again tells it
            return None
        finally:
            self._lock.release()

    def look(self) -> Snapshot:
        """Look now, in this thread."""
        with self._lock:
            known = self._known
            if known is None or not self._is_sure():
                at = moment(self._catalog.clock)
                self._known, self._looked_at = self._near(self._catalog.snapshot(), known), at
                self._is_quick = False
            elif self._has_next(known):
                for newer in newer_versions(known):
                    self._known = newer
            assert self._known is not None
            return self._known

    def _is_sure(self) -> bool:
        now, at = moment(self._catalog.clock), self._looked_at
        return now.elapsed - at.elapsed < SURE_FOR_MILLIS and 0 <= now.wall - at.wall < SURE_FOR_MILLIS

    def _has_next(self, known: Snapshot) -> bool:
        began = time.perf_counter()
        found = self._catalog.store.exists(root_path(known.version + 1, known.file.width))
        took = time.perf_counter() - began
        self._is_quick = took < QUICK or (self._is_quick and took < SLOW)
        return found

    @staticmethod
    def _near(found: Snapshot, known: Snapshot | None) -> Snapshot:
        """The version with the nodes and definitions that another one has read already."""
        if known is None:
            return found
        same = known.version == found.version and known.file.data == found.file.data
        return known if same else Snapshot(found.store, found.file, known)
