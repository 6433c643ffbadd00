"""The tables and views whose data is looked at, from the definitions that were read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import Damaged
from olympia_cli.format.keys import KeyCodec
from olympia_cli.names import TableName, ViewName
from olympia_cli.spark.pipelines.place import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = pa.schema([pa.field(name, pa.string()) for name in ("kind", "namespace", "name", "location")])
_SCHEMA = ", ".join(f"{name} string" for name in COLUMNS.names)


def tables_of(definitions: DataFrame, keys: KeyCodec | None) -> DataFrame:
    """The kind, the names and the metadata location of each definition that has any."""
    tables = definitions.where("location is not null").selectExpr("location", "explode(keys) as key").distinct()
    return tables.mapInArrow(partial(_names, keys), _SCHEMA)


def _names(keys: KeyCodec | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = []
        for row in rows_of([batch]):
            try:
                name = keys.decode(row["key"], "") if keys is not None else None
            except Damaged:
                continue
            if isinstance(name, TableName | ViewName):
                found.append((name.kind.word, name.namespace, name.name, row["location"]))
        if found:
            columns = [pa.array(column, pa.string()) for column in zip(*found, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=COLUMNS)
