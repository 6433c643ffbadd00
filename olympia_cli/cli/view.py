"""Views for reading commands: a version, or a distributed transaction from inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef, ViewDef
    from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName


class View(Protocol):
    @property
    def version(self) -> int: ...
    @property
    def snapshot(self) -> Snapshot: ...
    def objects(self, kind: Kind, namespace: str | None) -> Iterator[CatalogObject[ObjectDefinition]]: ...
    def namespaces(self) -> Iterator[NamespaceName]: ...
    def tables(self, namespace: str | None) -> Iterator[TableName]: ...
    def views(self, namespace: str | None) -> Iterator[ViewName]: ...
    def names_by_namespace(self, kind: Kind, namespace: str | None) -> Iterator[tuple[str, Sequence[str]]]: ...
    def namespace(self, name: NamespaceName) -> CatalogObject[NamespaceDef]: ...
    def table(self, name: TableName) -> CatalogObject[TableDef]: ...
    def view(self, name: ViewName) -> CatalogObject[ViewDef]: ...


class SnapshotView:
    """A view of a version."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.version = snapshot.version
        self.objects = snapshot.objects
        self.namespaces = snapshot.namespaces
        self.tables = snapshot.tables
        self.views = snapshot.views
        self.names_by_namespace = snapshot.names_by_namespace
        self.namespace = snapshot.namespace
        self.table = snapshot.table
        self.view = snapshot.view


class TransactionView:
    """A view of a distributed transaction. Its version is the one on which the transaction is based."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.snapshot = transaction.base
        self.version = transaction.base.version
        self.namespaces = transaction.namespaces
        self.namespace = transaction.namespace
        self.table = transaction.table
        self.view = transaction.view

    def objects(self, kind: Kind, namespace: str | None) -> Iterator[CatalogObject[ObjectDefinition]]:
        # one by one, because the transaction records each read
        within: dict[str, Callable[[], Iterator[ObjectName]]] = {
            "namespace": self.namespaces,
            "table": lambda: self.tables(namespace),
            "view": lambda: self.views(namespace),
        }
        names = within[kind.word]()
        return (item for name in names if (item := self._transaction.find(name)) is not None)

    def tables(self, namespace: str | None) -> Iterator[TableName]:
        for namespace_name in self._in(namespace):
            yield from self._transaction.tables(namespace_name)

    def views(self, namespace: str | None) -> Iterator[ViewName]:
        for namespace_name in self._in(namespace):
            yield from self._transaction.views(namespace_name)

    def names_by_namespace(self, kind: Kind, namespace: str | None) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the names of tables or views."""
        within = self.tables if kind.word == "table" else self.views
        return ((name.namespace, [name.name]) for name in within(namespace))

    def _in(self, namespace: str | None) -> list[str]:
        return [name.namespace for name in self.namespaces()] if namespace is None else [namespace]
