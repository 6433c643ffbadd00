"""Private members of PyIceberg that have no public equivalent, each in one line, checked with PyIceberg 0.9.1 and 0.12.

Subclasses also override some: `OlympiaCatalog` those of `MetastoreCatalog`, `format_v3` those of `ManifestWriterV2`,
and `importers/parquet_tables` one of `Transaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate

if TYPE_CHECKING:
    import pyarrow
    from pyiceberg.manifest import DataFile

_NONE: Mapping[str, str] = {}


def metadata_number(location: str) -> int:
    """Return the number in the name of a metadata file; -1 if there is none."""
    return MetastoreCatalog._parse_metadata_version(location)


def empty_metadata() -> TableMetadata:
    """Return the metadata to which the updates of a new table are applied."""
    return MetastoreCatalog._empty_table_metadata()


def to_schema(schema: Schema | pyarrow.Schema, format_version: Any) -> Schema:
    """Return PyIceberg's schema. The conversion of an Arrow schema depends on the format version, but not in 0.9."""
    convert = MetastoreCatalog._convert_schema_if_needed
    return convert(schema, format_version) if len(signature(convert).parameters) > 1 else convert(schema)


def schema_without_ids(schema: pyarrow.Schema) -> Schema:
    """Return the columns of an Arrow schema, all with the id -1."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    return _pyarrow_to_schema_without_ids(schema)


def write_data_files(
    metadata: TableMetadata, rows: pyarrow.Table, io: FileIO, id: UUID, counter: count[int]
) -> Iterable[DataFile]:
    """Write rows as data files of a table."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    return _dataframe_to_data_files(metadata, rows, io, id, counter)


def apply_updates(transaction: Transaction, updates: tuple[TableUpdate, ...]) -> None:
    """Add updates to a transaction on a table."""
    transaction._apply(updates)


def change_file_properties(catalog: Catalog, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
    """Let a catalog open files with changed properties of their tables."""
    load = catalog._load_file_io

    def load_file_io(properties: Mapping[str, str] = _NONE, location: str | None = None) -> FileIO:
        return load(dict(change(properties)), location)

    catalog._load_file_io = load_file_io  # type: ignore[method-assign]
