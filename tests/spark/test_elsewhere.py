"""All of it from end to end over Spark Connect, and on a cluster of several processes whose Python lacks this package;
and there a machine dies in the middle of the work, with all that it had found so far."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import app
from olympia_cli.names import Kind
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.look.log import log
from olympia_cli.storage.local import LocalStore
from tests.helpers import recipes
from tests.helpers.dead_files import FLOORS, make_worn_catalog, policy_of
from tests.helpers.iceberg_tables import Lake, files_of
from tests.helpers.metrics import measured
from tests.helpers.names import table
from tests.helpers.spark_cluster import SHORT_LIVED, Cluster, python_without_this_package, spark_cluster

PROGRAM = Path(__file__).parent / "elsewhere_program.py"
POLICY = ("--keep-last", "3", "--older-than", "3d")
FILES = ("table", "files", "-o", "jsonl")
ON_CONNECT = (FILES, ("fsck", "--level", "full", "--json"), ("expire", *POLICY, "--dry-run", "--json"))
"""One of each way to go about Spark: a copy is made and verified as fsck reads."""
ON_CLUSTER = (
    FILES,
    ("export", "create", "copy", "--dest", "{copy}", "--json"),
    ("fsck", "--level", "data", "--all-versions", "--json"),
    ("expire", *POLICY, "--yes", "--json"),
    ("expire", "purge", "--offline", "--yes", "--json"),
)


@dataclass
class World:
    """A catalog, and two copies of it: one for Spark, and one for what this process does itself."""

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
        for name in ("spark", "local", "unseen"):
            shutil.copytree(folder / "lake" / "catalog", folder / name / "catalog")
        return cls(folder, Catalog(LocalStore(catalog.store.uri)), lines)

    def commands(self, name: str) -> list[list[str]]:
        here = self.folder / name
        return [["-c", f"{here}/catalog", *(word.format(copy=f"{here}/copy") for word in line)] for line in self.lines]

    def task(self, **more: object) -> str:
        lines = [[*line, "--engine", "spark", "--parallelism", "2"] for line in self.commands("spark")]
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
        oldest = Planner(self.catalog, FLOORS).expire(policy_of(self.catalog)).mark.former_oldest
        entries = log(snapshot, oldest)
        assert audit["actions"] == sorted([entry.version, at] for entry in entries for at in range(len(entry.changes)))
        assert audit["taken"]
        for line, ran in zip(self.commands("local"), self.results["ran"], strict=True):
            done = CliRunner().invoke(app, line)
            assert ran["exit_code"] == done.exit_code, (line, ran["stderr"], done.stderr)
            assert self.same(ran["stdout"]) == self.same(done.stdout), line
            assert self.same(ran["stderr"]) == self.same(done.stderr), line
        assert self.left("spark/catalog") == self.left("local/catalog")
        assert self.left("spark/copy") == self.left("local/copy")

    def same(self, text: str) -> list[str]:
        """What a command says, in any order, of one place."""
        text = re.sub(r', "metrics": \{.*\}(?=\}$)', "", text, flags=re.MULTILINE)
        return sorted(text.replace(f"{self.folder}/spark", f"{self.folder}/local").splitlines())

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
        [sys.executable, str(PROGRAM), world.task(session={"remote": "local[2]", "settings": logged(tmp_path)})],
        cwd=tmp_path,
        # a port of the server's own choice
        env={**os.environ, "SPARK_TESTING": "1", "JAVA_TOOL_OPTIONS": SHORT_LIVED},
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


def test_a_cluster_and_a_worker_that_is_killed(tmp_path):
    world = World.make(tmp_path, *ON_CLUSTER)
    python = python_without_this_package(tmp_path / "python")
    dest = tmp_path / "unseen" / "dest"
    dest.mkdir()
    unseen = [
        ["-c", f"{tmp_path}/unseen/catalog", "fsck", "--level", "full", "--json"],
        ["-c", f"{tmp_path}/spark/catalog", "export", "create", "unseen", "--dest", str(dest), "--json"],
        ["-c", f"{tmp_path}/unseen/catalog", "table", "files", "-o", "jsonl"],
    ]
    unseen = [[*line, "--engine", "spark", "--parallelism", "2"] for line in unseen]
    with spark_cluster(tmp_path, hidden=[tmp_path / "unseen" / "catalog", dest]) as cluster:
        settings = {
            "spark.pyspark.python": python,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "2",
            # nothing starts before both are there
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        }
        task = world.task(session={"master": cluster.url, "settings": settings}, lose=True, unseen=unseen)
        log = tmp_path / "program.log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [sys.executable, str(PROGRAM), task],
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as program,
        ):
            try:
                play(world, program, cluster)
            finally:
                program.kill()
        assert program.returncode is not None
        if "executors" in world.results:
            submit(world, cluster, python)
    assert "executors" in world.results, log.read_text()[-4000:]
    [read] = world.results["read"]
    assert read["executors"] == 2, "both workers had their part of it"
    assert all(".zip" in path for path in read["files"]), "the package came with the work"
    plan = Planner(world.catalog, FLOORS).expire(policy_of(world.catalog)).mark
    [dead] = world.results["dead"]
    assert [tuple(file) for file in dead] == sorted((file.path, file.bytes, file.kind) for file in plan.files)
    assert world.results["executors"] == [1], "the other one is gone"
    check_unseen(world, dest)
    world.check()


def check_unseen(world: World, dest: Path) -> None:
    """What one of the executors does not see is not damaged, and not copied."""
    assert len(world.results["unseen"]) == 3
    for ran in world.results["unseen"]:
        assert ran["exit_code"] == 2, ran
        error = json.loads(ran["stderr"])["error"]
        assert error["code"] == "ExecutorUnprepared"
        assert f"the executor on {socket.gethostname()} does not see what is at {world.folder}/" in error["message"]
        assert error["hint"].startswith("mount the same folder")
        assert ran["stdout"] == ""
    assert not world.files("empty"), "nothing was written where it does not belong"
    assert not list(dest.glob(".tmp-*"))
    assert "unseen" not in Catalog(LocalStore(f"{world.folder}/spark/catalog")).snapshot().definition.exported_snapshots
    for name in ("spark", "unseen"):
        # nothing is left of what proved it
        assert not [path for path in world.files(f"{name}/catalog") if path.startswith(".tmp-")]


def submit(world: World, cluster: Cluster, python: str) -> None:
    """The guide's recipe as Airflow's operator types it, with a Python that lacks this package, on the worker that is
    left: it runs where spark-submit says, under that name, and ends with the command's exit code."""
    import pyspark

    folder, home = world.folder / "submitted", Path(pyspark.__file__).parent
    subprocess.run([sys.executable, "-m", "olympia_cli.spark.job", "--files", str(folder)], check=True)
    (world.folder / "seen").mkdir()
    catalog = shutil.copytree(world.folder / "unseen" / "catalog", world.folder / "seen" / "catalog")
    (catalog / str(Catalog(LocalStore(str(catalog))).snapshot().find(table("a.sound")))).unlink()
    places = {"spark://head:7077": cluster.url, "s3://lake/catalog": str(catalog), "/opt/olympia": str(folder)}
    words = recipes.operator_words(recipes.GUIDE)
    assert words == recipes.submit_words(recipes.GUIDE), "the two recipes are one command"
    for text, place in places.items():
        words = [word.replace(text, place) for word in words]
    short = {"spark.executor.extraJavaOptions": SHORT_LIVED, "spark.driver.extraJavaOptions": SHORT_LIVED}
    settings = {**logged(world.folder), **short, "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    defaults = world.folder / "spark-defaults.conf"
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    # a worker of the cluster has no room for more
    words = [word.replace("spark.executor.memory=1g", "spark.executor.memory=512m") for word in words]
    environment = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(world.folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": python, "PYTHONPATH": ""}
    done = subprocess.run(
        [str(home / "bin" / words[0]), *words[1:], "--parallelism", "2"],
        env={**os.environ, **environment},
        cwd=world.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 50, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert [one["code"] for one in found["findings"] if one["severity"] == "error"] == ["F301"], found["findings"]
    assert measured(found)["damaged"]
    properties = next(event for event in events(world.folder) if event["Event"] == "SparkListenerEnvironmentUpdate")
    assert properties["Spark Properties"]["spark.app.name"] == "olympia-fsck"
    assert properties["Spark Properties"]["spark.master"] == cluster.url
    said = {
        event["Properties"]["spark.job.description"] for event in events(world.folder) if event["Event"] == JOB_START
    }
    assert all(text.startswith("olympia fsck") for text in said)


def play(world: World, program: subprocess.Popen[str], cluster: Cluster) -> None:
    """Stop a worker before the second level of nodes is read, and kill it once it has a task of that. So it dies with
    the task, whatever the machine's speed, and with what it kept of the levels before."""
    levels = 0
    for line in program.stdout or ():
        [(what, said)] = json.loads(line).items()
        if what == "running":
            cluster.kill_worker(0)
        elif what == "phase":
            levels += said == "reading nodes"
            answer = "go"
            if said == "reading nodes" and levels == 2:
                cluster.stop_worker(0)
                answer = "watch"
            assert program.stdin is not None
            program.stdin.write(f"{answer}\n")
            program.stdin.flush()
        else:
            world.take(what, said)
