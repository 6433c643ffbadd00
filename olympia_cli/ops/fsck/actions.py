"""What the log says where files no longer do: which objects a version changed, and what their definitions held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from olympia_cli.catalog.replay import catalog_after, moved, replay, touched
from olympia_cli.errors import Damaged, OlympiaError
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.definitions import CLASSES, bare
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node_file import DIGEST_KEY, decode_action_rows
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.ops.fsck.chain import ChainReader


def read_actions(data: bytes, path: str) -> tuple[Action, ...] | None:
    """The actions of a root; None when they cannot be read."""
    try:
        return tuple(decode_action(key, value, path) for key, value in decode_action_rows(data, path))
    except Exception:
        # what a decoder stumbles over is damage, and told elsewhere
        return None


def follow_names(names: set[ObjectName], actions: Iterable[Action]) -> set[ObjectName]:
    """The names after actions, as far as they tell."""
    followed = _Names(names)
    for action in actions:
        replay(action, followed)
    return followed.names


@dataclass(slots=True)
class _Names:
    """Some of a version's names: of a namespace that goes, or moves, all that are known go along."""

    names: set[ObjectName]

    def put(self, name: ObjectName, definition: bytes) -> None:
        self.names.add(name)

    def drop(self, name: ObjectName) -> None:
        self.names.discard(name)
        if isinstance(name, NamespaceName):
            self.names = {other for other in self.names if other.namespace != name.namespace}

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.names = {moved(name, old, new) for name in self.names} | {new}


def disproved(
    reader: ChainReader,
    versions: Sequence[int],
    unverified: dict[int, tuple[str, Kind, str]],
    first: dict[int, int],
    keys: KeyCodec,
) -> Iterator[int]:
    """Definitions without a digest that differ from all that the log says was written for their objects.

    A cut at the end of a field leaves a message that can be parsed and has no digest any more; the log still has the
    whole of it. Where a part of the log cannot be read, that of the `first` version with the definition decides, and
    the beginning of one that was written is a cut one. Where another program committed too, it may have written the
    definition, and nothing is said.
    """
    objects: dict[ObjectName | tuple[Kind, str], list[int]] = {}
    bodies: dict[int, bytes] = {}
    paths = {path: number for number, (path, _, _) in unverified.items()}
    for path, data in reader.files.read_many(paths):
        number = paths[path]
        _, kind, key = unverified[number]
        if not isinstance(data, bytes):
            continue
        bodies[number] = _plain(kind, data)
        # what is cut still has its id, whatever the object was called when it was written
        objects.setdefault((kind, definitions.definition_id(kind, data)), []).append(number)
        # a key that no object can have names nothing, and is told as such
        with suppress(Damaged):
            objects.setdefault(keys.decode(key, ""), []).append(number)
    by_name: dict[int, dict[int, set[bytes]]] = {number: {} for number in bodies}
    by_id: dict[int, set[bytes]] = {number: set() for number in bodies}
    sure = True
    oldest = reader.chain.oldest
    for found in reader.roots(versions):
        actions = read_actions(found.data, found.path) if found.root is not None and found.data is not None else None
        if actions is None:
            sure = sure and found.version < oldest
            continue
        if not _ours(found.data, actions):
            return
        for action in actions:
            if action.name is None or not action.definition:
                continue
            body = _plain(action.kind, action.definition)
            for number in (number for name in touched(action) for number in objects.get(name, ())):
                by_name[number].setdefault(found.version, set()).add(body)
            for number in objects.get((action.kind, action.id), ()):
                by_id[number].add(body)
    for number, body in bodies.items():
        logged = by_name[number]
        known = {content for contents in logged.values() for content in contents}
        decisive = known if sure else logged.get(first.get(number, -1), set())
        whole = known | by_id[number]
        cut = body not in whole and any(content.startswith(body) for content in whole)
        if cut or (decisive and body not in decisive):
            yield number


def disproved_catalogs(reader: ChainReader, versions: Sequence[int]) -> Iterator[str]:
    """Catalog definitions without a digest that are not what the log leads to.

    What the catalog was is followed from version to version: by definitions that have a digest, and by the actions
    where they have none.
    """
    states: dict[int, CatalogDef | None] = {}
    state: CatalogDef | None = None
    told: set[str] = set()
    for found in reader.roots(versions):
        actions = read_actions(found.data, found.path) if found.data is not None else None
        if found.root is None or actions is None:
            state = None
            continue
        if not _ours(found.data, actions):
            return
        catalog = reader.catalog(found.root.catalog_def)
        state = _after(found.version, state, actions, states)
        if catalog.definition is not None and catalog.verified:
            state = bare(catalog.definition)
        elif catalog.definition is not None and state is not None and bare(catalog.definition) != state:
            if found.root.catalog_def not in told:
                yield found.root.catalog_def
            told.add(found.root.catalog_def)
        states[found.version] = state


def _ours(data: bytes | None, actions: Iterable[Action]) -> bool:
    """Whether this program wrote a root."""
    return data is not None and DIGEST_KEY in data and any(action.type == ActionType.COMMIT_INFO for action in actions)


def _after(
    version: int, state: CatalogDef | None, actions: Iterable[Action], states: dict[int, CatalogDef | None]
) -> CatalogDef | None:
    """The catalog definition after the actions of a version; None when they do not tell."""
    for action in actions:
        if action.name is None:
            try:
                state = catalog_after(state, action, version, states.get)
            except OlympiaError:
                state = None
    return state


def _plain(kind: Kind, data: bytes) -> bytes:
    try:
        return definitions.body(CLASSES[kind].FromString(data))
    except DecodeError:
        return data
