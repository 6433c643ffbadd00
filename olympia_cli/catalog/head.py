"""A cache of the latest version."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from olympia_cli.catalog.clock import Clock, Moment, moment
from olympia_cli.catalog.commit import Committed, newer_versions
from olympia_cli.catalog.references import check_no_gap, open_head, open_snapshot
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError, PathMissing, StoreError
from olympia_cli.format.paths import MAX_VERSION, root_path
from olympia_cli.names import Latest, ObjectName
from olympia_cli.storage.protocol import Store

SURE_FOR_MILLIS = 60_000
"""The time after a full lookup during which a missing next root proves that the known version is the latest. An expire
deletes a version after an hour of quarantine at the earliest, so the next version cannot have come and gone."""


class Known(NamedTuple):
    """A version that was the latest, and a moment before it was looked up."""

    snapshot: Snapshot
    looked_at: Moment


class Head:
    """Looks up the latest version. Every result was the latest at some moment after the call began.

    Files never change, so the next version reuses the cached files of the last one. Thread-safe.
    """

    def __init__(self, store: Store, clock: Clock, remembers: bool = True) -> None:
        """Create the cache. Without `remembers`, every call looks up the latest version from the store."""
        self.remembers = remembers
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Known | None = None
        self.made: Snapshot | None = None
        """The version last committed here. Only set without `remembers`."""

    def look(self, names: Sequence[ObjectName] = ()) -> Snapshot:
        """Return the latest version. Nodes on the way to the objects in `names` are read in the same round trips."""
        found = self.still(names) or self._newer()
        if found is None:
            at = moment(self._clock)
            found = open_snapshot(self._store, Latest(), at.wall, names, self._near())
            self._keep(found, at)
        return found

    def look_to_commit(self, names: Sequence[ObjectName] = ()) -> Snapshot:
        """Like `look`, for a commit. Raise Damaged if a commit would close a gap in the history, or take the name of
        a lost version.
        """
        found = self._still_there(names)
        if found is not None and (found.file.hint or 0) > found.version:
            # a hint ahead tells of a lost version, so read it again, with all checks
            found = None
        if found is None and (found := self._newer()) is not None:
            check_no_gap(found)
        if found is None:
            at = moment(self._clock)
            found = open_head(self._store, at.wall, names, self._near())
            self._keep(found, at)
        return found

    def still(self, names: Sequence[ObjectName] = ()) -> Snapshot | None:
        """Return the known version if the next root is missing, which proves that it is still the latest."""
        known = self._sure()
        if known is None or known.version >= MAX_VERSION:
            return None
        after = root_path(known.version + 1, known.file.width)
        wanted = _wanted(known, names)
        if wanted:
            found = dict(self._store.read_many([after, *wanted]))
            _take(known, found, wanted)
            is_last = isinstance(found[after], PathMissing)
        else:
            is_last = not self._store.exists(after)
        # check again: the process may have been suspended before the answer
        return known if is_last and self._sure() is not None else None

    def _still_there(self, names: Sequence[ObjectName]) -> Snapshot | None:
        """Like `still`, for a commit: the next two roots are missing, and the version's own root is unchanged.

        This prevents a commit on a version that is gone, after a forced expire or a restored backup.
        """
        known = self._sure()
        if known is None or known.version + 2 > MAX_VERSION:
            return None
        after = [root_path(known.version + number, known.file.width) for number in (1, 2)]
        wanted = _wanted(known, names)
        found = dict(self._store.read_many([*after, known.file.path, *wanted]))
        _take(known, found, wanted)
        is_last = all(isinstance(found[path], PathMissing) for path in after)
        is_there = found[known.file.path] == known.file.data
        return known if is_last and is_there and self._sure() is not None else None

    def advance(self, done: Committed) -> None:
        """Take a version that was just committed on the version before it."""
        if not self.remembers:
            self.made = done.made or self.made
        known = self._known
        if known is not None and done.made is not None:
            self._keep(done.made, known.looked_at)

    def _newer(self) -> Snapshot | None:
        """Return the latest version if newer versions follow the known one, else None."""
        known = self._known
        if known is None or self._sure() is None:
            return None
        try:
            newer = list(newer_versions(known.snapshot))
        except OlympiaError:
            # a full lookup raises the error
            return None
        if not newer or self._sure() is None:
            return None
        self._keep(newer[-1], known.looked_at)
        return newer[-1]

    def _keep(self, found: Snapshot, at: Moment) -> None:
        if not self.remembers:
            return
        if found.file.beside:
            # files that were missing then may exist at the next lookup
            found.file = replace(found.file, beside={})
        with self._lock:
            known = self._known
            newer = known is None or at.elapsed > known.looked_at.elapsed or found.version > known.snapshot.version
            if newer:
                self._known = Known(found, at)

    def _near(self) -> Snapshot | None:
        return None if self._known is None else self._known.snapshot

    def _sure(self) -> Snapshot | None:
        """Return the known version as long as a missing next root proves it the latest."""
        known = self._known
        if known is None:
            return None
        now, at = moment(self._clock), known.looked_at
        is_sure = now.elapsed - at.elapsed < SURE_FOR_MILLIS and 0 <= now.wall - at.wall < SURE_FOR_MILLIS
        return known.snapshot if is_sure else None


def _take(known: Snapshot, found: Mapping[str, bytes | StoreError], wanted: Sequence[str]) -> None:
    for path in wanted:
        if isinstance(data := found[path], bytes):
            known.keep(path, data)


def _wanted(known: Snapshot, names: Sequence[ObjectName]) -> list[str]:
    try:
        return known.next_paths(names)
    except OlympiaError:
        # raised when the object is looked up
        return []
