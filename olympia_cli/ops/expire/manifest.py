"""Expire manifests: which files a mark takes out of history, written once, before the mark is committed.

A manifest names the files itself, or it names parts, files beside it that do. Parts are written before it, and one that
it does not name means nothing. A manifest of which a part is not whole is not whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from olympia_cli.errors import Damaged, OlympiaError, PathMissing
from olympia_cli.format.paths import FileKind, file_kind, parse_root_path
from olympia_cli.format.strict_json import read_json
from olympia_cli.names import time_text
from olympia_cli.ops.expire.sweep import is_foreign_root
from olympia_cli.storage.protocol import FileInfo, ReadMany, Store
from olympia_cli.uuids import new_uuid

FOLDER = "ops/expire/"
FORMAT = 1
IN_PARTS = 2
"""The format of a manifest whose files are in parts."""
FILES_A_PART = 100_000
DELETABLE = (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION, FileKind.TRANSACTION, FileKind.TEMPORARY)

_PART = re.compile(rf"({FOLDER}[^./]+)\.[^./]+\.part\.json")
_MANIFEST = "the manifest of an expire"


@dataclass(frozen=True, slots=True)
class Doomed:
    """A file that is to go."""

    path: str
    bytes: int
    kind: str


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """A file that names so many of the files of a manifest."""

    path: str
    files: int


@dataclass(frozen=True, slots=True)
class Manifest:
    path: str
    oldest: int
    former_oldest: int
    files: tuple[Doomed, ...]
    parts: tuple[ManifestPart, ...] = ()
    """Where more of what it names is."""


def new_manifest_path(now_millis: int) -> str:
    return f"{FOLDER}{now_millis}-{new_uuid()}.json"


def new_part_path(manifest: str) -> str:
    """A fresh name. It begins like that of its manifest, so that it is known whose it is when the manifest is gone."""
    return f"{manifest.removesuffix('.json')}.{new_uuid()}.part.json"


def manifest_of(path: str) -> str | None:
    """The manifest that a part belongs to, by its name; None when it is not a part."""
    match = _PART.fullmatch(path)
    return f"{match[1]}.json" if match and file_kind(path) is FileKind.OPERATION else None


def is_manifest(path: str) -> bool:
    """Whether a file has the name of a manifest or of a part of one. No other file is deleted as a manifest."""
    return path.startswith(FOLDER) and file_kind(path) is FileKind.OPERATION


def encode_manifest(catalog_id: str, manifest: Manifest, created_at: str) -> bytes:
    document: dict[str, Any] = {
        "format": IN_PARTS if manifest.parts else FORMAT,
        "catalog": catalog_id,
        "oldest": manifest.oldest,
        "former_oldest": manifest.former_oldest,
        "created_at": created_at,
    }
    if manifest.parts:
        document["parts"] = [asdict(part) for part in manifest.parts]
    else:
        document["files"] = [asdict(file) for file in manifest.files]
    return _encode(document)


def encode_part(manifest: str, files: Iterable[Doomed]) -> bytes:
    return _encode({"format": IN_PARTS, "manifest": manifest, "files": [asdict(file) for file in files]})


def write_narrowed(store: Store, catalog_id: str, manifest: Manifest, oldest: int, now_millis: int) -> str:
    """Write a manifest of what another one names, without the roots of versions from `oldest` on; its path. Other files
    that those versions need stay in it: a purge asks who needs a file."""
    versions = ((file, parse_root_path(file.path)) for file in manifest.files)
    files = tuple(file for file, version in versions if version is None or version < oldest)
    path = new_manifest_path(now_millis)
    parts: list[ManifestPart] = []
    if manifest.parts:
        for start in range(0, len(files), FILES_A_PART):
            names = files[start : start + FILES_A_PART]
            parts.append(ManifestPart(new_part_path(path), len(names)))
            store.create(parts[-1].path, encode_part(path, names))
    narrowed = Manifest(path, oldest, min(manifest.former_oldest, oldest), files, tuple(parts))
    store.create(path, encode_manifest(catalog_id, narrowed, time_text(now_millis)))
    return path


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def read_manifest(store: Store, path: str) -> Manifest:
    """A manifest with all that its parts name; Damaged when it is missing or is not one, or a part of it is not whole.
    What it names is checked before anything is deleted.
    """
    manifest = read_head(store, path)
    return replace(manifest, files=named_files(manifest, store.read_many))


def read_head(store: Store, path: str) -> Manifest:
    """A manifest without what its parts name."""
    try:
        return decode_manifest(store.read(path), path)
    except PathMissing:
        raise Damaged("F906", path, f"{_MANIFEST} is missing") from None


def named_files(manifest: Manifest, read_many: ReadMany) -> tuple[Doomed, ...]:
    """All that a manifest and its parts name."""
    files = list(manifest.files)
    contents = read_many([part.path for part in manifest.parts])
    for part, (_, data) in zip(manifest.parts, contents, strict=True):
        files += decode_part(data, part, manifest.path)
    return tuple(files)


def decode_manifest(data: bytes, path: str) -> Manifest:
    """What the manifest itself says."""
    try:
        document: Any = read_json(data)
        if document["format"] not in (FORMAT, IN_PARTS):
            raise ValueError
        files: tuple[Doomed, ...] = ()
        parts: tuple[ManifestPart, ...] = ()
        if document["format"] == IN_PARTS:
            parts = tuple(ManifestPart(str(part["path"]), int(part["files"])) for part in document["parts"])
            if any(manifest_of(part.path) != path for part in parts):
                raise ValueError
        else:
            files = tuple(_doomed(file) for file in document["files"])
        return Manifest(path, int(document["oldest"]), int(document["former_oldest"]), files, parts)
    except (ValueError, KeyError, TypeError):
        raise Damaged("F906", path, f"it is not {_MANIFEST}") from None


def decode_part(data: bytes | OlympiaError, part: ManifestPart, manifest: str) -> tuple[Doomed, ...]:
    """What a part names, given what was read for it."""
    if isinstance(data, PathMissing):
        raise Damaged("F906", part.path, f"a part of {_MANIFEST} is missing")
    if isinstance(data, Exception):
        raise data
    try:
        document: Any = read_json(data)
        files = tuple(_doomed(file) for file in document["files"])
        if document["format"] != IN_PARTS or document["manifest"] != manifest or len(files) != part.files:
            raise ValueError
        return files
    except (ValueError, KeyError, TypeError):
        raise Damaged("F906", part.path, f"it is not the part of {_MANIFEST} that was written") from None


def _doomed(entry: Any) -> Doomed:
    path, size, kind = str(entry["path"]), int(entry["bytes"]), str(entry["kind"])
    # what is no text, or no number of bytes, cannot go elsewhere to be looked at
    path.encode(), kind.encode()
    if not 0 <= size < 2**63:
        raise ValueError
    return Doomed(path, size, kind)


def check_deletable(files: Iterable[Doomed], oldest: int, holder: str) -> None:
    """Raise Damaged unless each name is that of a file which an expire below `oldest` may delete, and its kind is that
    of the name: it decides in which order files go.

    Manifests are read back from a store, so what they name is not taken on trust.
    """
    for file in files:
        version = parse_root_path(file.path)
        kind = file_kind(file.path)
        fits = kind in DELETABLE and kind.value == file.kind and not file.path.startswith("def/dtxn/")
        if not fits or is_foreign_root(file.path, version) or (version is not None and version >= oldest):
            raise Damaged(
                "F906",
                holder,
                f"it names a file that an expire never deletes: {file.path[:200]!a}",
                hint="nothing of it is deleted; bring back what rests, and expire anew",
                command=("expire", "undo"),
            )


def left_behind(
    listed: Iterable[FileInfo],
    *,
    resting: Collection[str],
    leaving: Collection[str],
    purging: Collection[str],
    old_enough: Callable[[FileInfo], bool],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The unfinished and the abandoned manifests and the parts that go, given the manifests that rest, those of them
    that leave, and those whose purge was committed; see PurgePlan.

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
    return tuple(sorted(unfinished)), tuple(sorted(abandoned)), tuple(sorted(parts))


def unread(error: Damaged) -> str:
    """What it means that a manifest is lost: nothing is deleted that only it names."""
    return f"{error.message}; the next expire finds again what it named"
