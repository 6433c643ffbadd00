"""Real tables from the command line: created, altered, filled, looked into."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest

from olympia_cli.format.paths import LATEST, root_path
from olympia_cli.iceberg import OlympiaCatalog
from tests.cli.test_hints import suggested
from tests.helpers.places import BUCKET, quiet_environment
from tests.helpers.servers.s3 import StrictS3

COLUMNS = "id long not null, name string, at timestamptz, price decimal(10, 2)"
DEFAULT = (
    '{"type": "struct", "fields": [{"id": 1, "name": "a", "type": "double", "required": false, "write-default": %s}]}'
)
ROWS = "id,name,at,price\n1,NA,2026-01-01T12:00:00Z,1.50\n2,,2026-01-02T00:00:00+02:00,\n"


@pytest.fixture
def lake(olympia, tmp_path):
    """A catalog with the table ns.t."""
    olympia("init", "lake", "-q").ok()

    def run(*words):
        return olympia("-c", "lake", *words)

    run("ns", "create", "ns").ok()
    run("table", "create", "ns.t", "--schema", COLUMNS).ok()
    (tmp_path / "rows.csv").write_text(ROWS)
    return run


def loaded(tmp_path, name="ns.t"):
    return OlympiaCatalog("lake", warehouse=str(tmp_path / "lake")).load_table(name)


class TestCreate:
    def test_create_with_all_options(self, lake, tmp_path):
        words = ["--partition-by", "day(at)", "--partition-by", "bucket(8, id)", "--sort-by", "at desc nulls first"]
        where = ["--location", str(tmp_path / "own"), "--property", "format-version=1", "--property", "a=b"]
        done = lake("table", "create", "ns.u", "--schema", COLUMNS, *words, *where, "-m", "why", "--json").ok().json
        assert (done["version"], [action["type"] for action in done["actions"]]) == (3, ["TABLE_CREATE"])
        table = loaded(tmp_path, "ns.u")
        assert [str(field) for field in table.schema().fields] == [
            "1: id: required long",
            "2: name: optional string",
            "3: at: optional timestamptz",
            "4: price: optional decimal(10, 2)",
        ]
        assert [(field.name, str(field.transform)) for field in table.spec().fields] == [
            ("at_day", "day"),
            ("id_bucket", "bucket[8]"),
        ]
        [order] = table.sort_order().fields
        assert (order.source_id, order.direction.value, order.null_order.value) == (3, "desc", "nulls-first")
        assert (table.format_version, table.location(), table.properties) == (1, str(tmp_path / "own"), {"a": "b"})
        assert lake("log", "-n", "1", "--json").json["versions"][0]["message"] == "why"

    @pytest.mark.parametrize("content", [COLUMNS, "json"])
    def test_with_a_schema_in_a_file(self, lake, tmp_path, content):
        text = loaded(tmp_path).schema().model_dump_json() if content == "json" else content
        (tmp_path / "schema").write_text(text)
        lake("table", "create", "ns.u", "--schema", "@schema").ok()
        assert loaded(tmp_path, "ns.u").schema().fields == loaded(tmp_path).schema().fields

    def test_nested_types_and_quoted_names(self, lake, tmp_path):
        text = '"a b" struct<x: int not null, "y""z" list<string not null>>, m map<string, double>, f fixed(4), b bool?'
        lake("table", "create", "ns.u", "--schema", text).ok()
        schema = loaded(tmp_path, "ns.u").schema()
        assert schema.find_field('a b.y"z.element').required
        assert str(schema.find_type("m")) == "map<string, double>"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("id", "the end where a type belongs"),
            ("id nothing", "not a type"),
            ("id int,", "the name of a column"),
            ("id int int", "the end belongs"),
            ("id int, id long", "given twice"),
            ("id decimal(3, 4)", "not a type"),
            ("id decimal(x, 4)", "not a number"),
            ("id list<int", "'>' belongs"),
            ("id int not", "null belongs"),
            ("", "the name of a column"),
            ("a; b", "cannot be read from"),
            ('"" int', "must have a name"),
            ("{", "not Iceberg's JSON"),
            ('{"type": "struct"', "not Iceberg's JSON"),
            (DEFAULT % "1e999", "1e999 is too large for a number"),
            (DEFAULT % "NaN", "NaN is not a number"),
            (DEFAULT % '"\\ud800"', "half of a character"),
            (DEFAULT % '1, "write-default": 2', "'write-default' is given twice"),
            ("@none", "cannot be read"),
            ("id " + "list<" * 60 + "int" + ">" * 60, "too deeply"),
        ],
    )
    def test_schemas_that_are_none(self, lake, text, said):
        lake("table", "create", "ns.u", "--schema", text).failed(2, said)

    @pytest.mark.parametrize(
        "words",
        [
            ["--partition-by", "none"],
            ["--partition-by", "day(name)"],
            ["--partition-by", "week(at)"],
            ["--partition-by", "bucket(id)"],
            ["--sort-by", "none desc"],
            ["--property", "format-version=9"],
        ],
    )
    def test_layouts_that_do_not_fit(self, lake, words):
        lake("table", "create", "ns.u", "--schema", COLUMNS, *words).failed(2)

    def test_create_of_an_existing_table_is_refused(self, lake):
        lake("table", "create", "ns.t", "--schema", COLUMNS).failed(11, "ns.t exists already")
        done = lake("table", "create", "ns.t", "--schema", COLUMNS, "--if-not-exists", "--json").ok().json
        assert (done["version"], done["actions"]) == (2, [])
        lake("table", "create", "none.t", "--schema", COLUMNS).failed(10, "no namespace none")


class TestAppend:
    def test_csv_and_parquet_in_one_commit(self, lake, tmp_path):
        rows = pa.table({"id": pa.array([7], pa.int32()), "name": pa.array(["p"]).dictionary_encode()})
        pyarrow.parquet.write_table(rows, tmp_path / "rows.parquet")
        done = lake("table", "append", "ns.t", "rows.csv", "rows.parquet", "--json").ok().json
        assert (done["version"], done["rows"]) == (3, 3)
        assert [action["type"] for action in done["actions"]] == ["TABLE_INSERT"]
        assert done["actions"][0]["detail"]["added_files"] == 1
        assert sorted(loaded(tmp_path).scan().to_arrow()["id"].to_pylist()) == [1, 2, 7]

    def test_a_file_for_each_partition(self, lake, tmp_path):
        lake("table", "create", "ns.u", "--schema", COLUMNS, "--partition-by", "month(at)").ok()
        (tmp_path / "rows.csv").write_text("id,at\n1,2026-01-01T12:00:00Z\n2,2026-02-01T12:00:00Z\n")
        done = lake("table", "append", "ns.u", "rows.csv", "--json").ok().json
        assert (done["rows"], done["actions"][0]["detail"]["added_files"]) == (2, 2)
        assert sorted(loaded(tmp_path, "ns.u").scan().to_arrow()["id"].to_pylist()) == [1, 2]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("id,name\n,ann\n", "must have a value"),
            ("name\nann\n", "lacks the column 'id'"),
            ("id,more\n1,2\n", "'more' that the table lacks"),
            ("id,nmae\n1,2\n", "did you mean 'name'?"),
            ("id\nx\n", "cannot be read"),
            ("", "cannot be read"),
        ],
    )
    def test_rows_that_do_not_fit(self, lake, tmp_path, content, said):
        (tmp_path / "bad.csv").write_text(content)
        lake("table", "append", "ns.t", "rows.csv", "bad.csv").failed(2, said)
        assert loaded(tmp_path).current_snapshot() is None

    def test_files_that_are_none(self, lake, tmp_path):
        (tmp_path / "junk.parquet").write_text("junk")
        lake("table", "append", "ns.t", "junk.parquet").failed(2, "cannot be read")
        lake("table", "append", "ns.t", "none.parquet").failed(2, "no file")
        lake("table", "append", "ns.none", "rows.csv").failed(10, "no table ns.none")
        (tmp_path / "folder").mkdir()
        lake("table", "append", "ns.t", "folder").failed(2, "is a folder")

    def test_advice_for_rows_with_wrong_or_new_columns_works(self, lake, olympia, tmp_path):
        (tmp_path / "bad.csv").write_text("id,price\n1,cheap\n")
        columns = olympia(*suggested(lake("table", "append", "ns.t", "bad.csv").failed(2).stderr)).ok()
        assert "price\tdecimal(10, 2)" in columns.stdout
        (tmp_path / "wide.csv").write_text("id,weight\n1,2.5\n")
        olympia(*suggested(lake("table", "append", "ns.t", "wide.csv").failed(2).stderr)).ok()
        lake("table", "append", "ns.t", "wide.csv").ok()
        assert loaded(tmp_path).scan().to_arrow()["weight"].to_pylist() == [2.5]

    def test_no_rows_make_no_version(self, lake, tmp_path):
        (tmp_path / "none.csv").write_text("id\n")
        assert lake("table", "append", "ns.t", "none.csv", "--json").ok().json == {
            "version": 2,
            "actions": [],
            "rows": 0,
        }

    def test_append_to_a_missing_or_unreadable_table_fails(self, lake, olympia, tmp_path):
        lake("table", "append", "ns.tt", "rows.csv").failed(10, "did you mean ns.t?")
        olympia(*suggested(lake("table", "append", "ns.zzz", "rows.csv").failed(10).stderr)).ok()
        lake("table", "register", "ns.far", "--metadata-location", str(tmp_path / "far.json")).ok()
        gone = lake("table", "append", "ns.far", "rows.csv").failed(10, f"missing: {tmp_path}/far.json")
        assert olympia(*suggested(gone.stderr)).exit_code == 50
        for text in ("{}", "junk", '{"format-version": 2}'):
            (tmp_path / "far.json").write_text(text)
            lake("table", "append", "ns.far", "rows.csv").failed(40, "not the metadata of an Iceberg table")


class TestHead:
    def test_rows_in_every_shape(self, lake):
        lake("table", "append", "ns.t", "rows.csv").ok()
        shown = lake("table", "head", "ns.t", "--json").ok().json
        assert shown["version"] == 3
        assert sorted(shown["rows"], key=lambda row: row["id"]) == [
            {"id": 1, "name": "NA", "at": "2026-01-01T12:00:00+00:00", "price": "1.50"},
            {"id": 2, "name": None, "at": "2026-01-01T22:00:00+00:00", "price": None},
        ]
        assert lake("table", "head", "ns.t", "-o", "csv", "-n", "1").ok().lines[0] == "id,name,at,price"
        assert len(lake("table", "head", "ns.t", "-n", "1").ok().lines) == 1
        assert [json.loads(line)["id"] for line in lake("table", "head", "ns.t", "-o", "jsonl").ok().lines] == [1, 2]

    def test_as_it_was(self, lake, olympia):
        lake("table", "append", "ns.t", "rows.csv").ok()
        lake("export", "create", "friday", "--dest", "friday").ok()
        lake("table", "append", "ns.t", "rows.csv").ok()
        for reference, count in (("v2", 0), ("friday", 2), ("latest", 4)):
            assert len(lake("table", "head", "ns.t", "--at", reference, "--json").ok().json["rows"]) == count
        lake("table", "head", "ns.t", "--at", "v1").failed(10)

    def test_head_of_a_table_without_its_files_fails(self, lake, tmp_path):
        lake("table", "append", "ns.t", "rows.csv").ok()
        for file in (tmp_path / "lake" / "data").rglob("*.parquet"):
            file.unlink()
        lake("table", "head", "ns.t").failed(10)
        for file in (tmp_path / "lake" / "data").rglob("*.json"):
            file.write_text("junk")
        lake("table", "head", "ns.t").failed(40, "not the metadata of an Iceberg table")


class TestAlter:
    def test_columns_and_properties_in_one_commit(self, lake, tmp_path):
        words = ["--add-column", "more long", "--drop-column", "price", "--rename-column", "at=then"]
        more = ["--set-iceberg", "a=1", "--set", "owner=ann"]
        done = lake("table", "alter", "ns.t", *words, *more, "-m", "why", "--json").ok().json
        assert done["version"] == 3
        table = loaded(tmp_path)
        assert table.schema().column_names == ["id", "name", "then", "more"]
        assert table.properties == {"a": "1"}
        assert lake("table", "show", "ns.t", "--json").json["properties"] == {"owner": "ann"}
        lake("table", "alter", "ns.t", "--unset-iceberg", "a", "--unset", "owner").ok()
        assert loaded(tmp_path).properties == {}
        assert lake("table", "show", "ns.t", "--json").json["properties"] == {}

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--add-column", "id int"], "has a column 'id' already"),
            (["--add-column", "a int, b int"], "not one column"),
            (["--add-column", "a"], "write 'name type'"),
            (["--add-column", "must int not null"], "leave out not null"),
            (["--drop-column", "nmae"], "did you mean 'name'?"),
            (["--drop-column", "zzz"], "there are 'id', 'name', 'at', 'price'"),
            (["--rename-column", "Name=x"], "did you mean 'name'?"),
            (["--rename-column", "name=id"], "has a column 'id' already"),
            (["--rename-column", "none"], "is not OLD=NEW"),
            (["--unset-iceberg", "none"], "no property 'none'"),
            (["--add-column", "a int", "--metadata-location", "/x"], "run two commands"),
        ],
    )
    def test_an_invalid_alter_is_refused_and_changes_nothing(self, lake, words, said):
        lake("table", "alter", "ns.t", *words, "--set", "a=b").failed(2, said)
        assert lake("log", "-n", "1", "--json").json["versions"][0]["version"] == 2

    def test_the_log_has_both_names_of_a_column(self, lake):
        lake("table", "alter", "ns.t", "--rename-column", "at=then", "--add-column", "more long").ok()
        actions = lake("log", "-n", "1", "--json").json["versions"][0]["actions"]
        assert [(one["type"], one["detail"].get("renamed_columns")) for one in actions] == [
            ("TABLE_ALTER_ADD_COLUMNS", None),
            ("TABLE_ALTER", [{"from": "at", "to": "then"}]),
        ]
        assert "~ table ns.t  column at → then; " in lake("log", "-n", "1").stdout

    def test_a_property_is_in_one_of_two_places(self, lake, olympia, tmp_path):
        """If the other place was probably meant, the command for it is printed, and works."""
        key = "write.format.default"
        done = lake("table", "alter", "ns.t", "--set", f"{key}=orc").ok()
        olympia(*suggested(done.stderr)).ok()
        shown = lake("table", "show", "ns.t", "--schema").ok().lines
        assert [line for line in shown if key in line] == [f"properties.{key}\torc", f"iceberg.properties.{key}\torc"]
        assert lake("table", "alter", "ns.t", "--unset", key).ok().stderr == ""
        done = lake("table", "alter", "ns.t", "--unset", key).ok()
        assert "nothing to do" in done.stdout
        olympia(*suggested(done.stderr)).ok()
        assert loaded(tmp_path).properties == {}
        assert lake("table", "alter", "ns.t", "--unset", key).ok().stderr == ""

    def test_setting_an_equal_iceberg_property_makes_no_version(self, lake):
        lake("table", "alter", "ns.t", "--set-iceberg", "a=1").ok()
        assert "nothing to do" in lake("table", "alter", "ns.t", "--set-iceberg", "a=1").ok().stdout
        assert lake("log", "-n", "1", "--json").json["versions"][0]["version"] == 3

    def test_catalog_properties_can_be_altered_without_the_metadata(self, lake):
        """Properties in the catalog can be changed without the table's files."""
        lake("table", "register", "ns.far", "--metadata-location", "s3://nowhere/x.json").ok()
        lake("table", "alter", "ns.far", "--set", "a=b").ok()
        lake("table", "alter", "ns.far", "--metadata-location", "s3://nowhere/y.json").ok()


