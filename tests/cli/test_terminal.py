"""Output on a terminal: real processes on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from tests.cli.conftest import Sample, command_line
from tests.helpers import warm
from tests.helpers.names import location, ns
from tests.helpers.names import table as table_name
from tests.helpers.patience import PATIENCE

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Seen:
    exit_code: int
    screen: str

    @property
    def lines(self) -> list[str]:
        return self.screen.replace("\r\n", "\n").splitlines()

    @property
    def plain(self) -> list[str]:
        """The lines without colours and without spaces at their ends."""
        return [ANSI.sub("", line).rstrip() for line in self.lines]


def look(
    *args: str,
    width: int = 80,
    env: Mapping[str, str] | None = None,
    type: str | bytes = b"",
    asked: str = "[y/N] ",
    interrupt: str = "",
    stdout: int | None = None,
    command: Sequence[str] = (),
) -> Seen:
    """Run the program, or another that `command` starts, on a terminal; `type` is typed once the program asks,
    `interrupt` is waited for, then Ctrl-C."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    settings = {**os.environ, "TERM": "xterm-256color", "PAGER": "cat", **(env or {})}
    streams = (theirs, theirs if stdout is None else stdout, theirs)
    process: subprocess.Popen[bytes] | warm.Started
    if not command and warm.can_run(env or {}):
        process = warm.start(args, streams, settings, os.getcwd())
    else:
        process = subprocess.Popen(
            [*(command or command_line()), *args],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=settings,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
    os.close(theirs)
    typed = type.encode() if isinstance(type, str) else type
    screen = b""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        readable, _, _ = select.select([ours], [], [], 0.2)
        if readable:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            if not data:
                break
            screen += data
        if typed and asked.encode() in screen:
            os.write(ours, typed)
            typed = b""
        if interrupt and interrupt.encode() in screen:
            # as the terminal does when Ctrl-C is typed
            os.write(ours, b"\x03")
            interrupt = ""
        if not readable and process.poll() is not None:
            break
    try:
        code = process.wait(timeout=max(1, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, TimeoutError):
        process.send_signal(signal.SIGKILL)
        process.wait()
        pytest.fail(f"it does not end, and shows {screen.decode(errors='replace')!r}")
    finally:
        os.close(ours)
    return Seen(code, screen.decode(errors="replace"))


@pytest.fixture
def seen(sample: Sample) -> Callable[..., Seen]:
    return lambda *args, **more: look("-c", sample.uri, *args, **more)


def split_at_gap(lines: list[str]) -> tuple[list[str], str, list[str]]:
    """Return the text before the empty line, the header of the table after it, and its rows."""
    gap = lines.index("")
    return lines[:gap], lines[gap + 1], lines[gap + 2 :]


class TestTables:
    @pytest.mark.parametrize("width", [40, 80, 120])
    def test_no_line_is_wider_than_the_terminal(self, seen, width, sample):
        with Catalog(sample.store).transaction() as transaction:
            transaction.create_namespace(ns("n" * 90))
            transaction.create_table(table_name(f"{'n' * 90}.{'t' * 90}"), location(0))
        for args in (["table", "ls"], ["txn", "ls", "-o", "wide"], ["table", "history", "sales.orders_2025"]):
            shown = seen(*args, width=width)
            assert shown.exit_code == 0
            assert max(len(line) for line in shown.plain) <= width, args
        shown = seen("table", "ls", width=width)
        assert "".join(line.replace(" ", "") for line in shown.plain).count("t" * 10) >= 1

    def test_a_header_in_bold_and_rows_below(self, seen):
        shown = seen("table", "ls")
        assert shown.plain[0].split() == ["NAMESPACE", "TABLE"]
        assert "\x1b[1m" in shown.lines[0]
        assert "sales      orders_2025" in [line.strip() for line in shown.plain]

    def test_an_empty_list_prints_a_message(self, seen):
        assert seen("view", "ls", "a.b").plain == ["no views"]

    def test_colours_of_errors_and_warnings(self, seen, sample):
        lines = seen("table", "show", "sales.nope").lines
        assert lines[0].startswith("\x1b[1;31merror:\x1b[0m there is no table sales.nope in version 7: ")
        assert seen("lgo").lines[0].startswith("\x1b[1;31merror:\x1b[0m ")
        (sample.folder / "vn" / "latest").write_text("9")
        assert seen("ns", "ls").lines[0].startswith("\x1b[1;33mwarning:\x1b[0m vn/latest names ")

    def test_an_error_in_a_pipe_has_no_colour(self, program, sample):
        assert program("-c", sample.uri, "ns", "show", "nope").stderr.startswith("error: ")
        read, write = os.pipe()
        shown = look("-c", sample.uri, "ns", "show", "nope", stdout=write)
        assert shown.lines[0].startswith("\x1b[1;31merror:\x1b[0m "), "stderr is the terminal, and stdout is not"
        os.close(read)
        os.close(write)

    def test_colours_of_a_diff(self, seen):
        signs = {"+": "32", "-": "31", "~": "33", ">": "36"}
        for words in (["v3", "latest"], ["-p", "v5", "v6"], ["-p", "v6", "v5"]):
            head, *lines = seen("diff", *words).lines
            assert "\x1b" not in head
            for line in lines:
                found = re.fullmatch(r"\x1b\[(\d+)m *(\S).*\x1b\[0m", line)
                assert found is not None, line
                assert signs[found[2]] == found[1], line

    @pytest.mark.parametrize(("env", "args"), [({"NO_COLOR": "1"}, []), ({}, ["--no-color"])])
    def test_without_colours(self, seen, env, args):
        for command in (["table", "ls"], ["log"], ["log", "--graph"], ["diff", "v3"], ["ns", "show", "nope"]):
            assert "\x1b" not in seen(*command, *args, env=env).screen

    def test_an_empty_no_color_means_nothing(self, seen):
        assert "\x1b[" in seen("table", "ls", env={"NO_COLOR": ""}).screen

    @pytest.mark.parametrize("width", ["40", "100"])
    def test_a_dumb_terminal(self, seen, width):
        shown = seen("txn", "ls", "-o", "wide", env={"TERM": "dumb"}, width=int(width))
        assert shown.exit_code == 0
        assert max(len(line) for line in shown.plain) <= int(width)

    @pytest.mark.parametrize("width", [80, 100, 120])
    def test_files_and_revisions_take_a_line_each(self, run, tmp_path, width):
        """Values that all rows share are printed once, at the top; rows stay distinct, and -o wide has all values."""
        lake = str(tmp_path / "lake")
        run("init", lake, "-q").ok()
        run("-c", lake, "ns", "create", "ns", "-q").ok()
        run("-c", lake, "table", "create", "ns.t", "--schema", "id long, day date", "--partition-by", "day", "-q").ok()
        (tmp_path / "rows.csv").write_text("id,day\n1,2026-01-01\n2,2026-01-02\n")
        for _ in range(2):
            run("-c", lake, "table", "append", "ns.t", "rows.csv", "-q").ok()
        files = [row["location"] for row in run("-c", lake, "table", "files", "--json").json["files"]]
        common, _, rows = split_at_gap(look("-c", lake, "table", "files", width=width).plain)
        # the folder of a test is long, so it has lines of its own
        told = dict(line.split(maxsplit=1) for line in re.sub(r"\n  ", " ", "\n".join(common)).splitlines())
        assert told.items() >= {"NAMESPACE": "ns", "TABLE": "t", "CONTENT": "data", "FORMAT": "parquet"}.items()
        folder = told["LOCATION"].replace(" ", "").removesuffix("…")
        places = [row.split()[-1].split("…") for row in rows]
        assert len({tuple(place) for place in places}) == len(files) == 4
        for file, (head, tail) in zip(files, places, strict=True):
            assert file.startswith(folder + head)
            assert file.endswith(tail)
        shown = look("-c", lake, "table", "history", "ns.t", width=width).plain
        # the age and who it was are told once, where there is no room for them beside each
        rows = split_at_gap(shown)[2] if "" in shown else shown[1:]
        assert [row.split()[0] for row in rows] == ["v4", "v3", "v2"]
        wide = look("-c", lake, "table", "files", "-o", "wide", width=width).screen
        assert all(file in re.sub(r"\s", "", wide) for file in files)

    def test_files_in_folders_of_partitions_take_a_line_each(self, run, tmp_path):
        """80 columns have room for the partition or for its folders."""
        lake = str(tmp_path / "lake")
        run("init", lake, "-q").ok()
        run("-c", lake, "ns", "create", "ns", "-q").ok()
        words = ("--schema", "id long, day date, country string", "--partition-by", "day", "--partition-by", "country")
        run("-c", lake, "table", "create", "ns.t", *words, "-q").ok()
        (tmp_path / "rows.csv").write_text(
            "id,day,country\n1,2026-01-01,de\n2,2026-01-02,fr\n3,2026-01-02,us\n4,2026-01-01,de\n"
        )
        for _ in range(2):
            run("-c", lake, "table", "append", "ns.t", "rows.csv", "-q").ok()
        files = [row["location"] for row in run("-c", lake, "table", "files", "--json").json["files"]]
        rows = split_at_gap(look("-c", lake, "table", "files", width=80).plain)[2]
        places = [row.split()[-1] for row in rows]
        assert len(set(places)) == len(files) == 6
        for file, row, place in zip(files, rows, places, strict=True):
            assert "day=" in row
            assert "country=" in row
            assert re.fullmatch("…/(.*)….parquet", place)[1] in file
        assert "…/" not in look("-c", lake, "table", "files", width=160).screen.partition("RECORDS")[2]

    def test_one_row_alone_has_short_forms_too(self, run, tmp_path):
        lake = str(tmp_path / "lake")
        run("init", lake, "-q").ok()
        run("-c", lake, "ns", "create", "ns", "-q").ok()
        run("-c", lake, "table", "create", "ns.t", "--schema", "id long", "-q").ok()
        (tmp_path / "rows.csv").write_text("id\n1\n")
        run("-c", lake, "table", "append", "ns.t", "rows.csv", "-q").ok()
        common, head, rows = split_at_gap(look("-c", lake, "table", "files", width=120).plain)
        assert [line.split()[0] for line in common] == ["LOCATION"]
        assert head.split()[0] == "NAMESPACE"
        assert [row.split()[0] for row in rows] == ["ns"]

    def test_a_terminal_of_no_width(self, seen):
        assert seen("table", "ls", width=0).exit_code == 0
        assert seen("table", "ls", width=1).exit_code == 0
        assert seen("log", "--graph", width=3).exit_code == 0

    def test_json_is_laid_out_for_people(self, seen):
        shown = seen("ns", "show", "sales", "--json")
        assert shown.lines[1].startswith('  "name": "sales"')
        assert "\x1b" not in shown.screen


NASTY = [
    "[red]",
    "[/red]",
    ":warning:",
    "[link=file:///]x",
    "esc\u009b31m",
    "rtl\u202etxt",
    "zwj\u200f",
    "</b>",
    "\\[x]",
]


class TestHarmless:
    @pytest.fixture
    def nasty(self, sample):
        with Catalog(sample.store).transaction("\x1b[31mred\x07 [bold]\u202e") as transaction:
            for name in NASTY:
                transaction.create_namespace(ns(name), {"k\x1b[2J": "v\x1b]0;title\x07"})
                transaction.create_table(table_name(f'"{name}"."{name}"'), location(0))

    @pytest.mark.usefixtures("nasty")
    @pytest.mark.parametrize(
        "args",
        [
            ["ns", "ls"],
            ["table", "ls"],
            ["table", "ls", "-o", "name"],
            ["log", "-n", "1"],
            ["log", "-n", "1", "-p"],
            ["log", "--graph", "-n", "1"],
            ["diff"],
            ["diff", "-o", "name"],
            ["time-travel", "latest"],
            ["ns", "show", NASTY[4]],
            ["table", "history", f'"{NASTY[5]}"."{NASTY[5]}"'],
            ["rollback", "latest~1", "--dry-run"],
            ["log", "-n", "1", "-o", "csv"],
            ["log", "-n", "1", "--json"],
            ["log", "-n", "1", "-o", "jsonl"],
            ["ns", "ls", "-o", "csv"],
            ["ns", "show", NASTY[4], "-o", "csv"],
            ["ns", "show", NASTY[5], "--json"],
            ["tree", "-o", "csv"],
        ],
        ids=lambda args: " ".join(args[:3]).encode("ascii", "replace").decode(),
    )
    def test_names_and_messages_are_data(self, seen, args):
        shown = seen(*args, width=200)
        assert shown.exit_code == 0
        left = ANSI.sub("", shown.screen.replace("\r\n", "\n")).replace("\n", "")
        assert left.isprintable() or all(ord(one) > 0x9F for one in left if not one.isprintable()), ascii(left)
        for character in "\x1b\x07\x9b\u202e\u200f":
            assert character not in left
        assert "\x1b[31mred" not in shown.screen
        if args == ["ns", "ls"]:
            assert {"[red]", "[/red]", ":warning:", "esc\\x9b31m", "rtl\\u202etxt"} <= set(shown.plain)

    def test_a_pipe_gets_them_escaped_too_and_json_exact(self, olympia, nasty):
        assert "esc\\x9b31m" in olympia("ns", "ls").ok().lines
        assert "esc\u009b31m" in [one["name"] for one in olympia("ns", "ls", "--json").ok().json["namespaces"]]

    def test_json_escapes_invisible_characters_only(self, olympia, nasty):
        for args in (["ns", "ls", "--json"], ["log", "-o", "jsonl"]):
            shown = olympia(*args).ok().stdout
            assert all(character == "\n" or character.isprintable() for character in shown)
            assert "rtl\\u202etxt" in shown
            assert "esc\\u009b31m" in shown
        assert "\U0001f600" in olympia("ns", "ls", "--json").ok().stdout, "what can be seen stands as it is"

    def test_csv_in_a_file_is_exact(self, olympia, nasty):
        assert "esc\u009b31m" in olympia("ns", "ls", "-o", "csv").ok().stdout

    def test_csv_for_a_spreadsheet(self, olympia, sample):
        formulas = ["=1+2", "+a", "-a", "@sum", "-1", "a=b"]
        with Catalog(sample.store).transaction() as transaction:
            for name in formulas:
                transaction.create_namespace(ns(name))
        plain = olympia("ns", "ls", "-o", "csv").ok().stdout.splitlines()
        assert {line.split(",")[0] for line in plain} >= set(formulas)
        safe = olympia("ns", "ls", "-o", "csv", "--csv-safe").ok().stdout.splitlines()
        assert {line.split(",")[0] for line in safe} >= {"'=1+2", "'+a", "'-a", "'@sum", "-1", "a=b"}


class TestLog:
    def test_blocks(self, seen):
        plain = seen("log").plain
        heads = [line for line in plain if line.startswith("v")]
        assert [line.split()[0] for line in heads] == [f"v{number}" for number in range(7, -1, -1)]
        assert heads[1].endswith("rollback to v4")
        assert heads[2].endswith("undone by v6")
        assert "    bad idea" in plain
        assert "    < undoes v5" in plain
        assert any(line.strip() == "+ 5 tables" or line.strip().startswith("+ table") for line in plain)

    def test_a_graph_fits_the_terminal(self, seen):
        for width in (60, 120):
            plain = seen("log", "--graph", "--oneline", width=width).plain
            assert len(plain) == 8
            assert max(map(len, plain)) <= width
        assert plain[1].startswith("●─┐ v6")

    def test_the_log_colours_drops_and_undone_versions(self, seen):
        screen = seen("log", "--since", "v5", "--until", "v5").screen
        assert "\x1b[31m- table sales.lines\x1b[0m" in screen
        assert "\x1b[2m" in seen("log", "--since", "v5").screen, "what was undone is dim"

    @pytest.mark.parametrize(
        "env", [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}]
    )
    def test_an_ascii_terminal_gets_ascii_output(self, seen, env):
        shown = seen("log", "--graph", env=env)
        assert shown.exit_code == 0
        assert shown.screen.isascii()
        assert shown.plain[1].startswith("*-\\ v6")
        for args in (["table", "ls"], ["log"], ["diff", "v0"]):
            shown = seen(*args, env=env)
            assert shown.exit_code == 0, args
            assert shown.screen.isascii(), args
        assert seen("ns", "--help", env=env).exit_code == 0

    def test_json_keeps_names_in_any_output_encoding(self, program, sample):
        for env in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}):
            done = program("-c", sample.uri, "table", "ls", "--json", env=env).ok()
            assert {"namespace": "smile\U0001f600", "name": "表"} in done.json["tables"]
            done = program("-c", sample.uri, "ns", "show", "käse", "--json", env=env)
            assert "käse" in done.error["message"]


