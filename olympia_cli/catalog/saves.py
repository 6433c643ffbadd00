"""The saves of distributed transactions: files, each created exclusively, of which the last tells how one stands.

It does so by its running root: a node file while the transaction is open, the root of a version once it is committed,
nothing once it is aborted. The file without a number is a copy of the last save, and decides nothing beside saves.
Alone it is the transaction.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import written_by_java
from olympia_cli.errors import (
    Damaged,
    PathMissing,
    PathOutside,
    PathTaken,
    Refused,
    SavedElsewhere,
    StoreError,
    TransactionNotFound,
    quoted,
)
from olympia_cli.format import definitions
from olympia_cli.format.paths import (
    JAVA_TRANSACTIONS,
    java_transaction_id,
    parse_root_path,
    parse_transaction_path,
    transaction_path,
    transaction_save_path,
)
from olympia_cli.format.pb.objects_pb2 import DistributedTransactionDef
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
    parsed = parse_id(id)
    listed = list_saves(store, f"dtxn/{parsed}.") if parsed is not None else {}
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
    return _read(store, list_saves(store, "dtxn/"))


def list_saves(store: Store, prefix: str) -> dict[str, dict[int, FileInfo]]:
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


def read_other(store: Store, unreadable: UnreadableSave) -> DistributedTransactionDef | None:
    """Any other save, or the copy of one: they all tell the same beginning and end."""
    files = list_saves(store, f"dtxn/{unreadable.id}.").get(unreadable.id, {})
    others = [files[save].path for save in sorted(files, reverse=True) if save != unreadable.save]
    for path, data in store.read_many(others):
        with contextlib.suppress(Damaged, PathMissing, PathOutside):
            return _decode(unreadable.id, data, path)
    return None


def store_save(store: Store, definition: DistributedTransactionDef, save: int) -> None:
    """Create a save exclusively, then the hint to it."""
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


def parse_id(text: str) -> str | None:
    """The id as files have it; None when it is none."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
