"""Expire manifests: which files a mark takes out of history, written once, before the mark is committed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from olympia_cli.errors import Damaged, PathMissing
from olympia_cli.format.paths import WIDTH, FileKind, file_kind, parse_root_path
from olympia_cli.storage.protocol import Store

FOLDER = "ops/expire/"
FORMAT = 1
DELETABLE = (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION, FileKind.TRANSACTION, FileKind.TEMPORARY)


@dataclass(frozen=True, slots=True)
class Doomed:
    """A file that is to go."""

    path: str
    bytes: int
    kind: str


@dataclass(frozen=True, slots=True)
class Manifest:
    path: str
    oldest: int
    former_oldest: int
    files: tuple[Doomed, ...]


def new_manifest_path(now_millis: int) -> str:
    return f"{FOLDER}{now_millis}-{uuid.uuid4()}.json"


def encode_manifest(catalog_id: str, manifest: Manifest, created_at: str) -> bytes:
    document = {
        "format": FORMAT,
        "catalog": catalog_id,
        "oldest": manifest.oldest,
        "former_oldest": manifest.former_oldest,
        "created_at": created_at,
        "files": [asdict(file) for file in manifest.files],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def read_manifest(store: Store, path: str) -> Manifest:
    """A manifest; Damaged when it is missing or is not one. What it names is checked before anything is deleted."""
    try:
        return decode_manifest(store.read(path), path)
    except PathMissing:
        raise Damaged(path, "the manifest of an expire is missing") from None


def decode_manifest(data: bytes, path: str) -> Manifest:
    try:
        found: Any = json.loads(data)
        if found["format"] != FORMAT:
            raise ValueError
        files = tuple(Doomed(str(file["path"]), int(file["bytes"]), str(file["kind"])) for file in found["files"])
        return Manifest(path, int(found["oldest"]), int(found["former_oldest"]), files)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(path, "it is not the manifest of an expire") from None


def check_deletable(files: Iterable[Doomed], oldest: int, holder: str) -> None:
    """Raise Damaged unless each name is that of a file which an expire below `oldest` may delete.

    Manifests are read back from a store, so what they name is not taken on trust.
    """
    for file in files:
        version = parse_root_path(file.path)
        fits = file_kind(file.path) in DELETABLE and not file.path.startswith("def/dtxn/")
        if not fits or (version is not None and (version >= oldest or len(file.path) != len("vn/") + WIDTH)):
            raise Damaged(holder, f"it names a file that an expire never deletes: {file.path[:200]!a}")
