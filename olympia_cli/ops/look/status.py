"""The status of a catalog from a few reads, and on demand from a listing and a walk."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from olympia_cli.catalog.catalog import DAY_MILLIS, Catalog
from olympia_cli.catalog.exports import ExportRecord, read_exports
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.saves import Saved, State, UnreadableSave
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import Damaged, OlympiaError, Refused, Unsupported
from olympia_cli.format.paths import LAST_FSCK, file_kind
from olympia_cli.names import time_text
from olympia_cli.ops.expire.marks import list_marks, sum_up_marks
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.retention import read_policy
from olympia_cli.ops.expire.values import Floors
from olympia_cli.ops.export.listing import unfinished_exports
from olympia_cli.ops.fsck.last_fsck import FsckRun, fsck_runs
from olympia_cli.ops.last_runs import LAST_EXPIRE, LAST_EXPORT, read_notes
from olympia_cli.ops.look.attention import Reason, damage, needs_attention, unfinished, worth_knowing
from olympia_cli.ops.look.growth import count_objects, growth, growth_in_full
from olympia_cli.ops.look.transactions import saved_transactions
from olympia_cli.storage.protocol import FileInfo
from olympia_cli.tree.search import depth

_ALIVE = (State.OPEN, State.EXPIRED, State.UNREADABLE)


class Standing(StrEnum):
    """The status in one word, the worst first."""

    NOT_FOUND = "not found"
    UNREACHABLE = "unreachable"
    UNREADABLE = "unreadable"
    DAMAGED = "damaged"
    OVERDUE = "overdue"
    ATTENTION = "needs attention"
    UNCHECKED = "never checked"
    SOUND = "sound"


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a catalog, with the reasons for it.

    `attention` holds the reasons for exit code 51, `notes` advice that needs no action, `runs` the runs of fsck that
    count.
    """

    values: dict[str, Any]
    attention: tuple[Reason, ...]
    damage: tuple[Reason, ...]
    notes: tuple[Reason, ...]
    runs: tuple[FsckRun, ...]

    @property
    def damaged(self) -> bool:
        return bool(self.damage)

    @property
    def is_known(self) -> bool:
        """True if a run of fsck was complete or found damage. A run that was stopped before that proves nothing."""
        return any(run.damaged or run.complete for run in self.runs)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return (*self.damage, *self.attention, *self.notes)

    @property
    def standing(self) -> Standing:
        if self.damaged:
            return Standing.DAMAGED
        if self.attention:
            overdue = all(reason.overdue for reason in self.attention)
            return Standing.OVERDUE if overdue else Standing.ATTENTION
        return Standing.SOUND if self.is_known else Standing.UNCHECKED

    @property
    def exit_code(self) -> int:
        return 50 if self.damaged else 51 if self.attention else 0


def standing_of(error: OlympiaError) -> Standing:
    """Return the word for a catalog that cannot be opened. Denied access and timeouts say nothing about damage."""
    if error.exit_code == 10:
        return Standing.NOT_FOUND
    return Standing.UNREADABLE if error.exit_code in (40, 41) else Standing.UNREACHABLE


def status(catalog: Catalog, full: bool = False) -> Status:
    """Compute the status. The catalog is not changed."""
    store = catalog.store
    snapshot = catalog.snapshot()
    hints = read_hints(store)
    definition = snapshot.definition
    saved = list(saved_transactions(catalog, snapshot.file.java))
    states = [transaction.state(catalog.clock) for transaction in saved]
    alive = [transaction for transaction, state in zip(saved, states, strict=True) if state in _ALIVE]
    fsck, expire, export = read_notes(store, LAST_FSCK, LAST_EXPIRE, LAST_EXPORT)
    oldest, stored = oldest_version(snapshot), store.stat(snapshot.file.path).modified_at_millis
    # ignore the damage of a version that has been expired since
    runs = [run for run in fsck_runs(fsck) if run.latest or (run.version or 0) >= oldest]
    values: dict[str, Any] = {
        "catalog": store.uri,
        "id": definition.id,
        "version": snapshot.version,
        "created_at": time_text(snapshot.created_at_millis),
        "oldest_version": oldest,
        "hint": hints.latest,
        "hint_lag": None if hints.latest is None else snapshot.version - hints.latest,
        "depth": depth(snapshot.reader, snapshot.root.node),
        "order": definition.order,
        "open_transactions": states.count(State.OPEN),
        "stale_transactions": states.count(State.EXPIRED),
        "unreadable_transactions": states.count(State.UNREADABLE),
        "exports": len(definition.exported_snapshots),
        "last_fsck": None if fsck is None else {key: value for key, value in fsck.items() if key != "runs"},
        "last_expire": expire,
        "read_only": snapshot.file.java,
        "looked_at": time_text(catalog.clock.now_millis()),
        "last_export": export,
        "fsck_runs": [asdict(run) for run in runs],
        "transactions": [_transaction(transaction, catalog) for transaction in alive],
        "export_names": [name for name, record in read_exports(definition).items() if isinstance(record, ExportRecord)],
        "unfinished_exports": unfinished_exports(snapshot),
        "quarantine": sum_up_marks(snapshot, DAY_MILLIS),
        "growth": growth(snapshot, oldest, stored),
    }
    if full:
        counted = _full(catalog, snapshot)
        values |= {**counted, "growth": values["growth"] | counted["growth"]}
    attention = needs_attention(snapshot, catalog.clock.now_millis(), stored, values, hints, fsck, expire)
    damaged = damage(runs)
    notes = (*(() if attention or damaged else worth_knowing(runs)), *unfinished(values["unfinished_exports"]))
    status = Status(values, attention, damaged, notes, tuple(runs))
    values["needs_attention"] = [reason.text for reason in attention]
    values["verdict"] = str(status.standing)
    values["damaged"] = status.damaged if status.is_known else None
    return status


def _transaction(saved: Saved | UnreadableSave, catalog: Catalog) -> dict[str, Any]:
    began = expires = None
    if isinstance(saved, Saved):
        began = time_text(saved.definition.began_at_millis)
        expires = time_text(saved.definition.expire_at_millis)
    return {"id": saved.id, "state": saved.state(catalog.clock).value, "began_at": began, "expires_at": expires}


def _full(catalog: Catalog, snapshot: Snapshot) -> dict[str, Any]:
    objects = count_objects(snapshot)
    files: dict[str, dict[str, int]] = {}
    listing: list[FileInfo] = []
    for file in catalog.store.list():
        counted = files.setdefault(file_kind(file.path).value, {"files": 0, "bytes": 0})
        counted["files"] += 1
        counted["bytes"] += file.size
        listing.append(file)
    marks = list(list_marks(snapshot, DAY_MILLIS))
    return {
        "objects": objects,
        "files": files,
        "reclaimable_bytes": _reclaimable(catalog),
        "quarantine_bytes": sum(mark["bytes"] or 0 for mark in marks),
        "growth": growth_in_full(snapshot, sum(objects.values()), listing),
    }


def _reclaimable(catalog: Catalog) -> int | None:
    """Return the bytes that an expire would move to quarantine now, or None if it would refuse to run."""
    try:
        planner = Planner(catalog, Floors(DAY_MILLIS, DAY_MILLIS), probe=False, definitions=False)
        plan = planner.expire(read_policy(planner.definition, planner.now))
    except (Damaged, Refused, Unsupported):
        return None
    return plan.mark.files.totals.bytes
