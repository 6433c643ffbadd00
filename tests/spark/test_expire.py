"""An expire on Spark plans what the local engine plans, and does it; either engine goes on where the other stopped."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.functions import spark_partition_id

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.retained import read_quarantine
from olympia_cli.errors import Damaged, PartlyDone, SparkFailed, StorageFailed
from olympia_cli.format.paths import new_node_path, parse_root_path, root_path
from olympia_cli.names import Kind, NamespaceName, TableName
from olympia_cli.ops.expire import (
    LOCAL,
    Doomed,
    ExpireManifest,
    ExpirePlan,
    ExpirePlanner,
    Floors,
    ManifestPart,
    Policy,
    PurgePlan,
    encode_manifest,
    encode_part,
    manifest_of,
    mark,
    new_manifest_path,
    new_part_path,
    purge,
    read_manifest,
    read_policy,
)
from olympia_cli.ops.fsck import Level, acknowledge, of_the_past
from olympia_cli.ops.progress import SILENT
from olympia_cli.ops.walk import NodeRules
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines import expire as spark_expire
from olympia_cli.spark.pipelines.expire import SparkFiles, SparkReach, files_frame, spark_surveyor
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.s3 import S3Store
from tests.cli.conftest import run_here
from tests.helpers.check import check_catalog, orphans
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.dead_files import FLOORS, make_worn_catalog, policy_of, set_age
from tests.helpers.fsck import fsck
from tests.helpers.metrics import measured
from tests.helpers.names import location, ns, table
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.reach import reach_of
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import CuttingStore, PowerCut, WrappedStore
from tests.spark.conftest import lose

OFFLINE = Floors(0, 0, offline=True)


def engine_of(spark, catalog: Catalog, partitions: int = 2, alone: int = 256, **storage: str) -> SparkEngine:
    """An engine whose driver reads most of such a catalog itself; nothing that tasks can read if `alone` is 0."""
    return SparkEngine(spark, CatalogPlace.at(catalog.store.uri, storage), partitions, alone)


@contextmanager
def plan_expire(engine: SparkEngine, catalog: Catalog, policy: Policy, floors: Floors = FLOORS) -> Iterator[ExpirePlan]:
    with spark_surveyor(engine) as surveyor:
        yield ExpirePlanner(catalog, floors, surveyor).expire(policy)


@contextmanager
def plan_purge(engine: SparkEngine, catalog: Catalog, floors: Floors = FLOORS) -> Iterator[PurgePlan]:
    with spark_surveyor(engine) as surveyor:
        yield ExpirePlanner(catalog, floors, surveyor).purge()


def shown(plan: ExpirePlan) -> object:
    """All that a plan says, whatever engine made it."""
    marking = plan.mark
    return (
        plan.head,
        [replace(marking, files=()), *files_of(marking)],
        purge_shown(plan.purge),
    )


def purge_shown(plan: PurgePlan) -> object:
    return [replace(plan, files=()), *files_of(plan)]


def files_of(plan) -> list[object]:
    totals = plan.files.totals
    return [dict(totals.kinds), totals.bytes, sorted(plan.files, key=lambda file: file.path)]


def both(spark, catalog: Catalog, floors: Floors = FLOORS) -> tuple[object, object]:
    """Return the plan of each engine."""
    local = shown(ExpirePlanner(catalog, floors).expire(policy_of(catalog)))
    with plan_expire(engine_of(spark, catalog, alone=0), catalog, policy_of(catalog), floors) as plan:
        return local, shown(plan)


def manifests_of(catalog: Catalog) -> list[str]:
    return [resting.manifest for resting in read_quarantine(catalog.snapshot().definition)]


def left_of_expire(catalog: Catalog) -> list[str]:
    return sorted(file.path for file in catalog.store.list("ops/expire/"))


# The same plans


def history(folder: Path, seed: int) -> Catalog:
    """Commits, rollbacks, transactions and marks by chance; the last mark may rest still, a purge may be unfinished."""
    chosen = random.Random(seed)
    clock = FakeClock()
    store = LocalStore(str(folder), durable=False)
    catalog = Catalog.create(store, order=8, txn_ttl_millis=6 * HOUR, clock=clock)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    for turn in range(3):
        for number in range(chosen.randrange(3, 7)):
            clock.advance(HOUR)
            names = sorted(catalog.snapshot().tables("a"), key=str)
            with catalog.transaction() as transaction:
                if names and chosen.random() < 0.4:
                    transaction.drop_table(chosen.choice(names))
                for at in range(chosen.randrange(1, 4)):
                    transaction.create_table(table(f"a.t{turn}_{number}_{at}"), location())
        if chosen.random() < 0.5:
            back = catalog.begin()
            back.roll_back(catalog.snapshot().version - 1)
            catalog.commit(back)
        running = distributed.begin(catalog)
        running.transaction.create_table(table(f"a.running{turn}"), location())
        running.save()
        clock.advance(20 * DAY)
        set_age(folder, 30)
        planner = ExpirePlanner(catalog, FLOORS)
        most = chosen.randrange(planner.facts.oldest + 1, planner.facts.head.version)
        plan = planner.expire(policy_of(catalog), not_beyond=most)
        failing = Catalog(Failing(store, chosen.randrange(6)), clock)
        with suppress(PartlyDone):
            purge(failing, plan.purge, plan.head, FLOORS)
        mark(catalog, plan.mark)
        clock.advance(DAY)
    clock.advance(10 * DAY)
    if seed % 2 == 0:
        set_age(folder, 30)
    return catalog


class Failing(WrappedStore):
    """Deletes so often, and then no more."""

    def __init__(self, store, after: int) -> None:
        super().__init__(store)
        self.after = after

    def delete_many(self, paths):
        paths = list(paths)
        if not any(".tmp-" in path for path in paths):
            self.after -= 1
            if self.after < 0:
                raise StorageFailed("the store is tired")
        self.inner.delete_many(paths)


def test_the_same_plan_file_for_file(spark, tmp_path: Path):
    catalog = make_worn_catalog(tmp_path, order=8)
    plan = ExpirePlanner(catalog, FLOORS).expire(policy_of(catalog))
    # it is a test of something only if all of this is in it
    assert all(plan.mark.files.totals.describe().values())
    assert plan.mark.young >= 2
    assert len(plan.mark.unknown_paths) >= 3
    assert plan.purge.files.totals.kinds["root"] == 3
    _add_what_is_needed(catalog, plan)
    local = ExpirePlanner(catalog, FLOORS).expire(policy_of(catalog))
    # the one of them that only versions reach which are about to be marked is needed as long as they can come back
    assert local.purge.rescued == 4
    with plan_expire(engine_of(spark, catalog, alone=0), catalog, policy_of(catalog)) as found:
        assert shown(found) == shown(local)
        assert mark(catalog, found.mark) is not None
    # a second mark, in parts, that rests still: what it could bring back is kept too
    [_, resting] = manifests_of(catalog)
    named = read_manifest(catalog.store, resting)
    assert named.parts
    assert sorted(named.files, key=lambda file: file.path) == sorted(local.mark.files, key=lambda file: file.path)
    planner = ExpirePlanner(catalog, FLOORS)
    assert planner.facts.oldest > planner.leaving.purged > 0
    local = planner.expire(policy_of(catalog))
    assert local.mark.is_empty
    assert local.purge.rescued == 4
    with plan_expire(engine_of(spark, catalog), catalog, policy_of(catalog)) as found:
        assert shown(found) == shown(local)
        # and what comes back between plan and purge is seen by both
        with catalog.transaction() as transaction:
            transaction.roll_back(planner.facts.oldest)
        with spark_surveyor(engine_of(spark, catalog)) as surveyor:
            again = [
                ExpirePlanner(catalog, FLOORS, engine).still_dead(plan.purge)
                for engine, plan in ((LOCAL, local), (LOCAL, found), (surveyor, found))
            ]
            assert files_frame(surveyor.engine, again[0]).count() == again[0].totals.files
            left = {tuple(sorted(file.path for file in files)) for files in again}
        assert len(left) == 1
    catalog.store.delete_many([root_path(planner.leaving.purged)])
    here = ExpirePlanner(catalog, FLOORS).expire(policy_of(catalog))
    assert "no node and no definition" in here.purge.notes[0]
    with plan_expire(engine_of(spark, catalog), catalog, policy_of(catalog)) as there:
        assert shown(there) == shown(here)
        assert there.purge.notes == here.purge.notes


def _add_what_is_needed(catalog: Catalog, plan: ExpirePlan) -> None:
    """Add needed files to the resting manifest.

    They are a live node, a node that an undo needs, and saves of a live transaction and of one whose id is used again.
    """
    [manifest] = manifests_of(catalog)
    document = json.loads(catalog.store.read(manifest))
    node = next(child for child in catalog.snapshot().root.node.children if isinstance(child, str))
    dying = next(file.path for file in plan.mark.files if file.kind == "node" and _is_old_tree(catalog, file.path))
    [alive] = [saved for saved in distributed.saved_transactions(catalog.store) if saved.id in _live(catalog)]
    again = next(file.path for file in plan.mark.files if file.kind == "transaction")
    catalog.store.overwrite(again, catalog.store.read(again))
    for path, kind in ((node, "node"), (dying, "node"), (alive.path, "transaction"), (again, "transaction")):
        document["files"].append({"path": path, "bytes": 1, "kind": kind})
    catalog.store.overwrite(manifest, json.dumps(document).encode())


def _live(catalog: Catalog) -> set[str]:
    return ExpirePlanner(catalog, FLOORS).facts.holders.live_ids


def _is_old_tree(catalog: Catalog, node: str) -> bool:
    """Return whether a version in history reaches the node."""
    reach = reach_of(catalog.store)
    planner = ExpirePlanner(catalog, FLOORS)
    versions = range(planner.facts.oldest, planner.facts.head.version)
    reach.add((root_path(version), catalog.store.read(root_path(version))) for version in versions)
    return node in reach


@pytest.mark.parametrize("seed", [5, 10])
def test_the_same_plan_for_random_histories(spark, tmp_path: Path, seed: int):
    """Purges that did not end, and marks that rest or leave."""
    catalog = history(tmp_path, seed)
    planner = ExpirePlanner(catalog, FLOORS)
    assert planner.leaving.unfinished
    assert bool(planner.leaving.manifests) is (seed % 2 == 0)
    local, found = both(spark, catalog)
    assert found == local


def test_damage_stops_it(spark, marked, tmp_path: Path):
    """With the error that the local engine has, and not where only the store fails."""
    place = copied(marked, tmp_path / "copy")
    planner = ExpirePlanner(place, FLOORS)
    policy = read_policy(planner.facts.definition, planner.facts.now_millis, keep_last=2)

    def errors() -> list[dict]:
        told = []
        for surveyor in (LOCAL, None):
            with pytest.raises(Damaged) as raised, spark_surveyor(engine_of(spark, place, alone=0)) as there:
                ExpirePlanner(place, FLOORS, surveyor or there).expire(policy)
            told.append(vars(raised.value))
        assert told[0] == told[1]
        return told

    definition = next(planner.facts.head.entries(Kind.TABLE))[1]
    (folder_of(place) / definition).unlink()
    assert errors()[0]["code"] == "F301"
    leaf = folder_of(place) / planner.facts.head.root.node.children[0]
    leaf.write_bytes(b"")
    assert errors()[0]["code"] == "F202"
    leaf.unlink()
    leaf.mkdir()
    with pytest.raises(StorageFailed), plan_expire(engine_of(spark, place, alone=0), place, policy):
        pass


def test_acknowledged_damage_keeps_all_nodes_and_definitions(spark, marked, tmp_path: Path):
    """No node or definition goes by either engine while the damaged version stays."""
    place = copied(marked, tmp_path / "copy")
    hit = place.snapshot().version - 1
    (folder_of(place) / root_path(hit)).write_bytes(b"")
    report = fsck(place.store, level=Level.FULL, all_versions=True, clock=place.clock)
    acknowledge(place, [one for one in report.findings if of_the_past(one, report.latest, report.oldest)])
    policy = read_policy(place.snapshot().definition, place.clock.now_millis(), keep_last=3)
    local = ExpirePlanner(place, FLOORS).expire(policy)
    assert local.mark.damaged == (hit,)
    assert {file.kind for file in local.mark.files} <= {"root", "transaction"}
    with plan_expire(engine_of(spark, place, alone=0), place, policy) as found:
        assert shown(found) == shown(local)


# The same deeds


def small(folder: Path) -> Catalog:
    """Twelve versions, the last of them twenty days ago, and a transaction that is dead."""
    clock = FakeClock()
    catalog = Catalog.create(LocalStore(str(folder), durable=False), order=4, clock=clock)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    for number in range(10):
        clock.advance(HOUR)
        with catalog.transaction() as transaction:
            transaction.create_table(table(f"a.t{number}"), location(number))
    for _ in range(2):
        stale = distributed.begin(catalog)
        stale.transaction.create_table(table("a.never"), location("never"))
        stale.save()
        stale.save()
    clock.advance(20 * DAY)
    set_age(folder, 30)
    return catalog


@pytest.fixture(scope="module")
def marked(spark, tmp_path_factory) -> Catalog:
    """A catalog with a rested mark in parts that Spark wrote. Tests that change it make a copy."""
    folder: Path = tmp_path_factory.mktemp("marked") / "catalog"
    catalog = small(folder)
    policy = read_policy(catalog.snapshot().definition, catalog.clock.now_millis(), keep_last=8)
    with plan_expire(engine_of(spark, catalog), catalog, policy) as plan:
        assert shown(plan) == shown(ExpirePlanner(catalog, FLOORS).expire(policy))
        mark(catalog, plan.mark)
    catalog.clock.advance(5 * DAY)
    set_age(folder, 30)
    return catalog


def copied(catalog: Catalog, folder: Path) -> Catalog:
    shutil.copytree(folder_of(catalog), folder)
    return Catalog(LocalStore(str(folder), durable=False), FakeClock(catalog.clock.wall, catalog.clock.elapsed))


def folder_of(catalog: Catalog) -> Path:
    return Path(catalog.store.uri.removeprefix("file://"))


def at(plan, place: Catalog):
    """The same plan for a copy of the catalog."""
    files = plan.files
    return replace(plan, files=replace(files, engine=engine_of(files.engine.spark, place)))


def finish(catalog: Catalog, rounds: int = 2) -> None:
    """Run the later expires of cron, with the local engine."""
    for _ in range(rounds):
        catalog.clock.advance(5 * DAY)
        set_age(folder_of(catalog), 30)
        planner = ExpirePlanner(catalog, FLOORS)
        plan = planner.expire(read_policy(planner.facts.definition, planner.facts.now_millis, keep_last=2))
        purge(catalog, plan.purge, plan.head, FLOORS)
        mark(catalog, plan.mark)
    check_catalog(catalog.store)
    assert not orphans(catalog.store)
    kept = set(manifests_of(catalog))
    assert all((manifest_of(path) or path) in kept for path in left_of_expire(catalog))


def test_the_driver_dies_before_any_of_its_writes(spark, marked, tmp_path: Path):
    """Either engine goes on from there. What the executors do is done, as it is when only the driver dies."""
    policy = read_policy(marked.snapshot().definition, marked.clock.now_millis(), keep_last=2)
    with plan_expire(engine_of(spark, marked), marked, policy) as plan:
        assert shown(plan) == shown(ExpirePlanner(marked, FLOORS).expire(policy))
        assert all(plan.purge.files.totals.describe()[kind] for kind in ("roots", "nodes", "transactions"))
        assert plan.purge.parts
        assert len(plan.mark.expired) == 6

        def run(place: Catalog, store) -> None:
            purge(Catalog(store, place.clock), at(plan.purge, place), plan.head, FLOORS)
            mark(Catalog(store, place.clock), at(plan.mark, place))

        whole = copied(marked, tmp_path / "whole")
        store = CuttingStore(whole.store)
        run(whole, store)
        check_catalog(whole.store)
        assert oldest_version(whole.snapshot()) == plan.mark.oldest
        left = {manifest_of(path) or path for path in left_of_expire(whole)}
        assert left == set(manifests_of(whole))
        finish(whole)
        stopped = None
        for cut_at in range(store.writes):
            place = copied(marked, tmp_path / str(cut_at))
            with pytest.raises(PowerCut):
                run(place, CuttingStore(place.store, cut_at))
            check_catalog(place.store)
            if ExpirePlanner(place, FLOORS).leaving.unfinished and stopped is None:
                stopped = copied(place, tmp_path / "stopped")
            finish(place)
        assert stopped is not None
    # the first of those that stopped after their commit, by Spark itself
    with plan_purge(engine_of(spark, stopped), stopped) as rest:
        assert purge_shown(rest) == purge_shown(ExpirePlanner(stopped, FLOORS).purge())
        assert rest.files.totals.kinds["root"] == 4
        purge(stopped, rest, stopped.snapshot().version, FLOORS)
    assert left_of_expire(stopped) == []
    assert min(check_catalog(stopped.store)) == 4


def test_plan_parts_that_executors_lose_are_recomputed(spark, marked, tmp_path: Path, monkeypatch):
    """Before the list is used, between two roots of it, and between the purge and the mark."""
    place = copied(marked, tmp_path / "copy")
    policy = read_policy(place.snapshot().definition, place.clock.now_millis(), keep_last=2)
    expected = shown(ExpirePlanner(place, FLOORS).expire(policy))
    with plan_expire(engine_of(spark, place), place, policy) as plan:
        assert lose(spark)
        assert shown(plan) == expected
        monkeypatch.setattr(spark_expire, "_AT_ONCE", 2)
        roots = plan.purge.files.roots()
        passed = [next(roots), next(roots)]
        assert lose(spark)
        passed += roots
        assert [parse_root_path(file.path) for file in passed] == [0, 1, 2, 3]
        purge(place, plan.purge, plan.head, FLOORS)
        assert lose(spark)
        mark(place, plan.mark)
    check_catalog(place.store)
    finish(place)


def test_a_node_damaged_before_recomputation_stops_the_expire(spark, marked, tmp_path: Path):
    """Children of a node must not be taken for dead because the node can no longer be read."""
    place = copied(marked, tmp_path / "copy")
    head = place.snapshot()
    leaf = head.root.node.children[0]
    with ExitStack() as stack:
        engine = engine_of(spark, place, alone=0)
        reach = SparkReach(engine, stack, place.store, NodeRules.of(head), definitions=False, progress=SILENT)
        reach.add([(head.file.path, head.file.data)])
        named = reach.since()
        assert named.count() > 5
        (folder_of(place) / leaf).write_bytes(b"")
        assert lose(spark)
        with pytest.raises(SparkFailed, match=f"a node is no longer sound: {leaf}"), explained():
            named.collect()


def test_a_manifest_that_is_not_whole(spark, marked, tmp_path: Path):
    """In two parts: one names what must not go, and the other is lost then too."""
    place = copied(marked, tmp_path / "copy")
    [manifest] = manifests_of(place)
    first, second = _divide(place, manifest)
    document = json.loads(place.store.read(first.path))
    document["files"][0]["path"] = "vn/latest"
    place.store.overwrite(first.path, json.dumps(document).encode())
    with pytest.raises(Damaged, match="never deletes") as local:
        ExpirePlanner(place, FLOORS).purge()
    with pytest.raises(Damaged) as raised, plan_purge(engine_of(spark, place), place):
        pass
    assert raised.value.message == local.value.message
    place.store.delete_many([second.path])
    with plan_purge(engine_of(spark, place), place) as plan:
        assert purge_shown(plan) == purge_shown(ExpirePlanner(place, FLOORS).purge())
        assert "a part of the manifest" in plan.notes[0]
        assert set(plan.files.totals.kinds) == {"root"}


def _divide(place: Catalog, path: str) -> list[ManifestPart]:
    """The parts of a manifest, two of them."""
    manifest = read_manifest(place.store, path)
    halves = [manifest.files[::2], manifest.files[1::2]]
    parts = [ManifestPart(new_part_path(path), len(half)) for half in halves]
    for part, half in zip(parts, halves, strict=True):
        place.store.create(part.path, encode_part(path, half))
    whole = replace(manifest, files=(), parts=tuple(parts))
    place.store.overwrite(path, encode_manifest(place.snapshot().definition.id, whole, ""))
    return parts


def test_the_whole_way_on_a_bucket(spark, monkeypatch):
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        catalog = Catalog.create(S3Store(BUCKET, "lake", s3_options(server.url)), order=4)
        given = {"endpoint_url": server.url, "key": "key", "secret": "secret", "region": "us-east-1"}
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns("a"))
        for number in range(6):
            with catalog.transaction() as transaction:
                transaction.create_table(table(f"a.t{number}"), location(number))
        before = check_catalog(catalog.store)
        engine = engine_of(spark, catalog, **given)
        planner = ExpirePlanner(catalog, OFFLINE)
        policy = read_policy(
            planner.facts.definition, planner.facts.now_millis, keep_last=2, older_than="0s", offline=True
        )
        with plan_expire(engine, catalog, policy, OFFLINE) as plan:
            assert shown(plan) == shown(ExpirePlanner(catalog, OFFLINE).expire(policy))
            mark(catalog, plan.mark)
        planner = ExpirePlanner(catalog, OFFLINE)
        with plan_purge(engine, catalog, OFFLINE) as leaving:
            assert purge_shown(leaving) == purge_shown(ExpirePlanner(catalog, OFFLINE).purge())
            purge(catalog, leaving, planner.facts.head.version, OFFLINE)
        found = check_catalog(catalog.store)
        assert min(found) == 6
        assert found[max(found)] == before[max(before)]
        assert not orphans(catalog.store)
        assert left_of_expire(catalog) == []
        catalog.store.close()


def test_each_task_has_its_part(spark, tmp_path: Path):
    """The names of the dead files are some kilobytes, which Spark would think too little for two tasks."""
    catalog = Catalog.create(LocalStore(str(tmp_path), durable=False), order=64)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        for number in range(400):
            transaction.create_table(TableName("ns", f"t{number}"), "s3://lake/t")
    with catalog.transaction() as transaction:
        transaction.drop_namespace(NamespaceName("ns"), cascade=True)
    # names that are no text, and look alike where names must be text
    for name in (b"\xfe", b"\xff"):
        (tmp_path / os.fsdecode(name)).write_bytes(b"")
    planner = ExpirePlanner(catalog, OFFLINE)
    policy = read_policy(planner.facts.definition, planner.facts.now_millis, keep_last=1, older_than="0s", offline=True)
    with plan_expire(engine_of(spark, catalog, 4), catalog, policy, OFFLINE) as plan:
        assert isinstance(plan.mark.files, SparkFiles)
        assert plan.mark.unknown == 2
        counts = plan.mark.files.frame.groupBy(spark_partition_id()).count().collect()
    assert len(counts) == 4
    assert sum(row[1] for row in counts) > 400
    assert max(row[1] for row in counts) < 200


def test_a_task_writes_parts_that_one_can_read(tmp_path: Path, monkeypatch):
    """The task has no more files in memory than a part names."""
    monkeypatch.setattr(spark_expire, "PART_FILES", 2)
    store = LocalStore(str(tmp_path), durable=False)
    manifest = new_manifest_path(1)
    files = [Doomed(new_node_path(), 7, "node") for _ in range(5)]
    batch = pa.RecordBatch.from_pylist([{"path": file.path, "bytes": 7, "kind": "node"} for file in files])
    place = CatalogPlace.at(store.uri)
    found = [row for made in spark_expire._write_parts(place, manifest, [batch]) for row in made.to_pylist()]
    parts = tuple(ManifestPart(row["path"], row["files"]) for row in found)
    assert [part.files for part in parts] == [2, 2, 1]
    store.create(manifest, encode_manifest("x", ExpireManifest(manifest, 1, 0, (), parts), ""))
    assert list(read_manifest(store, manifest).files) == files


# On the command line


def test_the_command(spark, tmp_path: Path):
    folder = tmp_path / "catalog"
    clock = FakeClock(time.time_ns() // 1_000_000 - 20 * DAY)
    catalog = Catalog.create(LocalStore(str(folder), durable=False), clock=clock)
    for number in range(8):
        clock.advance(HOUR)
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
    set_age(folder, 20)
    expire = ("-c", folder, "expire")
    on_spark = ("--engine", "spark", "--parallelism", "2")
    expected = run_here(*expire, "--dry-run", "--json", "--engine", "local").ok().json
    ran = measured(run_here(*expire, "--yes", "--json", *on_spark).ok().json)
    assert {**ran, "dry_run": True, "version": expected["version"]} == expected
    [manifest] = manifests_of(catalog)
    assert read_manifest(catalog.store, manifest).parts
    set_age(folder, 2)
    assert run_here(*expire, "purge").failed(12, "--yes")
    said = run_here(*expire, "purge", "--yes", *on_spark).ok()
    assert "purged 6 versions" in said.stdout
    assert min(check_catalog(catalog.store)) == 6
    assert left_of_expire(catalog) == []
    for option in (["--simulate"], ["--plan", tmp_path / "p"], ["--apply", tmp_path / "p"]):
        run_here(*expire, *option, *on_spark).failed(2, str(option[0]))
    run_here(*expire, "undo", "--engine", "spark").failed(2, "undo")
