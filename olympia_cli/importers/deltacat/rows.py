"""Read the rows of a DeltaCAT file, in any of its formats, with the present columns of its table."""

from __future__ import annotations

import faulthandler
import os
import signal
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq

from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.iceberg import AvroRecords
from olympia_cli.importers.deltacat.metadata import DeltaFile, Malformed, TableVersion, decode
from olympia_cli.importers.deltacat.schemas import DEFAULT, ID, Unfit, arrow_schema, column_ids, former_names
from olympia_cli.importers.footers import check_footer
from olympia_cli.importers.wire import Garbled

# Read files that may crash the process: on a damaged ORC file, Arrow's reader can follow offsets out of its memory.

_SECONDS = 600
"""Time limit for reading a file of a table: a reader in an endless loop ends then."""


def survives(read: Callable[[], object]) -> bool:
    """Return True if a process survives `read`, tried in a fork of this one. An exception in the fork counts as
    survival: the caller gets it again when it reads. Raise MemoryError if the machine has no memory for a fork, or
    kills it."""
    if not hasattr(os, "fork"):
        return True
    try:
        copy = os.fork()
    except OSError as error:
        raise MemoryError(str(error)) from None
    if copy == 0:
        with suppress(BaseException):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_SECONDS)
            # discard the output of the reader and of Python
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            read()
        os._exit(0)
    _, status = os.waitpid(copy, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        # only a machine that is out of memory kills a process with this signal, whatever it reads
        raise MemoryError("it was killed")
    return not os.WIFSIGNALED(status)


_SCHEMA_ID = b"DELTACAT:schema_id"
_ENCODINGS = ("identity", "gzip")
_RECORDS_AT_ONCE = 2**14


def is_readable(entry: DeltaFile) -> bool:
    return entry.content_type in _READERS and entry.encoding in _ENCODINGS


def read_rows(data: bytes, entry: DeltaFile, version: TableVersion, keys: Sequence[str]) -> pa.Table:
    """Return the rows of a file. Raise Unfit if it is unreadable, or lacks one of the keys."""
    try:
        return fitted(_read(data, entry, version), version, entry.rows, keys)
    except MemoryError:
        raise  # Arrow's is an ArrowException too, and says nothing of the file
    except (Unfit, Garbled, Malformed, pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise Unfit(" ".join(str(error).split())[:200]) from None


def fitted(rows: pa.Table, version: TableVersion, count: int | None, keys: Sequence[str]) -> pa.Table:
    """Return the rows of a file with the present columns. A missing column is empty, or has its value for older files.
    Raise Unfit if the file has another number of rows than `count`, its columns are ambiguous, or it lacks one of the
    keys."""
    assert version.schema is not None
    if count is not None and rows.num_rows != count:
        raise Unfit(f"it has {rows.num_rows:,} of the {count:,} rows that its manifest says")
    there = _columns(rows.schema, version)
    columns = []
    for column in arrow_schema(version.schema):
        at = there.get(column.name)
        if at is not None:
            columns.append(rows.column(at).cast(column.type))
        elif column.name in keys:
            raise Unfit(f"it lacks the column {column.name!a}, which is a merge key")
        else:
            columns.append(pa.repeat(_default(column), rows.num_rows))
    return pa.table(columns, schema=arrow_schema(version.schema).remove_metadata())


def _columns(schema: pa.Schema, version: TableVersion) -> Mapping[str, int]:
    """Return the positions of the present columns in a file: by their ids if these count, else by their present or
    former names."""
    assert version.schema is not None
    present = arrow_schema(version.schema)
    ids = column_ids(list(schema), version)
    if ids is not None:
        by_id = {id: at for at, id in enumerate(ids)}
        return {
            column.name: by_id[id] for column in present if (id := int((column.metadata or {}).get(ID, -1))) in by_id
        }
    if len(set(schema.names)) < len(schema.names):
        raise Unfit("two of its columns have one name")
    named: dict[int, set[str]] = {}
    for id, name in former_names(version):
        named.setdefault(id, set()).add(name)
    if any(ID in (column.metadata or {}) for column in schema):
        # the ids are wrong: a column of an unknown name may be one that the table has under another one
        strange = set(schema.names) - set(present.names) - set().union(*named.values())
        if strange:
            raise Unfit(f"the ids of its columns are wrong, and the table has no column {min(strange)!a}")
    found: dict[str, int] = {}
    for column in present:
        former = named.get(int((column.metadata or {}).get(ID, -1)), set()) - set(present.names)
        names = [name for name in schema.names if name == column.name or name in former]
        if len(names) > 1:
            raise Unfit(f"its columns {names[0]!a} and {names[1]!a} are now one column of the table")
        if names:
            found[column.name] = schema.names.index(names[0])
    return found


def _default(column: pa.Field) -> pa.Scalar:
    data = (column.metadata or {}).get(DEFAULT)
    if data is None:
        return pa.scalar(None, column.type)
    try:
        value = decode(data)
    except Malformed:
        # newer releases encode it as Base64
        value = decode(b64decode(data, validate=True))
    return pa.scalar(value, column.type)


def _read(data: bytes, entry: DeltaFile, version: TableVersion) -> pa.Table:
    if entry.encoding == "gzip":
        with pa.CompressedInputStream(pa.BufferReader(data), "gzip") as stream:
            data = stream.read()
    rows = _READERS[entry.content_type](data, _schema_of(entry, version))
    # this finds offsets beyond the file before they are followed, and text that is not UTF-8
    rows.validate(full=True)
    return rows


def _schema_of(entry: DeltaFile, version: TableVersion) -> pa.Schema:
    """Return the schema with which a file was written; the present one if that is not stated."""
    assert version.schema is not None
    for data in version.schemas:
        schema = arrow_schema(data)
        if entry.schema is not None and (schema.metadata or {}).get(_SCHEMA_ID) == str(entry.schema).encode():
            return schema
    return arrow_schema(version.schema)


def _parquet(data: bytes, schema: pa.Schema) -> pa.Table:
    length = int.from_bytes(data[-8:-4], "little") + 8
    check_footer(memoryview(data)[-length:-8])
    return pq.read_table(pa.BufferReader(data))


def _orc(data: bytes, schema: pa.Schema) -> pa.Table:
    def read() -> pa.Table:
        return pa.orc.read_table(pa.BufferReader(data))

    if not survives(read):
        raise Unfit("it is damaged, and reading it crashes the reader")
    return read()


def _csv(data: bytes, schema: pa.Schema) -> pa.Table:
    """Read CSV as DeltaCAT writes it. It has no header: the columns are those of the schema, in order. NULL is an empty
    cell, and no word means NULL: some of its writers put text without quotes. Text may contain newlines, at which Arrow
    would otherwise split a file."""
    return pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(column_names=schema.names),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types={column.name: column.type for column in schema},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _json(data: bytes, schema: pa.Schema) -> pa.Table:
    plain = pa.schema([pa.field(column.name, column.type) for column in schema])
    return pa.json.read_json(pa.BufferReader(data), parse_options=pa.json.ParseOptions(explicit_schema=plain))


def _avro(data: bytes) -> pa.Table:
    """Read the records in parts: as Python objects they take many times the memory of a column."""
    try:
        records = AvroRecords(data, "", None)
        type, convert = _avro_type(records.schema)
        rows, parts = iter(records), []
        while some := list(islice(rows, _RECORDS_AT_ONCE)):
            parts.append(pa.array(map(convert, some), type))
    except (Damaged, Unsupported) as error:
        raise Unfit(error.message.removeprefix(": ")) from None
    except (OverflowError, TypeError, RecursionError) as error:
        raise Unfit(f"its records are garbled: {error}") from None
    if not pa.types.is_struct(type):
        raise Unfit("it holds no records")
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(part) for part in parts], pa.schema(list(type)))


