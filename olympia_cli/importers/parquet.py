"""Find tables among the Parquet files below a prefix: their files, names and columns.

A table is a folder with Parquet files. Folders below it named `column=value` are its partitions, as Hive and Spark
write them. A table is named after its folder and the folder above. Nothing here writes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from olympia_cli.catalog.properties import PARQUET_FILES
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.importers.objects import Renaming
from olympia_cli.importers.result import Omission
from olympia_cli.names import Kind, TableName, as_found
from olympia_cli.storage.protocol import FileInfo

# Find the files of a folder that were ever part of its table.
#
# Deletes, overwrites and compactions here remove files from the table, while the folder still has them. They are not
# new files. The snapshots list them. The table also records their number, because snapshots expire.


@dataclass(slots=True)
class PresentFiles:
    """The present and the former data files of a table, with their sizes. `count` is the number of those in the folder,
    and `is_all` says whether they are all that there ever were."""

    present: dict[str, int] = field(default_factory=dict)
    past: dict[str, int] = field(default_factory=dict)
    count: int = 0
    is_all: bool = True
    _seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, table: Table, location: str) -> PresentFiles:
        """Return the files of a table for the folder at `location`. Former files are read only if the present ones are
        not all."""
        known, current = cls(), table.current_snapshot()
        noted = table.properties.get(PARQUET_FILES, "")
        if current is not None:
            known._read(table, current, known.present)
        known._count(location)
        if noted == str(known.count):
            return known
        is_lost = False
        for snapshot in table.snapshots():
            try:
                known._read(table, snapshot, known.past)
            except FileNotFoundError:
                # a manifest was deleted; the other snapshots may still be complete
                is_lost = True
        for path in known.present:
            known.past.pop(path, None)
        known._count(location)
        if noted.isascii() and noted.isdigit() and len(noted) < 19 and known.count <= int(noted):
            known.is_all = known.count == int(noted)
        else:
            # another program has added files of the folder, or the number is missing: then no snapshot may be missing
            known.is_all = not is_lost and _goes_back_to_the_first(table)
        return known

    def __contains__(self, path: str) -> bool:
        return path in self.present or path in self.past

    def _count(self, location: str) -> None:
        self.count = sum(path.startswith(f"{location}/") for files in (self.present, self.past) for path in files)

    def _read(self, table: Table, snapshot: Snapshot, into: dict[str, int]) -> None:
        """Read the manifests of a snapshot that were not read yet, with their entries of deleted files."""
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in self._seen:
                continue
            self._seen.add(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                files = self.past if entry.status is ManifestEntryStatus.DELETED else into
                files[entry.data_file.file_path] = entry.data_file.file_size_in_bytes


def _goes_back_to_the_first(table: Table) -> bool:
    """Return True if no snapshot before the current one is missing. An expiry may remove the reference to a parent, so
    the oldest snapshot counts only with sequence number 1."""
    snapshot = table.current_snapshot()
    while snapshot is not None and snapshot.parent_snapshot_id is not None:
        snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id)
    return snapshot is not None and snapshot.sequence_number == 1


NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PARTITION = re.compile("([^=/]+)=([^/]*)")
_FORMATS = (
    (
        re.compile(r"(?:(.*)/)?metadata/[^/]*\.metadata\.json(?:\.gz)?"),
        "it is an Iceberg table: olympia import iceberg",
    ),
    (re.compile(r"(?:(.*)/)?_delta_log/.*"), "it is a Delta table, whose log says which files count"),
    (re.compile(r"(?:(.*)/)?\.hoodie/.*"), "it is a Hudi table, whose log says which files count"),
)


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A file of a table: its path, its size, and the partition values in its path; None is a missing value."""

    path: str
    size: int
    partition: Mapping[str, str | None]


@dataclass(slots=True)
class ParquetFolder:
    """The folder of a table. `columns` are the names of its partitions, in the order of the folders."""

    folder: str
    columns: tuple[str, ...]
    files: list[ParquetFile] = field(default_factory=list)


