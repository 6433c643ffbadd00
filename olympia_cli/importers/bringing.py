"""Objects of a source staged here: what comes, moves on or goes there does so here, unless it was changed here."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import cast

from olympia_cli.catalog.replay import moved
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import RenameDef
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.importers.iceberg import FoundTable, Imported, LeftOut
from olympia_cli.importers.renaming import FORMER_NAME, Renaming
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName
from olympia_cli.ops.look.diff import ObjectChange, changed_fields
from olympia_cli.ops.look.told import TYPES, alter_payload

AT_ONCE = 1024
KINDS = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
_CHANGED_HERE = "it was changed here"


def count(done: Imported, renaming: Renaming, change: ObjectChange) -> None:
    """Note an object that comes."""
    name, definition = renaming.name(change.name), cast("CatalogObject[ObjectDefinition]", change.new).definition
    if (former := renaming.former(change.name)) is not None:
        done.renamed.append((former, str(name)))
    if isinstance(name, TableName):
        location = definition.iceberg_metadata_location if isinstance(definition, TableDef) else ""
        (done.created if change.change == "created" else done.moved_on).append(
            FoundTable(name, str(change.name), location)
        )
    elif isinstance(name, NamespaceName):
        done.namespaces += change.change == "created"
    else:
        done.views += 1


@dataclass(slots=True)
class Bringing:
    """Changes of a source, a version of it if it has versions, staged one after the other. `here` are the objects of
    this catalog by their ids."""

    transaction: Transaction
    source: Snapshot | None
    renaming: Renaming
    done: Imported
    here: dict[tuple[Kind, str], ObjectName] = field(init=False)
    moves: list[tuple[ObjectName, ObjectName]] = field(default_factory=list)

    def __post_init__(self) -> None:
        base = self.transaction.base
        self.here = {(kind, found.id): found.name for kind in KINDS for found in base.objects(kind)}

    def take(self, changes: Iterable[ObjectChange]) -> None:
        """In an order that fits: a namespace is there before what is in it, and empty before it goes."""
        last: list[ObjectChange] = []
        waiting: list[ObjectChange] = []
        for change in changes:
            if change.name.kind is Kind.NAMESPACE and self.renaming.into is not None:
                continue
            if change.change == "dropped" and change.name.kind is Kind.NAMESPACE:
                last.append(change)
            elif change.change == "dropped":
                self._drop(change)
            else:
                waiting.append(change)
            if len(waiting) == AT_ONCE and all(one.change == "created" for one in waiting):
                # of a whole catalog nothing waits for a drop
                self._take_all(waiting)
                waiting = []
        self._take_all(waiting)
        for change in last:
            self._drop(change)

    def _take_all(self, changes: list[ObjectChange]) -> None:
        """A name may be free only when another object has moved on from it."""
        waiting: list[ObjectChange] = []
        while changes != waiting:
            waiting, changes = changes, []
            for change in waiting:
                if self._is_blocked(change):
                    changes.append(change)
                elif (change.name.kind, change.id) in self.here and change.change != "created":
                    self._move_on(change)
                else:
                    self._create(change)
        for change in changes:
            self._leave(change, f"another {change.name.kind.word} has that name here")

    def _is_blocked(self, change: ObjectChange) -> bool:
        """Whether another object has the name that it is to have. A namespace that is here takes what comes."""
        name = self.renaming.name(change.name)
        here = self.here.get((name.kind, change.id))
        if here == name or (name.kind is Kind.NAMESPACE and here is None):
            return False
        # one that was changed here is not moved, whoever has that name
        return self.transaction.draft.find(name) and (here is None or here == self._before(change.old_name))

    def _create(self, change: ObjectChange) -> None:
        name, content = self._new(change)
        here, draft = self.here.get((name.kind, change.id)), self.transaction.draft
        if here is not None:
            if here == name and self._content(here) == content:
                self.done.unchanged += 1
            else:
                self._leave(change, _CHANGED_HERE)
        elif draft.find(name):
            return  # a namespace that is here already takes what comes, and keeps what it is
        elif name.kind is not Kind.NAMESPACE and not self._need_namespace(name.namespace):
            self._leave(change, "its namespace does not exist at the source")
        else:
            self._do(Action(TYPES[name.kind][0], name, content), change, "created")

    def _need_namespace(self, namespace: str) -> bool:
        """Whether it is there; the one for all is made when it is needed."""
        name = NamespaceName(namespace)
        if not self.transaction.draft.find(name) and self.renaming.into == namespace:
            self.transaction.create_namespace(name)
            self.done.namespaces += 1
        return self.transaction.draft.find(name)

    def _move_on(self, change: ObjectChange) -> None:
        name, content = self._new(change)
        before, former = self._old(change)
        here = self.here[name.kind, change.id]
        if here == name and self._content(here) == content:
            self.done.unchanged += 1
            return
        if here != before or self._content(here) != former:
            self._leave(change, _CHANGED_HERE)
            return
        if name != before:
            if name.kind is not Kind.NAMESPACE and not self._need_namespace(name.namespace):
                self._leave(change, "its namespace does not exist at the source")
                return
            to = RenameDef(new_namespace_name=name.namespace, new_name=name.name)
            self.transaction.do(Action(TYPES[name.kind][3], before, former, to.SerializeToString()))
            if isinstance(before, NamespaceName):
                self.here = {key: moved(one, before, name) for key, one in self.here.items()}
                self.moves.append((before, name))
        kind, new = name.kind, cast(ObjectDefinition, definitions.CLASSES[name.kind].FromString(content))
        fields = changed_fields(definitions.CLASSES[kind].FromString(former), new)
        if fields:
            self.transaction.do(Action(TYPES[kind][1], name, content, alter_payload(fields)), is_merged=True)
        self.here[kind, change.id] = name
        count(self.done, self.renaming, change)

    def _drop(self, change: ObjectChange) -> None:
        name, content = self._old(change)
        key = (name.kind, change.id)
        if key not in self.here:
            return
        if isinstance(name, NamespaceName):
            self._drop_homeless(change.old_name.namespace)
        if self.here[key] != name or self._content(name) != content:
            self._leave(change, "it was dropped at the source, and changed here")
        elif isinstance(name, NamespaceName) and not self.transaction.draft.is_empty(name.namespace):
            self._leave(change, "it was dropped at the source, and is not empty here")
        else:
            self.transaction.do(Action(TYPES[name.kind][2], name, content))
            del self.here[key]
            self.done.dropped += 1

    def _drop_homeless(self, namespace: str) -> None:
        """The SDK drops a namespace and leaves its views: here they go with it, and are told as left out."""
        if self.source is None:
            return
        for kind in (Kind.TABLE, Kind.VIEW):
            for found in self.source.read_objects(self.source.scan(kind, namespace)):
                self._drop(ObjectChange("dropped", found.name, found.name, found, None))

    def _do(self, action: Action, change: ObjectChange, what: str) -> None:
        assert action.name is not None
        self.transaction.do(action)
        self.here[action.name.kind, change.id] = action.name
        count(self.done, self.renaming, ObjectChange(what, change.name, change.old_name, None, change.new))

    def _leave(self, change: ObjectChange, why: str) -> None:
        self.done.left_out.append(LeftOut(f"{change.name.kind.word} {change.name}", why))

    def _content(self, name: ObjectName) -> bytes:
        definition = self.transaction.draft.get(name)
        return b"" if definition is None else definitions.body(definition)

    def _new(self, change: ObjectChange) -> tuple[ObjectName, bytes]:
        return self._adopted(change.name, cast("CatalogObject[ObjectDefinition]", change.new).definition)

    def _old(self, change: ObjectChange) -> tuple[ObjectName, bytes]:
        _, content = self._adopted(change.old_name, cast("CatalogObject[ObjectDefinition]", change.old).definition)
        return self._before(change.old_name), content

    def _before(self, name: ObjectName) -> ObjectName:
        """What an object of the source was called here before it moves on: its namespace may have done so already."""
        name = self.renaming.name(name)
        for old, new in self.moves:
            name = moved(name, old, new)
        return name

    def _adopted(self, name: ObjectName, definition: ObjectDefinition) -> tuple[ObjectName, bytes]:
        """The name and the definition that an object of the source has here."""
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
