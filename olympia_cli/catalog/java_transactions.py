"""Distributed transactions of the Java SDK, which are read but never continued.

The Java SDK rewrites one file per transaction. The beginning that this file names is the running root itself. The
predecessor of the running root is the version that the transaction began at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from olympia_cli.catalog.distributed import Saved, UnreadableSave
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, TransactionNotFound, quoted
from olympia_cli.format import definitions
from olympia_cli.format.codec import decode_root
from olympia_cli.format.paths import JAVA_TRANSACTIONS, JAVA_WIDTH, check_pointer, java_transaction_id, parse_root_path
from olympia_cli.format.pb.objects_pb2 import DistributedTransactionDef
from olympia_cli.storage.protocol import FileInfo, ReadMany, Store


@dataclass(frozen=True, slots=True)
class JavaSave:
    """The content of a transaction's file."""

    id: str
    file: FileInfo
    definition: DistributedTransactionDef


@dataclass(frozen=True, slots=True)
class JavaSaved(Saved):
    """A readable transaction: `file` is its path, `data` its running root."""

    file: str
    data: bytes

    @property
    def path(self) -> str:
        return self.file

    def staged(self, store: Store) -> Snapshot:
        """Return the catalog with the transaction's changes, as a snapshot of the version that it began at."""
        return Snapshot(store, RootFile.of(self.began_at_version, JAVA_WIDTH, self.data))


def java_saves(store: Store, read_many: ReadMany) -> Iterator[JavaSave | UnreadableSave]:
    """Yield the content of every transaction's file in the order of ids, without hiding the others after a damaged one.

    `read_many` is used instead of the store's.
    """
    listed = {id: file for file in store.list(JAVA_TRANSACTIONS) if (id := java_transaction_id(file.path)) is not None}
    ids = sorted(listed)
    for id, (path, data) in zip(ids, read_many(listed[id].path for id in ids), strict=True):
        try:
            definition = _decode(id, data, path)
        except (Damaged, PathMissing, PathOutside) as error:
            yield _unreadable(id, listed[id], error)
        else:
            yield JavaSave(id, listed[id], definition)


def saved_by_java(store: Store) -> Iterator[JavaSaved | UnreadableSave]:
    """Yield every transaction with its running root, in the order of ids."""
    for save in java_saves(store, store.read_many):
        if isinstance(save, UnreadableSave):
            yield save
            continue
        try:
            yield _with_root(store, save)
        except (Damaged, PathMissing, PathOutside) as error:
            yield _unreadable(save.id, save.file, error)


def find_saved_by_java(store: Store, id: str) -> JavaSaved:
    """Return the transaction with this id. Raise Damaged if it cannot be read."""
    for saved in saved_by_java(store):
        if saved.id == id and isinstance(saved, UnreadableSave):
            raise Damaged("F501", saved.path, saved.reason, hint="")
        if saved.id == id and isinstance(saved, JavaSaved):
            return saved
    raise TransactionNotFound(
        f"there is no transaction {quoted(id)}", hint="list the transactions", command=("txn", "ls")
    )


def _decode(id: str, data: bytes | OlympiaError, path: str) -> DistributedTransactionDef:
    if not isinstance(data, bytes):
        raise data
    definition = definitions.decode(DistributedTransactionDef, data, path)
    if definition.id != id:
        raise Damaged("F501", path, f"it is of the transaction {definition.id[:60]!a}")
    return definition


def _unreadable(id: str, file: FileInfo, error: Damaged | PathMissing | PathOutside) -> UnreadableSave:
    reason = error.reason if isinstance(error, Damaged) else error.message
    return UnreadableSave(id, 0, file.path, reason, file.modified_at_millis)


def _with_root(store: Store, save: JavaSave) -> JavaSaved:
    definition, path = save.definition, save.file.path
    running = check_pointer(definition.running_root_node_file_path, path)
    data = store.read(running)
    began = decode_root(data, running, java=True).previous_root
    if began is None or parse_root_path(began) is None:
        raise Damaged("F501", running, "it does not name the version that the transaction began at")
    definition.beginning_root_node_file_path = began
    return JavaSaved(save.id, 0, definition, path, data)
