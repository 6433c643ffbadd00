"""The content of a DeltaCAT table: the files in the committed partitions of its active version.

Plain files list rows. An upsert or a delete changes rows of earlier files, which plain files cannot express. So in a
partition with one of these, only deltas that were appended after the last of them count: no row is imported that
DeltaCAT would not show. A delta without a position in the order does not count either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from olympia_cli.importers.deltacat.metadata import (
    COMMITTED,
    PARQUET,
    Delta,
    DeltaFile,
    Partition,
    Stream,
    TableVersion,
)
from olympia_cli.importers.deltacat.rewrite import DeltaFiles, Piece, PieceFile, why_not
from olympia_cli.importers.deltacat.schemas import with_default
from olympia_cli.importers.deltacat.source import DeltacatSource, Metafile, SourceTable
from olympia_cli.importers.result import ImportAdvice, Omission

T = TypeVar("T")
_NOT_EXPRESSED = "an upsert or delete changes its rows, which plain files cannot say"


class Unreadable(Exception):
    """The content of a table is unknown."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Parquet file of a table: its path in the catalog, its size, the number of rows that it should have, and the
    values of its partition. The values are None if they belong to another partition scheme. A missing file has no size.
    """

    path: str
    size: int | None
    rows: int | None
    values: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a table, and the parts that are left out. `is_torn` says that some of it is unreadable, and
    `rewrites` that rows may be rewritten. Otherwise, `advice` is how to import rows that must be rewritten."""

    version: TableVersion
    files: tuple[SourceFile, ...]
    skipped: tuple[Omission, ...]
    is_torn: bool
    pieces: tuple[Piece, ...] = ()
    advice: ImportAdvice | None = None
    rewrites: bool = False


def contents(
    source: DeltacatSource, table: SourceTable, rewrites: bool = False, was_rewritten: bool = False
) -> Contents:
    """Return the files of a table and, with `rewrites`, the partitions whose rows are to be rewritten. Raise
    Unreadable, with the reason, if they are unknown. If the table was rewritten before, an unknown partition marks the
    content as torn, so that its rows stay."""
    active = table.table.active
    if active is None:
        raise Unreadable("none of its versions is active")
    folders = (*table.file.row.object, active)
    version = _need(table.at(folders), TableVersion, f"its active version {active!a}")
    skipped = _Skipped(None if rewrites else source.rewrite)
    for file in table.below(table.file.row.object):
        if file.row.object != folders and isinstance(file.body, TableVersion) and file.body.state == "active":
            skipped.add(f"version {file.row.object[-1]}", f"version {active} is the latest active one")
    files: list[SourceFile] = []
    pieces: list[Piece] = []
    for file in _partitions(table, folders, skipped):
        partition, name = file.body, f"partition {file.row.object[-1]}"
        if isinstance(partition, str):
            skipped.tear(name, partition)
        elif isinstance(partition, Partition) and partition.state == COMMITTED:
            deltas = sorted(table.below(file.row.object), key=lambda delta: delta.position)
            piece = _piece(source, version, deltas) if rewrites else None
            if isinstance(piece, Piece):
                pieces.append(piece)
                continue
            if isinstance(piece, Unreadable) or (was_rewritten and isinstance(piece, str)):
                skipped.tear(name, f"it is not rewritten: {piece}")
            elif isinstance(piece, str):
                skipped.leave(name, f"it is not rewritten: {piece}", source.compact)
            values = partition.values if partition.scheme == version.scheme else None
            files += _files(source, deltas, values, skipped)
    return Contents(
        version, tuple(files), skipped.omissions(), skipped.is_torn, tuple(pieces), skipped.advice, rewrites
    )


def _partitions(table: SourceTable, version: tuple[str, ...], skipped: _Skipped) -> Iterator[Metafile]:
    streams = []
    for file in table.below(version):
        stream = _need(file, Stream, f"its stream {file.row.object[-1]}")
        if stream.state == COMMITTED and stream.format == "deltacat":
            streams.append(file.row.object)
        elif stream.state == COMMITTED:
            skipped.add(f"stream {file.row.object[-1]}", f"its format is {stream.format!a}")
    if len(streams) > 1:
        raise Unreadable(f"{len(streams)} of its streams are committed")
    for stream_folders in streams:
        yield from table.below(stream_folders)


