"""Distributed transactions: begun in one process, gone on with in others, committed by one of them.

Each save is a file of its own, created exclusively, so that two processes never go on from the same save
unknowingly. The last save tells how the transaction stands by its running root: a node file while it is open, the
root of a version once it is committed, nothing once it is aborted.

The file without a number is a copy of the last save, and decides nothing beside saves. Alone it is the transaction.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import Author, Committed, commit, rebase, written_by_java
from olympia_cli.catalog.file_writer import HALF_AN_HOUR_MILLIS, FileWriter
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import RootFile, read_latest, read_root
from olympia_cli.errors import (
    Damaged,
    InvalidOption,
    OlympiaError,
    PathMissing,
    PathOutside,
    PathTaken,
    Refused,
    SavedElsewhere,
    StoreError,
    TransactionClosed,
    TransactionExists,
    TransactionExpired,
    TransactionNotFound,
    VersionNotFound,
    quoted,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import decode_action
from olympia_cli.format.node_file import decode_action_rows
from olympia_cli.format.paths import (
    JAVA_TRANSACTIONS,
    check_pointer,
    java_transaction_id,
    new_node_path,
    parse_root_path,
    parse_transaction_path,
    root_path,
    transaction_path,
    transaction_save_path,
)
from olympia_cli.format.pb.objects_pb2 import DistributedTransactionDef, IsolationLevel
from olympia_cli.storage.protocol import FileInfo, Store

NO_SAVE = -1
"""In place of a save's number: there is only the file without one, and the next save is the first."""


class State(Enum):
    OPEN = "open"
    EXPIRED = "expired"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Saved:
    """A distributed transaction as its latest save has it."""

    id: str
    save: int
    definition: DistributedTransactionDef

    @property
    def path(self) -> str:
        return transaction_path(self.id) if self.save == NO_SAVE else transaction_save_path(self.id, self.save)

    @property
    def began_at_version(self) -> int:
        version = parse_root_path(self.definition.beginning_root_node_file_path)
        if version is None:
            raise Damaged("F501", self.path, "it does not name the version that it began at")
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


@dataclass(frozen=True, slots=True)
class UnreadableSave:
    """A distributed transaction whose latest save is damaged, so that nobody knows how it stands."""

    id: str
    save: int
    path: str
    reason: str
    modified_at_millis: int

    def state(self, clock: Clock) -> State:
        return State.UNREADABLE


