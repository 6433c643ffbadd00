"""Committing: the order of writes, and the loop that tries again when another writer was first."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from olympia_cli import __version__
from olympia_cli.catalog.checks import MAX_ACTIONS
from olympia_cli.catalog.conflicts import Clash, settle
from olympia_cli.catalog.file_writer import HALF_AN_HOUR_MILLIS, FileWriter
from olympia_cli.catalog.references import check_no_gap
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import RootFile, read_hints, write_latest
from olympia_cli.errors import (
    CommitConflict,
    CommitUnknown,
    Damaged,
    OlympiaError,
    PathMissing,
    TransactionTooLarge,
    Unsupported,
)
from olympia_cli.format.action_types import READS
from olympia_cli.format.actions import Action, commit_info
from olympia_cli.format.node_rows import LOST
from olympia_cli.format.paths import MAX_VERSION, OLDEST, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, CommitInfoDef, VersionRange
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.storage.protocol import Store

_NOTE = ActionType.COMMIT_INFO
MIN_ATTEMPTS = 20
"""So often a commit is tried, however long it takes."""
DEFAULT_MAX_ACTIONS = 10_000


@dataclass(frozen=True, slots=True)
class Committed:
    """The version that holds the transaction, and the actions as they stand in it."""

    version: int
    actions: tuple[Action, ...]
    made: Snapshot | None = field(default=None, compare=False, repr=False)
    """That version, where it was just written: none of it need be read."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who commits, with what, and why; for the log."""

    by: str = ""
    message: str = ""
    program: str = "olympia-cli"
    program_version: str = __version__

    def sign(self, transaction_id: str, began_at_version: int = 0, reverts: Iterable[VersionRange] = ()) -> Action:
        """The action with which a commit says whose it is, and which versions it takes back."""
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
    """Commit a transaction, and return the version that it became. Files are written in this order:

    1 definitions and non-root nodes, in parallel, each under a fresh name: nobody sees them yet
    2 root v+1, created exclusively: THE COMMIT
    3 vn/latest, best effort

    When the root is taken, the actions of every version since are asked whether they go together with ours; if they
    do, our actions are done again on the newest version, and we go back to 1 with what is already written.
    `files` has written some of them before.
    """
    clock, store = transaction.clock, transaction.base.store
    transaction.check_open()
    check_writable(transaction.base)
    if not _leaves_anything(transaction):
        return _close(transaction, Committed(transaction.base.version, ()))
    _check_size(transaction, atomic)
    files = files if files is not None else FileWriter(store, clock)
    deadline = clock.elapsed_millis() + retry_for * 1000
    attempt = 0
    while True:
        attempt += 1
        actions = _committed_actions(transaction, author)
        version = transaction.base.version + 1
        data = files.create_root(transaction.draft, actions, transaction.check_alive, root_path(version))
        if data is not None:
            break
        if done := rebase(transaction):
            return _close(transaction, done)
        if not _leaves_anything(transaction):
            # another writer was first with all of it
            return _close(transaction, Committed(transaction.base.version, ()))
        if attempt >= MIN_ATTEMPTS and clock.elapsed_millis() >= deadline:
            raise CommitConflict(
                f"other writers were first {attempt} times in a row, the last time at version {version}",
                hint="nothing was committed; try again, or allow more time",
            )
        clock.sleep(random.uniform(0, min(1.0, 0.002 * 2 ** min(attempt, 10))))
    _check_not_freed(transaction, version)
    write_latest(store, version)
    return _close(transaction, Committed(version, tuple(actions), files.made(transaction.base, version, data)))


def rebase(transaction: Transaction) -> Committed | None:
    """Move the transaction to the newest version, or raise CommitConflict.

    Returns the version that holds the transaction when it turns out to be committed already.
    """
    # only who was second asks
    from olympia_cli.catalog.changes import tree_changes

    newest = before = transaction.base
    commits: list[Sequence[Action]] = []
    for snapshot in newer_versions(transaction.base):
        actions = snapshot.actions()
        info = commit_info(actions)
        if info is not None and info.transaction_id == transaction.id:
            return Committed(snapshot.version, actions)
        # a version of another program says nothing of itself, so what it changed is what it did
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
    """The versions after one, in order: a growing number of roots at a time, until one is missing."""
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
                snapshot = Snapshot(store, RootFile(number, width, data), base)
            except Damaged as error:
                if error.code != LOST:
                    raise
                # a gap was closed behind the version that we hold
                reason = f"version {version - 1} is no longer the latest, and {number} is lost"
                raise CommitConflict(reason, hint="nothing was committed; do it again on the latest version") from error
            if not snapshot.in_place:
                # a copy of an older version: to go on from it would throw away what was committed since
                raise snapshot.out_of_place()
            yield snapshot
        version, window = version + window, min(2 * window, 64)


