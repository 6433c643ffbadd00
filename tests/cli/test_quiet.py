"""Output for crontabs: `--quiet` prints nothing when all is well, and `-o csv` of a change is CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import root_path
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Ran, Run, Sample, program_line
from tests.cli.test_contract import SHAPES, on_sample  # noqa: F401
from tests.cli.test_terminal import look

TABLE = "ns.t"
DATA = {
    *(command for command in SHAPES if command.endswith((" ls", " show"))),
    *("table history", "table files", "table head", "log", "diff", "time-travel", "schema", "completion", "man"),
    *("dump-node", "tree", "txn begin"),
}
"""Commands that print data. SHAPES has all commands, as `test_contract` checks, except init and serve. A step below
runs init. serve prints its URL, and does not end."""


@pytest.mark.parametrize("command", SHAPES)
def test_every_command(command: str, on_sample: Callable[..., Any]):  # noqa: F811
    """With --quiet the command prints only the requested data."""
    done = on_sample(command, "-q").ok()
    assert done.stderr == ""
    assert command in DATA or done.stdout == ""


@pytest.mark.parametrize("command", [command for command in SHAPES if command not in DATA])
def test_every_command_that_changes_something_prints_csv(command: str, on_sample: Callable[..., Any]):  # noqa: F811
    rows = list(csv.reader(io.StringIO(on_sample(command, "-o", "csv").ok().stdout)))
    assert all(re.fullmatch("[a-z_]+", cell) for cell in rows[0]), rows
    assert {len(row) for row in rows} == {len(rows[0])}, rows


@pytest.fixture
def place(run: Run, tmp_path: Path) -> Path:
    """A catalog whose last fsck is thorough and has just been."""
    folder = tmp_path / "place"
    run("init", folder, "-q").ok()
    run("-c", folder, "ns", "create", "ns", "-q").ok()
    (tmp_path / "lines.jsonl").write_text('{"do": "ns create", "name": "applied"}\n')
    (tmp_path / "rest.jsonl").write_text('{"do": "ns create", "name": "more"}\n')
    run("-c", folder, "fsck", "--level", "full", "--all-versions", "-q").ok()
    return folder


STEPS: dict[str, tuple[str, ...]] = {
    "ns create": ("ns", "create", "b"),
    "ns create again": ("ns", "create", "b", "--if-not-exists"),
    "ns alter": ("ns", "alter", "b", "--set", "k=v"),
    "ns rename": ("ns", "rename", "b", "c"),
    "ns drop": ("ns", "drop", "c"),
    "ns restore": ("ns", "restore", "c", "--from", "latest~1"),
    "table register": ("table", "register", TABLE, "--metadata-location", "s3://b/t/metadata/0.json"),
    "table alter": ("table", "alter", TABLE, "--set", "k=v"),
    "table rename": ("table", "rename", TABLE, "ns.u"),
    "table drop": ("table", "drop", "ns.u"),
    "table restore": ("table", "restore", "ns.u", "--from", "latest~1"),
    "catalog alter": ("catalog", "alter", "--set", "k=v"),
    "compact": ("compact",),
    "compact --dry-run": ("compact", "--dry-run"),
    "apply": ("apply", "lines.jsonl"),
    "apply in steps": ("apply", "rest.jsonl", "--commit-every", "1"),
    "revert": ("revert", "latest", "--yes"),
    "rollback": ("rollback", "latest~1", "--yes"),
    "rollback --dry-run": ("rollback", "latest~1", "--dry-run"),
    "export create": ("export", "create", "friday", "--dest", "friday"),
    "export resume": ("export", "resume", "friday", "--dest", "friday"),
    "export drop --dry-run": ("export", "drop", "friday", "--dry-run"),
    "export drop": ("export", "drop", "friday", "--yes"),
    "expire": ("expire", "--yes", "--offline", "--keep-last", "1", "--older-than", "0s", "--grace", "0s"),
    "expire undo": ("expire", "undo", "--yes"),
    "expire purge": ("expire", "purge", "--yes"),
    "import olympia": ("import", "olympia", "friday"),
    "init": ("init", "other"),
    "init again": ("init", "other", "--if-not-exists"),
    "fsck --repair": ("fsck", "--repair", "--yes"),
}


def run_step(run: Run, place: Path, words: tuple[str, ...], *more: str) -> Ran:
    if words[0] in ("init",):
        return run(*words, *more)
    return run("-c", place, *words, *more)


def test_changes_that_go_well_say_nothing(run: Run, place: Path):
    for name, words in STEPS.items():
        done = run_step(run, place, words, "-q").ok()
        assert (done.stdout, done.stderr) == ("", ""), name


def test_changing_commands_print_csv(run: Run, place: Path):
    for name, words in STEPS.items():
        done = run_step(run, place, words, "-o", "csv").ok()
        rows = list(csv.reader(io.StringIO(done.stdout)))
        assert rows, name
        assert all(re.fullmatch("[a-z_]+", cell) for cell in rows[0]), (name, rows)
        assert {len(row) for row in rows} == {len(rows[0])}, (name, rows)


def test_the_rows_of_a_change_are_its_actions(run: Run, place: Path):
    done = run("-c", place, "ns", "create", "a,b", "-o", "csv").ok()
    head, *rows = csv.reader(io.StringIO(done.stdout))
    assert head == ["version", "transaction", "type", "object", "namespace", "name"]
    assert rows == [["2", "", "NAMESPACE_CREATE", "namespace", "a,b", "a,b"]]
    done = run("-c", place, "ns", "create", "a,b", "--if-not-exists", "-o", "csv").ok()
    assert list(csv.reader(io.StringIO(done.stdout))) == [head]
    id = run("-c", place, "txn", "begin", "-o", "name").ok().stdout.strip()
    done = run("-c", place, "ns", "create", "c", "--txn", id, "-o", "csv").ok()
    assert list(csv.reader(io.StringIO(done.stdout)))[1][:3] == ["", id, "NAMESPACE_CREATE"]
    done = run("-c", place, "txn", "abort", id, "--yes", "-o", "csv").ok()
    head, row = csv.reader(io.StringIO(done.stdout))
    assert dict(zip(head, row, strict=True))["aborted"] == "yes"


def test_the_row_of_a_document_has_its_values(run: Run, place: Path):
    done = run("-c", place, "export", "create", "friday", "--dest", "friday", "-o", "csv").ok()
    head, row = csv.reader(io.StringIO(done.stdout))
    values = dict(zip(head, row, strict=True))
    assert (values["name"], values["mode"], values["at_version"]) == ("friday", "full", "1")
    done = run("-c", place, *STEPS["expire"], "-o", "csv").ok()
    head, row = csv.reader(io.StringIO(done.stdout))
    assert json.loads(dict(zip(head, row, strict=True))["files"])["roots"] > 0


class TestVerdicts:
    CHECKS: tuple[tuple[str, ...], ...] = (
        ("status",),
        ("doctor",),
        ("fsck",),
        ("fsck", "--level", "full", "--all-versions"),
        ("fsck", "--level", "hints"),
        ("fsck", "--repair", "--dry-run"),
    )

    @pytest.mark.parametrize("words", CHECKS, ids=" ".join)
    def test_nothing_when_all_is_well(self, run: Run, place: Path, words: tuple[str, ...]):
        done = run("-c", place, *words, "-q").ok()
        assert (done.stdout, done.stderr) == ("", "")
        assert run("-c", place, *words).ok().stdout

    def test_nothing_when_an_export_is_whole(self, run: Run, place: Path):
        run("-c", place, "export", "create", "friday", "--dest", "friday", "-q").ok()
        done = run("-c", place, "export", "verify", "friday", "-q").ok()
        assert (done.stdout, done.stderr) == ("", "")

    def test_quiet_hides_information_findings(self, run: Run, place: Path):
        (place / "node").mkdir(exist_ok=True)
        (place / "node" / "00000000-0000-4000-8000-000000000000.arrow").write_bytes(b"orphan")
        words = ("fsck", "--level", "full", "--all-versions")
        assert "F901" in run("-c", place, *words).ok().stdout
        assert run("-c", place, *words, "-q").ok().stdout == ""

    def test_quiet_prints_warning_findings(self, run: Run, place: Path):
        (place / "vn" / "latest").write_text("x")
        lines = run("-c", place, "fsck", "-q").ok().lines
        assert [line.split("\t")[:2] for line in lines[:-1]] == [["warning", "F112"]]
        assert lines[-1].startswith("SOUND")

    def test_quiet_prints_damage(self, run: Run, damageable: Sample):
        [path] = {Catalog(LocalStore(damageable.uri)).snapshot().root.catalog_def}
        (damageable.folder / path).unlink()
        done = run("-c", damageable.uri, "fsck", "-q")
        assert done.exit_code == 50
        assert "F307" in done.stdout
        assert "DAMAGED" in done.stdout

    def test_quiet_prints_only_reasons_for_attention(self, run: Run, place: Path):
        (place / "vn" / "latest").unlink()
        (place / "vn" / "latest").mkdir()
        done = run("-c", place, "status", "-q")
        assert done.exit_code == 51
        assert done.lines == [
            "verdict\tneeds attention",
            f"reason\ta hint cannot be read: a folder stands at vn/latest in {place}\tolympia -c {place} fsck",
        ]
        done = run("-c", place, "doctor", "-q")
        assert done.exit_code == 51
        assert [line.split("\t")[0] for line in done.lines] == ["check", "next"]
        seen = look("-c", str(place), "status", "-q")
        assert seen.plain[0].startswith("NEEDS ATTENTION  ")
        assert seen.plain[-1].startswith("    next  ")
        assert "version" not in [line.split()[0] for line in seen.plain]

    def test_quiet_prints_errors(self, run: Run, place: Path):
        (place / root_path(1)).write_bytes(b"")
        done = run("-c", place, "status", "-q")
        assert done.exit_code == 40
        assert done.stderr.startswith("error: ")

    def test_an_undo_that_leaves_versions_says_which(self, run: Run, place: Path):
        for name in ("b", "c"):
            run("-c", place, "ns", "create", name, "-q").ok()
        words = ("--offline", "--grace", "0s", "--keep-last", "1", "--older-than", "0s", "--yes")
        run("-c", place, "expire", *words, "-q").ok()
        (place / root_path(1)).unlink()
        done = run("-c", place, "expire", "undo", "--yes", "-q")
        assert (done.exit_code, done.stdout) == (3, "")
        lines = done.stderr.splitlines()
        assert lines[0] == "leaves v0…v1 (2 versions) in quarantine, because files are missing or damaged:"
        assert lines[1].startswith(f"  {root_path(1)}: ")
        assert lines[-1] == f"restore the files from a backup, and then: olympia -c {place} expire undo"

    def test_quiet_salvage_prints_its_losses(self, run: Run, damageable: Sample, tmp_path: Path):
        latest = Catalog(LocalStore(damageable.uri)).snapshot().version
        (damageable.folder / root_path(latest)).unlink()
        done = run("-c", damageable.uri, "fsck", "--salvage", tmp_path / "saved", "-q")
        assert done.exit_code == 3
        lines = done.stderr.splitlines()
        assert lines[0] == "  1 version missing"
        assert re.fullmatch(r"[0-9]+ objects of v[0-9]+ are in .*; [0-9]+ objects? lost", lines[-1]), lines

    @pytest.mark.parametrize("words", [("status",), ("doctor",), ("fsck",)], ids=" ".join)
    def test_quiet_prints_requested_json_and_csv(self, run: Run, place: Path, words: tuple[str, ...]):
        """A program that asked for JSON or CSV gets it."""
        assert run("-c", place, *words, "-q", "--json").ok().json
        assert run("-c", place, *words, "-q", "-o", "csv").ok().stdout

    def test_an_import_that_is_checked(self, run: Run, place: Path):
        assert run("-c", "new", "import", "olympia", place, "--check", "-q").ok().stdout == ""


def crontab_lines() -> list[str]:
    guide = (Path(__file__).parents[2] / "docs/guides/cron-and-ci.md").read_text(encoding="utf-8")
    return re.findall(r"^[*0-9/]+ [*0-9/]+ \* \* \* (.*olympia .*)$", guide, re.MULTILINE)


def test_the_lines_of_the_guide_print_nothing_when_all_is_well(place: Path, tmp_path: Path):
    """cron gives them to sh, and would mail each byte that they print."""
    script = tmp_path / "bin" / "olympia"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.join(program_line({}))} "$@"\n')
    script.chmod(0o755)
    places = {"s3://lake/catalog": place, "/var/lib/node_exporter": tmp_path, "/var/log": tmp_path}
    environment = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}"}
    assert len(crontab_lines()) == 5
    for line in crontab_lines():
        for written, here in places.items():
            line = line.replace(written, str(here))
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), line
    assert "olympia_up" in (tmp_path / "olympia.prom").read_text()
    assert json.loads((tmp_path / "olympia.jsonl").read_text().splitlines()[-1])["exit_code"] == 0
