"""Commits: the order of writes, and the retry loop for concurrent commits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from olympia_cli import __version__
from olympia_cli.catalog.clock import Clock, moment
from olympia_cli.catalog.references import check_no_gap
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.staging import Draft
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import RootFile, read_hints, write_latest
from olympia_cli.errors import (
    CommitConflict,
    CommitUnknown,
    Damaged,
    OlympiaError,
    OutcomeUnknown,
    PathMissing,
    PathTaken,
    StorageFailed,
    Unsupported,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import READS, Action, commit_info, encode_action
from olympia_cli.format.codec import LOST, encode_node, encode_root
from olympia_cli.format.node import Node, Root
from olympia_cli.format.paths import MAX_VERSION, OLDEST, new_definition_path, new_node_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, CommitInfoDef, VersionRange
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import Kind, ObjectName
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.edit import edit

if TYPE_CHECKING:
    from olympia_cli.catalog.conflicts import Clash

HALF_AN_HOUR_MILLIS = 30 * 60 * 1000
"""The assumed maximum difference between clocks, and the maximum age of files that a new root may refer to."""

_NOTE = ActionType.COMMIT_INFO
MIN_ATTEMPTS = 20
"""The minimum number of versions for which `commit` tries to create the root, however long that takes."""
SURE_OF_BASE_MILLIS = 1000
"""The age up to which a transaction takes its base for present."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The version that holds the transaction, and its actions in that version."""

    version: int
    actions: tuple[Action, ...]
    made: Snapshot | None = field(default=None, compare=False, repr=False)
    """The version's snapshot, if this process has just written it, so that it need not be read."""


@dataclass(frozen=True, slots=True)
class Author:
    """The author, program and message of a commit, for the log."""

    by: str = ""
    message: str = ""
    program: str = "olympia-cli"
    program_version: str = __version__

    def sign(self, transaction_id: str, began_at_version: int = 0, reverts: Iterable[VersionRange] = ()) -> Action:
        """Return the action that records the author, the transaction id, and the versions that the commit reverts."""
        info = CommitInfoDef(
            transaction_id=transaction_id,
            by=self.by,
            program=self.program,
            program_version=self.program_version,
            message=self.message,
            began_at_version=began_at_version,
            reverts=reverts,
        )
        return Action(_NOTE, None, b"", info.SerializeToString())


def commit(
    transaction: Transaction,
    author: Author,
    *,
    retry_for: float = 60.0,
    atomic: bool = False,
    files: FileWriter | None = None,
) -> Committed:
    """Commit a transaction. Files are written in this order:

    1. Definitions and non-root nodes, in parallel, under new names. No reader sees them yet.
    2. Root v+1, created exclusively: THE COMMIT.
    3. `vn/latest`, best effort.

    If the root's name is taken, check our actions for conflicts with the actions of every version since. Without a
    conflict, apply our actions to the newest version, and repeat from step 1 with the files already written. `files`
    may hold files that were written earlier.
    """
    clock, store = transaction.clock, transaction.base.store
    check_writable(transaction.base)
    transaction.check_open()
    if not transaction.leaves_anything():
        return _close(transaction, Committed(transaction.base.version, ()))
    if not atomic:
        transaction.check_size()
    files = files if files is not None else FileWriter(store, clock)
    deadline = clock.elapsed_millis() + retry_for * 1000
    attempt = 0
    while True:
        transaction.check_alive()
        if transaction.age_millis() >= SURE_OF_BASE_MILLIS:
            _check_base_stands(transaction)
        version = transaction.base.version + 1
        actions = _committed_actions(transaction, author)
        root, others = files.plan(transaction.draft, actions)
        ready = partial(files.before_root, others, transaction.check_alive)
        path = root_path(version)
        try:
            # 1 and 2 in one call, so that a store may prepare the root while it creates the other files
            if create_root(store, path, root, "doing the same change again", others, ready):
                break
        except FilesTooOld:
            continue
        attempt += 1
        if done := rebase(transaction):
            return _close(transaction, done)
        if not transaction.leaves_anything():
            # another writer was first with all of it
            return _close(transaction, Committed(transaction.base.version, ()))
        if attempt >= MIN_ATTEMPTS and clock.elapsed_millis() >= deadline:
            raise CommitConflict(
                f"lost the race against other writers {attempt} times, the last time for version {version}",
                hint="nothing was committed; try again, or allow more time for retries",
            )
        clock.sleep(random.uniform(0, min(1.0, 0.002 * 2 ** min(attempt, 10))))
    _check_not_freed(transaction, version)
    # 3
    write_latest(store, version)
    return _close(transaction, Committed(version, tuple(actions), files.made(transaction.base, version, path, root)))


