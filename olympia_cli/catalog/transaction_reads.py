"""Reads inside a transaction, and their record.

Under SERIALIZABLE, a read is recorded as an action, and the commit checks it for conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, not_found
from olympia_cli.errors import TransactionClosed
from olympia_cli.format.action_types import READS
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.format.pb.objects_pb2 import IsolationLevel, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName

T = ActionType
EXISTS = {Kind.NAMESPACE: T.NAMESPACE_EXISTS, Kind.TABLE: T.TABLE_EXISTS, Kind.VIEW: T.VIEW_EXISTS}
DESCRIBES = {Kind.NAMESPACE: T.NAMESPACE_DESCRIBE, Kind.TABLE: T.TABLE_DESCRIBE, Kind.VIEW: T.VIEW_DESCRIBE}

Read = tuple[ActionType, ObjectName | None]


class TransactionReads:
    """A version with the transaction's own changes, and the reads that decide about conflicts."""

    def __init__(self, base: Snapshot, id: str, isolation: IsolationLevel) -> None:
        self.id = id
        self.draft = Draft(base)
        self.isolation = isolation
        self.actions: list[Action] = []
        self.open = True
        self._reads: set[Read] = set()

    @property
    def base(self) -> Snapshot:
        """The version that the transaction would be committed on."""
        return self.draft.base

    def exists(self, name: ObjectName) -> bool:
        self._read(EXISTS[name.kind], name)
        return self.draft.find(name)

    def find(self, name: ObjectName) -> CatalogObject[ObjectDefinition] | None:
        """Return the object, or None."""
        self._read(DESCRIBES[name.kind], name)
        return self.draft.object(name)

    def namespace(self, name: NamespaceName) -> CatalogObject[NamespaceDef]:
        self._read(T.NAMESPACE_DESCRIBE, name)
        return cast("CatalogObject[NamespaceDef]", self._object(name))

    def table(self, name: TableName) -> CatalogObject[TableDef]:
        self._read(T.TABLE_DESCRIBE, name)
        return cast("CatalogObject[TableDef]", self._object(name))

    def view(self, name: ViewName) -> CatalogObject[ViewDef]:
        self._read(T.VIEW_DESCRIBE, name)
        return cast("CatalogObject[ViewDef]", self._object(name))

    def namespaces(self) -> Iterator[NamespaceName]:
        self._read(T.CATALOG_SNOW_NAMESPACES, None)
        return (cast(NamespaceName, name) for name in self.draft.names(Kind.NAMESPACE))

    def tables(self, namespace: str) -> Iterator[TableName]:
        self._read(T.NAMESPACE_SHOW_TABLES, NamespaceName(namespace))
        self._need_namespace(namespace)
        return (cast(TableName, name) for name in self.draft.names(Kind.TABLE, namespace))

    def views(self, namespace: str) -> Iterator[ViewName]:
        self._read(T.NAMESPACE_SHOW_VIEWS, NamespaceName(namespace))
        self._need_namespace(namespace)
        return (cast(ViewName, name) for name in self.draft.names(Kind.VIEW, namespace))

    @property
    def reads(self) -> list[Read]:
        """The recorded reads. Empty unless the isolation level is SERIALIZABLE."""
        return [(action.type, action.name) for action in self.actions if action.type in READS]

    def take_reads(self, reads: Iterable[Read]) -> None:
        """Add reads of another process, or of changes that failed."""
        for read in reads:
            if read not in self._reads:
                self._reads.add(read)
                self.actions.append(Action(*read))

    def _read(self, type: ActionType, name: ObjectName | None) -> None:
        """Record a read, once, if the isolation level requires it.

        An object that the transaction renamed is also recorded under its old name, which other writers use.
        """
        self.check_open()
        if name is not None:
            # raises InvalidName for an impossible name, which is not recorded
            self.base.keys.encode(name)
        if self.isolation != IsolationLevel.SERIALIZABLE:
            return
        self.take_reads(((type, name), (type, None if name is None else self.draft.origin(name))))

    def check_open(self) -> None:
        """Raise TransactionClosed if the transaction was committed or aborted."""
        if not self.open:
            raise TransactionClosed(f"the transaction {self.id} is closed")

    def _need_namespace(self, namespace: str) -> None:
        if not self.draft.find(NamespaceName(namespace)):
            raise not_found(NamespaceName(namespace), self.base.version)

    def _need(self, name: ObjectName) -> ObjectDefinition:
        return self._object(name).definition

    def _object(self, name: ObjectName) -> CatalogObject[ObjectDefinition]:
        found = self.draft.object(name)
        if found is None:
            self._read(EXISTS[name.kind], name)
            raise not_found(name, self.base.version)
        return found
