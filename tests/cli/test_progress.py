"""Progress of long work: a bar on a terminal, lines for a log file, no output for a program."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from olympia_cli.cli.output.terminal import EVERY_SECONDS, PATIENCE_SECONDS, Lines, duration
from tests.cli import test_terminal
from tests.cli.test_terminal import Seen, look

WORK = """
import sys, time
import typer
from olympia_cli.cli.session import Session
from olympia_cli.cli.output.terminal import Bar
from olympia_cli.errors import CatalogNotFound
from tests.helpers.patience import wait_until

written, write = [], sys.stderr.write
sys.stderr.write = lambda text: (written.append(text), write(text))[1]

def work(ctx):
    session = Session(ctx)
    {before}
    with session.progress() as progress:
        progress.advance()
        progress.phase("reading [red]nodes\\x1b[31m", {total})
        for number in range(20):
            progress.advance()
            time.sleep(0.01)
        session.say("a word meanwhile")
        {middle}
        progress.phase("deleting", 2)
        progress.advance(2)
        if isinstance(progress, Bar):
            wait_until(lambda: "deleting" in "".join(written), "on the screen")
    print("data")

from olympia_cli.cli.commands import status
status.run = lambda ctx: work(ctx)
status.run.__annotations__ = {{"ctx": typer.Context}}
from olympia_cli.cli.app import main
sys.exit(main())
"""


@pytest.fixture
def working(tmp_path):
    """Run a command that works for a while, on a terminal."""

    def start(*args: str, total: str = "1234567", middle: str = "pass", before: str = "pass", **more) -> Seen:
        script = tmp_path / "work.py"
        script.write_text(WORK.format(total=total, middle=middle, before=before))
        env = {"PYTHONPATH": os.fspath(Path(__file__).parents[2]), **more.pop("env", {})}
        return look("status", *args, env=env, command=[sys.executable, str(script)], **more)

    return start


class TestBar:
    def test_bar_shows_step_total_and_rate(self, working):
        shown = working(width=100)
        assert shown.exit_code == 0
        assert "reading [red]nodes\\x1b[31m" in shown.screen, "a phase is text"
        assert "/1,234,567 " in shown.screen
        assert "/s" in shown.screen
        assert "━" in shown.screen
        assert "deleting" in shown.screen

    def test_bar_clears_its_line_and_keeps_messages(self, working):
        shown = working()
        assert shown.plain[-1].endswith("data")
        assert "a word meanwhile" in shown.screen
        # the cursor is back, and the line of the bar is cleared
        assert shown.screen.rindex("\x1b[?25h") > shown.screen.rindex("\x1b[?25l")
        assert "\x1b[2K" in shown.screen[shown.screen.rindex("deleting") :]

    def test_leaves_the_terminal_to_the_bar_that_spark_draws(self, working):
        """With --verbose Spark shows how far it is: a phase is a line of its own, over whatever Spark has drawn."""
        shown = working("--verbose", before="session.metrics = dict")
        assert shown.exit_code == 0
        assert "\r\x1b[Kreading [red]nodes\\x1b[31m: 1,234,567\r\n" in shown.screen
        assert "\r\x1b[Kdeleting: 2\r\n" in shown.screen
        assert "\x1b[?25l" not in shown.screen, "nobody else draws one"

    def test_without_a_total(self, working):
        shown = working(total="None")
        assert shown.exit_code == 0
        assert "20" in shown.screen
        assert "1,234,567" not in shown.screen

    @pytest.mark.parametrize("width", [20, 80])
    def test_fits_the_terminal(self, working, width):
        for line in working(width=width).screen.replace("\r", "\n").split("\n"):
            assert len(test_terminal.ANSI.sub("", line)) <= width

    @pytest.mark.parametrize(
        "env", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
    )
    def test_an_ascii_terminal_gets_an_ascii_bar(self, working, env):
        shown = working(env=env)
        assert shown.exit_code == 0
        assert shown.screen.isascii()
        assert "1,234,567" in shown.screen

    def test_without_colours(self, working):
        assert "\x1b[3" in working().screen.replace("\x1b[31m", "")
        for shown in (working("--no-color"), working(env={"NO_COLOR": "1"})):
            assert "1,234,567" in shown.screen
            assert "\x1b[3" not in shown.screen

    @pytest.mark.parametrize("args", [["--quiet"], ["--no-progress"], ["--json"], ["-o", "jsonl"]], ids=" ".join)
    def test_none(self, working, args):
        shown = working(*args)
        assert "1,234,567" not in shown.screen
        assert "deleting" not in shown.screen
        assert shown.plain[-1] == "data"

    def test_with_json_on_request(self, working):
        assert "1,234,567" in working("--json", "--verbose").screen

    def test_an_error_ends_it(self, working):
        shown = working(middle='raise CatalogNotFound("nothing there")')
        assert shown.exit_code == 10
        assert "error: nothing there" in shown.plain[-1]
        assert shown.screen.rindex("\x1b[?25h") > shown.screen.rindex("\x1b[?25l")

    def test_ctrl_c_ends_it(self, working):
        # a signal that comes right before a sleep is heard after it
        shown = working(middle="[time.sleep(0.1) for _ in range(6000)]", interrupt="a word meanwhile")
        assert shown.exit_code == 130
        assert shown.plain[-1].endswith("interrupted")
        assert "Traceback" not in shown.screen
        assert shown.screen.rindex("\x1b[?25h") > shown.screen.rindex("\x1b[?25l")

    def test_a_dumb_terminal_gets_lines(self, working):
        shown = working(env={"TERM": "dumb"})
        assert shown.plain == ["a word meanwhile", "data"]

    def test_data_that_goes_to_a_file_is_whole(self, working, tmp_path):
        with open(tmp_path / "out", "w") as file:
            shown = working(stdout=file.fileno())
        assert "1,234,567" in shown.screen
        assert (tmp_path / "out").read_text() == "data\n"


class TestLines:
    @pytest.fixture
    def said(self) -> list[str]:
        return []

    @pytest.fixture
    def time(self) -> list[float]:
        return [100.0]

    @pytest.fixture
    def lines(self, said, time) -> Lines:
        return Lines(said.append, lambda: time[0])

    def test_nothing_of_work_that_is_over_soon(self, lines, said, time):
        lines.phase("reading roots")
        time[0] += PATIENCE_SECONDS - 1
        lines.phase("reading nodes", 12345)
        lines.advance()
        assert said == []

    def test_one_where_a_step_begins(self, lines, said, time):
        time[0] += PATIENCE_SECONDS
        lines.phase("reading roots")
        lines.phase("reading nodes", 12345)
        for _ in range(1000):
            lines.advance()
        assert said == ["reading roots", "reading nodes: 12,345"]

    def test_one_every_half_a_minute(self, lines, said, time):
        lines.phase("reading nodes", 10_000)
        for _ in range(90):
            time[0] += 1
            lines.advance(10)
        assert said == [
            "reading nodes: 300 of 10,000 (3%), 10/s, 16m 10s left",
            "reading nodes: 600 of 10,000 (6%), 10/s, 15m 40s left",
            "reading nodes: 900 of 10,000 (9%), 10/s, 15m 10s left",
        ]

    def test_without_a_total(self, lines, said, time):
        lines.phase("copying")
        time[0] += EVERY_SECONDS
        lines.advance(3000)
        assert said[-1] == "copying: 3,000, 100/s"

    def test_more_than_was_expected(self, lines, said, time):
        lines.phase("copying", 10)
        time[0] += EVERY_SECONDS
        lines.advance(60)
        assert said[-1] == "copying: 60 of 10 (600%), 2/s"

    def test_nothing_to_do(self, lines, said, time):
        lines.phase("copying", 0)
        time[0] += EVERY_SECONDS
        lines.advance(0)
        assert said[-1] == "copying: 0, 0/s"

    def test_progress_before_any_step_is_not_printed(self, lines, said, time):
        time[0] += 2 * EVERY_SECONDS
        lines.advance()
        assert said == []

    def test_from_several_threads(self, lines, said, time):
        lines.phase("copying", 4000)
        threads = [threading.Thread(target=lambda: [lines.advance() for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time[0] += EVERY_SECONDS
        lines.advance(0)
        assert said[-1].startswith("copying: 4,000 of 4,000 (100%)")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (1, "1s"), (59.6, "1m 0s"), (61, "1m 1s"), (3599, "59m 59s"), (3660, "1h 1m"), (90_000, "25h 0m")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_a_pipe_gets_lines_once_it_takes_long(olympia, tmp_path, monkeypatch):
    assert olympia("export", "create", "y", "--dest", "y").ok().stderr == ""
    monkeypatch.setattr("olympia_cli.cli.output.terminal.PATIENCE_SECONDS", 0)
    done = olympia("export", "create", "x", "--dest", "x").ok()
    assert done.stderr.splitlines() == ["copying", "comparing"]
    for flag in ("--quiet", "--no-progress", "--json"):
        assert olympia("export", "create", f"x{flag}", "--dest", f"x{flag}", flag).ok().stderr == ""


def test_a_closed_stderr_does_not_stop_the_work(sample, tmp_path, program):
    """A closed stderr does not stop the work."""
    done = program(
        *("-c", sample.uri, "export", "create", "x", "--dest", "x"), preexec_fn=lambda: os.close(2), close_fds=False
    )
    assert done.exit_code == 0
