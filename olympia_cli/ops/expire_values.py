"""What an expire plan says: what goes, what stays and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from olympia_cli.errors import Refused
from olympia_cli.format.paths import FileKind, parse_root_path
from olympia_cli.ops.expire_manifest import Doomed

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
    files: tuple[Doomed, ...]
    young: int
    """Files that nothing reaches and that are too young to say so for sure."""
    unknown: int
    unknown_paths: tuple[str, ...]

    @property
    def expired(self) -> range:
        return range(self.former_oldest, self.oldest)

    @property
    def is_empty(self) -> bool:
        return not self.expired and not self.files


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What leaves quarantine for good: versions below `purged`, and the files of the manifests that nothing reaches."""

    purged: int
    former_purged: int
    manifests: tuple[str, ...]
    """Of marks that have rested long enough."""
    unfinished: tuple[str, ...]
    """Manifests of an earlier purge that did not get to its end."""
    files: tuple[Doomed, ...]
    abandoned: tuple[str, ...] = ()
    """Manifests of marks that were undone, or never committed: they go, and nothing that they name."""
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


def count(files: Iterable[Doomed]) -> dict[str, int]:
    """How many files of each kind."""
    counted = Counter(file.kind for file in files)
    kinds = (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION, FileKind.TRANSACTION, FileKind.TEMPORARY)
    return {
        kind.value + "s" if kind is not FileKind.TEMPORARY else "temporaries": counted[kind.value] for kind in kinds
    }


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


def in_order(files: Iterable[Doomed]) -> tuple[Doomed, ...]:
    """Whatever leads to other files before those: roots, the oldest first, transactions, then nodes and definitions."""
    return tuple(sorted(files, key=lambda file: (_ORDER[file.kind], parse_root_path(file.path) or 0, file.path)))


_ORDER = {
    kind.value: at
    for at, kind in enumerate(
        (FileKind.ROOT, FileKind.TRANSACTION, FileKind.NODE, FileKind.DEFINITION, FileKind.TEMPORARY)
    )
}
