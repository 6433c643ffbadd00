"""Distributed transactions: begun in one process, gone on with in others, committed by one of them.

Each save is a file of its own, created exclusively, so that two processes never go on from the same save
unknowingly. The last save tells how the transaction stands by its running root: a node file while it is open, the
root of a version once it is committed, nothing once it is aborted.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS, Author, Committed, FileWriter, commit, rebase
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import RootFile, read_latest, read_root
from olympia_cli.errors import (
    Damaged,
    InvalidOption,
    OlympiaError,
    PathMissing,
    PathTaken,
    SavedElsewhere,
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
    root_path,
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

    @property
    def committed_version(self) -> int | None:
        """The version that holds it, once it is committed and somebody noted it."""
        return parse_root_path(self.definition.running_root_node_file_path)

    def state(self, clock: Clock) -> State:
        running = self.definition.running_root_node_file_path
        if not running:
            return State.ABORTED
        if self.committed_version is not None:
            return State.COMMITTED
        return State.EXPIRED if clock.now_millis() > self.definition.expire_at_millis else State.OPEN


class DistributedTransaction:
    """An open distributed transaction in this process.

    Its statements go to `transaction`; `save` shows them to other processes.
    """

    def __init__(self, transaction: Transaction, save: int) -> None:
        self.transaction = transaction
        self._save = save
        self._files = FileWriter(transaction.base.store, transaction.clock)
        self._saved_statements = transaction.statements

    @property
    def id(self) -> str:
        return self.transaction.id

    def save(self) -> None:
        """Store the staged changes as the next save.

        1 definitions and nodes; 2 the running root, a node file; 3 the save, created exclusively; 4 the hint to it
        """
        transaction = self.transaction
        transaction.check_open()
        while True:
            began = transaction.clock.elapsed_millis()
            data = self._files.root(transaction.draft, transaction.actions, transaction.check_alive)
            running = new_node_path()
            transaction.base.store.create(running, data)
            self._write(running)
            # until the save stood, its files were protected from expire by their age alone
            if transaction.clock.elapsed_millis() - began <= HALF_AN_HOUR_MILLIS:
                return

    def commit(
        self, message: str = "", *, by: str | None = None, retry_for: float = 60.0, atomic: bool = False
    ) -> Committed:
        """Commit it on the newest version.

        1 look for it in the log: what another process committed is done; 2 save it, which claims it: a process that
        holds an older save can no longer commit; 3 commit; 4 note the version in one more save
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
                "without the statements that were not saved here",
                hint="do them again in a new transaction",
            )
        if done is None:
            done = commit(transaction, author, retry_for=retry_for, atomic=atomic, files=self._files)
        transaction.open = False
        self._close(RootFile(done.version, transaction.base.file.width, b"").path)
        return done

    def abort(self) -> None:
        """Give the transaction up; its files go with the next expire."""
        self.transaction.check_open()
        self._write("")
        self.transaction.open = False

    def _catch_up(self) -> Committed | None:
        """Move to the newest version; the version that holds the transaction when it is committed already."""
        transaction = self.transaction
        store = transaction.base.store
        latest = read_latest(store).version
        if latest > transaction.base.version and not store.exists(root_path(transaction.base.version + 1)):
            raise TransactionExpired(f"the versions since {transaction.base.version} have been expired")
        return rebase(transaction)

    def _close(self, running: str) -> None:
        """Note the end. The version log holds the truth, so a failure here changes nothing."""
        with contextlib.suppress(OlympiaError):
            self._write(running)

    def _write(self, running: str) -> None:
        transaction = self.transaction
        store = transaction.base.store
        definition = DistributedTransactionDef(
            id=self.id,
            isolation_level=transaction.isolation,
            # a rebase has settled everything before its new base
            beginning_root_node_file_path=transaction.base.file.path,
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
        self._saved_statements = transaction.statements
        hint = transaction_path(self.id)
        store.write_hint(hint, definitions.encode(content, hint))


def begin(catalog: Catalog, isolation: IsolationLevel | None = None, id: str | None = None) -> DistributedTransaction:
    """Begin a distributed transaction on the latest version, and save it so that others can load it."""
    if id is not None:
        id = _parse_id(id)
        if id is None:
            raise InvalidOption("that is not a transaction id", hint="a transaction id is a uuid")
    distributed = DistributedTransaction(catalog.begin_as(isolation, id), -1)
    distributed.save()
    return distributed


def load(catalog: Catalog, id: str) -> DistributedTransaction:
    """Go on with a transaction that another process saved."""
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
    parsed = _parse_id(id)
    saves = [save for _, save in _saves(store, f"dtxn/{parsed}.")] if parsed is not None else []
    if parsed is None or not saves:
        raise TransactionNotFound(
            f"there is no transaction {id[:60]!a}", hint="list the transactions to see what there is"
        )
    return _read(store, parsed, max(saves))


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


def _parse_id(text: str) -> str | None:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