def check_writable(snapshot: Snapshot) -> None:
    """Raise Unsupported for a catalog that this program reads but must not write, and Damaged where a commit would go
    on from what is no part of history."""
    if snapshot.file.java:
        raise written_by_java(snapshot.store.uri)
    if not snapshot.in_place:
        raise snapshot.out_of_place()
    if snapshot.version >= MAX_VERSION:
        raise Unsupported(
            f"{snapshot.store.uri} is at the last version that the format can name",
            hint="export it into a new catalog",
        )


def written_by_java(uri: str) -> Unsupported:
    """What to say of a catalog whose own program would take our action rows for objects."""
    return Unsupported(
        f"{uri} was written by the Java SDK and is read only",
        hint="make a new catalog (init NEW), and bring this one in",
        command=("-c", "NEW", "import", "olympia", uri),
    )


def _committed_actions(transaction: Transaction, author: Author) -> list[Action]:
    """The actions as the root stores them: those that are done here, reads where they decided, and who committed."""
    serializable = transaction.isolation == IsolationLevel.SERIALIZABLE
    done = [action for action in transaction.actions if not action.merged]
    notes = [action.parse_payload(CommitInfoDef) for action in done if action.type == _NOTE]
    actions = [action for action in done if action.type != _NOTE and (serializable or action.type not in READS)]
    reverts = [versions for note in notes for versions in note.reverts]
    return [*actions, author.sign(transaction.id, transaction.began_at_version, reverts)]


def _check_size(transaction: Transaction, atomic: bool) -> None:
    text = transaction.base.definition.properties.get(MAX_ACTIONS, "")
    most = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else DEFAULT_MAX_ACTIONS
    if len(transaction.actions) > most and not atomic:
        raise TransactionTooLarge(
            f"the transaction has {len(transaction.actions):,} actions, and a commit holds at most {most:,}"
        )


def _check_not_freed(transaction: Transaction, version: int) -> None:
    """Make sure that the root we created is where readers look.

    An expire may have freed its name while we slept, and then nobody will ever see it there. It cannot within the
    transaction's lifetime and half an hour more; where the lifetime was shortened meanwhile, the oldest version tells.
    """
    freed = transaction.late_by_millis() > HALF_AN_HOUR_MILLIS
    if not freed and transaction.age_millis() > HALF_AN_HOUR_MILLIS:
        freed = _is_below_oldest(transaction.base.store, version)
    if freed:
        raise CommitUnknown(
            f"the root of version {version} was written so late that its name may have been freed before",
            hint=f"look whether the log has transaction {transaction.id}; if it has not, do it again",
        )


def _is_below_oldest(store: Store, version: int) -> bool:
    """Whether a version is one of those that an expire took out of history; True when the store does not say."""
    try:
        hints = read_hints(store)
        return OLDEST in hints.unread or (hints.oldest or 0) > version
    except OlympiaError:
        # the root is written, so that nobody may say that the commit failed
        return True


def _raise_conflict(clash: Clash, version: int, actions: Sequence[Action]) -> NoReturn:
    info = commit_info(tuple(actions))
    by = f" by {info.by}" if info is not None and info.by else ""
    mine = f"{clash.pending.type_name} {clash.pending.name or 'the catalog'}"
    theirs = f"{clash.committed.type_name} {clash.committed.name or 'the catalog'}"
    raise CommitConflict(f"{mine} conflicts with {theirs} in version {version}{by}")


def _leaves_anything(transaction: Transaction) -> bool:
    """Whether a version with the transaction would differ from its base."""
    return transaction.has_writes and not transaction.changes_nothing


def _close(transaction: Transaction, done: Committed) -> Committed:
    transaction.open = False
    return done
