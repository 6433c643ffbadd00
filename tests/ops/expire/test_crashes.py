"""The power fails before any single write of an expire: the catalog opens, is whole, and the next run finishes."""

from __future__ import annotations

import random
from functools import cache

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.retained import purged_before, read_quarantine
from olympia_cli.names import AtVersion
from olympia_cli.ops.expire import ExpirePlanner, Floors, mark, purge, read_policy, undo
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.fsck import FsckRequest, Level, fsck
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog, orphans, replay
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.names import location, ns, table
from tests.helpers.places import BUCKET, gcs_place, quiet_environment, s3_place
from tests.helpers.servers.gcs import SmallGcs
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import CuttingStore, PowerCut

pytestmark = pytest.mark.usefixtures("decoded_once")

FLOORS = Floors(DAY, DAY)


def expire(catalog: Catalog, floors: Floors = FLOORS, **asked) -> None:
    """Do what the command does: purge the rested marks, then mark."""
    planner = ExpirePlanner(catalog, floors)
    plan = planner.expire(
        read_policy(planner.facts.definition, planner.facts.now_millis, **asked, offline=floors.offline)
    )
    purge(catalog, plan.purge, plan.head, floors)
    mark(catalog, plan.mark)


def fill(catalog: Catalog, clock: FakeClock) -> None:
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    for number in range(12):
        clock.advance(HOUR)
        with catalog.transaction() as transaction:
            transaction.create_table(table(f"a.t{number}"), location(number))
    stale = distributed.begin(catalog)
    stale.transaction.create_table(table("a.never"), location("never"))
    stale.save()


def rested() -> tuple[dict[str, tuple[bytes, int]], FakeClock]:
    """A catalog with a mark that has rested, and versions that are old enough to be marked."""
    clock = FakeClock()
    files: dict[str, tuple[bytes, int]] = {}
    catalog = Catalog.create(MemoryStore(files=files, now_millis=clock.now_millis), order=4, clock=clock)
    fill(catalog, clock)
    clock.advance(20 * DAY)
    expire(catalog)
    for number in range(4):
        clock.advance(HOUR)
        with catalog.transaction() as transaction:
            transaction.drop_table(table(f"a.t{number}"))
    clock.advance(20 * DAY)
    return files, clock


FILES, CLOCK = rested()


def fresh(cut_at: int | None = None) -> tuple[Catalog, CuttingStore, FakeClock]:
    clock = FakeClock(CLOCK.wall, CLOCK.elapsed)
    store = CuttingStore(MemoryStore(files=dict(FILES), now_millis=clock.now_millis), cut_at)
    return Catalog(store, clock), store, clock


def writes(run) -> int:
    catalog, store, _ = fresh()
    run(catalog)
    return store.writes


@pytest.mark.parametrize("cut_at", range(writes(expire)))
def test_an_expire_that_is_cut_off_is_finished_by_the_next(cut_at):
    catalog, store, clock = fresh(cut_at)
    with pytest.raises(PowerCut):
        expire(catalog)
    store = store.inner
    catalog = Catalog(store, clock)
    check_catalog(store)
    replay(store)
    resting = {resting.manifest for resting in read_quarantine(catalog.snapshot().definition)}
    assert resting <= {file.path for file in store.list("ops/expire/")}, "a mark names a manifest that is not there"
    for _ in range(3):
        clock.advance(2 * DAY)
        expire(catalog)
        check_catalog(store)
    assert not orphans(store)
    roots = [file.path for file in store.list("vn/") if len(file.path) == 35]
    assert len(roots) == catalog.snapshot().version - oldest_version(catalog.snapshot()) + 1
    kept = {resting.manifest for resting in read_quarantine(catalog.snapshot().definition)}
    assert {file.path for file in store.list("ops/expire/")} == kept


@pytest.mark.parametrize("cut_at", range(writes(undo)))
def test_an_interrupted_undo_can_be_repeated(cut_at):
    catalog, store, clock = fresh(cut_at)
    with pytest.raises(PowerCut):
        undo(catalog)
    catalog = Catalog(store.inner, clock)
    check_catalog(store.inner)
    undo(catalog)
    assert oldest_version(catalog.snapshot()) == 0
    assert min(check_catalog(store.inner)) == 0


# A purge that dies among its deletions, which a store does in any order


class UnorderedDeletions(CuttingStore):
    def __init__(self, files: dict[str, tuple[bytes, int]], clock: FakeClock, seed: int, cut_at: int | None = None):
        super().__init__(MemoryStore(files=dict(files), now_millis=clock.now_millis), cut_at)
        self.deletions: list[int] = []
        self._random = random.Random(seed)

    def delete_many(self, paths):
        paths = list(paths)
        self._random.shuffle(paths)
        # the look whether the store creates exclusively deletes a file, too
        self.deletions += [at for at, path in enumerate(paths, self.writes) if not path.startswith(".tmp-")]
        super().delete_many(paths)


