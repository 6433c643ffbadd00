"""Who needs files besides the versions that are kept: live distributed transactions, and exports that share files."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass

from olympia_cli.catalog import saves
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.exports import ExportRecord, read_exports
from olympia_cli.catalog.file_writer import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.saves import Saved, UnreadableSave
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, OlympiaError, command_words
from olympia_cli.format.paths import MAX_VERSION, check_pointer
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store
from olympia_cli.uuids import new_uuid


@dataclass(frozen=True, slots=True)
class PinnedRoot:
    """A copy of a root that somebody needs with all that it reaches, and what to do when that is no longer whole."""

    path: str
    who: str
    hint: str
    command: tuple[str, ...]
    code: str
    """What fsck calls it when that is no longer whole."""

    def needs(self, error: Damaged) -> Damaged:
        """What it means that something it needs is not whole."""
        reason = f"{error.reason}; {self.who} needs it"
        return Damaged(self.code, error.path, reason, hint=self.hint, command=self.command)


class Holders:
    """The live transactions and sharing exports of a version. `existing` are versions that are there for sure."""

    def __init__(self, head: Snapshot, now_millis: int, existing: Container[int] = ()) -> None:
        self._head = head
        self._existing = existing
        self._now = now_millis
        alive = list(self._live_transactions())
        self._open = [saved for saved in alive if saved.is_running]
        # the last save of an aborted one is all that tells a process that holds an older save; so it stays as long
        self.live_ids = {saved.id for saved in alive}
        self._exports = list(self._sharing_exports())

    @property
    def transactions_from(self) -> int:
        """The oldest version that a live transaction began at."""
        return min((saved.began_at_version for saved in self._open), default=MAX_VERSION)

    @property
    def exports_from(self) -> int:
        """The oldest version of a sharing export that another program recorded without a pin: it is kept whole."""
        return min((export.version for export in self._exports if export.pin is None), default=MAX_VERSION)

    def pins(self) -> Iterator[PinnedRoot]:
        for saved in self._open:
            hint, words = "if it cannot be committed any more, give it up", ("txn", "abort", saved.id)
            if self._now <= saved.ends_at_millis and (reason := saved.lost_beginning(self._head.store, self._existing)):
                raise Damaged("F502", saved.path, reason, hint=hint, command=words)
            path = saved.definition.running_root_node_file_path
            yield _pinned(saved.path, PinnedRoot(path, f"the transaction {saved.id}", hint, words, "F502"))
        for export in self._exports:
            if export.pin is not None:
                drop = command_words("export", "drop", names=[export.name])
                pin = PinnedRoot(export.pin, f"the export {export.name!a}", "drop it, if it is of no use", drop, "F503")
                yield _pinned(self._head.file.path, pin)

    def _live_transactions(self) -> Iterator[Saved]:
        """The distributed transactions that are within their lifetime, whatever became of them."""
        for saved in saves.saved_transactions(self._head.store):
            if self._now > saved.ends_at_millis + HALF_AN_HOUR_MILLIS:
                continue
            if isinstance(saved, UnreadableSave):
                raise saved.error(f", so nobody knows what the transaction {saved.id} needs")
            yield saved

    def _sharing_exports(self) -> Iterator[ExportRecord]:
        for name, export in read_exports(self._head.definition).items():
            if isinstance(export, str):
                raise Damaged(
                    "F504",
                    self._head.file.path,
                    f"the record of the export {name!a} {export}, so nobody knows what it needs",
                    hint="drop it",
                    command=command_words("export", "drop", names=[name]),
                )
            if export.shares_files and not export.expired(self._now - HALF_AN_HOUR_MILLIS):
                yield export


def live_transactions(catalog: Catalog) -> set[str]:
    """The ids of the distributed transactions that are within their lifetime just now."""
    store_now = store_now_millis(catalog.store)
    return Holders(catalog.snapshot(), min(catalog.clock.now_millis(), store_now)).live_ids


def _pinned(holder: str, pin: PinnedRoot) -> PinnedRoot:
    """The pin that the file `holder` names, unless it leads outside the catalog."""
    try:
        check_pointer(pin.path, holder)
    except Damaged as error:
        raise pin.needs(error) from None
    return pin


def store_now_millis(store: Store) -> int:
    """The time by the store's own clock, which the ages of its files are measured by: when a file was written that was
    written just now."""
    path = f"{TEMPORARY_PREFIX}{new_uuid()}"
    try:
        store.create(path, b"")
        return store.stat(path).modified_at_millis
    finally:
        # what is left behind is swept like any write in progress
        with suppress(OlympiaError):
            store.delete_many([path])
