"""The tables whose data is looked at, from the definitions that were read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import Damaged
from olympia_cli.format.keys import KeyCodec
from olympia_cli.names import TableName
from olympia_cli.spark.pipelines.place import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA = "namespace string, name string, location string"
_ARROW = pa.schema([pa.field(name, pa.string()) for name in ("namespace", "name", "location")])


def tables_of(definitions: DataFrame, keys: KeyCodec | None) -> DataFrame:
    """The names and the metadata location of each definition of a table."""
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
            if isinstance(name, TableName):
                found.append({"namespace": name.namespace, "name": name.name, "location": row["location"]})
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=_ARROW)
