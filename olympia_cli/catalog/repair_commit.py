"""Commit a repair, or a copy that replaces the catalog. Only the number of the latest version is used, because it may
be unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS, Author, create_root
from olympia_cli.catalog.versions import last_version, write_latest
from olympia_cli.errors import (
    CommitConflict,
    OutcomeUnknown,
    PathTaken,
    StorageFailed,
    Unsupported,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, encode_action
from olympia_cli.format.codec import decode_root, encode_lost, encode_node, encode_root
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.paths import MAX_VERSION, new_definition_path, new_node_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, RepairDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, ObjectName, new_uuid
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.edit import bulk_load

AT_ONCE = 256
"""The number of files that are held in memory and written together."""

FILL = 0.9
"""The fill factor of nodes in a rebuilt tree. The rest is room for insertions."""

MAX_LOST_KEYS = 1000
"""Maximum number of lost keys in the log of a repair, and of damaged files that it answers: it limits the root."""


@dataclass(frozen=True, slots=True)
class NewDefinition:
    """A definition to be written, and the name of its object."""

    name: ObjectName
    content: bytes


class Entries(Protocol):
    """The entries of a tree to be built."""

    def items(self) -> Iterable[tuple[str, str | NewDefinition]]:
        """Yield each key in order, with the path of its definition, or a definition to be written."""
        ...


@dataclass(frozen=True, slots=True)
class Built:
    """A tree to be built: the path or the new definition of each key, in key order."""

    entries: Mapping[str, str | bytes]
    names: Mapping[str, ObjectName]
    """The names for the keys with new definitions."""

    def items(self) -> Iterable[tuple[str, str | NewDefinition]]:
        for key, value in self.entries.items():
            yield key, value if isinstance(value, str) else NewDefinition(self.names[key], value)


@dataclass(frozen=True, slots=True)
class RepairSource:
    """The catalog and version that the content of a repair comes from, and the SHA-256 of that root."""

    uri: str
    version: int | None
    root: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """A version that repairs its predecessor. `tree` is an older version's top node, or a tree to be built."""

    head: int
    tree: Node | Entries
    catalog: CatalogDef
    not_before_millis: int
    description: str
    lost_keys: Sequence[str] = ()
    source: RepairSource | None = None
    named_latest: int | None = None
    """The version in vn/latest if it is ahead of the last root. The repaired version's number replaces it."""
    answers: Sequence[str] = ()
    """The damaged files that are the reason for the repair."""

    @property
    def sizes(self) -> Sizes:
        return sizes_of(self.catalog)


def commit_repair(store: Store, clock: Clock, repair: Repair, author: Author) -> int:
    """Commit the repair and return its version. Files are written in this order:

    1. Definitions and non-root nodes, in parallel, under new names. No reader sees them yet.
    2. Root head+1, created exclusively: THE COMMIT.
    3. `vn/latest`, best effort.

    Raise CommitConflict if the root's name is taken: another writer has committed, so the plan is outdated.
    """
    version = _next_version(store, repair)
    while True:
        began = clock.elapsed_millis()
        root = write_files(store, clock, repair, previous_root=root_path(repair.head))
        # only their age protects files from expire until a root refers to them
        if clock.elapsed_millis() - began <= HALF_AN_HOUR_MILLIS:
            break
    _create_root(store, version, root, _actions(repair, author), repair.sizes)
    return version


def commit_promoted(store: Store, clock: Clock, repair: Repair, author: Author, lost: Sequence[int]) -> int:
    """Replace the catalog by a copy, and return its version. Files are written in this order:

    1. Definitions and nodes, under new names. No reader sees them yet.
    2. A placeholder for each of the `lost` versions, at which readers would stop: see `keep_lost_names`.
    3. Root head+1, created exclusively: THE SWITCH. Writers on the former catalog fail to create this name.

    An expire commits before it deletes, so it cannot delete the files of step 1 and leave the name of step 3 free. The
    files may therefore be of any age, as those of a large copy are.
    """
    version = _next_version(store, repair)
    previous_root = root_path(repair.head) if repair.head >= 0 else None
    root = write_files(store, clock, repair, previous_root)
    keep_lost_names(store, lost)
    created = [] if version else [Action(ActionType.CATALOG_CREATE, None, definitions.body(repair.catalog))]
    _create_root(store, version, root, [*created, *_actions(repair, author)], repair.sizes, hint=False)
    return version


def keep_lost_names(store: Store, lost: Sequence[int]) -> None:
    """Create placeholders at the names of lost roots, so that no writer finds a name free.

    The last gap is closed first, and the first name of each gap is created last. Until then, readers stop before the
    gap; afterwards, they see all versions after it. Raise CommitConflict if one of the names holds a root.
    """
    first = [version for before, version in zip([-2, *lost], lost, strict=False) if before != version - 1]
    rest = sorted(set(lost).difference(first), reverse=True)
    batches = [rest[at : at + AT_ONCE] for at in range(0, len(rest), AT_ONCE)]
    for batch in [*batches, *([version] for version in reversed(first))]:
        try:
            store.create_many({root_path(version): encode_lost(version) for version in batch})
        except PathTaken as error:
            raise CommitConflict(
                f"a version was committed into a gap since this was planned: {error.message}",
                hint="plan again",
            ) from None
        except OutcomeUnknown as error:
            raise StorageFailed(f"{error.message}; a gap is not closed yet", hint="run it again") from error


