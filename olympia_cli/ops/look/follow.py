"""The log while it grows: yield versions in the order of their commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_latest
from olympia_cli.errors import Damaged, PathMissing
from olympia_cli.format.paths import MAX_VERSION, root_path
from olympia_cli.ops.look.log import LogEntry, read_entry

WINDOW = 8
"""The number of roots per request. Each poll costs the same, however many versions were committed."""

LOOK_AROUND = 10
"""After this many empty polls, look up the latest version: an expire may have deleted the next one."""


def follow(newest: Snapshot, clock: Clock, seconds: float, say: Callable[[str], None]) -> Iterator[LogEntry]:
    """Yield the versions after `newest`, without end. `say` reports versions that were expired before they
    were read.
    """
    store, width, version, idle = newest.store, newest.file.width, newest.version, 0
    while version < MAX_VERSION:
        last = version
        versions = range(version + 1, min(version + WINDOW, MAX_VERSION) + 1)
        for number, (_, data) in zip(
            versions, store.read_many(root_path(number, width) for number in versions), strict=True
        ):
            if isinstance(data, PathMissing):
                break
            if isinstance(data, Exception) and not isinstance(data, Damaged):
                raise data
            last = number
            yield read_entry(number, data, newest)
        if last < version + WINDOW:
            idle = idle + 1 if last == version else 0
            clock.sleep(seconds)
        version = last
        if idle == LOOK_AROUND:
            idle, latest = 0, read_latest(store).version
            if latest > version and not store.exists(root_path(version + 1, width)):
                say(f"v{version + 1} was expired before it was seen; going on after v{latest - 1}")
                version = latest - 1