@pytest.mark.parametrize(
    "words",
    [
        ("table", "create", "ns.u", "--schema", COLUMNS),
        ("table", "append", "ns.t", "rows.csv"),
        ("table", "alter", "ns.t", "--set-iceberg", "write.format.default=orc"),
    ],
    ids=lambda words: words[1],
)
def test_no_change_of_a_table_takes_the_name_of_a_lost_version(lake, tmp_path, words):
    lake("ns", "create", "lost").ok()
    hint = tmp_path / "lake" / LATEST
    root = tmp_path / "lake" / root_path(int(hint.read_text()))
    root.unlink()
    refused = lake(*words)
    assert refused.exit_code == 40
    assert "vn/latest: it says 3, and the last root is that of version 2" in refused.stderr
    assert (root.exists(), hint.read_text()) == (False, "3")


def test_inside_a_distributed_transaction(lake, tmp_path):
    txn = lake("txn", "begin", "--json").ok().json["id"]
    created = lake("table", "create", "ns.u", "--schema", COLUMNS, "--txn", txn, "--json").ok().json
    assert (created["version"], created["transaction"]) == (None, txn)
    lake("table", "append", "ns.u", "rows.csv", "--txn", txn).ok()
    lake("table", "alter", "ns.t", "--add-column", "more int", "--set", "a=b", "--txn", txn).ok()
    assert len(lake("table", "head", "ns.u", "--txn", txn, "--json").ok().json["rows"]) == 2
    lake("table", "head", "ns.u", "--txn", txn, "--at", "v1").failed(2, "do not go together")
    lake("table", "head", "ns.u").failed(10)
    lake("txn", "commit", txn).ok()
    assert len(lake("table", "head", "ns.u", "--json").ok().json["rows"]) == 2
    assert "more" in loaded(tmp_path).schema().column_names


