"""A transaction: actions staged on a version. It writes nothing; `commit.py` does.

Statements check what they need at once, so that a mistake shows where it is made, and they see the effects of the
statements before them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.redo import READS, not_found, redo
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
from olympia_cli.errors import (
    CommitConflict,
    InvalidOption,
    NamespaceNotEmpty,
    OlympiaError,
    TransactionClosed,
    VersionNotFound,
)
from olympia_cli.format.actions import Action, definition_bytes
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    NamespaceDropDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RenameDef,
    RestoreDef,
    RollbackDef,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, IsolationLevel, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName

if TYPE_CHECKING:
    from google.protobuf.message import Message

T = ActionType
Properties = Mapping[str, str]
Reapply = Callable[[TableDef], TableDef]
"""Does a table change again on a newer definition of the table, for whoever knows how (an append does)."""


class Transaction:
    """Statements on one version, to be committed together."""

    def __init__(
        self,
        base: Snapshot,
        clock: Clock,
        *,
        isolation: IsolationLevel | None = None,
        id: str | None = None,
        began_at_millis: int | None = None,
        expires_at_millis: int | None = None,
    ) -> None:
        self.id = str(uuid.uuid4()) if id is None else id
        self.clock = clock
        self.draft = Draft(base)
        self.began_at_version = base.version
        definition = base.definition
        self.isolation = definition.txn_isolation_level if isolation is None else isolation
        self.began_at_millis = clock.now_millis() if began_at_millis is None else began_at_millis
        lifetime = definition.txn_ttl_millis
        self.expires_at_millis = self.began_at_millis + lifetime if expires_at_millis is None else expires_at_millis
        self.actions: list[Action] = []
        self.open = True
        self.reapplies: dict[TableName, Reapply] = {}
        self._reads: set[tuple[int, ObjectName | None]] = set()
        self._opened_at = clock.now_millis(), clock.elapsed_millis()

    @property
    def base(self) -> Snapshot:
        """The version that the transaction would be committed on."""
        return self.draft.base

    @property
    def has_writes(self) -> bool:
        return any(action.type not in READS for action in self.actions)

    def late_by_millis(self) -> int:
        """How long past its lifetime the transaction is; negative while it lives.

        By the clock on the wall and by the one that only goes forward, whichever is later: neither a clock set back
        nor a suspended machine makes a transaction younger.
        """
        wall, elapsed = self._opened_at
        now = max(self.clock.now_millis(), wall + self.clock.elapsed_millis() - elapsed)
        return now - self.expires_at_millis

    # Namespaces

    def create_namespace(self, name: NamespaceName, properties: Properties | None = None) -> None:
        definition = NamespaceDef(id=str(uuid.uuid4()), properties=properties)
        self._do(Action(T.NAMESPACE_CREATE, name, definition_bytes(definition)))

    def alter_namespace(
        self,
        name: NamespaceName,
        set_properties: Properties | None = None,
        unset_properties: Sequence[str] = (),
    ) -> None:
        _check_changes(set_properties, unset_properties)
        if set_properties:
            definition = cast(NamespaceDef, self._need(name))
            definition.properties.update(set_properties)
            payload = NamespaceSetPropertiesDef(keys=sorted(set_properties))
            self._do(_action(T.NAMESPACE_ALTER_SET_PROPERTIES, name, definition, payload))
        if unset_properties:
            definition = cast(NamespaceDef, self._need(name))
            for key in unset_properties:
                definition.properties.pop(key, None)
            payload_unset = NamespaceUnsetPropertiesDef(keys=sorted(unset_properties))
            self._do(_action(T.NAMESPACE_ALTER_UNSET_PROPERTIES, name, definition, payload_unset))

    def rename_namespace(self, old: NamespaceName, new: NamespaceName) -> None:
        """Rename a namespace with all that is in it; ids and definitions stay."""
        payload = RenameDef(new_namespace_name=new.namespace)
        self._do(_action(T.NAMESPACE_RENAME, old, self._need(old), payload))

    def drop_namespace(self, name: NamespaceName, cascade: bool = False) -> None:
        """Drop an empty namespace, or with cascade one and all that is in it."""
        definition = self._need(name)
        if cascade:
            for kind, drop in ((Kind.TABLE, T.TABLE_DROP), (Kind.VIEW, T.VIEW_DROP)):
                for inside in list(self.draft.objects(kind, name.namespace)):
                    self._do(_action(drop, inside.name, inside.definition))
        elif not self.draft.is_empty(name.namespace):
            raise NamespaceNotEmpty(f"the namespace {name} is not empty")
        self._do(_action(T.NAMESPACE_DROP, name, definition, NamespaceDropDef(cascade=cascade)))

    # Tables

    def create_table(self, name: TableName, metadata_location: str, properties: Properties | None = None) -> None:
        """Register an Iceberg table by the location of its metadata, which is stored unread."""
        definition = TableDef(id=str(uuid.uuid4()), properties=properties, iceberg_metadata_location=metadata_location)
        self._do(Action(T.TABLE_CREATE, name, definition_bytes(definition)))

    def alter_table(
        self,
        name: TableName,
        set_properties: Properties | None = None,
        unset_properties: Sequence[str] = (),
        metadata_location: str | None = None,
        *,
        type: ActionType = T.TABLE_ALTER,
        payload: bytes = b"",
        reapply: Reapply | None = None,
    ) -> None:
        """Change a table. A new metadata location makes the present one the previous one.

        A change of the table's data names its own type (an insert, say) and payload; `reapply` does it again when
        another writer changed the table first.
        """
        _check_changes(set_properties, unset_properties, metadata_location, payload)
        definition = cast(TableDef, self._need(name))
        change = _apply_properties(definition, set_properties, unset_properties)
        if metadata_location is not None:
            definition.iceberg_previous_metadata_location = definition.iceberg_metadata_location
            definition.iceberg_metadata_location = metadata_location
            change.fields.extend(["iceberg_metadata_location", "iceberg_previous_metadata_location"])
        if reapply is not None:
            self.reapplies[name] = reapply
        # our fields are numbered apart from the format's payloads, so both stand in one message
        content = payload + change.SerializeToString()
        self._do(Action(type, name, definition_bytes(definition), content))

    def rename_table(self, old: TableName, new: TableName) -> None:
        """Rename a table, also into another namespace; its id and its definition stay."""
        self._do(
            _action(
                T.TABLE_RENAME,
                old,
                self._need(old),
                RenameDef(new_namespace_name=new.namespace, new_name=new.name),
            )
        )

    def drop_table(self, name: TableName) -> None:
        self._do(_action(T.TABLE_DROP, name, self._need(name)))

    # Views

    def create_view(self, name: ViewName, definition: ViewDef) -> None:
        """Create a view; the definition's id is given here."""
        self._do(_action(T.VIEW_CREATE, name, _with_id(definition, str(uuid.uuid4()))))

    def replace_view(self, name: ViewName, definition: ViewDef) -> None:
        """Put another definition in place of a view's; the id stays."""
        self._do(_action(T.VIEW_REPLACE, name, _with_id(definition, self._need(name).id)))

    def alter_view(
        self, name: ViewName, set_properties: Properties | None = None, unset_properties: Sequence[str] = ()
    ) -> None:
        _check_changes(set_properties, unset_properties)
        definition = cast(ViewDef, self._need(name))
        change = _apply_properties(definition, set_properties, unset_properties)
        self._do(_action(T.VIEW_ALTER, name, definition, change))

    def rename_view(self, old: ViewName, new: ViewName) -> None:
        self._do(
            _action(
                T.VIEW_RENAME,
                old,
                self._need(old),
                RenameDef(new_namespace_name=new.namespace, new_name=new.name),
            )
        )

    def drop_view(self, name: ViewName) -> None:
        self._do(_action(T.VIEW_DROP, name, self._need(name)))

    # The catalog

    def alter_catalog(
        self,
        set_properties: Properties | None = None,
        unset_properties: Sequence[str] = (),
        *,
        txn_ttl_millis: int | None = None,
        isolation: IsolationLevel | None = None,
    ) -> None:
        """Change properties, ttl and isolation; order and name sizes are fixed for a catalog's life."""
        _check_changes(set_properties, unset_properties, txn_ttl_millis, isolation)
        definition = self.draft.catalog
        change = _apply_properties(definition, set_properties, unset_properties)
        if txn_ttl_millis is not None:
            definition.txn_ttl_millis = txn_ttl_millis
            change.fields.append("txn_ttl_millis")
        if isolation is not None:
            definition.txn_isolation_level = isolation
            change.fields.append("txn_isolation_level")
        self._do(Action(T.CATALOG_ALTER, None, definition_bytes(definition), change.SerializeToString()))

    def restore(self, found: CatalogObject[ObjectDefinition], from_version: int) -> None:
        """Bring back an object as an older version has it, under its own id."""
        type = {Kind.NAMESPACE: T.NAMESPACE_RESTORE, Kind.TABLE: T.TABLE_RESTORE, Kind.VIEW: T.VIEW_RESTORE}[
            found.name.kind
        ]
        self._do(_action(type, found.name, found.definition, RestoreDef(from_version=from_version)))

    def roll_back(self, to_version: int) -> None:
        """Put an older version's tree in place of this one's."""
        if self.has_writes:
            raise InvalidOption("a rollback is a transaction of its own", hint="commit or drop the other changes first")
        payload = RollbackDef(from_version=self.base.version, to_version=to_version)
        self._do(Action(T.CATALOG_ROLLBACK, None, b"", payload.SerializeToString()))

    # Reading inside the transaction

    def exists(self, name: ObjectName) -> bool:
        self._read(
            {Kind.NAMESPACE: T.NAMESPACE_EXISTS, Kind.TABLE: T.TABLE_EXISTS, Kind.VIEW: T.VIEW_EXISTS}[name.kind],
            name,
        )
        return self.draft.find(name)

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
        self._need(NamespaceName(namespace))
        self._read(T.NAMESPACE_SHOW_TABLES, NamespaceName(namespace))
        return (cast(TableName, name) for name in self.draft.names(Kind.TABLE, namespace))

    def views(self, namespace: str) -> Iterator[ViewName]:
        self._need(NamespaceName(namespace))
        self._read(T.NAMESPACE_SHOW_VIEWS, NamespaceName(namespace))
        return (cast(ViewName, name) for name in self.draft.names(Kind.VIEW, namespace))

    # For commit and for distributed transactions

    def rebase(self, base: Snapshot, actions: Sequence[Action]) -> None:
        """Do the actions again on another version. Nothing changes when one of them cannot be done there."""
        draft = Draft(base)
        done = []
        for action in actions:
            try:
                done.append(self._redo_on(action, draft))
            except VersionNotFound:
                # an expire took the source away meanwhile: not a clash, but gone
                raise
            except OlympiaError as error:
                what = f"{action.type_name} {action.name or 'the catalog'}"
                raise CommitConflict(f"{what} no longer fits version {base.version}: {error.message}") from error
        self.draft, self.actions = draft, done

    def take_actions(self, actions: Sequence[Action]) -> None:
        """Go on from actions that were saved."""
        self.actions = [redo(action, self.draft) for action in actions]
        self._reads = {(action.type, action.name) for action in actions if action.type in READS}

    def _redo_on(self, action: Action, draft: Draft) -> Action:
        reapply = self.reapplies.get(action.name) if isinstance(action.name, TableName) else None
        if reapply is not None and isinstance(action.name, TableName):
            now = draft.get(action.name)
            mine = self.base.get(action.name)
            if now is not None and (mine is None or definition_bytes(now) != definition_bytes(mine.definition)):
                changed = reapply(cast(TableDef, now))
                action = Action(action.type, action.name, definition_bytes(changed), _without_change(action.payload))
        return redo(action, draft)

    def _do(self, action: Action) -> None:
        self._check_open()
        self.actions.append(redo(action, self.draft))

    def _read(self, type: ActionType, name: ObjectName | None) -> None:
        """Remember a read, once, where the isolation level asks for it."""
        self._check_open()
        if self.isolation == IsolationLevel.SERIALIZABLE and (type, name) not in self._reads:
            self._reads.add((type, name))
            self.actions.append(Action(type, name))

    def _check_open(self) -> None:
        if not self.open:
            raise TransactionClosed(f"the transaction {self.id} is closed")

    def _need(self, name: ObjectName) -> ObjectDefinition:
        return self._object(name).definition

    def _object(self, name: ObjectName) -> CatalogObject[ObjectDefinition]:
        found = self.draft.object(name)
        if found is None:
            raise not_found(name, self.draft)
        return found