def find_folders(files: Iterable[FileInfo]) -> tuple[list[ParquetFolder], list[Omission]]:
    """Return the tables among files in name order, and what is left out.

    Names that begin with `_` or `.` are not data, as in Spark. Folders of other table formats are left out as a whole,
    because a file there need not be part of its table.
    """
    folders: dict[str, ParquetFolder] = {}
    others: dict[str, str] = {}
    left_out: list[Omission] = []
    listed = sorted(files, key=lambda file: file.path)
    for file in listed:
        for pattern, why in _FORMATS:
            if found := pattern.fullmatch(file.path):
                others.setdefault(found[1] or "", why)
    for file in listed:
        if not file.path.endswith((".parquet", ".parq")) or _is_hidden(file.path):
            continue
        folder, partition = _split(file.path)
        if others and any(above in others for above in _and_above(folder)):
            continue
        columns = tuple(partition)
        table = folders.setdefault(folder, ParquetFolder(folder, columns))
        if columns != table.columns:
            shown = "/".join(table.columns) or "none"
            left_out.append(Omission(file.path, f"its partitions are not those of the files before it: {shown}"))
        elif not file.size:
            left_out.append(Omission(file.path, "it is empty"))
        else:
            table.files.append(ParquetFile(file.path, file.size, partition))
    left_out += [Omission(folder or ".", why) for folder, why in sorted(others.items())]
    return [table for table in folders.values() if table.files], left_out


def without_catalog(catalog: str, prefix: str, files: Iterable[FileInfo]) -> Iterator[FileInfo]:
    """Yield the files below a prefix, without those of a catalog at or below it: tables of one import are not a source
    of the next. Both are URIs of stores."""
    inside = f"{catalog.removeprefix(prefix).strip('/')}/"
    for file in files:
        if catalog == prefix and file_kind(file.path) is not FileKind.UNKNOWN:
            continue
        if catalog.startswith(f"{prefix.rstrip('/')}/") and file.path.startswith(inside):
            continue
        yield file


def _is_hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) and not _PARTITION.fullmatch(part) for part in path.split("/"))


def _and_above(folder: str) -> Iterator[str]:
    yield ""
    for at, letter in enumerate(f"{folder}/"):
        if letter == "/":
            yield folder[:at]


def _split(path: str) -> tuple[str, dict[str, str | None]]:
    """Return the folder of the table of a file, and the file's partition values."""
    parts = path.split("/")[:-1]
    partition: list[tuple[str, str | None]] = []
    while parts and (found := _PARTITION.fullmatch(parts[-1])):
        value = unquote(found[2])
        partition.append((unquote(found[1]), None if value == NO_VALUE else value))
        parts.pop()
    return "/".join(parts), dict(reversed(partition))


def name_of(base: str, folder: str, renaming: Renaming) -> TableName:
    """Return the name of a table: its folder, in the folder above or in the namespace for all."""
    parent, _, name = f"{base}/{folder}".rstrip("/").rpartition("/")
    found = renaming.name(as_found(Kind.TABLE, parent.rpartition("/")[2].removesuffix(".db") or "default", name))
    assert isinstance(found, TableName)
    return found


# Columns


class TypeConflict(Exception):
    """Two files have different types for one column."""


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """The description that a file has of itself."""

    file: ParquetFile
    metadata: pq.FileMetaData
    schema: pa.Schema


def unite(
    footers: Iterable[ParquetFooter], known: pa.Schema | None = None
) -> tuple[pa.Schema, list[ParquetFooter], list[Omission]]:
    """Return the columns of all files together, the files that fit them, and the files that do not, with the reason.
    `known` is the schema that the table already has. If two files conflict, the first by name counts."""
    fields: dict[str, pa.DataType] = {} if known is None else {one.name: one.type for one in known}
    fitting: list[ParquetFooter] = []
    left_out: list[Omission] = []
    first: dict[str, str] = dict.fromkeys(fields, "the table")
    for footer in footers:
        try:
            _check_ids(footer.schema)
            new = dict(fields)
            for column in footer.schema:
                try:
                    new[column.name] = _wider(fields.get(column.name, column.type), column.type)
                except TypeConflict as conflict:
                    raise TypeConflict(f"the column {column.name!a} is {conflict} in {first[column.name]}") from None
        except TypeConflict as conflict:
            left_out.append(Omission(footer.file.path, str(conflict)))
            continue
        first |= {name: footer.file.path for name, type in new.items() if fields.get(name) != type}
        fields = new
        fitting.append(footer)
    return pa.schema([pa.field(name, type) for name, type in fields.items()]), fitting, left_out