R = TypeVar("R")
ATTEMPTS = 20
"""The maximum number of attempts, if the caller does not state one."""


def retry(
    change: Callable[[], R],
    attempts: int = ATTEMPTS,
    is_conflict: Callable[[Exception], bool] = lambda error: isinstance(error, CommitConflict),
    clock: Clock | None = None,
) -> R:
    """Begin, make and commit a change. After a conflict, repeat all of it on the new latest version.

    `commit` itself moves a transaction to newer versions, so a conflict here means that its actions no longer fit. The
    last of the attempts raises its error. With a clock, sleep for a random time between two attempts.
    """
    for attempt in range(1, attempts):
        try:
            return change()
        except Exception as error:
            if not is_conflict(error):
                raise
        if clock is not None:
            clock.sleep(random.uniform(0, 0.01 * min(attempt, 10)))
    return change()


def rebase(transaction: Transaction) -> Committed | None:
    """Move the transaction to the newest version. Raise CommitConflict if that is not possible.

    Return the version that holds the transaction if it was already committed, else None.
    """
    # imported only after a lost race
    from olympia_cli.catalog.conflicts import Clash, settle
    from olympia_cli.catalog.lineage import tree_changes

    newest = before = transaction.base
    commits: list[Sequence[Action]] = []
    for snapshot in newer_versions(transaction.base):
        actions = snapshot.actions()
        info = commit_info(actions)
        if info is not None and info.transaction_id == transaction.id:
            return Committed(snapshot.version, actions)
        # versions of other programs have no action log, so derive their actions from the trees
        commits.append(actions or tuple(tree_changes(before, snapshot)))
        newest = before = snapshot
    check_no_gap(newest)
    if newest is transaction.base:
        return None
    settled = settle(transaction.actions, commits, transaction.isolation)
    if isinstance(settled, Clash):
        _raise_conflict(settled, transaction.base.version + 1 + settled.index, commits[settled.index])
    transaction.rebase(newest, settled)
    return None


def newer_versions(base: Snapshot) -> Iterator[Snapshot]:
    """Yield the versions after `base` in order. Read a growing number of roots at a time, until one is missing."""
    store, width = base.store, base.file.width
    version, window = base.version + 1, 2
    while version <= MAX_VERSION:
        versions = range(version, min(version + window, MAX_VERSION + 1))
        paths = [root_path(number, width) for number in versions]
        for number, (_, data) in zip(versions, store.read_many(paths), strict=True):
            if isinstance(data, PathMissing):
                return
            if isinstance(data, Exception):
                raise data
            try:
                snapshot = Snapshot(store, RootFile.of(number, width, data), base)
            except Damaged as error:
                if error.code != LOST:
                    raise
                # a gap was closed after the version that we hold
                reason = f"version {version - 1} is no longer the latest, and {number} is lost"
                raise CommitConflict(reason, hint="nothing was committed; repeat it on the latest version") from error
            if not snapshot.in_place:
                # a copy of an older version: committing on it would lose the commits since
                raise snapshot.out_of_place()
            yield snapshot
        version, window = version + window, min(2 * window, 64)


def check_writable(snapshot: Snapshot) -> None:
    """Raise Unsupported for a catalog that is read-only. Raise Damaged if the latest root is not part of the
    history.
    """
    if snapshot.java:
        raise written_by_java(snapshot.store.uri)
    if not snapshot.in_place:
        raise snapshot.out_of_place()
    if snapshot.version >= MAX_VERSION:
        raise Unsupported(
            f"{snapshot.store.uri} is at the last version that the format can name",
            hint="export it into a new catalog",
        )


def written_by_java(uri: str) -> Unsupported:
    """Return the error for a catalog of the Java SDK, which would take our action rows for objects."""
    return Unsupported(
        f"{uri} was written by the Java SDK and is read only",
        hint="create a new catalog (init NEW) and import this one",
        command=("-c", "NEW", "import", "olympia", uri),
    )


def _committed_actions(transaction: Transaction, author: Author) -> list[Action]:
    """Return the actions that the root stores: writes that are not merged, reads under SERIALIZABLE, and the commit
    info.
    """
    serializable = transaction.isolation == IsolationLevel.SERIALIZABLE
    done = [action for action in transaction.actions if not action.merged]
    notes = [action.parse_payload(CommitInfoDef) for action in done if action.type == _NOTE]
    actions = [action for action in done if action.type != _NOTE and (serializable or action.type not in READS)]
    reverts = [versions for note in notes for versions in note.reverts]
    return [*actions, author.sign(transaction.id, transaction.began_at_version, reverts)]


