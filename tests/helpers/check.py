"""A checker of catalogs that reads every file itself, for the end of any test that writes.

It shares only the codecs with the program. The walk, the tree's rules and the meaning of actions are implemented here a
second time, so that the program's own mistakes are not repeated.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.codec import decode_action_rows, decode_node, decode_root
from olympia_cli.format.definitions import CLASSES, Definition, Digest, check_digest
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node, Root
from olympia_cli.format.paths import FileKind, file_kind, parse_root_path, parse_transaction_path, root_path
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    CommitInfoDef,
    ExpireDef,
    ExportDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RenameDef,
    RollbackDef,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, DistributedTransactionDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.storage.protocol import Store

T = ActionType
Contents = dict[ObjectName, Definition]

OLDEST_PROPERTY = "olympia.expire.oldest"
QUARANTINE_PROPERTY = "olympia.expire.quarantine"


class Unsound(AssertionError):
    """The damage of a catalog, and its place."""


@dataclass(frozen=True, slots=True)
class Version:
    """All that a version is made of."""

    number: int
    root: Root
    catalog: CatalogDef
    contents: Contents
    actions: tuple[Action, ...]
    files: frozenset[str]
    """Files that the version reaches: its root, nodes and definitions."""
    nodes: tuple[str, ...] = field(default=())
    height: int = 1

    @property
    def info(self) -> CommitInfoDef:
        [info] = [action for action in self.actions if action.type == T.COMMIT_INFO]
        return info.parse_payload(CommitInfoDef)


def check_catalog(store: Store, *, all_versions: bool = True) -> dict[int, Contents]:
    """Return the contents of each version by name. Raise Unsound if a file violates the format."""
    return {version.number: version.contents for version in check_versions(store, all_versions=all_versions)}


def check_versions(store: Store, *, all_versions: bool = True, now_millis: int = 0) -> list[Version]:
    """Check the versions, and return all facts about them, the oldest first.

    References of transactions past their lifetime at `now_millis` may be broken.
    """
    numbers = _existing(store)
    latest = _read_version(store, numbers[-1])
    _need(Catalog.open(store).snapshot().version == latest.number, f"readers do not open version {latest.number}")
    oldest = _oldest(store, latest, numbers)
    counting = [number for number in numbers if number >= oldest]
    expected = list(range(oldest, latest.number + 1))
    _need(counting == expected, f"the versions from {oldest} on have gaps: {_gaps(counting, expected)}")
    if not all_versions:
        counting = counting[-1:]
    versions = [latest if number == latest.number else _read_version(store, number) for number in counting]
    for before, after in pairwise(versions):
        _need(
            after.root.created_at_millis >= before.root.created_at_millis,
            f"version {after.number} was created before version {before.number}",
        )
        _need(after.catalog.id == before.catalog.id, f"version {after.number} is of another catalog")
    [(id, times)] = Counter(version.info.transaction_id for version in versions).most_common(1)
    _need(times == 1, f"the transaction {id} was committed {times} times")
    _check_transactions(store, {version.number: version for version in versions}, now_millis)
    return versions


def orphans(store: Store) -> set[str]:
    """The files that no version, no hint and no distributed transaction leads to."""
    kept: set[str] = set()
    listed = {file.path for file in store.list()}
    for path in listed:
        kind = file_kind(path)
        if kind in (FileKind.HINT, FileKind.OPERATION):
            kept.add(path)
        elif kind is FileKind.TRANSACTION:
            kept.add(path)
            running = _read_transaction(store, path).running_root_node_file_path
            if running and parse_root_path(running) is None:
                kept |= _read_running(store, running).files
    for number in _existing(store, none_is_fine=True):
        kept |= _read_version(store, number).files
    return listed - kept


def replay(store: Store, *, now_millis: int = 0) -> dict[int, Contents]:
    """Replay the actions of each version on the version before. Raise Unsound if the result differs from its tree."""
    versions = check_versions(store, now_millis=now_millis)
    first = versions[0]
    catalog, contents = CatalogDef(), dict(first.contents)
    catalog.CopyFrom(first.catalog)
    if first.number == 0:
        [create] = [action for action in first.actions if action.type == T.CATALOG_CREATE]
        _compare({None: CatalogDef.FromString(create.definition)}, {None: first.catalog}, "version 0")
        salvaged = any(action.type == T.CATALOG_REPAIR for action in first.actions)
        _need(salvaged or not first.contents, "version 0 is not empty")
    states = {first.number: (_copy(catalog), dict(contents))}
    for version in versions[1:]:
        where = f"version {version.number}"
        model = _Model(_copy(catalog), {name: _copy(found) for name, found in contents.items()}, states, where)
        for action in version.actions:
            model.do(action, version)
        catalog, contents = model.catalog, model.contents
        _compare({None: catalog}, {None: version.catalog}, f"the catalog definition of {where}")
        _compare(contents, version.contents, f"the tree of {where}")
        states[version.number] = (_copy(catalog), {name: _copy(found) for name, found in contents.items()})
    return {number: state[1] for number, state in states.items()}


def plain(definition: Definition) -> dict[str, Any]:
    """A definition as plain values, without what ties it to a file: for comparing, and for messages one can read."""
    shown: dict[str, Any] = {}
    for descriptor, value in definition.ListFields():
        if descriptor.name == "integrity":
            continue
        if descriptor.name in ("properties", "exported_snapshots"):
            value = dict(value)
        elif not isinstance(value, str | int | bytes | bool):
            value = str(value)
        shown[descriptor.name] = value
    return shown


def shape(contents: Contents) -> dict[str, dict[str, Any]]:
    """The contents without the ids, which differ from run to run."""
    shown = {}
    for name, definition in contents.items():
        fields = plain(definition)
        fields.pop("id", None)
        shown[f"{name.kind.word} {name}"] = fields
    return dict(sorted(shown.items()))


# One version


def _existing(store: Store, none_is_fine: bool = False) -> list[int]:
    found = sorted(number for file in store.list("vn/") if (number := parse_root_path(file.path)) is not None)
    _need(bool(found) or none_is_fine, "there is no version at all")
    return found


def _oldest(store: Store, latest: Version, numbers: list[int]) -> int:
    marked = latest.catalog.properties.get(OLDEST_PROPERTY)
    if marked is None:
        return numbers[0]
    # roots below are in quarantine, or were written at a name that an expire had freed: not part of history
    return int(marked)


def _gaps(found: list[int], expected: list[int]) -> str:
    return f"missing {sorted(set(expected) - set(found))[:10]}, too many {sorted(set(found) - set(expected))[:10]}"


def _read_version(store: Store, number: int) -> Version:
    path = root_path(number)
    version = _read_tree(store, path, f"version {number}")
    root = version.root
    previous = root_path(number - 1) if number else None
    _need(root.previous_root == previous, f"{path}: previous_root is {root.previous_root}, not {previous}")
    types = [action.type for action in version.actions]
    _need(types.count(T.COMMIT_INFO) == 1, f"{path}: there are {types.count(T.COMMIT_INFO)} COMMIT_INFO rows, not one")
    _need((T.CATALOG_CREATE in types) == (number == 0), f"{path}: CATALOG_CREATE belongs into version 0 alone")
    back = previous if T.CATALOG_ROLLBACK in types else None
    _need(root.rollback_from_root == back, f"{path}: rollback_from_root is {root.rollback_from_root}, not {back}")
    _need(bool(version.info.transaction_id), f"{path}: the COMMIT_INFO has no transaction id")
    return version


def _read_running(store: Store, path: str) -> Version:
    return _read_tree(store, path, f"the running root {path}")


def _read_tree(store: Store, path: str, what: str) -> Version:
    data = _read(store, path, what)
    file = decode_node(data, path)
    _need(file.verified, f"{path} has no digest")
    root = decode_root(data, path)
    catalog = _read_definition(store, CatalogDef, root.catalog_def, what)
    _need(root.sizes is not None, f"{path} does not say its sizes")
    assert root.sizes is not None
    sizes = (root.sizes.order, root.sizes.namespace, root.sizes.table, root.sizes.view)
    said = (
        catalog.order,
        catalog.namespace_name_max_size_bytes,
        catalog.table_name_max_size_bytes,
        catalog.view_name_max_size_bytes,
    )
    _need(sizes == said, f"{path}: its sizes {sizes} are not the definition's {said}")
    walk = _Walk(store, catalog.order, what)
    height = walk.visit(root.node, path, None, None, is_root=True)
    keys = KeyCodec(*sizes[1:])
    contents: Contents = {}
    for key, definition_path in walk.entries:
        name = keys.decode(key, path)
        contents[name] = _read_definition(store, CLASSES[name.kind], definition_path, f"{what}, {name}")
    _check_contents(contents, catalog, what)
    actions = tuple(decode_action(key, value, path) for key, value in decode_action_rows(data, path))
    files = {path, root.catalog_def, *walk.nodes, *(value for _, value in walk.entries)}
    return Version(
        number=parse_root_path(path) or 0,
        root=root,
        catalog=catalog,
        contents=contents,
        actions=actions,
        files=frozenset(files),
        nodes=tuple(walk.nodes),
        height=height,
    )


class _Walk:
    """Visits every node of one tree, and holds each to the rules."""

    def __init__(self, store: Store, order: int, what: str) -> None:
        self._store = store
        self._most = order - 1
        self._fewest = -(-order // 2) - 1
        self._what = what
        self.nodes: dict[str, None] = {}
        self.entries: list[tuple[str, str]] = []

    def visit(self, node: Node, path: str, low: str | None, high: str | None, is_root: bool = False) -> int:
        """The height of the subtree. Its keys are added to `entries`, in order."""
        where = f"{self._what}, {path}"
        _need(len(node.keys) <= self._most, f"{where}: {len(node.keys)} keys, at most {self._most} are allowed")
        _need(is_root or len(node.keys) >= self._fewest, f"{where}: {len(node.keys)} keys, {self._fewest} are needed")
        _need(list(node.keys) == sorted(set(node.keys)), f"{where}: the keys are not in order")
        for key in node.keys:
            inside = (low is None or low < key) and (high is None or key < high)
            _need(inside, f"{where}: the key {key!r} is not between {low!r} and {high!r}")
        _need(None not in node.values, f"{where}: a value is NULL")
        if node.is_leaf:
            for key, value in zip(node.keys, node.values, strict=True):
                self.entries.append((key, value or ""))
            return 1
        _need(len(node.keys) >= 1, f"{where}: an inner node without keys")
        _need(len(node.children) == len(node.keys) + 1, f"{where}: {len(node.children)} children")
        heights = set()
        for at, child in enumerate(node.children):
            assert isinstance(child, str)
            _need(child not in self.nodes, f"{where}: {child} is reached twice")
            self.nodes[child] = None
            found = decode_node(_read(self._store, child, where), child)
            _need(found.verified, f"{child} has no digest")
            below = node.keys[at - 1] if at else low
            above = node.keys[at] if at < len(node.keys) else high
            heights.add(self.visit(found.node, child, below, above))
            if at < len(node.keys):
                self.entries.append((node.keys[at], node.values[at] or ""))
        _need(len(heights) == 1, f"{where}: the leaves below it are not on one level: {sorted(heights)}")
        return heights.pop() + 1


def _check_contents(contents: Contents, catalog: CatalogDef, what: str) -> None:
    ids: dict[str, str] = {catalog.id: "the catalog"}
    for name, definition in contents.items():
        shown = f"{name.kind.word} {name}"
        _need(bool(definition.id), f"{what}: {shown} has no id")
        _need(definition.id not in ids, f"{what}: {shown} has the id of {ids.get(definition.id)}: {definition.id}")
        ids[definition.id] = shown
        if not isinstance(name, NamespaceName):
            _need(NamespaceName(name.namespace) in contents, f"{what}: the namespace of {shown} is not there")


def _read_definition(store: Store, cls: Any, path: str, what: str) -> Any:
    data = _read(store, path, what)
    definition = cls.FromString(data)
    verdict = check_digest(data, path)
    _need(verdict is Digest.VERIFIED, f"{path} ({what}): its digest is {verdict.value}")
    return definition


def _read(store: Store, path: str, what: str) -> bytes:
    _need(store.exists(path), f"{what}: {path} is missing")
    return store.read(path)


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise Unsound(message)


# Distributed transactions


def _check_transactions(store: Store, versions: dict[int, Version], now_millis: int) -> None:
    """The last save of each: an open one has all that its running root reaches, a committed one is in the log."""
    last: dict[str, int] = {}
    for file in store.list("dtxn/"):
        parsed = parse_transaction_path(file.path)
        _need(parsed is not None, f"{file.path} is no name of a transaction")
        assert parsed is not None
        if parsed[1] is not None:
            last[parsed[0]] = max(parsed[1], last.get(parsed[0], 0))
    for id, save in last.items():
        path = f"dtxn/{id}.{save}.binpb"
        found = _read_transaction(store, path)
        _need(found.id == id, f"{path} is of the transaction {found.id}")
        _need(parse_root_path(found.beginning_root_node_file_path) is not None, f"{path} does not say where it began")
        running = found.running_root_node_file_path
        number = parse_root_path(running)
        if number is not None and running == found.beginning_root_node_file_path:
            continue  # it had nothing to commit
        if number is not None and number in versions:
            _need(versions[number].info.transaction_id == id, f"{path} says version {number}, which is another's")
        elif running and number is None and found.expire_at_millis >= now_millis:
            _read_running(store, running)


def _read_transaction(store: Store, path: str) -> DistributedTransactionDef:
    found: DistributedTransactionDef = _read_definition(store, DistributedTransactionDef, path, "a transaction")
    return found


# What the actions mean


class _Model:
    """The catalog as a dict, and what each action does to it."""

    def __init__(self, catalog: CatalogDef, contents: Contents, states: dict[int, Any], where: str) -> None:
        self.catalog = catalog
        self.contents = contents
        self._states = states
        self._where = where

    def do(self, action: Action, version: Version) -> None:
        label = f"{self._where}, {action.type_name} {action.name or 'catalog'}"
        type_name = action.type_name
        if action.type in (T.COMMIT_INFO, T.CATALOG_COMPACT, T.CATALOG_SNOW_NAMESPACES) or type_name.endswith(
            ("_EXISTS", "_DESCRIBE", "_SELECT", "_SHOW_TABLES", "_SHOW_VIEWS")
        ):
            return
        if action.type == T.CATALOG_ROLLBACK:
            self._roll_back(action, version, label)
        elif action.type_name.startswith("CATALOG_EXPIRE_"):
            self._expire(action, version, label)
        elif action.type == T.CATALOG_EXPORT:
            self._export(action, version, label)
        elif action.type == T.CATALOG_REPAIR:
            # what it leaves is its to say
            self.catalog = _copy(version.catalog)
            self.contents = {name: _copy(found) for name, found in version.contents.items()}
        elif action.type == T.CATALOG_ALTER:
            wanted = CatalogDef.FromString(action.definition)
            self.catalog = self._altered(action, self.catalog, wanted, label)
        elif action.name is None:
            raise Unsound(f"{label}: this checker does not know what it does")
        elif type_name.endswith(("_CREATE", "_RESTORE")):
            self._create(action, action.name, label)
        elif type_name.endswith("_DROP"):
            self._drop(action, action.name, label)
        elif type_name.endswith("_RENAME"):
            self._rename(action, action.name, label)
        elif "_ALTER" in type_name or type_name in ("VIEW_REPLACE", "TABLE_INSERT", "TABLE_UPDATE", "TABLE_DELETE"):
            now = self._there(action.name, label)
            definition = CLASSES[action.name.kind].FromString(action.definition)
            self.contents[action.name] = self._altered(action, now, definition, label)
        else:
            raise Unsound(f"{label}: this checker does not know what it does")

    def _expire(self, action: Action, version: Version, label: str) -> None:
        change, properties = action.parse_payload(ExpireDef), self.catalog.properties
        oldest, purged = (int(properties.get(f"olympia.expire.{word}", 0)) for word in ("oldest", "purged"))
        resting = json.loads(properties.get(QUARANTINE_PROPERTY, "[]"))
        if action.type == T.CATALOG_EXPIRE_PURGE:
            _need(change.purged <= oldest, f"{label}: version {change.purged} counts: the oldest is {oldest}")
            names = {entry["manifest"] for entry in resting}
            _need(names.issuperset(change.manifests), f"{label}: {change.manifests} do not rest: {names}")
            properties["olympia.expire.purged"] = str(max(purged, change.purged))
            said = version.catalog.properties.get("olympia.expire.purging", "[]")
            purging = [*change.manifests, *change.unfinished]
            _need(json.loads(said) == purging, f"{label}: it purges {said}, not {purging}")
            properties.pop("olympia.expire.purging", None)
            if purging:
                properties["olympia.expire.purging"] = said
            resting = [entry for entry in resting if entry["manifest"] not in change.manifests]
        else:
            mark = action.type == T.CATALOG_EXPIRE_MARK
            if OLDEST_PROPERTY in properties:
                _need(change.former_oldest == oldest, f"{label}: the former oldest is {oldest}")
            oldest = change.former_oldest
            _need(
                change.oldest >= (oldest if mark else purged), f"{label}: {change.oldest} is below {oldest}, {purged}"
            )
            properties[OLDEST_PROPERTY] = str(change.oldest)
            if mark and change.manifest:
                entry = {"version": version.number, "oldest": change.oldest, "former_oldest": oldest}
                resting = [*resting, {**entry, "manifest": change.manifest}]
            elif not mark:
                resting = [entry for entry in resting if entry["former_oldest"] < change.oldest]
        written = version.catalog.properties.get(QUARANTINE_PROPERTY, "[]")
        _need(json.loads(written) == resting, f"{label}: the quarantine is {written}, not {resting}")
        if resting:
            properties[QUARANTINE_PROPERTY] = written
        else:
            properties.pop(QUARANTINE_PROPERTY, None)

    def _export(self, action: Action, version: Version, label: str) -> None:
        export = action.parse_payload(ExportDef)
        key = f"olympia.export.{export.name}"
        if export.dropped:
            self.catalog.exported_snapshots.pop(export.name, None)
            self.catalog.properties.pop(key, None)
            return
        self.catalog.exported_snapshots[export.name] = export.location
        record = version.catalog.properties.get(key, "{}")
        said = {"version": export.version, "mode": export.mode, "expires_at": export.expires_at_millis or None}
        said |= {"pin": export.pin} if export.pin else {}
        _need(json.loads(record) == said, f"{label}: the record is {record}, not {said}")
        # how the record is written out is not laid down
        self.catalog.properties[key] = record

    def _there(self, name: ObjectName, label: str) -> Definition:
        _need(name in self.contents, f"{label}: it is not there")
        return self.contents[name]

    def _create(self, action: Action, name: ObjectName, label: str) -> None:
        definition = CLASSES[name.kind].FromString(action.definition)
        present = self.contents.get(name)
        again = present is not None and action.type_name.endswith("_RESTORE") and present.id == definition.id
        _need(present is None or again, f"{label}: it is there already")
        if not isinstance(name, NamespaceName):
            self._there(NamespaceName(name.namespace), label)
        self.contents[name] = definition

    def _drop(self, action: Action, name: ObjectName, label: str) -> None:
        present = self._there(name, label)
        dropped = CLASSES[name.kind].FromString(action.definition)
        # one whose definition was damaged says nothing of it
        _need(
            not action.definition or dropped.id == present.id,
            f"{label}: it says the id {dropped.id}, but it is {present.id}",
        )
        if isinstance(name, NamespaceName):
            inside = [found for found in self.contents if found != name and found.namespace == name.namespace]
            _need(not inside, f"{label}: {inside[:3]} are still in it")
        del self.contents[name]

    def _rename(self, action: Action, name: ObjectName, label: str) -> None:
        self._there(name, label)
        payload = action.parse_payload(RenameDef)
        moves: dict[ObjectName, ObjectName] = {}
        if isinstance(name, NamespaceName):
            new = NamespaceName(payload.new_namespace_name)
            moves[name] = new
            for found in self.contents:
                if found.namespace == name.namespace and not isinstance(found, NamespaceName):
                    moves[found] = type(found)(new.namespace, found.name)
        else:
            self._there(NamespaceName(payload.new_namespace_name), label)
            cls = TableName if name.kind is Kind.TABLE else ViewName
            moves[name] = cls(payload.new_namespace_name, payload.new_name)
        for new_name in moves.values():
            _need(new_name not in self.contents, f"{label}: {new_name} is there already")
        for old, new_name in moves.items():
            self.contents[new_name] = self.contents.pop(old)

    def _altered(self, action: Action, now: Any, wanted: Any, label: str) -> Any:
        """Return the definition that an alter leaves. Raise Unsound if the action carries another one."""
        set_keys: Sequence[str]
        unset_keys: Sequence[str]
        fields: Sequence[str]
        if action.type == T.NAMESPACE_ALTER_SET_PROPERTIES:
            set_keys, unset_keys, fields = action.parse_payload(NamespaceSetPropertiesDef).keys, [], []
        elif action.type == T.NAMESPACE_ALTER_UNSET_PROPERTIES:
            set_keys, unset_keys, fields = [], action.parse_payload(NamespaceUnsetPropertiesDef).keys, []
        else:
            change = action.parse_payload(AlterDef)
            set_keys, unset_keys, fields = change.set_properties, change.unset_properties, change.fields
        if set_keys or unset_keys or fields:
            result = _copy(now)
            for key in set_keys:
                result.properties[key] = wanted.properties[key]
            for key in unset_keys:
                result.properties.pop(key, None)
            for name in fields:
                # none of these is a message or a map
                setattr(result, name, getattr(wanted, name))
        else:
            result = _copy(wanted)
        _need(result.id == now.id, f"{label}: the id changes from {now.id} to {result.id}")
        _compare({action.name: wanted}, {action.name: result}, f"{label}: the definition that it says it leaves")
        return result

    def _roll_back(self, action: Action, version: Version, label: str) -> None:
        payload = action.parse_payload(RollbackDef)
        if payload.to_version < min(self._states):
            # where it came from is expired: what it left is all there is to see
            self.catalog = _copy(version.catalog)
            self.contents = {name: _copy(found) for name, found in version.contents.items()}
            return
        _need(payload.to_version in self._states, f"{label}: version {payload.to_version} is not there")
        today = self.catalog
        catalog, contents = self._states[payload.to_version]
        self.catalog = _copy(catalog)
        self.contents = {name: _copy(found) for name, found in contents.items()}
        self.catalog.ClearField("exported_snapshots")
        self.catalog.exported_snapshots.update(today.exported_snapshots)
        for definition, take in ((self.catalog, False), (today, True)):
            for key, value in list(definition.properties.items()):
                if key.startswith(("olympia.export.", "olympia.expire.")):
                    if take:
                        self.catalog.properties[key] = value
                    else:
                        del self.catalog.properties[key]


def _copy(definition: Any) -> Any:
    copy = type(definition)()
    copy.CopyFrom(definition)
    copy.ClearField("integrity")
    return copy


def _compare(expected: dict[Any, Any], found: dict[Any, Any], what: str) -> None:
    lines = []
    for name in sorted(expected.keys() | found.keys(), key=str):
        if name not in found:
            lines.append(f"  {name}: by the actions it is there, in the tree it is not")
        elif name not in expected:
            lines.append(f"  {name}: in the tree it is there, by the actions it is not")
        elif plain(expected[name]) != plain(found[name]):
            lines.append(f"  {name}: by the actions {plain(expected[name])}\n    in the tree {plain(found[name])}")
    _need(not lines, f"{what} does not follow from the actions:\n" + "\n".join(lines[:20]))