def _check_ids(schema: pa.Schema) -> None:
    if any(b"PARQUET:field_id" in (column.metadata or {}) for column in schema):
        # readers match columns by ids, and would find other columns
        raise TypeConflict("its columns have ids, which are those of another table")
    if len(set(schema.names)) != len(schema.names):
        raise TypeConflict("two of its columns have one name")


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds both, if Iceberg reads a file of the narrower type as the wider one."""
    one, other = _plain(one), _plain(other)
    if one == other:
        return one
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    if pa.types.is_floating(one) and pa.types.is_floating(other):
        return pa.float64()
    if pa.types.is_decimal(one) and pa.types.is_decimal(other) and one.scale == other.scale:
        return pa.decimal128(max(one.precision, other.precision), one.scale)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        inner = {column.name: column.type for column in one}
        for column in other:
            inner[column.name] = _wider(inner.get(column.name, column.type), column.type)
        return pa.struct(list(inner.items()))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_wider(one.value_type, other.value_type))
    raise TypeConflict(f"{other} here, and {one}")


def _plain(type: pa.DataType) -> pa.DataType:
    """Return the one type that Iceberg has where Arrow has several."""
    if pa.types.is_integer(type):
        if type in (pa.uint32(), pa.uint64()):
            raise TypeConflict(f"{type}, which Iceberg does not have,")
        return pa.int64() if type.bit_width == 64 else pa.int32()
    if pa.types.is_timestamp(type):
        if type.unit == "ns":
            raise TypeConflict(f"{type}, which is finer than Iceberg has,")
        return pa.timestamp("us", None if type.tz is None else "UTC")
    if pa.types.is_large_string(type):
        return pa.string()
    if pa.types.is_large_binary(type):
        return pa.binary()
    if pa.types.is_large_list(type):
        return pa.list_(_plain(type.value_type))
    if pa.types.is_dictionary(type):
        return _plain(type.value_type)
    return type


def partition_type(values: Iterable[str | None]) -> pa.DataType:
    """Return the type of a partition column: a whole number or a date if every value is written exactly as one, else
    text."""
    given = [value for value in values if value is not None]
    if given and all(_is_number(value) for value in given):
        return pa.int64()
    return pa.date32() if given and all(_is_date(value) for value in given) else pa.string()


def partition_value(value: str | None, type: pa.DataType) -> object:
    """Convert a value of a partition column. Raise TypeConflict if it is not of that type."""
    for kind, fits, parse in _VALUES:
        if value is not None and type == kind:
            if not fits(value):
                raise TypeConflict(f"its path says {value!a}, and the column is {type}")
            return parse(value)
    return value


def _is_number(value: str) -> bool:
    return bool(re.fullmatch("0|-?[1-9][0-9]{0,17}", value))


def _is_date(value: str) -> bool:
    try:
        return datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


_VALUES: tuple[tuple[pa.DataType, Callable[[str], bool], Callable[[str], object]], ...] = (
    (pa.int64(), _is_number, int),
    (pa.int32(), _is_number, int),
    (pa.date32(), _is_date, datetime.date.fromisoformat),
)


def typed_partitions(
    folder: ParquetFolder, known: pa.Schema | None, footers: Iterable[ParquetFooter]
) -> Iterator[pa.Field]:
    """Yield the partition columns of a table, with the type in the table, else in its files, else of their values."""
    inside = {column.name: column.type for footer in footers for column in footer.schema}
    for name in folder.columns:
        if known is not None and name in known.names:
            yield known.field(name)
        elif name in inside:
            yield pa.field(name, _plain(inside[name]))
        else:
            yield pa.field(name, partition_type(file.partition[name] for file in folder.files))
