"""Iceberg's own runtime in Spark against the server: what its users do in SQL."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import load_catalog

from olympia_cli import Catalog
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.iceberg import OlympiaCatalog
from tests.engines.clients import EngineError
from tests.engines.conftest import SparkLake as Lake


@pytest.fixture
def namespace(lake: Lake, request: pytest.FixtureRequest) -> str:
    """A namespace of the test's own, as SQL has it."""
    name = request.node.name.partition("[")[0].removeprefix("test_")
    lake.sql(f"create namespace lake.{name}")
    return f"lake.{name}"


def types(lake: Lake) -> list[str]:
    """Return the types of the latest version's actions."""
    actions = Catalog.open(lake.uri).snapshot().actions()
    return [action.type_name for action in actions if action.type != ActionType.COMMIT_INFO]


def test_namespaces_with_properties(lake):
    lake.sql("create namespace lake.ns with dbproperties ('team' = 'x', 'more' = 'y')")
    lake.sql("create namespace if not exists lake.ns")
    lake.sql("alter namespace lake.ns set properties ('more' = 'z')")
    team = "x"
    # Spark 3.5 has no statement for it
    if lake.sql("select version()")[0][0].startswith("4"):
        lake.sql("alter namespace lake.ns unset properties ('team')")
        team = None
    properties = lake.show("ns", "show", "ns")["properties"]
    assert {key: properties.get(key) for key in ("team", "more")} == {"team": team, "more": "z"}
    assert ("ns",) in lake.sql("show namespaces in lake")
    with pytest.raises(Exception, match="namespaces have one level in this catalog"):
        lake.sql("create namespace lake.ns.deeper")
    lake.sql("drop namespace lake.ns")
    assert ("ns",) not in lake.sql("show namespaces in lake")


def test_rows_come_go_and_change(lake, namespace):
    t = f"{namespace}.t"
    lake.sql(f"create table {t} (id bigint not null, name string, ts timestamp) partitioned by (days(ts))")
    lake.sql(
        f"insert into {t} values (1, 'a', timestamp'2026-11-15 10:00:00'), (2, 'b', timestamp'2026-11-16 10:00:00')"
    )
    assert types(lake) == ["TABLE_INSERT"]
    c = f"{namespace}.c"
    lake.sql(f"create table {c} as select id, name from {t}")
    assert types(lake) == ["TABLE_CREATE", "TABLE_INSERT"], "one version, with its rows"
    lake.sql(f"create or replace table {c} as select id, name, 7 as n from {t}")
    lake.sql(
        f"merge into {c} t using (select 2 id, 'B' name, 1 n union all select 9, 'z', 2) u on t.id = u.id "
        "when matched then update set name = u.name when not matched then insert *"
    )
    assert types(lake) == ["TABLE_UPDATE"]
    assert lake.sql(f"select * from {c} order by id") == [(1, "a", 7), (2, "B", 7), (9, "z", 2)]
    lake.sql(f"update {c} set name = 'bb' where id = 2")
    modes = ", ".join(f"'write.{word}.mode' = 'merge-on-read'" for word in ("delete", "update", "merge"))
    lake.sql(f"alter table {c} set tblproperties ({modes})")
    lake.sql(f"update {c} set name = 'later' where id = 9")
    lake.sql(f"delete from {c} where id = 1")
    assert types(lake) == ["TABLE_DELETE"]
    rows = [(2, "bb", 7), (9, "later", 2)]
    assert lake.sql(f"select * from {c} order by id") == rows
    # what another reader finds, delete files and all
    name = c.removeprefix("lake.")
    for reader in (load_catalog("rest", type="rest", uri=lake.url), OlympiaCatalog("own", warehouse=lake.uri)):
        found = reader.load_table(name).scan().to_arrow().sort_by("id").to_pylist()
        assert [tuple(row.values()) for row in found] == rows
    lake.sql(f"insert overwrite {c} values (5, 'five', 5)")
    assert lake.sql(f"select * from {c}") == [(5, "five", 5)]


