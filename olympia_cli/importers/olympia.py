"""Another Olympia catalog, one of the Java SDK's above all, brought into this one: its latest version, or each as a
commit. Definitions are copied with their ids; the metadata and data of tables stay where they are.

Which version was brought is noted as a property of the catalog, in the same commit. The next import compares with that
version: what moved on at the source, and not here, moves on here too, and what was dropped there is dropped. What was
changed here is left as it is, and said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import cast

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, read_object
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import Damaged, InvalidOption, OlympiaError, VersionNotFound
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.pb.actions_pb2 import RenameDef
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.importers.iceberg import FoundTable, Imported, LeftOut
from olympia_cli.importers.renaming import FORMER_NAME, Renaming
from olympia_cli.names import AtVersion, Kind, NamespaceName, ObjectName, TableName, time_text
from olympia_cli.ops.look.diff import ObjectChange, changed_fields, diff
from olympia_cli.ops.look.told import TYPES, alter_payload

NOTE_PREFIX = "olympia.import."
AT_ONCE = 1024
_KINDS = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
_CHANGED_HERE = "it was changed here"


@dataclass(frozen=True, slots=True)
class ImportNote:
    """What was brought from a source before: which version, and into which namespace if into one."""

    version: int
    into: str | None

    def encode(self) -> str:
        return json.dumps({"version": self.version, "into": self.into}, sort_keys=True)


def read_note(transaction: Transaction, source: Snapshot) -> ImportNote | None:
    """The note of an earlier import; none that cannot be read: then everything is compared by what it is."""
    try:
        fields = json.loads(transaction.base.definition.properties.get(_key(source), ""))
        version, into = fields["version"], fields["into"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    known = isinstance(version, int) and version >= 0 and isinstance(into, str | None)
    return ImportNote(version, into) if known else None


def _key(source: Snapshot) -> str:
    return NOTE_PREFIX + source.definition.id


Commit = Callable[[Callable[[Transaction], Imported], str], tuple[Imported, int]]
"""Does something in a transaction and commits it, with these words in the log: what was done, and the version."""


def import_catalog(
    source: Catalog, wanted: Snapshot, into: str | None, history: bool, here: Catalog, commit: Commit
) -> tuple[Imported, int]:
    """Bring a version of the source, or with `history` each one up to it that was not brought yet, in a commit each.

    Each commit holds the note of its version, so one that is interrupted goes on where it was.
    """
    done, version = Imported(), 0
    note = read_note(here.begin(), wanted) if history else None
    for step in _history(source, wanted, note) if history else [wanted]:
        if isinstance(step, LeftOut):
            done.left_out.append(step)
            continue
        about = f"v{step.version} of {source.store.uri}, {time_text(step.created_at_millis)}"
        try:
            brought, version = commit(partial(_bring, source, step, into, step is wanted), about)
        except Damaged as error:
            if step is wanted:
                raise
            done.left_out.append(LeftOut(f"v{step.version}", error.message))
            continue
        done = _sum(done, brought, step is wanted)
    return done, version


def _sum(before: Imported, step: Imported, is_last: bool) -> Imported:
    """What was done in all; what was left out on the way may have come later, so the last step tells that."""
    return Imported(
        namespaces=before.namespaces + step.namespaces,
        created=before.created + step.created,
        moved_on=before.moved_on + step.moved_on,
        unchanged=step.unchanged,
        views=before.views + step.views,
        dropped=before.dropped + step.dropped,
        renamed=before.renamed + step.renamed,
        left_out=before.left_out + (step.left_out if is_last else []),
    )


def _bring(source: Catalog, wanted: Snapshot, into: str | None, is_last: bool, transaction: Transaction) -> Imported:
    """Stage what a version of the source holds, and with it the note."""
    done, note = Imported(), read_note(transaction, wanted)
    _check_note(note, wanted, into)
    bringing = Bringing(transaction, wanted, Renaming(transaction.base.sizes, into), done)
    if note is not None and note.version != wanted.version:
        try:
            bringing.take(diff(source.snapshot(AtVersion(note.version)), wanted))
        except (Damaged, VersionNotFound) as error:
            # what it held then is not known any more, so nothing that differs is touched
            done.left_out.append(LeftOut(f"v{note.version}", error.message))
            is_last = True
    if note is None or is_last:
        bringing.take(present(wanted, done))
    new = ImportNote(wanted.version, into)
    if note != new:
        transaction.alter_catalog({_key(wanted): new.encode()})
    done.left_out = list(dict.fromkeys(done.left_out))
    return done


def _check_note(note: ImportNote | None, wanted: Snapshot, into: str | None) -> None:
    if note is not None and note.version > wanted.version:
        raise InvalidOption(
            f"version {note.version} of that catalog was imported already, and {wanted.version} is older",
            hint=f"leave out --at, or name a version from {note.version} on",
        )
    if note is not None and note.into != into:
        before = "without --into" if note.into is None else f"--into {note.into}"
        raise InvalidOption(f"that catalog was imported {before} before", hint="import it in the same way again")


def _history(source: Catalog, wanted: Snapshot, note: ImportNote | None) -> Iterator[Snapshot | LeftOut]:
    """The versions of the source that were not brought yet, the oldest first, up to the wanted one."""
    first = oldest_version(wanted) if note is None else max(note.version + 1, oldest_version(wanted))
    for version in range(first, wanted.version):
        try:
            yield source.snapshot(AtVersion(version))
        except (Damaged, VersionNotFound) as error:
            yield LeftOut(f"v{version}", error.message)
    yield wanted


def inspect(wanted: Snapshot, into: str | None) -> Imported:
    """What an import would find, and what it would call it in a catalog of the same sizes."""
    done = Imported()
    renaming = Renaming(wanted.sizes, into)
    for change in present(wanted, done):
        _count(done, renaming, change)
    return done


def present(snapshot: Snapshot, done: Imported) -> Iterator[ObjectChange]:
    """All objects of a version as if they had come just now, namespaces first. What cannot be read is left out."""
    for kind in _KINDS:
        entries = snapshot.scan(kind)
        while batch := list(islice(entries, AT_ONCE)):
            read = snapshot.definitions.read([check_pointer(path, snapshot.file.path) for _, path in batch])
            for (name, path), data in zip(batch, read, strict=True):
                try:
                    if isinstance(data, Exception):
                        raise data
                    found = read_object(name, path, data)
                except OlympiaError as error:
                    done.left_out.append(LeftOut(f"{kind.word} {name}", error.message))
                    continue
                yield ObjectChange("created", name, name, None, found)


def _count(done: Imported, renaming: Renaming, change: ObjectChange) -> None:
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

    def __post_init__(self) -> None:
        base = self.transaction.base
        self.here = {(kind, found.id): found.name for kind in _KINDS for found in base.objects(kind)}

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
        for change in changes:
            if change.change == "created" or (change.name.kind, change.id) not in self.here:
                self._create(change)
            else:
                self._move_on(change)

    def _create(self, change: ObjectChange) -> None:
        name, content = self._new(change)
        here, draft = self.here.get((name.kind, change.id)), self.transaction.draft
        if here is not None:
            if here == name and self._content(here) == content:
                self.done.unchanged += 1
            else:
                self._leave(change, _CHANGED_HERE)
        elif draft.find(name):
            # a namespace that is here already takes what comes, and keeps what it is
            if name.kind is not Kind.NAMESPACE:
                self._leave(change, f"another {name.kind.word} has that name here")
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
            return  # it is told as unchanged when all is compared
        if here != before or self._content(here) != former:
            self._leave(change, _CHANGED_HERE)
            return
        if name != before:
            if self.transaction.draft.find(name) or not self._need_namespace(name.namespace):
                self._leave(change, f"it is {name} at the source now, and that name is not free here")
                return
            to = RenameDef(new_namespace_name=name.namespace, new_name=name.name)
            self.transaction.do(Action(TYPES[name.kind][3], before, former, to.SerializeToString()))
        kind, new = name.kind, cast(ObjectDefinition, definitions.CLASSES[name.kind].FromString(content))
        fields = changed_fields(definitions.CLASSES[kind].FromString(former), new)
        if fields:
            self.transaction.do(Action(TYPES[kind][1], name, content, alter_payload(fields)), is_merged=True)
        self.here[kind, change.id] = name
        _count(self.done, self.renaming, change)

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
        _count(self.done, self.renaming, ObjectChange(what, change.name, change.old_name, None, change.new))

    def _leave(self, change: ObjectChange, why: str) -> None:
        self.done.left_out.append(LeftOut(f"{change.name.kind.word} {change.name}", why))

    def _content(self, name: ObjectName) -> bytes:
        definition = self.transaction.draft.get(name)
        return b"" if definition is None else definitions.body(definition)

    def _new(self, change: ObjectChange) -> tuple[ObjectName, bytes]:
        return self._adopted(change.name, cast("CatalogObject[ObjectDefinition]", change.new).definition)

    def _old(self, change: ObjectChange) -> tuple[ObjectName, bytes]:
        return self._adopted(change.old_name, cast("CatalogObject[ObjectDefinition]", change.old).definition)

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
