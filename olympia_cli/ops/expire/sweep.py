"""What becomes of each file of a catalog, by its name and age and whether anything that stays reaches it.

A sweep is a plain value, small however many files there are: whoever goes through the files can be elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from olympia_cli.format.paths import WIDTH, FileKind, parse_root_path, parse_transaction_path


class Fate(Enum):
    STAYS = "stays"
    GOES = "goes"
    UNLESS_REACHED = "unless-reached"
    """It goes unless something that stays reaches it."""
    UNKNOWN = "unknown"
    """Not a file of this format: nobody touches it."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The versions from `oldest` to `latest` stay, with all that they and the pins reach."""

    oldest: int
    latest: int
    pins: tuple[str, ...]
    """Copies of roots that live transactions and sharing exports need."""
    live_transactions: frozenset[str]
    manifests: tuple[str, ...]
    """They name files that are in quarantine already, or about to go for good."""
    store_now_millis: int
    grace_millis: int

    def fate(self, path: str, kind: FileKind) -> Fate:
        version = parse_root_path(path)
        if kind is FileKind.UNKNOWN or path.startswith("def/dtxn/") or is_foreign_root(path, version):
            return Fate.UNKNOWN
        if kind in (FileKind.NODE, FileKind.DEFINITION):
            return Fate.UNLESS_REACHED
        if kind is FileKind.ROOT:
            goes = version is not None and version < self.oldest
        elif kind is FileKind.TRANSACTION:
            parsed = parse_transaction_path(path)
            goes = parsed is not None and parsed[0] not in self.live_transactions
        else:
            goes = kind is FileKind.TEMPORARY
        return Fate.GOES if goes else Fate.STAYS

    def is_old(self, modified_at_millis: int) -> bool:
        """Whether a file of this time is past the grace period."""
        return has_age(self.store_now_millis, modified_at_millis, self.grace_millis)


def has_age(now_millis: int, since_millis: int, least_millis: int) -> bool:
    # stores tell times to the second in one place and to the millisecond in another
    return least_millis == 0 or now_millis - since_millis >= least_millis


def own_version(path: str) -> int | None:
    """The version that a path is the root of in a catalog of this program's, or None."""
    version = parse_root_path(path)
    return None if is_foreign_root(path, version) else version


def is_foreign_root(path: str, version: int | None) -> bool:
    """Whether it is named like a root of another program's catalogs."""
    return version is not None and len(path) != len("vn/") + WIDTH
