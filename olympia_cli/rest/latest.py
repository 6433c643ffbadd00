"""The latest version, kept as long as it is the latest."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import newer_versions
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.format.paths import root_path

SURE_FOR_MILLIS = 60_000
"""So long it is enough that the next root is missing. An expire deletes a version after an hour of quarantine at the
earliest, so within a minute of a whole look the next version cannot have come and gone."""

R = TypeVar("R")


class Latest:
    """Every request gets a version that was the latest at some moment after the request came. Requests that come
    together ask the store once."""

    def __init__(self, catalog: Catalog, executor: Executor) -> None:
        self._catalog = catalog
        self._executor = executor
        self._lock = threading.Lock()
        self._known: Snapshot | None = None
        self._looked_at = 0
        self._running: asyncio.Task[Snapshot] | None = None
        self._next: asyncio.Task[Snapshot] | None = None

    async def snapshot(self) -> Snapshot:
        # a look that began before this request came may miss what was committed in between
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._look_after(self._running))
        return await asyncio.shield(self._next)

    async def run(self, work: Callable[[], R]) -> R:
        """Work that waits for a store, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def _look_after(self, running: asyncio.Task[Snapshot] | None) -> Snapshot:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self.run(self.look)

    def look(self) -> Snapshot:
        """Look now, in this thread."""
        with self._lock:
            known, elapsed = self._known, self._catalog.clock.elapsed_millis()
            if known is None or elapsed - self._looked_at >= SURE_FOR_MILLIS:
                found = self._catalog.snapshot()
                self._known, self._looked_at = self._near(found, known), elapsed
            elif self._catalog.store.exists(root_path(known.version + 1, known.file.width)):
                for newer in newer_versions(known):
                    self._known = newer
            assert self._known is not None
            return self._known

    @staticmethod
    def _near(found: Snapshot, known: Snapshot | None) -> Snapshot:
        """The version with the nodes and definitions that another one has read already."""
        if known is None:
            return found
        return known if known.version == found.version else Snapshot(found.store, found.file, known)
