"""A DeltaCAT catalog brought into this one: as it is at a time, or transaction by transaction.

Objects keep their ids, and remember in properties where they came from. The next import goes by those: what moved on at
the source, and not here, moves on here, and what was dropped there is dropped. What was changed here stays as it is,
and is told.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import cast

from pyiceberg.io import FileIO

from olympia_cli.catalog.replay import moved
from olympia_cli.catalog.snapshot import ObjectDefinition, Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidName
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.catalog_transaction import CatalogTransaction
from olympia_cli.iceberg.identifiers import identifier_of
from olympia_cli.importers.deltacat import notes
from olympia_cli.importers.deltacat.bodies import Namespace, Table
from olympia_cli.importers.deltacat.contents import Contents, Unreadable, contents
from olympia_cli.importers.deltacat.schemas import Unfit
from olympia_cli.importers.deltacat.source import Source, SourceTable
from olympia_cli.importers.deltacat.tables import TablePlan, bring, known_files, make, plan
from olympia_cli.importers.iceberg import FoundTable, Imported, LeftOut
from olympia_cli.importers.renaming import FORMER_NAME, Renaming
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, as_found
from olympia_cli.ops.look.diff import changed_fields
from olympia_cli.ops.look.told import TYPES, alter_payload

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHANGED_HERE = "it was changed here"
_NOT_MADE = "not made"

Key = tuple[Kind, str]
"""An object by its id."""


@dataclass(slots=True)
class Adoption:
    """One import. `here` are the objects of this catalog by their ids, `mine` those that came from the source before;
    `told` is what was left out, by the object that it is of."""

    source: Source
    base: str
    io: FileIO
    catalog: OlympiaCatalog
    renaming: Renaming
    dry_run: bool
    done: Imported = field(default_factory=Imported)
    here: dict[Key, ObjectName] = field(default_factory=dict)
    mine: set[Key] = field(default_factory=set)
    told: dict[Key, list[LeftOut]] = field(default_factory=dict)
    created: dict[Key, FoundTable] = field(default_factory=dict)
    moved_on: dict[Key, FoundTable] = field(default_factory=dict)
    _moves: list[tuple[NamespaceName, NamespaceName]] = field(init=False)
    staged: CatalogTransaction = field(init=False)
    _version: int | None = None
    _before: int = field(init=False)
    _waiting: list[Callable[[], bool]] = field(init=False)

    @property
    def transaction(self) -> Transaction:
        return self.staged.staged

    def begin(self, before: int) -> CatalogTransaction:
        """A commit that brings what the source holds before a time."""
        self.staged, self._before, self._waiting = CatalogTransaction.begin(self.catalog), before, []
        self._moves = []
        if self.staged.version != self._version:
            self._look(self.transaction.base)
        return self.staged

    def commit(self, message: str) -> int:
        """Commit what is staged; the version."""
        self._version = self.staged.commit(message).version
        return self._version

    def _look(self, snapshot: Snapshot) -> None:
        """What is here before the import, or by now, when somebody else has committed meanwhile."""
        self.here, self.mine, self._version = {}, set(), snapshot.version
        for kind in (Kind.NAMESPACE, Kind.TABLE):
            for found in snapshot.objects(kind):
                self.here[kind, found.id] = found.name
                if found.definition.properties.get(notes.CATALOG) == self.source.index.identity:
                    self.mine.add((kind, found.id))

    def take(self, found: Iterable[Namespace | SourceTable], gone: Iterable[Key]) -> None:
        """Stage what goes and what comes. A name may be free only when another object has moved on from it."""
        for key in sorted(gone, reverse=True):
            # tables before the namespaces that they are in
            self._drop(key)
        for one in found:
            if isinstance(one, SourceTable):
                self._table(one)
            elif self.renaming.into is None:
                self._namespace(one)
        waiting: list[Callable[[], bool]] = []
        while len(self._waiting) != len(waiting):
            waiting = self._waiting
            self._waiting = [attempt for attempt in waiting if not attempt()]

    def dropped(self, before: int) -> list[Key]:
        """What was dropped at the source. What is not there, and was not dropped, was lost: it stays, and is told."""
        lost, dropped = set(self.mine), []
        for folders, lives in self.source.index.roots(before):
            key = (Kind.NAMESPACE if len(folders) == 1 else Kind.TABLE), self.id_of(folders[-1])
            lost.discard(key)
            if not lives and key in self.mine:
                dropped.append(key)
        for key in lost:
            self._leave(key, f"{key[0].word} {self.here[key]}", "it is not at the source, and was not dropped there")
        return dropped

    def id_of(self, id: str) -> str:
        """The id that an object has here: its own where it is one, else always the same other one."""
        return id if _UUID.fullmatch(id) else str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.source.index.identity}/{id}"))

    def has_told(self, table: SourceTable) -> bool:
        """Whether the table came or moved on in this import."""
        key = (Kind.TABLE, self.id_of(table.id))
        return key in self.created or key in self.moved_on

    # Namespaces

    def _namespace(self, found: Namespace) -> None:
        named = as_found(Kind.NAMESPACE, found.name)
        key, name = (Kind.NAMESPACE, self.id_of(found.id)), cast(NamespaceName, self.renaming.name(named))
        revisions = self.source.index.revisions((found.id,), self._before)
        properties = notes.of_namespace(found, self.source.index.identity or "", revisions) | self._former(named)
        here = self.here.get(key)
        if not name.namespace:
            self._leave(key, f"namespace {found.id}", "it has no name")
        elif here is None:
            if not self.transaction.draft.find(name):
                self._create(NamespaceDef(id=key[1], properties=properties), name, named)
                self.done.namespaces += 1
        else:
            self._follow_namespace(key, here, name, named, properties)

    def _follow_namespace(
        self, key: Key, here: ObjectName, name: NamespaceName, named: ObjectName, properties: dict[str, str]
    ) -> None:
        present = self._present(here)
        before = self.renaming.name(as_found(Kind.NAMESPACE, present.properties.get(notes.NAMESPACE, "")))
        if here == name and all(present.properties.get(one) == value for one, value in properties.items()):
            self.done.unchanged += 1
        elif here != before and here != name:
            self._leave(key, f"namespace {named}", _CHANGED_HERE)
        else:
            self._change(here, properties)
            self._rename(key, name, f"namespace {named}")

    # Tables

    def _table(self, table: SourceTable) -> None:
        key = (Kind.TABLE, self.id_of(table.id))
        self.told.pop(key, None)
        try:
            held = contents(self.source, table)
            self._hold(key, table, held)
        except (Unreadable, Unfit) as error:
            self._leave(key, f"table {table.name}", str(error))
        except InvalidName as error:
            self._leave(key, f"table {table.name}", error.message)

    def _hold(self, key: Key, table: SourceTable, held: Contents) -> None:
        body = table.found.body
        assert isinstance(body, Table)
        index, renamed = self.source.index, self.renaming.name(table.name)
        # refused here if nothing can make it legal: it is empty
        name = TableName(renamed.namespace, renamed.name)
        last = index.last_of(table.found.row.object, self._before)
        here = self.here.get(key)
        if here is not None and key not in self.mine:
            self._leave(key, f"table {table.name}", "another import has brought it")
            return
        revisions = index.revisions(table.found.row.object, self._before)
        properties = notes.of_table(body, table.namespace, index.identity or "", last, revisions, held)
        properties |= self._former(table.name)
        if here is None:
            planned = plan(self.base, self.io, held)
            self._try(key, lambda: self._make(key, table.name, name, planned, properties), name, f"table {table.name}")
            return
        assert isinstance(here, TableName)
        present = self._present(here)
        known_as = TableName.known_legal(*(present.properties.get(one, "") for one in (notes.NAMESPACE, notes.TABLE)))
        if here == name and known_as == table.name and present.properties.get(notes.TRANSACTION) == last:
            self.done.unchanged += 1
            self._tell_skipped(key, table.name, self._skipped(here, present, held))
            return
        if here not in (name, self._former_name(known_as)) or not _is_as_made(present):
            self._leave(key, f"table {table.name}", _CHANGED_HERE)
            return
        if held.is_torn:
            # what is here may be more than what can be read there by now
            self._tell_skipped(key, table.name, held.skipped)
            return
        planned = self._plan(here, held)
        if not self.dry_run:
            bring(self.staged, here, held.version, planned)
        made = cast(TableDef, self._present(here)).iceberg_metadata_location
        self._change(here, properties | {notes.METADATA: made, notes.LEFT_OUT: str(len(planned.skipped))})
        self._note(key, here, table.name, made, planned, self.moved_on)
        self._rename(key, name, f"table {table.name}")

    def _make(
        self, key: Key, named: TableName, name: TableName, planned: TablePlan, properties: dict[str, str]
    ) -> None:
        namespace = NamespaceName(name.namespace)
        if not self.transaction.draft.find(namespace):
            if self.renaming.into is None:
                self._leave(key, f"table {named}", "its namespace is not here")
                return
            self.transaction.create_namespace(namespace)
            self.done.namespaces += 1
        location = _NOT_MADE
        if not self.dry_run:
            location = self.staged.stage(make(self.staged, name, key[1], planned))
        properties |= {notes.METADATA: location, notes.LEFT_OUT: str(len(planned.skipped))}
        definition = TableDef(id=key[1], properties=properties, iceberg_metadata_location=location)
        self._create(definition, name, named)
        self._note(key, name, named, location, planned, self.created)

    def _note(
        self,
        key: Key,
        name: TableName,
        named: TableName,
        location: str,
        planned: TablePlan,
        into: dict[Key, FoundTable],
    ) -> None:
        """Tell of a table that comes or moves on; one that came in this import has only come."""
        found = FoundTable(name, str(named), location, frozenset(), len(planned.files), planned.rows, planned.skipped)
        (self.created if key in self.created else into)[key] = found

    def _skipped(self, here: TableName, present: ObjectDefinition, held: Contents) -> tuple[LeftOut, ...]:
        """What is left out of a table that has nothing new; files are looked at only if some did not fit."""
        if present.properties.get(notes.LEFT_OUT) == str(len(held.skipped)):
            return held.skipped
        return self._plan(here, held).skipped

    def _plan(self, here: TableName, held: Contents) -> TablePlan:
        table = self.staged.load_table(identifier_of(here))
        return plan(self.base, self.io, held, table.spec(), frozenset(known_files(table)))

    # What both need

    def _drop(self, key: Key) -> None:
        name = self.here.get(key)
        if name is None or key not in self.mine:
            return
        what = f"{name.kind.word} {name}"
        if isinstance(name, NamespaceName) and not self.transaction.draft.is_empty(name.namespace):
            self._leave(key, what, "it was dropped at the source, and is not empty here")
        elif isinstance(name, TableName) and not _is_as_made(self._present(name)):
            self._leave(key, what, "it was dropped at the source, and changed here")
        else:
            self.transaction.do(Action(TYPES[name.kind][2], name, definitions.body(self._present(name))))
            del self.here[key]
            self.created.pop(key, None)
            self.moved_on.pop(key, None)
            self.done.dropped += 1

    def _create(self, definition: NamespaceDef | TableDef, name: ObjectName, named: ObjectName) -> None:
        self.transaction.do(Action(TYPES[name.kind][0], name, definitions.body(definition)))
        self.here[name.kind, definition.id] = name
        self.mine.add((name.kind, definition.id))
        if (former := self.renaming.former(named)) is not None:
            self.done.renamed.append((former, str(name)))

    def _change(self, name: ObjectName, properties: dict[str, str]) -> None:
        """Set properties; those that were set here stay."""
        former = self._present(name)
        new = deepcopy(former)
        new.properties.update(properties)
        if fields := changed_fields(former, new):
            action = Action(TYPES[name.kind][1], name, definitions.body(new), alter_payload(fields))
            self.transaction.do(action, is_merged=True)

    def _rename(self, key: Key, name: ObjectName, what: str) -> None:
        if self.here[key] != name:
            self._try(key, lambda: self._renamed(key, name), name, what)

    def _renamed(self, key: Key, name: ObjectName) -> None:
        old = self.here[key]
        if isinstance(old, NamespaceName) and isinstance(name, NamespaceName):
            self.transaction.rename_namespace(old, name)
            self._moves.append((old, name))
            self.here = {one: moved(present, old, name) for one, present in self.here.items()}
        elif isinstance(old, TableName) and isinstance(name, TableName):
            self.transaction.rename_table(old, name)
            self.here[key] = name
            for told in (self.created, self.moved_on):
                if key in told:
                    told[key] = replace(told[key], name=name)

    def _try(self, key: Key, do: Callable[[], None], name: ObjectName, what: str) -> None:
        """Do what needs a name as soon as nobody has it."""

        def attempt() -> bool:
            if self.transaction.draft.find(name):
                self._leave(key, what, f"another {name.kind.word} has the name {name} here")
                return False
            self.told.pop(key, None)
            do()
            return True

        if not attempt():
            self._waiting.append(attempt)

    def _former(self, named: ObjectName) -> dict[str, str]:
        former = self.renaming.former(named)
        return {} if former is None else {FORMER_NAME: notes.text(former)}

    def _present(self, name: ObjectName) -> ObjectDefinition:
        found = self.transaction.draft.get(name)
        assert found is not None
        return found

    def _leave(self, key: Key, what: str, why: str) -> None:
        self.told[key] = [LeftOut(what, why)]

    def _tell_skipped(self, key: Key, name: TableName, skipped: Iterable[LeftOut]) -> None:
        told = [LeftOut(f"{one.what} of table {name}", one.why) for one in skipped]
        if told:
            self.told[key] = told

    def _former_name(self, named: ObjectName) -> ObjectName:
        """What an import called it here; its namespace may have moved on already."""
        name = self.renaming.name(named)
        for old, new in self._moves:
            name = moved(name, old, new)
        return name


def _is_as_made(definition: ObjectDefinition) -> bool:
    """Whether a table is as an import has left it."""
    assert isinstance(definition, TableDef)
    return definition.properties.get(notes.METADATA) == definition.iceberg_metadata_location
