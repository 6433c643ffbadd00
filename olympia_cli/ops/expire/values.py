"""What an expire plan says: what goes, what stays and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from olympia_cli.errors import Refused
from olympia_cli.ops.expire.files import Going

FLOOR_MILLIS = 3_600_000
"""Neither grace nor quarantine is shorter while writers may be running."""


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A version that stays, and the first reason for it."""

    version: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """What goes into quarantine: versions below `oldest`, and files that nothing kept reaches."""

    oldest: int
    former_oldest: int
    kept_versions: tuple[KeptVersion, ...]
    files: Going
    young: int
    """Files that nothing reaches and that are too young to say so for sure."""
    unknown: int
    unknown_paths: tuple[str, ...]
    damaged: tuple[int, ...] = ()
    """Versions that stay and are known to be damaged: as they may reach anything, no node or definition goes."""
    aside_before: int = 0
    """Versions below it are those of a former catalog, kept aside, and count as damaged."""

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
        return not self.all_manifests

    @property
    def all_manifests(self) -> tuple[str, ...]:
        """Those whose files go."""
        return (*self.manifests, *self.unfinished)

    @property
    def versions(self) -> range:
        return range(self.former_purged, self.purged)

    def describe(self) -> dict[str, Any]:
        return {"versions": list(self.versions), **_described(self.files)}

    def summary(self) -> dict[str, Any]:
        """The same with numbers in place of lists."""
        return {**self.describe(), "versions": len(self.versions)}


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    head: int
    mark: MarkPlan
    purge: PurgePlan

    @property
    def is_empty(self) -> bool:
        return self.mark.is_empty and self.purge.is_empty

    def describe(self) -> dict[str, Any]:
        mark = self.mark
        return {
            "oldest": mark.oldest,
            "expired_versions": list(mark.expired),
            "kept_versions": [asdict(version) for version in mark.kept_versions],
            **_described(mark.files),
            "purged": self.purge.describe(),
            "young_files": mark.young,
            "unknown_files": {"count": mark.unknown, "paths": list(mark.unknown_paths)},
            "damaged_versions": list(mark.damaged),
        }

    def summary(self) -> dict[str, Any]:
        """The same with numbers in place of lists."""
        mark = self.mark
        return {
            "oldest": mark.oldest,
            "expired": len(mark.expired),
            **_described(mark.files),
            "purged": self.purge.summary(),
        }


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What leaves quarantine and is history again: the versions from `oldest` to the one that is the oldest before."""

    marks: int
    oldest: int
    former_oldest: int
    first: int
    """The oldest version that rests."""

    @property
    def is_empty(self) -> bool:
        # a mark may keep out files alone
        return not self.marks or (not self.versions and bool(self.left))

    @property
    def versions(self) -> range:
        return range(self.oldest, self.former_oldest)

    @property
    def left(self) -> range:
        """The versions that stay in quarantine, because not all of them, or of those after them, is there."""
        return range(self.first, self.oldest)


def _described(files: Going) -> dict[str, Any]:
    return {"files": files.totals.describe(), "bytes": files.totals.bytes}


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
