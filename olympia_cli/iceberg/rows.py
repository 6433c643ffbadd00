"""Read and show rows of a table in this process: append small files, print the first rows."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from olympia_cli.errors import (
    InvalidLocation,
    InvalidOption,
    PathTaken,
    StorageDenied,
    StorageFailed,
    StorageFull,
    command_words,
    quoted,
)
from olympia_cli.iceberg.conversion import table_name
from olympia_cli.iceberg.inventory import arrow_schema, batches
from olympia_cli.names import nearest, quote_part

# Write rows as a folder of Parquet files, as Spark does.

PART = "part-00000.parquet"


def check_folder(folder: str) -> None:
    """Raise an error unless the folder is local, and missing or empty."""
    if "://" in folder and not folder.startswith("file:///"):
        raise InvalidLocation(
            f"{folder[:60]!a} is not a folder of this machine", hint="write there with --engine spark"
        )
    path = _path(folder)
    try:
        taken = os.path.lexists(path) and (not os.path.isdir(path) or bool(os.listdir(path)))
    except (OSError, ValueError):
        raise InvalidLocation(f"{folder[:60]!a} cannot be read", hint="choose another folder") from None
    if taken:
        raise PathTaken(f"{folder} already exists and is not an empty folder", hint="choose another folder")


def write_folder(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], folder: str) -> int:
    """Write the rows and return their number. The file gets its final name once it is complete."""
    check_folder(folder)
    path = _path(folder)
    unfinished = os.path.join(path, f".{PART}.unfinished")
    count = 0
    try:
        os.makedirs(path, exist_ok=True)
        with (
            open(unfinished, "wb") as file,
            pq.ParquetWriter(file, arrow_schema(columns), compression="snappy") as writer,
        ):
            for batch in batches(rows, columns):
                writer.write_batch(batch)
                count += batch.num_rows
        os.rename(unfinished, os.path.join(path, PART))
    except OSError as error:
        raise _explained(error, folder) from None
    finally:
        with suppress(OSError):
            os.unlink(unfinished)
    return count


def _path(folder: str) -> str:
    return os.path.abspath(os.path.expanduser(folder.removeprefix("file://")))


def _explained(error: OSError, folder: str) -> StorageFailed | StorageDenied:
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"{folder}: no space left")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageDenied(f"{folder} may not be written")
    return StorageFailed(f"{folder} cannot be written: {error.strerror or error}")


_TYPES = {
    pyarrow.int32(): "int",
    pyarrow.int64(): "long",
    pyarrow.float64(): "double",
    pyarrow.bool_(): "boolean",
    pyarrow.date32(): "date",
}
"""The Iceberg types of a file's columns. Other types are added as text."""


def read_files(paths: Sequence[str], table: Table) -> pyarrow.Table:
    """Read Parquet and CSV files as rows of the table. Missing columns become null; unknown columns are an error."""
    # without field ids, which belong to this table and would be written into files of other tables
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    name = str(table_name(table.name()))
    return pyarrow.concat_tables([as_columns(schema, _read(path, schema, name), quoted(path), name) for path in paths])


def first_rows(table: Table, count: int) -> Iterator[dict[str, Any]]:
    """Yield up to `count` rows as plain values, in no particular order."""
    left = count
    # PyIceberg cannot join all batches: one file may have a dictionary column that another lacks
    for batch in table.scan(limit=count).to_arrow_batch_reader():
        for row in _shown(batch.slice(0, left)).to_pylist():
            yield {name: plain(value) for name, value in row.items()}
        left -= min(left, batch.num_rows)


def _shown(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Convert times in nanoseconds to text, because Python has no type for them."""
    for at, column in enumerate(batch.schema):
        if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
            text = pyarrow.compute.replace_substring(batch[at].cast(pyarrow.string()), " ", "T")
            batch = batch.set_column(at, column.name, text)
    return batch


def plain(value: Any) -> Any:
    """Return a value as JSON has it. Values without a JSON type become text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
    return str(value)


def _read(path: str, schema: pyarrow.Schema, table: str) -> pyarrow.Table:
    if not os.path.isfile(path):
        what = f"{quoted(path)} is a folder" if os.path.isdir(path) else f"there is no file {quoted(path)}"
        raise InvalidOption(what, hint="give Parquet or csv files")
    is_csv = path.lower().endswith((".csv", ".csv.gz"))
    try:
        if is_csv:
            # only empty fields are null; "NA" and others are literal
            options = pyarrow.csv.ConvertOptions(
                column_types={field.name: field.type for field in schema},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            return pyarrow.csv.read_csv(path, convert_options=options)
        return pyarrow.parquet.read_table(path, partitioning=None)
    except OSError as error:
        raise InvalidOption(
            f"{quoted(path)} cannot be read: {_line(error)}", hint="give Parquet or csv files"
        ) from None
    except pyarrow.ArrowException as error:
        if not is_csv:
            hint = "give Parquet files, and csv files whose names end in .csv"
            raise InvalidOption(f"{quoted(path)} cannot be read as Parquet", hint=hint) from error
        raise _unfit(f"{quoted(path)} cannot be read: {_line(error)}", table) from None


def _unfit(what: str, table: str) -> InvalidOption:
    """Return the error for rows that do not fit the table, with the command that shows the table's columns."""
    if not table:
        return InvalidOption(what, hint="")
    return InvalidOption(
        what, hint="see its columns", command=command_words("table", "show", "--schema", names=[table])
    )


def _unknown_column(where: str, rows: pyarrow.Table, column: str, schema: pyarrow.Schema, table: str) -> InvalidOption:
    what = f"{where} has a column {quoted(column)} that the table lacks"
    if (meant := nearest(column, [name for name in schema.names if name not in rows.column_names])) is not None:
        return InvalidOption(what, hint=f"did you mean {quoted(meant)}?")
    if not table:
        return InvalidOption(what, hint="add it to the table first")
    type = _TYPES.get(rows.schema.field(column).type, "string")
    words = command_words("table", "alter", "--add-column", f"{quote_part(column)} {type}", names=[table])
    return InvalidOption(what, hint="leave it out, or add it to the table first", command=words)


def as_columns(schema: pyarrow.Schema, rows: pyarrow.Table, where: str, table: str = "") -> pyarrow.Table:
    """Return the rows with exactly the table's columns.

    `where` names the source of the rows in messages. `table` is the table's name for the advised command, if there is a
    command line.
    """
    if more := [name for name in rows.column_names if name not in schema.names]:
        raise _unknown_column(where, rows, more[0], schema, table)
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            column = rows.column(field.name)
        elif field.nullable:
            column = pyarrow.nulls(rows.num_rows, field.type)
        else:
            raise _unfit(f"{where} lacks the column {quoted(field.name)}, which must have a value", table)
        if not field.nullable and column.null_count:
            raise _unfit(f"{where} has rows without {quoted(field.name)}, which must have a value", table)
        try:
            columns.append(_cast(column, field.type))
        except (pyarrow.ArrowException, ValueError) as error:
            what = f"the column {quoted(field.name)} of {where} does not fit: {_line(error)}"
            raise _unfit(what, table) from None
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _cast(column: pyarrow.ChunkedArray, wanted: pyarrow.DataType) -> pyarrow.ChunkedArray:
    if str(wanted) == "extension<arrow.uuid>" and str(column.type) in ("string", "large_string"):
        # CSV and Spark have no UUID type
        values = (None if value is None else uuid.UUID(value).bytes for value in column.to_pylist())
        return pyarrow.chunked_array([pyarrow.array(list(values), wanted)])
    return column.cast(wanted)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
