"""`--log-format json`: what goes to stderr, one JSON object a line, for cron and who collects its logs."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from olympia_cli.cli.boundary import begin, tell
from olympia_cli.cli.output.terminal import EVERY_SECONDS, PATIENCE_SECONDS, Lines
from tests.cli.conftest import Ran, command_line
from tests.cli.test_terminal import look
from tests.helpers.json_schema import check

JSON = ("--log-format", "json")


def log(done: Ran) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    for line in lines:
        check(line, "log-line")
    return lines


def test_a_run_that_goes_well(olympia, sample):
    done = olympia("ns", "create", "x", *JSON).ok()
    assert done.stdout == "v8  created namespace x\n"
    [end] = log(done)
    assert (end["level"], end["message"], end["exit_code"]) == ("info", "done", 0)
    assert (end["command"], end["catalog"]) == ("ns create", sample.uri)
    assert olympia("ns", "create", "y", *JSON, "-q").ok().stderr == ""


def test_talk_and_how_it_ended(olympia, run, damageable):
    *talk, end = log(olympia("rollback", "v2", "--dry-run", *JSON).ok())
    assert talk
    assert {line["level"] for line in talk} == {"info"}
    assert {line["exit_code"] for line in talk} == {None}
    (damageable.folder / "vn" / "latest").write_text("9")
    warning, *_ = log(run("-c", damageable.uri, "ns", "ls", *JSON).ok())
    assert (warning["level"], warning["message"].split()[0]) == ("warning", "vn/latest")
    attention, end = log(run("-c", damageable.uri, "status", *JSON))
    assert (attention["level"], end["level"], end["exit_code"]) == ("warning", "warning", 51)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    ("args", "code", "exit_code", "command"),
    [
        (["ns", "show", "nope"], "NamespaceNotFound", 10, "ns show"),
        (["rollback", "v2"], "Refused", 12, "rollback"),
        (["log", "--nope"], "Usage", 2, "log"),
        (["nope"], "Usage", 2, None),
    ],
    ids=str,
)
def test_an_error_is_the_last_line_and_the_only_one_that_says_so(olympia, args, code, exit_code, command, form):
    done = olympia(*args, *JSON, *form)
    assert done.exit_code == exit_code
    *_, error = log(done)
    assert (error["level"], error["code"], error["exit_code"]) == ("error", code, exit_code)
    assert error["command"] == command
    assert ("error" in error) is bool(form)
    if form:
        check({"error": error["error"]}, "error")
    assert [line["exit_code"] for line in log(done) if line["exit_code"] is not None] == [exit_code]


def test_data_is_as_ever(olympia):
    plain = olympia("table", "ls", "--json").ok()
    logged = olympia("table", "ls", "--json", *JSON).ok()
    assert logged.stdout == plain.stdout
    assert plain.stderr == ""


def test_the_variable_and_the_flag(olympia, monkeypatch):
    monkeypatch.setenv("OLYMPIA_LOG_FORMAT", "json")
    assert log(olympia("ns", "ls").ok())
    assert log(olympia("ns", "show", "nope"))[-1]["exit_code"] == 10
    assert olympia("ns", "ls", "--log-format", "text").ok().stderr == ""
    olympia("ns", "show", "nope", "--log-format=text").failed(10)
    monkeypatch.setenv("OLYMPIA_LOG_FORMAT", "xml")
    olympia("ns", "ls").failed(2, "OLYMPIA_LOG_FORMAT")
    monkeypatch.delenv("OLYMPIA_LOG_FORMAT")
    olympia("ns", "ls", "--log-format", "xml").failed(2)
    olympia("ns", "show", "--", "--log-format=json").failed(10)
    assert olympia("--help").ok().stderr == ""


def test_json_log_escapes_catalog_values_once(run, tmp_path):
    """Values of the catalog are not escaped twice."""
    folder = tmp_path / "tab\there"
    run("init", folder).ok()
    [end] = log(run("-c", folder, "ns", "ls", *JSON).ok())
    assert end["catalog"] == str(folder)


def test_progress_is_lines_of_the_log(capsys):
    clock = [0.0]
    begin(["--log-format", "json"])
    try:
        lines = Lines(tell, lambda: clock[0])
        clock[0] = PATIENCE_SECONDS
        lines.phase("reading", 100)
        clock[0] += EVERY_SECONDS
        lines.advance(50)
    finally:
        begin([])
    texts = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert texts == ["reading: 100", "reading: 50 of 100 (50%), 2/s, 30s left"]


def test_no_bar_on_a_terminal(sample):
    seen = look("-c", sample.uri, "fsck", "--level", "full", *JSON)
    assert seen.exit_code == 0
    *data, end = seen.lines
    assert json.loads(end)["exit_code"] == 0
    assert len(data) == 1


def test_ctrl_c(sample):
    command = [*command_line(), "-c", sample.uri, "status", "--watch", "60", *JSON]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.send_signal(2)
        assert process.wait(timeout=30) == 130
        [line] = [json.loads(line) for line in process.stderr]
    assert (line["level"], line["message"], line["exit_code"]) == ("error", "interrupted", 130)
