"""Mark, undo and purge: take old versions out of history, and later delete their files.

Each of them begins with a commit, so the version log orders it with all other commits. Files are deleted only
afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import TypeVar

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Committed
from olympia_cli.catalog.references import at_version
from olympia_cli.catalog.retained import read_quarantine
from olympia_cli.catalog.snapshot import Snapshot, expired_before
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import (
    CommitConflict,
    Damaged,
    InvalidOption,
    OlympiaError,
    PartlyDone,
    StorageFailed,
    StorageFull,
)
from olympia_cli.format.actions import ALTERS, CREATES, DROPS, EXPIRES, READS, RENAMES, Action
from olympia_cli.format.paths import OLDEST, check_pointer, parse_transaction_path
from olympia_cli.format.pb.actions_pb2 import ActionType, ExpireDef
from olympia_cli.names import time_text
from olympia_cli.ops.expire.facts import MAKE_ROOM, OFFLINE, without_room
from olympia_cli.ops.expire.manifest import (
    DELETED_AT_ONCE,
    Doomed,
    Going,
    delete_checked,
    encode_manifest,
    frees_nothing,
    is_manifest,
    new_manifest_path,
    read_manifest,
    write_narrowed,
)
from olympia_cli.ops.expire.plan import ExpirePlan, ExpirePlanner, MarkPlan, PurgePlan, plan_undo
from olympia_cli.ops.expire.retention import Floors
from olympia_cli.ops.expire.survey import LOCAL, Surveyor
from olympia_cli.ops.holders import live_transactions
from olympia_cli.ops.last_runs import LAST_EXPIRE, leave_note
from olympia_cli.ops.progress import SILENT, Progress

T = ActionType
Written = TypeVar("Written")

_HARMLESS = ALTERS | CREATES | DROPS | EXPIRES | READS | RENAMES | {T.COMMIT_INFO, T.CATALOG_ALTER, T.CATALOG_COMPACT}
"""Actions that cannot make an unused file used again."""


def expire_once(
    planner: ExpirePlanner, plan: ExpirePlan, message: str = "", *, retry_for: float = 60.0, progress: Progress = SILENT
) -> int:
    """Run an expire, and return the version that is then the latest:

    1. Purge the marks that have been in quarantine long enough.
    2. Mark by the policy.
    3. Write the note for `status`.
    """
    purged = _purge_planned(planner, plan.purge, message, retry_for, progress)
    try:
        marked = mark(planner.catalog, plan.mark, message, retry_for=retry_for)
    except (CommitConflict, StorageFull) as error:
        if purged is not None:
            text = f"the purge is done, and nothing was marked: {error.message}"
            raise PartlyDone(text, hint="run it again") from error
        if isinstance(error, StorageFull) and planner.facts.marks:
            raise without_room(error, frees=not frees_nothing(planner.facts.head, planner.facts.now_millis)) from error
        raise
    version = max([plan.head, *(commit.version for commit in (purged, marked) if commit is not None)])
    leave_note(planner.catalog.store, LAST_EXPIRE, planner.catalog.clock, {**plan.summary(), "version": version})
    return version


def purge_once(
    planner: ExpirePlanner, plan: PurgePlan, message: str = "", *, retry_for: float = 60.0, progress: Progress = SILENT
) -> int:
    """Like `expire_once`, without a mark. If there is nothing to purge, no note is written."""
    version = planner.facts.head.version
    if not plan.is_empty:
        commit = _purge_planned(planner, plan, message, retry_for, progress)
        version = version if commit is None else commit.version
        values = {"oldest": planner.facts.oldest, "purged": plan.summary(), "version": version}
        leave_note(planner.catalog.store, LAST_EXPIRE, planner.catalog.clock, values)
    return version


def _purge_planned(
    planner: ExpirePlanner, plan: PurgePlan, message: str, retry_for: float, progress: Progress
) -> Committed | None:
    return purge(
        planner.catalog,
        plan,
        planner.facts.head.version,
        planner.facts.floors,
        message,
        retry_for=retry_for,
        surveyor=planner.surveyor,
        progress=progress,
    )


def mark(catalog: Catalog, plan: MarkPlan, message: str = "", *, retry_for: float = 60.0) -> Committed | None:
    """Take versions out of history. Nothing is deleted. Files are written in this order:

    1. The parts of the manifest, if it has any.
    2. The manifest.
    3. The commit, which makes `plan.oldest` the oldest version.
    4. `vn/oldest`.
    """
    if plan.is_empty:
        return None
    catalog = catalog.anew()
    now = catalog.clock.now_millis()
    manifest = plan.files.manifest(catalog.store, new_manifest_path(now), plan.oldest, plan.former_oldest)
    transaction = catalog.begin()
    catalog.store.create(manifest.path, encode_manifest(transaction.base.definition.id, manifest, time_text(now)))
    payload = ExpireDef(oldest=plan.oldest, former_oldest=plan.former_oldest, manifest=manifest.path)
    _do(transaction, T.CATALOG_EXPIRE_MARK, payload)
    commit = catalog.commit(transaction, message, retry_for=retry_for)
    _try_oldest(catalog)
    return commit


def undo(catalog: Catalog, message: str = "", *, back_to: int = 0, retry_for: float = 60.0) -> Committed | None:
    """Return versions from quarantine to history, those from `back_to` on. Return None if there are none. The order:

    1. If a mark keeps its older versions, a new manifest for these.
    2. `vn/oldest`, which may lag but must not lead. A folder in its place is ignored, as it misleads no reader.
    3. The commit.
    4. `vn/oldest` again, as another expire may have written it.
    """
    catalog = catalog.anew()
    transaction = catalog.begin()
    plan = plan_undo(transaction.base, back_to)
    if plan.is_empty:
        return None
    target = plan.oldest
    payload = ExpireDef(oldest=target, manifest=_narrowed(catalog, transaction.base, target))
    _do(transaction, T.CATALOG_EXPIRE_UNDO, payload)
    try:
        catalog.store.overwrite(OLDEST, str(target).encode())
    except StorageFailed as error:
        if not error.is_folder:
            raise
    try:
        return catalog.commit(transaction, message, retry_for=retry_for)
    finally:
        _try_oldest(catalog)


def _narrowed(catalog: Catalog, base: Snapshot, oldest: int) -> str:
    """Write the manifest for a mark that keeps versions below `oldest` in quarantine, and returns the later ones.

    Return its path. Return an empty string if no mark is split, or its manifest cannot be read: then a purge deletes no
    file for this mark.
    """
    split = [mark for mark in read_quarantine(base.definition) if mark.former_oldest < oldest < mark.oldest]
    for mark in split:
        with contextlib.suppress(Damaged):
            manifest = read_manifest(catalog.store, check_pointer(mark.manifest, base.root.catalog_def))
            now = catalog.clock.now_millis()
            return write_narrowed(catalog.store, base.definition.id, manifest, oldest, now)
    return ""


def purge(
    catalog: Catalog,
    plan: PurgePlan,
    planned_at: int,
    floors: Floors,
    message: str = "",
    *,
    retry_for: float = 60.0,
    surveyor: Surveyor = LOCAL,
    progress: Progress = SILENT,
) -> Committed | None:
    """Delete the files that have been in quarantine long enough. `planned_at` is the version that the plan was made on.
    The order:

    1. The commit: versions below `plan.purged` can no longer be restored.
    2. `vn/oldest`.
    3. Roots one by one, the oldest first.
    4. All other files.
    5. The parts of the manifests.
    6. The manifests.

    After a crash the next purge continues. A full store rejects steps 1 and 2. If no writer is running, step 3 then
    begins earlier, and stops as soon as there is enough room.
    """
    if plan.is_empty:
        return None
    catalog = catalog.anew()
    store = catalog.store

    def still_dead() -> Going:
        if _revived(catalog.snapshot(), planned_at):
            return ExpirePlanner(catalog, floors, surveyor, progress=progress).still_dead(plan)
        return plan.files

    def commit_purge() -> Committed:
        transaction = catalog.begin()
        payload = ExpireDef(
            oldest=expired_before(transaction.base.definition),
            purged=plan.purged,
            manifests=plan.manifests,
            unfinished=plan.unfinished,
        )
        _do(transaction, T.CATALOG_EXPIRE_PURGE, payload)
        return catalog.commit(transaction, message, retry_for=retry_for)

    deletions = _deletions(catalog, still_dead, plan.purged, progress) if floors.offline else None
    frees = bool(plan.files.totals.files)
    commit = _write(commit_purge, deletions, frees) if plan.manifests else None
    try:
        files = still_dead()
        _write(lambda: _write_oldest(catalog), deletions, frees)
        _delete(catalog, files, plan.purged, progress)
        if plan.parts:
            store.delete_many(plan.parts)
        # the catalog's definition names the manifests, and a damaged one may name any path
        store.delete_many(filter(is_manifest, (*plan.manifests, *plan.unfinished, *plan.abandoned)))
    except PartlyDone:
        raise
    except OlympiaError as error:
        text = f"the versions below {plan.purged} are purged, but not all of their files are deleted: {error.message}"
        if isinstance(error, StorageFull):
            raise PartlyDone(text, hint=MAKE_ROOM, command=OFFLINE) from error
        is_in_the_way = isinstance(error, StorageFailed) and error.is_folder
        hint = f"{f'{error.advice}, then ' if is_in_the_way else ''}go on where this one stopped"
        raise PartlyDone(text, hint=hint, command=("expire", "purge")) from error
    return commit


def _write(write: Callable[[], Written], deletions: Iterator[None] | None, frees: bool) -> Written:
    """Write, and while the store is full run one deletion at a time. There are no `deletions` while writers may be
    running. `frees` is False if there is no file to delete.
    """
    while True:
        try:
            return write()
        except StorageFull as error:
            if deletions is None or not frees:
                raise without_room(error, frees=frees) from error
            if next(deletions, True):
                text = f"all that leaves quarantine is deleted, and there is still no room: {error.message}"
                raise PartlyDone(text, hint="free some space, and go on", command=OFFLINE) from error


def _deletions(catalog: Catalog, still_dead: Callable[[], Going], below: int, progress: Progress) -> Iterator[None]:
    """Delete the files of a purge in steps: roots, the oldest first, twice as many each time; then the rest."""
    files, step = still_dead(), 1
    roots = files.roots()
    while batch := list(islice(roots, step)):
        for root in batch:
            delete_checked(catalog.store, [root], below, progress)
        step *= 2
        yield
    _delete(catalog, files, below, progress)
    yield


def _do(transaction: Transaction, type: ActionType, payload: ExpireDef) -> None:
    try:
        transaction.do(Action(type, None, b"", payload.SerializeToString()))
    except InvalidOption as error:
        raise CommitConflict(f"another expire was first: {error.message}", hint="run it again") from None


def _delete(catalog: Catalog, files: Going, below: int, progress: Progress) -> None:
    store = catalog.store
    progress.phase("deleting", files.totals.files)
    for root in files.roots():
        # one by one: a reader that probes upwards from an old hint takes a version without a successor for the latest
        # one
        delete_checked(store, [root], below, progress)
    # transactions may reuse ids, while nodes and definitions never reuse names. So only this process deletes saves:
    # other machines may run late.
    _delete_saves(catalog, files.saves(), below, progress)
    files.delete_others(store, below, progress)


def _delete_saves(catalog: Catalog, saves: Iterable[Doomed], below: int, progress: Progress) -> None:
    batch: list[Doomed] = []
    for _, together in groupby(saves, key=lambda file: _transaction(file.path)):
        batch += together
        if len(batch) >= DELETED_AT_ONCE:
            _delete_transactions(catalog, batch, below, progress)
            batch = []
    if batch:
        _delete_transactions(catalog, batch, below, progress)


def _delete_transactions(catalog: Catalog, saves: list[Doomed], below: int, progress: Progress) -> None:
    """Delete all files of some transactions, unless they are alive.

    While this process was suspended, another purge may have deleted them, and a new transaction may use the same id.
    """
    store = catalog.store
    # list the files first: an id can be reused only after its old files are gone
    there = {file.path for file in store.list("dtxn/")}
    alive = live_transactions(catalog)
    saves = [file for file in saves if file.path in there and _transaction(file.path) not in alive]
    # the last save marks the transaction as ended; while it exists, earlier saves are ignored
    newest = {_transaction(file.path): file.path for file in sorted(saves, key=lambda file: _save(file.path))}
    last = set(newest.values())
    delete_checked(store, [file for file in saves if file.path not in last], below, progress)
    delete_checked(store, [file for file in saves if file.path in last], below, progress)


def _transaction(path: str) -> str:
    """Return the id of the transaction that a file belongs to."""
    parsed = parse_transaction_path(path)
    return path if parsed is None else parsed[0]


def _save(path: str) -> int:
    """Return the number of a save. The file without a number, the hint to the last save, is sorted first."""
    parsed = parse_transaction_path(path)
    return -1 if parsed is None or parsed[1] is None else parsed[1]


def _revived(head: Snapshot, planned_at: int) -> bool:
    """Return whether a commit since the plan may use an old file again: a rollback, a restore, an export, or an unknown
    action. True also if such commits are expired, and cannot be read.
    """
    if planned_at + 1 < expired_before(head.definition):
        return True
    for version in range(planned_at + 1, head.version + 1):
        actions = at_version(version, head).actions()
        if not actions or any(action.type not in _HARMLESS for action in actions):
            return True
    return False


def other_expire_ran(planner: ExpirePlanner) -> bool:
    """Return whether another expire has run since the plan, and no undo since: versions that a user has restored must
    not be expired again at once.
    """
    head = planner.catalog.snapshot()
    first = max(planner.facts.head.version + 1, expired_before(head.definition))
    types = {action.type for at in range(first, head.version + 1) for action in at_version(at, head).actions()}
    return bool(types & {T.CATALOG_EXPIRE_MARK, T.CATALOG_EXPIRE_PURGE}) and T.CATALOG_EXPIRE_UNDO not in types


def _try_oldest(catalog: Catalog) -> None:
    """Write `vn/oldest` if possible. It may lag, and the next expire writes it."""
    try:
        _write_oldest(catalog)
    except OlympiaError as error:
        catalog.store.lost_hints[OLDEST] = error


def _write_oldest(catalog: Catalog) -> None:
    """Write `vn/oldest` from the catalog's definition. Repeat until both agree, as others may change them at the same
    time.
    """
    written: int | None = None
    while (oldest := expired_before(catalog.snapshot().definition)) != written:
        catalog.store.overwrite(OLDEST, str(oldest).encode())
        written = oldest
