"""Distributed transactions: begun in one process, continued in others, committed by one of them. Each process saves the
state in a new file; the last save counts.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum

from olympia_cli.catalog.catalog import Catalog, who
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import (
    HALF_AN_HOUR_MILLIS,
    Author,
    Committed,
    FileWriter,
    commit,
    rebase,
    written_by_java,
)
from olympia_cli.catalog.properties import MAX_TTL_MILLIS
from olympia_cli.catalog.references import check_not_lost
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.catalog.versions import read_latest, read_root
from olympia_cli.errors import (
    Damaged,
    InvalidOption,
    OlympiaError,
    PathMissing,
    PathOutside,
    PathTaken,
    Refused,
    SavedElsewhere,
    TransactionClosed,
    TransactionExists,
    TransactionExpired,
    TransactionNotFound,
    VersionNotFound,
    quoted,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.codec import decode_action_rows
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
from olympia_cli.storage.protocol import FileInfo, ReadMany, Store

# The saves of distributed transactions: files, each created exclusively. The last one has the state.
#
# The running root in a save tells the state. It is a node file while the transaction is open, the root of a version
# once it is committed, and empty once it is aborted. The file without a number is a copy of the last save. It counts
# only if there is no other file.

NO_SAVE = -1
"""The number of a save without a number. The save after it is number 0."""


class State(Enum):
    OPEN = "open"
    EXPIRED = "expired"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Saved:
    """A distributed transaction as of its latest save."""

    id: str
    save: int
    definition: DistributedTransactionDef
    flaw: str = field(default="", kw_only=True)
    """The problem with the latest save, if its copy was read instead."""

    @property
    def path(self) -> str:
        return transaction_path(self.id) if self.save == NO_SAVE else transaction_save_path(self.id, self.save)

    @property
    def began_at_version(self) -> int:
        version = parse_root_path(self.definition.beginning_root_node_file_path)
        if version is None:
            raise Damaged("F501", self.path, "it does not name the version that it began at")
        return version

    def lost_beginning(self, store: Store, existing: Container[int]) -> str:
        """Return a message if the version at which the transaction began is gone, so that it cannot be committed.

        `existing` has versions that are known to exist.
        """
        began = self.began_at_version
        # the transaction may have begun at a version that was committed after the listing
        if began in existing or store.exists(self.definition.beginning_root_node_file_path):
            return ""
        return f"the transaction {self.id} began at version {began}, which does not exist"

    @property
    def committed_version(self) -> int | None:
        """The version that holds the transaction, if its commit is recorded."""
        return parse_root_path(self.definition.running_root_node_file_path)

    @property
    def is_running(self) -> bool:
        """True if the transaction is neither committed nor aborted."""
        return bool(self.definition.running_root_node_file_path) and self.committed_version is None

    @property
    def ends_at_millis(self) -> int:
        """The end of the transaction's lifetime."""
        return self.definition.expire_at_millis

    def state(self, clock: Clock) -> State:
        if self.is_running:
            return State.EXPIRED if clock.now_millis() > self.ends_at_millis else State.OPEN
        return State.ABORTED if self.committed_version is None else State.COMMITTED


@dataclass(frozen=True, slots=True)
class UnreadableSave:
    """A distributed transaction whose latest save is damaged, so that its state is unknown.

    `known` is the content of another save or of the copy. All of them have the same beginning and end.
    """

    id: str
    save: int
    path: str
    reason: str
    modified_at_millis: int
    known: DistributedTransactionDef | None = None

    @property
    def ends_at_millis(self) -> int:
        """The end of its lifetime according to another save, or else the latest possible one."""
        return self.modified_at_millis + MAX_TTL_MILLIS if self.known is None else self.known.expire_at_millis

    def state(self, clock: Clock) -> State:
        return State.UNREADABLE

    def error(self, meaning: str = "") -> Damaged:
        """Return the error for callers that need the save. `meaning` is appended to the reason."""
        hint = "if the save cannot be restored, abort the transaction with all its staged changes"
        return Damaged("F501", self.path, self.reason + meaning, hint=hint, command=("txn", "abort", self.id))


def find(store: Store, id: str) -> Saved:
    """Return the latest save of a transaction in any state. Raise Damaged if it cannot be read."""
    saved = look(store, id)
    if isinstance(saved, UnreadableSave):
        raise saved.error()
    return saved


def look(store: Store, id: str) -> Saved | UnreadableSave:
    """Return the latest save of a transaction, readable or not."""
    parsed = parse_id(id)
    listed = list_saves(store, f"dtxn/{parsed}.") if parsed is not None else {}
    saved = next(_read(store.read_many, listed), None)
    if saved is None and any(java_transaction_id(file.path) == id for file in store.list(JAVA_TRANSACTIONS)):
        raise written_by_java(store.uri)
    if saved is None:
        raise TransactionNotFound(
            f"there is no transaction {quoted(id)}", hint="list the transactions", command=("txn", "ls")
        )
    return saved


def saved_transactions(store: Store, read_many: ReadMany | None = None) -> Iterator[Saved | UnreadableSave]:
    """Yield the latest save of every transaction in the order of ids, without hiding the others after a damaged one.

    `read_many` replaces the store's, to count reads or to treat failed reads as damage.
    """
    return _read(read_many or store.read_many, list_saves(store, "dtxn/"))


