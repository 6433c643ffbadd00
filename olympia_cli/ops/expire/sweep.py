"""What becomes of each file of a catalog: the one place where that is decided, for a mark and a purge and both engines.

A sweep is a plain value, small however many files there are, and what it must know of a file is a plain value too:
whoever goes through the files can be elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from olympia_cli.format.paths import WIDTH, FileKind, parse_root_path, parse_transaction_path


class FileFate(Enum):
    """What becomes of a file, and why."""

    STAYS = "something that stays needs it, or it is nothing that an expire takes"
    UNKNOWN = "it is not a file of this format: nobody touches it"
    YOUNG = "nothing needs it, and it is too young to say so for sure"
    QUARANTINED = "nothing that stays needs it: it goes into quarantine"
    RESTS = "nothing that stays needs it, and it is in quarantine already"
    PURGED = "it has rested in quarantine, or never was part of history, and nothing needs it: it is deleted"
    RESCUED = "it has rested in quarantine, and something needs it again"
    GONE = "a purge that did not get to its end has deleted it"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of one file."""

    path: str
    kind: FileKind
    modified_at_millis: int | None
    """By the store's clock; None when it was not listed."""
    reached: bool = False
    """By a version that stays, or a pin."""
    recallable: bool = False
    """A version reaches it that is in quarantine and stays there."""
    resting: bool = False
    """A manifest names it."""
    leaving: bool = False
    """A manifest names it whose files are to be deleted."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The versions from `oldest` to `latest` stay, with all that they and the pins reach."""

    oldest: int
    latest: int
    pins: tuple[str, ...]
    """Copies of roots that live transactions and sharing exports need."""
    live_transactions: frozenset[str]
    store_now_millis: int
    grace_millis: int
    manifests: tuple[str, ...] = ()
    """They name files that are in quarantine already, or about to go for good."""
    leaving: frozenset[str] = frozenset()
    """Those of the manifests whose files are to be deleted."""
    purged: int = 0
    """Versions below it cannot be brought back after that."""
    unfinished: bool = False
    """Whether an earlier purge has deleted some of what these manifests name."""
    kinds: tuple[FileKind, ...] = ()
    """What is listed; nothing here is all there is."""

    @property
    def resting_versions(self) -> range:
        """Those that stay in quarantine and can be brought back while others leave it, so all that they reach is
        kept too."""
        return range(self.purged, self.oldest) if self.leaving else range(0)

    def fate(self, file: FileFacts) -> FileFate:
        version = parse_root_path(file.path)
        if file.kind is FileKind.UNKNOWN or file.path.startswith("def/dtxn/") or is_foreign_root(file.path, version):
            return FileFate.UNKNOWN
        if file.kind is FileKind.DATA:
            return FileFate.STAYS
        listed, old = file.modified_at_millis is not None, self.is_old(file.modified_at_millis or 0)
        if file.leaving:
            # an id of a transaction that was used again has a young save at an old name
            if self.needs(file) or (file.kind is FileKind.TRANSACTION and listed and not old):
                return FileFate.RESCUED
            return FileFate.PURGED if listed or not self.unfinished else FileFate.GONE
        if not listed or not self._is_dead(file, version):
            return FileFate.STAYS
        if version is not None and version < self.purged and old and not self.needs(file):
            # written by one that slept, and never part of history
            return FileFate.PURGED
        if file.resting:
            return FileFate.RESTS
        return FileFate.QUARANTINED if old else FileFate.YOUNG

    def needs(self, file: FileFacts) -> bool:
        """Whether something needs a file that is to be deleted: what stays, or what can be brought back."""
        if file.kind is FileKind.TRANSACTION:
            return self._is_alive(file.path)
        return file.reached or file.recallable

    def _is_dead(self, file: FileFacts, version: int | None) -> bool:
        """Whether a file is of no use to what stays."""
        if file.kind in (FileKind.NODE, FileKind.DEFINITION):
            return not file.reached
        if file.kind is FileKind.ROOT:
            return version is not None and version < self.oldest
        if file.kind is FileKind.TRANSACTION:
            return not self._is_alive(file.path)
        return file.kind is FileKind.TEMPORARY

    def _is_alive(self, path: str) -> bool:
        """Whether it is a file of a transaction that lives."""
        parsed = parse_transaction_path(path)
        return parsed is None or parsed[0] in self.live_transactions

    def is_old(self, modified_at_millis: int) -> bool:
        """Whether a file of this time is past the grace period."""
        return has_age(self.store_now_millis, modified_at_millis, self.grace_millis)


def has_age(now_millis: int, since_millis: int, least_millis: int) -> bool:
    # stores tell times to the second in one place and to the millisecond in another
    return least_millis == 0 or now_millis - since_millis >= least_millis


def is_foreign_root(path: str, version: int | None) -> bool:
    """Whether it is named like a root of another program's catalogs."""
    return version is not None and len(path) != len("vn/") + WIDTH