_Convert = Callable[[Any], Any]
_AVRO = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_AVRO_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


def _avro_type(schema: Any) -> tuple[pa.DataType, _Convert]:
    """Return the Arrow type for an Avro type, and the function that converts its values. Raise Unfit for a named type
    that is used again, and for a union of several types: DeltaCAT writes neither."""
    match schema:
        case str() if schema in _AVRO:
            return _AVRO[schema], _same
        case [*branches] if len(given := [one for one in branches if one != "null"]) == 1:
            return _avro_type(given[0])
        case {"type": dict() | list() as inner}:
            return _avro_type(inner)
        case {"type": "bytes" | "fixed", "logicalType": "decimal", "precision": int(digits)} if 0 < digits <= 76:
            scale = int(schema.get("scale", 0))
            type = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, scale)
            return type, lambda value: None if value is None else _decimal(value, scale)
        case {"type": "fixed", "size": int(size)}:
            return pa.binary(size), _same
        case {"type": "enum", "symbols": list(symbols)}:
            return pa.string(), lambda value: None if value is None else _symbol(symbols, value)
        case {"type": "array", "items": items}:
            type, convert = _avro_type(items)
            return pa.list_(type), _each(convert)
        case {"type": "map", "values": values}:
            type, convert = _avro_type(values)
            pairs = _each(lambda pair: (pair[0], convert(pair[1])))
            return pa.map_(pa.string(), type), lambda value: pairs(None if value is None else value.items())
        case {"type": "record", "fields": list(fields)}:
            inner = {str(field["name"]): _avro_type(field["type"]) for field in fields}
            if len(inner) < len(fields):
                raise Unfit("two of its columns have one name")
            return pa.struct([(name, type) for name, (type, _) in inner.items()]), _record_of(
                {name: convert for name, (_, convert) in inner.items()}
            )
        case {"type": str(plain)} if plain in _AVRO:
            return _AVRO_LOGICAL.get((plain, schema.get("logicalType")), _AVRO[plain]), _same
    raise Unfit(f"it has a type that is not read here: {str(schema)[:60]}")


def _same(value: Any) -> Any:
    return value


def _decimal(value: bytes, scale: int) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _symbol(symbols: Sequence[Any], at: int) -> Any:
    if not 0 <= at < len(symbols):
        raise ValueError("a symbol that its type does not have")
    return symbols[at]


def _each(convert: _Convert) -> _Convert:
    return lambda values: None if values is None else [convert(value) for value in values]


def _record_of(converts: Mapping[str, _Convert]) -> _Convert:
    if all(convert is _same for convert in converts.values()):
        return _same
    return lambda value: None if value is None else {name: convert(value[name]) for name, convert in converts.items()}


_READERS: dict[str, Callable[[bytes, pa.Schema], Any]] = {
    "application/parquet": _parquet,
    "application/avro": lambda data, _: _avro(data),
    "application/feather": lambda data, _: pa.feather.read_table(pa.BufferReader(data)),
    "application/orc": _orc,
    "application/json": _json,
    "text/csv": _csv,
}
