"""Write the files of a commit in order: first the files that a root refers to, then the root."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import CommitUnknown, OlympiaError, OutcomeUnknown, PathTaken, StorageFailed
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, encode_action
from olympia_cli.format.node import Node, Root
from olympia_cli.format.node_file import encode_node, encode_root
from olympia_cli.format.paths import new_definition_path, new_node_path
from olympia_cli.names import Kind, ObjectName
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.edit import edit

HALF_AN_HOUR_MILLIS = 30 * 60 * 1000
"""The assumed maximum difference between clocks, and the maximum age of files that a new root may refer to."""


class FileWriter:
    """Writes the files of a commit, and keeps track of them, so that a retry writes only changed files."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._paths: dict[tuple[Kind, bytes] | Node, str] = {}
        self._written: set[str] = set()
        self._nodes: dict[str, Node] = {}
        self._definitions: dict[str, bytes] = {}
        self._root: Root | None = None
        self._first_at: int | None = None

    def root(self, draft: Draft, actions: Sequence[Action], check_alive: Callable[[], None]) -> bytes:
        """Write definitions and nodes. Return the bytes of the root that refers to them."""
        data = self.create_root(draft, actions, check_alive, None)
        assert data is not None, "nothing stands in the way of no path"
        return data

    def create_root(
        self, draft: Draft, actions: Sequence[Action], check_alive: Callable[[], None], path: str | None
    ) -> bytes | None:
        """Like `root`, then create the root at the path. Return None if another root is there."""
        while True:
            check_alive()
            root, files = self._plan(draft)
            self._root = root
            data = encode_root(root, (encode_action(action, draft.tree.keys) for action in actions))
            if files and self._first_at is None:
                self._first_at = self._clock.elapsed_millis()
            ready = partial(self._ready, files, check_alive)
            try:
                if path is None:
                    self._create(files)
                    ready()
                elif not create_root(self._store, path, data, "doing the same change again", files, ready):
                    return None
                return data
            except _TooOld:
                self._paths, self._written, self._first_at = {}, set(), None
                self._nodes, self._definitions = {}, {}

    def _create(self, files: dict[str, bytes]) -> None:
        if files:
            try:
                self._store.create_many(files)
            except (OutcomeUnknown, PathTaken) as error:
                raise _nothing_committed(error) from error

    def _ready(self, files: dict[str, bytes], check_alive: Callable[[], None]) -> None:
        self._written.update(files)
        # only their age protects files from expire until a root refers to them
        if self._first_at is not None and self._clock.elapsed_millis() - self._first_at > HALF_AN_HOUR_MILLIS:
            raise _TooOld
        check_alive()

    def made(self, base: Snapshot, version: int, data: bytes) -> Snapshot:
        """Return a snapshot of the version of the last root, with the written files in its caches."""
        made = Snapshot(self._store, RootFile(version, base.file.width, data), base, self._root)
        for path, node in self._nodes.items():
            made.reader.remember(path, node)
        for path, definition in self._definitions.items():
            made.definitions.remember(path, definition)
        return made

    def _plan(self, draft: Draft) -> tuple[Root, dict[str, bytes]]:
        base, tree = draft.base, draft.tree
        now = max(self._clock.now_millis(), base.created_at_millis)
        files: dict[str, bytes] = {}
        changes: dict[str, str | None] = {}
        for name, staged in draft.staged.items():
            path = self._definition(name.kind, name, staged, files) if isinstance(staged, bytes) else staged
            changes[tree.keys.encode(name)] = path
        node = edit(tree.reader, draft.node, changes, tree.sizes.order)
        children = tuple(child if isinstance(child, str) else self._node(child, now, files) for child in node.children)
        catalog_def = tree.root.catalog_def
        if draft.staged_catalog is not None:
            catalog_def = self._definition(Kind.CATALOG, None, draft.staged_catalog, files)
        root = Root(
            node=Node(node.keys, node.values, children),
            catalog_def=catalog_def,
            created_at_millis=now,
            previous_root=base.file.path,
            rollback_from_root=base.file.path if tree is not base else None,
            sizes=tree.sizes,
        )
        return root, files

    def _definition(self, kind: Kind, name: ObjectName | None, content: bytes, files: dict[str, bytes]) -> str:
        path = self._paths.get((kind, content))
        if path is None:
            path = self._paths[kind, content] = new_definition_path(kind, name)
        if path not in self._written:
            files[path] = self._definitions[path] = definitions.encode(content, path)
        return path

    def _node(self, node: Node, now: int, files: dict[str, bytes]) -> str:
        children = tuple(child if isinstance(child, str) else self._node(child, now, files) for child in node.children)
        placed = Node(node.keys, node.values, children)
        path = self._paths.get(placed)
        if path is None:
            path = self._paths[placed] = new_node_path()
            self._nodes[path] = placed
        if path not in self._written:
            files[path] = encode_node(placed, now)
        return path


def create_root(
    store: Store,
    path: str,
    data: bytes,
    again: str,
    files: Mapping[str, bytes] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> bool:
    """Create `files`, then the root. Return False if the path holds another root.

    The root is not created if `ready` raises an error. `again` names the operation that the advice warns against
    repeating while the outcome is unknown.
    """
    is_its_turn = False

    def go() -> None:
        nonlocal is_its_turn
        ready()
        is_its_turn = True

    try:
        store.create_after(files or {}, path, data, go)
        return True
    except (PathTaken, OutcomeUnknown) as error:
        if not is_its_turn:
            raise _nothing_committed(error) from error
        if isinstance(error, PathTaken):
            return False
        try:
            stands = store.read(path) == data
        except OlympiaError:
            raise CommitUnknown(
                f"it is not known whether {path} was written: {error.message}",
                hint=f"read the log once the store answers again, before {again}",
            ) from error
        if stands and error.is_fleeting:
            raise CommitUnknown(
                f"{path} is written, but may not survive a power failure: {error.message}",
                hint=f"check the disk, and read the log before {again}",
            ) from error
        return stands


class _TooOld(Exception):
    """The written files are so old that an expire may delete them before a root refers to them."""


def _nothing_committed(error: OlympiaError) -> StorageFailed:
    """Return the error for failed files of a commit. No root refers to them, so nothing was committed."""
    return StorageFailed(f"{error.message}; nothing was committed")
