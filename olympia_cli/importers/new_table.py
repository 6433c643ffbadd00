"""Create a table with its files as the first snapshot, during an import: this takes most of the time of importing a
hundred thousand tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyiceberg.manifest import DataFile
from pyiceberg.table import Transaction
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate

from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.table_changes import TableState
from olympia_cli.names import TableName


def new_table(
    staged: OlympiaCatalog, name: TableName, metadata: TableMetadata, files: Iterable[DataFile]
) -> TableState:
    """Return the table's metadata; its manifests are written. The table exists once a definition names the metadata."""
    location = load_location_provider(metadata.location, metadata.properties).new_table_metadata_file_location()
    kind = _Remembering if isinstance(getattr(Transaction, "table_metadata", None), property) else Transaction
    transaction = kind(staged._table(name, TableState(metadata, location)))
    if files := list(files):
        with transaction.update_snapshot().fast_append() as append:
            for file in files:
                append.append_data_file(file)
    return TableState(transaction.table_metadata, location)


def data_file(**values: Any) -> DataFile:
    """Return an entry for an existing file. PyIceberg 0.9 has another constructor."""
    made: DataFile = getattr(DataFile, "from_args", DataFile)(**values)
    return made


class _Remembering(Transaction):
    """A cache for the metadata: PyIceberg asks for it a dozen times per append, and would apply all updates each time.
    Version 0.9 keeps the metadata itself."""

    _done: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if self._done is None or self._done[0] is not self._updates:
            self._done = (self._updates, super().table_metadata)
        return self._done[1]
