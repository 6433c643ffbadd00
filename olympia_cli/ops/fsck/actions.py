"""Read action logs where files are damaged: the objects that a version changed, and the content of their
definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from google.protobuf.message import DecodeError

from olympia_cli.catalog.replay import catalog_after, moved, replay, touched
from olympia_cli.errors import OlympiaError
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.codec import DIGEST_KEY
from olympia_cli.format.definitions import CLASSES, bare
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.ops.fsck.roots import ChainReader, ChainRoot, read_actions
from olympia_cli.ops.walk import Flaw


def _told(root: ChainRoot) -> tuple[Action, ...] | None:
    """Return the actions of a version. None if its root or its log cannot be read."""
    actions = read_actions(root.data, root.path) if root.root is not None and root.data is not None else None
    return None if isinstance(actions, Flaw) else actions


def follow_names(names: set[ObjectName], actions: Iterable[Action]) -> set[ObjectName]:
    """Return the names after the actions, as far as they can be followed."""
    followed = _Names(names)
    for action in actions:
        replay(action, followed)
    return followed.names


@dataclass(slots=True)
class _Names:
    """A part of a version's names. A dropped or renamed namespace takes its known names along."""

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
    """Yield definitions without a digest that differ from all that the log has recorded for their objects.

    A file that is truncated at the end of a field can still be parsed, and has lost its digest. The log still has the
    full definition. If a part of the log cannot be read, the log of the `first` version with the definition decides.
    The beginning of a recorded definition counts as truncated. If another program has also committed, it may have
    written the definition, so nothing is yielded.
    """
    objects = _by_object(reader, unverified, keys)
    suspects = {suspect.number: suspect for same in objects.values() for suspect in same}
    sure = True
    for root in chain.from_iterable(reader.roots(versions)):
        actions = _told(root)
        if actions is None:
            sure = sure and root.version < reader.chain.oldest
            continue
        if not _ours(root.data, actions):
            return
        for action in actions:
            if action.name is None or not action.definition:
                continue
            body = _plain(action.kind, action.definition)
            for suspect in (suspect for name in touched(action) for suspect in objects.get(name, ())):
                suspect.logged.setdefault(root.version, set()).add(body)
            for suspect in objects.get((action.kind, action.id), ()):
                suspect.of_id.add(body)
    for number, suspect in sorted(suspects.items()):
        if suspect.is_disproved(None if sure else first.get(number, -1)):
            yield number


@dataclass(slots=True)
class _Unverified:
    """A definition without a digest, and the definitions that the log records: for objects of its name, by version, and
    for objects of its id under any name.
    """

    number: int
    body: bytes
    logged: dict[int, set[bytes]] = field(default_factory=dict)
    of_id: set[bytes] = field(default_factory=set)

    def is_disproved(self, by: int | None) -> bool:
        """Return whether it differs from the recorded definitions. `by` is the only version whose log decides; None if
        all decide.
        """
        logged_bodies = {body for bodies in self.logged.values() for body in bodies}
        decisive = logged_bodies if by is None else self.logged.get(by, set())
        whole = logged_bodies | self.of_id
        cut = self.body not in whole and any(body.startswith(self.body) for body in whole)
        return cut or (bool(decisive) and self.body not in decisive)


def _by_object(
    reader: ChainReader, unverified: dict[int, tuple[str, Kind, str]], keys: KeyCodec
) -> dict[ObjectName | tuple[Kind, str], list[_Unverified]]:
    """Return the definitions by their objects' names, and by kind and id, as a truncated definition still has
    its id.
    """
    objects: dict[ObjectName | tuple[Kind, str], list[_Unverified]] = {}
    paths = {path: number for number, (path, _, _) in unverified.items()}
    for path, data in reader.files.read_many(paths):
        _, kind, key = unverified[paths[path]]
        if isinstance(data, bytes):
            suspect = _Unverified(paths[path], _plain(kind, data))
            objects.setdefault((kind, definitions.definition_id(kind, data)), []).append(suspect)
            # a key that no object can have has no name; it is reported elsewhere
            if (name := keys.name(key)) is not None:
                objects.setdefault(name, []).append(suspect)
    return objects


def disproved_catalogs(reader: ChainReader, versions: Sequence[int]) -> Iterator[str]:
    """Yield catalog definitions without a digest that contradict the log.

    The expected definition is followed from version to version: taken from definitions with a digest, and computed from
    the actions elsewhere.
    """
    states: dict[int, CatalogDef | None] = {}
    state: CatalogDef | None = None
    disproofs: set[str] = set()
    for root in chain.from_iterable(reader.roots(versions)):
        actions = _told(root)
        if root.root is None or actions is None:
            state = None
            continue
        if not _ours(root.data, actions):
            return
        catalog = reader.catalog(root.root.catalog_def)
        state = _after(root.version, state, actions, states)
        if catalog.definition is not None and catalog.verified:
            state = bare(catalog.definition)
        elif catalog.definition is not None and state is not None and bare(catalog.definition) != state:
            if root.root.catalog_def not in disproofs:
                yield root.root.catalog_def
            disproofs.add(root.root.catalog_def)
        states[root.version] = state


def _ours(data: bytes | None, actions: Iterable[Action]) -> bool:
    """Return whether this program wrote the root."""
    return data is not None and DIGEST_KEY in data and any(action.type == ActionType.COMMIT_INFO for action in actions)


def _after(
    version: int, state: CatalogDef | None, actions: Iterable[Action], states: dict[int, CatalogDef | None]
) -> CatalogDef | None:
    """Return the catalog definition after the actions of a version. None if it cannot be computed."""
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
