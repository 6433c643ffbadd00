"""Parquet files below a prefix, as tables: which files make a table, what it is called, and which columns it has.

A table is a folder with Parquet files in it; folders below it that read `column=value` are its partitions, as Hive and
Spark write them. It is named by its folder and the one that this lies in. Nothing here writes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.importers.iceberg import LeftOut
from olympia_cli.importers.renaming import Renaming
from olympia_cli.names import Kind, TableName, as_found
from olympia_cli.storage.protocol import FileInfo

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
    """A file of a table: where it is, how large, and what its path says of it; None is no value."""

    path: str
    size: int
    partition: Mapping[str, str | None]


@dataclass(slots=True)
class ParquetFolder:
    """A table as it lies there. `columns` are the names of its partitions, in the order of the folders."""

    folder: str
    columns: tuple[str, ...]
    files: list[ParquetFile] = field(default_factory=list)


def find_folders(files: Iterable[FileInfo]) -> tuple[list[ParquetFolder], list[LeftOut]]:
    """The tables among files, in the order of their names, and what is left out.

    What begins with `_` or `.` is no data, as Spark has it. Tables of other formats are theirs: a file that lies there
    need not be part of them.
    """
    folders: dict[str, ParquetFolder] = {}
    others: dict[str, str] = {}
    left_out: list[LeftOut] = []
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
            left_out.append(LeftOut(file.path, f"its partitions are not those of the files before it: {shown}"))
        elif not file.size:
            left_out.append(LeftOut(file.path, "it is empty"))
        else:
            table.files.append(ParquetFile(file.path, file.size, partition))
    left_out += [LeftOut(folder or ".", why) for folder, why in sorted(others.items())]
    return [table for table in folders.values() if table.files], left_out


def not_of(catalog: str, prefix: str, files: Iterable[FileInfo]) -> Iterator[FileInfo]:
    """The files below a prefix but for those of a catalog that lies there, or in it: the tables that an import made are
    no source of the next one. Both are the URIs of stores."""
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
    """The folder of the table that a file is in, and its partition values."""
    parts = path.split("/")[:-1]
    partition: list[tuple[str, str | None]] = []
    while parts and (found := _PARTITION.fullmatch(parts[-1])):
        value = unquote(found[2])
        partition.append((unquote(found[1]), None if value == NO_VALUE else value))
        parts.pop()
    return "/".join(parts), dict(reversed(partition))


def name_of(base: str, folder: str, renaming: Renaming) -> TableName:
    """What a table is called: its folder, in the folder that this lies in or the namespace for all."""
    parent, _, name = f"{base}/{folder}".rstrip("/").rpartition("/")
    found = renaming.name(as_found(Kind.TABLE, parent.rpartition("/")[2].removesuffix(".db") or "default", name))
    assert isinstance(found, TableName)
    return found


# Columns


class Conflict(Exception):
    """Two files have different types for one column."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    file: ParquetFile
    metadata: pq.FileMetaData
    schema: pa.Schema


def unite(footers: Iterable[Footer], known: pa.Schema | None = None) -> tuple[pa.Schema, list[Footer], list[LeftOut]]:
    """The columns of all files together, the files that have them so, and those that do not, with the reason. `known`
    is what the table has already; of two files that do not go together the first by name counts."""
    fields: dict[str, pa.DataType] = {} if known is None else {one.name: one.type for one in known}
    fitting: list[Footer] = []
    left_out: list[LeftOut] = []
    first: dict[str, str] = dict.fromkeys(fields, "the table")
    for footer in footers:
        try:
            _check_ids(footer.schema)
            new = dict(fields)
            for column in footer.schema:
                try:
                    new[column.name] = _wider(fields.get(column.name, column.type), column.type)
                except Conflict as conflict:
                    raise Conflict(f"the column {column.name!a} is {conflict} in {first[column.name]}") from None
        except Conflict as conflict:
            left_out.append(LeftOut(footer.file.path, str(conflict)))
            continue
        first |= {name: footer.file.path for name, type in new.items() if fields.get(name) != type}
        fields = new
        fitting.append(footer)
    return pa.schema([pa.field(name, type) for name, type in fields.items()]), fitting, left_out


def _check_ids(schema: pa.Schema) -> None:
    if any(b"PARQUET:field_id" in (column.metadata or {}) for column in schema):
        # readers would go by them, and find other columns
        raise Conflict("its columns have ids, which are those of another table")
    if len(set(schema.names)) != len(schema.names):
        raise Conflict("two of its columns have one name")


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that holds both, as far as Iceberg reads a file of the narrower type as the wider one."""
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
    raise Conflict(f"{other} here, and {one}")


def _plain(type: pa.DataType) -> pa.DataType:
    """A type of which Iceberg has one where Arrow has several."""
    if pa.types.is_integer(type):
        if type in (pa.uint32(), pa.uint64()):
            raise Conflict(f"{type}, which Iceberg does not have,")
        return pa.int64() if type.bit_width == 64 else pa.int32()
    if pa.types.is_timestamp(type):
        if type.unit == "ns":
            raise Conflict(f"{type}, which is finer than Iceberg has,")
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
    """The type of a partition column, from all its values: whole numbers and dates where every value is one exactly as
    it is written, else text."""
    given = [value for value in values if value is not None]
    if given and all(_is_number(value) for value in given):
        return pa.int64()
    return pa.date32() if given and all(_is_date(value) for value in given) else pa.string()


def partition_value(value: str | None, type: pa.DataType) -> object:
    """A value of a partition column; Conflict when it is none of that type."""
    for kind, fits, parse in _VALUES:
        if value is not None and type == kind:
            if not fits(value):
                raise Conflict(f"its path says {value!a}, and the column is {type}")
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


def typed_partitions(folder: ParquetFolder, known: pa.Schema | None, footers: Iterable[Footer]) -> Iterator[pa.Field]:
    """The partition columns of a table: as it has them already, as its files do, or as their values read."""
    inside = {column.name: column.type for footer in footers for column in footer.schema}
    for name in folder.columns:
        if known is not None and name in known.names:
            yield known.field(name)
        elif name in inside:
            yield pa.field(name, _plain(inside[name]))
        else:
            yield pa.field(name, partition_type(file.partition[name] for file in folder.files))
