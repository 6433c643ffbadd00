"""Stage objects of a source: an object that is created, changed or dropped there follows here, unless it was changed
here. Names that the format forbids are changed by one reversible rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import cast

from olympia_cli.catalog.lineage import TYPES
from olympia_cli.catalog.properties import FORMER_NAME
from olympia_cli.catalog.replay import moved
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import OlympiaError
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.node import Sizes
from olympia_cli.format.pb.actions_pb2 import RenameDef
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.importers.result import ImportedTable, ImportResult, Omission
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, as_found, full_name
from olympia_cli.ops.inspect import ObjectChange, alter_payload, changed_fields

# Rename objects whose names the format forbids: one reversible rule for all sources, like that of URLs.
#
# A space, a control character or half of a surrogate pair becomes `%` and two hex digits per byte of its UTF-8. So does
# a `%` before two hex digits. A name that is then too long for the catalog is cut, and ends in `~` and 16 hex digits of
# its SHA-256. The property `olympia.import.name` keeps the former name.

_ILLEGAL = re.compile("[\x00-\x20\x7f\ud800-\udfff]")
_FORBIDDEN = re.compile(f"{_ILLEGAL.pattern}|%(?=[0-9A-Fa-f]{{2}})")
_DIGITS = 16


def legal_name(name: str, size: int) -> str:
    """Return a legal name of at most `size` bytes; most names stay as they are."""
    legal = _FORBIDDEN.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), name)
    data = _bytes(legal)
    if len(data) <= size:
        return legal
    digest = sha256(_bytes(name)).hexdigest()[:_DIGITS]
    kept = data[: max(size - 1 - _DIGITS, 0)].decode("utf-8", "ignore")
    # do not cut an escape in half
    return (re.sub("%[0-9A-F]?$", "", kept) + "~" + digest)[:size]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names of a source in a catalog of these sizes. `into` is one namespace for all objects. `keeps_legal` is for a
    source that is one of our catalogs: a `%` in its names stays, because an earlier import may have put it there."""

    sizes: Sizes
    into: str | None = None
    keeps_legal: bool = False

    def namespace(self, name: str) -> str:
        return self._legal(name, self.sizes.namespace) if self.into is None else self.into

    def _legal(self, name: str, size: int) -> str:
        kept = self.keeps_legal and not _ILLEGAL.search(name) and len(_bytes(name)) <= size
        return name if kept else legal_name(name, size)

    def name(self, name: ObjectName) -> ObjectName:
        if name.kind is Kind.NAMESPACE:
            return as_found(Kind.NAMESPACE, self.namespace(name.namespace))
        size = self.sizes.table if name.kind is Kind.TABLE else self.sizes.view
        return as_found(name.kind, self.namespace(name.namespace), self._legal(name.name, size))

    def former(self, name: ObjectName) -> str | None:
        """Return the original name of a renamed object; None if its name stays."""
        new = self.name(name)
        if name.kind is Kind.NAMESPACE:
            return None if new == name else name.namespace
        moved = self.into is not None and name.namespace != self.into
        return full_name(name.namespace, name.name) if moved or new.name != name.name else None


# Stage objects of a source: an object that is created, changed or dropped there follows here, unless it was changed
# here.

AT_ONCE = 1024
KINDS = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
CHANGED_HERE = "it was changed here"

Key = tuple[Kind, str]
"""An object, by its kind and id."""


@contextmanager
def of_source(source: Snapshot) -> Iterator[None]:
    """Make an error's advice point to the source, not to the catalog that is imported into."""
    try:
        yield
    except OlympiaError as error:
        if error.command and error.command[0] != "-c":
            error.command = ("-c", source.store.uri, *error.command)
        raise