def _action(type: ActionType, name: ObjectName, definition: ObjectDefinition, payload: Message | None = None) -> Action:
    return Action(type, name, definition_bytes(definition), b"" if payload is None else payload.SerializeToString())


def _apply_properties(
    definition: TableDef | ViewDef | CatalogDef,
    set_properties: Properties | None,
    unset_properties: Sequence[str],
) -> AlterDef:
    definition.properties.update(set_properties or {})
    for key in unset_properties:
        definition.properties.pop(key, None)
    return AlterDef(set_properties=sorted(set_properties or {}), unset_properties=sorted(unset_properties))


def _check_changes(set_properties: Properties | None, unset_properties: Sequence[str], *others: object) -> None:
    if not set_properties and not unset_properties and all(other is None or other == b"" for other in others):
        raise InvalidOption("there is nothing to change", hint="name a property to set or unset")
    if both := set(set_properties or {}) & set(unset_properties):
        raise InvalidOption(f"the property {min(both)} is both set and unset", hint="do one or the other")
    if "" in (set_properties or {}) or "" in unset_properties:
        raise InvalidOption("a property must have a name", hint="")


def _with_id(definition: ViewDef, id: str) -> ViewDef:
    named = ViewDef()
    named.CopyFrom(definition)
    named.id = id
    return named


def _without_change(payload: bytes) -> bytes:
    """The payload without what it says of changed fields: the definition that goes with it is whole."""
    change = AlterDef.FromString(payload)
    change.ClearField("set_properties")
    change.ClearField("unset_properties")
    change.ClearField("fields")
    return change.SerializeToString()
