"""Committing: the order of writes, and the loop that tries again when another writer was first."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from olympia_cli import __version__
from olympia_cli.catalog.changes import tree_changes
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.conflicts import Clash, settle
from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.redo import READS
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import RootFile, last_version, write_latest
from olympia_cli.errors import (
    CommitConflict,
    CommitUnknown,
    OlympiaError,
    OutcomeUnknown,
    PathMissing,
    PathTaken,
    StorageFailed,
    TransactionExpired,
    TransactionTooLarge,
    Unsupported,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, commit_info, encode_action
from olympia_cli.format.node import Node, Root
from olympia_cli.format.node_file import encode_node, encode_root
from olympia_cli.format.paths import MAX_VERSION, new_definition_path, new_node_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, CommitInfoDef
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import Kind, ObjectName, TableName
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.edit import edit

HALF_AN_HOUR_MILLIS = 30 * 60 * 1000
"""What clocks are taken to agree within, and how old files may be that a new root makes live."""

MAX_ACTIONS = 10_000
MAX_ACTIONS_PROPERTY = "olympia.txn.max-actions"


@dataclass(frozen=True, slots=True)
class Committed:
    """The version that holds the transaction, and the actions as they stand in it."""

    version: int
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Author:
    """Who commits, with what, and why; for the log."""

    by: str = ""
    message: str = ""
    program: str = "olympia-cli"
    program_version: str = __version__


def commit(
    transaction: Transaction,
    author: Author,
    *,
    retry_for: float = 60.0,
    min_attempts: int = 20,
    atomic: bool = False,
    rebase_first: bool = False,
) -> Committed:
    """Commit a transaction, and return the version that it became. Files are written in this order:

    1 definitions and non-root nodes, in parallel, each under a fresh name: nobody sees them yet
    2 root v+1, created exclusively: THE COMMIT
    3 vn/latest, best effort

    When the root is taken, the actions of every version since are asked whether they go together with ours; if they
    do, our actions are done again on the newest version, and we go back to 1 with what is already written.
    """
    clock, store = transaction.clock, transaction.base.store
    check_writable(transaction.base)
    if not transaction.has_writes:
        transaction.open = False
        return Committed(transaction.base.version, ())
    _check_size(transaction, atomic)
    files = FileWriter(store, clock)
    deadline = clock.elapsed_millis() + retry_for * 1000
    attempt = 0
    if rebase_first and (done := rebase(transaction)):
        return _close(transaction, done)
    while True:
        attempt += 1
        _check_alive(transaction)
        actions = _committed_actions(transaction, author)
        data = files.root(transaction.draft, actions)
        _check_alive(transaction)
        version = transaction.base.version + 1
        if _create_root(store, root_path(version), data):
            break
        if done := rebase(transaction):
            return _close(transaction, done)
        if attempt >= min_attempts and clock.elapsed_millis() >= deadline:
            raise CommitConflict(
                f"other writers were first {attempt} times in a row, the last time at version {version}",
                hint="nothing was committed; try again, or allow more time",
            )
        clock.sleep(random.uniform(0, min(1.0, 0.002 * 2 ** min(attempt, 10))))
    if transaction.late_by_millis() > HALF_AN_HOUR_MILLIS:
        # by now an expire may have freed this name long ago, and then nobody will ever look here
        raise CommitUnknown(
            f"the root of version {version} was written long after the transaction's lifetime",
            hint=f"look whether the log has transaction {transaction.id}; if it has not, do it again",
        )
    write_latest(store, version)
    return _close(transaction, Committed(version, tuple(actions)))


def rebase(transaction: Transaction) -> Committed | None:
    """Move the transaction to the newest version, or raise CommitConflict.

    Returns the version that holds the transaction when it turns out to be committed already.
    """
    base = transaction.base
    snapshots = list(newer_versions(base))
    commits: list[Sequence[Action]] = []
    before = base
    for snapshot in snapshots:
        actions = snapshot.actions()
        info = commit_info(actions)
        if info is not None and info.transaction_id == transaction.id:
            return Committed(snapshot.version, actions)
        # a version of another program says nothing of itself, so what it changed is what it did
        commits.append(actions or tuple(tree_changes(before, snapshot)))
        before = snapshot
    if not snapshots:
        return None

    def reapplies(pending: Action, committed: Action) -> bool:
        mine = isinstance(pending.name, TableName) and pending.name in transaction.reapplies
        return (
            mine
            and committed.name == pending.name
            and committed.type not in (ActionType.TABLE_DROP, ActionType.TABLE_RENAME)
        )

    settled = settle(transaction.actions, commits, transaction.isolation, reapplies)
    if isinstance(settled, Clash):
        _raise_conflict(settled, snapshots[settled.index])
    transaction.rebase(snapshots[-1], settled)
    return None


def newer_versions(base: Snapshot) -> Iterator[Snapshot]:
    """The versions after one, in order, their roots read in parallel."""
    store, width = base.store, base.file.width
    if not store.exists(root_path(base.version + 1, width)):
        return
    last = last_version(store, base.version + 1, width)
    versions = range(base.version + 1, last + 1)
    paths = [root_path(version, width) for version in versions]
    for version, (_path, data) in zip(versions, store.read_many(paths), strict=True):
        if isinstance(data, PathMissing):
            raise TransactionExpired(
                f"version {version}, which followed the transaction's beginning, has been expired"
            ) from None
        if isinstance(data, Exception):
            raise data
        yield Snapshot(store, RootFile(version, width, data), base.reader)


class FileWriter:
    """Writes what a root needs, and remembers it, so that a second attempt writes only what has changed."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._paths: dict[tuple[Kind, bytes] | Node, str] = {}
        self._written: set[str] = set()
        self._first_at: int | None = None

    def root(self, draft: Draft, actions: Sequence[Action]) -> bytes:
        """Write definitions and nodes; the bytes of the root that refers to them."""
        while True:
            root, files = self._plan(draft)
            self._write(files)
            # files that no root refers to yet are protected from expire by their age alone
            if self._first_at is None or self._clock.elapsed_millis() - self._first_at <= HALF_AN_HOUR_MILLIS:
                rows = [encode_action(action, draft.tree.keys) for action in actions]
                return encode_root(root, rows)
            self._paths, self._written, self._first_at = {}, set(), None

    def _plan(self, draft: Draft) -> tuple[Root, dict[str, bytes]]:
        base, tree = draft.base, draft.tree
        now = max(self._clock.now_millis(), base.created_at_millis)
        files: dict[str, bytes] = {}
        changes: dict[str, str | None] = {}
        for name, staged in draft.staged.items():
            path = self._definition(name.kind, name, staged, files) if isinstance(staged, bytes) else staged
            changes[tree.keys.encode(name)] = path
        node = edit(tree.reader, tree.root.node, changes, tree.sizes.order)
        children = tuple(child if isinstance(child, str) else self._node(child, now, files) for child in node.children)
        catalog_def = tree.root.catalog_def
        if draft.staged_catalog is not None:
            catalog_def = self._definition(Kind.CATALOG, None, draft.staged_catalog, files)
        root = Root(
            node=replace(node, children=children),
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
            files[path] = definitions.encode(content, path)
        return path

    def _node(self, node: Node, now: int, files: dict[str, bytes]) -> str:
        children = tuple(child if isinstance(child, str) else self._node(child, now, files) for child in node.children)
        placed = Node(node.keys, node.values, children)
        path = self._paths.get(placed)
        if path is None:
            path = self._paths[placed] = new_node_path()
        if path not in self._written:
            files[path] = encode_node(placed, now)
        return path

    def _write(self, files: dict[str, bytes]) -> None:
        if not files:
            return
        if self._first_at is None:
            self._first_at = self._clock.elapsed_millis()
        try:
            self._store.create_many(files)
        except (OutcomeUnknown, PathTaken) as error:
            # whatever became of these files, no root names them
            raise StorageFailed(f"{error.message}; nothing was committed") from error
        self._written.update(files)


def check_writable(snapshot: Snapshot) -> None:
    """Raise Unsupported for a catalog that this program reads but must not write."""
    if snapshot.file.java:
        raise Unsupported(
            f"{snapshot.store.uri} was written by the Java SDK and is read only: "
            "that program would take our action rows for objects",
            hint="bring it into a catalog of this format with: import olympia",
        )
    if snapshot.version >= MAX_VERSION:
        raise Unsupported(
            f"{snapshot.store.uri} is at the last version that the format can name",
            hint="export it into a new catalog",
        )


def _create_root(store: Store, path: str, data: bytes) -> bool:
    """Whether our root stands at the path; False when another one does."""
    try:
        store.create(path, data)
        return True
    except PathTaken:
        return False
    except OutcomeUnknown as unknown:
        try:
            return store.read(path) == data
        except OlympiaError:
            raise CommitUnknown(
                f"it is not known whether {path} was written: {unknown.message}",
                hint="read the log once the store answers again, before doing the same change again",
            ) from unknown


def _committed_actions(transaction: Transaction, author: Author) -> list[Action]:
    """The actions as the root stores them: reads only where they decide about conflicts, and who committed."""
    serializable = transaction.isolation == IsolationLevel.SERIALIZABLE
    actions = [action for action in transaction.actions if serializable or action.type not in READS]
    info = CommitInfoDef(
        transaction_id=transaction.id,
        by=author.by,
        program=author.program,
        program_version=author.program_version,
        message=author.message,
        began_at_version=transaction.began_at_version,
    )
    return [*actions, Action(ActionType.COMMIT_INFO, None, b"", info.SerializeToString())]


def _check_size(transaction: Transaction, atomic: bool) -> None:
    text = transaction.base.definition.properties.get(MAX_ACTIONS_PROPERTY, "")
    most = int(text) if text.isascii() and text.isdigit() else MAX_ACTIONS
    if len(transaction.actions) > most and not atomic:
        raise TransactionTooLarge(
            f"the transaction has {len(transaction.actions):,} actions, and a commit holds at most {most:,}"
        )


def _check_alive(transaction: Transaction) -> None:
    if transaction.late_by_millis() > 0:
        raise TransactionExpired(f"the transaction {transaction.id} is past its lifetime")


def _raise_conflict(clash: Clash, snapshot: Snapshot) -> NoReturn:
    info = commit_info(snapshot.actions())
    by = f" by {info.by}" if info is not None and info.by else ""
    mine = f"{clash.pending.type_name} {clash.pending.name or 'the catalog'}"
    theirs = f"{clash.committed.type_name} {clash.committed.name or 'the catalog'}"
    raise CommitConflict(f"{mine} conflicts with {theirs} in version {snapshot.version}{by}")


def _close(transaction: Transaction, done: Committed) -> Committed:
    transaction.open = False
    return done
