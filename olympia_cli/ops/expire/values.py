"""The parts of an expire plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from olympia_cli.errors import Refused
from olympia_cli.ops.expire.files import Going

FLOOR_MILLIS = 3_600_000
"""The least grace period and quarantine while writers may be running."""


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A kept version, and the first reason for it."""

    version: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """The versions and files to move into quarantine: versions below `oldest`, and unused files."""

    oldest: int
    former_oldest: int
    kept_versions: tuple[KeptVersion, ...]
    files: Going
    young: int
    """The number of unused files that are still within the grace period."""
    unknown: int
    unknown_paths: tuple[str, ...]
    damaged: tuple[int, ...] = ()
    """Kept versions known to be damaged. They may reach any file, so no node and no definition goes."""
    aside_before: int = 0
    """Versions below it belong to a former catalog, are kept aside, and count as damaged."""

    @property
    def expired(self) -> range:
        return range(self.former_oldest, self.oldest)

    @property
    def is_empty(self) -> bool:
        return not self.expired and not self.files.totals.files


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The versions and files to delete: versions below `purged`, and unused files of the manifests."""

    purged: int
    former_purged: int
    manifests: tuple[str, ...]
    """The manifests of marks that have been in quarantine long enough."""
    unfinished: tuple[str, ...]
    """The manifests of an earlier purge that did not finish."""
    files: Going
    abandoned: tuple[str, ...] = ()
    """The manifests of marks that were undone or never committed. They are deleted, but not the files that
    they name.
    """
    parts: tuple[str, ...] = ()
    """The parts of the manifests."""
    rescued: int = 0
    """The number of files in the manifests that are used again."""
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.all_manifests

    @property
    def all_manifests(self) -> tuple[str, ...]:
        """The manifests whose files are deleted."""
        return (*self.manifests, *self.unfinished)

    @property
    def versions(self) -> range:
        return range(self.former_purged, self.purged)

    def describe(self) -> dict[str, Any]:
        return {"versions": list(self.versions), **_described(self.files)}

    def summary(self) -> dict[str, Any]:
        """Return `describe` with numbers in place of lists."""
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
        """Return `describe` with numbers in place of lists."""
        mark = self.mark
        return {
            "oldest": mark.oldest,
            "expired": len(mark.expired),
            **_described(mark.files),
            "purged": self.purge.summary(),
        }


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The versions that return from quarantine to history: from `oldest` to `former_oldest`."""

    marks: int
    oldest: int
    former_oldest: int
    first: int
    """The oldest version in quarantine."""

    @property
    def is_empty(self) -> bool:
        # a mark may hold files alone, without versions
        return not self.marks or (not self.versions and bool(self.left))

    @property
    def versions(self) -> range:
        return range(self.oldest, self.former_oldest)

    @property
    def left(self) -> range:
        """The versions that stay in quarantine, because some of their files, or of later versions, are missing."""
        return range(self.first, self.oldest)


def _described(files: Going) -> dict[str, Any]:
    return {"files": files.totals.describe(), "bytes": files.totals.bytes}


@dataclass(frozen=True, slots=True)
class Floors:
    """The minimum age of files to mark or delete, and the time that marks stay in quarantine."""

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
                    hint="choose 1h or more, or pass --offline if no writer is running",
                )