class TestPager:
    def script(self, tmp_path: Path, text: str) -> str:
        path = tmp_path / "my pager"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return f"'{path}'"

    def test_it_gets_the_output(self, seen, tmp_path):
        pager = self.script(tmp_path, "sed 's/^/PAGED /'")
        for env in ({"PAGER": pager}, {"OLYMPIA_PAGER": pager, "PAGER": "false"}):
            shown = seen("ns", "ls", env=env)
            assert shown.exit_code == 0
            assert shown.plain[-1].startswith("PAGED smile")

    def test_one_that_ends_early(self, seen, tmp_path, olympia):
        # more than a pipe holds
        olympia("apply", "-", input="".join(f'{{"do": "ns create", "name": "{i:0>95}"}}\n' for i in range(800))).ok()
        for text in ("head -n 1", "exit 3"):
            shown = seen("ns", "ls", env={"PAGER": self.script(tmp_path, text)})
            assert shown.exit_code == 0
            assert len(shown.plain) <= 1
        assert seen("log", env={"PAGER": "true"}).screen == ""

    @pytest.mark.parametrize("pager", ["no-such-program", "less '", "", " ", "'not a program'", "/", "/dev/null"])
    def test_a_pager_that_cannot_run_is_ignored(self, seen, pager):
        shown = seen("ns", "ls", env={"PAGER": pager, "OLYMPIA_PAGER": pager, "PATH": "/nowhere"})
        assert shown.exit_code == 0
        assert "sales" in shown.plain

    def test_none_for_a_pipe_nor_for_programs(self, seen, program, sample):
        assert "sales" in seen("ns", "ls", "-o", "name", env={"PAGER": "false"}).plain
        assert program("-c", sample.uri, "ns", "ls", env={"PAGER": "false"}).ok().lines

    def test_changes_are_not_paged(self, seen):
        assert seen("ns", "create", "x", env={"PAGER": "false"}).plain == ["v8  created namespace x"]