def test_columns_and_partitions_change(lake, namespace):
    t = f"{namespace}.t"
    lake.sql(f"create table {t} (id bigint not null, name string, n int)")
    lake.sql(f"insert into {t} values (1, 'a', 1)")
    lake.sql(f"alter table {t} add column extra struct<a: int, b: string> comment 'x' after id")
    assert types(lake) == ["TABLE_ALTER_ADD_COLUMNS"]
    lake.sql(f"alter table {t} rename column name to title")
    lake.sql(f"alter table {t} alter column n type bigint")
    lake.sql(f"alter table {t} drop column extra")
    assert types(lake) == ["TABLE_ALTER_REMOVE_COLUMNS"]
    lake.sql(f"alter table {t} add partition field bucket(4, id)")
    lake.sql(f"alter table {t} replace partition field id_bucket_4 with bucket(8, id)")
    lake.sql(f"alter table {t} write ordered by id desc")
    lake.sql(f"alter table {t} set identifier fields id")
    lake.sql(f"insert into {t} values (2, 'b', {2**40})")
    assert lake.sql(f"select * from {t} order by id") == [(1, "a", 1), (2, "b", 2**40)]
    # one file is of each way to partition
    assert len(lake.sql(f"select distinct spec_id from {t}.files")) == 2
    # who reads the table as of then has the columns of then
    before = OlympiaCatalog("own", warehouse=lake.uri).at("latest~9").load_table(t.removeprefix("lake."))
    assert before.scan().to_arrow().to_pylist() == [{"id": 1, "name": "a", "n": 1}]


def test_snapshots_branches_and_metadata_tables(lake, namespace):
    t = f"{namespace}.t"
    lake.sql(f"create table {t} (id bigint)")
    for number in range(3):
        lake.sql(f"insert into {t} values ({number})")
    [first, second, last] = [row[0] for row in lake.sql(f"select snapshot_id from {t}.snapshots order by committed_at")]
    assert lake.sql(f"select count(*) from {t} version as of {first}") == [(1,)]
    lake.sql(f"alter table {t} create tag early as of version {first}")
    lake.sql(f"alter table {t} create branch audit")
    lake.sql(f"insert into {t}.branch_audit values (50)")
    counts = [lake.sql(f"select count(*) from {t} version as of '{name}'") for name in ("early", "audit", "main")]
    assert counts == [[(1,)], [(4,)], [(3,)]]
    lake.sql(f"call lake.system.fast_forward('{t.removeprefix('lake.')}', 'main', 'audit')")
    lake.sql(f"alter table {t} drop branch audit")
    assert lake.sql(f"select count(*) from {t}") == [(4,)]
    for relation, rows in {"history": 4, "refs": 2, "files": 4, "manifests": 4, "entries": 4}.items():
        assert lake.sql(f"select count(*) from {t}.{relation}") == [(rows,)], relation
    lake.sql(f"call lake.system.rollback_to_snapshot('{t.removeprefix('lake.')}', {second})")
    assert lake.sql(f"select count(*) from {t}") == [(2,)]
    lake.sql(f"call lake.system.set_current_snapshot('{t.removeprefix('lake.')}', {last})")
    assert lake.sql(f"select count(*) from {t}") == [(3,)]


def test_renaming_and_dropping(lake, namespace):
    t, name = f"{namespace}.t", namespace.removeprefix("lake.")
    lake.sql(f"create table {t} as select 1L as id")
    # Spark takes the new name literally: no catalog before it
    lake.sql(f"alter table {t} rename to {name}.u")
    assert lake.sql(f"show tables in {namespace}") == [(name, "u", False)]
    with pytest.raises(EngineError):
        lake.sql(f"select * from {t}")
    with pytest.raises(Exception, match="not empty"):
        lake.sql(f"drop namespace {namespace}")
    lake.sql(f"drop table {namespace}.u")
    assert lake.sql(f"show tables in {namespace}") == []
    lake.olympia("table", "restore", f"{name}.u", "--at", "latest~1")
    assert lake.sql(f"select * from {namespace}.u") == [(1,)]


def test_views(lake, namespace):
    t, v, name = f"{namespace}.t", f"{namespace}.v", namespace.removeprefix("lake.")
    lake.sql(f"create table {t} as select id from range(4)")
    lake.sql(f"create view {v} as select id from {t} where id > 1")
    assert lake.sql(f"select * from {v} order by id") == [(2,), (3,)]
    lake.sql(
        f"create or replace view {v} (i comment 'x') comment 'less' tblproperties ('p' = 'q') as select id from {t}"
    )
    assert lake.sql(f"select sum(i) from {v}") == [(6,)]
    lake.sql(f"alter view {v} set tblproperties ('a' = 'b')")
    lake.sql(f"alter view {v} unset tblproperties ('p')")
    shown = lake.sql(f"show create table {v}")[0][0]
    assert "'a' = 'b'" in shown
    assert "'p'" not in shown
    lake.sql(f"alter view {v} rename to {namespace}.w")
    assert lake.sql(f"show views in {namespace}") == [(name, "w", False)]
    with pytest.raises(EngineError, match="already exists"):
        lake.sql(f"create view {t} as select 1 as x")
    with pytest.raises(EngineError, match="already exists"):
        lake.sql(f"create table {namespace}.w (x int)")
    lake.sql(f"drop view {namespace}.w")
    lake.sql(f"drop view if exists {namespace}.w")
    assert lake.sql(f"show views in {namespace}") == []