@dataclass(slots=True)
class PresentObjects:
    """The objects of this catalog by kind and id, and the changes that an import stages to them."""

    transaction: Transaction
    names: dict[Key, ObjectName]
    moves: list[tuple[ObjectName, ObjectName]] = field(default_factory=list)
    """The renames of namespaces in this transaction."""

    @classmethod
    def of(cls, transaction: Transaction) -> PresentObjects:
        names = {(kind, present.id): present.name for kind in KINDS for present in transaction.base.objects(kind)}
        return cls(transaction, names)

    def has(self, name: ObjectName) -> bool:
        return self.transaction.draft.find(name)

    def is_empty(self, namespace: ObjectName) -> bool:
        return self.transaction.draft.is_empty(namespace.namespace)

    def definition(self, name: ObjectName) -> ObjectDefinition:
        definition = self.transaction.draft.get(name)
        assert definition is not None
        return definition

    def content(self, name: ObjectName) -> bytes:
        definition = self.transaction.draft.get(name)
        return b"" if definition is None else definitions.body(definition)

    def create(self, name: ObjectName, id: str, content: bytes) -> None:
        self.transaction.do(Action(TYPES[name.kind][0], name, content))
        self.names[name.kind, id] = name

    def alter(self, name: ObjectName, new: ObjectDefinition) -> None:
        """Alter an object if the definition has other fields."""
        if fields := changed_fields(self.definition(name), new):
            action = Action(TYPES[name.kind][1], name, definitions.body(new), alter_payload(fields))
            self.transaction.do(action, is_merged=True)

    def drop(self, key: Key) -> None:
        name = self.names.pop(key)
        self.transaction.do(Action(TYPES[name.kind][2], name, self.content(name)))

    def rename(self, key: Key, new: ObjectName) -> None:
        """Rename an object. A namespace takes its objects along."""
        old = self.names[key]
        to = RenameDef(new_namespace_name=new.namespace, new_name=new.name)
        self.transaction.do(Action(TYPES[new.kind][3], old, self.content(old), to.SerializeToString()))
        if isinstance(old, NamespaceName):
            self.names = {one: moved(name, old, new) for one, name in self.names.items()}
            self.moves.append((old, new))
        self.names[key] = new

    def moved(self, name: ObjectName) -> ObjectName:
        """Return the present name of an object: its namespace may have been renamed in this transaction."""
        for old, new in self.moves:
            name = moved(name, old, new)
        return name


def count(result: ImportResult, renaming: Renaming, change: ObjectChange) -> None:
    """Record an object that is imported."""
    name, definition = renaming.name(change.name), cast("CatalogObject[ObjectDefinition]", change.new).definition
    if (former := renaming.former(change.name)) is not None:
        result.renamed.append((former, str(name)))
    if isinstance(name, TableName):
        location = definition.iceberg_metadata_location if isinstance(definition, TableDef) else ""
        (result.created if change.change == "created" else result.moved_on).append(
            ImportedTable(name, str(change.name), location)
        )
    elif isinstance(name, NamespaceName):
        result.namespaces += change.change == "created"
    else:
        result.views += 1


