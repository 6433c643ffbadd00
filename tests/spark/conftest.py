"""Fixtures of the Spark tests: one Spark for all, and a catalog with every kind of object and a history."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.storage.local import LocalStore
from tests.helpers.planted import SECRET
from tests.helpers.spark_cluster import LITTLE_DATA, WORKERS

NAMESPACES = 6
TABLES = 20


def make_catalog(folder: Path) -> Catalog:
    """Some hundred objects in a tree of three levels; tables renamed, dropped, and brought back by a rollback."""
    catalog = Catalog.create(LocalStore(str(folder)), order=12, properties={"team": "lake"})
    for number in range(NAMESPACES):
        with catalog.transaction(f"namespace {number}") as transaction:
            transaction.create_namespace(NamespaceName(f"ns{number}"), {"number": str(number)})
            for at in range(TABLES):
                transaction.create_table(
                    TableName(f"ns{number}", f"t{at:02}"), f"s3://lake/{number}/{at}", {"at": str(at)}
                )
    with catalog.transaction("odd names") as transaction:
        transaction.create_namespace(NamespaceName("δ.ns"))
        transaction.create_table(TableName("δ.ns", 'a "b" 😀'.replace(" ", "_")), "s3://odd")
        transaction.create_view(ViewName("ns0", "seen"), ViewDef(substrait_read_rel=b"plan"))
    with catalog.transaction("changes") as transaction:
        transaction.rename_table(TableName("ns1", "t03"), TableName("ns1", "renamed"))
        transaction.drop_table(TableName("ns2", "t00"))
    with catalog.transaction("a mistake") as transaction:
        transaction.drop_namespace(NamespaceName("ns5"), cascade=True)
    undoing = catalog.begin()
    undoing.roll_back(catalog.snapshot().version - 1)
    catalog.commit(undoing, "back")
    with catalog.transaction("after") as transaction:
        transaction.create_table(TableName("ns3", "after"), "s3://lake/after")
    return catalog


@pytest.fixture(scope="session")
def sample(tmp_path_factory) -> Catalog:
    """A catalog that no test changes."""
    return make_catalog(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Started once. `make test` gets Java where it can. Programs with a Spark of their own run with what Spark has by
    itself."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("there is no Java on this machine")
    from olympia_cli.spark.session import spark_session

    settings = {
        **LITTLE_DATA,
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(WORKERS), prepend=os.pathsep)
            session = stack.enter_context(spark_session(master="local[2]", settings=settings, wait=300))
        yield session


@pytest.fixture
def read(spark, sample):
    """Read a table of the sample, or of another catalog."""

    def load(what: str | None, catalog: Catalog = sample, *, columns: str | None = None, **options):
        reader = spark.read.format("olympia").option("catalog", catalog.store.uri)
        for name, value in options.items():
            reader = reader.option(name, value)
        if columns is not None:
            reader = reader.schema(columns)
        return reader.load(what) if what is not None else reader.load()

    return load


def lose(spark) -> int:
    """The executors lose all that they keep; how much that was."""
    kept = dict(spark.sparkContext._jsc.getPersistentRDDs()).values()
    for rdd in kept:
        level = rdd.getStorageLevel()
        rdd.unpersist(True).persist(level)
    return len(kept)


class Losing:
    """Progress during which the executors lose, once, all that they keep."""

    def __init__(self, spark) -> None:
        self._spark = spark
        self.lost = 0

    def phase(self, what: str, total: int | None = None) -> None:
        if what == "reading definitions" and not self.lost:
            self.lost = lose(self._spark)

    def advance(self, count: int = 1) -> None:
        pass
