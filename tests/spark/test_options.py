"""Options as Spark passes them on."""

from __future__ import annotations

import os

import pytest

from olympia_cli.errors import InvalidLocation, InvalidName, InvalidOption, InvalidReference
from olympia_cli.names import Ago, AtExport, AtTime, AtVersion, Latest, TableName
from olympia_cli.spark.options import parse_options, parse_write_options, table_options


def parse(**options: str):
    return parse_options({"catalog": "/lake", "path": "objects", **options})


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({}, Latest()),
        ({"version": "12"}, AtVersion(12)),
        ({"versionAsOf": "v12"}, AtVersion(12)),
        ({"version": "latest~2"}, Latest(2)),
        ({"timestamp": "2026-11-15"}, AtTime(1_794_700_800_000)),
        ({"timestampAsOf": "2026-11-15 00:00:00"}, AtTime(1_794_700_800_000)),
        ({"timestamp": "2h"}, Ago(7_200_000)),
        ({"snapshot": "nightly"}, AtExport("nightly")),
        ({"snapshot": "3"}, AtVersion(3)),
    ],
)
def test_the_version(options, reference):
    assert parse(**options).reference == reference


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"catalog": ""}, InvalidOption),
        ({"catalog": "memory://x"}, InvalidLocation),
        ({"path": "tables"}, InvalidOption),
        ({"path": "objects", "table": "a.b"}, InvalidOption),
        ({"verison": "3"}, InvalidOption),
        ({"version": "3", "timestamp": "2026-11-15"}, InvalidOption),
        ({"version": "2026-11-15"}, InvalidOption),
        ({"timestamp": "12"}, InvalidOption),
        ({"version": "no such thing"}, InvalidReference),
        ({"path": "files", "version": "3"}, InvalidOption),
        ({"since": "3"}, InvalidOption),
        ({"kind": "root"}, InvalidOption),
        ({"path": "versions", "namespace": "a"}, InvalidOption),
        ({"filter": "id = 3"}, InvalidOption),
        ({"partitions": "0"}, InvalidOption),
        ({"partitions": "many"}, InvalidOption),
        ({"partitions": "9" * 40}, InvalidOption),
        ({"maxVersionsPerTrigger": "-1"}, InvalidOption),
        ({"startingVersion": ""}, InvalidReference),
    ],
)
def test_nonsense_is_refused(options, error):
    with pytest.raises(error) as raised:
        parse(**options)
    assert raised.value.exit_code == 2


def test_options_that_load_nothing_are_refused():
    with pytest.raises(InvalidOption, match="load one of objects"):
        parse_options({"catalog": "/lake"})


def test_a_table_has_a_full_name():
    assert parse_options({"catalog": "/lake", "table": '"a.b".t'}).table == TableName("a.b", "t")
    with pytest.raises(InvalidName):
        parse_options({"catalog": "/lake", "table": "t"})


def test_a_relative_folder_means_the_same_everywhere():
    assert parse(catalog="lake").catalog == os.path.abspath("lake")
    assert parse(catalog="s3://bucket/lake").catalog == "s3://bucket/lake"


def test_secrets_are_in_no_repr():
    asked = parse(**{"storage.secret": "hunter2", "iceberg.s3.secret-access-key": "hunter3"})
    assert dict(asked.storage) == {"secret": "hunter2"}
    assert dict(asked.iceberg) == {"s3.secret-access-key": "hunter3"}
    assert "hunter" not in repr(asked)


INJECTED = {"provider": "olympia", "owner": "me", "location": "objects", "comment": "x", "some property": "y"}
"""Options that Spark adds for a table that is created."""


def test_options_of_a_spark_table_exclude_those_spark_adds():
    given = {"catalog": "/lake", "option.catalog": "/lake", "option.version": "3", "path": "objects", **INJECTED}
    assert table_options(given) == {"catalog": "/lake", "version": "3", "path": "objects"}
    # where Spark would put the files of a table
    assert table_options({**given, "path": "/warehouse/t", "option.table": "a.b"}) == {
        "catalog": "/lake",
        "version": "3",
        "table": "a.b",
    }
    assert table_options({"catalog": "/lake", "path": "objects"}) is None


def test_a_table_of_sparks_keeps_no_secrets():
    for name in ("storage.secret", "iceberg.s3.secret-access-key"):
        with pytest.raises(InvalidOption, match="every user can read it: give credentials to the SDKs") as raised:
            table_options({f"option.{name}": "hunter2", **INJECTED})
        assert "hunter2" not in str(raised.value)


def test_where_rows_are_written():
    for given in ({"path": "s3://lake"}, {"catalog": "s3://lake"}):
        asked = parse_write_options(
            {**given, "table": "a.b", "Message": "m", "run": "2026-11-17.x", "storage.key": "k"}
        )
        assert (asked.catalog, asked.table) == ("s3://lake", TableName("a", "b"))
        assert (asked.message, asked.run, asked.storage) == ("m", "2026-11-17.x", (("key", "k"),))
    assert "hunter" not in repr(parse_write_options({"path": "/lake", "table": "a.b", "storage.secret": "hunter2"}))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/lake", "table": "a.b", "nonsense": "1"}, "'nonsense' is not an option of a writer of olympia"),
        ({"path": "/lake"}, "the option table is missing"),
        ({"table": "a.b"}, "the option catalog is missing"),
        ({"path": "/lake", "catalog": "/lake", "table": "a.b"}, "the catalog is given twice"),
        ({"path": "/lake", "table": "a.b", "run": "../x"}, "'../x' cannot name an append"),
        ({"path": "/lake", "table": "a.b", "run": ""}, "'' cannot name an append"),
        ({"path": "/lake", "table": "a.b", "version": "3"}, "'version' is not an option of a writer"),
    ],
)
def test_options_that_are_none_of_a_writer(options, said):
    with pytest.raises(InvalidOption) as raised:
        parse_write_options(options)
    assert said in str(raised.value)
