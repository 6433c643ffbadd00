"""The changes of versions: the differences between two of them, and the log with the actions of each, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.lineage import TYPES
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.replay import replay, rollback_target
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, read_object
from olympia_cli.catalog.versions import RootFile, read_latest, read_root
from olympia_cli.errors import Damaged, PathMissing, StoreError, VersionNotFound
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, changes, commit_info
from olympia_cli.format.codec import decode_commit
from olympia_cli.format.paths import MAX_VERSION, check_pointer, parse_root_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, AlterDef, CommitInfoDef, RenameDef
from olympia_cli.names import AtTime, NamespaceName, ObjectName, parse_reference, settle
from olympia_cli.ops.fsck import describe_object_name
from olympia_cli.ops.inspect.describe import describe_definition, shown_field
from olympia_cli.tree.diff import diff as tree_diff

# The objects that were created, altered, renamed and dropped between two versions.


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that differs. `name` is its newer name; `old_name` differs from it only if the object was renamed."""

    change: str
    name: ObjectName
    old_name: ObjectName
    old: CatalogObject[ObjectDefinition] | None
    new: CatalogObject[ObjectDefinition] | None

    @property
    def id(self) -> str:
        present = self.new or self.old
        return present.id if present is not None else ""

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """Return the old and new values of each field and property that differs. An absent value is None."""
        if self.old is None or self.new is None:
            return {}
        return changed_fields(self.old.definition, self.new.definition)

    def all_fields(self) -> dict[str, tuple[Any, Any]]:
        """Like `fields`, with all fields of an object that was created or dropped."""
        present = self.new or self.old
        if present is None or (self.old is not None and self.new is not None):
            return self.fields()
        empty = type(present.definition)()
        old, new = (empty, present.definition) if self.old is None else (present.definition, empty)
        return changed_fields(old, new)

    def describe(self) -> dict[str, Any]:
        """Return a change in its JSON form."""
        detail: dict[str, Any] = {}
        if self.change == "renamed":
            detail["from"] = {
                "namespace": self.old_name.namespace,
                "name": self.old_name.name or self.old_name.namespace,
            }
        if fields := self.fields():
            detail["fields"] = {key: {"from": old, "to": new} for key, (old, new) in fields.items()}
        return {"change": self.change, **describe_object_name(self.name), "id": self.id, "detail": detail}


def diff(old: Snapshot, new: Snapshot) -> Iterator[ObjectChange]:
    """Return the changes between two versions, sorted by name. Subtrees that both versions share are not read.

    An object was renamed if its id disappears under one name and appears under another. Its former name may be in use
    again.
    """
    gone: dict[ObjectName, str] = {}
    come: dict[ObjectName, str] = {}
    both: dict[ObjectName, tuple[str, str]] = {}
    for change in tree_diff(old.reader, old.root.node, new.reader, new.root.node):
        name = new.keys.decode(change.key, new.file.path)
        if change.old is not None and change.new is not None:
            both[name] = (change.old, change.new)
        elif change.old is not None:
            gone[name] = change.old
        elif change.new is not None:
            come[name] = change.new
    entries = [*gone.items(), *come.items()]
    entries += [(name, path) for name, paths in both.items() for path in paths]
    objects = dict(zip(entries, _read(old, entries), strict=True))
    yield from changes_of(
        {name: objects[name, path] for name, path in gone.items()},
        {name: objects[name, path] for name, path in come.items()},
        {name: (objects[name, before], objects[name, after]) for name, (before, after) in both.items()},
    )


Objects = dict[ObjectName, CatalogObject[ObjectDefinition]]


def changes_of(
    gone: Objects,
    come: Objects,
    both: Mapping[ObjectName, tuple[CatalogObject[ObjectDefinition], CatalogObject[ObjectDefinition]]],
) -> list[ObjectChange]:
    """Return the changes, sorted by name, from the objects whose names are gone, are new, or have another
    definition.
    """
    changes: list[ObjectChange] = []
    for name, (older, newer) in both.items():
        if older.id != newer.id:
            gone[name], come[name] = older, newer
        elif changed_fields(older.definition, newer.definition):
            changes.append(ObjectChange("altered", name, name, older, newer))
    dropped = {(name.kind, found.id): name for name, found in gone.items()}
    for name, present in come.items():
        former = dropped.pop((name.kind, present.id), None) if present.id else None
        if former is None:
            changes.append(ObjectChange("created", name, name, None, present))
        else:
            changes.append(ObjectChange("renamed", name, former, gone[former], present))
    for former in dropped.values():
        changes.append(ObjectChange("dropped", former, former, gone[former], None))
    return sorted(changes, key=_order)


