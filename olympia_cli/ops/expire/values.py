"""What an expire plan says: what goes, what stays and why."""

from __future__ import annotations

from dataclasses import dataclass

from olympia_cli.errors import Refused
from olympia_cli.ops.expire.files import Going

FLOOR_MILLIS = 3_600_000
"""Neither grace nor quarantine is shorter while writers may be running."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A version that stays, and the first reason for it."""

    version: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """What goes into quarantine: versions below `oldest`, and files that nothing kept reaches."""

    oldest: int
    former_oldest: int
    kept: tuple[Kept, ...]
    files: Going
    young: int
    """Files that nothing reaches and that are too young to say so for sure."""
    unknown: int
    unknown_paths: tuple[str, ...]

    @property
    def expired(self) -> range:
        return range(self.former_oldest, self.oldest)

    @property
    def is_empty(self) -> bool:
        return not self.expired and not self.files.totals.files


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What leaves quarantine for good: versions below `purged`, and the files of the manifests that nothing reaches."""

    purged: int
    former_purged: int
    manifests: tuple[str, ...]
    """Of marks that have rested long enough."""
    unfinished: tuple[str, ...]
    """Manifests of an earlier purge that did not get to its end."""
    files: Going
    abandoned: tuple[str, ...] = ()
    """Manifests of marks that were undone, or never committed: they go, and nothing that they name."""
    parts: tuple[str, ...] = ()
    """Files that hold what the manifests name."""
    rescued: int = 0
    """Files of the manifests that something reaches again."""
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.manifests and not self.unfinished


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    head: int
    mark: MarkPlan
    purge: PurgePlan


@dataclass(frozen=True, slots=True)
class Floors:
    """How old a file must be to go, and how long a mark rests."""

    grace_millis: int
    quarantine_millis: int
    offline: bool = False

    def __post_init__(self) -> None:
        if self.offline:
            return
        for what, millis in (("grace period", self.grace_millis), ("quarantine", self.quarantine_millis)):
            if millis < FLOOR_MILLIS:
                raise Refused(
                    f"a {what} below one hour could take files that a writer is about to use",
                    hint="choose 1h or more, or say --offline when no writer is running",
                )
