"""One Spark with Iceberg's own runtime for all of these tests, and `olympia serve` as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.helpers.spark_cluster import SHORT_LIVED

PROGRAM = (sys.executable, "-m", "olympia_cli")
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
CATALOG = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    jars = sorted(Path(os.environ["OLYMPIA_TEST_ENGINES"]).absolute().glob("iceberg-*.jar"))
    if len(jars) != 2:
        pytest.skip("Iceberg's runtime for Spark could not be fetched: `make test-engines` says more")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": EXTENSIONS,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@dataclass
class Lake:
    """A catalog, a server for it, and Spark as the server's client: as often as there are names for it."""

    spark: SparkSession
    uri: str
    url: str
    environment: Mapping[str, str]
    known: set[str] = field(default_factory=set)

    def connect(self, name: str, **settings: str) -> None:
        """Spark knows the server by a name, each time as a client of its own."""
        # Spark keeps a catalog that it has loaded
        assert name not in self.known
        self.known.add(name)
        key = f"spark.sql.catalog.{name}"
        self.spark.conf.set(key, CATALOG)
        for word, value in {"type": "rest", "uri": self.url, **settings}.items():
            self.spark.conf.set(f"{key}.{word.replace('_', '-')}", value)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def olympia(self, *words: str, code: int = 0) -> str:
        """The program, on the catalog itself."""
        done = subprocess.run(
            [*PROGRAM, "-c", self.uri, *words], capture_output=True, text=True, env=dict(self.environment)
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def show(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.olympia(*words, "--json", code=code))

    @property
    def version(self) -> int:
        return int(self.show("status")["version"])

    def check(self) -> None:
        """What Spark wrote is what fsck expects of tables."""
        found = self.show("fsck", "--level", "data")
        assert [one for one in found["findings"] if one["severity"] != "info"] == []


@contextmanager
def lake_at(
    spark: SparkSession, uri: str, log: Path, *words: str, environment: Mapping[str, str] | None = None
) -> Iterator[Lake]:
    """A new catalog there, served to the end of the block."""
    here = {**os.environ, **(environment or {})}
    subprocess.run([*PROGRAM, "init", uri], check=True, env=here, capture_output=True)
    serve = [*PROGRAM, "-c", uri, "serve", "--port", "0", "--json", *words]
    with (
        log.open("wb") as errors,
        subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=errors, text=True, env=here) as server,
    ):
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line, log.read_text()
            yield Lake(spark, uri, json.loads(line)["url"], here)
        finally:
            server.terminate()
    assert server.returncode == 0, log.read_text()[-2000:]


@pytest.fixture(scope="session")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """On this machine's disk. Each test has a namespace of its own; whatever they did, it is sound at the end."""
    folder = tmp_path_factory.mktemp("engines")
    with lake_at(spark, str(folder / "lake"), folder / "serve.log") as found:
        found.connect("lake")
        yield found
        found.check()