def pad_versions(store: Store, clock: Clock, latest: int, through: int, author: Author) -> int:
    """Commit versions without changes up to the number `through`, which a lost root may have had. Return the latest
    version.

    A writer on a lost root then finds the next name taken by a repair, which conflicts with every write.
    """
    note = RepairDef(description="nothing changes: a root that is lost may have had this number")
    passed = Action(ActionType.CATALOG_REPAIR, None, b"", note.SerializeToString())
    while (latest := last_version(store, latest)) < through:
        path = root_path(latest)
        before = decode_root(store.read(path), path)
        assert before.sizes is not None, "this program wrote it"
        now = max(clock.now_millis(), before.created_at_millis)
        root = Root(before.node, before.catalog_def, now, path, sizes=before.sizes)
        # the number is taken, whichever writer created the root
        _write_root(store, latest + 1, root, [passed, author.sign(new_uuid(), latest)], before.sizes)
    return latest


def create_repaired(store: Store, clock: Clock, repair: Repair, author: Author) -> None:
    """Write a new catalog whose version 0 holds everything, in this order:

    1. Definitions and nodes.
    2. Root 0, created exclusively. From here on the catalog exists.
    3. `vn/latest`.
    """
    root = write_files(store, clock, repair, previous_root=None)
    created = Action(ActionType.CATALOG_CREATE, None, definitions.body(repair.catalog))
    _create_root(store, 0, root, [created, *_actions(repair, author)], repair.sizes)


def _next_version(store: Store, repair: Repair) -> int:
    if repair.head >= MAX_VERSION:
        raise Unsupported(f"{store.uri} is at the last version that the format can name")
    check_head(store, repair.head)
    return repair.head + 1


def check_head(store: Store, head: int) -> None:
    """Raise CommitConflict if another writer committed since the repair was planned."""
    if store.exists(root_path(head + 1)):
        raise _moved(head)


def write_files(store: Store, clock: Clock, repair: Repair, previous_root: str | None) -> Root:
    """Write all files that the root refers to. Return the root, which the caller writes."""
    writer = _Writer(store)
    now = max(clock.now_millis(), repair.not_before_millis)
    node = repair.tree
    if not isinstance(node, Node):
        items = ((key, writer.value(value)) for key, value in node.items())
        node = bulk_load(items, repair.sizes.order, lambda one: writer.node(one, now), FILL)
    content = definitions.body(repair.catalog)
    catalog_def = new_definition_path(Kind.CATALOG, None)
    writer.add(catalog_def, definitions.encode(content, catalog_def))
    writer.flush()
    return Root(node, catalog_def, now, previous_root, sizes=repair.sizes)


class _Writer:
    """Collects files and writes them in batches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, bytes] = {}

    def value(self, value: str | NewDefinition) -> str:
        if isinstance(value, str):
            return value
        path = new_definition_path(value.name.kind, value.name)
        self.add(path, definitions.encode(value.content, path))
        return path

    def node(self, node: Node, now: int) -> str:
        path = new_node_path()
        self.add(path, encode_node(node, now))
        return path

    def add(self, path: str, data: bytes) -> None:
        self._waiting[path] = data
        if len(self._waiting) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        try:
            self._store.create_many(waiting)
        except (OutcomeUnknown, PathTaken) as error:
            # no root refers to these files, whatever their state
            raise StorageFailed(f"{error.message}; nothing was committed") from error


def _actions(repair: Repair, author: Author) -> list[Action]:
    lost = list(repair.lost_keys[:MAX_LOST_KEYS])
    payload = RepairDef(
        description=repair.description,
        lost_keys=lost,
        named_latest=repair.named_latest or 0,
        answers=repair.answers[:MAX_LOST_KEYS],
    )
    if repair.source is not None:
        payload.source, payload.source_root = repair.source.uri, repair.source.root
        if repair.source.version is not None:
            payload.source_version = repair.source.version
    mended = Action(ActionType.CATALOG_REPAIR, None, b"", payload.SerializeToString())
    return [mended, author.sign(new_uuid(), max(repair.head, 0))]


def _create_root(
    store: Store, version: int, root: Root, actions: Sequence[Action], sizes: Sizes, hint: bool = True
) -> None:
    if not _write_root(store, version, root, actions, sizes):
        raise _moved(version - 1)
    if hint:
        write_latest(store, version)


def _write_root(store: Store, version: int, root: Root, actions: Sequence[Action], sizes: Sizes) -> bool:
    keys = KeyCodec.of(sizes)
    data = encode_root(root, [encode_action(action, keys) for action in actions])
    return create_root(store, root_path(version), data, "repairing again")


def _moved(head: int) -> CommitConflict:
    return CommitConflict(
        f"version {head + 1} was committed since this was planned", hint="nothing was changed; plan again"
    )