def _piece(
    source: DeltacatSource, version: TableVersion, deltas: Sequence[Metafile]
) -> Piece | Unreadable | str | None:
    """Return a partition that plain files cannot express as a Piece, or the reason why its rows are unknown. Return
    Unreadable if files of it are missing, and None if plain files express it."""
    bodies = [(file, file.body) for file in deltas if isinstance(file.body, Delta)]
    merges = any(delta.merges for _, delta in bodies)
    entries = [entry for _, delta in bodies for entry in delta.entries]
    needed = merges or bool(with_default(version)) or not all(_is_plain(entry) for entry in entries)
    if not needed or len(bodies) < len(deltas):
        return None
    steps = []
    for file, delta in bodies:
        if merges and delta.previous is None:
            return f"delta {_name(file)} is in no order with its upserts and deletes"
        files = []
        for entry in delta.entries:
            path = source.path_of(entry, file.row.transaction)
            if path is None or (size := source.index.size(path)) is None:
                return Unreadable(f"{entry.url} is not there")
            files.append(PieceFile(path, size, entry))
        steps.append(DeltaFiles(delta.type, tuple(files)))
    return why_not(steps, version) or Piece(tuple(steps))


def _is_plain(entry: DeltaFile) -> bool:
    return entry.content_type == PARQUET and entry.encoding == "identity"


def _files(
    source: DeltacatSource, deltas: Sequence[Metafile], values: tuple[Any, ...] | None, skipped: _Skipped
) -> list[SourceFile]:
    merging = [file for file in deltas if not isinstance(file.body, Delta) or file.body.merges]
    last = merging[-1].position if merging else None
    files = []
    for file in deltas:
        delta, name = file.body, f"delta {_name(file)}"
        if not isinstance(delta, Delta):
            skipped.tear(name, str(delta))
        elif delta.merges:
            merge = "an upsert" if delta.type == "upsert" else "a delete"
            skipped.leave(name, f"it is {merge}, which plain files cannot say")
        elif last is not None and (delta.previous is None or file.position < last):
            skipped.leave(name, _NOT_EXPRESSED)
        else:
            for entry in delta.entries:
                path = source.path_of(entry, file.row.transaction)
                if not _is_plain(entry):
                    packed = "" if entry.encoding == "identity" else f" in {entry.encoding!a}"
                    skipped.leave(entry.url, f"it is {entry.content_type!a}{packed}, and not plain Parquet")
                elif path is None:
                    skipped.add(entry.url, "it lies outside of the catalog")
                else:
                    size = source.index.size(path)
                    if size is None:
                        skipped.add(path, "it is missing")
                    files.append(SourceFile(path, size, entry.rows, values))
    return files


def _name(delta: Metafile) -> str:
    return "/".join(delta.row.object[-2:])


def _need(file: Metafile | None, type: type[T], what: str) -> T:
    if file is None:
        raise Unreadable(f"{what} is not there")
    if not isinstance(file.body, type):
        raise Unreadable(f"{what} cannot be read: {file.body}")
    return file.body


class _Skipped:
    """Parts that are left out, grouped by reason: a table may have a million files."""

    def __init__(self, advice: ImportAdvice | None) -> None:
        self.advice = advice
        self.is_torn = False
        self._parts: dict[str, list[str]] = defaultdict(list)
        self._advice: dict[str, ImportAdvice | None] = {}

    def tear(self, part: str, reason: str) -> None:
        """Add an unreadable part."""
        self.is_torn = True
        self.add(part, f"it cannot be read: {reason}")

    def add(self, part: str, reason: str) -> None:
        self._parts[reason].append(part)

    def leave(self, part: str, reason: str, advice: ImportAdvice | None = None) -> None:
        """Add a part that could be imported if its rows were rewritten, or by other advice."""
        self._advice[reason] = advice or self.advice
        self.add(part, reason)

    def omissions(self) -> tuple[Omission, ...]:
        return tuple(
            Omission(in_few_words(parts), reason, self._advice.get(reason)) for reason, parts in self._parts.items()
        )


def in_few_words(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{parts[0]} and {len(parts) - 1:,} more"
