"""Many changes from JSON lines: all or nothing, or in steps that can be continued."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode

import pytest

from tests.cli.conftest import command_line
from tests.cli.killing import run_killed
from tests.cli.racing import race
from tests.helpers.check import check_catalog
from tests.helpers.names import ns


def lines(*statements: dict[str, object]) -> str:
    return "".join(json.dumps(statement) + "\n" for statement in statements)


def namespaces(count: int, first: int = 0) -> str:
    return lines(*({"do": "ns create", "name": f"n{number:04}"} for number in range(first, first + count)))


PLAN = b64encode(b"\xff plan").decode()

EVERYTHING = [
    {"do": "ns create", "name": "x.y", "properties": {"owner": "ann"}},
    {"do": "ns create", "name": "sales", "if_not_exists": True},
    {"do": "ns alter", "name": "x.y", "set": {"a": "1"}, "unset": ["owner"]},
    {"do": "table register", "namespace": "x.y", "name": "t", "metadata_location": "s3://0", "properties": {"k": "v"}},
    {"do": "table register", "name": '"x.y"."t.2"', "metadata_location": "s3://0"},
    {"do": "table register", "name": "sales.lines", "metadata_location": "s3://0", "if_not_exists": True},
    {"do": "table alter", "name": '"x.y".t', "set": {"a": "1"}, "unset": ["k"], "metadata_location": "s3://1"},
    {"do": "table rename", "namespace": "x.y", "name": "t", "to": {"namespace": "x.y", "name": "u.1"}},
    {"do": "table drop", "name": "sales.lines"},
    {"do": "table drop", "name": "sales.lines", "if_exists": True},
    {"do": "view create", "name": "sales.v", "plan": PLAN, "properties": {"k": "v"}, "default_namespace": "sales"},
    {"do": "view replace", "name": "sales.v", "plan": PLAN, "schema_binding": True},
    {"do": "view alter", "name": "sales.v", "set": {"k": "w"}},
    {"do": "view rename", "name": "sales.v", "to": '"x.y".v'},
    {"do": "view rename", "namespace": "x.y", "name": "v", "to": "sales.w"},
    {"do": "view drop", "name": "sales.open"},
    {"do": "view drop", "name": "sales.open", "if_exists": True},
    {"do": "catalog alter", "set": {"k": "v"}},
    {"do": "ns create", "name": "gone"},
    {"do": "ns rename", "name": "gone", "to": "going"},
    {"do": "ns drop", "name": "going"},
    {"do": "ns drop", "name": "going", "if_exists": True},
    {"do": "ns drop", "name": "a.b", "cascade": True},
]


class TestAllOrNothing:
    def test_every_statement_in_one_version(self, olympia):
        done = olympia("apply", "-", "-m", "everything", "--json", input=lines(*EVERYTHING)).ok().json
        assert done["version"] == 8
        assert olympia("table", "ls", "x.y", "-o", "name").ok().lines == ['"x.y"."t.2"', '"x.y"."u.1"']
        shown = olympia("table", "show", '"x.y"."u.1"', "--json").ok().json
        assert (shown["metadata_location"], shown["properties"]) == ("s3://1", {"a": "1"})
        assert olympia("view", "ls", "-o", "name").ok().lines == ["sales.w"]
        assert olympia("ns", "show", "x.y", "--json").ok().json["properties"] == {"a": "1"}
        assert olympia("catalog", "show", "--json").ok().json["properties"] == {"k": "v"}
        assert olympia("log", "-n", "1", "--json").ok().json["versions"][0]["message"] == "everything"

    def test_a_file_and_standard_input_mean_the_same(self, olympia, tmp_path):
        (tmp_path / "changes.jsonl").write_text(namespaces(2))
        assert olympia("apply", "changes.jsonl").ok().lines == ["v8  made 2 changes"]
        assert olympia("apply", "-", input="\n\n" + namespaces(2, 2) + "  \n").ok().lines == ["v9  made 2 changes"]

    def test_nothing_to_do(self, olympia):
        assert olympia("apply", "-", input="").ok().lines == ["v7  nothing to do"]

    def test_a_dry_run(self, olympia):
        done = olympia("apply", "-", "--dry-run", input=namespaces(3)).ok()
        assert done.lines == ["v7  would make 3 changes"]
        olympia("apply", "-", "-n", input=namespaces(1) + "{").failed(2, "line 2")
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]

    @pytest.mark.parametrize(
        ("bad", "words"),
        [
            ("{", ["not JSON"]),
            ("[" * 100_000, ["not JSON"]),
            ("9" * 5000, ["not JSON"]),
            ('{"do": "ns create", "name": "x", "properties": {"a": NaN}}', ["not JSON", "NaN"]),
            ('{"do": "ns create", "name": "x", "properties": {"a": 1e999}}', ["not JSON", "1e999"]),
            ('{"do": "ns drop", "name": "x", "cascade": true, "name": "y"}', ["'name' is given twice"]),
            ("[]", ['no "do"']),
            ('"ns create"', ['no "do"']),
            ("{}", ['no "do"']),
            ('{"do": 3}', ['no "do"']),
            ('{"do": "ns explode"}', ["'ns explode'", "ns create"]),
            ('{"do": "ns create"}', ['"name" is missing']),
            ('{"do": "ns create", "name": 3}', ['"name" is not a string']),
            ('{"do": "ns create", "name": null}', ['"name"']),
            ('{"do": "ns create", "name": "a b"}', ["U+0020"]),
            ('{"do": "ns create", "name": "\\ud800"}', ["not valid Unicode"]),
            ('{"do": "ns create", "name": "x", "propertys": {}}', ["'propertys'", "properties"]),
            ('{"do": "ns create", "name": "x", "properties": {"a": 1}}', ['"properties"']),
            ('{"do": "ns create", "name": "x", "properties": []}', ['"properties"']),
            ('{"do": "ns create", "name": "x", "if_not_exists": "yes"}', ["neither true nor false"]),
            ('{"do": "ns alter", "name": "x", "unset": "a"}', ["not a list of strings"]),
            ('{"do": "table drop", "name": "nodot"}', ["full name"]),
            ('{"do": "table rename", "name": "a.b", "to": {"namespace": "a"}}', ['"name" is missing']),
            ('{"do": "table rename", "name": "a.b", "to": {"namespace": "a", "name": "b", "x": 1}}', ["'x'"]),
            ('{"do": "view create", "name": "a.v", "plan": "not base64!"}', ["not base64"]),
            ('{"do": "table register", "name": "a.t"}', ['"metadata_location" is missing']),
        ],
        ids=lambda value: value[:60] if isinstance(value, str) else "",
    )
    def test_an_invalid_line_is_reported_with_its_number(self, olympia, bad, words):
        done = olympia("apply", "-", input=namespaces(1) + "\n" + bad + "\n" + namespaces(1, 5))
        done.failed(2, "line 3", *words)
        assert len(done.stderr) < 600
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]

    @pytest.mark.parametrize(
        ("statement", "code"),
        [
            ({"do": "ns create", "name": "sales"}, 11),
            ({"do": "ns drop", "name": "nope"}, 10),
            ({"do": "table drop", "name": "sales.nope"}, 10),
            ({"do": "ns drop", "name": "sales"}, 11),
            ({"do": "ns alter", "name": "sales"}, 2),
            ({"do": "ns create", "name": "n" * 101}, 2),
            ({"do": "ns create", "name": "x", "properties": {"\ud800": "x"}}, 2),
            ({"do": "table register", "name": "sales.x", "metadata_location": "\ud800"}, 2),
            ({"do": "catalog alter", "set": {"olympia.expire.oldest": "3"}}, 2),
        ],
        ids=lambda value: json.dumps(value)[:60],
    )
    def test_a_statement_that_does_not_fit_keeps_its_exit_code(self, olympia, statement, code):
        olympia("apply", "-", input=namespaces(2) + lines(statement)).failed(code, "line 3: ")
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]

    def test_a_conflict_leaves_nothing_behind(self, olympia, monkeypatch):
        race(monkeypatch, lambda t: t.create_namespace(ns("n0001")))
        olympia("apply", "-", input=namespaces(3)).failed(20)
        assert olympia("ns", "ls").ok().lines == ["a.b", "n0001", "sales", "smile😀"]

    @pytest.mark.parametrize("steps", [[], ["--commit-every", "1"]])
    def test_input_that_is_not_text(self, olympia, tmp_path, steps):
        (tmp_path / "bad").write_bytes(namespaces(3).encode() + b"\xff\n")
        olympia("apply", "bad", *steps).failed(2, "not UTF-8")
        olympia("apply", "-", *steps, input=b"\xff\xfe{}").failed(2, "not UTF-8")
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]


class TestSteps:
    def test_each_step_is_a_version(self, olympia):
        done = olympia("apply", "-", "--commit-every", "2", input=namespaces(5)).ok()
        assert done.lines == ["v10  applied 5 lines"]
        assert done.stderr.splitlines() == ["v8  2 lines", "v9  4 lines", "v10  5 lines"]

    def test_repeated_apply_changes_nothing(self, olympia):
        steps = ["apply", "-", "--commit-every", "2", "--json"]
        assert olympia(*steps, input=namespaces(5)).ok().json["done_before"] == 0
        again = olympia(*steps, input=namespaces(5)).ok().json
        assert (again["version"], again["lines"], again["done_before"]) == (10, 5, 5)
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v10"]

    def test_again_after_others_went_on(self, olympia):
        steps = ["apply", "-", "--commit-every", "2", "--json"]
        olympia(*steps, input=namespaces(4)).ok()
        olympia("ns", "drop", "n0001").ok()
        olympia(*steps, input=namespaces(4)).ok()
        assert "n0001" not in olympia("ns", "ls").ok().lines, "what was dropped since is not brought back"

    def test_apply_after_a_rollback_repeats_the_undone_steps(self, olympia):
        steps = ["apply", "-", "--commit-every", "2", "--json"]
        olympia(*steps, input=namespaces(4)).ok()
        olympia("rollback", "v8", "--yes").ok()
        again = olympia(*steps, input=namespaces(4)).ok().json
        assert again["done_before"] == 2
        assert [name for name in olympia("ns", "ls").ok().lines if name[0] == "n"] == [f"n{i:04}" for i in range(4)]

    def test_another_input_is_another_run(self, olympia):
        olympia("apply", "-", "--commit-every", "2", input=namespaces(2)).ok()
        olympia("apply", "-", "--commit-every", "2", input=namespaces(3)).failed(11, "line 1: ")

    def test_a_bad_line_is_found_before_anything_is_committed(self, olympia):
        olympia("apply", "-", "--commit-every", "1", input=namespaces(3) + "{").failed(2, "line 4")
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]

    def test_apply_stops_at_a_failing_line_and_resumes_later(self, olympia):
        text = namespaces(3) + lines({"do": "ns drop", "name": "nope"}) + namespaces(2, 3)
        olympia("apply", "-", "--commit-every", "2", input=text).failed(10, "line 4: ")
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v8"]
        olympia("ns", "create", "nope").ok()
        olympia("apply", "-", "--commit-every", "2", input=text).ok()
        assert [name for name in olympia("ns", "ls").ok().lines if name[0] == "n"] == [f"n{i:04}" for i in range(5)]

    def test_from_a_pipe_with_a_name(self, sample):
        """A shell's `<(…)` is such a pipe: it cannot be read twice."""
        command = " ".join(f"'{word}'" for word in [*command_line(), "-c", sample.uri])
        script = f"{command} apply <(printf '%s' \"$1\") --commit-every 2 -q"
        done = subprocess.run(["bash", "-c", script, "bash", namespaces(3)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert sample.catalog.snapshot().version == 9

    def test_apply_repeated_after_kills_makes_each_object_once(self, sample, tmp_path):
        """Killed four times, in steps that are begun: before its definition, its nodes and its root are there."""
        count = 60
        (tmp_path / "many.jsonl").write_text(namespaces(count))
        words = ["-c", sample.uri, "apply", str(tmp_path / "many.jsonl"), "--commit-every", "3"]
        for number in (6, 8, 9, 10):
            run_killed(*words, event="os.link", number=number)
        command = [*command_line(), *words]
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
        assert 0 < json.loads(done.stdout)["done_before"] < count
        created = [
            name.namespace
            for contents in [check_catalog(sample.store)[sample.catalog.snapshot().version]]
            for name in contents
            if name.namespace.startswith("n0")
        ]
        assert sorted(created) == [f"n{number:04}" for number in range(count)]
        log = subprocess.run([*command[:3], "log", "--action", "NAMESPACE_CREATE", "-o", "csv"], capture_output=True)
        assert log.stdout.count(b",NAMESPACE_CREATE,") == count + 3
