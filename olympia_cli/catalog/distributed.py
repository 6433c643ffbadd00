"""Distributed transactions: begun in one process, gone on with in others, committed by one of them.

Each save is a file of its own, created exclusively, so that two processes never go on from the same save
unknowingly. The last save tells how the transaction stands by its running root: a node file while it is open, the
root of a version once it is committed, nothing once it is aborted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import Author, Committed, FileWriter, check_writable, commit
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import RootFile, read_root
from olympia_cli.errors import (
    Damaged,
    InvalidOption,
    OutcomeUnknown,
    PathMissing,
    PathTaken,
    SavedElsewhere,
    StorageFailed,
    TransactionClosed,
    TransactionExpired,
    TransactionNotFound,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import decode_action
from olympia_cli.format.node_file import decode_action_rows
from olympia_cli.format.paths import (
    check_pointer,
    new_node_path,
    parse_root_path,
    parse_transaction_path,
    transaction_path,
    transaction_save_path,
)
from olympia_cli.format.pb.objects_pb2 import DistributedTransactionDef, IsolationLevel
from olympia_cli.storage.protocol import Store


class State(Enum):
    OPEN = "open"
    EXPIRED = "expired"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Saved:
    """A distributed transaction as its latest save has it."""

    id: str
    save: int
    definition: DistributedTransactionDef

    @property
    def began_at_version(self) -> int:
        version = parse_root_path(self.definition.beginning_root_node_file_path)
        if version is None:
            raise Damaged(transaction_save_path(self.id, self.save), "it does not name the version that it began at")
        return version

    def state(self, clock: Clock) -> State:
        running = self.definition.running_root_node_file_path
        if not running:
            return State.ABORTED
        if parse_root_path(running) is not None:
            return State.COMMITTED
        return State.EXPIRED if clock.now_millis() > self.definition.expire_at_millis else State.OPEN


class DistributedTransaction:
    """An open distributed transaction in this process.

    Its statements go to `transaction`; `save` shows them to other processes.
    """

    def __init__(self, transaction: Transaction, save: int) -> None:
        self.transaction = transaction
        self._save = save

    @property
    def id(self) -> str:
        return self.transaction.id

    def save(self) -> None:
        """Store the staged changes as the next save.

        1 definitions and nodes; 2 the running root, a node file; 3 the save, created exclusively; 4 the hint to it
        """
        transaction = self.transaction
        if transaction.late_by_millis() > 0:
            raise TransactionExpired(f"the transaction {self.id} is past its lifetime")
        store = transaction.base.store
        data = FileWriter(store, transaction.clock).root(transaction.draft, transaction.actions)
        running = new_node_path()
        store.create(running, data)
        self._write(running)

    def commit(
        self, message: str = "", *, by: str | None = None, retry_for: float = 60.0, atomic: bool = False
    ) -> Committed:
        """Commit it on the newest version. Done already, by another process, is done: that version is returned."""
        author = Author(by=who() if by is None else by, message=message)
        done = commit(self.transaction, author, retry_for=retry_for, atomic=atomic, rebase_first=True)
        self._close(_root_path_of(done, self.transaction))
        return done

    def abort(self) -> None:
        """Give the transaction up; its files go with the next expire."""
        self.transaction.open = False
        self._write("")

    def _close(self, running: str) -> None:
        """Note the end. The version log holds the truth, so a failure here changes nothing."""
        try:
            self._write(running)
        except (SavedElsewhere, StorageFailed, OutcomeUnknown):
            return

    def _write(self, running: str) -> None:
        transaction = self.transaction
        store = transaction.base.store
        definition = DistributedTransactionDef(
            id=self.id,
            isolation_level=transaction.isolation,
            beginning_root_node_file_path=_beginning(transaction),
            running_root_node_file_path=running,
            began_at_millis=transaction.began_at_millis,
            expire_at_millis=transaction.expires_at_millis,
        )
        content = definitions.body(definition)
        path = transaction_save_path(self.id, self._save + 1)
        try:
            store.create(path, definitions.encode(content, path))
        except PathTaken:
            raise SavedElsewhere(f"another process saved the transaction {self.id} in the meantime") from None
        self._save += 1
        hint = transaction_path(self.id)
        store.write_hint(hint, definitions.encode(content, hint))


def begin(catalog: Catalog, isolation: IsolationLevel | None = None, id: str | None = None) -> DistributedTransaction:
    """Begin a distributed transaction on the latest version, and save it so that others can load it."""
    if id is not None:
        try:
            id = str(uuid.UUID(id))
        except ValueError:
            raise InvalidOption(f"{id[:60]!a} is not a transaction id", hint="a transaction id is a uuid") from None
    base = catalog.snapshot()
    check_writable(base)
    distributed = DistributedTransaction(Transaction(base, catalog.clock, isolation=isolation, id=id), -1)
    distributed.save()
    return distributed


def load(catalog: Catalog, id: str) -> DistributedTransaction:
    """Go on with a transaction that another process saved."""
    saved = find(catalog.store, id)
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
    running = check_pointer(definition.running_root_node_file_path, transaction_save_path(id, saved.save))
    try:
        data = store.read(running)
    except PathMissing:
        raise Damaged(running, f"the running root of the transaction {id} is missing") from None
    rows = decode_action_rows(data, running)
    transaction.take_actions([decode_action(key, value, running) for key, value in rows])
    return DistributedTransaction(transaction, saved.save)


def find(store: Store, id: str) -> Saved:
    """The latest save of a transaction, whatever its state."""
    saves = [save for found, save in _saves(store, f"dtxn/{id}.") if found == id]
    if not saves:
        raise TransactionNotFound(
            f"there is no transaction {id[:60]!a}", hint="list the transactions to see what there is"
        )
    return _read(store, id, max(saves))


def saved_transactions(store: Store) -> Iterator[Saved]:
    """The latest save of every transaction, in the order of their ids."""
    latest: dict[str, int] = {}
    for id, save in _saves(store, "dtxn/"):
        latest[id] = max(save, latest.get(id, save))
    for id in sorted(latest):
        yield _read(store, id, latest[id])


def _saves(store: Store, prefix: str) -> Iterator[tuple[str, int]]:
    for file in store.list(prefix):
        parsed = parse_transaction_path(file.path)
        if parsed is not None and parsed[1] is not None:
            yield parsed[0], parsed[1]


def _read(store: Store, id: str, save: int) -> Saved:
    path = transaction_save_path(id, save)
    return Saved(id, save, definitions.decode(DistributedTransactionDef, store.read(path), path))


def _beginning(transaction: Transaction) -> str:
    # a rebase moves the base, but what the transaction has read and seen began here
    return RootFile(transaction.began_at_version, transaction.base.file.width, b"").path


def _root_path_of(done: Committed, transaction: Transaction) -> str:
    return RootFile(done.version, transaction.base.file.width, b"").path
