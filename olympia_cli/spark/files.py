"""The files below a catalog's prefix, as a listing shows them: a partition is a set of prefixes.

Whether a version reaches a file is not said here: that takes a walk through all the trees, and a join.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.spark.conditions import Conditions
from olympia_cli.storage.protocol import Store

COLUMNS = {"path": "string", "kind": "string", "bytes": "long", "modified_at": "timestamp"}
PARTITIONS = 16

_HEX = "0123456789abcdef"
_FOLDERS = {
    "vn/": (FileKind.ROOT, FileKind.HINT),
    "node/": (FileKind.NODE,),
    "def/catalog/": (FileKind.DEFINITION,),
    "def/ns/": (FileKind.DEFINITION,),
    "def/table/": (FileKind.DEFINITION,),
    "def/view/": (FileKind.DEFINITION,),
    "def/dtxn/": (FileKind.TRANSACTION,),
    "dtxn/": (FileKind.TRANSACTION,),
    "ops/": (FileKind.OPERATION,),
    "data/": (FileKind.DATA,),
}
# names in them begin with a uuid, or with the low bits of a version: alike in number
_LARGE = {folder: tuple(_HEX) for folder in ("node/", "def/ns/", "def/table/", "def/view/")} | {
    "vn/": ("00", "01", "10", "11", "latest", "oldest")
}


@dataclass(frozen=True, slots=True)
class FilePart:
    """Files that begin with one of the prefixes; `rest` leaves out what begins with one of these."""

    prefixes: tuple[str, ...]
    rest: tuple[str, ...] = ()


def plan_files(uri: str, conditions: Conditions, partitions: int | None) -> list[FilePart]:
    """Parts for the files that the format defines, and one for all others.

    A bucket lists by prefix at the cost of what is below it, so its large folders are divided; a local folder is
    read as a whole whatever is asked of it. What no prefix names costs a listing of everything: it is left out when
    a kind is asked for that has its folders.
    """
    strange = any(conditions.accept("kind", kind.value) for kind in (FileKind.UNKNOWN, FileKind.TEMPORARY))
    local = not uri.startswith(("s3://", "gs://"))
    prefixes = []
    for folder, holds in _FOLDERS.items():
        if strange or any(conditions.accept("kind", kind.value) for kind in holds):
            divided = () if local else _LARGE.get(folder, ())
            prefixes += [folder + begin for begin in divided] or [folder]
    most = min(partitions or PARTITIONS, max(len(prefixes), 1))
    parts = [FilePart(tuple(prefixes[at::most])) for at in range(most)]
    return [*parts, FilePart(("",), tuple(prefixes))] if strange else parts


def read_files(store: Store, part: FilePart, conditions: Conditions) -> Iterator[dict[str, Any]]:
    """A row for each file of a part. Writes in progress are listed too."""
    for prefix in part.prefixes:
        for file in store.list(prefix, temporary=True):
            kind = file_kind(file.path).value
            if not file.path.startswith(part.rest or ("\0",)) and conditions.accept("kind", kind):
                yield {"path": file.path, "kind": kind, "bytes": file.size, "modified_at": file.modified_at_millis}
