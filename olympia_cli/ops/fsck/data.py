"""What the `data` level asks of whoever can read the metadata of tables and views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.names import TableName, ViewName
from olympia_cli.ops.fsck.findings import Finding
from olympia_cli.ops.progress import Progress

WithData = tuple[TableName, TableDef] | tuple[ViewName, ViewDef]
"""What has metadata: a table, or a view of Iceberg's."""


@dataclass(frozen=True, slots=True)
class DataFinding:
    """Something that is wrong with data, and the metadata locations that lead to it: it hits the versions that have a
    table or view with one of them."""

    finding: Finding
    locations: frozenset[str] = frozenset()


class DataChecks(Protocol):
    """Looks whether the metadata of tables and views, and the data files that it names, exist."""

    @property
    def data_files(self) -> int:
        """How many data files were looked at."""
        ...

    def check(self, objects: Iterable[WithData], progress: Progress) -> Iterator[DataFinding]:
        """What is wrong with the data of these tables and views; never raises on damage."""
        ...