def _order(change: ObjectChange) -> tuple[int, str, str, bool]:
    return change.name.kind, change.name.namespace, change.name.name, change.change != "dropped"


def changed_fields(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """Return the old and new values, masked, of the fields that differ. Properties count one by one."""
    before, after = describe_definition(old), describe_definition(new)
    changed: dict[str, tuple[Any, Any]] = {}
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        if a == b:
            continue
        if isinstance(a or b, dict) and name in ("properties", "exported_snapshots"):
            older, newer = a or {}, b or {}
            for key in sorted({*older, *newer}):
                if older.get(key) != newer.get(key):
                    changed[f"{name}.{key}"] = (older.get(key), newer.get(key))
        else:
            changed[name] = (a, b)
    return {name: (shown_field(name, a), shown_field(name, b)) for name, (a, b) in changed.items()}


def _read(snapshot: Snapshot, entries: Iterable[tuple[ObjectName, str]]) -> Iterator[CatalogObject[ObjectDefinition]]:
    entries = list(entries)
    # a renamed object has one definition under both names
    paths = dict.fromkeys(path for _, path in entries)
    for path in paths:
        check_pointer(path, snapshot.file.path)
    contents = dict(snapshot.store.read_many(paths))
    return (read_object(name, path, contents[path]) for name, path in entries)


# The log: versions, newest first, with their actions, and whether a rollback or revert undid them.


# Reconstruct a version's actions by comparing it with its predecessor, for versions without an action log.

T = ActionType
_PROPERTY = "properties."


def told_actions(new: Snapshot) -> tuple[Action, ...]:
    """Return the actions from the previous version to this one, sorted by name."""
    previous = None if new.root.previous_root is None else parse_root_path(new.root.previous_root)
    if previous is None:
        return (Action(T.CATALOG_CREATE, None, definitions.body(new.definition)),)
    old = Snapshot(new.store, read_root(new.store, previous, new.file.width), new)
    return tuple(told_changes(old, new))


def told_changes(old: Snapshot, new: Snapshot) -> Iterator[Action]:
    """Yield the differences between two versions, as actions with the new definitions."""
    if old.root.catalog_def != new.root.catalog_def and (fields := changed_fields(old.definition, new.definition)):
        yield Action(T.CATALOG_ALTER, None, definitions.body(new.definition), alter_payload(fields))
    for change in diff(old, new):
        yield from _actions(change)


def _actions(change: ObjectChange) -> Iterator[Action]:
    created, altered, dropped, renamed = TYPES[change.name.kind]
    present = change.new if change.new is not None else change.old
    assert present is not None
    content = definitions.body(present.definition)
    fields = change.fields()
    if change.change == "renamed":
        to = RenameDef(new_namespace_name=change.name.namespace, new_name=change.name.name)
        yield Action(renamed, change.old_name, content, to.SerializeToString())
    elif change.change != "altered":
        yield Action(created if change.new is not None else dropped, change.name, content)
    if fields:
        yield Action(altered, change.name, content, alter_payload(fields))


def alter_payload(fields: dict[str, tuple[object, object]]) -> bytes:
    """Return the payload of an alter: the set properties, the unset properties, and the other fields by name."""
    properties = {name.removeprefix(_PROPERTY): new for name, (_, new) in fields.items() if name.startswith(_PROPERTY)}
    return AlterDef(
        set_properties=[name for name, new in properties.items() if new is not None],
        unset_properties=[name for name, new in properties.items() if new is None],
        fields=[name for name in fields if not name.startswith(_PROPERTY)],
    ).SerializeToString()


LONG_GAP = 64
"""The number of missing versions in a row that are reported one by one."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A version in the log. `undone_by` is the rollback that undid it, `reverted_by` the commit that reverted it.

    Both are seen from the version at which the log begins. `unreadable` is the reason if the actions cannot be read.
    `snapshot` is None if the root cannot be read.
    """

    version: int
    snapshot: Snapshot | None
    actions: tuple[Action, ...]
    rollback_to: int | None
    undone_by: int | None
    unreadable: str = ""
    reverted_by: int | None = None

    @property
    def created_at_millis(self) -> int | None:
        return None if self.snapshot is None else self.snapshot.created_at_millis

    @property
    def previous_version(self) -> int | None:
        return None if self.snapshot is None else _version(self.snapshot.root.previous_root)

    @property
    def rollback_from(self) -> int | None:
        return None if self.snapshot is None else _version(self.snapshot.root.rollback_from_root)

    @property
    def changes(self) -> tuple[Action, ...]:
        """The actions without the one that records the commit's author."""
        return changes(self.actions)

    @property
    def by(self) -> str:
        return self._info.by

    @property
    def message(self) -> str:
        return self._info.message

    @property
    def transaction_id(self) -> str:
        return self._info.transaction_id

    @property
    def reverts(self) -> list[tuple[int, int]]:
        """The ranges of versions that this version reverts, each with its first and last version."""
        return [(versions.first, versions.last) for versions in self._info.reverts]

    @property
    def _info(self) -> CommitInfoDef:
        return commit_info(self.actions) or CommitInfoDef()


def log(newest: Snapshot, oldest: int, counts: int | None = None, undoing: int | None = None) -> Iterator[LogEntry]:
    """Yield the versions from `newest` back to `oldest`, both included. Roots are read in parallel, a bounded number
    ahead.

    A rollback continues from an older version, so it undoes the versions between. `counts` is the next version, going
    back, that is not undone. A caller that continues an earlier log passes it, and in `undoing` the rollback that undid
    the versions before it. An unreadable version is yielded with the reason, and the log continues behind it.
    """
    counts = newest.version if counts is None else counts
    reverts: list[tuple[int, int, int]] = []
    for version, data in _roots(newest, oldest):
        if isinstance(data, Exception) and not isinstance(data, Damaged):
            raise data
        entry = read_entry(version, data, newest)
        target = entry.rollback_to
        undone_by = None
        if version > counts:
            undone_by = undoing
        else:
            counts, undoing = (version - 1, None) if target is None else (target, version)
        reverts = [span for span in reverts if span[0] <= version]
        reverted_by = next((by for first, last, by in reverts if first <= version <= last), None)
        if undone_by is None and reverted_by is None:
            # a commit that was itself undone or reverted reverts nothing
            reverts += [(first, last, version) for first, last in entry.reverts]
        else:
            entry = replace(entry, undone_by=undone_by, reverted_by=reverted_by)
        yield entry


def _roots(newest: Snapshot, oldest: int) -> Iterator[tuple[int, bytes | StoreError | Damaged]]:
    """Yield the roots from one version back to another.

    Of a long gap only the first versions are yielded one by one. Gaps may be huge, so a listing then finds the end.
    """
    store, width = newest.store, newest.file.width
    if oldest <= newest.version:
        yield newest.version, newest.file.data
    next_version = newest.version - 1
    while next_version >= oldest:
        versions, missing = range(next_version, oldest - 1, -1), 0
        contents = store.read_many(root_path(version, width) for version in versions)
        for version, (path, data) in zip(versions, contents, strict=False):
            missing = missing + 1 if isinstance(data, PathMissing) else 0
            yield version, Damaged("F101", path, "the version is missing") if missing else data
            next_version = version - 1
            if missing == LONG_GAP:
                break
        if missing == LONG_GAP:
            listed = (parse_root_path(file.path) for file in store.list("vn/") if len(file.path) == len(path))
            there = max((version for version in listed if version is not None and version <= next_version), default=-1)
            first = max(there + 1, oldest)
            if first <= next_version:
                where, why = root_path(first, width), f"versions {first} to {next_version} are missing"
                yield first, Damaged("F101", where, why)
            next_version = first - 1


def read_entry(version: int, data: bytes | Damaged, near: Snapshot) -> LogEntry:
    """Return a version with its actions, or the reason why either cannot be read. Later rollbacks and reverts are not
    considered.
    """
    snapshot = None
    try:
        if isinstance(data, Damaged):
            raise data
        file = RootFile.of(version, near.file.width, data)
        root, rows = (None, None) if file.java else decode_commit(data, file.path)
        snapshot = Snapshot(near.store, file, near, root)
        if not snapshot.in_place:
            # a copy holds the actions of another version
            raise snapshot.out_of_place()
        actions = told_actions(snapshot) if rows is None else snapshot.actions(rows())
        return LogEntry(version, snapshot, actions, rollback_target(actions), None)
    except (Damaged, VersionNotFound) as damaged:
        return LogEntry(version, snapshot, (), None, None, damaged.message)


def _version(path: str | None) -> int | None:
    return None if path is None else parse_root_path(path)


def log_between(
    catalog: Catalog, since: str | None, until: str | None, number: int | None = None
) -> Iterator[LogEntry]:
    """Return the log from one reference back to another, with at most `number` versions.

    If `since` is a time between two versions, the log ends with the later one.
    """
    now = catalog.clock.now_millis()
    # versions before a damaged latest root are still shown
    newest = catalog.snapshot(None if until is None else parse_reference(until))
    if number == 0:
        return iter(())
    # the latest version exists even during an expire
    oldest = newest.version if number == 1 else oldest_version(newest)
    if number is not None:
        oldest = max(oldest, newest.version - number + 1)
    if since is None:
        return log(newest, oldest)
    reference = settle(parse_reference(since), now, lambda: catalog.snapshot().definition.exported_snapshots)
    if isinstance(reference, AtTime):
        moment = reference.millis
        # times never decrease, so the first version before the moment ends it
        entries = log(newest, oldest)
        return takewhile(lambda entry: entry.created_at_millis is None or entry.created_at_millis >= moment, entries)
    return log(newest, max(oldest, catalog.snapshot(reference).version))


# The log while it grows: yield versions in the order of their commits.

WINDOW = 8
"""The number of roots per request. Each poll costs the same, however many versions were committed."""

LOOK_AROUND = 10
"""After this many empty polls, look up the latest version: an expire may have deleted the next one."""


def follow(newest: Snapshot, clock: Clock, seconds: float, say: Callable[[str], None]) -> Iterator[LogEntry]:
    """Yield the versions after `newest`, without end. `say` reports versions that were expired before they
    were read.
    """
    store, width, version, idle = newest.store, newest.file.width, newest.version, 0
    while version < MAX_VERSION:
        last = version
        versions = range(version + 1, min(version + WINDOW, MAX_VERSION) + 1)
        for number, (_, data) in zip(
            versions, store.read_many(root_path(number, width) for number in versions), strict=True
        ):
            if isinstance(data, PathMissing):
                break
            if isinstance(data, Exception) and not isinstance(data, Damaged):
                raise data
            last = number
            yield read_entry(number, data, newest)
        if last < version + WINDOW:
            idle = idle + 1 if last == version else 0
            clock.sleep(seconds)
        version = last
        if idle == LOOK_AROUND:
            idle, latest = 0, read_latest(store).version
            if latest > version and not store.exists(root_path(version + 1, width)):
                say(f"v{version + 1} was expired before it was seen; going on after v{latest - 1}")
                version = latest - 1


# The version of the last change of each object, from the log.


def last_changes(snapshot: Snapshot, names: Iterable[ObjectName]) -> dict[ObjectName, LogEntry]:
    """Return the last version that changed each object.

    The log is read back only as far as needed. Objects are missing whose last change is older than the oldest version,
    or is in a version without an action log.
    """
    waiting = _Waiting(set(names))
    last: dict[ObjectName, LogEntry] = {}
    for entry in log(snapshot, oldest_version(snapshot)) if waiting.names else ():
        # versions that a rollback undid did not form the present state
        if entry.undone_by is not None:
            continue
        before = set(waiting.names)
        for action in reversed(entry.changes):
            replay(action, waiting)
        last |= dict.fromkeys(before - waiting.names, entry)
        if not waiting.names:
            break
    return last


@dataclass(slots=True)
class _Waiting:
    """The names whose last change is not yet found. Actions are replayed newest first."""

    names: set[ObjectName]

    def put(self, name: ObjectName, definition: bytes) -> None:
        self.names.discard(name)

    def drop(self, name: ObjectName) -> None:
        self.names.discard(name)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.names.discard(new)
        if isinstance(new, NamespaceName):
            self.names = {name for name in self.names if name.namespace != new.namespace}
