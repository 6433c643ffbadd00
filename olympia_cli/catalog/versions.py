"""Find the versions that exist. The only module that reads `vn/latest` and `vn/oldest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from olympia_cli.errors import (
    CatalogNotFound,
    Damaged,
    FileTooLarge,
    PathMissing,
    PathOutside,
    StorageDenied,
    StorageFailed,
    StoreError,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.paths import (
    EXPORT_NOTE,
    JAVA_WIDTH,
    LATEST,
    MAX_VERSION,
    OLDEST,
    SALVAGE_NOTE,
    WIDTH,
    FileKind,
    file_kind,
    parse_root_path,
    root_path,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.storage.protocol import Store

_REMAINS = ("node/", "def/table/", "def/view/", "def/ns/", "dtxn/", "def/dtxn/", "vn/", "ops/")
"""The folders of files that only a catalog has. An init that did not finish leaves a catalog definition, no more."""
_MAX_HINT_BYTES = 2**10
_MOST_INITS = 16
_UNFINISHED = {EXPORT_NOTE: "an export", SALVAGE_NOTE: "a salvage"}


@dataclass(frozen=True, slots=True)
class Hints:
    """The content of the hint files. None means missing or invalid."""

    latest: int | None
    oldest: int | None
    unread: Mapping[str, StoreError] = field(default_factory=dict, compare=False)
    """Errors of hints whose path holds something unreadable, by path."""

    @property
    def start(self) -> int:
        """The version from which to search for the latest."""
        if self.latest is not None and (self.oldest is None or self.latest > self.oldest):
            return self.latest
        return self.oldest or 0


@dataclass(frozen=True, slots=True)
class RootFile:
    """The bytes of a version's root."""

    version: int
    width: int
    path: str
    data: bytes
    hints: Hints | None = None
    """The hints with which this root was found as the latest. None if it was found otherwise."""
    beside: Mapping[str, bytes | StoreError] = field(default_factory=dict, compare=False)
    """Other files that were read in the same round trip."""
    damage: FileTooLarge | None = None
    """Set if the root is too large to read. Its name still counts, and earlier versions remain readable."""

    @classmethod
    def of(cls, version: int, width: int, data: bytes) -> RootFile:
        return cls(version, width, root_path(version, width), data)

    @property
    def java(self) -> bool:
        return self.width == JAVA_WIDTH


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version without a next one. It is the latest if its own root exists."""

    version: int
    width: int
    path: str
    hints: Hints | None
    guess: RootFile | None
    """The root, if it was read before the next one was found missing. It only tells which files to read next."""


def read_hints(store: Store) -> Hints:
    """Read both hints in one round trip. Raise only a failure of the store itself."""
    said: dict[str, int | None] = {}
    unread: dict[str, StoreError] = {}
    for path, data in dict(store.read_many([LATEST, OLDEST])).items():
        if isinstance(data, bytes):
            said[path] = parse_hint(data)
        elif stands_in_place(data):
            unread[path] = data
        elif not isinstance(data, PathMissing | FileTooLarge):
            raise data
    return Hints(said.get(LATEST), said.get(OLDEST), unread)


def stands_in_place(error: StoreError) -> bool:
    """Return True if the error is about the object at a hint's path, not a failure of the store.

    The object may be a folder, a FIFO, a dangling link, or a file without permission. Readers work without the hint.
    """
    if isinstance(error, PathMissing):
        return error.is_dangling
    return isinstance(error, PathOutside | StorageDenied) or (isinstance(error, StorageFailed) and error.is_no_file)


def write_latest(store: Store, version: int) -> None:
    """Write `vn/latest`, best effort."""
    store.write_hint(LATEST, str(version).encode())


# The search for the latest version, in this order:
#
# 1. `candidates` finds a version without a next one.
# 2. `confirm` finds that this version exists.
#
# An expire deletes the oldest versions first. Only in this order do the two answers prove that no newer version exists:
# with both at once, a version that is being purged could pass for the latest.


def read_latest(store: Store) -> RootFile:
    """Read the root of the latest version."""
    for candidate in candidates(store):
        root = confirm(store, candidate)
        if root is not None:
            return root
    return read_listed(store)


def candidates(store: Store) -> Iterator[Candidate]:
    """Yield candidates for the latest version, until the caller has confirmed one.

    Versions are contiguous, so O(log gap) probes find the last one from any version that exists. The hint is only a
    starting point. If that version is missing, an expire may have run meanwhile, or the hints are wrong. Then read the
    hints again, and try safer starting points.
    """
    first = read_hints(store)
    yield from _climb(store, first, first.start, WIDTH)
    again = read_hints(store)
    for width in (WIDTH, JAVA_WIDTH):
        for start in dict.fromkeys((again.start, again.oldest or 0, 0)):
            # a missing start is an upper bound for the search from a lower one
            ceiling = again.start if start < again.start else None
            yield from _climb(store, again, start, width, ceiling)


def confirm(store: Store, candidate: Candidate, paths: Sequence[str] = ()) -> RootFile | None:
    """Return the root of the latest version, with the files at `paths`, or None if the candidate is not the latest."""
    path = candidate.path
    files = dict(store.read_many([path, *paths]))
    data = files.pop(path)
    if isinstance(data, PathMissing):
        return None
    root = RootFile(candidate.version, candidate.width, path, b"", candidate.hints)
    if isinstance(data, FileTooLarge):
        return replace(root, damage=data)
    if isinstance(data, Exception):
        raise data
    return replace(root, data=data, beside=files)


def read_below(store: Store, stray: RootFile) -> RootFile | None:
    """Return the latest root below one that is not part of the history, if probes find one."""
    start = min(read_hints(store).oldest or 0, stray.version - 1)
    for candidate in _climb(store, stray.hints, start, stray.width, stray.version):
        return confirm(store, candidate)
    return None


def read_root(store: Store, version: int, width: int = WIDTH) -> RootFile:
    """Read the root of a version. Raise VersionNotFound if it does not exist."""
    try:
        path = root_path(version, width)
        return RootFile(version, width, path, store.read(path))
    except PathMissing:
        raise VersionNotFound(
            f"version {version} does not exist in {store.uri}",
            hint="list the versions",
            command=("log", "--oneline"),
        ) from None


def catalog_not_found(store: Store) -> CatalogNotFound:
    """The error for a place without a root. Over the remains of a catalog no other one may be made."""
    if remains := what_remains(store):
        reason, hint = f"there is no catalog at {store.uri} that can be opened: it has no root", "see what can be saved"
        return CatalogNotFound(f"{reason}, but {remains}", hint=hint, command=("fsck",))
    hint = "check the location, or create one"
    return CatalogNotFound(f"there is no catalog at {store.uri}", hint=hint, command=("init",))


def what_remains(store: Store) -> str:
    """Name what a place without a root holds of a catalog, in words; empty when it holds nothing."""
    for note, work in _UNFINISHED.items():
        if store.exists(note):
            return f"what {work} that did not finish has written, such as {note}"
    for folder in _REMAINS:
        for file in store.list(folder):
            if file_kind(file.path) not in (FileKind.UNKNOWN, FileKind.TEMPORARY, FileKind.HINT):
                return f"other files of a catalog, such as {file.path}"
    if path := _lived(store):
        return f"definitions of a catalog, such as {path}"
    # anything may stand in the place of a hint
    hints = read_hints(store)
    for path, version in ((LATEST, hints.latest), (OLDEST, hints.oldest)):
        if version is not None:
            return f"{path}, which names version {version}"
    return ""


def _lived(store: Store) -> str:
    """Return the path of a catalog definition that no unfinished init can have left, or an empty string.

    Each init writes one definition, with an id of its own. A catalog that has lived has several with one id.
    Definitions that cannot be read are of no init if there are several.
    """
    listed = list(islice(store.list("def/catalog/"), _MOST_INITS))
    paths = [file.path for file in listed if file_kind(file.path) is FileKind.DEFINITION]
    ids: set[str] = set()
    for file in listed:
        if file.path not in paths:
            continue
        try:
            id = definitions.decode(CatalogDef, store.read(file.path), file.path).id
        except (Damaged, PathMissing):
            id = ""
        if id in ids or (not id and len(paths) > 1) or len(paths) == _MOST_INITS:
            return file.path
        ids.add(id)
    return ""


def last_version(store: Store, start: int, width: int = WIDTH, ceiling: int | None = None) -> int:
    """Return the last version that exists, given one that exists, and optionally one (`ceiling`) that does not."""
    low, high, step = start, ceiling, 1
    while high is None:
        probe = min(start + step, MAX_VERSION)
        if probe == low:
            return low
        if store.exists(root_path(probe, width)):
            low, step = probe, step * 2
        else:
            high = probe
    while high - low > 1:
        middle = (low + high) // 2
        if store.exists(root_path(middle, width)):
            low = middle
        else:
            high = middle
    return low


def first_version(store: Store, missing: int, existing: int, width: int = WIDTH) -> int:
    """Return the first version that exists, between one that is deleted and one that exists."""
    while existing - missing > 1:
        middle = (missing + existing) // 2
        if store.exists(root_path(middle, width)):
            existing = middle
        else:
            missing = middle
    return existing


def _climb(
    store: Store, hints: Hints | None, start: int, width: int, ceiling: int | None = None
) -> Iterator[Candidate]:
    """Yield the last version after `start`, or nothing if `start` does not exist."""
    version, path, guess = start, root_path(start, width), None
    if ceiling is not None:
        if not store.exists(path):
            return
        version = last_version(store, start, width, ceiling)
    elif start < MAX_VERSION:
        here, after = dict(store.read_many([path, root_path(start + 1, width)])).values()
        if isinstance(after, PathMissing):
            if isinstance(here, PathMissing):
                return
            guess = here
        elif isinstance(after, Exception) and not isinstance(after, FileTooLarge):
            raise after
        else:
            version = last_version(store, start + 1, width)
            guess = after if version == start + 1 else None
    if version != start:
        path = root_path(version, width)
    root = RootFile(version, width, path, guess) if isinstance(guess, bytes) else None
    yield Candidate(version, width, path, hints, root)


def read_listed(store: Store) -> RootFile:
    """Find the latest root by listing all of them, the last resort if no hint leads to one."""
    found = {}
    for file in store.list("vn/"):
        version = parse_root_path(file.path)
        if version is not None:
            found[file.path] = (len(file.path) - len("vn/") == WIDTH, version)
    if not found:
        raise catalog_not_found(store)
    path = max(found, key=lambda path: found[path])
    ours, version = found[path]
    width = WIDTH if ours else JAVA_WIDTH
    latest = last_version(store, version, width)
    try:
        return read_root(store, latest, width)
    except FileTooLarge as damage:
        return RootFile(latest, width, root_path(latest, width), b"", damage=damage)


def parse_hint(data: bytes) -> int | None:
    """Return the version in a hint, or None if it is invalid."""
    text = data.strip()
    if not text.isdigit() or len(text) > 10 or len(data) > _MAX_HINT_BYTES:
        return None
    version = int(text)
    return version if version <= MAX_VERSION else None
