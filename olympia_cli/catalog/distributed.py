"""Distributed transactions: begun in one process, continued in others, committed by one of them.

Each save is a separate file, created exclusively, so that two processes cannot unknowingly continue from the same save.
The module `saves` reads and writes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.commit import Author, Committed, commit, rebase
from olympia_cli.catalog.file_writer import HALF_AN_HOUR_MILLIS, FileWriter
from olympia_cli.catalog.references import check_not_lost
from olympia_cli.catalog.saves import Saved, State, UnreadableSave, find, list_saves, parse_id, store_save
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import RootFile, read_latest, read_root
from olympia_cli.errors import (
    Damaged,
    InvalidOption,
    OlympiaError,
    PathMissing,
    SavedElsewhere,
    TransactionClosed,
    TransactionExists,
    TransactionExpired,
    VersionNotFound,
)
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.node_file import decode_action_rows
from olympia_cli.format.paths import check_pointer, new_node_path, root_path
from olympia_cli.format.pb.objects_pb2 import DistributedTransactionDef, IsolationLevel
from olympia_cli.storage.protocol import Store


class DistributedTransaction:
    """An open distributed transaction in this process.

    Changes go to `transaction`. `save` publishes them to other processes.
    """

    def __init__(self, transaction: Transaction, save: int) -> None:
        self.transaction = transaction
        self._save = save
        self._last: DistributedTransactionDef | None = None
        self._files = FileWriter(transaction.base.store, transaction.clock)
        self._saved_statements = transaction.statements

    @property
    def id(self) -> str:
        return self.transaction.id

    @property
    def save_number(self) -> int:
        """The number of the latest save known to this process."""
        return self._save

    @property
    def saved(self) -> Saved:
        """The transaction as this process last saved it."""
        assert self._last is not None, "it was loaded, and not saved since"
        return Saved(self.id, self._save, self._last)

    @contextmanager
    def statements(self) -> Iterator[Transaction]:
        """Group changes so that all of them are saved, or none.

        If one fails, the group's reads are saved, because they decide about conflicts under SERIALIZABLE.
        """
        transaction = self.transaction
        before, known = transaction.mark(), len(transaction.actions)
        try:
            yield transaction
        except Exception:
            transaction.go_back(before, keep_reads=True)
            if len(transaction.actions) > known:
                self.save()
            raise

    def save(self) -> None:
        """Store the staged changes as the next save, in this order:

        1. Definitions and nodes.
        2. The running root, a node file.
        3. The save, created exclusively.
        4. The pointer to it.
        """
        transaction = self.transaction
        transaction.check_open()
        while True:
            began = transaction.clock.elapsed_millis()
            data = self._files.root(transaction.draft, transaction.actions, transaction.check_alive)
            running = new_node_path()
            transaction.base.store.create(running, data)
            self._write(running)
            # only their age protects the files from expire until the save exists, so repeat if that took too long
            if transaction.clock.elapsed_millis() - began <= HALF_AN_HOUR_MILLIS:
                return

    def write_files(self) -> None:
        """Write definitions and nodes before the save that refers to them."""
        transaction = self.transaction
        self._files.root(transaction.draft, transaction.actions, transaction.check_alive)

    def commit(
        self, message: str = "", *, by: str | None = None, retry_for: float = 60.0, atomic: bool = False
    ) -> Committed:
        """Commit the transaction on the newest version:

        1. Search the log for it, in case another process has committed it.
        2. Save it, so that processes with an older save can no longer commit.
        3. Commit.
        4. Record the version in one more save.
        """
        transaction = self.transaction
        author = Author(by=who() if by is None else by, message=message)
        unsaved = transaction.open and transaction.statements != self._saved_statements
        done = self._catch_up()
        if done is None:
            try:
                self.save()
            except SavedElsewhere:
                done = self._catch_up()
                if done is None:
                    raise
        if done is not None and unsaved:
            raise SavedElsewhere(
                f"another process committed the transaction {self.id} as version {done.version}, "
                "without the changes that were not saved here",
                hint="repeat them in a new transaction",
            )
        if done is None:
            done = commit(transaction, author, retry_for=retry_for, atomic=atomic, files=self._files)
        transaction.open = False
        self._close(RootFile(done.version, transaction.base.file.width, b"").path)
        return done

    def abort(self) -> None:
        """Abort the transaction. The next expire deletes its files."""
        self.transaction.check_open()
        self._write("")
        self.transaction.open = False

    def _catch_up(self) -> Committed | None:
        """Move to the newest version. Return the version that holds the transaction if it was already committed."""
        transaction = self.transaction
        store = transaction.base.store
        file = read_latest(store)
        check_not_lost(Snapshot(store, file, transaction.base))
        latest = file.version
        if latest > transaction.base.version and not store.exists(root_path(transaction.base.version + 1)):
            raise TransactionExpired(f"the versions since {transaction.base.version} have been expired")
        return rebase(transaction)

    def _close(self, running: str) -> None:
        """Record the end. Errors are ignored, because the version log decides."""
        with contextlib.suppress(OlympiaError):
            self._write(running)

    def _write(self, running: str) -> None:
        transaction = self.transaction
        store = transaction.base.store
        definition = DistributedTransactionDef(
            id=self.id,
            isolation_level=transaction.isolation,
            # the rebase has resolved all conflicts before its new base
            beginning_root_node_file_path=transaction.base.file.path,
            running_root_node_file_path=running,
            began_at_millis=transaction.began_at_millis,
            expire_at_millis=transaction.expires_at_millis,
        )
        store_save(store, definition, self._save + 1)
        self._save, self._last = self._save + 1, definition
        self._saved_statements = transaction.statements


def begin(catalog: Catalog, isolation: IsolationLevel | None = None, id: str | None = None) -> DistributedTransaction:
    """Begin a distributed transaction on the latest version, and save it, so that other processes can load it."""
    if id is not None:
        id = parse_id(id)
        if id is None:
            raise InvalidOption("that is not a transaction id", hint="a transaction id is a uuid")
        # leftovers of an earlier transaction would count as later saves of this one
        if list_saves(catalog.store, f"dtxn/{id}."):
            raise TransactionExists(f"there is a transaction {id} already")
    distributed = DistributedTransaction(catalog.begin_as(isolation, id), -1)
    distributed.save()
    return distributed


def load(catalog: Catalog, id: str) -> DistributedTransaction:
    """Continue a transaction that another process saved."""
    saved = find(catalog.store, id)
    id = saved.id
    state = saved.state(catalog.clock)
    if state is State.EXPIRED:
        raise TransactionExpired(f"the transaction {id} is past its lifetime")
    if state is not State.OPEN:
        raise TransactionClosed(f"the transaction {id} is {state.value} already")
    definition, store = saved.definition, catalog.store
    try:
        base = Snapshot(store, read_root(store, saved.began_at_version))
    except VersionNotFound:
        raise TransactionExpired(
            f"version {saved.began_at_version}, where the transaction {id} began, has been expired"
        ) from None
    transaction = Transaction(
        base,
        catalog.clock,
        isolation=definition.isolation_level,
        id=id,
        began_at_millis=definition.began_at_millis,
        expires_at_millis=definition.expire_at_millis,
    )
    transaction.take_actions(_staged_actions(store, saved))
    return DistributedTransaction(transaction, saved.save)


def _staged_actions(store: Store, saved: Saved) -> list[Action]:
    """Return the actions in the running root. Raise Damaged, with the code that fsck uses, if it cannot be read."""
    running = saved.definition.running_root_node_file_path
    try:
        rows = decode_action_rows(store.read(check_pointer(running, saved.path)), running)
        return [decode_action(key, value, running) for key, value in rows]
    except PathMissing:
        path, reason = running, "it is missing"
    except Damaged as error:
        path, reason = error.path, error.reason
    reason = f"{reason}; the transaction {saved.id} needs it"
    hint = "its staged changes are lost; abort it"
    raise Damaged("F502", path, reason, hint=hint, command=("txn", "abort", saved.id))


def abort(catalog: Catalog, found: Saved | UnreadableSave) -> None:
    """Abort a transaction by its latest save alone, even if its staged files or the save itself are damaged.

    A commit under way in another process is not stopped: the version log decides.
    """
    state = found.state(catalog.clock)
    if state in (State.COMMITTED, State.ABORTED):
        raise TransactionClosed(f"the transaction {found.id} is {state.value} already")
    known = found.definition if isinstance(found, Saved) else found.known
    if known is None:
        # new lifetime, as if begun now: processes with an older save find this one for as long as they may live
        DistributedTransaction(catalog.begin_as(None, found.id), found.save).abort()
        return
    closing = DistributedTransactionDef()
    closing.CopyFrom(known)
    closing.running_root_node_file_path = ""
    store_save(catalog.store, closing, found.save + 1)
