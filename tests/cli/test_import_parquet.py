"""Parquet files become tables where they are: which files, which columns, which partitions."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from olympia_cli.cli.app import app
from olympia_cli.iceberg import OlympiaCatalog
from tests.cli.test_layout import Screen
from tests.helpers.json_schema import check


@pytest.fixture
def write(tmp_path):
    """Write a Parquet file below raw/."""

    def write(path, **columns):
        file = tmp_path / "raw" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), file)
        return file

    return write


@pytest.fixture
def bring(run, empty, tmp_path):
    return lambda *words: run("-c", empty, "import", "parquet", tmp_path / "raw", "--json", *words)


@pytest.fixture
def rows(empty):
    """The rows of a table, sorted."""

    def rows(name):
        found = OlympiaCatalog("c", warehouse=str(empty)).load_table(name).scan().to_arrow()
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)

    return rows


def problems(ran):
    assert ran.exit_code == (3 if ran.json["problems"] else 0)
    return {one["what"]: one["why"] for one in ran.json["problems"]}


def tables(ran):
    return [(one["name"], one["files"], one["rows"]) for one in ran.json["tables"]]


def test_folders_are_tables_and_columns_are_united(bring, write, rows, empty, run):
    write("orders/a.parquet", id=pa.array([1, 2], pa.int32()), name=["x", "y"])
    write("orders/b.parquet", id=pa.array([3], pa.int64()), price=pa.array([1.5], pa.float32()))
    write("db/deep.db/lines/c.parquet", n=[decimal.Decimal("1.50")])
    done = bring("-m", "adopted").ok()
    assert tables(done) == [("deep.lines", 1, 1), ("raw.orders", 2, 3)]
    assert (done.json["version"], done.json["namespaces"], problems(done)) == (1, 2, {})
    assert rows("raw.orders") == [(1, "x", None), (2, "y", None), (3, None, 1.5)]
    assert rows("deep.lines") == [(decimal.Decimal("1.50"),)]
    assert run("-c", empty, "log", "-n", "1", "--json").json["versions"][0]["message"] == "adopted"
    assert run("-c", empty, "fsck", "--level", "data").ok()


def test_folders_of_hive_are_partitions(bring, write, rows, empty):
    write("t/day=2026-11-15/region=eu/n=1/p.parquet", v=[1, 2])
    write("t/day=2026-11-16/region=a%2Fb/n=-2/p.parquet", v=[3])
    write("t/day=2026-11-16/region=__HIVE_DEFAULT_PARTITION__/n=0/p.parquet", v=[4])
    assert tables(bring().ok()) == [("raw.t", 3, 4)]
    assert rows("raw.t") == [
        (datetime.date(2026, 11, 15), "eu", 1, 1),
        (datetime.date(2026, 11, 15), "eu", 1, 2),
        (datetime.date(2026, 11, 16), "a/b", -2, 3),
        (datetime.date(2026, 11, 16), None, 0, 4),
    ]
    table = OlympiaCatalog("c", warehouse=str(empty)).load_table("raw.t")
    assert [field.name for field in table.spec().fields] == ["day", "region", "n"]
    assert table.scan(row_filter="day = '2026-11-16' and n = 0").to_arrow().num_rows == 1
    assert len(list(table.scan(row_filter="day = '2026-11-15'").plan_files())) == 1


def test_numbers_that_are_written_in_other_ways_are_text(bring, write, rows):
    write("t/month=01/p.parquet", v=[1])
    write("t/month=11/p.parquet", v=[2])
    bring().ok()
    assert rows("raw.t") == [("01", 1), ("11", 2)]


def test_repeated_import_adds_only_new_files(bring, write, rows):
    write("t/day=2026-11-15/p.parquet", v=pa.array([1], pa.int32()))
    bring().ok()
    again = bring().ok().json
    assert (again["version"], again["tables"], again["unchanged"]) == (1, [], 1)
    write("t/day=2026-11-16/p.parquet", v=pa.array([2**40]), more=["x"])
    write("u/q.parquet", v=[1])
    more = bring().ok()
    assert (more.json["version"], tables(more)) == (2, [("raw.u", 1, 1), ("raw.t", 1, 1)])
    assert rows("raw.t") == [(datetime.date(2026, 11, 15), 1, None), (datetime.date(2026, 11, 16), 2**40, "x")]
    assert bring().ok().json["version"] == 2


def test_incompatible_column_types_are_reported_with_both_files(bring, write, rows):
    write("t/a.parquet", v=[1], s=[{"x": 1}])
    write("t/b.parquet", v=["one"])
    write("t/c.parquet", v=[2], s=[{"x": "one"}])
    write("t/d.parquet", v=[3], s=[{"y": 1}])
    done = bring()
    assert problems(done) == {
        "t/b.parquet": "the column 'v' is string here, and int64 in t/a.parquet",
        "t/c.parquet": "the column 's' is string here, and int64 in t/a.parquet",
    }
    assert rows("raw.t") == [(1, {"x": 1, "y": None}), (3, {"x": None, "y": 1})]
    # once it is imported the table decides
    assert problems(bring())["t/b.parquet"] == "the column 'v' is string here, and int64 in the table"
    assert bring().json["version"] == 1


def test_files_that_cannot_be_part_of_a_table(bring, write, rows, tmp_path):
    write("t/a.parquet", v=[1])
    (tmp_path / "raw" / "t" / "empty.parquet").touch()
    (tmp_path / "raw" / "t" / "junk.parquet").write_text("PAR1 this is none PAR1")
    whole = write("t/cut.parquet", v=[1]).read_bytes()
    (tmp_path / "raw" / "t" / "cut.parquet").write_bytes(whole[:-20])
    write("t/fine.parquet", at=pa.array([1], pa.timestamp("ns")))
    write("t/large.parquet", v=pa.array([1], pa.uint64()))
    write("t/nothing.parquet", v=pa.nulls(1))
    schema = pa.schema([pa.field("v", pa.int64(), metadata={"PARQUET:field_id": "7"})])
    pq.write_table(pa.table([[1]], schema=schema), tmp_path / "raw" / "t" / "ids.parquet")
    write("t/day=1/p.parquet", v=[1])
    found = problems(bring())
    assert sorted(found) == [
        "t/cut.parquet",
        "t/day=1/p.parquet",
        "t/empty.parquet",
        "t/fine.parquet",
        "t/ids.parquet",
        "t/junk.parquet",
        "t/large.parquet",
        "t/nothing.parquet",
    ]
    assert "partitions" in found["t/day=1/p.parquet"]
    assert "ids" in found["t/ids.parquet"]
    assert rows("raw.t") == [(1,)]


def test_a_partition_column_that_is_in_the_file_too(bring, write, rows):
    write("t/day=1/p.parquet", s=[{"x": 1, "y": 2}] * 2, day=[1, 1], v=[1, 2])
    write("t/day=2/p.parquet", day=[2, 3], v=[3, 4])
    write("t/day=3/p.parquet", v=[5])
    assert problems(bring()) == {"t/day=2/p.parquet": "its column 'day' has values that differ from its path"}
    assert [(day, v) for day, _, v in rows("raw.t")] == [(1, 1), (1, 2), (3, 5)]
    write("t/day=many/p.parquet", v=[6])
    assert problems(bring())["t/day=many/p.parquet"] == "its path says 'many', and the column is int64"


def test_hidden_files_and_foreign_tables_are_not_imported(bring, write, tmp_path):
    write("hidden/_temporary/0/a.parquet", v=[1])
    write("hidden/.b.parquet", v=[1])
    write("delta/a.parquet", v=[1])
    (tmp_path / "raw" / "delta" / "_delta_log").mkdir()
    (tmp_path / "raw" / "delta" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    write("ice/data/a.parquet", v=[1])
    (tmp_path / "raw" / "ice" / "metadata").mkdir()
    (tmp_path / "raw" / "ice" / "metadata" / "00000-x.metadata.json").write_text("{}")
    done = bring()
    assert done.json["tables"] == []
    assert {what: why.split(":")[0].split(",")[0] for what, why in problems(done).items()} == {
        "delta": "it is a Delta table",
        "ice": "it is an Iceberg table",
    }
    assert done.json["version"] == 0


def test_the_advice_for_an_iceberg_table_works(bring, run, empty, tmp_path):
    run("init", tmp_path / "other", "-q").ok()
    run("-c", tmp_path / "other", "ns", "create", "n").ok()
    made = ("table", "create", "n.t", "--schema", "id int", "--location", tmp_path / "raw" / "n" / "t")
    run("-c", tmp_path / "other", *made).ok()
    why = problems(bring())["n/t"]
    words = why.rpartition("olympia ")[2].split()
    run("-c", empty, *words, tmp_path / "raw").ok()
    assert run("-c", empty, "table", "ls", "-o", "name").ok().lines == ["n.t"]


def test_names(bring, write):
    write("with space/a.parquet", v=[1])
    write("x/t/a.parquet", v=[1])
    write("y/t/a.parquet", v=[1])
    done = bring("--into", "all")
    assert [name for name, _, _ in tables(done)] == ["all.with%20space", "all.t"]
    assert problems(done) == {"y/t": "x/t has the name all.t too"}


def test_a_table_that_is_not_ours(bring, write, run, empty):
    write("t/a.parquet", v=[1])
    run("-c", empty, "ns", "create", "raw").ok()
    run("-c", empty, "table", "create", "raw.t", "--schema", "v long").ok()
    assert problems(bring()) == {"t": "another table has the name raw.t"}


def test_imported_files_that_are_missing_or_replaced_are_problems(bring, write, tmp_path, rows):
    write("t/a.parquet", v=[1])
    other = write("t/b.parquet", v=[2])
    bring().ok()
    (tmp_path / "raw" / "t" / "a.parquet").unlink()
    write("t/b.parquet", v=list(range(1000)))
    assert problems(bring()) == {
        f"file://{tmp_path}/raw/t/a.parquet": "it is part of the table, and not there any more",
        f"file://{other}": "it is part of the table, and another file by now",
    }


def test_looking_first(bring, write, run, tmp_path, empty):
    write("t/a.parquet", v=[1])
    dry = bring("--dry-run").ok()
    inspected = run("import", "parquet", tmp_path / "raw", "--inspect", "--json").ok()
    assert tables(dry) == tables(inspected) == [("raw.t", 1, 1)]
    assert run("-c", empty, "ns", "ls", "--json").json == {"version": 0, "namespaces": []}
    assert bring("--dry-run", "--inspect").exit_code == 2


def test_new_files_after_expired_snapshots_advise_dropping_the_table(bring, write, rows, run, empty):
    for number in range(2):
        write(f"t/{number}.parquet", v=[number])
    bring().ok()
    OlympiaCatalog("c", warehouse=str(empty)).load_table("raw.t").delete("v = 1")
    write("t/2.parquet", v=[2])
    bring().ok()
    table = OlympiaCatalog("c", warehouse=str(empty)).load_table("raw.t")
    with table.maintenance.expire_snapshots() as expire:
        expire.by_ids([one.snapshot_id for one in table.snapshots()[:-1]])
    write("t/3.parquet", v=[3])
    stuck = bring()
    [problem] = stuck.json["problems"]
    assert "can no longer be told apart" in problem["why"]
    assert json.loads(stuck.stderr.splitlines()[-1])["error"]["hint"].endswith(problem["command"])
    run(*shlex.split(problem["command"])[1:]).ok()
    bring().ok()
    assert rows("raw.t") == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize("look", ["--inspect", "--dry-run"])
def test_a_look_shows_the_tables(write, run, empty, tmp_path, look):
    write("orders/day=2026-11-15/a.parquet", id=[1, 2], name=["x", "y"])
    file = write("lines/b.parquet", n=[decimal.Decimal("1.50")], at=pa.array([[{"x": 1.5}]]))
    words = ["-c", empty, "import", "parquet", tmp_path / "raw", look]
    source = f"file://{tmp_path}/raw"
    done = run(*words, "--json").ok().json
    check(done, "import")
    [lines, orders] = done["tables"]
    assert {key: lines[key] for key in ("name", "change", "bytes")} == {
        "name": "raw.lines",
        "change": "created",
        "bytes": file.stat().st_size,
    }
    assert lines["columns"] == [
        {"name": "n", "type": "decimal(3, 2)"},
        {"name": "at", "type": "list<struct<x: double>>"},
    ]
    assert [column["name"] for column in orders["columns"]] == ["day", "id", "name"]
    size = sum(one["bytes"] for one in done["tables"]) - file.stat().st_size
    shown = run(*words, "-o", "wide").ok()
    columns = "n decimal(3, 2), at list<struct<x: double>>"
    assert shown.lines[:2] == [
        f"created\traw.lines\t1\t1\t{file.stat().st_size}\t0\t{columns}\t{source}/lines",
        f"created\traw.orders\t1\t2\t{size}\t0\tday date, id long, name string\t{source}/orders",
    ]
    assert shown.lines[2].endswith("2 tables registered  nothing was done")
    assert len(shown.lines) == 3
    assert run(*words).ok().lines[0] == shown.lines[0].rpartition("\t")[0]
    run("-c", empty, "import", "parquet", tmp_path / "raw").ok()
    write("orders/day=2026-11-16/c.parquet", id=[3], price=[1.5])
    if look == "--dry-run":
        again = run(*words).ok().lines
        assert [line.split("\t")[:4] for line in again[:-1]] == [["altered", "raw.orders", "1", "1"]]
        assert again[0].endswith("day date, id long, name string, price double")


def test_a_look_at_a_wide_table_shows_the_first_columns_on_a_terminal(write, empty, tmp_path, monkeypatch):
    write("t/a.parquet", **{f"c{number}": [number] for number in range(10)})
    for name, value in {"NO_COLOR": "1", "OLYMPIA_PAGER": "cat", "COLUMNS": "160"}.items():
        monkeypatch.setenv(name, value)

    def shown(*words):
        with contextlib.redirect_stdout(Screen()) as screen:
            line = ["-c", str(empty), "import", "parquet", str(tmp_path / "raw"), "--inspect", "--no-progress", *words]
            assert app(line, standalone_mode=False) == 0
        return screen.getvalue()

    heading, row, last = shown().splitlines()
    assert heading.split() == ["CHANGE", "TABLE", "FILES", "ROWS", "SIZE", "COLUMNS"]
    assert row.startswith("created  raw.t ")
    assert row.rstrip().endswith("c7 long, and 2 more")
    assert last.endswith("1 table registered  nothing was done")
    assert "c9 long" in shown("-o", "wide")


@pytest.mark.parametrize("look", ["--inspect", "--dry-run", "-q"])
def test_a_place_without_files(run, tmp_path, empty, look):
    none = run("-c", empty, "import", "parquet", tmp_path / "none", look)
    assert (none.exit_code, none.stdout) == (10, "")
    assert (
        none.stderr == f"error: no Parquet files are below {tmp_path}/none: name a folder or prefix that holds some\n"
    )


@pytest.mark.parametrize("place", ["raw", "raw/lake", "raw/a/lake"])
def test_a_catalog_that_lies_among_the_files(run, write, tmp_path, place):
    """The files of the catalog itself are no source for a second run."""
    run("init", tmp_path / place, "-q").ok()
    write("t/a.parquet", v=[1])
    words = ("-c", tmp_path / place, "import", "parquet", tmp_path / "raw", "--json")
    for expected in ([("raw.t", 1, 1)], []):
        done = run(*words).ok()
        assert (tables(done), done.json["version"]) == (expected, 1)
    write("t/b.parquet", v=[2])
    assert tables(run(*words).ok()) == [("raw.t", 1, 1)]