class DistributedTransaction:
    """An open distributed transaction in this process.

    Its statements go to `transaction`; `save` shows them to other processes.
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
        """The number of the latest save that this process knows."""
        return self._save

    @property
    def saved(self) -> Saved:
        """The transaction as others see it since this process saved it."""
        assert self._last is not None, "it was loaded, and not saved since"
        return Saved(self.id, self._save, self._last)

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

    def write_files(self) -> None:
        """Write definitions and nodes ahead of the save that will lead to them."""
        transaction = self.transaction
        self._files.root(transaction.draft, transaction.actions, transaction.check_alive)

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
        _store_save(store, definition, self._save + 1)
        self._save, self._last = self._save + 1, definition
        self._saved_statements = transaction.statements


def begin(catalog: Catalog, isolation: IsolationLevel | None = None, id: str | None = None) -> DistributedTransaction:
    """Begin a distributed transaction on the latest version, and save it so that others can load it."""
    if id is not None:
        id = _parse_id(id)
        if id is None:
            raise InvalidOption("that is not a transaction id", hint="a transaction id is a uuid")
        # what is left of an ended one would be taken for later saves of the new one
        if _list(catalog.store, f"dtxn/{id}."):
            raise TransactionExists(f"there is a transaction {id} already")
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
    running = check_pointer(definition.running_root_node_file_path, saved.path)
    try:
        data = store.read(running)
    except PathMissing:
        reason = f"the running root of the transaction {id} is missing"
        raise Damaged(
            "F502", running, reason, hint="what it staged is lost, so give it up", command=("txn", "abort", id)
        ) from None
    rows = decode_action_rows(data, running)
    transaction.take_actions([decode_action(key, value, running) for key, value in rows])
    return DistributedTransaction(transaction, saved.save)


def abort(catalog: Catalog, found: Saved | UnreadableSave) -> None:
    """Give a transaction up by its latest save alone: what it staged may be lost, and the save itself damaged.

    A commit that is under way in another process is not stopped: the version log decides.
    """
    state = found.state(catalog.clock)
    if state in (State.COMMITTED, State.ABORTED):
        raise TransactionClosed(f"the transaction {found.id} is {state.value} already")
    known = found.definition if isinstance(found, Saved) else _read_other(catalog.store, found)
    if known is None:
        # as if it began just now: whoever holds an older save finds this one for as long as it may live
        DistributedTransaction(catalog.begin_as(None, found.id), found.save).abort()
        return
    closing = DistributedTransactionDef()
    closing.CopyFrom(known)
    closing.running_root_node_file_path = ""
    _store_save(catalog.store, closing, found.save + 1)


def find(store: Store, id: str) -> Saved:
    """The latest save of a transaction, whatever its state; Damaged when it cannot be read."""
    found = look(store, id)
    if isinstance(found, UnreadableSave):
        raise Damaged(
            "F501",
            found.path,
            found.reason,
            hint="if it cannot be restored, give it up",
            command=("txn", "abort", found.id),
        )
    return found


def look(store: Store, id: str) -> Saved | UnreadableSave:
    """The latest save of a transaction, whether it can be read or not."""
    parsed = _parse_id(id)
    listed = _list(store, f"dtxn/{parsed}.") if parsed is not None else {}
    found = next(_read(store, listed), None)
    if found is None and any(java_transaction_id(file.path) == id for file in store.list(JAVA_TRANSACTIONS)):
        raise written_by_java(store.uri)
    if found is None:
        raise TransactionNotFound(
            f"there is no transaction {quoted(id)}", hint="see which transactions there are", command=("txn", "ls")
        )
    return found


def saved_transactions(store: Store) -> Iterator[Saved | UnreadableSave]:
    """The latest save of every transaction, in the order of their ids. One that is damaged does not hide the others."""
    return _read(store, _list(store, "dtxn/"))


def _list(store: Store, prefix: str) -> dict[str, dict[int, FileInfo]]:
    """The files of each transaction by the number of the save."""
    listed: dict[str, dict[int, FileInfo]] = {}
    for file in store.list(prefix):
        parsed = parse_transaction_path(file.path)
        if parsed is not None:
            listed.setdefault(parsed[0], {})[NO_SAVE if parsed[1] is None else parsed[1]] = file
    return listed


def _read(store: Store, listed: dict[str, dict[int, FileInfo]]) -> Iterator[Saved | UnreadableSave]:
    ids = sorted(listed)
    latest = [listed[id][max(listed[id])].path for id in ids]
    for id, (path, data) in zip(ids, store.read_many(latest), strict=True):
        files, save = listed[id], max(listed[id])
        definition, reason = None, ""
        try:
            definition = _decode(id, data, path)
        except PathMissing:
            continue  # an expire deleted it since the listing
        except (Damaged, PathOutside) as error:
            reason = error.reason if isinstance(error, Damaged) else error.message
            definition = _read_copy(store, id, files)
        if definition is not None:
            yield Saved(id, save, definition)
        else:
            yield UnreadableSave(id, save, path, reason, files[save].modified_at_millis)


def _decode(id: str, data: bytes | StoreError, path: str) -> DistributedTransactionDef:
    if not isinstance(data, bytes):
        raise data
    definition = definitions.decode(DistributedTransactionDef, data, path)
    if definition.id != id:
        raise Damaged("F501", path, f"it is of the transaction {definition.id[:60]!a}")
    if parse_root_path(definition.beginning_root_node_file_path) is None:
        raise Damaged("F501", path, "it does not name the version that it began at")
    if not definition.expire_at_millis:
        # the last field: a file that is cut between two fields can still be parsed
        raise Damaged("F501", path, "it does not say when it expires")
    return definition


def _read_copy(store: Store, id: str, files: dict[int, FileInfo]) -> DistributedTransactionDef | None:
    """The latest save as the file without a number has it; None when that may be the copy of an earlier one."""
    before = range(NO_SAVE, max(files))
    if not before or len(files) != len(before) + 1:
        return None
    try:
        found = store.read_many(files[save].path for save in before)
        copy, *earlier = (_decode(id, data, path) for path, data in found)
    except (Damaged, PathMissing, PathOutside):
        return None
    content = definitions.body(copy)
    return None if any(definitions.body(one) == content for one in earlier) else copy


def _read_other(store: Store, unreadable: UnreadableSave) -> DistributedTransactionDef | None:
    """Any other save, or the copy of one: they all tell the same beginning and end."""
    files = _list(store, f"dtxn/{unreadable.id}.").get(unreadable.id, {})
    others = [files[save].path for save in sorted(files, reverse=True) if save != unreadable.save]
    for path, data in store.read_many(others):
        with contextlib.suppress(Damaged, PathMissing, PathOutside):
            return _decode(unreadable.id, data, path)
    return None


def _store_save(store: Store, definition: DistributedTransactionDef, save: int) -> None:
    content = definitions.body(definition)
    path = transaction_save_path(definition.id, save)
    if parse_transaction_path(path) is None:
        raise Refused(
            f"after save {save - 1} of the transaction {definition.id} there is no number for another one",
            hint=f"no program saves that often: look who wrote {transaction_save_path(definition.id, save - 1)}",
        )
    try:
        store.create(path, definitions.encode(content, path))
    except PathTaken:
        raise SavedElsewhere(f"another process saved the transaction {definition.id} in the meantime") from None
    hint = transaction_path(definition.id)
    store.write_hint(hint, definitions.encode(content, hint))


def _parse_id(text: str) -> str | None:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