def committed_runs(store: Store, read_many: ReadMany) -> dict[str, int | None]:
    """Return the running roots in all readable saves of committed transactions. The last one of each transaction, which
    was committed, maps to the version that it became; the others map to None."""
    listed = list_saves(store, "dtxn/")
    versions: dict[str, int] = {}
    for saved in _read(read_many, listed):
        if isinstance(saved, Saved) and saved.committed_version is not None:
            versions[saved.id] = saved.committed_version
    owners = {files[save].path: id for id, files in listed.items() if id in versions for save in sorted(files)}
    runs: dict[str, int | None] = {}
    last: dict[str, str] = {}
    for path, data in read_many(owners):
        with contextlib.suppress(Damaged, PathMissing, PathOutside):
            run = _decode(owners[path], data, path).running_root_node_file_path
            runs[run] = None
            if parse_root_path(run) is None:
                last[owners[path]] = run
    return runs | {run: versions[id] for id, run in last.items()}


def list_saves(store: Store, prefix: str) -> dict[str, dict[int, FileInfo]]:
    """Return the files of each transaction by save number."""
    listed: dict[str, dict[int, FileInfo]] = {}
    for file in store.list(prefix):
        parsed = parse_transaction_path(file.path)
        if parsed is not None:
            listed.setdefault(parsed[0], {})[NO_SAVE if parsed[1] is None else parsed[1]] = file
    return listed


def _read(read_many: ReadMany, listed: dict[str, dict[int, FileInfo]]) -> Iterator[Saved | UnreadableSave]:
    ids = sorted(listed)
    latest = [listed[id][max(listed[id])].path for id in ids]
    for id, (path, data) in zip(ids, read_many(latest), strict=True):
        save = max(listed[id])
        try:
            definition = _decode(id, data, path)
        except PathMissing:
            continue  # an expire deleted the save since the listing
        except (Damaged, PathOutside) as error:
            reason = error.reason if isinstance(error, Damaged) else error.message
            unreadable = UnreadableSave(id, save, path, reason, listed[id][save].modified_at_millis)
            yield _read_others(read_many, unreadable, listed[id])
        else:
            yield Saved(id, save, definition)


def _decode(id: str, data: bytes | OlympiaError, path: str) -> DistributedTransactionDef:
    if not isinstance(data, bytes):
        raise data
    definition = definitions.decode(DistributedTransactionDef, data, path)
    if definition.id != id:
        raise Damaged("F501", path, f"it is of the transaction {definition.id[:60]!a}")
    if parse_root_path(definition.beginning_root_node_file_path) is None:
        raise Damaged("F501", path, "it does not name the version that it began at")
    if not definition.expire_at_millis:
        # the last field: a file that is truncated between two fields can still be parsed
        raise Damaged("F501", path, "it does not say when it expires")
    return definition


def _read_others(read_many: ReadMany, unreadable: UnreadableSave, files: dict[int, FileInfo]) -> Saved | UnreadableSave:
    """Return the transaction from the copy of its latest save, or else with the content of another file."""
    id, others = unreadable.id, sorted(files.keys() - {unreadable.save})
    whole: dict[int, DistributedTransactionDef] = {}
    for save, (path, data) in zip(others, read_many(files[save].path for save in others), strict=True):
        with contextlib.suppress(Damaged, PathMissing, PathOutside):
            whole[save] = _decode(id, data, path)
    if _is_copy_of_latest(whole, unreadable.save):
        return Saved(id, unreadable.save, whole[NO_SAVE], flaw=unreadable.reason)
    return replace(unreadable, known=whole[max(whole)] if whole else None)


def _is_copy_of_latest(whole: dict[int, DistributedTransactionDef], latest: int) -> bool:
    """Return True if the file without a number must be a copy of the latest save: it differs from all earlier ones.

    That needs all earlier saves to be sound.
    """
    if not whole or len(whole) != latest - NO_SAVE:
        return False
    bodies = {save: definitions.body(definition) for save, definition in whole.items()}
    return all(bodies[save] != bodies[NO_SAVE] for save in range(latest))


def store_save(store: Store, definition: DistributedTransactionDef, save: int) -> None:
    """Create a save exclusively, then the pointer to it."""
    content = definitions.body(definition)
    path = transaction_save_path(definition.id, save)
    if parse_transaction_path(path) is None:
        raise Refused(
            f"save {save - 1} of the transaction {definition.id} has the last possible number",
            hint=f"no program saves that often: find out what wrote {transaction_save_path(definition.id, save - 1)}",
        )
    try:
        store.create(path, definitions.encode(content, path))
    except PathTaken:
        raise SavedElsewhere(f"another process saved the transaction {definition.id} in the meantime") from None
    hint = transaction_path(definition.id)
    store.write_hint(hint, definitions.encode(content, hint))


def parse_id(text: str) -> str | None:
    """Return the normalized id, or None if it is not a UUID."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


# Distributed transactions: begun in one process, continued in others, committed by one of them.
#
# Each save is a separate file, created exclusively, so that two processes cannot unknowingly continue from the same
# save. The module `saves` reads and writes them.


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
        self._close(root_path(done.version, transaction.base.file.width))
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
