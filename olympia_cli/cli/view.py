"""What reading commands look at: a version, or a distributed transaction from inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from olympia_cli.catalog.snapshot import CatalogObject, Snapshot
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef, ViewDef
    from olympia_cli.names import NamespaceName, TableName, ViewName


class View(Protocol):
    @property
    def version(self) -> int: ...
    def namespaces(self) -> Iterator[NamespaceName]: ...
    def tables(self, namespace: str | None) -> Iterator[TableName]: ...
    def views(self, namespace: str | None) -> Iterator[ViewName]: ...
    def namespace(self, name: NamespaceName) -> CatalogObject[NamespaceDef]: ...
    def table(self, name: TableName) -> CatalogObject[TableDef]: ...
    def view(self, name: ViewName) -> CatalogObject[ViewDef]: ...


class SnapshotView:
    """A version."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.version = snapshot.version
        self.namespaces = snapshot.namespaces
        self.tables = snapshot.tables
        self.views = snapshot.views
        self.namespace = snapshot.namespace
        self.table = snapshot.table
        self.view = snapshot.view


class TransactionView:
    """A distributed transaction: its version is the one it stands on."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.version = transaction.base.version
        self.namespaces = transaction.namespaces
        self.namespace = transaction.namespace
        self.table = transaction.table
        self.view = transaction.view

    def tables(self, namespace: str | None) -> Iterator[TableName]:
        for one in self._in(namespace):
            yield from self._transaction.tables(one)

    def views(self, namespace: str | None) -> Iterator[ViewName]:
        for one in self._in(namespace):
            yield from self._transaction.views(one)

    def _in(self, namespace: str | None) -> list[str]:
        return [name.namespace for name in self.namespaces()] if namespace is None else [namespace]
