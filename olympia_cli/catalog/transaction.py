"""A transaction: actions staged on a version. It writes nothing; `commit.py` does.

Statements check what they need at once, so that a mistake shows where it is made, and they see the effects of the
statements before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from olympia_cli.catalog.checks import (
    IMPORTED,
    Properties,
    check_catalog_settings,
    check_changes,
    check_object_properties,
    check_text,
)
from olympia_cli.catalog.clock import Clock, Moment, moment
from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.lineage import living_names
from olympia_cli.catalog.replay import touched
from olympia_cli.catalog.snapshot import ACKNOWLEDGED, CatalogObject, ObjectDefinition, Snapshot, not_found
from olympia_cli.catalog.staging import NO_LONGER_FITS, check_location, exists, not_empty, stage
from olympia_cli.errors import (
    CommitConflict,
    Damaged,
    InvalidOption,
    OlympiaError,
    TransactionClosed,
    TransactionExpired,
    command_words,
)
from olympia_cli.format.action_types import READS, RESTORES
from olympia_cli.format.actions import Action, Reapply
from olympia_cli.format.definitions import Definition, body
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    CommitInfoDef,
    NamespaceDropDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RenameDef,
    RestoreDef,
    RollbackDef,
    VersionRange,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, IsolationLevel, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.uuids import new_uuid

if TYPE_CHECKING:
    from google.protobuf.message import Message

T = ActionType
# looked up once: a transaction may make thousands of tables, and an enumeration of protobuf's answers slowly
_TABLE_CREATE = T.TABLE_CREATE

_MAY_CHANGE_NOTHING = RESTORES | {
    T.NAMESPACE_ALTER_SET_PROPERTIES,
    T.NAMESPACE_ALTER_UNSET_PROPERTIES,
    T.TABLE_ALTER,
    T.VIEW_ALTER,
    T.VIEW_REPLACE,
    T.CATALOG_ALTER,
    T.CATALOG_COMPACT,
}
_SILENT = READS | {T.COMMIT_INFO}
_EXISTS = {Kind.NAMESPACE: T.NAMESPACE_EXISTS, Kind.TABLE: T.TABLE_EXISTS, Kind.VIEW: T.VIEW_EXISTS}
_DESCRIBES = {Kind.NAMESPACE: T.NAMESPACE_DESCRIBE, Kind.TABLE: T.TABLE_DESCRIBE, Kind.VIEW: T.VIEW_DESCRIBE}
_RESTORES = {Kind.NAMESPACE: T.NAMESPACE_RESTORE, Kind.TABLE: T.TABLE_RESTORE, Kind.VIEW: T.VIEW_RESTORE}

Mark = tuple[Draft, list[Action], set[tuple[int, ObjectName | None]], int]
"""What a transaction has staged and read up to a moment."""


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
        opened_at: Moment | None = None,
    ) -> None:
        """`opened_at` is a moment before the base was looked for: from then on an expire may have moved."""
        self.id = new_uuid() if id is None else id
        self.clock = clock
        self.draft = Draft(base)
        self.began_at_version = base.version
        definition = base.definition
        self.isolation = definition.txn_isolation_level if isolation is None else isolation
        self._opened_at = moment(clock) if opened_at is None else opened_at
        self.began_at_millis = self._opened_at.wall if began_at_millis is None else began_at_millis
        lifetime = definition.txn_ttl_millis
        self.expires_at_millis = self.began_at_millis + lifetime if expires_at_millis is None else expires_at_millis
        self.actions: list[Action] = []
        self.statements = 0
        self.open = True
        self._reads: set[tuple[int, ObjectName | None]] = set()

    @property
    def base(self) -> Snapshot:
        """The version that the transaction would be committed on."""
        return self.draft.base

    @property
    def has_writes(self) -> bool:
        return next(self._writes(), None) is not None

    @property
    def changes_nothing(self) -> bool:
        """Whether all that it writes is there already: alters and restores to what the base has make no version."""
        return all(type in _MAY_CHANGE_NOTHING for type in self._writes()) and self.draft.is_unchanged()

    def _writes(self) -> Iterator[ActionType]:
        return (action.type for action in self.actions if action.type not in _SILENT and not action.merged)

    def age_millis(self) -> int:
        """How long ago the transaction began."""
        return self._now_millis() - self.began_at_millis

    def late_by_millis(self) -> int:
        """How long past its lifetime the transaction is; negative while it lives.

        By the clock on the wall and by the one that only goes forward, whichever is later: neither a clock set back
        nor a suspended machine makes a transaction younger.
        """
        return self._now_millis() - self.expires_at_millis

    def check_alive(self) -> None:
        """Raise TransactionExpired once it is past its lifetime."""
        if self.late_by_millis() > 0:
            raise TransactionExpired(f"the transaction {self.id} is past its lifetime")

    def _now_millis(self) -> int:
        slept = self.clock.elapsed_millis() - self._opened_at.elapsed
        return max(self.clock.now_millis(), self._opened_at.wall + slept)

    # Namespaces

    def create_namespace(self, name: NamespaceName, properties: Properties | None = None) -> None:
        check_object_properties(properties or {})
        definition = NamespaceDef(id=new_uuid(), properties=properties)
        self.do(_action(T.NAMESPACE_CREATE, name, definition))

    def alter_namespace(
        self,
        name: NamespaceName,
        set_properties: Properties | None = None,
        unset_properties: Sequence[str] = (),
    ) -> None:
        check_changes(set_properties, unset_properties)
        check_object_properties(set_properties or {})
        if set_properties:
            definition = cast(NamespaceDef, self._need(name))
            definition.properties.update(set_properties)
            payload = NamespaceSetPropertiesDef(keys=sorted(set_properties))
            self.do(_action(T.NAMESPACE_ALTER_SET_PROPERTIES, name, definition, payload), is_merged=True)
        definition = cast(NamespaceDef, self._need(name))
        if gone := _gone(definition, set_properties, unset_properties):
            for key in gone:
                definition.properties.pop(key, None)
            payload_unset = NamespaceUnsetPropertiesDef(keys=sorted(gone))
            self.do(_action(T.NAMESPACE_ALTER_UNSET_PROPERTIES, name, definition, payload_unset), is_merged=True)

    def rename_namespace(self, old: NamespaceName, new: NamespaceName) -> None:
        """Rename a namespace with all that is in it; ids and definitions stay."""
        payload = RenameDef(new_namespace_name=new.namespace)
        self.do(_action(T.NAMESPACE_RENAME, old, self._need(old), payload))

    def drop_namespace(self, name: NamespaceName, cascade: bool = False) -> None:
        """Drop an empty namespace, or with cascade one and all that is in it."""
        drops = [self._drop(T.NAMESPACE_DROP, name, NamespaceDropDef(cascade=cascade))]
        if cascade:
            inside = (
                _action(type, found.name, found.definition)
                for kind, type in ((Kind.TABLE, T.TABLE_DROP), (Kind.VIEW, T.VIEW_DROP))
                for found in self.draft.objects(kind, name.namespace)
            )
            drops = [*inside, *drops]
        elif not self.draft.is_empty(name.namespace):
            self._read(T.NAMESPACE_SHOW_TABLES, name)
            self._read(T.NAMESPACE_SHOW_VIEWS, name)
            raise not_empty(name)
        for drop in drops:
            self.do(drop)

    # Tables

    def create_table(self, name: TableName, metadata_location: str, properties: Properties | None = None) -> None:
        """Register an Iceberg table by the location of its metadata, which is stored unread."""
        check_object_properties(properties or {})
        check_text(metadata_location, "metadata location")
        definition = TableDef(id=new_uuid(), properties=properties, iceberg_metadata_location=metadata_location)
        self.do(_action(_TABLE_CREATE, name, definition))

    def alter_table(
        self,
        name: TableName,
        set_properties: Properties | None = None,
        unset_properties: Sequence[str] = (),
        metadata_location: str | None = None,
        *,
        expected_metadata_location: str | None = None,
        type: ActionType = T.TABLE_ALTER,
        payload: bytes = b"",
        reapply: Callable[[str], str] | None = None,
    ) -> None:
        """Change a table. A new metadata location makes the present one the previous one; the present one again changes
        neither, and says with a payload more of a change that the transaction has made before.

        `expected_metadata_location` is the one that the caller has seen: any other is a conflict, here and on whatever
        version it is committed. A change of the table's data names its own type (an insert, say) and payload; `reapply`
        makes it again on the metadata location that another writer left meanwhile, and returns the new one.
        """
        check_changes(set_properties, unset_properties, metadata_location, payload)
        check_object_properties(set_properties or {})
        check_text(metadata_location or "", "metadata location")
        check_text(expected_metadata_location or "", "expected metadata location")
        definition = cast(TableDef, self._need(name))
        present = definition.iceberg_metadata_location
        change = _apply_properties(definition, set_properties, unset_properties)
        if expected_metadata_location is not None:
            change.expected_metadata_location = expected_metadata_location
        try:
            check_location(name, definition, change)
        except CommitConflict:
            self._read(T.TABLE_DESCRIBE, name)
            raise
        if metadata_location is not None:
            change.fields.append("iceberg_metadata_location")
        if metadata_location not in (None, present):
            definition.iceberg_previous_metadata_location = present
            definition.iceberg_metadata_location = metadata_location
            change.fields.append("iceberg_previous_metadata_location")
        # our fields are numbered apart from the format's payloads, so both stand in one message
        content = payload + change.SerializeToString()
        again = None if reapply is None else Reapply(present, reapply)
        self.do(Action(type, name, body(definition), content, reapply=again), is_merged=True)

    def rename_table(self, old: TableName, new: TableName) -> None:
        """Rename a table, also into another namespace; its id and its definition stay."""
        payload = RenameDef(new_namespace_name=new.namespace, new_name=new.name)
        self.do(_action(T.TABLE_RENAME, old, self._need(old), payload))

    def drop_table(self, name: TableName) -> None:
        self.do(self._drop(T.TABLE_DROP, name))

    # Views

    def create_view(self, name: ViewName, definition: ViewDef) -> None:
        """Create a view; the definition's id is given here."""
        check_object_properties(definition.properties)
        self.do(_action(T.VIEW_CREATE, name, _with_id(definition, new_uuid())))

    def replace_view(self, name: ViewName, definition: ViewDef) -> None:
        """Put another definition in place of a view's; the id stays, and what an import noted. What is as it was is
        nobody's change."""
        former = self._need(name)
        check_object_properties(dict(definition.properties.items() - former.properties.items()))
        new = _with_id(definition, former.id)
        new.properties.update({key: value for key, value in former.properties.items() if key.startswith(IMPORTED)})
        self.do(_action(T.VIEW_REPLACE, name, new), is_merged=True)

    def alter_view(
        self, name: ViewName, set_properties: Properties | None = None, unset_properties: Sequence[str] = ()
    ) -> None:
        check_changes(set_properties, unset_properties)
        check_object_properties(set_properties or {})
        definition = cast(ViewDef, self._need(name))
        change = _apply_properties(definition, set_properties, unset_properties)
        self.do(_action(T.VIEW_ALTER, name, definition, change), is_merged=True)

    def rename_view(self, old: ViewName, new: ViewName) -> None:
        payload = RenameDef(new_namespace_name=new.namespace, new_name=new.name)
        self.do(_action(T.VIEW_RENAME, old, self._need(old), payload))

    def drop_view(self, name: ViewName) -> None:
        self.do(self._drop(T.VIEW_DROP, name))

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
        check_changes(set_properties, unset_properties, txn_ttl_millis, isolation)
        check_catalog_settings(set_properties or {}, unset_properties, txn_ttl_millis)
        definition = self.draft.catalog
        change = _apply_properties(definition, set_properties, unset_properties)
        if txn_ttl_millis is not None:
            definition.txn_ttl_millis = txn_ttl_millis
            change.fields.append("txn_ttl_millis")
        if isolation is not None:
            definition.txn_isolation_level = isolation
            change.fields.append("txn_isolation_level")
        self.do(_action(T.CATALOG_ALTER, None, definition, change), is_merged=True)

    def acknowledge(self, findings: str) -> None:
        """Note the damage of older versions that is known, as fsck writes it."""
        self._note(ACKNOWLEDGED, findings)

    def note_import(self, source: str, note: str) -> None:
        """Note what was brought from a source, by the source's id."""
        self._note(IMPORTED + source, note)

    def _note(self, key: str, value: str) -> None:
        """Set what is kept by the program itself."""
        definition = self.draft.catalog
        change = _apply_properties(definition, {key: value}, ())
        self.do(_action(T.CATALOG_ALTER, None, definition, change), is_merged=True)

    def restore(self, found: CatalogObject[ObjectDefinition], from_version: int) -> None:
        """Bring back an object as an older version has it, under its own id.

        One that lives under another name today is not brought back a second time: ids are unique.
        """
        for name, now in self._moved([found], from_version).items():
            raise _lives_as(name, now, from_version)
        self._restore(found, from_version)

    def restore_all(
        self, found: Sequence[CatalogObject[ObjectDefinition]], from_version: int
    ) -> dict[ObjectName, ObjectName]:
        """Bring back many objects of one version, namespaces before what is in them; those that are as they were stay.

        Tables and views that live under other names today stay there: they are returned, with those names.
        """
        moved = self._moved(found, from_version)
        for name, now in moved.items():
            if isinstance(name, NamespaceName):
                raise _lives_as(name, now, from_version)
        for one in found:
            present = None if one.name in moved else self.draft.get(one.name)
            if present is not None and body(present) == body(one.definition):
                self._read(_DESCRIBES[one.name.kind], one.name)
            elif one.name not in moved:
                self._restore(one, from_version)
        return moved

    def _moved(
        self, found: Sequence[CatalogObject[ObjectDefinition]], from_version: int
    ) -> dict[ObjectName, ObjectName]:
        """The names today of those objects of an older version that have others now."""
        lives = living_names({one.id: one.name for one in found}, from_version, self.base, self.actions)
        moved = {one.name: now for one in found if (now := lives[one.id]) is not None and now != one.name}
        for now in moved.values():
            self._read(_EXISTS[now.kind], now)
        return moved

    def _restore(self, found: CatalogObject[ObjectDefinition], from_version: int) -> None:
        payload = RestoreDef(from_version=from_version)
        self.do(_action(_RESTORES[found.name.kind], found.name, found.definition, payload))

    def roll_back(self, to_version: int) -> None:
        """Put an older version's tree in place of this one's."""
        if self.has_writes:
            raise InvalidOption("a rollback is a transaction of its own", hint="commit or drop the other changes first")
        payload = RollbackDef(from_version=self.base.version, to_version=to_version)
        self.do(Action(T.CATALOG_ROLLBACK, None, b"", payload.SerializeToString()))

    def note_revert(self, first: int, last: int) -> None:
        """Say in the log that these versions, both included, are taken back."""
        note = CommitInfoDef(reverts=[VersionRange(first=first, last=last)])
        self.do(Action(T.COMMIT_INFO, None, b"", note.SerializeToString()))

    # Reading inside the transaction

    def exists(self, name: ObjectName) -> bool:
        self._read(_EXISTS[name.kind], name)
        return self.draft.find(name)

    def find(self, name: ObjectName) -> CatalogObject[ObjectDefinition] | None:
        """The object, or None."""
        self._read(_DESCRIBES[name.kind], name)
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

    # For commit and for distributed transactions

    def rebase(self, base: Snapshot, actions: Sequence[Action]) -> None:
        """Do the actions again on another version. Nothing changes when one of them cannot be done there."""
        draft = Draft(base)
        done = []
        for action in actions:
            try:
                done.append(stage(action, draft))
            except (*NO_LONGER_FITS, CommitConflict) as error:
                what = f"{action.type_name} {action.name or 'the catalog'}"
                raise CommitConflict(f"{what} no longer fits version {base.version}: {error.message}") from error
        self.draft, self.actions = draft, done

    def mark(self) -> Mark:
        """How far it is; see `go_back`."""
        return self.draft.copy(), list(self.actions), set(self._reads), self.statements

    def go_back(self, mark: Mark) -> None:
        """Take back what was done since. Nothing is read for that, so it cannot fail."""
        self.draft, self.actions, self._reads, self.statements = mark

    def take_actions(self, actions: Sequence[Action]) -> None:
        """Go on from actions that were saved."""
        self.actions = [stage(action, self.draft) for action in actions]
        self._reads = {(action.type, action.name) for action in actions if action.type in READS}

    def do(self, action: Action, *, is_merged: bool = False) -> None:
        """Stage an action. One that fails leaves nothing behind but what it has seen.

        `is_merged` is for an alter whose definition was made of what stands here just now.
        """
        self.check_open()
        if self.draft.tree is not self.draft.base:
            raise InvalidOption("a rollback is a transaction of its own", hint="commit it first")
        try:
            self.actions.append(stage(action, self.draft, is_merged=is_merged))
            self.statements += 1
        except NO_LONGER_FITS:
            for name in _looked_at(action):
                self._read(_EXISTS[name.kind], name)
            raise

    def _read(self, type: ActionType, name: ObjectName | None) -> None:
        """Remember a read, once, where the isolation level asks for it.

        Of what the transaction has renamed, others know the old name, so that is read too.
        """
        self.check_open()
        if name is not None:
            # a name that no object can have is refused here, and not remembered
            self.base.keys.encode(name)
        if self.isolation != IsolationLevel.SERIALIZABLE:
            return
        for read in ((type, name), (type, None if name is None else self.draft.origin(name))):
            if read not in self._reads:
                self._reads.add(read)
                self.actions.append(Action(*read))

    def check_open(self) -> None:
        """Raise TransactionClosed once it was committed or aborted."""
        if not self.open:
            raise TransactionClosed(f"the transaction {self.id} is closed")

    def _need_namespace(self, namespace: str) -> None:
        if not self.draft.find(NamespaceName(namespace)):
            raise not_found(NamespaceName(namespace), self.base.version)

    def _drop(self, type: ActionType, name: ObjectName, payload: Message | None = None) -> Action:
        """A drop of the object; one whose definition is damaged can be dropped all the same."""
        try:
            return _action(type, name, self._need(name), payload)
        except Damaged:
            return Action(type, name, b"", b"" if payload is None else payload.SerializeToString())

    def _need(self, name: ObjectName) -> ObjectDefinition:
        return self._object(name).definition

    def _object(self, name: ObjectName) -> CatalogObject[ObjectDefinition]:
        found = self.draft.object(name)
        if found is None:
            self._read(_EXISTS[name.kind], name)
            raise not_found(name, self.base.version)
        return found