class TestPrompts:
    @pytest.mark.parametrize("answer", ["y\n", "Y\n", "yes\n", " yes \n"])
    def test_yes(self, seen, sample, answer):
        shown = seen("rollback", "v2", type=answer)
        assert shown.exit_code == 0
        assert shown.plain[-1] == "v8  rolled back from v7 to v2"
        assert any("Roll back to v2? [y/N]" in line for line in shown.plain)

    @pytest.mark.parametrize("answer", ["n\n", "\n", "no\n", "yeah\n", b"\x04", b"\xff\xfe\n"], ids=ascii)
    def test_anything_else_is_no(self, seen, sample, answer):
        shown = seen("rollback", "v2", type=answer, env={"PYTHONIOENCODING": "utf-8:strict"})
        assert shown.exit_code == 12, shown.screen
        assert shown.plain[-1].endswith("error: nothing was done")
        assert sample.catalog.snapshot().version == 7

    def test_a_rollback_with_unknown_losses_asks_for_the_location(self, damageable):
        lost = damageable.catalog.snapshot().find(table_name("sales.orders_2025"))
        (damageable.folder / str(lost)).unlink()
        words = ("-c", damageable.uri, "rollback", "v2", "--yes")
        for answer, code in (("yes\n", 12), (f"{damageable.uri}\n", 0)):
            shown = look(*words, width=400, type=answer, asked="type the location of the catalog")
            assert shown.exit_code == code, shown.screen
            assert "[y/N]" not in shown.screen
        assert damageable.catalog.snapshot().version == 8

    def test_abort_of_a_transaction(self, seen, sample):
        assert seen("txn", "abort", sample.transaction, type="n\n").exit_code == 12
        assert seen("txn", "abort", sample.transaction, type="y\n").exit_code == 0

    def test_ctrl_c_at_the_prompt(self, seen, sample):
        shown = seen("rollback", "v2", interrupt="[y/N] ")
        assert shown.exit_code == 130
        assert "Traceback" not in shown.screen
        assert sample.catalog.snapshot().version == 7

    def test_rollback_with_yes_asks_no_question(self, seen):
        assert "[y/N]" not in seen("rollback", "v2", "--yes").screen

    def test_the_prompt_is_talk_even_when_the_data_goes_to_a_file(self, seen, tmp_path):
        with open(tmp_path / "out", "w") as file:
            shown = seen("rollback", "v2", "--json", type="y\n", stdout=file.fileno())
        assert shown.exit_code == 0
        assert "[y/N]" in shown.screen
        assert (tmp_path / "out").read_text().startswith('{"version": 8')
