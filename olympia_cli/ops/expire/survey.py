"""Going through the files of a catalog: what is known of each is brought together, and the sweep is asked about it.

A surveyor is an engine. It distributes and never decides: this one goes through the files in this process.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import FileKind, check_pointer, file_kind, parse_root_path, root_path
from olympia_cli.ops.expire.files import Going, in_order
from olympia_cli.ops.expire.manifest import Doomed, check_deletable, read_manifest, unread
from olympia_cli.ops.expire.sweep import FileFacts, FileFate, Sweep
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.ops.walk.reach import Reach, path_digest
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from olympia_cli.ops.expire.plan import Planner

SHOWN = 20
"""So many of the files are named that the format does not know."""

KeptRoots = Iterable[tuple[int, str, bytes | StoreError]]
"""Version, path and bytes of the roots that stay, the oldest first, or why one cannot be read."""

_LOOK = ("fsck", "--level", "full", "--all-versions")
_FOLDERS = {FileKind.ROOT: "vn/", FileKind.TRANSACTION: "dtxn/"}


@dataclass(frozen=True, slots=True)
class Survey:
    """What becomes of the files that were looked at."""

    created: Sequence[tuple[int, int]]
    """When each version that stays was created, the oldest first."""
    counts: Counter[FileFate]
    quarantined: Going
    purged: Going
    unknown_paths: tuple[str, ...]
    """The first of those that the format does not know."""
    notes: tuple[str, ...]
    """What is wrong with manifests that cannot be read, and with versions in quarantine."""


class Surveyor(Protocol):
    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> Reach:
        """What a planner learns by it of the files that are needed."""
        ...

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> Survey:
        """Read all that is needed, Damaged when some of it is not whole; then ask about each file that is listed or
        that a manifest names. With `files`, those of an earlier plan that are to be deleted, ask about these alone."""
        ...


class LocalSurveyor:
    """Goes through the files in this process."""

    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> Reach:
        return Reach(store, rules, definitions=definitions, progress=progress)

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> Survey:
        """Files are named when they go, and counted when they do not."""
        created = follow_kept(planner, roots)
        sweep, recallable, notes = follow_resting(planner, sweep)
        known_files = KnownFiles(planner.reach, recallable)
        if files is None:
            notes += known_files.read_manifests(planner, sweep)
        counts: Counter[FileFate] = Counter()
        quarantined: list[Doomed] = []
        purged: list[Doomed] = []
        unknown: list[str] = []
        for file, size in _files(planner, sweep, known_files, files):
            fate = sweep.fate(file)
            counts[fate] += 1
            if fate in (FileFate.QUARANTINED, FileFate.PURGED):
                going = quarantined if fate is FileFate.QUARANTINED else purged
                going.append(Doomed(file.path, size, file.kind.value))
            elif fate is FileFate.UNKNOWN:
                insort(unknown, file.path)
                del unknown[SHOWN:]
        return Survey(created, counts, in_order(quarantined), in_order(purged), tuple(unknown), tuple(notes))


LOCAL = LocalSurveyor()


def _files(
    planner: Planner, sweep: Sweep, known_files: KnownFiles, files: Going | None
) -> Iterator[tuple[FileFacts, int]]:
    """What is known of each file, and how large it is: of those that are listed, or that manifests which leave name."""
    if files is None:
        planner.progress.phase("listing files" if sweep.kinds else "listing all files")
        for folder in [_FOLDERS[kind] for kind in sweep.kinds] or [""]:
            for listed in planner.store.list(folder, temporary=True):
                planner.progress.advance()
                named = known_files.leaving.pop(listed.path, None)
                size = listed.size if named is None else named.bytes
                yield known_files.of(listed.path, listed.modified_at_millis, leaving=named is not None), size
    for file in known_files.leaving.values() if files is None else files:
        yield known_files.of(file.path, None, leaving=True), file.bytes


@dataclass(slots=True)
class KnownFiles:
    """What versions reach and manifests name, to be asked about one file at a time. Of most files only a digest is
    kept."""

    reach: Reach
    recallable: set[bytes] = field(default_factory=set)
    """What versions reach that stay in quarantine, and nothing else does."""
    resting: set[bytes] = field(default_factory=set)
    leaving: dict[str, Doomed] = field(default_factory=dict)
    """What the manifests name that leave, each file as the last of them has it."""

    def read_manifests(self, planner: Planner, sweep: Sweep) -> list[str]:
        """What is wrong with those that cannot be read: they name nothing, and the next mark finds it again. Damaged
        when one that leaves names what an expire never deletes."""
        notes = []
        for path in sweep.manifests:
            try:
                manifest = read_manifest(planner.store, check_pointer(path, planner.head.root.catalog_def))
            except Damaged as error:
                notes.append(unread(error))
                continue
            if path in sweep.leaving:
                check_deletable(manifest.files, sweep.purged, path)
                self.leaving |= {file.path: file for file in manifest.files}
            else:
                self.resting.update(path_digest(file.path) for file in manifest.files)
        return notes

    def of(self, path: str, modified_at_millis: int | None, *, leaving: bool = False) -> FileFacts:
        digest = path_digest(path)
        recallable = digest in self.recallable
        reached = not recallable and self.reach.has(digest)
        resting = digest in self.resting
        return FileFacts(path, file_kind(path), modified_at_millis, reached, recallable, resting, leaving)


# The only places in this room that follow trees


def follow_kept(planner: Planner, roots: KeptRoots) -> list[tuple[int, int]]:
    """Read all that the versions that stay, live transactions and sharing exports need; when each version was made.

    A version that is known to be damaged is not followed: the sweep knows that it may reach anything.
    """
    planner.progress.phase("reading what is kept")
    created: list[tuple[int, int]] = []
    try:
        planner.reach.add(_noting(planner, roots, created))
    except Damaged as error:
        hint = "see what is damaged; what is older than the latest version is not in the way once it is acknowledged"
        raise Damaged(error.code, error.path, error.reason, hint=hint, command=_LOOK) from error
    for pin in planner.pins():
        try:
            planner.reach.add([(pin.path, _read(planner, pin.path))])
        except Damaged as error:
            raise pin.needs(error) from error
    return created


def follow_more(planner: Planner, versions: range) -> Iterator[list[str]]:
    """Read what other versions need, too; gives the paths that nothing before reached, in portions."""
    return planner.reach.each(_roots(planner, versions))


def follow_resting(planner: Planner, sweep: Sweep) -> tuple[Sweep, set[bytes], list[str]]:
    """Read what versions need that stay in quarantine while others leave it; the sweep, digests of what nothing that
    stays reaches, and notes.

    Damage there stops nothing. The versions may reach anything, so the sweep then deletes no node and no definition.
    """
    recallable: set[bytes] = set()
    try:
        for new in follow_more(planner, sweep.resting_versions):
            recallable.update(map(path_digest, new))
    except Damaged as error:
        if planner.is_overtaken():
            raise
        newest = sweep.resting_versions[-1]
        effect = "until it is purged, no node and no definition is deleted"
        note = f"a version in quarantine is damaged: {error.message}: {effect}"
        return replace(sweep, damaged=max(sweep.damaged, newest)), recallable, [note]
    return sweep, recallable, []


def _noting(planner: Planner, roots: KeptRoots, created: list[tuple[int, int]]) -> Iterator[tuple[str, bytes]]:
    for version, path, data in roots:
        if version in planner.damaged:
            # it stays, and when it was made is for people alone: where its root cannot be read, when the one before was
            with suppress(Damaged):
                created_at = decode_root(data if isinstance(data, bytes) else b"", path).created_at_millis
                created.append((version, created_at))
                continue
            created.append((version, created[-1][1] if created else 0))
        elif isinstance(data, PathMissing):
            raise Damaged("F101", path, f"version {version} is missing")
        elif isinstance(data, Exception):
            raise data
        else:
            created.append((version, decode_root(data, path).created_at_millis))
            yield path, data


def _read(planner: Planner, path: str) -> bytes:
    try:
        return planner.store.read(path)
    except PathMissing:
        raise Damaged("F201", path, "a copy of a root is missing") from None


def _roots(planner: Planner, versions: range) -> Iterator[tuple[str, bytes]]:
    whole = (version for version in versions if version not in planner.damaged)
    for path, data in planner.store.read_many(root_path(version) for version in whole):
        if isinstance(data, PathMissing):
            raise Damaged("F101", path, f"version {parse_root_path(path)} is missing")
        if isinstance(data, Exception):
            raise data
        yield path, data