def _lives_as(name: ObjectName, now: ObjectName, version: int) -> OlympiaError:
    word = {Kind.NAMESPACE: "ns"}.get(name.kind, name.kind.word)
    return type(exists(now))(
        f"{name} of version {version} lives as {now} now",
        hint="give it its name back",
        command=command_words(word, "rename", names=[str(now), str(name)]),
    )


def _looked_at(action: Action) -> list[ObjectName]:
    """The names that decide whether an action fits: those that it names, and the namespaces that they are in."""
    names = touched(action)
    return sorted(names | {NamespaceName(name.namespace) for name in names}, key=str)


def _action(
    type: ActionType, name: ObjectName | None, definition: Definition, payload: Message | None = None
) -> Action:
    return Action(type, name, body(definition), b"" if payload is None else payload.SerializeToString())


def _apply_properties(
    definition: TableDef | ViewDef | CatalogDef,
    set_properties: Properties | None,
    unset_properties: Sequence[str],
) -> AlterDef:
    gone = _gone(definition, set_properties, unset_properties)
    definition.properties.update(set_properties or {})
    for key in gone:
        definition.properties.pop(key, None)
    return AlterDef(set_properties=sorted(set_properties or {}), unset_properties=sorted(gone))


def _gone(
    definition: NamespaceDef | TableDef | ViewDef | CatalogDef,
    set_properties: Properties | None,
    unset_properties: Sequence[str],
) -> list[str]:
    """The properties that an unset takes away: the log is not to tell of what was never there. An alter that changes
    nothing names what it was about all the same, since one without any names may change everything."""
    there = [key for key in unset_properties if key in definition.properties]
    return there if there or set_properties else list(unset_properties)


def _with_id(definition: ViewDef, id: str) -> ViewDef:
    named = ViewDef()
    named.CopyFrom(definition)
    named.id = id
    return named
