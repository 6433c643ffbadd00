"""Users of files besides the kept versions: live distributed transactions, and exports that share files.

An expire keeps their files, and stops if it cannot know these. fsck reports the damage of their files.
"""

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
from olympia_cli.names import new_uuid
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store


@dataclass(frozen=True, slots=True)
class PinnedRoot:
    """A copy of a root that a transaction or an export needs with all files below it."""

    path: str
    named_in: str
    """The file that names it."""
    who: str
    code: str
    """fsck's code for damage of these files."""
    advice: str
    command: tuple[str, ...]
    """The command that ends the transaction or the export."""

    def needs(self, error: Damaged) -> Damaged:
        """Return the error for a damaged file that this root needs."""
        reason = f"{error.reason}; {self.who} needs it"
        return Damaged(self.code, error.path, reason, hint=self.advice, command=self.command)

    def checked(self) -> PinnedRoot:
        """Raise Damaged if its path is outside the catalog."""
        try:
            check_pointer(self.path, self.named_in)
        except Damaged as error:
            raise self.needs(error) from None
        return self


def pin_of_transaction(saved: Saved) -> PinnedRoot:
    """Return the root that a running distributed transaction needs."""
    path, who = saved.definition.running_root_node_file_path, f"the transaction {saved.id}"
    advice = "if it can no longer be committed, abort it"
    return PinnedRoot(path, saved.path, who, "F502", advice, abort_words(saved.id))


def abort_words(id: str) -> tuple[str, ...]:
    return "txn", "abort", id


def pin_of_export(export: ExportRecord, named_in: str) -> PinnedRoot | None:
    """Return the root that an export pins. None if it pins none."""
    if export.pin is None:
        return None
    who = f"the export {export.name}"
    return PinnedRoot(export.pin, named_in, who, "F503", "drop it if it is unused", drop_words(export.name))


def drop_words(name: str) -> tuple[str, ...]:
    return command_words("export", "drop", names=[name])


# The holders of a sound catalog, for an expire.


class Holders:
    """The live transactions and sharing exports of a version. `existing` holds versions that certainly exist.

    Raise Damaged if one of them is damaged: the files that it needs are unknown then.
    """

    def __init__(self, head: Snapshot, now_millis: int, existing: Container[int] = ()) -> None:
        self._head = head
        self._existing = existing
        self._now = now_millis
        alive = list(self._live_transactions())
        self._open = [saved for saved in alive if saved.is_running]
        # keep the last save of an aborted transaction: it stops a process that still has an older save
        self.live_ids = frozenset(saved.id for saved in alive)
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
            pin = pin_of_transaction(saved)
            if self._now <= saved.ends_at_millis and (reason := saved.lost_beginning(self._head.store, self._existing)):
                raise Damaged(pin.code, saved.path, reason, hint=pin.advice, command=pin.command)
            yield pin.checked()
        for export in self._exports:
            if (export_pin := pin_of_export(export, self._head.file.path)) is not None:
                yield export_pin.checked()

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
                    command=drop_words(name),
                )
            if export.shares_files and not export.expired(self._now - HALF_AN_HOUR_MILLIS):
                yield export


def live_transactions(catalog: Catalog) -> frozenset[str]:
    """Return the ids of the distributed transactions that are within their lifetime now."""
    store_now = store_now_millis(catalog.store)
    return Holders(catalog.snapshot(), min(catalog.clock.now_millis(), store_now)).live_ids


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
