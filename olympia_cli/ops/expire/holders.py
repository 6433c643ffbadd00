"""Users of files besides the kept versions: live distributed transactions, and exports that share files."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.distributed import Saved, UnreadableSave
from olympia_cli.catalog.retained import ExportRecord, read_exports
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, OlympiaError, command_words
from olympia_cli.format.paths import MAX_VERSION, check_pointer
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store
from olympia_cli.uuids import new_uuid


@dataclass(frozen=True, slots=True)
class PinnedRoot:
    """A copy of a root that a transaction or an export needs with all files below it, and the advice if they are
    damaged.
    """

    path: str
    who: str
    hint: str
    command: tuple[str, ...]
    code: str
    """fsck's code for damage of these files."""

    def needs(self, error: Damaged) -> Damaged:
        """Return the error for a damaged file that this root needs."""
        reason = f"{error.reason}; {self.who} needs it"
        return Damaged(self.code, error.path, reason, hint=self.hint, command=self.command)


class Holders:
    """The live transactions and sharing exports of a version. `existing` holds versions that certainly exist."""

    def __init__(self, head: Snapshot, now_millis: int, existing: Container[int] = ()) -> None:
        self._head = head
        self._existing = existing
        self._now = now_millis
        alive = list(self._live_transactions())
        self._open = [saved for saved in alive if saved.is_running]
        # keep the last save of an aborted transaction: it stops a process that still has an older save
        self.live_ids = {saved.id for saved in alive}
        self._exports = list(self._sharing_exports())

    @property
    def transactions_from(self) -> int:
        """The oldest version that a live transaction began at."""
        return min((saved.began_at_version for saved in self._open), default=MAX_VERSION)

    @property
    def exports_from(self) -> int:
        """The oldest version of a sharing export that another program recorded without a pin. The version itself is
        kept instead.
        """
        return min((export.version for export in self._exports if export.pin is None), default=MAX_VERSION)

    def pins(self) -> Iterator[PinnedRoot]:
        for saved in self._open:
            hint, words = "if it can no longer be committed, abort it", ("txn", "abort", saved.id)
            if self._now <= saved.ends_at_millis and (reason := saved.lost_beginning(self._head.store, self._existing)):
                raise Damaged("F502", saved.path, reason, hint=hint, command=words)
            path = saved.definition.running_root_node_file_path
            yield _pinned(saved.path, PinnedRoot(path, f"the transaction {saved.id}", hint, words, "F502"))
        for export in self._exports:
            if export.pin is not None:
                drop = command_words("export", "drop", names=[export.name])
                pin = PinnedRoot(export.pin, f"the export {export.name!a}", "drop it if it is unused", drop, "F503")
                yield _pinned(self._head.file.path, pin)

    def _live_transactions(self) -> Iterator[Saved]:
        """Yield the distributed transactions within their lifetime, whatever their state."""
        for saved in distributed.saved_transactions(self._head.store):
            if self._now > saved.ends_at_millis + HALF_AN_HOUR_MILLIS:
                continue
            if isinstance(saved, UnreadableSave):
                raise saved.error(f", so the files that the transaction {saved.id} needs are unknown")
            yield saved

    def _sharing_exports(self) -> Iterator[ExportRecord]:
        for name, export in read_exports(self._head.definition).items():
            if isinstance(export, str):
                raise Damaged(
                    "F504",
                    self._head.file.path,
                    f"the record of the export {name!a} {export}, so the files that it needs are unknown",
                    hint="drop it",
                    command=command_words("export", "drop", names=[name]),
                )
            if export.shares_files and not export.expired(self._now - HALF_AN_HOUR_MILLIS):
                yield export


def live_transactions(catalog: Catalog) -> set[str]:
    """Return the ids of the distributed transactions that are within their lifetime now."""
    store_now = store_now_millis(catalog.store)
    return Holders(catalog.snapshot(), min(catalog.clock.now_millis(), store_now)).live_ids


def _pinned(holder: str, pin: PinnedRoot) -> PinnedRoot:
    """Return the pin that the file `holder` names. Raise Damaged if its path is outside the catalog."""
    try:
        check_pointer(pin.path, holder)
    except Damaged as error:
        raise pin.needs(error) from None
    return pin


def store_now_millis(store: Store) -> int:
    """Return the time by the store's clock, which sets the ages of files: create a file, and read its time."""
    path = f"{TEMPORARY_PREFIX}{new_uuid()}"
    try:
        store.create(path, b"")
        return store.stat(path).modified_at_millis
    finally:
        # a file that is left behind is deleted like any temporary file
        with suppress(OlympiaError):
            store.delete_many([path])
