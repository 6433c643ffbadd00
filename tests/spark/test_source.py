"""`format("olympia")` in a real Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import (
    CatalogNotFound,
    Damaged,
    ExecutorUnprepared,
    InvalidOption,
    OlympiaError,
    VersionNotFound,
)
from olympia_cli.format.paths import root_path
from olympia_cli.names import Kind, NamespaceName
from olympia_cli.ops.inspect import describe_action, describe_object, log
from olympia_cli.spark import register, source
from olympia_cli.spark.failures import explain, explained
from olympia_cli.spark.pins import arrow_schema
from olympia_cli.storage.local import LocalStore
from tests.helpers.expire import record_export
from tests.helpers.reach import reach_of
from tests.spark.conftest import make_catalog


def failure(call) -> OlympiaError:
    with pytest.raises(OlympiaError) as raised, explained():
        call()
    assert "\n" not in str(raised.value)
    return raised.value


def moment(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC).replace(tzinfo=None)


def test_our_types_are_those_that_spark_expects():
    from pyspark.sql.pandas.types import to_arrow_schema

    from olympia_cli.spark.source import spark_schema

    for columns in source.COLUMNS.values():
        assert to_arrow_schema(spark_schema(columns), timezone="UTC").equals(arrow_schema(columns))


def test_objects(read, sample):
    snapshot = sample.snapshot()
    found = (one for kind in list(Kind)[1:] for one in snapshot.objects(kind))
    expected = {one["definition"]: one for one in (describe_object(one, snapshot.version) for one in found)}
    rows = read("objects", partitions="3").collect()
    assert len(rows) == len(expected)
    for row in rows:
        one = expected[row.definition]
        assert (row.id, row.name, row.properties, row.version) == (
            one["id"],
            one["name"],
            one["properties"],
            snapshot.version,
        )
        assert row.metadata_location == one.get("metadata_location")
    assert {row.type for row in rows} == {"namespace", "table", "view"}


def test_versions_and_actions(read, sample):
    entries = {entry.version: entry for entry in log(sample.snapshot(), 0)}
    versions = read("versions").collect()
    assert {row.version for row in versions} == set(entries)
    for row in versions:
        entry = entries[row.version]
        assert row.created_at == moment(entry.snapshot.created_at_millis)
        assert (row.by, row.message, row.rollback_to) == (entry.by, entry.message, entry.rollback_to)
    actions = read("actions", partitions="4").collect()
    expected = {
        (entry.version, at): describe_action(action)
        for entry in entries.values()
        for at, action in enumerate(entry.changes)
    }
    assert len(actions) == len(expected)
    for row in actions:
        one = expected[row.version, row.position]
        assert (row.type, row.object, row.namespace, row.name) == tuple(one.values())[:4]
        assert json.loads(row.detail) == one["detail"]


def test_nodes_and_files(read, sample):
    reach = reach_of(sample.store)
    reach.add((root_path(version), sample.store.read(root_path(version))) for version in range(12))
    files = {file.path: file for file in sample.store.list()}
    nodes = read("nodes", since="oldest", partitions="3").collect()
    assert len(nodes) == len({row.path for row in nodes})
    assert {row.path for row in nodes} == {path for path in files if path in reach and not path.startswith("def/")}
    rows = read("files").collect()
    assert {(row.path, row.bytes, row.modified_at) for row in rows} == {
        (file.path, file.size, moment(file.modified_at_millis)) for file in files.values()
    }
    assert len(rows) == len(files)


def test_each_partition_reads_its_own_part(read):
    from pyspark.sql.functions import spark_partition_id

    frame = read("objects", partitions="4", columns="type string, namespace string, name string")
    counts = {row[0]: row[1] for row in frame.groupBy(spark_partition_id()).count().collect()}
    assert len(counts) == 4
    assert sum(counts.values()) == 129
    assert min(counts.values()) > 10


def test_time_travel(read, spark, tmp_path):
    catalog = make_catalog(tmp_path)
    frozen = read("objects", catalog)
    with catalog.transaction() as transaction:
        record_export(transaction, "friday", 2)
        transaction.create_namespace(NamespaceName("late"))
    at_two = catalog.snapshot().created_at_millis
    names = {
        "version": frozenset(row.namespace for row in read("objects", catalog, version="2").collect()),
        "snapshot": frozenset(row.namespace for row in read("objects", catalog, snapshot="friday").collect()),
        "time": frozenset(
            row.namespace for row in read("objects", catalog, timestampAsOf=f"{moment(at_two).isoformat()}Z").collect()
        ),
    }
    assert names["version"] == names["snapshot"] == {"ns0", "ns1"}
    assert "late" in names["time"]
    # a DataFrame stays with the version that was the latest when it was made
    assert "late" not in {row.namespace for row in frozen.collect()}


def test_files_that_options_exclude_are_not_read(read, tmp_path):
    catalog = make_catalog(tmp_path)
    gone = [found.path for found in catalog.snapshot().objects(Kind.TABLE, "ns3")]
    catalog.store.delete_many(gone)
    assert isinstance(failure(read("objects", catalog).collect), Damaged)
    assert read("objects", catalog, namespace="ns2", type="table").count() == 19
    # columns that are in the tree need no definitions
    assert read("objects", catalog, namespace="ns3", columns="name string").count() == 22
    catalog.store.delete_many([root_path(4)])
    assert isinstance(failure(read("versions", catalog).collect), Damaged)
    assert {row.version for row in read("versions", catalog, since="5", version="6").collect()} == {5, 6}


def test_queries_on_one_frame_do_not_meddle(read):
    """Columns that one query leaves out are there for the next one, and for the other side of a union."""
    frame = read("objects")
    two, three = frame.where("namespace = 'ns2'"), frame.where("namespace = 'ns3'")
    assert two.count() == 20
    assert frame.count() == 129
    assert two.union(three).count() == 42


def test_nothing_is_an_empty_table(read, tmp_path):
    empty = Catalog.create(LocalStore(str(tmp_path)))
    assert read("objects", empty).collect() == []
    assert read("objects").where("type = 'nonsense'").collect() == []


@pytest.mark.parametrize(
    ("what", "options", "error", "said"),
    [
        ("tables", {}, InvalidOption, "not a table of a catalog"),
        ("objects", {"verison": "3"}, InvalidOption, "'verison' is not an option"),
        ("objects", {"version": "99"}, VersionNotFound, "version 99 does not exist: the latest is 11"),
        ("objects", {"columns": "nonsense string"}, InvalidOption, "objects has no column 'nonsense'"),
        ("objects", {"columns": "name int"}, InvalidOption, "the column name is not a int"),
    ],
)
def test_bad_input_is_one_line(read, what, options, error, said):
    found = failure(lambda: read(what, **options).collect())
    assert type(found) is error
    assert said in str(found)


def test_a_folder_without_a_catalog(spark, tmp_path):
    found = failure(lambda: spark.read.format("olympia").option("catalog", str(tmp_path)).load("objects"))
    assert type(found) is CatalogNotFound


def test_secrets_are_not_shown(spark, sample):
    reader = spark.read.format("olympia").option("catalog", sample.store.uri).option("storage.secret", "hunter2")
    with pytest.raises(AnalysisException) as raised:
        reader.load("objects")
    assert "file:// takes no options: secret" in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert type(explain(raised.value)) is InvalidOption


def test_workers_without_a_package(spark, read, tmp_path):
    """A Python that has nothing installed."""
    import subprocess
    import sys

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    context = spark.sparkContext
    usual = context.pythonExec
    context.pythonExec = str(tmp_path / "bare" / "bin" / "python")
    try:
        register(spark)
        found = failure(lambda: read("objects").collect())
    finally:
        context.pythonExec = usual
        register(spark)
    assert type(found) is ExecutorUnprepared
    assert "lack the package" in str(found)


def test_spark_is_quiet(spark, read, capfd):
    failure(lambda: read("objects", version="99").collect())
    read("files").count()
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""


# SQL


@pytest.fixture
def dropping(spark):
    """Tables of Spark's that are gone afterwards."""
    yield lambda text: spark.sql(text)
    for name in ("t", "listed", "rows", "misspelt"):
        spark.sql(f"drop table if exists {name}")


