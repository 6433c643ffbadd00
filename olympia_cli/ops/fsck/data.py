"""What the `data` level asks of whoever can read table metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import TableName
from olympia_cli.ops.fsck.findings import Finding
from olympia_cli.ops.progress import Progress


class DataChecks(Protocol):
    """Looks whether the metadata of tables, and the data files that they name, exist."""

    @property
    def data_files(self) -> int:
        """How many data files were looked at."""
        ...

    def check(self, tables: Iterable[tuple[TableName, TableDef]], progress: Progress) -> Iterator[Finding]:
        """What is wrong with the data of these tables; never raises on damage."""
        ...