@dataclass(slots=True)
class ObjectImport:
    """Stages the changes of a source one by one. `source` is the version of the source, if it has versions. `joined`
    has the existing namespaces that received objects of a source's namespace."""

    here: PresentObjects
    source: Snapshot | None
    renaming: Renaming
    result: ImportResult
    joined: set[str] = field(default_factory=set)

    def take(self, changes: Iterable[ObjectChange]) -> None:
        """Stage what changed at the source, in a valid order: a namespace exists before its objects, is empty before it
        is dropped, and is dropped before another takes its name."""
        waiting: list[ObjectChange] = []
        going: list[ObjectChange] = []
        for change in self._wanted(changes):
            if change.change != "dropped":
                waiting.append(change)
            elif change.name.kind is Kind.NAMESPACE:
                going.append(change)
            else:
                self._drop(change)
        left = -1
        while left != len(waiting) + len(going):
            left = len(waiting) + len(going)
            waiting = self._take_fitting(waiting, going)
            going = [change for change in going if not self._drop_namespace(change)]
        # no change unblocks another any more: the rest is imported as far as possible
        self._leave_blocked(self._take_fitting(waiting, going, is_last=True))
        for change in going:
            if not self._drop_namespace(change):
                self._leave(change, f"it was dropped at the source, and {self._why_kept(change)}")

    def take_present(self, changes: Iterable[ObjectChange]) -> None:
        """Stage all objects of the source, namespaces first. Memory holds one batch at a time."""
        wanted = self._wanted(changes)
        while batch := list(islice(wanted, AT_ONCE)):
            self._leave_blocked(self._take_fitting(batch, ()))

    def _wanted(self, changes: Iterable[ObjectChange]) -> Iterator[ObjectChange]:
        return (one for one in changes if one.name.kind is not Kind.NAMESPACE or self.renaming.into is None)

    def _take_fitting(
        self, changes: list[ObjectChange], going: Iterable[ObjectChange], is_last: bool = False
    ) -> list[ObjectChange]:
        """Stage the changes that are possible, and return the rest: a name may become free only when another object
        moves on from it. `is_last` stops the wait for namespaces."""
        waiting: list[ObjectChange] = []
        while changes != waiting:
            waiting, changes = changes, []
            coming, leaving = (set(), set()) if is_last else self._unsettled(waiting, going)
            for change in waiting:
                if self._is_blocked(change, coming, leaving):
                    changes.append(change)
                elif (change.name.kind, change.id) in self.here.names and change.change != "created":
                    self._move_on(change)
                else:
                    self._create(change)
        return changes

    def _leave_blocked(self, changes: Iterable[ObjectChange]) -> None:
        for change in changes:
            self._leave(change, f"another {change.name.kind.word} has that name here")

    def _unsettled(self, waiting: Iterable[ObjectChange], going: Iterable[ObjectChange]) -> tuple[set[str], set[str]]:
        """Return the names that namespaces will take, and the names that they still hold here and will give up."""
        of_namespaces = [change for change in waiting if change.name.kind is Kind.NAMESPACE]
        moving = [change for change in of_namespaces if change.name != change.old_name]
        held = (self.here.names.get((Kind.NAMESPACE, change.id)) for change in (*moving, *going))
        coming = {self.renaming.name(change.name).namespace for change in of_namespaces}
        return coming, {name.namespace for name in held if name is not None}

    def _is_blocked(self, change: ObjectChange, coming: set[str], leaving: set[str]) -> bool:
        """Return True if another object holds the new name, or if its namespace is not yet that of the source. A
        namespace that exists here and stays receives the objects."""
        name = self.renaming.name(change.name)
        here = self.here.names.get((name.kind, change.id))
        if name.kind is not Kind.NAMESPACE and name.namespace in coming | leaving:
            return True
        if here == name:
            return False
        if name.kind is Kind.NAMESPACE and here is None:
            return name.namespace in leaving
        # an object that was changed here is not moved, whether its new name is free or not
        return self.here.has(name) and (here is None or here == self._name_before(change))

    def _create(self, change: ObjectChange) -> None:
        name, content = self._new(change)
        here = self.here.names.get((name.kind, change.id))
        if here is not None:
            if here == name and self.here.content(here) == content:
                self.result.unchanged += 1
            else:
                self._leave(change, CHANGED_HERE if here == name else f"it is called {here} here")
        elif self.here.has(name):
            # an existing namespace receives the objects, and keeps its own definition
            self.joined.add(name.namespace)
        elif name.kind is not Kind.NAMESPACE and not self._need_namespace(name.namespace):
            self._leave(change, self._why_homeless(change))
        else:
            self.here.create(name, change.id, content)
            count(self.result, self.renaming, replace(change, change="created"))

    def _need_namespace(self, namespace: str) -> bool:
        """Return True if the namespace exists; the common target namespace is created when it is needed."""
        name = NamespaceName(namespace)
        if not self.here.has(name) and self.renaming.into == namespace:
            self.here.transaction.create_namespace(name)
            self.result.namespaces += 1
        return self.here.has(name)

    def _move_on(self, change: ObjectChange) -> None:
        name, content = self._new(change)
        before, former = self._old(change)
        here = self.here.names[name.kind, change.id]
        if here == name and self.here.content(here) == content:
            self.result.unchanged += 1
            return
        if here != before or self.here.content(here) != former:
            self._leave(change, CHANGED_HERE)
            return
        if name != before:
            if name.kind is not Kind.NAMESPACE and not self._need_namespace(name.namespace):
                self._leave(change, self._why_homeless(change))
                return
            self.here.rename((name.kind, change.id), name)
        self.here.alter(name, cast(ObjectDefinition, definitions.CLASSES[name.kind].FromString(content)))
        count(self.result, self.renaming, change)

    def _drop(self, change: ObjectChange) -> None:
        key = change.old_name.kind, change.id
        if key not in self.here.names:
            return
        if self._is_as_before(change):
            self.here.drop(key)
            self.result.dropped += 1
        else:
            self._leave(change, "it was dropped at the source, and changed here")

    def _drop_namespace(self, change: ObjectChange) -> bool:
        """Drop a namespace that is empty, and has received no object of the source. Return True if it is gone."""
        key = Kind.NAMESPACE, change.id
        if key not in self.here.names:
            return True
        self._drop_homeless(change.old_name)
        name = self._name_before(change)
        can_go = self.here.is_empty(name) and name.namespace not in self.joined
        if not can_go or not self._is_as_before(change):
            return False
        self.here.drop(key)
        self.result.dropped += 1
        return True

    def _drop_homeless(self, namespace: ObjectName) -> None:
        """Drop the objects (usually views) that the SDK left behind when it dropped their namespace. Objects in a newer
        namespace of that name stay."""
        source = self.source
        if source is None or self._is_there(namespace):
            return
        with of_source(source):
            homeless = [
                found
                for kind in (Kind.TABLE, Kind.VIEW)
                for found in source.read_objects(source.scan(kind, namespace.namespace))
            ]
        for found in homeless:
            self._drop(ObjectChange("dropped", found.name, found.name, found, None))

    def _is_there(self, namespace: ObjectName) -> bool:
        """Return True if the source has the object."""
        if self.source is None:
            return False
        with of_source(self.source):
            return self.source.find(namespace) is not None

    def _is_as_before(self, change: ObjectChange) -> bool:
        name, content = self._old(change)
        return self.here.names[name.kind, change.id] == name and self.here.content(name) == content

    def _why_kept(self, change: ObjectChange) -> str:
        if not self._is_as_before(change):
            return "changed here"
        is_empty = self.here.is_empty(self._name_before(change))
        return "another one has its name there by now" if is_empty else "is not empty here"

    def _why_homeless(self, change: ObjectChange) -> str:
        namespace = as_found(Kind.NAMESPACE, change.name.namespace)
        there = self._is_there(namespace)
        return "its namespace is not here" if there else "its namespace does not exist at the source"

    def _leave(self, change: ObjectChange, why: str) -> None:
        self.result.left_out.append(Omission(f"{change.name.kind.word} {change.name}", why))

    def _new(self, change: ObjectChange) -> tuple[ObjectName, bytes]:
        return self._with_name_here(change.name, cast("CatalogObject[ObjectDefinition]", change.new).definition)

    def _old(self, change: ObjectChange) -> tuple[ObjectName, bytes]:
        old = cast("CatalogObject[ObjectDefinition]", change.old)
        return self._name_before(change), self._with_name_here(change.old_name, old.definition)[1]

    def _name_before(self, change: ObjectChange) -> ObjectName:
        """Return the name of an object here before it moves on: its namespace may already have moved."""
        return self.here.moved(self.renaming.name(change.old_name))

    def _with_name_here(self, name: ObjectName, definition: ObjectDefinition) -> tuple[ObjectName, bytes]:
        """Return the name and the definition that an object of the source has here."""
        own = deepcopy(definition)
        if (former := self.renaming.former(name)) is not None:
            own.properties[FORMER_NAME] = former.encode("utf-8", "replace").decode()
        if isinstance(own, ViewDef):
            if own.default_namespace_name:
                own.default_namespace_name = self.renaming.namespace(own.default_namespace_name)
            for named in own.referenced_object_full_names:
                new = self.renaming.name(TableName.known_legal(named.namespace_name, named.name))
                named.namespace_name, named.name = new.namespace, new.name
        return self.renaming.name(name), definitions.body(own)
