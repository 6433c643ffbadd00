"""The files below a catalog's prefix, as a listing shows them: a partition is a set of ranges of names.

Whether a version reaches a file is not said here: that takes a walk through all the trees, and a join.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.spark.conditions import Conditions
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
"""What names in large folders begin with, alike in number: a uuid, or the low bits of a version."""
_LARGEST, _SHARES = "def/table/", 8
"""Where most files of a large catalog are, and how often it may be read for one listing."""
_FEW = 64
"""Up to so many parts, the first digit of names is enough to tell them apart."""


class FileRange(NamedTuple):
    """Files that begin with a prefix, and lie between two paths."""

    prefix: str
    between: Between = ALL


@dataclass(frozen=True, slots=True)
class FilePart:
    ranges: tuple[FileRange, ...]


def plan_files(uri: str, conditions: Conditions, partitions: int | None, cores: int = 1) -> list[FilePart]:
    """Parts that have all files that are asked for, each of them once.

    A bucket lists in the order of names, so what lies between two of them costs what is there: all names are cut where
    folders begin, and large folders by the first digits of names. What the format does not define lies between two cuts
    like anything else, so nobody pages through all there is. A local folder is read as a whole, whatever is asked of
    it, but its files are looked at one by one, which takes most of the time: so there the largest folder is shared by
    the `cores`.
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
    """Where folders begin, and in large ones the names with each of the first digits."""
    cuts = {folder for folder in _FOLDERS if folder not in _DIGITS}
    for folder, letters in _DIGITS.items():
        # bits say a quarter of what hexadecimal digits do
        begins = product(letters, repeat=digits if letters is _HEX else 4 * digits)
        cuts.update(folder + "".join(begin) for begin in begins)
    return cuts


def _ranges(prefix: str, cuts: set[str]) -> Iterator[FileRange]:
    """What begins with a prefix, cut into pieces."""
    inside = sorted(cut for cut in cuts if cut.startswith(prefix) and cut != prefix)
    for after, until in pairwise([prefix, *inside, None]):
        yield FileRange(prefix, (after or "", until))


def read_files(store: Store, part: FilePart, conditions: Conditions) -> Iterator[dict[str, Any]]:
    """A row for each file of a part. Writes in progress are listed too."""
    for prefix, between in part.ranges:
        for file in store.list(prefix, temporary=True, between=between):
            kind = file_kind(file.path).value
            if conditions.accept("kind", kind):
                yield {"path": file.path, "kind": kind, "bytes": file.size, "modified_at": file.modified_at_millis}
