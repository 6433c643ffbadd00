"""The facts about a catalog that an expire is planned from: versions, clocks, marks in quarantine, and holders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import check_writable
from olympia_cli.catalog.references import behind_gap
from olympia_cli.catalog.retained import (
    QuarantineMark,
    damaged_versions,
    kept_aside_before,
    lost_versions,
    purged_before,
    read_quarantine,
)
from olympia_cli.catalog.snapshot import Snapshot, marked_oldest, stated_oldest
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import PathMissing, Refused, StorageFull
from olympia_cli.format.paths import (
    MAX_VERSION,
    is_foreign_root,
    parse_root_path,
    root_path,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.expire.manifest import FOLDER, frees_nothing
from olympia_cli.ops.expire.retention import Floors, Limits
from olympia_cli.ops.holders import Holders, store_now_millis
from olympia_cli.ops.walk import batches
from olympia_cli.storage.protocol import FileInfo, Store

MAKE_ROOM, OFFLINE = "free some space, or stop all writers and let a purge free space", ("expire", "purge", "--offline")


NOTHING_RESTS = (
    "free some space, for no file is in quarantine, and a purge frees nothing; when there is room for a mark, "
    "expire --grace 0s --offline takes young files, too"
)


def without_room(error: StorageFull, *, frees: bool = True) -> StorageFull:
    """Return the error of a full store, with the advice for a catalog with files in quarantine. `frees` is False if no
    file is there.
    """
    if not frees:
        return StorageFull(error.message, hint=NOTHING_RESTS)
    return StorageFull(error.message, hint=MAKE_ROOM, command=OFFLINE)


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """The facts about a catalog that its plan is made from, and the ages that its user confirmed."""

    head: Snapshot
    store: Store
    definition: CatalogDef
    floors: Floors
    store_now_millis: int
    now_millis: int
    """The earlier of both clocks, so that files appear younger."""
    written: Mapping[int, int]
    """The time of each version's root by the store's clock."""
    marked_at: Mapping[int, int]
    """The time of each mark in quarantine, by the version of its commit; 0 if an older purge has deleted its root."""
    oldest: int
    purged: int
    aside_from: int
    """The oldest version that a promotion has kept aside."""
    damaged: frozenset[int]
    """Versions that are kept or can be restored, and may be damaged."""
    marks: tuple[QuarantineMark, ...]
    notes: tuple[FileInfo, ...]
    """The files of expire itself: manifests and their parts."""
    holders: Holders

    def limits(self, counted_from: int, not_beyond: int = MAX_VERSION) -> Limits:
        """Return the first version that each reason keeps. Versions from `not_beyond` on are kept in any case."""
        return Limits(
            counted_from=counted_from,
            transactions_from=self.holders.transactions_from,
            exports_from=self.holders.exports_from,
            plan_from=not_beyond,
            aside_from=self.aside_from,
            now_millis=self.now_millis,
            store_now_millis=self.store_now_millis,
        )


def read_facts(catalog: Catalog, floors: Floors, *, probe: bool = True, forgets: bool = False) -> CatalogFacts:
    """Read the facts about the latest version. Raise an error if there may be unknown versions.

    With `probe`, a file is written to learn the store's time; without, this machine's clock is used. With `forgets`,
    versions may go that a promotion has kept aside.
    """
    store, head = catalog.store, catalog.snapshot()
    check_writable(head)
    definition = head.definition
    marks = tuple(read_quarantine(definition))
    now = catalog.clock.now_millis()
    store_now = _probed(head, now, floors, resting=bool(marks)) if probe else now
    # offline, ages may be below the resolution of the store's clock
    earlier = now if floors.offline else min(now, store_now)
    written = _list_roots(head)
    oldest = _oldest(head, definition, written)
    purged = min(purged_before(definition), oldest)
    keeps_aside = oldest < kept_aside_before(definition) and not forgets
    return CatalogFacts(
        head=head,
        store=store,
        definition=definition,
        floors=floors,
        store_now_millis=store_now,
        now_millis=earlier,
        written=written,
        marked_at={mark.version: _written_at(store, mark.version, written) for mark in marks},
        oldest=oldest,
        purged=purged,
        aside_from=oldest if keeps_aside else MAX_VERSION,
        damaged=damaged_versions(definition, purged, head.version - 1),
        marks=marks,
        notes=tuple(store.list(FOLDER)),
        holders=Holders(head, earlier, written),
    )


def _probed(head: Snapshot, now: int, floors: Floors, *, resting: bool) -> int:
    """Return the time by the store's clock. If a full store takes no probe and no writer is running, use this machine's
    clock.
    """
    try:
        return store_now_millis(head.store)
    except StorageFull as error:
        if floors.offline:
            return now
        raise without_room(error, frees=not frees_nothing(head, now)) if resting else error from error


def _list_roots(latest: Snapshot) -> dict[int, int]:
    """Return the time of each version's root by the store's clock.

    Raise an error if there may be unknown versions, as their files would appear unused.
    """
    store, head = latest.store, latest.version
    written = {}
    for batch in batches(store.list("vn/"), 1024):
        versions = [parse_root_path(file.path) for file in batch]
        for file, version in zip(batch, versions, strict=True):
            if version is not None and not is_foreign_root(file.path, version):
                written[version] = file.modified_at_millis
    last = max([head, *written])
    for version in range(head + 1, last):
        # a listing is not atomic: it may show a new version without the one before it
        if version not in written and not store.exists(root_path(version)):
            raise behind_gap(latest, version, last)
    hint = latest.hint
    if lost_versions(hint, last, latest.definition):
        raise Refused(
            f"vn/latest names version {hint}, but the last root is that of version {head}: one may be lost",
            hint="show what a repair would change",
            command=("fsck", "--repair", "--dry-run"),
        )
    return written


def _oldest(latest: Snapshot, definition: CatalogDef, written: Mapping[int, int]) -> int:
    """Return the oldest version, which need not have a root.

    Before the first expire, readers use the hint `vn/oldest`. No file is deleted because of a hint.
    """
    oldest = stated_oldest(definition, lambda: read_hints(latest.store).oldest)
    before = [version for version in written if version < oldest]
    if before and marked_oldest(definition) is None:
        raise Refused(
            f"vn/oldest says {oldest}, but no expire has run, and version {min(before)} is there",
            hint="show what a repair would change",
            command=("fsck", "--repair", "--dry-run"),
        )
    if oldest > latest.version:
        raise Refused(
            f"the oldest version is given as {oldest}, later than the latest",
            hint="check the catalog",
            command=("fsck",),
        )
    return oldest


def _written_at(store: Store, version: int, written: Mapping[int, int]) -> int:
    """Return the time of a root, or 0 if an older purge has deleted it."""
    if version not in written:
        # a listing that lags may lack a young root
        with suppress(PathMissing):
            return store.stat(root_path(version)).modified_at_millis
    return written.get(version, 0)
