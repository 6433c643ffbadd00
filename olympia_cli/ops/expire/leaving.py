"""What is to leave quarantine for good: which manifests, and which files beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from olympia_cli.errors import Damaged
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.ops.expire.files import Going
from olympia_cli.ops.expire.manifest import manifest_of
from olympia_cli.ops.expire.values import PurgePlan
from olympia_cli.storage.protocol import FileInfo


@dataclass(frozen=True, slots=True)
class Leaving:
    """A purge as far as it is known before anybody has looked at the files; see PurgePlan."""

    purged: int
    former_purged: int
    manifests: tuple[str, ...]
    unfinished: tuple[str, ...]
    abandoned: tuple[str, ...]
    parts: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.manifests and not self.unfinished

    @property
    def all_manifests(self) -> tuple[str, ...]:
        """Those whose files go."""
        return (*self.manifests, *self.unfinished)

    def plan(self, files: Going, rescued: int = 0, notes: tuple[str, ...] = ()) -> PurgePlan:
        if self.is_empty:
            # what was abandoned waits for a purge that has something to commit
            return PurgePlan(self.purged, self.purged, (), (), files)
        return PurgePlan(
            purged=self.purged,
            former_purged=self.former_purged,
            manifests=self.manifests,
            unfinished=self.unfinished,
            files=files,
            abandoned=self.abandoned,
            parts=self.parts,
            rescued=rescued,
            notes=notes,
        )


@dataclass(frozen=True, slots=True)
class Left:
    """Manifests, and parts of manifests, that are no longer needed, or will not be."""

    unfinished: tuple[str, ...]
    abandoned: tuple[str, ...]
    parts: tuple[str, ...]


def left_behind(
    listed: Iterable[FileInfo],
    *,
    resting: Collection[str],
    leaving: Collection[str],
    purging: Collection[str],
    old_enough: Callable[[FileInfo], bool],
) -> Left:
    """What is to become of manifests and their parts, given the manifests that rest, those of them that leave, and
    those whose purge was committed.

    A purge that was committed and whose manifest is still there did not end. Any other that no mark in quarantine names
    is of a mark that was undone or never committed; a young one may be of a mark about to be committed. A part shares
    the fate of its manifest, which its name tells: so one that the manifest does not name, because the task that wrote
    it did not come to its end, is kept as long as the others, and goes with them.
    """
    files = [file for file in listed if file_kind(file.path) is FileKind.OPERATION]
    unfinished = {file.path for file in files} & set(purging) - set(resting)
    going = {*leaving, *unfinished}
    parts, abandoned = [], []
    for file in files:
        manifest = manifest_of(file.path)
        if manifest in going:
            parts.append(file.path)
        elif (manifest or file.path) not in resting and file.path not in unfinished and old_enough(file):
            abandoned.append(file.path)
    return Left(tuple(sorted(unfinished)), tuple(sorted(abandoned)), tuple(sorted(parts)))


def unread(error: Damaged) -> str:
    """What it means that a manifest is lost: nothing is deleted that only it names."""
    return f"{error.message}; the next expire finds again what it named"
