"""Changes of several tables through PyIceberg, committed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from pyiceberg.exceptions import NoSuchTableError

from olympia_cli.catalog.catalog import who
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.failures import translated
from olympia_cli.iceberg.identifiers import dotted
from olympia_cli.iceberg.table_changes import TableChanges, TableState
from olympia_cli.names import ObjectName, Reference, TableName

R = TypeVar("R")


class CatalogTransaction(OlympiaCatalog):
    """A catalog whose changes are staged: it sees them itself, and others see them all at once when they are committed.

    What PyIceberg wrote for its own part, data files and manifests, is there already when the commit fails.
    """

    _changes: TableChanges

    @classmethod
    def begin(cls, catalog: OlympiaCatalog) -> CatalogTransaction:
        made = cls.__new__(cls)
        made._begin(catalog.store_catalog, catalog.name, catalog.properties)
        made._changes = TableChanges(catalog.store_catalog.begin(), made._open_io)
        return made

    @property
    def version(self) -> int:
        """The version that the transaction is on."""
        return self._changes.transaction.base.version

    def commit(self, message: str = "") -> int:
        """Commit what is staged; the version that has it."""
        with translated():
            return self._changes.commit(Author(by=who(), message=message)).version

    def transaction(self, message: str = "") -> NoReturn:
        raise ValueError("A transaction has no transactions inside")

    def at(self, reference: str | Reference) -> NoReturn:
        raise ValueError("A transaction has a version of its own")

    def _view(self, *names: ObjectName) -> Transaction:
        return self._changes.transaction

    def _state(self, name: TableName) -> TableState:
        with translated(name):
            state = self._changes.state(name)
        if state is None:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        return state

    def _staged_file(self, location: str) -> bytes | None:
        return self._changes.staged_file(location)

    def _change(
        self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName, message: str = ""
    ) -> R:
        with translated(about):
            return do(self._changes)
