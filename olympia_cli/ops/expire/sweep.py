"""The decision about each file of a catalog, for mark and purge, and for both engines.

A sweep is a small plain value, and so are the facts about a file, so the decision can be made on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from olympia_cli.format.paths import FileKind, is_foreign_root, parse_root_path, parse_transaction_path


class FileFate(Enum):
    """The decision about a file, with the reason."""

    STAYS = "it is in use, or an expire never deletes such files"
    UNKNOWN = "it is not a file of this format: it is never touched"
    YOUNG = "it seems unused, but it is still within the grace period"
    QUARANTINED = "it is unused: it goes into quarantine"
    RESTS = "it is unused, and in quarantine already"
    PURGED = "it was in quarantine, or never part of history, and is unused: it is deleted"
    RESCUED = "it was in quarantine, and is used again"
    GONE = "an unfinished purge has deleted it"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts about one file."""

    path: str
    kind: FileKind
    modified_at_millis: int | None
    """By the store's clock. None if the file was not listed."""
    reached: bool = False
    """A kept version or a pin reaches it."""
    recallable: bool = False
    """A version that stays in quarantine reaches it."""
    resting: bool = False
    """A manifest names it."""
    leaving: bool = False
    """A manifest names it, and the purge deletes that manifest's files."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rules: keep the versions from `oldest` to `latest`, and all files that they and the pins reach."""

    oldest: int
    latest: int
    pins: tuple[str, ...]
    """Copies of roots that live transactions and sharing exports need."""
    live_transactions: frozenset[str]
    store_now_millis: int
    grace_millis: int
    manifests: tuple[str, ...] = ()
    """Manifests of files that are in quarantine, or about to be deleted."""
    leaving: frozenset[str] = frozenset()
    """The manifests whose files are to be deleted."""
    purged: int = 0
    """Versions below it cannot be restored after the purge."""
    unfinished: bool = False
    """True if an earlier purge has deleted some of these files."""
    kinds: tuple[FileKind, ...] = ()
    """The kinds of files to list. All kinds if empty."""
    damaged: int = -1
    """The newest version known to be damaged. The nodes and definitions that it reaches are unknown."""

    @property
    def resting_versions(self) -> range:
        """Versions that stay in quarantine during a purge. They can be restored, so their files are kept."""
        return range(self.purged, self.oldest) if self.leaving else range(0)

    def fate(self, file: FileFacts) -> FileFate:
        version = parse_root_path(file.path)
        if file.kind is FileKind.UNKNOWN or file.path.startswith("def/dtxn/") or is_foreign_root(file.path, version):
            return FileFate.UNKNOWN
        if file.kind is FileKind.DATA:
            return FileFate.STAYS
        listed, old = file.modified_at_millis is not None, self.is_old(file.modified_at_millis or 0)
        if file.leaving:
            # a reused id of a transaction gives a young save with an old name
            if self.needs(file) or (file.kind is FileKind.TRANSACTION and listed and not old):
                return FileFate.RESCUED
            return FileFate.PURGED if listed or not self.unfinished else FileFate.GONE
        if not listed or not self._is_dead(file, version):
            return FileFate.STAYS
        if version is not None and version < self.purged and old and not self.needs(file):
            # written by a process that was suspended, and never part of history
            return FileFate.PURGED
        if file.resting:
            return FileFate.RESTS
        return FileFate.QUARANTINED if old else FileFate.YOUNG

    def needs(self, file: FileFacts) -> bool:
        """Return whether a kept or restorable version, a pin or a transaction needs a file that is to be deleted."""
        if file.kind is FileKind.TRANSACTION:
            return self._is_alive(file.path)
        return file.reached or file.recallable or self._may_reach(file, self.purged if self.leaving else self.oldest)

    def _is_dead(self, file: FileFacts, version: int | None) -> bool:
        """Return whether no kept version, pin or transaction needs the file."""
        if file.kind in (FileKind.NODE, FileKind.DEFINITION):
            return not (file.reached or self._may_reach(file, self.oldest))
        if file.kind is FileKind.ROOT:
            return version is not None and version < self.oldest
        if file.kind is FileKind.TRANSACTION:
            return not self._is_alive(file.path)
        return file.kind is FileKind.TEMPORARY

    def _may_reach(self, file: FileFacts, first: int) -> bool:
        """Return whether a damaged version from `first` on may reach the file."""
        return self.damaged >= first and file.kind in (FileKind.NODE, FileKind.DEFINITION)

    def _is_alive(self, path: str) -> bool:
        """Return whether the file belongs to a live transaction."""
        parsed = parse_transaction_path(path)
        return parsed is None or parsed[0] in self.live_transactions

    def is_old(self, modified_at_millis: int) -> bool:
        """Return whether the file is older than the grace period."""
        return has_age(self.store_now_millis, modified_at_millis, self.grace_millis)


def has_age(now_millis: int, since_millis: int, least_millis: int) -> bool:
    # some stores round times to seconds, others to milliseconds
    return least_millis == 0 or now_millis - since_millis >= least_millis
