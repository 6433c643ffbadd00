"""Mark and sweep on Spark finds what the planner finds, file for file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql.functions import spark_partition_id

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, StorageFailed
from olympia_cli.format.paths import file_kind, parse_root_path, root_path
from olympia_cli.names import Kind, NamespaceName, TableName
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.spark.pipelines.sweep import dead_files
from olympia_cli.storage.local import LocalStore
from tests.helpers.dead_files import FLOORS, make_worn_catalog, policy_of
from tests.helpers.reach import reach_of
from tests.spark.conftest import make_catalog


@pytest.fixture(scope="module")
def worn(tmp_path_factory):
    return make_worn_catalog(tmp_path_factory.mktemp("worn"))


def sweep_of(catalog, **more):
    return Planner(catalog, FLOORS).sweep(policy_of(catalog), **more)


def place_of(catalog) -> CatalogPlace:
    return CatalogPlace.at(catalog.store.uri)


def paths(frame) -> list[str]:
    return sorted(row.path for row in frame.select("path").collect())


def test_the_same_as_the_planner_file_for_file(spark, worn):
    plan = Planner(worn, FLOORS).expire(policy_of(worn)).mark
    expected = [(file.path, file.bytes, file.kind) for file in plan.files]
    # the catalog is a test of something only if all of this is in it
    assert set(Counter(kind for _, _, kind in expected)) == {"root", "node", "definition", "transaction", "temporary"}
    assert plan.young >= 2
    assert plan.unknown >= 3
    sweep = sweep_of(worn)
    assert sweep.oldest == plan.oldest > plan.former_oldest > 0
    assert len(sweep.pins) == 2
    assert len(sweep.manifests) == 1
    with dead_files(spark, place_of(worn), sweep, partitions=2) as swept:
        dead = swept.dead.collect()
        assert sorted((row.path, row.bytes, row.kind) for row in dead) == sorted(expected)
        assert all(row.version == parse_root_path(row.path) for row in dead)
        assert swept.young.count() == plan.young
        unknown = paths(swept.unknown)
        assert len(unknown) == plan.unknown
        assert set(plan.unknown_paths) == set(unknown)
        assert sorted(set(paths(swept.live))) == reached(worn, sweep)


def reached(catalog, sweep) -> list[str]:
    """By the walk that this process can do itself."""
    reach = reach_of(catalog.store)
    roots = [*(root_path(version) for version in range(sweep.oldest, sweep.latest + 1)), *sweep.pins]
    return sorted(path for new in reach.each((path, catalog.store.read(path)) for path in roots) for path in new)


def test_what_keeps_files_alive_is_needed_for_it(spark, worn):
    """Without the pins and the quarantine the result is another: so they are what the test above tests."""
    sweep = sweep_of(worn)
    place = place_of(worn)
    with dead_files(
        spark, place, replace(sweep, pins=(), manifests=(), purged=0), partitions=2, definitions=False
    ) as swept:
        more = set(paths(swept.dead))
    expected = {file.path for file in Planner(worn, FLOORS).expire(policy_of(worn)).mark.files}
    assert expected < more
    assert {file_kind(path).value for path in more - expected} >= {"root", "node", "definition"}


def test_nothing_is_sent_to_all_tasks_through_the_driver(spark, worn):
    with dead_files(spark, place_of(worn), sweep_of(worn), partitions=2, definitions=False) as swept:
        plan = swept.dead._jdf.queryExecution().executedPlan().toString()
    assert "hashpartitioning(path" in plan
    assert "Broadcast" not in plan


def test_each_task_has_its_part(spark, tmp_path: Path):
    """Of one level of nodes: their names are a few kilobytes, which Spark would think too little for two tasks."""
    catalog = Catalog.create(LocalStore(str(tmp_path), durable=False), order=64)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        for number in range(1000):
            transaction.create_table(TableName("ns", f"t{number}"), "s3://lake/t")
    sweep = sweep_of(catalog, not_beyond=0)
    with dead_files(spark, place_of(catalog), sweep, partitions=4) as swept:
        nodes = swept.live.where("kind = 'node'")
        counts = [row[1] for row in nodes.groupBy(spark_partition_id()).count().collect()]
        definitions = swept.live.where("kind = 'definition'")
        assert definitions.select(spark_partition_id()).distinct().count() == 4
        assert swept.dead.count() == 0
    assert sum(counts) >= 16
    assert len(counts) == 4


@pytest.mark.parametrize("definitions", [True, False])
def test_damage_stops_it(spark, tmp_path: Path, definitions):
    catalog = make_catalog(tmp_path)
    sweep = sweep_of(catalog, not_beyond=0)
    victim = next(catalog.snapshot().entries(Kind.TABLE))[1]
    (tmp_path / victim).unlink()
    run = partial(dead_files, spark, place_of(catalog), sweep, partitions=2, definitions=definitions)
    if not definitions:
        with run() as swept:
            assert swept.dead.count() == 0
    nodes = catalog.snapshot().root.node.children
    for lost in nodes:
        (tmp_path / lost).write_bytes(b"")
    with pytest.raises(Damaged) as raised, run():
        pass
    # of several the first by path
    assert (raised.value.code, raised.value.path) == (("F301", victim) if definitions else ("F202", min(nodes)))


def test_a_store_that_fails_is_no_damage(spark, tmp_path: Path):
    catalog = make_catalog(tmp_path)
    sweep = sweep_of(catalog, not_beyond=0)
    node = tmp_path / catalog.snapshot().root.node.children[0]
    node.unlink()
    node.mkdir()
    with pytest.raises(StorageFailed), dead_files(spark, place_of(catalog), sweep, partitions=2, definitions=False):
        pass
