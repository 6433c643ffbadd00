"""The latest version, kept as long as it is the latest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from olympia_cli.catalog.clock import Clock, Moment, moment
from olympia_cli.catalog.commit import newer_versions
from olympia_cli.catalog.references import check_no_gap, open_head, open_snapshot
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import OlympiaError, PathMissing
from olympia_cli.format.paths import MAX_VERSION, root_path
from olympia_cli.names import Latest, ObjectName
from olympia_cli.storage.protocol import Store

SURE_FOR_MILLIS = 60_000
"""So long it is enough that the next root is missing. An expire deletes a version after an hour of quarantine at the
earliest, so within a minute of a whole look the next version cannot have come and gone."""


class Head:
    """Every look gives a version that was the latest at some moment after the look began. Files never change, so what
    was read of one version is not read again for the next. Safe for several threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Snapshot | None = None
        self._looked_at = Moment(0, 0)

    def look(self, names: Sequence[ObjectName] = ()) -> Snapshot:
        """The latest version, with what is on the way to the objects of these names."""
        found = self.still(names) or self._newer()
        if found is None:
            at = moment(self._clock)
            found = open_snapshot(self._store, Latest(), at.wall, names, self._known)
            self._keep(found, at)
        return found

    def look_to_commit(self, names: Sequence[ObjectName] = ()) -> Snapshot:
        """As `look`, for whoever commits on it: Damaged where that would close a gap."""
        found = self.still(names, beyond=2)
        if found is None and (found := self._newer()) is not None:
            check_no_gap(found)
        if found is None:
            at = moment(self._clock)
            found = open_head(self._store, at.wall, names, self._known)
            self._keep(found, at)
        return found

    def still(self, names: Sequence[ObjectName] = (), beyond: int = 1) -> Snapshot | None:
        """The version that is known, if one question says that it is the latest: so many roots after it are missing."""
        known = self._known
        if known is None or known.version + beyond > MAX_VERSION or not self._is_sure():
            return None
        after = [root_path(known.version + number, known.file.width) for number in range(1, beyond + 1)]
        wanted = _wanted(known, names)
        if beyond == 1 and not wanted:
            is_last = not self._store.exists(after[0])
        else:
            found = dict(self._store.read_many([*after, *wanted]))
            for path in wanted:
                if isinstance(data := found[path], bytes):
                    known.keep(path, data)
            is_last = all(isinstance(found[path], PathMissing) for path in after)
        # asked again: whoever slept over the answer knows nothing
        return known if is_last and self._is_sure() else None

    def advance(self, base: Snapshot, version: int, data: bytes) -> None:
        """What was committed just now, on the version before it."""
        self._keep(Snapshot(self._store, RootFile(version, base.file.width, data), base), self._looked_at)

    def _newer(self) -> Snapshot | None:
        """The latest version, if it can be told from the one that is known."""
        if self._known is None or not self._is_sure():
            return None
        try:
            *_, newest = [self._known, *newer_versions(self._known)]
        except OlympiaError:
            # a whole look tells it
            return None
        if not self._is_sure():
            return None
        self._keep(newest, self._looked_at)
        return newest

    def _keep(self, found: Snapshot, at: Moment) -> None:
        # what was missing beside it then may be there when it is asked for again
        found.file = replace(found.file, beside={})
        with self._lock:
            known = self._known
            if known is None or at.elapsed > self._looked_at.elapsed or found.version > known.version:
                self._known, self._looked_at = found, at

    def _is_sure(self) -> bool:
        now, at = moment(self._clock), self._looked_at
        return now.elapsed - at.elapsed < SURE_FOR_MILLIS and 0 <= now.wall - at.wall < SURE_FOR_MILLIS


def _wanted(known: Snapshot, names: Sequence[ObjectName]) -> list[str]:
    try:
        return known.next_paths(names)
    except OlympiaError:
        # a name that no object can have: told when it is really looked for
        return []