def test_the_catalog_s_own_commands_leave_the_files_of_tables_alone(lake, olympia, tmp_path):
    lake("table", "append", "ns.t", "rows.csv").ok()
    lake("table", "append", "ns.t", "rows.csv").ok()
    files = {path for path in (tmp_path / "lake" / "data").rglob("*") if path.is_file()}
    checked = lake("fsck", "--level", "data", "--all-versions", "--json").ok().json
    assert checked["findings"] == []
    assert lake("status", "--full", "--json").json["files"]["data"]["files"] == len(files)
    lake("expire", "--keep-last", "1", "--older-than", "0s", "--offline", "--yes").ok()
    lake("expire", "purge", "--offline", "--yes").ok()
    assert files == {path for path in (tmp_path / "lake" / "data").rglob("*") if path.is_file()}
    assert len(lake("table", "head", "ns.t", "--json").ok().json["rows"]) == 4
    (tmp_path / "other").mkdir()
    (tmp_path / "lake" / "data").rename(tmp_path / "other" / "data")
    olympia("init", "other").failed(11, "not a catalog's")


@pytest.mark.parametrize("said", ["in the environment", "in a profile"])
def test_tables_in_a_bucket(run, config, monkeypatch, tmp_path, said):
    """Catalog and tables are opened alike, however the endpoint and the keys are known."""
    quiet_environment(monkeypatch)
    uri = f"s3://{BUCKET}/lake"
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
        for name, value in zip(names, (server.url, "key", "secret", "us-east-1"), strict=True):
            if said == "in the environment":
                monkeypatch.setenv(name, value)
        if said == "in a profile":
            options = f'endpoint_url = "{server.url}"\nkey = "key"\nsecret = "secret"\nregion = "us-east-1"'
            config(f'[lake]\ncatalog = "{uri}"\n[lake.storage]\n{options}\n')
        (tmp_path / "rows.csv").write_text("id,name\n1,a\n2,b\n")

        def lake(*words):
            where = ("-c", uri) if said == "in the environment" else ("--profile", "lake")
            return run(*where, *words).ok()

        lake("init")
        lake("ns", "create", "ns")
        lake("table", "create", "ns.t", "--schema", "id long, name string")
        lake("table", "append", "ns.t", "rows.csv")
        lake("table", "alter", "ns.t", "--add-column", "more string")
        assert lake("table", "head", "ns.t", "--json").json["rows"][1] == {"id": 2, "name": "b", "more": None}
        assert "more" in lake("table", "show", "ns.t", "--schema").stdout
        assert lake("import", "iceberg", f"{uri}/data", "--into", "again", "--json").json["tables"][0]["rows"] == 2
        assert lake("fsck", "--level", "data", "--json").json["findings"] == []


def test_without_pyiceberg_the_extra_is_named(lake, tmp_path):
    program = (
        "import sys; sys.modules['pyiceberg'] = None; sys.argv[0] = 'olympia';"
        "from olympia_cli.cli.app import main; sys.exit(main())"
    )
    for words in (
        ["table", "head", "ns.t"],
        ["table", "create", "ns.u", "--schema", "id int"],
        ["table", "append", "ns.t", "rows.csv"],
        ["table", "alter", "ns.t", "--drop-column", "name"],
        ["import", "iceberg", "prod"],
    ):
        command = [sys.executable, "-c", program, "-c", "lake", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert done.stderr == "error: this needs PyIceberg, which is not installed: install olympia-cli[iceberg]\n"
    # what the catalog itself keeps of a table needs none of it
    command = [sys.executable, "-c", program, "-c", "lake", "table", "alter", "ns.t", "--set", "a=b"]
    assert subprocess.run(command, capture_output=True, cwd=tmp_path).returncode == 0
