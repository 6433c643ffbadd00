"""Tables of other Iceberg catalogs, and of folders of tables, are registered here."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from olympia_cli.iceberg import OlympiaCatalog
from tests.cli.test_hints import suggested

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def source(tmp_path):
    """Another catalog, with a.t of three rows, a.empty and b.u."""
    found = SqlCatalog("old", uri=f"sqlite:///{tmp_path}/old.db", warehouse=f"file://{tmp_path}/old")
    for name in ("a", "b"):
        found.create_namespace(name)
    found.create_table("a.t", ROWS.schema).append(ROWS)
    found.create_table("a.empty", ROWS.schema)
    found.create_table("b.u", ROWS.schema)
    yield found
    found.engine.dispose()


@pytest.fixture
def bring(olympia, source, tmp_path):
    olympia("init", "lake", "-q").ok()
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/old.db"}
    words = [word for key, value in settings.items() for word in ("--property", f"{key}={value}")]
    return lambda *more: olympia("-c", "lake", "import", "iceberg", "old", *words, *more)


def rows_in(tmp_path, name):
    table = OlympiaCatalog("lake", warehouse=str(tmp_path / "lake")).load_table(name)
    return table.scan().to_arrow().num_rows


def test_all_tables_come_in_one_commit(bring, tmp_path):
    done = bring("--json", "-m", "adopted").ok().json
    assert (done["version"], done["namespaces"], done["problems"]) == (1, 2, [])
    assert [(one["name"], one["source"], one["files"], one["rows"]) for one in done["tables"]] == [
        ("a.empty", "a.empty", 0, 0),
        ("a.t", "a.t", 1, 3),
        ("b.u", "b.u", 0, 0),
    ]
    assert rows_in(tmp_path, "a.t") == 3


def test_repeated_import_brings_only_new_and_changed_tables(bring, source, tmp_path):
    bring().ok()
    again = bring("--json").ok().json
    assert (again["version"], again["tables"], again["unchanged"]) == (1, [], 3)
    source.create_table("b.new", ROWS.schema)
    source.load_table("a.t").append(ROWS)
    more = bring("--json").ok().json
    assert (more["version"], more["unchanged"]) == (2, 2)
    assert sorted(one["name"] for one in more["tables"]) == ["a.t", "b.new"]
    assert rows_in(tmp_path, "a.t") == 6


def test_a_table_that_was_changed_here_is_left_as_it_is(bring, source, tmp_path):
    bring().ok()
    OlympiaCatalog("lake", warehouse=str(tmp_path / "lake")).load_table("a.t").append(ROWS)
    source.load_table("a.t").append(ROWS)
    source.load_table("a.t").append(ROWS)
    done = bring("--json")
    assert done.exit_code == 3
    assert done.json["problems"] == [{"what": "a.t", "why": "it was changed here, or another table has that name"}]
    assert rows_in(tmp_path, "a.t") == 6
    bring().failed(3, "1 table left out")
    # cron mails the reason, too
    quiet = bring("-q")
    quiet.failed(3, "1 table left out")
    assert quiet.stderr.startswith("warning: left out a.t: it was changed here")


def test_tables_that_cannot_be_imported_do_not_stop_others(bring, source, tmp_path):
    source.create_namespace(("deep", "er"))
    source.create_table(("deep", "er", "t"), ROWS.schema)
    source.create_table(("b", "with space"), ROWS.schema)
    broken = source.create_table("b.broken", ROWS.schema).metadata_location
    open(broken.removeprefix("file://"), "w").close()
    done = bring("--json")
    assert done.exit_code == 3
    assert sorted(problem["what"] for problem in done.json["problems"]) == ["b.broken", "b.with space", "deep.er.t"]
    assert len(done.json["tables"]) == 3


def test_a_dry_run_does_nothing(bring, olympia):
    done = bring("--json", "--dry-run").ok().json
    assert (done["version"], len(done["tables"]), done["dry_run"]) == (0, 3, True)
    assert olympia("-c", "lake", "ns", "ls", "--json").json == {"version": 0, "namespaces": []}


def test_a_catalog_unknown_to_pyiceberg_is_refused(olympia):
    olympia("init", "lake", "-q").ok()
    told = olympia("-c", "lake", "import", "iceberg", "nobody").failed(2, "PyIceberg knows no catalog 'nobody'")
    assert "--uri" not in told.stderr
    half = olympia("-c", "lake", "import", "iceberg", "nobody", "--property", "type=sql").failed(2, "URI missing")
    assert "--uri" not in half.stderr
    olympia("-c", "lake", "import", "iceberg", "nobody", "--into", "x").failed(2, "--into is for a prefix")


class TestBelowAPrefix:
    def test_the_newest_metadata_of_each_folder(self, olympia, source, tmp_path):
        olympia("init", "lake", "-q").ok()
        done = olympia("-c", "lake", "import", "iceberg", f"{tmp_path}/old", "--json").ok().json
        assert [(one["name"], one["files"], one["rows"]) for one in done["tables"]] == [
            ("a.empty", 0, 0),
            ("a.t", 1, 3),
            ("b.u", 0, 0),
        ]
        assert rows_in(tmp_path, "a.t") == 3
        source.load_table("a.t").append(ROWS)
        again = olympia("-c", "lake", "import", "iceberg", "./old", "--json").ok().json
        assert [one["name"] for one in again["tables"]] == ["a.t"]

    def test_all_into_one_namespace(self, olympia, source, tmp_path):
        olympia("init", "lake", "-q").ok()
        done = olympia("-c", "lake", "import", "iceberg", f"{tmp_path}/old/", "--into", "raw", "--json").ok().json
        assert [one["name"] for one in done["tables"]] == ["raw.empty", "raw.t", "raw.u"]

    def test_folders_with_ambiguous_or_unreadable_metadata_are_problems(self, olympia, source, tmp_path):
        olympia("init", "lake", "-q").ok()
        folder = tmp_path / "old" / "a" / "t" / "metadata"
        [newest] = folder.glob("00001-*.json")
        (folder / "00001-11111111-1111-4111-8111-111111111111.metadata.json").write_bytes(newest.read_bytes())
        [only] = (tmp_path / "old" / "b" / "u" / "metadata").glob("*.json")
        only.write_text("junk")
        done = olympia("-c", "lake", "import", "iceberg", f"{tmp_path}/old", "--json")
        assert done.exit_code == 3
        assert {problem["what"] for problem in done.json["problems"]} == {"a/t", "b/u"}
        assert [one["name"] for one in done.json["tables"]] == ["a.empty"]

    def test_a_prefix_with_nothing_below_it(self, olympia, tmp_path):
        olympia("init", "lake", "-q").ok()
        (tmp_path / "empty").mkdir()
        for place in ("none", "empty"):
            olympia("-c", "lake", "import", "iceberg", f"./{place}").failed(10, f"below ./{place}")

    def test_a_folder_named_like_a_catalog_gets_working_advice(self, olympia, source, tmp_path):
        """The advice is typed. The metadata may be called by its number alone."""
        olympia("init", "lake", "-q").ok()
        [only] = (tmp_path / "old" / "b" / "u" / "metadata").glob("*.json")
        only.rename(only.parent / "00000.metadata.json")
        told = olympia("-c", "lake", "import", "iceberg", "old").failed(2, "written with a slash")
        done = olympia(*suggested(told.stderr), "--json").ok().json
        assert [one["name"] for one in done["tables"]] == ["a.empty", "a.t", "b.u"]