@cache
def needed() -> tuple[dict[str, tuple[bytes, int]], FakeClock, str]:
    """Return a catalog with a rested mark whose files are needed, and the id of the transaction.

    The files are needed by kept versions, by a younger mark, by an export that shares them, and by an open transaction.
    """
    clock = FakeClock()
    files: dict[str, tuple[bytes, int]] = {}
    catalog = Catalog.create(MemoryStore("lake", files, clock.now_millis), order=4, clock=clock)
    fill(catalog, clock)
    create_export(catalog, MemoryStore("out"), "shared", scope(Mode.MINIMAL), at=AtVersion(5))
    clock.advance(20 * DAY)
    expire(catalog)
    for number in range(8):
        clock.advance(HOUR)
        with catalog.transaction() as transaction:
            transaction.drop_table(table(f"a.t{number}"))
    clock.advance(20 * DAY)
    planner = ExpirePlanner(catalog, FLOORS)
    mark(catalog, planner.expire(read_policy(planner.facts.definition, planner.facts.now_millis)).mark)
    begun = distributed.begin(catalog)
    begun.transaction.create_table(table("a.staged"), location("staged"))
    begun.save()
    return files, clock, begun.id


def purge_of(store: UnorderedDeletions, clock: FakeClock) -> None:
    planner = ExpirePlanner(Catalog(store, clock), FLOORS)
    purge(planner.catalog, planner.purge(), planner.facts.head.version, FLOORS)


@pytest.mark.parametrize("seed", range(50))
def test_a_purge_that_dies_among_its_deletions_loses_nothing_that_is_needed(seed):
    files, now, transaction = needed()
    clock = FakeClock(now.wall, now.elapsed)
    counting = UnorderedDeletions(files, clock, seed)
    purge_of(counting, clock)
    cutting = UnorderedDeletions(files, clock, seed, random.Random(seed).choice(counting.deletions))
    with pytest.raises(PowerCut):
        purge_of(cutting, clock)
    store = cutting.inner
    catalog = Catalog(store, clock)
    undo(catalog)
    brought_back = check_catalog(store)
    assert min(brought_back) == purged_before(catalog.snapshot().definition) > 0
    whole = everything()
    assert all(brought_back[version] == whole[version] for version in brought_back if version in whole)
    report = fsck(store, FsckRequest(Level.FULL, all_versions=True, clock=clock))
    assert not report.damaged, report.findings
    distributed.load(catalog, transaction).commit()
    purge_of(UnorderedDeletions(store._files, clock, seed), clock)
    check_catalog(store)


@cache
def everything() -> dict[int, object]:
    """The content of each version, had nothing been purged."""
    files, now, _ = needed()
    store = MemoryStore(files=dict(files))
    undo(Catalog(store, FakeClock(now.wall, now.elapsed)))
    return dict(check_catalog(store))


# On real stores, whose clock is not ours to set


@pytest.fixture(scope="module")
def servers():
    with pytest.MonkeyPatch.context() as patch, StrictS3() as s3, SmallGcs() as gcs:
        quiet_environment(patch)
        s3.create_bucket(BUCKET)
        gcs.create_bucket(BUCKET)
        yield {"s3": lambda: s3_place(s3.url), "gcs": lambda: gcs_place(gcs.url)}


@pytest.fixture(params=["local", "s3", "gcs"])
def store(request, tmp_path):
    if request.param == "local":
        yield LocalStore(tmp_path / "catalog", durable=False)
        return
    place = request.getfixturevalue("servers")[request.param]()
    yield place.open()
    place.close()


def test_the_whole_way_on_a_real_store(store):
    catalog = Catalog.create(store, order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    for number in range(8):
        with catalog.transaction() as transaction:
            transaction.create_table(table(f"a.t{number}"), location(number))
    before = check_catalog(store)
    offline = Floors(0, 0, offline=True)
    expire(catalog, offline, keep_last=3, older_than="0s")
    assert oldest_version(catalog.snapshot()) == 7
    undo(catalog)
    assert check_catalog(store)[0] == before[0]
    expire(catalog, offline, keep_last=2, older_than="0s")
    purging = ExpirePlanner(catalog, offline)
    purge(catalog, purging.purge(), purging.facts.head.version, offline)
    found = check_catalog(store)
    assert min(found) == 8
    assert found[max(found)] == before[9]
    assert not orphans(store)
    assert not list(store.list("ops/expire/"))
    assert [file.path for file in store.list(temporary=True) if ".tmp-" in file.path] == []
