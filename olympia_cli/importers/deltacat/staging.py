"""Stage changes of objects that came from a DeltaCAT catalog, one commit after the other: the objects here by id, and
the changes that are impossible."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.io import FileIO

from olympia_cli.catalog.lineage import TYPES
from olympia_cli.catalog.replay import moved
from olympia_cli.catalog.snapshot import ObjectDefinition, Snapshot
from olympia_cli.catalog.staging import RESERVED
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.transaction import CatalogTransaction
from olympia_cli.importers.deltacat.bodies import Namespace, Table
from olympia_cli.importers.deltacat.index import Row
from olympia_cli.importers.deltacat.rewrite import Rewriter
from olympia_cli.importers.deltacat.source import Contents, Source
from olympia_cli.importers.iceberg import FoundTable, Imported, LeftOut, Remedy
from olympia_cli.importers.objects import FORMER_NAME, Renaming
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, time_text
from olympia_cli.ops.inspect import alter_payload, changed_fields

# The properties in which an imported object records its source; they begin with `deltacat.`.
#
# | property | of | meaning |
# | --- | --- | --- |
# | `deltacat.catalog` | both | id of the catalog, wherever it is copied to |
# | `deltacat.namespace`, `deltacat.table` | both, tables | its names there |
# | `deltacat.transaction` | both | the last transaction that wrote to it |
# | `deltacat.history` | both | its newest hundred revisions: number, operation, transaction, time |
# | `deltacat.table-version` | tables | the version of the table |
# | `deltacat.description` | tables | its description |
# | `deltacat.property.*` | both | properties whose own names have another meaning here |
# | `deltacat.left-out` | tables | number of groups of parts that were left out |
# | `deltacat.rewritten` | tables | whether rows of it were merged and rewritten |
# | `deltacat.metadata-location` | tables | the metadata of the import: any other was written here |

PREFIX = "deltacat."
CATALOG, TRANSACTION, METADATA = f"{PREFIX}catalog", f"{PREFIX}transaction", f"{PREFIX}metadata-location"
REWRITTEN = f"{PREFIX}rewritten"
NAMESPACE, TABLE, LEFT_OUT = f"{PREFIX}namespace", f"{PREFIX}table", f"{PREFIX}left-out"
_REVISIONS = 100
_OWN = f"{PREFIX}property."


def of_namespace(namespace: Namespace, catalog: str, revisions: Iterable[Row]) -> dict[str, str]:
    own = {
        # a `location` would set the folder of new tables here
        (f"{_OWN}{key}" if key == "location" or key.startswith((RESERVED, PREFIX)) else key): value
        for key, value in texts(namespace.properties).items()
    }
    return {**own, CATALOG: catalog, NAMESPACE: text(namespace.name), **_history(revisions)}


def of_table(
    table: Table, namespace: str, catalog: str, transaction: str, revisions: Iterable[Row], contents: Contents
) -> dict[str, str]:
    description = contents.version.description or table.description
    found = {
        **{f"{_OWN}{key}": value for key, value in texts(table.properties).items()},
        CATALOG: catalog,
        NAMESPACE: text(namespace),
        TABLE: text(table.name),
        **_history(revisions),
        TRANSACTION: transaction,
        f"{PREFIX}table-version": contents.version.version,
    }
    return {**found, **({f"{PREFIX}description": text(description)} if description else {})}


def _history(revisions: Iterable[Row]) -> dict[str, str]:
    rows = list(revisions)
    told = [
        {
            "revision": row.number,
            "operation": row.operation,
            "transaction": row.transaction,
            "at": time_text(row.ended_at // 1_000_000),
        }
        for row in rows[-_REVISIONS:]
    ]
    return {TRANSACTION: rows[-1].transaction if rows else "", f"{PREFIX}history": json.dumps(told)}


def texts(properties: Mapping[Any, Any]) -> dict[str, str]:
    """Return properties as text: other values are written as JSON."""
    return {
        text(str(key)): text(value if isinstance(value, str) else json.dumps(value, default=repr, sort_keys=True))
        for key, value in properties.items()
        if str(key) and value is not None
    }


def text(value: str) -> str:
    """Return a text that a definition can hold: half of a surrogate pair is replaced."""
    return value.encode("utf-8", "replace").decode()


_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NAMES = (NAMESPACE, TABLE, FORMER_NAME)

Key = tuple[Kind, str]
"""An object, by its kind and id."""


@dataclass(slots=True)
class Staging:
    """An import in progress. The files of the source are at `base`, and `io` reads them. `rewriter` writes rows that
    plain files cannot express, if there is one. `here` has the objects of this catalog by id, `mine` those that came
    from this source. `told` has what was left out, per object."""

    source: Source
    base: str
    io: FileIO
    catalog: OlympiaCatalog
    renaming: Renaming
    dry_run: bool
    rewriter: Rewriter | None = None
    done: Imported = field(default_factory=Imported)
    here: dict[Key, ObjectName] = field(default_factory=dict)
    mine: set[Key] = field(default_factory=set)
    told: dict[Key, list[LeftOut]] = field(default_factory=dict)
    created: dict[Key, FoundTable] = field(default_factory=dict)
    moved_on: dict[Key, FoundTable] = field(default_factory=dict)
    staged: CatalogTransaction = field(init=False)
    _version: int | None = None
    _before: int = field(init=False)
    _moves: list[tuple[NamespaceName, NamespaceName]] = field(init=False)
    _waiting: list[Callable[[], bool]] = field(init=False)

    @property
    def transaction(self) -> Transaction:
        return self.staged.staged

    def begin(self, before: int) -> CatalogTransaction:
        """Begin a commit of the state of the source before a time."""
        self.staged, self._before, self._waiting = CatalogTransaction.begin(self.catalog), before, []
        self._moves = []
        if self.staged.version != self._version:
            self._look(self.transaction.base)
        return self.staged

    def commit(self, message: str) -> int:
        """Commit the staged changes, and return the version."""
        self._version = self.staged.commit(message).version
        return self._version

    def _look(self, snapshot: Snapshot) -> None:
        """Read the objects of this catalog, before the import or after a commit of another program."""
        self.here, self.mine, self._version = {}, set(), snapshot.version
        for kind in (Kind.NAMESPACE, Kind.TABLE):
            for found in snapshot.objects(kind):
                self.here[kind, found.id] = found.name
                if found.definition.properties.get(CATALOG) == self.source.index.identity:
                    self.mine.add((kind, found.id))

    def dropped(self, before: int) -> list[Key]:
        """Return the objects that were dropped at the source. An object that is missing there without a drop was lost:
        it stays, and is reported."""
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
        """Return the id of an object here: its own if it is a UUID, else one that is derived from it."""
        return id if _UUID.fullmatch(id) else str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.source.index.identity}/{id}"))

    def _drop(self, key: Key) -> None:
        name = self.here.get(key)
        if name is None or key not in self.mine:
            return
        what = f"{name.kind.word} {name}"
        if isinstance(name, NamespaceName) and not self.transaction.draft.is_empty(name.namespace):
            self._leave(key, what, "it was dropped at the source, and is not empty here")
        elif isinstance(name, TableName) and not is_as_made(self._present(name)):
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

    def _change(self, key: Key, name: ObjectName, properties: dict[str, str], what: str) -> None:
        """Set properties, and rename once the name is free. The names at the source are recorded then."""
        names = {one: properties.pop(one) for one in _NAMES if one in properties}
        self._set(self.here[key], properties)
        if self.here[key] == name:
            self._set(name, names)
        else:
            self._try(key, lambda: self._renamed(key, name, names), name, what)

    def _set(self, name: ObjectName, properties: dict[str, str]) -> None:
        """Set properties, and keep those that were set here."""
        former = self._present(name)
        new = deepcopy(former)
        new.properties.update(properties)
        if fields := changed_fields(former, new):
            action = Action(TYPES[name.kind][1], name, definitions.body(new), alter_payload(fields))
            self.transaction.do(action, is_merged=True)

    def _renamed(self, key: Key, name: ObjectName, names: dict[str, str]) -> None:
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
        self._set(name, names)

    def _try(self, key: Key, do: Callable[[], None], name: ObjectName, what: str) -> None:
        """Run `do` once the name that it needs is free."""

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
        return {} if former is None else {FORMER_NAME: text(former)}

    def _present(self, name: ObjectName) -> ObjectDefinition:
        found = self.transaction.draft.get(name)
        assert found is not None
        return found

    def _leave(self, key: Key, what: str, why: str, remedy: Remedy | None = None) -> None:
        self.told[key] = [LeftOut(what, why, remedy)]

    def _former_name(self, named: ObjectName) -> ObjectName:
        """Return the name that an import gave the object here; its namespace may already have moved."""
        name = self.renaming.name(named)
        for old, new in self._moves:
            name = moved(name, old, new)
        return name


def is_as_made(definition: ObjectDefinition) -> bool:
    """Return True if a table is as an import left it."""
    assert isinstance(definition, TableDef)
    return definition.properties.get(METADATA) == definition.iceberg_metadata_location
