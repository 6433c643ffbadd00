"""Transactions: each method stages an action. Nothing is written before `commit.py` commits.

Methods check their preconditions at once, and see the effects of earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from olympia_cli.catalog.clock import Clock, Moment, moment
from olympia_cli.catalog.properties import (
    ACKNOWLEDGED,
    IMPORTED,
    MAX_ACTIONS,
    Properties,
    check_catalog_settings,
    check_changes,
    check_no_secret,
    check_object_properties,
    check_text,
)
from olympia_cli.catalog.replay import touched
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, not_found
from olympia_cli.catalog.staging import NO_LONGER_FITS, Draft, check_location, exists, not_empty, stage
from olympia_cli.errors import (
    CommitConflict,
    Damaged,
    InvalidOption,
    OlympiaError,
    TransactionClosed,
    TransactionExpired,
    TransactionTooLarge,
    command_words,
)
from olympia_cli.format.actions import READS, RESTORES, Action, Reapply
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
from olympia_cli.masking import carries_secret
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, new_uuid

if TYPE_CHECKING:
    from google.protobuf.message import Message

T = ActionType
EXISTS = {Kind.NAMESPACE: T.NAMESPACE_EXISTS, Kind.TABLE: T.TABLE_EXISTS, Kind.VIEW: T.VIEW_EXISTS}
DESCRIBES = {Kind.NAMESPACE: T.NAMESPACE_DESCRIBE, Kind.TABLE: T.TABLE_DESCRIBE, Kind.VIEW: T.VIEW_DESCRIBE}

DEFAULT_MAX_ACTIONS = 10_000

Read = tuple[ActionType, ObjectName | None]

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

Mark = tuple[Draft, list[Action], set[Read], int]
"""The staged changes and reads of a transaction at one moment."""

# cached: a transaction may create thousands of tables, and lookups in a protobuf enumeration are slow
_TABLE_CREATE = T.TABLE_CREATE

_RESTORES = {Kind.NAMESPACE: T.NAMESPACE_RESTORE, Kind.TABLE: T.TABLE_RESTORE, Kind.VIEW: T.VIEW_RESTORE}


class Transaction:
    """Changes on top of one version, to be committed together within a lifetime.

    Reads see the version with the changes so far. Under SERIALIZABLE, each read is recorded as an action, which the
    commit checks for conflicts.
    """

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
        """Begin on `base`. `opened_at` is a moment before the base was looked up: an expire may have run since."""
        definition = base.definition
        self.id = new_uuid() if id is None else id
        self.isolation = definition.txn_isolation_level if isolation is None else isolation
        self.base = base
        """The version that the transaction would be committed on."""
        self.draft = Draft(base)
        self.actions: list[Action] = []
        self.open = True
        self.clock = clock
        self.began_at_version = base.version
        self._opened_at = moment(clock) if opened_at is None else opened_at
        self.began_at_millis = self._opened_at.wall if began_at_millis is None else began_at_millis
        lifetime = definition.txn_ttl_millis
        self.expires_at_millis = self.began_at_millis + lifetime if expires_at_millis is None else expires_at_millis
        self.statements = 0
        self._reads: set[Read] = set()

    # Lifetime

    def check_open(self) -> None:
        """Raise TransactionClosed if the transaction was committed or aborted."""
        if not self.open:
            raise TransactionClosed(f"the transaction {self.id} is closed")

    def check_size(self) -> None:
        """Raise TransactionTooLarge for more actions than the catalog allows in a commit."""
        text = self.base.definition.properties.get(MAX_ACTIONS, "")
        most = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else DEFAULT_MAX_ACTIONS
        if len(self.actions) > most:
            raise TransactionTooLarge(
                f"the transaction has {len(self.actions):,} actions, and a commit holds at most {most:,}"
            )

    def age_millis(self) -> int:
        """Return the time since the transaction began."""
        return self._now_millis() - self.began_at_millis

    def late_by_millis(self) -> int:
        """Return the time since the end of the transaction's lifetime, negative before it.

        The time of day and the elapsed time are both measured, and the later one counts. So neither a clock set back
        nor a suspended machine extends the lifetime.
        """
        return self._now_millis() - self.expires_at_millis

    def check_alive(self) -> None:
        """Raise TransactionExpired after the end of the lifetime."""
        if self.late_by_millis() > 0:
            raise TransactionExpired(f"the transaction {self.id} is past its lifetime")

    def _now_millis(self) -> int:
        slept = self.clock.elapsed_millis() - self._opened_at.elapsed
        return max(self.clock.now_millis(), self._opened_at.wall + slept)

    # Staged actions

    def do(self, action: Action, *, is_merged: bool = False) -> None:
        """Stage an action. A failed action changes nothing, but its reads are recorded.

        `is_merged` is for an alter whose definition was made from the current one.
        """
        self.check_open()
        if self.draft.tree is not self.draft.base:
            raise InvalidOption("a rollback is a transaction of its own", hint="commit it first")
        try:
            self.actions.append(stage(action, self.draft, is_merged=is_merged))
            self.statements += 1
        except NO_LONGER_FITS:
            for name in _looked_at(action):
                self._read(EXISTS[name.kind], name)
            raise

    @property
    def has_writes(self) -> bool:
        return next(self._writes(), None) is not None

    def leaves_anything(self) -> bool:
        """Return True if a version with the transaction would differ from its base."""
        return self.has_writes and not self.changes_nothing

    @property
    def changes_nothing(self) -> bool:
        """True if all staged writes are alters and restores to the state of the base. They need no new version."""
        return all(type in _MAY_CHANGE_NOTHING for type in self._writes()) and self.draft.is_unchanged()

    def _writes(self) -> Iterator[ActionType]:
        return (action.type for action in self.actions if action.type not in _SILENT and not action.merged)

    def mark(self) -> Mark:
        """Return the current state, for `go_back`."""
        return self.draft.copy(), list(self.actions), set(self._reads), self.statements

    def go_back(self, mark: Mark, *, keep_reads: bool = False) -> None:
        """Undo all changes since the mark. Reads no files, so it cannot fail.

        With `keep_reads`, keep the reads, for callers that continue the transaction after an error.
        """
        reads = self.reads
        self.draft, self.actions, self._reads, self.statements = mark
        self.base = self.draft.base
        if keep_reads:
            self.take_reads(reads)

    def take_actions(self, actions: Sequence[Action]) -> None:
        """Continue from saved actions."""
        self.actions = [stage(action, self.draft) for action in actions]
        self._reads = set(self.reads)

    def rebase(self, base: Snapshot, actions: Sequence[Action]) -> None:
        """Apply the actions to another version. If one of them fails, nothing changes."""
        draft = Draft(base)
        staged = []
        for action in actions:
            try:
                staged.append(stage(action, draft))
            except (*NO_LONGER_FITS, CommitConflict) as error:
                what = f"{action.type_name} {action.name or 'the catalog'}"
                raise CommitConflict(f"{what} no longer fits version {base.version}: {error.message}") from error
        self.base, self.draft, self.actions = base, draft, staged

    # Reads

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
        """Rename a namespace with its objects. Ids and definitions are unchanged."""
        payload = RenameDef(new_namespace_name=new.namespace)
        self.do(_action(T.NAMESPACE_RENAME, old, self._need(old), payload))

    def drop_namespace(self, name: NamespaceName, cascade: bool = False) -> None:
        """Drop an empty namespace or, with `cascade`, one with all its objects."""
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
        """Register an Iceberg table by the location of its metadata, which is not read."""
        check_object_properties(properties or {})
        check_text(metadata_location, "metadata location")
        check_no_secret(metadata_location, "metadata location")
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
        """Change a table. A new metadata location makes the current one the previous one.

        The current location again changes neither. With a payload, it adds to the record of a change made earlier in
        the transaction. `expected_metadata_location` is the one that the caller has seen: any other is a conflict, now
        and when the commit is rebased. A change of data has its own `type` (such as an insert) and `payload`. `reapply`
        repeats it on the metadata location of a concurrent writer, and returns the new location.
        """
        check_changes(set_properties, unset_properties, metadata_location, payload)
        check_object_properties(set_properties or {})
        check_text(metadata_location or "", "metadata location")
        check_text(expected_metadata_location or "", "expected metadata location")
        definition = cast(TableDef, self._need(name))
        present = definition.iceberg_metadata_location
        if metadata_location is not None and not carries_secret(present):
            # a table whose location already holds a secret can still be changed
            check_no_secret(metadata_location, "metadata location")
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
        # our fields have other numbers than the format's payloads, so one message can hold both
        content = payload + change.SerializeToString()
        again = None if reapply is None else Reapply(present, reapply)
        self.do(Action(type, name, body(definition), content, reapply=again), is_merged=True)

    def rename_table(self, old: TableName, new: TableName) -> None:
        """Rename a table, also into another namespace. Id and definition are unchanged."""
        payload = RenameDef(new_namespace_name=new.namespace, new_name=new.name)
        self.do(_action(T.TABLE_RENAME, old, self._need(old), payload))

    def drop_table(self, name: TableName) -> None:
        self.do(self._drop(T.TABLE_DROP, name))

    # Views

    def create_view(self, name: ViewName, definition: ViewDef) -> None:
        """Create a view. The definition gets a new id."""
        check_object_properties(definition.properties)
        check_no_secret(definition.iceberg_metadata_location, "metadata location")
        self.do(_action(T.VIEW_CREATE, name, _with_id(definition, new_uuid())))

    def replace_view(self, name: ViewName, definition: ViewDef) -> None:
        """Replace a view's definition. The id and the notes of an import are kept.

        Unchanged properties and locations are not checked.
        """
        former = cast(ViewDef, self._need(name))
        check_object_properties(dict(definition.properties.items() - former.properties.items()))
        if not carries_secret(former.iceberg_metadata_location):
            check_no_secret(definition.iceberg_metadata_location, "metadata location")
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
        """Change properties, transaction lifetime and isolation level. Order and name sizes never change."""
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
        """Record acknowledged damage of older versions, in fsck's form."""
        self._note(ACKNOWLEDGED, findings)

    def note_import(self, source: str, note: str) -> None:
        """Record the state of an import, by the id of its source."""
        self._note(IMPORTED + source, note)

    def _note(self, key: str, value: str) -> None:
        """Set a property that only the program may set."""
        definition = self.draft.catalog
        change = _apply_properties(definition, {key: value}, ())
        self.do(_action(T.CATALOG_ALTER, None, definition, change), is_merged=True)

    def restore(self, former: CatalogObject[ObjectDefinition], from_version: int) -> None:
        """Restore an object from an older version under its own id.

        Raise an error if the object exists under another name: ids are unique.
        """
        for name, now in self._moved([former], from_version).items():
            raise _lives_as(name, now, from_version)
        self._restore(former, from_version)

    def restore_all(
        self, formers: Sequence[CatalogObject[ObjectDefinition]], from_version: int
    ) -> dict[ObjectName, ObjectName]:
        """Restore many objects of one version, namespaces before their objects. Unchanged objects are skipped.

        Tables and views that exist under other names are not restored; return their former and current names.
        """
        moved = self._moved(formers, from_version)
        for name, now in moved.items():
            if isinstance(name, NamespaceName):
                raise _lives_as(name, now, from_version)
        for former in formers:
            if former.name in moved:
                continue
            present = self.draft.get(former.name)
            if present is not None and body(present) == body(former.definition):
                self._read(DESCRIBES[former.name.kind], former.name)
            else:
                self._restore(former, from_version)
        return moved

    def _moved(
        self, formers: Sequence[CatalogObject[ObjectDefinition]], from_version: int
    ) -> dict[ObjectName, ObjectName]:
        """Return the former and current names of the objects that have other names now."""
        # imported here, because only a restore needs it
        from olympia_cli.catalog.lineage import living_names

        lives = living_names({each.id: each.name for each in formers}, from_version, self.base, self.actions)
        moved = {each.name: now for each in formers if (now := lives[each.id]) is not None and now != each.name}
        for now in moved.values():
            self._read(EXISTS[now.kind], now)
        return moved

    def _restore(self, former: CatalogObject[ObjectDefinition], from_version: int) -> None:
        payload = RestoreDef(from_version=from_version)
        self.do(_action(_RESTORES[former.name.kind], former.name, former.definition, payload))

    def roll_back(self, to_version: int) -> None:
        """Replace the tree by that of an older version."""
        if self.has_writes:
            raise InvalidOption("a rollback is a transaction of its own", hint="commit or drop the other changes first")
        payload = RollbackDef(from_version=self.base.version, to_version=to_version)
        self.do(Action(T.CATALOG_ROLLBACK, None, b"", payload.SerializeToString()))

    def note_revert(self, first: int, last: int) -> None:
        """Record in the log that these versions (inclusive) are reverted."""
        note = CommitInfoDef(reverts=[VersionRange(first=first, last=last)])
        self.do(Action(T.COMMIT_INFO, None, b"", note.SerializeToString()))

    def _drop(self, type: ActionType, name: ObjectName, payload: Message | None = None) -> Action:
        """Return the action that drops the object, even if its definition is damaged."""
        try:
            return _action(type, name, self._need(name), payload)
        except Damaged:
            return Action(type, name, b"", b"" if payload is None else payload.SerializeToString())


def _looked_at(action: Action) -> list[ObjectName]:
    """Return the names that decide whether an action fits: those that it names, and their namespaces."""
    names = touched(action)
    return sorted(names | {NamespaceName(name.namespace) for name in names}, key=str)


def _lives_as(name: ObjectName, now: ObjectName, version: int) -> OlympiaError:
    word = {Kind.NAMESPACE: "ns"}.get(name.kind, name.kind.word)
    return type(exists(now))(
        f"{name} of version {version} lives as {now} now",
        hint="rename it back",
        command=command_words(word, "rename", names=[str(now), str(name)]),
    )


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
    """Return the properties that an unset removes, without those that do not exist.

    If an alter would then name no property at all, return all of them: an alter without names may change everything.
    """
    there = [key for key in unset_properties if key in definition.properties]
    return there if there or set_properties else list(unset_properties)


def _with_id(definition: ViewDef, id: str) -> ViewDef:
    named = ViewDef()
    named.CopyFrom(definition)
    named.id = id
    return named
