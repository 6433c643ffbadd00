"""The contract with scripts: the JSON of each command as one document on stdout, piped lines, and errors as JSON."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import COMMANDS
from olympia_cli.cli.commands import schema as shapes
from tests.cli.conftest import EMOJI, Run, Sample
from tests.helpers.deltacat_catalog import DeltacatWriter
from tests.helpers.iox_catalog import IoxCatalog
from tests.helpers.json_schema import check

PLAN = "the serialized plan"

SHAPES: dict[str, tuple[str, list[str]]] = {
    "ns ls": ("ns-ls", []),
    "ns show": ("ns-show", ["sales"]),
    "table ls": ("table-ls", []),
    "table show": ("table-show", ["sales.orders_2025"]),
    "table history": ("table-history", ["sales.orders_2025"]),
    "table files": ("table-files", ["--at", "v1"]),
    "view ls": ("view-ls", []),
    "view show": ("view-show", ["sales.open"]),
    "txn ls": ("txn-ls", []),
    "txn show": ("txn-show", ["TXN"]),
    "log": ("log", []),
    "diff": ("diff", ["v1", "latest"]),
    "time-travel": ("time-travel", ["latest~1"]),
    "catalog show": ("catalog-show", []),
    "status": ("status", []),
    "doctor": ("doctor", []),
    "config show": ("config-show", []),
    "schema": ("schema-ls", []),
    "completion": ("completion", ["bash"]),
    "man": ("man", ["log"]),
    "dump-node": ("dump-node", []),
    "tree": ("tree", []),
    "txn begin": ("txn-begin", []),
    "txn commit": ("changed", ["TXN"]),
    "txn abort": ("txn-abort", ["TXN", "--yes"]),
    "rollback": ("rollback", ["v2", "--yes"]),
    "revert": ("revert", ["v7", "--yes"]),
    "compact": ("compact", []),
    "expire": ("expire", ["--older-than", "0s", "--keep-last", "2", "--offline", "--yes"]),
    "fsck": ("fsck", ["--level", "full", "--all-versions"]),
    "export create": ("export-create", ["friday", "--dest", "friday"]),
    "export ls": ("export-ls", []),
    "export verify": ("export-verify", ["thursday"]),
    "export resume": ("export-create", ["thursday", "--dest", "thursday"]),
    "export drop": ("export-drop", ["thursday", "--yes"]),
    "apply": ("changed", ["changes.jsonl"]),
    "catalog alter": ("changed", ["--set", "k=v"]),
    "ns create": ("changed", ["n"]),
    "ns alter": ("changed", ["sales", "--set", "k=v", "--unset", "owner"]),
    "ns rename": ("changed", ["sales", "revenue"]),
    "ns drop": ("changed", ["sales", "--cascade"]),
    "table create": ("changed", ["sales.real", "--schema", "id int"]),
    "table append": ("table-append", ["sales.real", "rows.csv"]),
    "table head": ("table-head", ["sales.real"]),
    "import iceberg": ("import", ["./other"]),
    "import olympia": ("import", ["./second"]),
    "import deltacat": ("import", ["./deltacat"]),
    "import iox": ("import", ["./metrics"]),
    "import parquet": ("import", ["./files"]),
    "rebuild": ("import", ["./gone"]),
    "promote": ("promote", ["thursday", "--yes"]),
    "table register": ("changed", ["sales.n", "--metadata-location", "s3://n"]),
    "table alter": ("changed", ["sales.orders_2025", "--set", "k=v"]),
    "table rename": ("changed", ["sales.orders_2025", '"a.b".x']),
    "table drop": ("changed", ["sales.orders_2025"]),
    "ns restore": ("ns-restore", ["sales", "--at", "v4"]),
    "view restore": ("changed", ["sales.open", "--at", "v3"]),
    "table restore": ("changed", ["sales.orders_2025", "--at", "v7"]),
    "view create": ("changed", ["sales.v", "--plan", "plan", "--schema", "id long, name string?"]),
    "view replace": ("changed", ["sales.open", "--plan", "plan"]),
    "view alter": ("changed", ["sales.open", "--set", "k=v"]),
    "view rename": ("changed", ["sales.open", "sales.closed"]),
    "view drop": ("changed", ["sales.open"]),
}
ELSEWHERE = {"init", "serve"}


@pytest.fixture
def on_sample(olympia: Run, sample: Sample, tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "plan").write_text(PLAN)
    (tmp_path / "changes.jsonl").write_text('{"do": "ns create", "name": "n"}\n')

    def start(command: str, *more: str) -> Any:
        words = [sample.transaction if word == "TXN" else word for word in SHAPES[command][1]]
        if command in ("table append", "table head"):
            (tmp_path / "rows.csv").write_text("id\n1\n")
            olympia("table", "create", "sales.real", "--schema", "id int").ok()
        if command == "import parquet":
            (tmp_path / "files").mkdir()
            pq.write_table(pa.table({"id": [1]}), tmp_path / "files" / "a.parquet")
        if command == "import iox":
            IoxCatalog(tmp_path / "metrics").commit()
        if command == "rebuild":
            shutil.copytree(tmp_path / "catalog" / "def" / "ns", tmp_path / "gone" / "def" / "ns")
        if command == "import olympia":
            Catalog.create(tmp_path / "second")
        if command == "import deltacat":
            with DeltacatWriter(tmp_path / "deltacat").transaction() as txn:
                txn.namespace("n")
        if command == "import iceberg":
            olympia(
                "table", "create", "sales.real", "--schema", "id int", "--location", str(tmp_path / "other" / "t")
            ).ok()
        if command == "table restore":
            olympia("table", "drop", "sales.orders_2025").ok()
        if command.startswith(("export ", "promote")) and not (tmp_path / "thursday").exists():
            olympia("export", "create", "thursday", "--dest", "thursday").ok()
        return olympia(*command.split(), *words, *more)

    return start


def test_every_command_has_a_shape():
    assert set(shapes.SHAPES) == set(COMMANDS)
    assert set(COMMANDS) - ELSEWHERE == set(SHAPES)
    for command, (name, _) in SHAPES.items():
        assert name in shapes.SHAPES[command]


@pytest.mark.parametrize("command", SHAPES)
def test_json(command, on_sample):
    """Stdout is one document of the documented shape."""
    done = on_sample(command, "--json").ok()
    check(done.json, SHAPES[command][0])
    jsonschema.validate(done.json, shapes.whole_schema(command, shapes.SHAPES[command]))
    assert done.stdout.endswith("\n")


@pytest.mark.parametrize("command", ["ns create", "table alter", "view create"])
def test_json_inside_a_transaction_has_no_version(command, on_sample, sample):
    done = on_sample(command, "--txn", sample.transaction, "--json").ok()
    check(done.json, "staged")
    assert done.json["transaction"] == sample.transaction


def test_json_of_init(run, tmp_path):
    made = run("init", tmp_path / "new", "--json").ok().json
    check(made, "init")
    assert made["created"] is True
    assert (made["catalog"], made["version"]) == (str(tmp_path / "new"), 0)
    again = run("init", tmp_path / "new", "--if-not-exists", "--json").ok().json
    assert again == {**made, "created": False}


def test_json_of_status_in_full(olympia):
    full = olympia("status", "--full", "--json").ok().json
    check(full, "status")
    check(full, "status-full")
    assert full["objects"] == {"namespaces": 3, "tables": 5, "views": 1}


def test_json_of_a_dry_run_has_the_same_shape(olympia):
    check(olympia("rollback", "v2", "--dry-run", "--json").ok().json, "rollback")
    check(olympia("compact", "--dry-run", "--json").ok().json, "compact")
    dry = olympia("apply", "-", "--dry-run", "--json", input='{"do": "ns create", "name": "n"}').ok().json
    check(dry, "changed")
    assert dry["version"] == 7


def test_json_of_apply_in_steps(olympia):
    done = olympia("apply", "-", "--commit-every", "1", "--json", input='{"do": "ns create", "name": "n"}').ok()
    check(done.json, "changed")
    assert done.json["lines"] == 1


def test_json_is_exact(olympia):
    """Names as they are, nothing escaped, nothing cut."""
    rows = olympia("table", "ls", "--json").ok().json["tables"]
    assert {"namespace": EMOJI, "name": "表"} in rows
    assert {"namespace": "a.b", "name": 'say"hi"'} in rows
    assert "表" in olympia("table", "ls", "--json").stdout


def test_the_values_behind_the_shapes(olympia):
    shown = olympia("table", "show", "sales.orders_2025", "--json").ok().json
    assert shown["metadata_location"].endswith("00009.metadata.json")
    assert shown["previous_metadata_location"].endswith("00000.metadata.json")
    assert shown["properties"] == {"tier": "gold"}
    assert (shown["format"], shown["version"]) == ("iceberg", 7)
    versions = {one["version"]: one for one in olympia("log", "--json").ok().json["versions"]}
    assert list(versions) == [7, 6, 5, 4, 3, 2, 1, 0]
    rollback = versions[6]
    assert (rollback["rollback_from"], rollback["rollback_to"], rollback["previous_version"]) == (5, 4, 5)
    assert {one["undone_by"] for number, one in versions.items() if number != 5} == {None}
    assert versions[5]["undone_by"] == 6
    assert versions[0]["previous_version"] is None
    assert (versions[4]["by"], versions[4]["message"], versions[7]["message"]) == ("bob@ci", "nightly", None)


@pytest.mark.parametrize(
    ("args", "exit_code", "code"),
    [
        (["table", "show", "sales.nope"], 10, "TableNotFound"),
        (["ns", "show", "nope"], 10, "NamespaceNotFound"),
        (["ns", "create", "sales"], 11, "NamespaceExists"),
        (["ns", "create", "with space"], 2, "InvalidName"),
        (["rollback", "v2"], 12, "Refused"),
        (["log", "--nope"], 2, "Usage"),
        (["nope"], 2, "Usage"),
        (["ns", "create"], 2, "Usage"),
        (["log", "-n", "many"], 2, "Usage"),
    ],
)
@pytest.mark.parametrize("form", [["--json"], ["-o", "json"], ["--output=jsonl"], ["-ojson"]], ids=" ".join)
def test_errors_as_json(args, exit_code, code, form, olympia):
    """Stderr is one document, also after a usage error."""
    done = olympia(*args, *form)
    assert (done.exit_code, done.stdout) == (exit_code, "")
    last = done.stderr.splitlines()[-1]
    check(json.loads(last), "error")
    assert json.loads(last)["error"]["code"] == code
    assert json.loads(last)["error"]["exit_code"] == exit_code
    assert done.stderr == last + "\n"


def test_json_after_a_double_dash_is_a_name(olympia):
    done = olympia("ns", "show", "--", "--json")
    done.failed(10, "--json")


LISTS = {
    "ns ls": ("namespaces", ["name"]),
    "table ls": ("tables", ["namespace", "name"]),
    "view ls": ("views", ["namespace", "name"]),
    "txn ls": ("transactions", ["id", "state"]),
    "export ls": ("exports", ["name", "state"]),
    "table history": ("revisions", ["version", "change"]),
    "log": ("versions", ["version"]),
}


def rows(start: Callable[..., Any], command: str) -> list[dict[str, Any]]:
    return start(command, "--json").ok().json[LISTS[command][0]]


@pytest.mark.parametrize("command", LISTS)
def test_jsonl_is_a_document_a_line(command, on_sample):
    expected = rows(on_sample, command)
    found = [json.loads(line) for line in on_sample(command, "-o", "jsonl").ok().lines]
    assert found == expected
    assert expected


@pytest.mark.parametrize("command", ["ns ls", "table ls", "view ls", "txn ls", "export ls"])
def test_csv_has_a_header_and_all_values(command, on_sample):
    table = list(csv.DictReader(io.StringIO(on_sample(command, "-o", "csv").ok().stdout)))
    expected = rows(on_sample, command)
    assert [{key: one[key] for key in LISTS[command][1]} for one in table] == [
        {key: str(one[key]) for key in LISTS[command][1]} for one in expected
    ]


def test_csv_of_the_log_has_a_row_for_each_action(on_sample):
    table = list(csv.DictReader(io.StringIO(on_sample("log", "-o", "csv").ok().stdout)))
    assert len(table) == sum(len(one["actions"]) for one in rows(on_sample, "log"))
    assert table[0]["type"] == "TABLE_RENAME"
    assert {one["undone_by"] for one in table} == {"", "6"}


def test_csv_of_a_diff_and_of_a_past_version(olympia):
    table = list(csv.DictReader(io.StringIO(olympia("diff", "v6", "-o", "csv").ok().stdout)))
    assert [(one["change"], one["name"]) for one in table] == [("renamed", "orders_2025")]
    table = list(csv.DictReader(io.StringIO(olympia("time-travel", "v1", "-o", "csv").ok().stdout)))
    assert [one["type"] for one in table] == ["namespace"] * 3


@pytest.mark.parametrize("command", ["ns show", "table show", "view show", "catalog show", "status", "txn show"])
def test_csv_of_one_object_is_one_row(command, on_sample):
    header, values = list(csv.reader(io.StringIO(on_sample(command, "-o", "csv").ok().stdout)))
    assert len(header) == len(values)
    assert "id" in header


def test_names_can_be_given_back(olympia):
    """Commands accept the names that `-o name` prints."""
    names = olympia("table", "ls", "-o", "name").ok().lines
    assert '"a.b"."say""hi"""' in names
    assert len(names) == 5
    for name in names:
        olympia("table", "show", name).ok()
    for name in olympia("ns", "ls", "-o", "name").ok().lines:
        olympia("ns", "show", name).ok()
    for name in olympia("view", "ls", "-o", "name").ok().lines:
        olympia("view", "show", name).ok()
    for version in olympia("log", "-o", "name").ok().lines:
        olympia("time-travel", version).ok()
    for id in olympia("txn", "ls", "-o", "name").ok().lines:
        olympia("txn", "show", id).ok()