def _check_base_stands(transaction: Transaction) -> None:
    """Raise CommitConflict if the base of the transaction is gone or replaced, and no version follows it.

    All roots were lost then, and a promoted copy may have begun again at version 0. A commit would damage that copy.
    That takes longer than a second, so a young transaction costs no round trip.
    """
    base = transaction.base
    found = dict(base.store.read_many([base.file.path, root_path(base.version + 1, base.file.width)]))
    here, after = found.values()
    if isinstance(after, PathMissing) and (
        isinstance(here, PathMissing) or (isinstance(here, bytes) and here != base.file.data)
    ):
        reason = f"version {base.version}, at which the transaction began, is gone"
        raise CommitConflict(reason, hint="nothing was committed; repeat it on the latest version")


def _check_not_freed(transaction: Transaction, version: int) -> None:
    """Raise CommitUnknown if the root may have been created where no reader looks.

    An expire may have freed the name while this process slept. It cannot do so within the transaction's lifetime plus
    half an hour. If the lifetime was shortened meanwhile, the oldest version shows it.
    """
    late = transaction.late_by_millis()
    freed = late > HALF_AN_HOUR_MILLIS
    age = late + transaction.expires_at_millis - transaction.began_at_millis
    if not freed and age > HALF_AN_HOUR_MILLIS:
        freed = _is_below_oldest(transaction.base.store, version)
    if freed:
        raise CommitUnknown(
            f"the root of version {version} was written so late that its name may have been freed before",
            hint=f"check whether the log has transaction {transaction.id}; if not, repeat it",
        )


def _is_below_oldest(store: Store, version: int) -> bool:
    """Return True if an expire removed the version from the history, or if the store does not answer."""
    try:
        hints = read_hints(store)
        return OLDEST in hints.unread or (hints.oldest or 0) > version
    except OlympiaError:
        # the root is written, so the commit must not be reported as failed
        return True


def _raise_conflict(clash: Clash, version: int, actions: Sequence[Action]) -> NoReturn:
    info = commit_info(tuple(actions))
    by = f" by {info.by}" if info is not None and info.by else ""
    mine = f"{clash.pending.type_name} {clash.pending.name or 'the catalog'}"
    theirs = f"{clash.committed.type_name} {clash.committed.name or 'the catalog'}"
    raise CommitConflict(f"{mine} conflicts with {theirs} in version {version}{by}")


def _close(transaction: Transaction, done: Committed) -> Committed:
    transaction.open = False
    return done


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
        while True:
            check_alive()
            data, files = self.plan(draft, actions)
            if files:
                try:
                    self._store.create_many(files)
                except (OutcomeUnknown, PathTaken) as error:
                    raise _nothing_committed(error) from error
            try:
                self.before_root(files, check_alive)
                return data
            except FilesTooOld:
                continue

    def plan(self, draft: Draft, actions: Sequence[Action]) -> tuple[bytes, dict[str, bytes]]:
        """Return the bytes of the root, and the files that it refers to and that are not written yet."""
        planned_at = moment(self._clock)
        self._root, files = self._files(draft, planned_at.wall)
        # `map`, because a commit may have a hundred thousand actions
        data = encode_root(self._root, map(partial(encode_action, keys=draft.tree.keys), actions))
        if files and self._first_at is None:
            self._first_at = planned_at.elapsed
        return data, files

    def before_root(self, files: dict[str, bytes], check_alive: Callable[[], None]) -> None:
        """Remember that the files are written. Raise an error if a root must not refer to them.

        After FilesTooOld, all files are forgotten, so that the next plan has all of them.
        """
        self._written.update(files)
        # only their age protects files from expire until a root refers to them
        if self._first_at is not None and self._clock.elapsed_millis() - self._first_at > HALF_AN_HOUR_MILLIS:
            self._paths, self._written, self._first_at = {}, set(), None
            self._nodes, self._definitions = {}, {}
            raise FilesTooOld
        check_alive()

    def made(self, base: Snapshot, version: int, path: str, data: bytes) -> Snapshot:
        """Return a snapshot of the version of the last root, with the written files in its caches."""
        made = Snapshot(self._store, RootFile(version, base.file.width, path, data), base, self._root)
        for path, node in self._nodes.items():
            made.reader.remember(path, node)
        for path, definition in self._definitions.items():
            made.definitions.remember(path, definition)
        return made

    def _files(self, draft: Draft, now_millis: int) -> tuple[Root, dict[str, bytes]]:
        base, tree = draft.base, draft.tree
        now = max(now_millis, base.created_at_millis)
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


class FilesTooOld(Exception):
    """The written files are so old that an expire may delete them before a root refers to them."""


def _nothing_committed(error: OlympiaError) -> StorageFailed:
    """Return the error for failed files of a commit. No root refers to them, so nothing was committed."""
    return StorageFailed(f"{error.message}; nothing was committed")
