"""Import a DeltaCAT catalog: its state at a time in one commit, or one commit per transaction.

1. `Source.objects`, or `History.apply`, yields the objects at the source; `contents` reads the content of a table.
2. `PresentObjects` has the objects here. They have the ids of the source, and their properties record it.
3. The two are compared. An object that changed at the source, and not here, changes here, and an object that was
   dropped there is dropped. An object that was changed here stays as it is, and is reported.
4. `tables` writes manifests, and makes the new metadata of a table. The change is staged.
5. The commit sets a property of this catalog, too: the time of the source up to which everything was imported. So an
   interrupted history continues where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, cast

from olympia_cli.catalog.properties import (
    DELTACAT,
    DELTACAT_CATALOG,
    DELTACAT_DESCRIPTION,
    DELTACAT_HISTORY,
    DELTACAT_LEFT_OUT,
    DELTACAT_METADATA,
    DELTACAT_NAMESPACE,
    DELTACAT_PROPERTY,
    DELTACAT_REWRITTEN,
    DELTACAT_TABLE,
    DELTACAT_TRANSACTION,
    DELTACAT_VERSION,
    FORMER_NAME,
    RESERVED,
)
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidName, InvalidOption
from olympia_cli.format import definitions
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef
from olympia_cli.iceberg import CatalogTransaction, OlympiaCatalog, columns_told, identifier_of
from olympia_cli.importers.deltacat.contents import Contents, Unreadable, contents
from olympia_cli.importers.deltacat.index import Ended, Row
from olympia_cli.importers.deltacat.metadata import Namespace, TransactionLog
from olympia_cli.importers.deltacat.rewrite import Rewriter
from olympia_cli.importers.deltacat.schemas import Unfit
from olympia_cli.importers.deltacat.source import (
    History,
    Metafile,
    Source,
    SourceObject,
    SourceTable,
    SourceTransaction,
)
from olympia_cli.importers.deltacat.tables import (
    RewrittenFiles,
    TablePlan,
    create_table,
    known_files,
    plan_table,
    update_table,
)
from olympia_cli.importers.footers import SourceFolder
from olympia_cli.importers.objects import CHANGED_HERE, Key, PresentObjects, Renaming
from olympia_cli.importers.olympia import ImportNote, check_into, read_note
from olympia_cli.importers.result import ImportAdvice, ImportedTable, ImportResult, Omission
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, as_found, time_text

_NAMES = (DELTACAT_NAMESPACE, DELTACAT_TABLE, FORMER_NAME)
_NOT_MADE = "not made"
_REVISIONS = 100
_UNWRITTEN = "they could not be read when the table was rewritten; an import of newer data tries them again"


@dataclass(frozen=True, slots=True)
class _Creation:
    """A table to create as soon as its name is free."""

    key: Key
    source_name: TableName
    name: TableName
    plan: TablePlan
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Rename:
    """An object to rename as soon as the name is free. Its properties record the name at the source then."""

    key: Key
    source_name: ObjectName
    name: ObjectName
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class _PresentTable:
    """A table as it is here, and the record of its import in its properties."""

    name: TableName
    definition: TableDef

    def recorded(self, key: str) -> str:
        return self.definition.properties.get(key, "")

    @property
    def source_name(self) -> TableName:
        return TableName.known_legal(self.recorded(DELTACAT_NAMESPACE), self.recorded(DELTACAT_TABLE))

    @property
    def was_rewritten(self) -> bool:
        return self.recorded(DELTACAT_REWRITTEN) == "true"

    @property
    def is_as_imported(self) -> bool:
        return self.definition.properties.get(DELTACAT_METADATA) == self.definition.iceberg_metadata_location

    def unwritten(self, plan: TablePlan | None) -> list[Omission]:
        """Return the rows that an earlier rewrite could not read: they are not tried again, and are still missing."""
        noted = self.recorded(DELTACAT_LEFT_OUT)
        missing = int(noted) - len(plan.skipped) if plan is not None and noted.isdecimal() else 0
        return [Omission(f"rows of {missing} partitions", _UNWRITTEN)] if self.was_rewritten and missing > 0 else []


@dataclass(slots=True)
class DeltacatImport:
    """An import in progress. `rewriter` writes rows that plain files cannot express, if there is one."""

    source: Source
    folder: SourceFolder
    catalog: OlympiaCatalog
    renaming: Renaming
    rewriter: Rewriter | None = None
    dry_run: bool = False
    result: ImportResult = field(default_factory=ImportResult)
    created: dict[Key, ImportedTable] = field(default_factory=dict)
    moved_on: dict[Key, ImportedTable] = field(default_factory=dict)
    left_out: dict[Key, list[Omission]] = field(default_factory=dict)
    here: PresentObjects = field(init=False)
    mine: set[Key] = field(default_factory=set)
    """The objects here that came from this source."""
    _staged: CatalogTransaction = field(init=False)
    _before: int = field(init=False)
    _waiting: list[_Creation | _Rename] = field(init=False)
    _version: int | None = None

    # Commits

    def run(self, before: int, message: str) -> tuple[ImportResult, int]:
        """Import the catalog as it is at a time, in one commit. Return the result, and the version."""
        unread: list[Omission] = []
        self._begin(before)
        self._check_note(before)
        self._stage(_readable(self.source.objects(before), unread), self._dropped(before))
        version = self.commit(before, message)
        return self._total(unread), version

    def history(self, before: int, message: str) -> tuple[ImportResult, int]:
        """Import each new transaction as a commit, in the order of their ends."""
        self._begin(before)
        note = self._check_note(before)
        version, history = self._staged.version, History(self.source)
        for ended in self.source.index.ended(0, before):
            touched, dropped = history.apply(ended)
            if note is not None and ended.ended_at <= note.version:
                continue
            about = _about(ended, self.source.log(ended))
            self._begin(ended.ended_at + 1)
            self._stage(touched, dropped)
            version = self.commit(ended.ended_at + 1, f"{message}\n{about}" if message else about)
        self._begin(before)
        self._stage(history.others({*self.created, *self.moved_on}), ())
        version = max(version, self.commit(before, message))
        return self._total([*history.unread.values()]), version

    def inspect(self, before: int) -> tuple[ImportResult, list[SourceTransaction]]:
        """Return the result of an import, and the transactions. These are read first, because they define where URLs
        lead."""
        transactions = list(self.source.transactions(before))
        return self.run(before, "")[0], transactions

    @property
    def _transaction(self) -> Transaction:
        return self._staged.staged

    def _begin(self, before: int) -> None:
        """Begin a commit of the state of the source before a time."""
        self._staged, self._before, self._waiting = CatalogTransaction.begin(self.catalog), before, []
        names = self.here.names if self._version is not None else {}
        if self._staged.version != self._version:
            # at the beginning, or after a commit of another program
            names, self.mine, self._version = {}, set(), self._staged.version
            for kind in (Kind.NAMESPACE, Kind.TABLE):
                for present in self._transaction.base.objects(kind):
                    names[kind, present.id] = present.name
                    if present.definition.properties.get(DELTACAT_CATALOG) == self.source.identity:
                        self.mine.add((kind, present.id))
        self.here = PresentObjects(self._transaction, names)

    def _check_note(self, before: int) -> ImportNote | None:
        note = read_note(self._transaction, self.source.identity)
        check_into(note, self.renaming.into)
        if note is not None and note.version > self.source.index.last_end(before):
            raise InvalidOption(
                f"that catalog was imported already as it was at {time_text(note.version // 1_000_000)}, "
                "which is later",
                hint="leave out --at, or name a later time",
            )
        return note

    def commit(self, before: int, message: str) -> int:
        """Commit the staged changes with the note; do nothing if there is nothing new."""
        note, identity = ImportNote(self.source.index.last_end(before), self.renaming.into), self.source.identity
        if identity and read_note(self._transaction, identity) != note:
            self._transaction.note_import(identity, note.encode())
        if self.dry_run or not self._transaction.has_writes:
            return self._staged.version
        self._version = self._staged.commit(message).version
        return self._version

    def _total(self, unread: list[Omission]) -> ImportResult:
        self.result.created, self.result.moved_on = [*self.created.values()], [*self.moved_on.values()]
        self.result.left_out = [*unread, *(omission for omissions in self.left_out.values() for omission in omissions)]
        return self.result

    def _dropped(self, before: int) -> list[Key]:
        """Return the objects that were dropped at the source. An object that is missing there without a drop was lost:
        it stays, and is reported."""
        lost, dropped = set(self.mine), []
        for key, lives in self.source.states(before):
            lost.discard(key)
            if not lives and key in self.mine:
                dropped.append(key)
        for key in lost:
            self._leave(key, self.here.names[key], "it is not at the source, and was not dropped there")
        return dropped

    def _stage(self, objects: Iterable[SourceObject], dropped: Iterable[Key]) -> None:
        """Stage drops, creations and changes. A name may become free only when another object has moved on from it."""
        for key in sorted(dropped, reverse=True):
            # tables before their namespaces
            self._drop(key)
        for source_object in objects:
            if isinstance(source_object, SourceTable):
                self._import_table(source_object)
            elif self.renaming.into is None:
                self._import_namespace(source_object)
        waiting: list[_Creation | _Rename] = []
        while len(self._waiting) != len(waiting):
            waiting, self._waiting = self._waiting, []
            for change in waiting:
                self._stage_when_free(change)

    def _stage_when_free(self, change: _Creation | _Rename) -> None:
        if self.here.has(change.name):
            reason = f"another {change.name.kind.word} has the name {change.name} here"
            self._leave(change.key, change.source_name, reason)
            self._waiting.append(change)
            return
        self.left_out.pop(change.key, None)
        if isinstance(change, _Creation):
            self._create_table(change)
        else:
            self._rename(change)

    # Namespaces

    def _import_namespace(self, namespace: Namespace) -> None:
        source_name = as_found(Kind.NAMESPACE, namespace.name)
        key, name = (Kind.NAMESPACE, self.source.id_of(namespace.id)), self.renaming.name(source_name)
        revisions = self.source.index.revisions((namespace.id,), self._before)
        properties = _namespace_properties(namespace, self.source.identity, revisions) | self._former(source_name)
        here = self.here.names.get(key)
        if not name.namespace:
            self._leave_out(key, f"namespace {namespace.id}", "it has no name")
        elif here is None:
            if not self.here.has(name):
                self._create(NamespaceDef(id=key[1], properties=properties), name, source_name)
                self.result.namespaces += 1
        else:
            present = self.here.definition(here).properties
            before = self.renaming.name(as_found(Kind.NAMESPACE, present.get(DELTACAT_NAMESPACE, "")))
            if here == name and all(present.get(one) == value for one, value in properties.items()):
                self.result.unchanged += 1
            elif here not in (before, name):
                self._leave(key, source_name, CHANGED_HERE)
            else:
                self._change(key, source_name, name, properties)

    # Tables

    def _import_table(self, table: SourceTable) -> None:
        key = (Kind.TABLE, self.source.id_of(table.id))
        self.left_out.pop(key, None)
        try:
            present = self._present_table(key)
            was_rewritten = present is not None and present.was_rewritten
            wanted = contents(self.source, table, self.rewriter is not None or was_rewritten, was_rewritten)
            self._compare_table(key, table, wanted, present)
        except (Unreadable, Unfit) as error:
            self._leave(key, table.name, str(error))
        except InvalidName as error:
            self._leave(key, table.name, error.message)

    def _present_table(self, key: Key) -> _PresentTable | None:
        name = self.here.names.get(key)
        if name is None:
            return None
        return _PresentTable(cast(TableName, name), cast(TableDef, self.here.definition(name)))

    def _compare_table(self, key: Key, table: SourceTable, wanted: Contents, present: _PresentTable | None) -> None:
        index, folders, renamed = self.source.index, table.file.row.object, self.renaming.name(table.name)
        # raises InvalidName for an empty name, which no rule makes legal
        name = TableName(renamed.namespace, renamed.name)
        last = index.last_of(folders, self._before)
        if present is not None and key not in self.mine:
            self._leave(key, table.name, "another import has made it")
            return
        revisions = index.revisions(folders, self._before)
        properties = _table_properties(table, wanted, self.source.identity, last, revisions)
        properties |= self._former(table.name)
        if present is None:
            new = plan_table(self.folder, wanted)
            self._stage_when_free(_Creation(key, table.name, name, new, properties))
            return
        is_new = present.name != name or present.source_name != table.name
        is_new = is_new or present.recorded(DELTACAT_TRANSACTION) != last
        is_new = is_new or (bool(wanted.pieces) and not present.was_rewritten)
        plan: TablePlan | None = None
        if is_new or wanted.skipped or present.recorded(DELTACAT_LEFT_OUT) != "0":
            loaded = self._staged.load_table(identifier_of(present.name))
            known = frozenset(known_files(loaded))
            plan = plan_table(self.folder, wanted, loaded.spec(), known)
            # files that were left out before may exist now
            is_new = is_new or not plan.files.keys() <= known
            is_new = is_new or (bool(plan.pieces) and not present.was_rewritten)
        if plan is None or not is_new:
            self.result.unchanged += 1
            self._leave_parts(key, table.name, plan, present.unwritten(plan))
        elif present.name not in (name, self._renamed(present.source_name)) or not present.is_as_imported:
            self._leave(key, table.name, CHANGED_HERE)
        elif plan.pieces and self.rewriter is None:
            reason = "its rows were rewritten here, and it has newer data at the source"
            self._leave(key, table.name, reason, self.source.rewrite)
        elif plan.is_torn:
            # the table here may have rows that can no longer be read at the source
            self._leave_parts(key, table.name, plan)
        else:
            self._update_table(key, present, table.name, name, plan, properties)

    def _create_table(self, new: _Creation) -> None:
        plan, namespace = new.plan, NamespaceName(new.name.namespace)
        if not self.here.has(namespace):
            if self.renaming.into is None:
                self._leave(new.key, new.source_name, "its namespace is not here")
                return
            self._transaction.create_namespace(namespace)
            self.result.namespaces += 1
        location, rewritten = _NOT_MADE, RewrittenFiles()
        if not self.dry_run:
            state, rewritten = create_table(self._staged, new.name, new.key[1], plan, self.rewriter)
            location = self._staged.stage(state)
        properties = new.properties | _made(location, plan, rewritten)
        if plan.pieces:
            properties[DELTACAT_REWRITTEN] = "true"
        definition = TableDef(id=new.key[1], properties=properties, iceberg_metadata_location=location)
        self._create(definition, new.name, new.source_name)
        self.created[new.key] = self._imported(new.name, new.source_name, location, plan, rewritten)

    def _update_table(
        self,
        key: Key,
        present: _PresentTable,
        source_name: TableName,
        name: TableName,
        plan: TablePlan,
        properties: dict[str, str],
    ) -> None:
        """Move a table on to the plan. A table that this import created only counts as created."""
        rewritten = RewrittenFiles()
        if not self.dry_run:
            rewritten = update_table(self._staged, present.name, plan, self.rewriter)
        if rewritten.skipped:
            # the table here may have rows that can no longer be read at the source
            self._leave_parts(key, source_name, plan, rewritten.skipped)
            return
        location = cast(TableDef, self.here.definition(present.name)).iceberg_metadata_location
        if plan.pieces or present.was_rewritten:
            properties[DELTACAT_REWRITTEN] = "true" if plan.pieces else "false"
        into = self.created if key in self.created else self.moved_on
        into[key] = self._imported(present.name, source_name, location, plan, rewritten)
        self._change(key, source_name, name, properties | _made(location, plan, rewritten))

    def _imported(
        self, name: TableName, source_name: TableName, location: str, plan: TablePlan, rewritten: RewrittenFiles
    ) -> ImportedTable:
        """Return the report of a table. A dry run does not know the files that a rewrite writes."""
        files: int | None = len(plan.files) + len(rewritten.files)
        rows = None if plan.rows is None else plan.rows + sum(file.record_count for file in rewritten.files)
        size: int | None = plan.size + sum(file.file_size_in_bytes for file in rewritten.files)
        if plan.pieces and self.dry_run:
            files = rows = size = None
        skipped, columns = (*plan.skipped, *rewritten.skipped), columns_told(plan.schema)
        return ImportedTable(name, str(source_name), location, frozenset(), files, rows, skipped, size, columns)

    # Changes of objects

    def _create(self, definition: NamespaceDef | TableDef, name: ObjectName, source_name: ObjectName) -> None:
        self.here.create(name, definition.id, definitions.body(definition))
        self.mine.add((name.kind, definition.id))
        if (former := self.renaming.former(source_name)) is not None:
            self.result.renamed.append((former, str(name)))

    def _change(self, key: Key, source_name: ObjectName, name: ObjectName, properties: dict[str, str]) -> None:
        """Set properties, and rename once the name is free. The names at the source are recorded then."""
        names = {one: properties.pop(one) for one in _NAMES if one in properties}
        self._set(self.here.names[key], properties)
        if self.here.names[key] == name:
            self._set(name, names)
        else:
            self._stage_when_free(_Rename(key, source_name, name, names))

    def _rename(self, change: _Rename) -> None:
        self.here.rename(change.key, change.name)
        for tables in (self.created, self.moved_on):
            if change.key in tables and isinstance(change.name, TableName):
                tables[change.key] = replace(tables[change.key], name=change.name)
        self._set(change.name, change.properties)

    def _set(self, name: ObjectName, properties: Mapping[str, str]) -> None:
        """Set properties, and keep those that were set here."""
        new = deepcopy(self.here.definition(name))
        new.properties.update(properties)
        self.here.alter(name, new)

    def _drop(self, key: Key) -> None:
        name = self.here.names.get(key)
        if name is None or key not in self.mine:
            return
        present = self._present_table(key) if isinstance(name, TableName) else None
        if isinstance(name, NamespaceName) and not self.here.is_empty(name):
            self._leave(key, name, "it was dropped at the source, and is not empty here")
        elif present is not None and not present.is_as_imported:
            self._leave(key, name, "it was dropped at the source, and changed here")
        else:
            self.here.drop(key)
            self.created.pop(key, None)
            self.moved_on.pop(key, None)
            self.result.dropped += 1

    def _former(self, source_name: ObjectName) -> dict[str, str]:
        former = self.renaming.former(source_name)
        return {} if former is None else {FORMER_NAME: _text(former)}

    def _renamed(self, source_name: ObjectName) -> ObjectName:
        """Return the name that an import gave the object here; its namespace may already have moved."""
        return self.here.moved(self.renaming.name(source_name))

    # Parts that are left out

    def _leave(self, key: Key, name: ObjectName, reason: str, advice: ImportAdvice | None = None) -> None:
        self._leave_out(key, f"{name.kind.word} {name}", reason, advice)

    def _leave_out(self, key: Key, part: str, reason: str, advice: ImportAdvice | None = None) -> None:
        self.left_out[key] = [Omission(part, reason, advice)]

    def _leave_parts(self, key: Key, name: TableName, plan: TablePlan | None, more: Iterable[Omission] = ()) -> None:
        skipped = [*(() if plan is None else plan.skipped), *more]
        if skipped:
            self.left_out[key] = [Omission(f"{one.part} of table {name}", one.reason, one.advice) for one in skipped]


def _readable(objects: Iterable[SourceObject | Metafile], unread: list[Omission]) -> Iterator[SourceObject]:
    for source_object in objects:
        if isinstance(source_object, Metafile):
            unread.append(source_object.unread())
        else:
            yield source_object


def _about(ended: Ended, log: TransactionLog | str) -> str:
    """Return the commit message for a transaction of the source."""
    said = log.message if isinstance(log, TransactionLog) and log.message else "transaction"
    return f"{said} {ended.id}, {time_text(ended.ended_at // 1_000_000)}"


# Properties


def _namespace_properties(namespace: Namespace, catalog: str, revisions: Iterable[Row]) -> dict[str, str]:
    own = {
        # a `location` would set the folder of new tables here
        (f"{DELTACAT_PROPERTY}{key}" if key == "location" or key.startswith((RESERVED, DELTACAT)) else key): value
        for key, value in _texts(namespace.properties).items()
    }
    return {**own, DELTACAT_CATALOG: catalog, DELTACAT_NAMESPACE: _text(namespace.name), **_history(revisions)}


def _table_properties(
    table: SourceTable, content: Contents, catalog: str, last: str, revisions: Iterable[Row]
) -> dict[str, str]:
    properties = {
        **{f"{DELTACAT_PROPERTY}{key}": value for key, value in _texts(table.table.properties).items()},
        DELTACAT_CATALOG: catalog,
        DELTACAT_NAMESPACE: _text(table.namespace),
        DELTACAT_TABLE: _text(table.table.name),
        **_history(revisions),
        DELTACAT_TRANSACTION: last,
        DELTACAT_VERSION: content.version.version,
    }
    if description := content.version.description or table.table.description:
        properties[DELTACAT_DESCRIPTION] = _text(description)
    return properties


def _made(location: str, plan: TablePlan, rewritten: RewrittenFiles) -> dict[str, str]:
    """Return the properties of a table that the next import needs."""
    left_out = str(len(plan.skipped) + len(rewritten.skipped))
    # without a transaction, the table counts as changed and is rewritten
    again = {DELTACAT_TRANSACTION: ""} if rewritten.may_come else {}
    return {DELTACAT_METADATA: location, DELTACAT_LEFT_OUT: left_out, **again}


def _history(revisions: Iterable[Row]) -> dict[str, str]:
    rows = list(revisions)
    newest = [
        {
            "revision": row.number,
            "operation": row.operation,
            "transaction": row.transaction,
            "at": time_text(row.ended_at // 1_000_000),
        }
        for row in rows[-_REVISIONS:]
    ]
    return {DELTACAT_TRANSACTION: rows[-1].transaction if rows else "", DELTACAT_HISTORY: json.dumps(newest)}


def _texts(properties: Mapping[Any, Any]) -> dict[str, str]:
    """Return properties as text: other values are written as JSON."""
    return {
        _text(str(key)): _text(value if isinstance(value, str) else json.dumps(value, default=repr, sort_keys=True))
        for key, value in properties.items()
        if str(key) and value is not None
    }


def _text(value: str) -> str:
    """Return a text that a definition can hold: half of a surrogate pair is replaced."""
    return value.encode("utf-8", "replace").decode()
