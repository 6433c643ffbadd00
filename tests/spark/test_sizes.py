"""The driver's part of the work, the numbers of jobs and tasks, and files that only some machines have."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import ExecutorUnprepared
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import Kind, NamespaceName, TableName
from olympia_cli.ops.expire import ExpirePlanner, Floors, read_policy
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.verify import note_of, verify_export
from olympia_cli.ops.fsck import FsckRequest, Level
from olympia_cli.ops.walk import Files, NodeRules, Place
from olympia_cli.spark.engine import FEW_PARTS, SparkEngine, place_for
from olympia_cli.spark.pipelines import walk
from olympia_cli.spark.pipelines.expire import spark_surveyor
from olympia_cli.spark.pipelines.export import SparkExport
from olympia_cli.spark.pipelines.fsck import SparkFsck, spark_fsck
from olympia_cli.spark.pipelines.walk import SparkWalk
from olympia_cli.storage.local import LocalStore
from tests.helpers.damage import rewrite_definition
from tests.helpers.fsck import fsck

TABLES = 1000
OFFLINE = Floors(0, 0, offline=True)
FULL = FsckRequest(level=Level.FULL, all_versions=True)


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Catalog:
    """A tree of two levels, which no test changes."""
    catalog = Catalog.create(LocalStore(tmp_path_factory.mktemp("wide"), durable=False), order=64)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        for number in range(TABLES):
            transaction.create_table(TableName("ns", f"t{number}"), "s3://lake/t")
    return catalog


class Jobs:
    """The jobs that Spark was given within a block."""

    def __init__(self, spark) -> None:
        self._context = spark.sparkContext._jsc.sc()

    def __enter__(self) -> Jobs:
        self._before = self._last()
        return self

    def __exit__(self, *error: object) -> None:
        self.number = self._last() - self._before

    def _last(self) -> int:
        self._context.listenerBus().waitUntilEmpty()
        jobs = self._context.statusStore().jobsList(None)
        return jobs.head().jobId() if jobs.size() else -1


def run(engine: SparkEngine, catalog: Catalog, folder: Path) -> dict[str, int]:
    """Return the number of jobs of each command."""
    jobs = {}
    with Jobs(engine.spark) as counted:
        assert not spark_fsck(engine, FULL).damaged
    jobs["fsck"] = counted.number
    dest = LocalStore(folder / "dest", durable=False)
    with Jobs(engine.spark) as counted:
        create_export(catalog, dest, "copy", scope(Mode.FULL), engine=SparkExport(engine, place_for(dest.uri)))
    jobs["export create"] = counted.number
    with Jobs(engine.spark) as counted:
        export = SparkExport(engine, place_for(dest.uri))
        assert not verify_export(dest, note_of(dest, None), None, engine=export).damaged
    jobs["export verify"] = counted.number
    planner = ExpirePlanner(catalog, OFFLINE)
    policy = read_policy(planner.facts.definition, planner.facts.now_millis, keep_last=1, older_than="0s", offline=True)
    with Jobs(engine.spark) as counted, spark_surveyor(engine) as surveyor:
        ExpirePlanner(catalog, OFFLINE, surveyor).expire(policy)
    jobs["expire plan"] = counted.number
    return jobs


def test_a_few_jobs_a_command(spark, wide, tmp_path):
    """A level of nodes, definitions, those of one id, the listing; and none of them where there is little to do."""
    shutil.copytree(wide.store.uri, tmp_path / "catalog")
    catalog = Catalog(LocalStore(tmp_path / "catalog", durable=False))
    place = place_for(catalog.store.uri)
    engine = SparkEngine(spark, place, alone=0)
    assert run(engine, catalog, tmp_path / "by tasks") == {
        "fsck": 4,
        "export create": 3,
        "export verify": 3,
        "expire plan": 3,
    }
    nodes = len(wide.snapshot().root.node.children)
    # each of the four reads each file once; the export is a version of its own
    assert 0 <= engine.run.metrics()["files"] - 4 * (TABLES + 1 + nodes) < 4
    shutil.copytree(wide.store.uri, tmp_path / "again")
    again = Catalog(LocalStore(tmp_path / "again", durable=False))
    alone = run(SparkEngine(spark, place_for(again.store.uri)), again, tmp_path / "alone")
    assert alone == {"fsck": 0, "export create": 0, "export verify": 0, "expire plan": 1}


@pytest.mark.parametrize(
    ("rows", "parts"),
    [(0, 1), (1, 1), (100, 1), (101, 2), (6400, 64), (100_000, 64), (102_400, 64), (1_000_000, 625)],
)
def test_tasks_have_enough_to_do_and_not_too_much(spark, rows, parts):
    place = place_for("/nowhere")
    assert SparkEngine(spark, place).parts(rows, 100) == parts
    assert SparkEngine(spark, place, 7).parts(rows, 100) == max(1, min(7, rows))
    assert FEW_PARTS == 64


def test_kept_results_are_processed_in_few_tasks(spark, wide, monkeypatch):
    """However many tasks made it. So most tasks of an fsck read files, and have long to do."""
    monkeypatch.setattr(walk, "NODES_A_TASK", 2)
    monkeypatch.setattr(walk, "DEFINITIONS_A_TASK", 50)
    engine = SparkEngine(spark, place_for(wide.store.uri), alone=0)
    assert not spark_fsck(engine, FULL).damaged
    nodes = len(wide.snapshot().root.node.children)
    steps = {step["step"]: step["tasks"] for step in engine.run.metrics()["steps"]}
    reading = -(-nodes // 2), -(-(TABLES + 1) // 50)
    noted, sums = spark.sparkContext.defaultParallelism, 4
    assert steps == {
        "fsck: nodes, level 2": reading[0],
        "fsck: definitions": 1 + noted + reading[1] + sums,
        "fsck: damaged definitions and shared ids": 1,
        # what is listed, reached by definitions and by nodes; and all of it a file at a time
        "fsck: the listing": 1 + 1 + noted + 1,
    }


def test_each_task_has_its_share(spark, wide):
    engine = SparkEngine(spark, place_for(wide.store.uri), 4, alone=0)
    snapshot = wide.snapshot()
    with ExitStack() as stack:
        walking = SparkWalk(engine, engine.catalog.files, "fsck", stack)
        files = Files(wide.store)
        places = [Place(path, 2) for path in snapshot.root.node.children]
        looked_at = [place for place, _ in walking.nodes(files, NodeRules.of(snapshot), places)]
        assert looked_at == places
        [level] = walking.levels
        found = walking.read_definitions(walking.names([], [level]), walking.named)
        for frame, number in ((level, len(places)), (found, walking.named)):
            counts = [sum(1 for _ in rows) for rows in frame.select("path").rdd.glom().collect()]
            assert len(counts) == 4
            assert sum(counts) == number
            assert max(counts) < number * 2 / 3


# Machines that see something else


@pytest.mark.parametrize("what", ["a node", "a definition"])
def test_a_file_that_only_the_driver_has_is_no_damage(spark, wide, tmp_path, what):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(wide.store.uri, elsewhere)
    lost = wide.snapshot().root.node.children[3] if what == "a node" else next(wide.snapshot().entries(Kind.TABLE))[1]
    (elsewhere / lost).unlink()
    engine = SparkEngine(spark, place_for(wide.store.uri), 2, alone=0)
    with pytest.raises(ExecutorUnprepared, match=f"do not see {lost}, which is there") as raised:
        fsck(wide.store, SparkFsck(engine, place_for(str(elsewhere)).files), level=Level.FULL, all_versions=True)
    assert raised.value.exit_code == 2
    # and it is damage if no machine has it
    (Path(wide.store.uri) / lost).rename(tmp_path / "away")
    try:
        found = spark_fsck(engine, FULL)
        assert found == fsck(wide.store, level=Level.FULL, all_versions=True)
        assert lost in {finding.path for finding in found.findings}
    finally:
        (tmp_path / "away").rename(Path(wide.store.uri) / lost)


# What the driver and tasks find between them


def test_an_id_shared_between_driver_and_tasks_is_found(spark, wide, tmp_path):
    """The keys of inner nodes are noted by the driver, and those of leaves by tasks."""
    shutil.copytree(wide.store.uri, tmp_path / "catalog")
    store = LocalStore(tmp_path / "catalog", durable=False)
    root = Catalog(store).snapshot().root.node
    inner = next(value for value in root.values if value is not None)
    leaf = next(path for name, path in Catalog(store).snapshot().entries(Kind.TABLE) if path not in root.values)
    id = TableDef.FromString(store.read(leaf)).id
    rewrite_definition(store, inner, lambda definition: setattr(definition, "id", id))
    # fewer nodes than are made a job of are the root alone
    engine = SparkEngine(spark, place_for(store.uri), 2, alone=0)
    found = spark_fsck(engine, FULL)
    assert found == fsck(store, level=Level.FULL, all_versions=True)
    assert [finding.code for finding in found.findings] == ["F305"]


def test_few_files_in_the_latest_version_and_many_in_the_one_before_it(spark, wide, tmp_path):
    """The driver begins alone, and leaves the rest to tasks when it comes to a version with more; all count once."""
    shutil.copytree(wide.store.uri, tmp_path / "catalog")
    store = LocalStore(tmp_path / "catalog", durable=False)
    with Catalog(store).transaction() as transaction:
        transaction.drop_namespace(NamespaceName("ns"), cascade=True)
        transaction.create_namespace(NamespaceName("left"))
    store.delete_many(path for _, path in Catalog(store).snapshot().entries(Kind.NAMESPACE))
    with Jobs(spark) as jobs:
        found = spark_fsck(
            SparkEngine(spark, place_for(store.uri), 2, alone=TABLES // 2), FsckRequest(level=Level.FULL)
        )
    assert jobs.number
    assert found == fsck(store, level=Level.FULL)
    assert found.last_sound_version == 1
