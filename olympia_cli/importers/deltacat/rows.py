"""The rows of a file of DeltaCAT, whatever it is written in, under the columns that its table has by now."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq

from olympia_cli.importers.deltacat.bodies import Entry, TableVersion
from olympia_cli.importers.deltacat.msgpack import Malformed, decode
from olympia_cli.importers.deltacat.schemas import DEFAULT, ID, Unfit, arrow_schema, former_names
from olympia_cli.importers.footer_check import check_footer
from olympia_cli.importers.iox.wire import Garbled
from olympia_cli.importers.surviving import survives

_SCHEMA_ID = b"DELTACAT:schema_id"
_ENCODINGS = ("identity", "gzip")


def is_readable(entry: Entry) -> bool:
    return entry.content_type in _READERS and entry.encoding in _ENCODINGS


def read_rows(data: bytes, entry: Entry, version: TableVersion, keys: Sequence[str]) -> pa.Table:
    """The rows of a file; Unfit where it cannot be read, or lacks one of the keys."""
    try:
        return fitted(_read(data, entry, version), version, entry.rows, keys)
    except MemoryError:
        raise  # Arrow's is an ArrowException too, and says nothing of the file
    except (Unfit, Garbled, Malformed, pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise Unfit(" ".join(str(error).split())[:200]) from None


def fitted(rows: pa.Table, version: TableVersion, count: int | None, keys: Sequence[str]) -> pa.Table:
    """The rows of a file, so many if that is said, under the present columns. One that it lacks is empty, or has the
    value that it has for older files. Unfit where its columns are not to be told, or it lacks one of the keys."""
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
            raise Unfit(f"it lacks the column {column.name!a}, by which rows are the same")
        else:
            columns.append(pa.repeat(_default(column), rows.num_rows))
    return pa.table(columns, schema=arrow_schema(version.schema).remove_metadata())


def _columns(schema: pa.Schema, version: TableVersion) -> Mapping[str, int]:
    """Where in a file the present columns are: by their ids if it has them, else by the names that they have or had."""
    assert version.schema is not None
    present = arrow_schema(version.schema)
    ids = [(column.metadata or {}).get(ID) for column in schema]
    if ids and None not in ids:
        by_id = {int(id): at for at, id in enumerate(ids) if id is not None}
        return {
            column.name: by_id[id] for column in present if (id := int((column.metadata or {}).get(ID, -1))) in by_id
        }
    if len(set(schema.names)) < len(schema.names):
        raise Unfit("two of its columns have one name")
    named: dict[int, set[str]] = {}
    for id, name in former_names(version):
        named.setdefault(id, set()).add(name)
    found: dict[str, int] = {}
    for column in present:
        former = named.get(int((column.metadata or {}).get(ID, -1)), set()) - set(present.names)
        names = [name for name in schema.names if name == column.name or name in former]
        if len(names) > 1:
            raise Unfit(f"its columns {names[0]!a} and {names[1]!a} are one column by now")
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
        # newer releases write it so
        value = decode(b64decode(data, validate=True))
    return pa.scalar(value, column.type)


def _read(data: bytes, entry: Entry, version: TableVersion) -> pa.Table:
    if entry.encoding == "gzip":
        with pa.CompressedInputStream(pa.BufferReader(data), "gzip") as stream:
            data = stream.read()
    rows = _READERS[entry.content_type](data, _schema_of(entry, version))
    # what leads out of the file is found here, before it is followed, and text that is none
    rows.validate(full=True)
    return rows


def _schema_of(entry: Entry, version: TableVersion) -> pa.Schema:
    """The schema that a file was written with; the present one where that is not said."""
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
        raise Unfit("it is damaged, and no program survives reading it")
    return read()


def _csv(data: bytes, schema: pa.Schema) -> pa.Table:
    """DeltaCAT writes no names of columns: they are those of the schema, in its order. NULL is an empty cell, and no
    word is: some of its writers put text without quotes. Text may have lines, which Arrow would cut a file at."""
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


_READERS: dict[str, Callable[[bytes, pa.Schema], Any]] = {
    "application/parquet": _parquet,
    "application/feather": lambda data, _: pa.feather.read_table(pa.BufferReader(data)),
    "application/orc": _orc,
    "application/json": _json,
    "text/csv": _csv,
}