def test_a_table_in_sql(spark, dropping, tmp_path):
    """Spark injects options of its own when it is made, and none when it is read. It is read as the catalog is then."""
    catalog = make_catalog(tmp_path / "catalog")
    options = f"options (catalog '{catalog.store.uri}', path 'objects', type 'namespace')"
    dropping(f"create table t using olympia {options} comment 'all of them' tblproperties ('who' = 'me')")
    number = len(list(catalog.snapshot().objects(Kind.NAMESPACE)))
    assert spark.sql("select count(*) as number from t where type = 'namespace'").collect()[0].number == number
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("later"))
    assert spark.table("t").where("name = 'later'").count() == 1
    assert spark.table("t").count() == number + 1
    refused = failure(lambda: dropping(f"create table misspelt using olympia {options[:-1]}, verison '3')"))
    assert refused.message == "'verison' is not an option of olympia"
    # with columns of one's own nothing is left of the options, and the hint is what to type
    dropping(f"create table listed (name string) using olympia {options}")
    lost = failure(lambda: spark.sql("select * from listed").collect())
    assert lost.hint.endswith("select from it WITH (catalog = …, path = …)")
    assert spark.sql(f"select * from listed with (catalog = '{catalog.store.uri}', path = 'objects')").count() > number


def test_views_of_all_relations(spark, sample):
    register(spark, sample.store.uri, views=True)
    for what in source.COLUMNS:
        assert spark.table(f"olympia_{what}").columns == list(source.COLUMNS[what])
    counted = spark.sql("select count(*) as number from olympia_objects where type = 'table'").collect()[0].number
    assert counted == len(list(sample.snapshot().objects(Kind.TABLE)))
    names = spark.sql("select * from olympia_names where type = 'table'")
    assert names.columns == ["type", "namespace", "name", "definition", "version"]
    assert names.count() == counted
    with pytest.raises(InvalidOption, match="add catalog=URI"):
        register(spark, views=True)


def test_errors_of_spark_sql_stay_unchanged(spark):
    """PySpark tells a log of its own of them, which must be of its own kind."""
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("select * from nowhere")
