"""The screen that an operator leaves open: the verdict, the reasons, and that each next command does what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import olympia_cli
from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import LATEST, root_path
from olympia_cli.format.strict_json import read_json
from olympia_cli.names import NamespaceName
from tests.cli.conftest import Run, Sample, command_line, run_here
from tests.cli.test_hints import suggested
from tests.cli.test_terminal import look
from tests.helpers import prometheus
from tests.helpers.big_catalog import add_versions
from tests.helpers.clock import FakeClock
from tests.helpers.json_schema import check

DAY = 86_400
GUIDE = Path(olympia_cli.__file__).parents[1] / "docs" / "guides" / "cron-and-ci.md"


class Watched:
    """A catalog that is looked at with `status`."""

    def __init__(self, run: Run, sample: Sample) -> None:
        self.sample = sample
        self.olympia: Run = lambda *args, **more: run("-c", sample.uri, *args, **more)

    def look(self) -> tuple[str, int]:
        """The verdict, and the exit code."""
        done = self.olympia("status", "--json")
        return done.json["verdict"], done.exit_code

    def follow(self, *more: str) -> Any:
        """Type what the one reason says comes next."""
        [reason] = self.olympia("status", "--json").json["reasons"]
        program, flag, uri, *words = reason["command"]
        assert (program, flag, uri) == ("olympia", "-c", self.sample.uri)
        return self.olympia(*words, *more)

    def lose_definition(self) -> Path:
        path = self.sample.catalog.snapshot().find(NamespaceName("a.b"))
        return self.sample.folder / str(path)


@pytest.fixture
def watched(run: Run, damageable: Sample) -> Watched:
    return Watched(run, damageable)


class TestVerdict:
    def test_damage_found_at_level_full_survives_shallower_checks(self, watched):
        path = watched.lose_definition()
        data = path.read_bytes()
        path.unlink()
        assert watched.olympia("fsck", "--level", "full").exit_code == 50
        assert watched.look() == ("damaged", 50)
        for words in (["--level", "hints"], ["--repair", "--dry-run"], ["--at", "v0"]):
            watched.olympia("fsck", *words)
            assert watched.look() == ("damaged", 50), words
        assert watched.follow().exit_code == 50, "the advice finds what the verdict is about"
        path.write_bytes(data)
        watched.follow().ok()
        assert watched.look() == ("sound", 0)

    def test_damage_in_an_older_version_outlives_a_sound_latest(self, watched):
        path = watched.lose_definition()
        watched.olympia("ns", "drop", "a.b", "--cascade").ok()
        path.unlink()
        assert watched.olympia("fsck", "--level", "full", "--all-versions").exit_code == 50
        watched.olympia("fsck", "--level", "data").ok()
        done = watched.olympia("status", "--json")
        assert (done.json["verdict"], done.json["damaged"]) == ("damaged", True)
        assert done.json["last_fsck"]["damaged"] is False
        assert done.json["reasons"][0]["command"][3:] == ["fsck", "--level", "full", "--all-versions"]

    def test_a_shallower_fsck_advises_the_level_that_clears_damage(self, watched):
        """An acknowledgement, too: it is the level at which all of it is known that clears it."""
        path = watched.lose_definition()
        watched.olympia("ns", "drop", "a.b", "--cascade").ok()
        path.unlink()
        # a transaction that began before needs it still, so that it is not of the past
        for id in watched.olympia("txn", "ls", "-o", "name").ok().stdout.split():
            watched.olympia("txn", "abort", id, "--yes").ok()
        watched.olympia("fsck", "--level", "full", "--all-versions")
        for words in ([], ["--all-versions", "--acknowledge"]):
            done = watched.olympia("fsck", *words).ok()
            assert watched.look() == ("damaged", 50)
            assert suggested(done.stderr)[2:] == ["fsck", "--level", "full", "--all-versions"]
        run_here(*suggested(done.stderr)).ok()
        assert watched.look() == ("sound", 0)

    def test_damage_of_an_expired_version_no_longer_counts(self, watched):
        (watched.sample.folder / "ops").mkdir()
        run = {"damaged": True, "latest": False, "version": 0}
        (watched.sample.folder / "ops" / "last-fsck.json").write_text(json.dumps(run))
        assert watched.look() == ("damaged", 50)
        watched.olympia("expire", "--older-than", "0s", "--keep-last", "1", "--offline", "--yes").ok()
        assert watched.look() == ("never checked", 0)

    def test_never_checked(self, watched):
        assert watched.look() == ("never checked", 0)
        assert watched.olympia("status", "--json").json["damaged"] is None
        watched.follow().ok()
        assert watched.look() == ("sound", 0)
        assert watched.olympia("status", "--json").json["reasons"] == []

    def test_a_run_that_was_stopped_tells_nothing(self, watched):
        assert watched.olympia("fsck", "--max-duration", "0s").exit_code == 3
        assert watched.look() == ("never checked", 0)
        watched.follow().ok()
        assert watched.look() == ("sound", 0)


class TestNext:
    """Each reason names a command that makes it go away."""

    def test_a_stale_transaction(self, watched):
        distributed.begin(Catalog(watched.sample.store, FakeClock(wall=int(time.time() - 4 * DAY) * 1000)))
        assert watched.look() == ("needs attention", 51)
        watched.follow("--yes").ok()
        assert watched.look() == ("never checked", 0)

    def test_one_that_cannot_be_read(self, watched):
        for file in list(watched.sample.store.list(f"dtxn/{watched.sample.transaction}.")):
            watched.sample.store.overwrite(file.path, b"")
        assert watched.look() == ("needs attention", 51)
        watched.follow("--yes").ok()
        assert watched.look() == ("never checked", 0)

    def test_two_of_them(self, watched):
        for _ in range(2):
            distributed.begin(Catalog(watched.sample.store, FakeClock(wall=int(time.time() - 4 * DAY) * 1000)))
        assert sum(line.split("\t")[1] == "expired" for line in watched.follow().ok().lines) == 2

    @pytest.mark.parametrize("hint", ["3", "garbage"])
    def test_a_hint(self, watched, hint):
        add_versions(watched.sample.store, 150)
        (watched.sample.folder / LATEST).write_text(hint)
        assert watched.look() == ("needs attention", 51)
        watched.follow("--yes")
        assert watched.olympia("status", "--json").json["hint_lag"] == 0

    def test_an_old_root_in_the_place_of_the_next_version(self, watched):
        """status has the same message as the warning of every reading command."""
        old, new = (watched.sample.folder / root_path(version) for version in (1, 8))
        new.write_bytes(old.read_bytes())
        warned = watched.olympia("ns", "ls").stderr.removeprefix("warning: ").partition(": see ")[0]
        assert warned.endswith("does not name the version before it")
        assert watched.look() == ("needs attention", 51)
        [reason] = watched.olympia("status", "--json").json["reasons"]
        assert reason["text"] == warned
        found = watched.follow()
        assert (found.exit_code, "F104" in found.stdout) == (50, True)

    def test_a_hint_that_is_ahead(self, watched):
        (watched.sample.folder / LATEST).write_text("9")
        assert watched.look() == ("needs attention", 51)
        assert "vn/latest" in watched.follow().stdout

    def test_expire_is_overdue(self, watched):
        (watched.sample.folder / "ops").mkdir()
        (watched.sample.folder / "ops" / "last-expire.json").write_text('{"finished_at": "2020-01-01T00:00:00Z"}')
        assert watched.look() == ("overdue", 51)
        watched.follow("--yes").ok()
        assert watched.look() == ("never checked", 0)

    def test_fsck_is_overdue(self, watched):
        watched.olympia("catalog", "alter", "--set", "olympia.fsck.max-age=7d").ok()
        (watched.sample.folder / "ops").mkdir()
        record = {"finished_at": "2020-01-01T00:00:00Z", "damaged": False, "level": "full", "all_versions": True}
        (watched.sample.folder / "ops" / "last-fsck.json").write_text(json.dumps(record))
        assert watched.look() == ("overdue", 51)
        watched.follow().ok()
        assert watched.look() == ("sound", 0)

    def test_a_profile_is_repeated(self, run, damageable, config):
        config(f'[prod]\ncatalog = "{damageable.uri}"\n')
        [reason] = run("--profile", "prod", "status", "--json").ok().json["reasons"]
        assert reason["command"] == ["olympia", "--profile", "prod", "fsck"]


class TestValues:
    def test_json_shows_last_export_quarantine_and_open_transactions(self, watched, tmp_path):
        watched.olympia("export", "create", "friday", "--dest", tmp_path / "friday").ok()
        words = ["--older-than", "0s", "--keep-last", "2", "--grace", "0s", "--offline", "--yes"]
        watched.olympia("expire", *words).ok()
        found = watched.olympia("status", "--full", "--json").ok().json
        assert (found["last_export"]["name"], found["last_export"]["at_version"]) == ("friday", 7)
        assert (found["quarantine"]["marks"], found["quarantine"]["versions"]) == (1, 7)
        [mark] = watched.olympia("expire", "ls", "--json").json["marks"]
        assert found["quarantine"]["purge_after"] == mark["purge_after"]
        assert found["quarantine_bytes"] > 0
        assert found["export_names"] == ["friday"]
        [open_one] = found["transactions"]
        assert (open_one["id"], open_one["state"]) == (watched.sample.transaction, "open")

    def test_a_note_that_is_no_json_is_not_repeated(self, watched):
        """Every user who may write into a catalog may have left the note, and other programs read the output."""
        for number in ("1e999", "NaN", "-Infinity"):
            for name in ("last-fsck", "last-expire", "last-export"):
                path = watched.sample.folder / f"ops/{name}.json"
                path.parent.mkdir(exist_ok=True)
                path.write_text(f'{{"finished_at": "2026-01-01T00:00:00.000Z", "bytes": {number}}}')
            found = read_json(watched.olympia("status", "--json").stdout)
            assert [found[key] for key in ("last_fsck", "last_expire", "last_export")] == [None] * 3

    def test_growth(self, watched):
        found = watched.olympia("status", "--json").json["growth"]
        assert found["versions_per_day"] is None, "a minute tells nothing"
        ago = time.time() - 2 * DAY
        os.utime(watched.sample.folder / root_path(0), (ago, ago))
        found = watched.olympia("status", "--full", "--json").json["growth"]
        assert found["versions_per_day"] == pytest.approx(3.5, abs=0.1)
        assert found["bytes_per_day"] > 0
        assert found["objects_per_day"] is None, "by its own clock it is as young as ever"

    def test_a_pipe_has_no_json_in_its_cells(self, watched, tmp_path):
        watched.olympia("expire", "--older-than", "0s", "--keep-last", "2", "--offline", "--yes").ok()
        watched.olympia("fsck").ok()
        lines = watched.olympia("status", "--full").ok().lines
        assert not [line for line in lines if re.search(r"[\[{]", line)]
        assert any(line.startswith("last_expire.purged.versions\t") for line in lines)
        assert any(line.startswith("fsck_run\t") for line in lines)


def gauges(text: str) -> dict[str, float]:
    return {name.removeprefix("olympia_"): sample.value for name, sample in prometheus.parse(text).items()}


class TestPrometheus:
    def test_a_catalog_never_checked_has_no_fsck_gauges(self, watched):
        found = gauges(watched.olympia("status", "--prometheus").ok().stdout)
        assert (found["up"], found["version"], found["open_transactions"]) == (1, 7, 1)
        assert not {"damaged", "last_fsck_timestamp_seconds", "last_expire_timestamp_seconds"} & set(found)

    def test_gauges_show_times_of_last_fsck_expire_and_export(self, watched, tmp_path):
        began = time.time() - 1
        watched.olympia("fsck").ok()
        watched.olympia("expire", "--yes").ok()
        watched.olympia("export", "create", "friday", "--dest", tmp_path / "friday").ok()
        found = gauges(watched.olympia("status", "--prometheus", "--full").ok().stdout)
        for work in ("fsck", "expire", "export"):
            assert began < found[f"last_{work}_timestamp_seconds"] <= time.time() + 1
        assert (found["damaged"], found["tables"]) == (0, 5)

    def test_damaged(self, watched):
        watched.lose_definition().unlink()
        watched.olympia("fsck", "--level", "full")
        watched.olympia("fsck", "--level", "hints").ok()
        done = watched.olympia("status", "--prometheus")
        assert (done.exit_code, gauges(done.stdout)["damaged"]) == (50, 1)

    def test_unreadable(self, watched):
        (watched.sample.folder / root_path(7)).write_bytes(b"x")
        done = watched.olympia("status", "--prometheus").failed(40)
        assert prometheus.parse(done.stdout)["olympia_up"] == ({"catalog": watched.sample.uri}, 0)

    def test_a_missing_catalog_has_only_up_zero(self, run, tmp_path):
        done = run("-c", tmp_path / "nothing", "status", "--prometheus").failed(10)
        assert gauges(done.stdout) == {"up": 0}

    def test_a_location_that_makes_no_sense_is_no_catalog(self, run):
        assert run("-c", "s3://", "status", "--prometheus").failed(2).stdout == ""

    @pytest.mark.parametrize("name", ['a"b\\c', "line\nfeed", "é\u2028x"])
    def test_labels(self, run, tmp_path, name):
        run("init", tmp_path / name).ok()
        text = run("-c", tmp_path / name, "status", "--prometheus").ok().stdout
        assert prometheus.parse(text)["olympia_up"].labels == {"catalog": str(tmp_path / name)}

    def test_the_recipe_of_the_guide_never_leaves_an_empty_file(self, damageable, tmp_path):
        """The recipe runs as in cron: with a healthy and an unreadable catalog, and with a wrong location."""
        [line] = re.findall(r"^\*/5 \* \* \* \* (.*)$", GUIDE.read_text(), re.MULTILINE)
        olympia = shlex.join(command_line())
        line = line.replace("/var/lib/node_exporter", str(tmp_path))

        def cron(uri: str) -> dict[str, float]:
            script = re.sub(r"^olympia -c \S+", f"{olympia} -c {uri}", line)
            subprocess.run(["sh", "-c", script], capture_output=True, check=False)
            return gauges((tmp_path / "olympia.prom").read_text())

        assert cron(damageable.uri)["up"] == 1
        (damageable.folder / root_path(7)).write_bytes(b"x")
        assert cron(damageable.uri) == {"up": 0}
        assert cron("s3://") == {"up": 0}


class TestScreen:
    def test_sound(self, watched):
        watched.olympia("fsck", "--level", "full").ok()
        watched.olympia("ns", "create", "since").ok()
        seen = look("-c", watched.sample.uri, "status")
        assert seen.exit_code == 0
        assert seen.lines[0].startswith("\x1b[1;32mSOUND\x1b[0m  ")
        head = " ".join(" ".join(seen.plain[: seen.plain.index("")]).split())
        assert re.search(r"full \d+s ago \(v7, 1 version since\)$", head)
        fields = dict(line.split(maxsplit=1) for line in seen.plain if line and not line.startswith((" ", "last")))
        assert fields["transactions"].startswith(watched.sample.transaction)
        assert not [line for line in seen.plain if "{" in line or "[" in line]

    @pytest.mark.parametrize("width", [80, 60])
    def test_no_word_is_broken(self, watched, width):
        """A line is as long as the terminal at most, unless the folder of the catalog is longer."""
        distributed.begin(watched.sample.catalog)
        watched.olympia("fsck", "--level", "full", "--all-versions").ok()
        watched.olympia("ns", "create", "since").ok()
        (watched.sample.folder / LATEST).write_text("111")
        narrow = look("-c", watched.sample.uri, "status", width=width)
        wide = look("-c", watched.sample.uri, "status", width=1000)
        times = re.compile(r"\b\d+s\b")
        assert times.sub("0s", " ".join(narrow.screen.split())) == times.sub("0s", " ".join(wide.screen.split()))
        assert max(map(len, wide.plain)) > width
        for line in narrow.plain:
            assert len(line) <= width or watched.sample.uri in line, line

    def test_damage_is_shown_and_invalid_times_are_harmless(self, watched):
        """Values are data: they move no cursor, and make no error of a screen."""
        ops = watched.sample.folder / "ops"
        ops.mkdir()
        run = {"damaged": True, "level": "full", "errors": 2, "all_versions": True, "version": 5}
        (ops / "last-fsck.json").write_text(json.dumps({"finished_at": "\x1b[2J" * 9, **run}))
        (ops / "last-export.json").write_text(json.dumps({"finished_at": 7, "name": "\x1b[31m", "at_version": []}))
        (ops / "last-expire.json").write_text('{"a":' * 500 + "1" + "}" * 500)
        saved = distributed.find(watched.sample.store, watched.sample.transaction)
        saved.definition.expire_at_millis = 10**17
        path = watched.sample.folder / f"dtxn/{saved.id}.{saved.save + 1}.binpb"
        path.write_bytes(saved.definition.SerializeToString())
        seen = look("-c", watched.sample.uri, "status")
        assert seen.exit_code == 50
        assert seen.lines[0].startswith("\x1b[1;31mDAMAGED\x1b[0m  ")
        assert seen.plain[1:3] == [
            "  fsck of all versions at level full found 2 errors",
            f"    next  olympia -c {watched.sample.uri} fsck --level full --all-versions",
        ]
        assert "\x1b[2J" not in seen.screen
        assert "\x1b[31m" not in seen.screen
        assert [line for line in seen.plain if line.startswith("last expire")] == ["last expire   never"]

    def test_unreadable(self, watched):
        (watched.sample.folder / root_path(7)).write_bytes(b"x")
        seen = look("-c", watched.sample.uri, "status")
        assert seen.exit_code == 40
        assert seen.lines[0].startswith("\x1b[1;31mUNREADABLE\x1b[0m  ")
        assert seen.plain[1] == f"    next  olympia -c {watched.sample.uri} fsck"
        assert seen.screen.count(root_path(7)) == 1, "what is wrong is told once"
        assert watched.olympia("fsck").exit_code == 50


class TestWatch:
    def test_watch_redraws_the_terminal_until_ctrl_c(self, watched):
        seen = look("-c", watched.sample.uri, "status", "--watch", "60", interrupt="transactions")
        assert seen.exit_code == 130
        assert seen.screen.count("\x1b[2J") == 1
        assert "NEVER CHECKED" in seen.screen
        assert "Traceback" not in seen.screen

    @pytest.mark.parametrize("form", [[], ["--json"]], ids=["lines", "json"])
    def test_a_pipe_gets_a_record_a_round(self, watched, form):
        """Also while the catalog cannot be read, and again when it can."""
        root = watched.sample.folder / root_path(7)
        data = root.read_bytes()
        command = [*command_line(), "-c", watched.sample.uri, "status", "--watch", "50ms", *form]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stderr

            def verdicts() -> Any:
                for line in process.stdout:
                    if form:
                        check(json.loads(line), "status-unseen" if '"error"' in line else "status")
                    yield json.loads(line)["verdict"].upper() if form else line.split("\t")[1]

            found = verdicts()
            assert next(found) == "NEVER CHECKED"
            root.write_bytes(b"x")
            assert "UNREADABLE" in found
            root.write_bytes(data)
            assert "NEVER CHECKED" in found
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 130
            assert "Traceback" not in process.stderr.read()

    def test_watch_refuses_invalid_options(self, watched):
        watched.olympia("status", "5").failed(2, "status --watch")
        watched.olympia("status", "--watch", "0").failed(2, "0 seconds")
        watched.olympia("status", "--watch", "soon").failed(2, "duration")
        watched.olympia("status", "--watch", "-o", "csv").failed(2, "--watch")
        watched.olympia("status", "--watch", "--prometheus").failed(2, "--prometheus")
