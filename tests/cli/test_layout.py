"""The layout on terminals of 80, 120 and 200 columns, tested in this process with a screen for stdout."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from olympia_cli.cli.app import app
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from tests.cli.conftest import Sample
from tests.cli.test_terminal import look
from tests.helpers.names import location, ns, table

TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3})?Z")
WIDTHS = [80, 120, 200]

Show = Callable[..., list[str]]


class Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def show(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> Show:
    """The lines that a command puts on a terminal without colours."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("OLYMPIA_PAGER", "cat")

    def run(*args: str, width: int = 80) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        screen = Screen()
        with contextlib.redirect_stdout(screen):
            assert app(["-c", sample.uri, *args], standalone_mode=False) == 0
        return screen.getvalue().splitlines()

    return run


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "args", [["txn", "ls"], ["txn", "ls", "-o", "wide"], ["table", "history", "sales.orders_2025"], ["log"]]
)
def test_times_and_ids_are_in_one_piece(show, sample, width, args):
    lines = show(*args, width=width)
    assert max(map(len, lines)) <= width
    broken = [line for line in lines if re.search(r"\d{4}-\d\d-\d", line) and not TIME.search(line)]
    assert broken == []
    assert any(TIME.search(line) for line in lines)
    if args[0] == "txn":
        assert any(sample.transaction in line for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_doctor_fits(show, width):
    checks, _, versions, following = "\n".join(show("doctor", width=width)).split("\n\n")
    lines = [*checks.splitlines(), *versions.splitlines(), *following.splitlines()[1:]]
    assert max(map(len, lines)) <= width
    assert "pyarrow" in versions


def test_a_version_is_not_called_a_time(show):
    assert show("txn", "ls", width=120)[0].split() == ["TRANSACTION", "STATE", "VERSION", "EXPIRES"]


def test_cells_keep_locations_unbroken_and_maps_without_json(sample, monkeypatch):
    """A location is in one piece, or in lines of its own; a map has no marks of JSON."""
    columns = [render.Column(key, key.upper()) for key in ("name", "partition", "tags", "location")]
    row = {
        "name": "t",
        "partition": {"day": "2026-01-01", "n": None},
        "tags": ["a", "b"],
        "location": "s3://b/" + "x" * 60,
    }
    shown = {}
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("OLYMPIA_PAGER", "cat")
        with contextlib.redirect_stdout(Screen()) as screen:
            session = Session(SimpleNamespace(meta={}, command_path="olympia table files"))
            render.records(session, "files", columns, [row])
        shown[width] = screen.getvalue().splitlines()
    assert shown[80] == [
        "NAME       t",
        "PARTITION  day=2026-01-01, n=",
        "TAGS       a, b",
        f"LOCATION   {row['location']}",
    ]
    assert shown[120][1].split("  ")[-1] == row["location"]


def test_a_table_that_does_not_fit_becomes_lines(show, sample):
    assert show("txn", "ls", "-o", "wide")[:2] == [f"TRANSACTION   {sample.transaction}", "STATE         open"]
    [head, row] = show("txn", "ls", "-o", "wide", width=200)
    assert head.split()[:2] == ["TRANSACTION", "STATE"]
    assert row.startswith(sample.transaction)


def test_oneline_log_without_a_message_shows_the_actions(show, sample):
    with sample.catalog.transaction() as transaction:
        transaction.create_namespace(ns("x"))
        for number in range(9):
            transaction.create_table(table(f"x.t{number}"), location())
    newest, before, *_ = show("log", "--oneline", width=120)
    assert "+10         + namespace x and 1 more " in newest
    assert ">1          > table sales.orders to sales.orders_2025 " in before


def test_a_patch_says_each_thing_once(show):
    assert [line.strip() for line in show("log", "-p", "--since", "v5", "--until", "v5")[1:]] == [
        "tidy up",
        "- table sales.lines",
        *[line for line in map(str.strip, show("log", "-p", "--until", "v5", "-n", "1")) if line.startswith("- id")],
        "- properties.k: v",
        f"- iceberg_metadata_location: {location(0)}",
    ]
    rollback = show("log", "-p", "--until", "v6", "-n", "1")
    assert [line.strip() for line in rollback[1:4]] == ["bad idea", "< undoes v5", "+ table sales.lines"]


@pytest.mark.parametrize(
    "message",
    ["- table sales.orders", "  - table sales.orders", "+ 5 tables", "\u2212 table sales.orders", "< undoes v5", "! x"],
)
def test_a_message_that_looks_like_an_action_is_quoted(show, sample, message):
    with sample.catalog.transaction(f"first\n{message}") as transaction:
        transaction.create_namespace(ns("x"))
    assert show("log", "-n", "1")[1:] == ["    first", f'    "{message}"', "    + namespace x"]
    with sample.catalog.transaction(message) as transaction:
        transaction.create_namespace(ns("y"))
    assert f'"{message}"' in show("log", "-n", "1", "--oneline")[0]


def test_diff_folds_like_objects_and_lists_altered_ones_separately(show, sample):
    with sample.catalog.transaction() as transaction:
        for number in range(6):
            transaction.create_table(table(f"sales.new{number}"), location())
        for name in ("sales.lines", "sales.orders_2025"):
            transaction.alter_table(table(name), {"k": "w"})
    assert show("diff") == [
        "v7 → v8",
        "~ table sales.lines",
        "    - properties.k: v",
        "    + properties.k: w",
        "+ 6 tables  sales.new0 … new5",
        "~ table sales.orders_2025",
        "    + properties.k: w",
    ]


def drawn(screen: str, width: int) -> list[str]:
    """Return the final content of the terminal, after lines were overwritten and erased."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for found in re.finditer(r"\x1b\[([0-9;?]*)([A-Za-z])|[^\x1b]", screen):
        if found[2] == "A":
            row -= int(found[1] or 1)
        elif found[2] == "K":
            lines[row] = [] if found[1] == "2" else lines[row][:column]
        elif found[0] == "\r":
            column = 0
        elif found[0] == "\n" or (column == width and found[2] is None):
            row, column = row + 1, column if found[0] == "\n" else 0
            lines += [[] for _ in range(row + 1 - len(lines))]
        if found[2] is None and found[0] not in "\r\n":
            lines[row] += " " * (column + 1 - len(lines[row]))
            lines[row][column] = found[0]
            column += 1
    return ["".join(line).rstrip() for line in lines]


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_left_of_a_progress_bar(sample, width):
    seen = look("-c", sample.uri, "expire", "--simulate", width=width)
    assert "reading kept versions" in seen.screen
    lines = drawn(seen.screen, width)
    assert lines[0].split() == ["POLICY", "OLDEST", "VERSIONS", "FILES", "BYTES"]
    assert not [line for line in lines if "reading" in line or "━" in line]


@pytest.mark.parametrize("name", ["table sales.lines", "view sales.open"])
def test_a_drop_says_how_to_bring_the_object_back(sample, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "200")
    group, _, full_name = name.partition(" ")
    stderr = io.StringIO()
    with contextlib.redirect_stdout(Screen()), contextlib.redirect_stderr(stderr):
        assert app(["-c", sample.uri, group, "drop", full_name], standalone_mode=False) == 0
    _, _, command = stderr.getvalue().rstrip("\n").partition("to bring it back: olympia ")
    assert command, stderr.getvalue()
    with contextlib.redirect_stdout(Screen()):
        assert app([*shlex.split(command)], standalone_mode=False) == 0
        assert app(["-c", sample.uri, group, "show", full_name], standalone_mode=False) == 0
