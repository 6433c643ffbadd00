"""All of it from end to end over Spark Connect, and on a cluster of several processes whose Python lacks this package;
and there a machine dies in the middle of the work, with all that it had found so far."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import app
from olympia_cli.names import Kind
from olympia_cli.ops.expire import ExpirePlanner
from olympia_cli.ops.inspect import log
from olympia_cli.storage.local import LocalStore
from tests.helpers import recipes
from tests.helpers.dead_files import FLOORS, make_worn_catalog, policy_of
from tests.helpers.iceberg_tables import Lake, files_of
from tests.helpers.metrics import measured
from tests.helpers.names import table
from tests.helpers.spark_cluster import (
    DAEMON,
    LITTLE_DATA,
    SHORT_LIVED,
    WORKERS,
    Cluster,
    python_without_this_package,
    spark_cluster,
)

PROGRAM = Path(__file__).parent / "cluster_program.py"
POLICY = ("--keep-last", "3", "--older-than", "3d")
ON_SPARK = ("--engine", "spark", "--parallelism", "2")
FILES = ("table", "files", "-o", "jsonl")
ON_CONNECT = (FILES, ("fsck", "--level", "full", "--json"), ("expire", *POLICY, "--dry-run", "--json"))
"""Each way of using Spark has a command here: a copy is made and verified by the same reads as fsck."""
ON_CLUSTER = (
    FILES,
    ("export", "create", "copy", "--dest", "{copy}", "--json"),
    ("fsck", "--level", "data", "--all-versions", "--json"),
    ("expire", *POLICY, "--yes", "--json"),
    ("expire", "purge", "--offline", "--yes", "--json"),
)


LOSING = (
    ("fsck", "--level", "full", "--all-versions", "--json"),
    ("export", "create", "copy", "--dest", "{copy}", "--json"),
)
"""An executor is lost in the middle of each of them."""
BEFORE = ("reading definitions", "copying")
"""The step that it is lost in."""


@dataclass
class World:
    """A catalog, and copies of it: two for Spark, and two for what this process does itself."""

    folder: Path
    catalog: Catalog
    lines: Sequence[Sequence[str]]
    results: dict[str, list] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, *lines: Sequence[str]) -> World:
        # three levels: each costs Spark as much as all the files on it
        catalog = make_worn_catalog(folder / "lake", order=8)
        lake = Lake(f"file://{folder}/warehouse")
        sound, wanting = lake.table("sound", appends=2, parts=2), lake.table("wanting", appends=2)
        with catalog.transaction() as transaction:
            transaction.create_table(table("a.sound"), sound.metadata_location)
            transaction.create_table(table("a.wanting"), wanting.metadata_location)
        lake.delete(files_of(wanting).manifests[0])
        for name in ("spark", "local", "unseen", "seen"):
            shutil.copytree(folder / "lake" / "catalog", folder / name / "catalog")
        return cls(folder, Catalog(LocalStore(catalog.store.uri)), lines)

    def commands(self, name: str, lines: Sequence[Sequence[str]]) -> list[list[str]]:
        here = self.folder / name
        return [["-c", f"{here}/catalog", *(word.format(copy=f"{here}/copy") for word in line)] for line in lines]

    def task(self, **more: object) -> str:
        lines = [[*line, *ON_SPARK] for line in self.commands("spark", self.lines)]
        where = {"catalog": self.catalog.store.uri, "log": f"{self.folder}/log"}
        return json.dumps({**where, "commands": lines, **more})

    def take(self, what: str, found: object) -> None:
        self.results.setdefault(what, []).append(found)

    def check(self) -> None:
        """Hold what Spark did against what this process does itself."""
        snapshot = self.catalog.snapshot()
        [read], [audit] = self.results["read"], self.results["audit"]
        objects = [one for kind in list(Kind)[1:] for one in snapshot.objects(kind)]
        assert read["names"] == sorted(
            f"{one.name.kind.word} {one.name.namespace} {one.name.name or one.name.namespace}" for one in objects
        )
        oldest = ExpirePlanner(self.catalog, FLOORS).expire(policy_of(self.catalog)).mark.former_oldest
        entries = log(snapshot, oldest)
        assert audit["actions"] == sorted([entry.version, at] for entry in entries for at in range(len(entry.changes)))
        assert audit["taken"]
        for line, ran in zip(self.commands("local", self.lines), self.results["ran"], strict=True):
            done = CliRunner().invoke(app, line)
            assert ran["exit_code"] == done.exit_code, (line, ran["stderr"], done.stderr)
            assert self.same(ran["stdout"]) == self.same(done.stdout), line
            assert self.same(ran["stderr"]) == self.same(done.stderr), line
        assert self.left("spark/catalog") == self.left("local/catalog")
        assert self.left("spark/copy") == self.left("local/copy")

    def same(self, text: str, one: str = "spark", other: str = "local") -> list[str]:
        """Return the lines of a command's output in sorted order, with one place in the name of another."""
        text = re.sub(r', "metrics": \{.*\}(?=\}$)', "", text, flags=re.MULTILINE)
        return sorted(text.replace(f"{self.folder}/{one}", f"{self.folder}/{other}").splitlines())

    def left(self, name: str) -> set[str]:
        """The files that are there of those that were there before."""
        before = self.files("lake/catalog")
        return before & self.files(name)

    def files(self, name: str) -> set[str]:
        folder = self.folder / name
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_spark_connect(tmp_path):
    world = World.make(tmp_path, *ON_CONNECT)
    done = subprocess.run(
        [
            sys.executable,
            str(PROGRAM),
            world.task(session={"remote": "local[2]", "settings": {**logged(tmp_path), **DAEMON}}),
        ],
        cwd=tmp_path,
        # a port of the server's own choice
        env={**os.environ, "SPARK_TESTING": "1", "JAVA_TOOL_OPTIONS": SHORT_LIVED, "PYTHONPATH": str(WORKERS)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # Java itself says which options it has from the environment; the server that is started for it says nothing
    assert [line for line in done.stderr.splitlines() if not line.startswith("Picked up JAVA_TOOL_OPTIONS")] == []
    for line in done.stdout.splitlines():
        for what, found in json.loads(line).items():
            world.take(what, found)
    world.check()
    # a server describes its jobs itself, and counts them for itself; what it has of ours are tags
    tags = {event["Properties"]["spark.job.tags"] for event in events(tmp_path) if event["Event"] == JOB_START}
    for words in ("table files: reading tables", "fsck", "expire"):
        assert any(f"_olympia {words}" in each for each in tags), tags
    assert '"metrics": {"seconds": ' in world.results["ran"][1]["stdout"]
    assert '"jobs": null, "tasks": null' in world.results["ran"][1]["stdout"]


JOB_START = "SparkListenerJobStart"


def logged(folder: Path) -> dict[str, str]:
    """Settings of a Spark that keeps a log of its events."""
    log = folder / "events"
    log.mkdir()
    words = {"enabled": "true", "rolling.enabled": "false", "compress": "false", "dir": f"file://{log}"}
    return {f"spark.eventLog.{name}": value for name, value in words.items()}


def events(folder: Path) -> list[dict]:
    [log] = (folder / "events").iterdir()
    return [json.loads(line) for line in log.read_text().splitlines()]


LOST = "an executor was lost: other executors repeat its work"


@dataclass
class Played:
    """The results of the cluster scenario; see `played`."""

    world: World
    dest: Path
    submitted: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Played:
    """Run the whole scenario once on a cluster with a driver, and executors whose Python lacks this package.

    An executor is killed in the middle of an fsck and of an export, and restarts. A machine dies with its executor in
    the middle of an expire. Another one joins in the middle of an fsck; it has neither the catalog nor the destination
    of an export. A job is submitted on the two remaining machines.
    """
    folder = tmp_path_factory.mktemp("cluster")
    world = World.make(folder, *ON_CLUSTER)
    python = python_without_this_package(folder / "python")
    dest = folder / "unseen" / "dest"
    dest.mkdir()
    settings = {
        **logged(folder),
        **LITTLE_DATA,
        "spark.pyspark.python": python,
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        # nothing starts before both are there
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    catalog = ["-c", f"{folder}/unseen/catalog"]
    fsck = [*catalog, "fsck", "--level", "full", "--json"]
    unseen = [
        [*fsck, *ON_SPARK],
        ["-c", f"{folder}/spark/catalog", "export", "create", "unseen", "--dest", str(dest), "--json", *ON_SPARK],
        [*catalog, "table", "files", "-o", "jsonl", *ON_SPARK],
    ]
    lost = [[*line, *ON_SPARK] for line in world.commands("unseen", LOSING)]
    with spark_cluster(folder) as cluster:
        session = {"master": cluster.url, "settings": settings}
        task = world.task(session=session, lost=lost, later=[*fsck, *ON_SPARK], unseen=unseen)
        log = folder / "program.log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [sys.executable, str(PROGRAM), task],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as program,
        ):
            try:
                play(world, program, cluster, [folder / "unseen" / "catalog", dest])
            finally:
                program.kill()
        assert len(world.results.get("unseen", ())) == len(unseen), log.read_text()[-4000:]
        return Played(world, dest, submit(world, cluster, python))


def test_a_cluster_gives_the_same_results_as_one_process(played):
    [read] = played.world.results["read"]
    assert read["executors"] == 2, "both workers had their part of it"
    assert all(".zip" in path for path in read["files"]), "the package came with the work"
    played.world.check()


def test_a_machine_that_dies_in_the_middle_of_an_expire(played):
    world = played.world
    plan = ExpirePlanner(world.catalog, FLOORS).expire(policy_of(world.catalog)).mark
    [dead] = world.results["dead"]
    assert [tuple(file) for file in dead] == sorted((file.path, file.bytes, file.kind) for file in plan.files)
    assert world.results["executors"] == [1], "the other one is gone"


def test_an_executor_that_is_killed_is_one_line_and_the_result_is_the_same(played):
    world = played.world
    assert len(world.results["lost"]) == len(LOSING)
    for line, ran in zip(world.commands("seen", LOSING), world.results["lost"], strict=True):
        done = CliRunner().invoke(app, line)
        assert ran["exit_code"] == done.exit_code == 0, (line, ran["stderr"], done.stderr)
        assert world.same(ran["stdout"], "unseen", "seen") == world.same(done.stdout)
        assert ran["stderr"].splitlines().count(LOST) == 1, ran["stderr"]
        assert json.loads(ran["stdout"])["metrics"]["failed_tasks"] >= 1
    assert world.left("unseen/copy") == world.left("seen/copy")


def test_a_file_unseen_by_an_executor_is_not_damaged(played):
    world = played.world
    check_unprepared(world, world.results["unseen"][0], "unseen/catalog")
    check_unprepared(world, world.results["unseen"][2], "unseen/catalog")
    assert not list(world.folder.glob("unseen/catalog/.tmp-*")), "nothing is left of a proof"


def test_a_destination_that_one_executor_does_not_see_is_no_backup(played):
    """All executors see the catalog. A copy at a place that only one executor sees is not recorded.

    The export can be resumed with a place that all executors see.
    """
    world, dest = played.world, played.dest
    check_unprepared(world, world.results["unseen"][1], "unseen/dest")
    catalog = Catalog(LocalStore(f"{world.folder}/spark/catalog"))
    assert "unseen" not in catalog.snapshot().definition.exported_snapshots
    assert not world.files("empty"), "nothing was written where it does not belong"
    assert not list(dest.rglob(".tmp-*"))
    assert not list(dest.glob("vn/*")), "no root: it does not open as a catalog"
    line = ["-c", catalog.store.uri, "export", "resume", "unseen", "--dest", str(dest)]
    assert CliRunner().invoke(app, line).exit_code == 0
    assert "unseen" in catalog.snapshot().definition.exported_snapshots


def test_an_executor_that_joins_in_the_middle_is_looked_at(played):
    world = played.world
    [later] = world.results["later"]
    check_unprepared(world, {**later, "stderr": later["stderr"].splitlines()[-1]}, "unseen/catalog")
    assert "reading definitions" in later["stderr"].splitlines(), "the others had begun"


def check_unprepared(world: World, ran: dict, place: str) -> None:
    assert ran["exit_code"] == 2, ran
    error = json.loads(ran["stderr"])["error"]
    assert error["code"] == "ExecutorUnprepared"
    host = socket.gethostname()
    assert f"the executor on {host} does not see the files at {world.folder}/{place}: " in error["message"]
    assert error["hint"].startswith("mount the same folder")
    assert ran["stdout"] == ""


def submit(world: World, cluster: Cluster, python: str) -> subprocess.CompletedProcess[str]:
    """The guide's recipe as Airflow's operator types it, with a Python that lacks this package, of a catalog that lacks
    a definition."""
    import pyspark

    folder, home = world.folder / "submitted", Path(pyspark.__file__).parent
    subprocess.run([sys.executable, "-m", "olympia_cli.spark.job", "--files", str(folder)], check=True)
    catalog = shutil.copytree(world.catalog.store.uri, world.folder / "worn")
    (catalog / str(Catalog(LocalStore(str(catalog))).snapshot().find(table("a.sound")))).unlink()
    places = {"spark://head:7077": cluster.url, "s3://lake/catalog": str(catalog), "/opt/olympia": str(folder)}
    words = recipes.operator_words(recipes.GUIDE)
    assert words == recipes.submit_words(recipes.GUIDE), "the two recipes are one command"
    for text, place in places.items():
        words = [word.replace(text, place) for word in words]
    short = {"spark.executor.extraJavaOptions": SHORT_LIVED, "spark.driver.extraJavaOptions": SHORT_LIVED, **DAEMON}
    settings = {**logged(folder), **short, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    # each executor is a Java to start
    settings["spark.cores.max"] = "1"
    defaults = world.folder / "spark-defaults.conf"
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    # a worker of the cluster has no room for more
    words = [word.replace("spark.executor.memory=1g", "spark.executor.memory=512m") for word in words]
    environment = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(world.folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": python, "PYTHONPATH": ""}
    return subprocess.run(
        [str(home / "bin" / words[0]), *words[1:], "--parallelism", "2"],
        env={**os.environ, **environment},
        cwd=world.folder,
        capture_output=True,
        text=True,
    )


def test_a_job_that_is_submitted(played):
    """The job runs on the master of spark-submit, under the given name, and ends with the command's exit code."""
    done = played.submitted
    assert done.returncode == 50, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert [one["code"] for one in found["findings"] if one["severity"] == "error"] == ["F301"], found["findings"]
    assert measured(found)["damaged"]
    logged = events(played.world.folder / "submitted")
    properties = next(event for event in logged if event["Event"] == "SparkListenerEnvironmentUpdate")
    assert properties["Spark Properties"]["spark.app.name"] == "olympia-fsck"
    assert properties["Spark Properties"]["spark.master"].startswith("spark://127.0.0.1:")
    # so few files are read by the driver itself
    said = {event["Properties"]["spark.job.description"] for event in logged if event["Event"] == JOB_START}
    assert said == {"olympia fsck: what it took"}


def test_the_event_log_has_the_metrics_of_a_run(played):
    """By names that people understand, as the command itself says it: of an fsck that lost an executor."""
    metrics = json.loads(played.world.results["lost"][0]["stdout"])["metrics"]
    names = {"failed_tasks": "failed tasks", **{name: name for name in ("files", "bytes", "jobs", "tasks", "restarts")}}
    expected = {f"olympia: {said}": metrics[name] for name, said in names.items()}
    for step in metrics["steps"]:
        expected |= {f"olympia {step['step']}: {said}": step[name] for name, said in names.items()}
    assert expected["olympia: failed tasks"] > 0
    assert expected["olympia fsck: definitions: files"] > 0
    ended = [
        event["Stage Info"] for event in events(played.world.folder) if event["Event"] == "SparkListenerStageCompleted"
    ]
    told = [
        {one["Name"]: float(one["Value"]) for one in stage["Accumulables"]}
        for stage in ended
        if stage["Stage Name"] == "olympia fsck: what it took"
    ]
    [found] = [each for each in told if expected.items() <= each.items()]
    assert found["olympia: seconds"] > found["olympia fsck: definitions: seconds"] > 0


def play(world: World, program: subprocess.Popen[str], cluster: Cluster, hidden: Sequence[Path]) -> None:
    """Let happen to the cluster what `played` says. What is to be killed is stopped before a step, and killed once it
    has a task of it: so it dies with the task, whatever the machine's speed, and with what it kept of the steps
    before."""
    levels = 0
    kill: Callable[[], None] | None = None
    for line in program.stdout or ():
        [(what, said)] = json.loads(line).items()
        if what == "running":
            assert kill is not None
            kill()
        elif what == "phase":
            answer, lost, dead = "go", len(world.results.get("lost", ())), "dead" in world.results
            if lost < len(LOSING):
                if said.startswith(BEFORE[lost]):
                    executor = cluster.executor(0)
                    os.kill(executor, signal.SIGSTOP)
                    kill, answer = partial(os.kill, executor, signal.SIGKILL), "watch"
            elif not dead:
                levels += said == "reading nodes"
                if said == "reading nodes" and levels == 2:
                    cluster.stop_worker(0)
                    kill, answer = partial(cluster.kill_worker, 0), "watch"
            elif said.startswith("reading definitions"):
                cluster.start_worker(hidden)
                answer = "await"
            assert program.stdin is not None
            program.stdin.write(f"{answer}\n")
            program.stdin.flush()
        else:
            world.take(what, said)
