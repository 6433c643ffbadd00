"""Every parameter of every command, given nonsense: a documented exit code, at most one line of error, no traceback."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import COMMANDS, LazyCommand
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Ran, Run, Sample
from tests.helpers import prometheus

DOCUMENTED = {0, 2, 3, 10, 11, 12, 20, 21, 30, 31, 40, 41, 50, 51}
SILENT = {0, 50, 51}
"""Codes of commands that print no error."""

HERE = [path for path in COMMANDS if path != "serve"]
"""All commands but serve, which runs until it is stopped; tests/cli/test_serve.py gives it invalid values."""

BAD = {
    "empty": "",
    "space": " ",
    "long": "x" * 10_000,
    "long full name": "x" * 5_000 + "." + "y" * 5_000,
    "emoji": "\U0001f600.\U0001f600",
    "quote": '"',
    "quotes": '"a"."b',
    "apostrophe": "it's.here",
    "newline": "a\nb.c",
    "controls": "\x01\x1b[31m.\x7f\x9b",
    "turned around": "a\u202e.b",
    "not text": "a\udcff.b",
    "dashes": "--",
    "negative": "-1",
    "huge": "99999999999999999999999",
    "digits": "9" * 5_000,
    "not a number": "nan",
    "format": "%s%n{0}.{}",
    "dots": "a.b.c.d",
    "up": "../../../none",
    "equals": "=",
    "far": "latest~999999999999",
    "duration": "999999999999w",
    "no such day": "2026-02-30T25:61:61Z",
    "other digits": "٣",
}

NEEDED = {
    "name": "sales.lines",
    "namespace": "sales",
    "old": "sales.lines",
    "new": "sales.other",
    "reference": "v2",
    "file": "changes.jsonl",
    "id": "6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8",
    "shell": "bash",
    "plan": "plan",
    "metadata_location": "s3://x",
    "at": "v2",
    "dest": "elsewhere",
    "source": "./none",
    "prefix": "./none",
}
NEEDED_IN_NS = {"name": "sales", "old": "sales", "new": "other"}
NEEDED_OF_ROWS = {"name": "sales.real", "files": "rows.csv", "schema": "id int"}
ROWS = {"table create", "table append", "table head", "table alter"}
"""Commands that open a table's own files, so they get a table that has some."""


@cache
def params(path: str) -> list[Any]:
    """Return the command's own parameters, without the shared ones."""
    loaded = LazyCommand(path, "").load()
    return [param for param in loaded.params if param.expose_value and param.name not in ("help", "ctx")]


def is_flag(param: Any) -> bool:
    return bool(getattr(param, "is_flag", False))


def is_argument(param: Any) -> bool:
    return param.param_type_name == "argument"


def good(path: str, param: Any) -> str:
    special = NEEDED_OF_ROWS if path in ROWS else NEEDED_IN_NS if path.startswith("ns ") else {}
    return special.get(param.name) or NEEDED[param.name]


def words(path: str, changed: Any, value: str) -> list[str]:
    """A command line with all that is needed, and one value changed."""
    options, arguments = [], []
    for param in params(path):
        chosen = value if changed is not None and param.name == changed.name else None
        if chosen is None and param.required:
            chosen = good(path, param)
        if chosen is None:
            continue
        if is_argument(param):
            arguments.append(chosen)
        else:
            options.append(f"{param.opts[-1] if len(param.opts[-1]) > 2 else param.opts[0]}={chosen}")
    return [*path.split(), *options, "--", *arguments]


def check_ending(done: Ran, what: object) -> None:
    """Check that the command ended with a documented code, and with one line of error."""
    assert done.exit_code in DOCUMENTED, (what, done)
    assert "Traceback" not in done.stderr, (what, done.stderr)
    errors = [line for line in done.stderr.split("\n") if line.startswith("error:")]
    assert len(errors) == (0 if done.exit_code in SILENT else 1), (what, done.exit_code, done.stderr)
    if errors:
        assert done.stderr.endswith(errors[0] + "\n"), what
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", errors[0]), (what, errors[0])


