"""The program as a process of its own, with a Spark that it starts: what it says, and what it keeps to itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.s3 import S3Store
from tests.cli.conftest import Ran, command_line
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.shelf import make_shelf
from tests.helpers.spark_cluster import SHORT_LIVED, spark_cluster

PROGRAM = Path(__file__).parent / "session_program.py"
LOGGED = "spark.eventLog.enabled true\nspark.eventLog.rolling.enabled false\nspark.eventLog.compress false\n"
ON_SPARK = ("--engine", "spark", "--master", "local[2]", "--parallelism", "2")


@pytest.fixture
def program(tmp_path, monkeypatch):
    quiet_environment(monkeypatch)
    (tmp_path / "config.toml").touch()
    (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {SHORT_LIVED}\n")

    def start(*args: str, **env: str) -> Ran:
        # a port of its own choice for a server
        own = {"OLYMPIA_CONFIG": str(tmp_path / "config.toml"), "SPARK_CONF_DIR": str(tmp_path), "SPARK_TESTING": "1"}
        environment = {**os.environ, **own, **env}
        done = subprocess.run(
            [*command_line(), *args],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.PIPE,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return start


def test_output_of_spark_goes_to_stderr_with_verbose_only(program, tmp_path):
    shelf = make_shelf(tmp_path / "shelf")
    words = ("-c", shelf.uri, "table", "files", "sound", "--json")
    here = program(*words).ok()
    with (tmp_path / "spark-defaults.conf").open("a") as defaults:
        defaults.write(
            f"spark.master local[2]\nspark.app.name nightly\nspark.ui.enabled true\nspark.ui.port 0\n{LOGGED}"
        )
        defaults.write(f"spark.eventLog.dir file://{tmp_path}\nspark.sql.shuffle.partitions 7\n")
    chosen = ("--engine", "spark", "--parallelism", "2", "--conf", "spark.task.maxFailures=2")
    loud = program(*words, *chosen, "--conf", "spark.ui.retainedTasks=99", "--verbose", SPARK_TESTING="").ok()
    assert loud.stdout == here.stdout
    assert "engine: spark: requested by an option" in loud.stderr.splitlines()
    assert "reading tables" in loud.stderr.splitlines()
    assert "WARN" in loud.stderr, "what Spark itself says"
    check_event_log(tmp_path)


def check_event_log(folder: Path) -> None:
    """Settings of spark-defaults.conf apply unless a flag replaces them, and jobs have descriptive names."""
    [log] = folder.glob("local-*")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    environment = next(event for event in events if event["Event"] == "SparkListenerEnvironmentUpdate")
    properties = environment["Spark Properties"]
    assert properties["spark.app.name"] == "nightly"
    assert properties["spark.ui.enabled"] == "true"
    assert properties["spark.master"] == "local[2]"
    assert properties["spark.sql.shuffle.partitions"] == "7"
    assert properties["spark.task.maxFailures"] == "2"
    assert properties["spark.ui.retainedTasks"] == "99"
    begun = [event for event in events if event["Event"] == "SparkListenerJobStart"]
    said = {event["Properties"]["spark.job.description"] for event in begun}
    assert said == {f"olympia table files{step}" for step in (": reading tables", "", ": what it took")}
    assert {stage["Stage Name"] for event in begun for stage in event["Stage Infos"]} == said


def test_executors_without_credentials(program, tmp_path):
    """The user who started it may read, but the executors may not. A job that fails on them prints one line, too."""
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        catalog = Catalog.create(S3Store(BUCKET, "lake", s3_options(server.url)))
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName("ns"))
            transaction.create_table(TableName("ns", "t"), "s3://lake/t")
        catalog.store.close()
        allowed = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        with (tmp_path / "spark-defaults.conf").open("a") as defaults:
            defaults.write("spark.executorEnv.AWS_ACCESS_KEY_ID nobody\n")
        words = ("-c", f"s3://{BUCKET}/lake", "table", "files", "ns", *ON_SPARK)
        done = program(*words, **allowed)
    done.failed(31, "Spark's executors have no access: s3://", "spark.executorEnv.*", "storage options")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert "hunter2" not in done.stderr


def test_masters_that_give_nothing(tmp_path):
    """The first master has no workers, and the second one accepts connections but never answers."""
    with spark_cluster(tmp_path, workers=0) as cluster, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        deaf = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        # the last of them goes on waiting for an answer, so no other can be asked after it; the first warms up
        asked = [["local[1]", 300], [cluster.url, 20], [deaf, 2]]
        done = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps(asked)], cwd=tmp_path, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    _, workless, unheard = json.loads(done.stdout)
    assert workless.startswith(f"SparkUnreachable: {cluster.url} answers, and gave no executor within 20 s: check that")
    assert unheard.startswith(f"SparkUnreachable: the master {deaf} did not answer within 2 s: check its address")
    assert done.stderr == ""
