"""The interface of the checks at level `data`, for readers of table and view metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import Message

from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.names import ObjectName, TableName, ViewName
from olympia_cli.ops.fsck.findings import Finding
from olympia_cli.ops.progress import Progress

WithData = tuple[TableName, TableDef] | tuple[ViewName, ViewDef]
"""An object with metadata: a table, or an Iceberg view."""


def with_data(name: ObjectName | None, definition: Message) -> WithData | None:
    """Return the object if it has metadata, else None."""
    if isinstance(name, TableName) and isinstance(definition, TableDef) and definition.iceberg_metadata_location:
        return name, definition
    if isinstance(name, ViewName) and isinstance(definition, ViewDef) and definition.iceberg_metadata_location:
        return name, definition
    return None


@dataclass(frozen=True, slots=True)
class DataFinding:
    """A finding about data, with the metadata locations that lead to the file. It concerns all versions with one of
    these locations.
    """

    finding: Finding
    locations: frozenset[str] = frozenset()


class DataChecks(Protocol):
    """Check that the metadata of tables and views exists, and the data files that it names."""

    @property
    def data_files(self) -> int:
        """The number of data files checked."""
        ...

    def check(self, objects: Iterable[WithData], progress: Progress) -> Iterator[DataFinding]:
        """Yield findings about the data of these objects. Damage raises no error."""
        ...
