"""Rows as Arrow record batches with exactly the types that Spark expects: it checks them, and converts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map": pa.map_(pa.string(), pa.string()),
    "binary": pa.binary(),
}
ROWS = 4096


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    return pa.schema([pa.field(name, _type(word)) for name, word in columns.items()])


def ddl(columns: Mapping[str, str]) -> str:
    """Return the columns as a Spark DDL schema."""
    return ", ".join(f"{name} {word}" for name, word in columns.items())


def _type(word: str) -> pa.DataType:
    if word.startswith("array<"):
        return pa.list_(_type(word[len("array<") : -1]))
    if word.startswith("struct<"):
        fields = (field.partition(":") for field in word[len("struct<") : -1].split(","))
        return pa.struct([(name, _type(inner)) for name, _, inner in fields])
    return TYPES[word]


def batches(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of at most ROWS rows. Timestamps in `rows` are milliseconds since 1970."""
    schema = arrow_schema(columns)
    rows = iter(rows)
    while batch := list(islice(rows, ROWS)):
        arrays = [_array([row.get(name) for row in batch], word) for name, word in columns.items()]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], word: str) -> pa.Array:
    if word == "timestamp":
        values = [None if value is None else value * 1000 for value in values]
    elif word == "map":
        values = [None if value is None else list(value.items()) for value in values]
    elif word == "string":
        # file names may hold bytes that are not text, and Arrow's strings are text
        values = [value if value is None or value.isascii() else text(value) for value in values]
    return pa.array(values, TYPES[word])


def text(value: str) -> str:
    """Return text that Arrow can hold: `?` replaces characters that UTF-8 cannot encode."""
    return value.encode("utf-8", "replace").decode()
