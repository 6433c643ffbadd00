"""What the `data` level asks of whoever can read table metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import TableName
from olympia_cli.ops.fsck.findings import Finding
from olympia_cli.ops.progress import Progress


@dataclass(frozen=True, slots=True)
class DataFinding:
    """Something that is wrong with table data, and the metadata locations that lead to it: it hits the versions that
    have a table with one of them."""

    finding: Finding
    locations: frozenset[str] = frozenset()


class DataChecks(Protocol):
    """Looks whether the metadata of tables, and the data files that they name, exist."""

    @property
    def data_files(self) -> int:
        """How many data files were looked at."""
        ...

    def check(self, tables: Iterable[tuple[TableName, TableDef]], progress: Progress) -> Iterator[DataFinding]:
        """What is wrong with the data of these tables; never raises on damage."""
        ...