@pytest.fixture
def prepared(run: Run, damageable: Sample, tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    (tmp_path / "changes.jsonl").write_text('{"do": "ns create", "name": "n", "if_not_exists": true}\n')
    (tmp_path / "plan").touch()
    (tmp_path / "rows.csv").write_text("id\n1\n")
    if request.node.callspec.params.get("path") in ROWS - {"table create"}:
        run("-c", damageable.uri, "table", "create", "sales.real", "--schema", "id int").ok()
    return lambda *args: run("-c", damageable.uri, *args)


@pytest.mark.parametrize("path", HERE)
def test_every_value_of_every_parameter(path, prepared, damageable):
    for param in params(path):
        if is_flag(param):
            check_ending(prepared(*path.split(), f"{param.opts[0]}=maybe"), (param.name, "maybe"))
            continue
        for what, value in BAD.items():
            check_ending(prepared(*words(path, param, value)), (param.name, what))
    Catalog.open(LocalStore(damageable.uri))


@pytest.mark.parametrize("path", HERE)
def test_values_that_are_missing(path, prepared):
    complete = words(path, None, "")
    at = complete.index("--")
    head, arguments = complete[:at], complete[at + 1 :]
    for param in params(path):
        if not is_argument(param) and not is_flag(param):
            done = prepared(*head, param.opts[0])
            assert done.exit_code == 2, (param.name, done)
            check_ending(done, param.name)
    for number in range(len(arguments)):
        done = prepared(*head, "--", *arguments[:number])
        assert done.exit_code in (0, 2, 51), (number, done)
        check_ending(done, number)
    done = prepared(*head, "--", *arguments, *["extra"] * 20)
    assert done.exit_code == 2
    check_ending(done, "extra")
    done = prepared(*head, "--no-such-option", "--", *arguments)
    assert done.exit_code == 2
    check_ending(done, "unknown option")


@pytest.mark.parametrize("option", ["--catalog", "-c", "--profile", "--output", "-o"])
@pytest.mark.parametrize("path", ["ns ls", "ns create", "log"])
def test_every_value_of_the_options_that_all_commands_have(path, option, run):
    for what, value in BAD.items():
        for args in ([option, value, *path.split()], [*path.split(), option, value]):
            check_ending(run(*args, *(["x"] if path == "ns create" else [])), what)


@pytest.mark.parametrize("variable", ["OLYMPIA_CATALOG", "OLYMPIA_PROFILE", "OLYMPIA_CONFIG", "XDG_CONFIG_HOME"])
def test_every_value_of_the_environment(variable, run, monkeypatch):
    for what, value in BAD.items():
        monkeypatch.setenv(variable, value)
        check_ending(run("ns", "ls"), what)


@pytest.mark.parametrize("what", BAD)
def test_nonsense_instead_of_a_command(what, run):
    check_ending(run(BAD[what]), what)
    check_ending(run("ns", BAD[what]), what)
    check_ending(run("ns", "ls", BAD[what]), what)


@pytest.mark.parametrize("path", HERE)
def test_all_flags_at_once(path, prepared):
    flags = [param.opts[0] for param in params(path) if is_flag(param)]
    complete = words(path, None, "")
    at = complete.index("--")
    check_ending(prepared(*complete[:at], *flags, *complete[at:]), flags)


@pytest.mark.parametrize(
    "args",
    [
        [b"ns", b"show", b"\xff"],
        [b"ns", b"create", b"caf\xe9", b"-m", b"\xfe"],
        [b"ns", b"create", b"x", b"--property", b"k=\xff"],
        [b"ns", b"ls", b"--at", b"\xff"],
        [b"apply", b"\xff\xfe.jsonl"],
        [b"\xff"],
        [b"log", b"-n", b"\xff", b"--json"],
    ],
    ids=ascii,
)
def test_bytes_that_are_not_text(args, program, sample):
    done = program("-c", sample.uri, *args)
    assert done.exit_code in (2, 10)
    if b"--json" not in args:
        check_ending(done, args)


def test_a_folder_name_that_is_not_utf8_is_escaped(program, tmp_path):
    place = bytes(tmp_path / "folder-") + b"\xff"
    program("init", place).ok()
    assert program("-c", place, "ns", "create", "x").ok().stdout == "v1  created namespace x\n"
    assert "folder-\\udcff" in program("-c", place, "status").ok().stdout
    samples = prometheus.parse(program("-c", place, "status", "--prometheus").ok().stdout)
    assert samples["olympia_up"].labels["catalog"].endswith("folder-\\udcff")
    assert program("-c", place, "status", "--json").ok().json["catalog"].endswith("folder-\udcff")
    program("-c", place + b"x", "ns", "ls").failed(10)


def test_a_key_to_unset_that_is_not_text(olympia):
    olympia("ns", "alter", "sales", "--unset", "\udcff").failed(2)


def test_a_lifetime_beyond_all_numbers(run, tmp_path):
    run("init", tmp_path / "new", "--txn-ttl", "999999999999w").failed(2)
