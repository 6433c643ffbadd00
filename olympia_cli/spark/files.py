"""The files below a catalog's prefix, as a listing shows them. A partition is a set of ranges of names.

The listing does not say whether a version reaches a file: that takes a walk through all trees, and a join.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.spark.options import Conditions
from olympia_cli.storage.protocol import ALL, Between, Store

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
_DIGITS = {"vn/": "01", **dict.fromkeys(("node/", "def/ns/", "def/table/", "def/view/"), _HEX)}
"""The first characters of names in large folders, about equally frequent: hex digits of a UUID, or the low bits of a
version."""
_LARGEST, _SHARES = "def/table/", 8
"""The folder with most files of a large catalog, and how many times one listing may read it."""
_FEW = 64
"""Up to this many parts, the first digit of names divides folders finely enough."""


class FileRange(NamedTuple):
    """Files whose paths begin with a prefix, and lie between two paths."""

    prefix: str
    between: Between = ALL


@dataclass(frozen=True, slots=True)
class FilePart:
    ranges: tuple[FileRange, ...]


def plan_files(uri: str, conditions: Conditions, partitions: int | None, cores: int = 1) -> list[FilePart]:
    """Divide the files that the conditions accept into parts; each file is in exactly one part.

    A bucket lists in the order of names, so a range costs only the files in it. All names are cut where folders begin,
    and large folders by the first digits of names. Files that the format does not define lie between two cuts like all
    others, so no task pages through the whole bucket.

    A local folder is read as a whole for every range, but most of the time goes into inspecting its files one by one.
    So `cores` tasks share the largest folder there.
    """
    strange = any(conditions.accept("kind", kind.value) for kind in (FileKind.UNKNOWN, FileKind.TEMPORARY))
    folders = [
        folder for folder, holds in _FOLDERS.items() if any(conditions.accept("kind", kind.value) for kind in holds)
    ]
    prefixes = [""] if strange else folders
    number = partitions or PARTITIONS
    if uri.startswith(("s3://", "gs://")):
        cuts = _cuts(1 if number <= _FEW else 2)
    else:
        shares = min(number, cores, _SHARES)
        cuts = {f"{_LARGEST}{_HEX[at * len(_HEX) // shares]}" for at in range(1, shares)}
    ranges = [part for prefix in prefixes for part in _ranges(prefix, cuts)]
    most = min(number, len(ranges))
    return [FilePart(tuple(ranges[at::most])) for at in range(most)]


def _cuts(digits: int) -> set[str]:
    """Return the paths where folders begin and, in large folders, the names with each of the first digits."""
    cuts = {folder for folder in _FOLDERS if folder not in _DIGITS}
    for folder, letters in _DIGITS.items():
        # four bits distinguish as many names as one hexadecimal digit
        begins = product(letters, repeat=digits if letters is _HEX else 4 * digits)
        cuts.update(folder + "".join(begin) for begin in begins)
    return cuts


def _ranges(prefix: str, cuts: set[str]) -> Iterator[FileRange]:
    """Divide the files below a prefix at the cuts."""
    inside = sorted(cut for cut in cuts if cut.startswith(prefix) and cut != prefix)
    for after, until in pairwise([prefix, *inside, None]):
        yield FileRange(prefix, (after or "", until))


def read_files(store: Store, part: FilePart, conditions: Conditions) -> Iterator[dict[str, Any]]:
    """Yield a row per file of a part, including writes in progress."""
    for prefix, between in part.ranges:
        for file in store.list(prefix, temporary=True, between=between):
            kind = file_kind(file.path).value
            if conditions.accept("kind", kind):
                yield {"path": file.path, "kind": kind, "bytes": file.size, "modified_at": file.modified_at_millis}
