"""Rows of a table in this process: small files are appended, and the first rows shown."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
import pyarrow.csv
import pyarrow.parquet
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from olympia_cli.errors import InvalidOption


def read_files(paths: Sequence[str], table: Table) -> pyarrow.Table:
    """The rows of Parquet and csv files as the table's columns. A column that a file lacks is empty; one that the table
    lacks is a mistake."""
    # not with the ids of Iceberg's columns: they would be written into the files of another table
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pyarrow.concat_tables([_as(schema, _read(path, schema), path) for path in paths])


def first_rows(table: Table, count: int) -> Iterator[dict[str, Any]]:
    """So many rows, in no particular order, as plain values."""
    left = count
    # not all at once: where one file has a column as a dictionary and another lacks it, PyIceberg cannot join the two
    for batch in table.scan(limit=count).to_arrow_batch_reader():
        for row in _shown(batch.slice(0, left)).to_pylist():
            yield {name: plain(value) for name, value in row.items()}
        left -= min(left, batch.num_rows)


def _shown(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Times in nanoseconds as text: Python has none that fine."""
    for at, column in enumerate(batch.schema):
        if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
            text = pyarrow.compute.replace_substring(batch[at].cast(pyarrow.string()), " ", "T")
            batch = batch.set_column(at, column.name, text)
    return batch


def plain(value: Any) -> Any:
    """A value of a column as JSON has it; what JSON does not have is text."""
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


def _read(path: str, schema: pyarrow.Schema) -> pyarrow.Table:
    try:
        if not os.path.exists(path):
            raise InvalidOption(f"there is no file {path!a}", hint="give Parquet or csv files")
        if path.lower().endswith((".csv", ".csv.gz")):
            # nothing is no value; all else, "NA" too, is what it says
            options = pyarrow.csv.ConvertOptions(
                column_types={field.name: field.type for field in schema},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            return pyarrow.csv.read_csv(path, convert_options=options)
        return pyarrow.parquet.read_table(path, partitioning=None)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidOption(f"{path!a} cannot be read: {_line(error)}", hint="give Parquet or csv files") from None


def _as(schema: pyarrow.Schema, rows: pyarrow.Table, path: str) -> pyarrow.Table:
    if more := [name for name in rows.column_names if name not in schema.names]:
        raise InvalidOption(f"{path!a} has a column {more[0]!a} that the table lacks", hint="add it to the table first")
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            column = rows.column(field.name)
        elif field.nullable:
            column = pyarrow.nulls(rows.num_rows, field.type)
        else:
            raise InvalidOption(f"{path!a} lacks the column {field.name!a}, which must have a value", hint="")
        if not field.nullable and column.null_count:
            raise InvalidOption(f"{path!a} has rows without {field.name!a}, which must have a value", hint="")
        try:
            columns.append(column.cast(field.type))
        except pyarrow.ArrowException as error:
            raise InvalidOption(
                f"the column {field.name!a} of {path!a} does not fit: {_line(error)}", hint=""
            ) from None
    return pyarrow.Table.from_arrays(columns, schema=schema)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
