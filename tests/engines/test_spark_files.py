"""Iceberg's own maintenance in Spark: which files it deletes, and what older versions of the catalog then have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engines.conftest import SparkLake as Lake

EXPIRE = (
    "call {0}.system.expire_snapshots(table => '{1}', older_than => timestamp'2100-01-01 00:00:00', retain_last => 1)"
)


def filled(lake: Lake, name: str, table: str) -> int:
    """A table that was written to thrice and rewritten, so that its oldest files are in older snapshots alone; the
    version before it was."""
    lake.sql(f"create table {name}.{table} as select 1 as id")
    for number in (2, 3):
        lake.sql(f"insert into {name}.{table} values ({number})")
    version = lake.version
    lake.sql(f"call {name}.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    lake.sql(f"call {name}.system.rewrite_manifests('{table}')")
    return version


def rows_at(lake: Lake, table: str, version: int) -> list[int]:
    return sorted(row["id"] for row in lake.show("table", "head", table, "--at", f"v{version}")["rows"])


@pytest.fixture(scope="module")
def files(lake: Lake) -> Lake:
    lake.sql("create namespace lake.files")
    return lake


@pytest.fixture(scope="module")
def keeping(spark_lakes: Callable[..., Lake]) -> Lake:
    found = spark_lakes("keeping", "--keep-files")
    found.sql("create namespace keeping.files")
    return found


def test_a_rewrite_deletes_nothing(files):
    version = filled(files, "lake", "files.rewritten")
    assert files.sql("select count(*) from lake.files.rewritten.files") == [(1,)]
    assert rows_at(files, "files.rewritten", version) == [1, 2, 3]


def test_expired_snapshots_are_unreadable_in_older_versions_and_logged(files):
    version = filled(files, "lake", "files.expired")
    files.sql(EXPIRE.format("lake", "files.expired"))
    assert files.sql("select count(*) from lake.files.expired") == [(3,)]
    last = files.show("log", "-n", "1")
    assert "expired, whose files engines delete" in str(last)
    missing = files.olympia("table", "head", "files.expired", "--at", f"v{version}", code=10)
    assert missing == ""


def test_drop_table_purge_in_spark_deletes_the_files(files):
    """Spark does not ask the server to delete them; the table can be restored, but not read."""
    version = filled(files, "lake", "files.purged")
    files.sql("drop table lake.files.purged purge")
    files.olympia("table", "head", "files.purged", "--at", f"v{version}", code=10)


def test_a_server_that_keeps_files_has_engines_delete_none(keeping):
    version = filled(keeping, "keeping", "files.kept")
    for statement in (
        EXPIRE.format("keeping", "files.kept"),
        "call keeping.system.remove_orphan_files(table => 'files.kept')",
        "drop table keeping.files.kept purge",
    ):
        with pytest.raises(Exception, match="GC is disabled"):
            keeping.sql(statement)
    assert rows_at(keeping, "files.kept", version) == [1, 2, 3]
    keeping.sql("create or replace table keeping.files.kept as select 7 as id")
    assert keeping.sql("select * from keeping.files.kept") == [(7,)]
    # who owns a table may say otherwise
    keeping.sql("alter table keeping.files.kept set tblproperties ('gc.enabled' = 'true')")
    keeping.sql("drop table keeping.files.kept purge")
    assert keeping.sql("show tables in keeping.files") == []