@pytest.mark.parametrize("command", SHAPES)
@pytest.mark.parametrize("output", ["table", "wide"])
def test_a_pipe_gets_plain_lines(command, output, on_sample):
    """Uncut, without colours and without a box."""
    done = on_sample(command, "-o", output).ok()
    assert not set(done.stdout) & set("\x1b\r│┃━─┌┐└┘╭╮"), done.stdout
    assert "…" not in done.stdout


@pytest.mark.parametrize("command", ["ns ls", "table ls", "view ls", "txn ls", "table history"])
def test_a_pipe_gets_one_record_a_line_with_tabs_between(command, on_sample):
    expected = rows(on_sample, command)
    plain, wide = (on_sample(command, "-o", output).ok().lines for output in ("table", "wide"))
    assert len(plain) == len(wide) == len(expected)
    widths = {line.count("\t") for line in plain}
    assert len(widths) == 1
    for few, many in zip(plain, wide, strict=True):
        assert set(few.split("\t")) <= set(many.split("\t"))


def test_a_pipe_gets_names_of_any_length(run, tmp_path):
    name = "n" * 900
    run("init", tmp_path / "long", "--namespace-name-max-bytes", "1000", "--order", "64").ok()
    run("-c", tmp_path / "long", "ns", "create", name).ok()
    assert run("-c", tmp_path / "long", "ns", "ls").ok().stdout == name + "\n"


def test_a_pipe_gets_the_version_on_each_line_of_the_log(olympia):
    lines = olympia("log").ok().lines
    assert [line.split("\t")[0] for line in lines] == ["v7", "v6", "v5", "v4", "v3", *["v2"] * 5, *["v1"] * 3, "v0"]


def test_lists_are_streamed(olympia):
    """Even an empty list is a document."""
    assert olympia("view", "ls", "a.b", "--json").ok().json == {"version": 7, "views": []}
    assert olympia("view", "ls", "a.b").ok().stdout == ""
    assert olympia("log", "-n", "0", "--json").ok().json == {"versions": []}


def test_quiet_says_nothing_but_data(olympia):
    done = olympia("ns", "create", "n", "-q").ok()
    assert (done.stdout, done.stderr) == ("", "")
    done = olympia("rollback", "v2", "--yes", "--quiet").ok()
    assert (done.stdout, done.stderr) == ("", "")
    assert olympia("ns", "ls", "-q").ok().lines
    check(olympia("ns", "create", "m", "-q", "--json").ok().json, "changed")
