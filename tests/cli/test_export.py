"""The export commands: what they say, what they refuse, and with which exit codes."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OutcomeUnknown
from olympia_cli.format.paths import EXPORT_NOTE, root_path
from olympia_cli.names import AtVersion, Kind
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Sample
from tests.cli.killing import run_killed
from tests.cli.racing import race, wrap_store
from tests.cli.test_terminal import look
from tests.helpers import java_catalog
from tests.helpers.check import check_catalog
from tests.helpers.expire import mark
from tests.helpers.json_schema import check
from tests.helpers.names import ns
from tests.helpers.places import BUCKET
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import WrappedStore


@pytest.fixture
def friday(olympia, tmp_path) -> Path:
    """A full export of version 7; 8 records it."""
    olympia("export", "create", "friday", "--dest", "friday").ok()
    return tmp_path / "friday"


class TestCreate:
    def test_a_full_export_opens_as_a_catalog(self, run, olympia, friday):
        assert run("-c", friday, "table", "ls").ok().stdout == olympia("table", "ls").ok().stdout
        assert run("-c", friday, "status", "--json").ok().json["version"] == 7
        check_catalog(LocalStore(friday))

    def test_create_prints_version_name_and_destination(self, olympia, tmp_path):
        done = olympia("export", "create", "friday", "--dest", "friday", "--at", "v2", "-m", "why not").ok()
        assert done.stdout.startswith(f"v8  exported v2 as friday to {tmp_path}/friday: ")
        assert "why not" in olympia("log", "-n", "1").ok().stdout

    def test_json(self, olympia, tmp_path):
        made = olympia("export", "create", "m", "--dest", "m", "--mode", "minimal", "--expires", "30d", "--json").ok()
        assert made.stderr == ""
        assert {**made.json, "bytes": 0, "expires_at": ""} == {
            "name": "m",
            "mode": "minimal",
            "at_version": 7,
            "location": str(tmp_path / "m"),
            "root": f"file://{tmp_path}/m/{root_path(7)}",
            "files": 1,
            "bytes": 0,
            "expires_at": "",
            "version": 8,
        }
        assert made.json["expires_at"] > "2026"

    def test_partial(self, olympia, sample, tmp_path):
        olympia("export", "create", "p", "--dest", "p", "--mode", "partial", "--no-definitions").ok()
        assert not (tmp_path / "p" / "def").exists()
        olympia("export", "create", "q", "--dest", "q", "--mode", "partial", "--depth", "1").ok()
        assert (tmp_path / "q" / "def").exists()

    @pytest.mark.parametrize(
        "args",
        [
            ["12", "--dest", "d"],
            ["latest", "--dest", "d"],
            ["a b", "--dest", "d"],
            ["f"],
            ["f", "--dest", ""],
            ["f", "--dest", "http://x/y"],
            ["f", "--dest", "d", "--mode", "most"],
            ["f", "--dest", "d", "--depth", "2"],
            ["f", "--dest", "d", "--mode", "partial"],
            ["f", "--dest", "d", "--mode", "partial", "--depth", "0"],
            ["f", "--dest", "d", "--expires", "soon"],
            ["f", "--dest", "d", "--expires", "2020-01-01"],
            ["f", "--dest", "d", "--expires", "0s"],
            ["f", "--dest", "d", "--at", "a b"],
            ["f", "--dest", "d", "--dest-profile", "nope"],
            ["f", "--dest", "catalog/x"],
            ["f", "--dest", "."],
        ],
        ids=" ".join,
    )
    def test_2(self, olympia, sample, tmp_path, args):
        olympia("export", "create", *args).failed(2)
        assert not (tmp_path / "d").exists()
        assert sample.catalog.snapshot().version == 7

    def test_10_11(self, olympia, friday, tmp_path):
        olympia("export", "create", "f", "--dest", "d", "--at", "v99").failed(10)
        olympia("export", "create", "f", "--dest", "d", "--at", "nope").failed(10)
        done = olympia("export", "create", "friday", "--dest", "d", "--json")
        assert (done.exit_code, done.error["code"]) == (11, "ExportExists")
        olympia("export", "create", "f", "--dest", "friday").failed(11, "export resume friday")
        (tmp_path / "d").mkdir()
        (tmp_path / "d" / "mine").touch()
        olympia("export", "create", "f", "--dest", "d").failed(11, "mine")

    def test_40_and_41(self, run, damageable: Sample, tmp_path):
        _, path = next(iter(damageable.catalog.snapshot(AtVersion(2)).entries(Kind.TABLE)))
        bad = damageable.folder / path
        bad.write_bytes(b"")
        done = run("-c", damageable.uri, "export", "create", "f", "--dest", "d", "--at", "v2")
        done.failed(40, bad.name, "nothing was recorded")
        assert damageable.catalog.snapshot().version == 7
        java_catalog.JavaCatalog(tmp_path / "java").commit(1)
        run("-c", tmp_path / "java", "export", "create", "f", "--dest", "e").failed(41, "import this one")
        assert not (tmp_path / "e").exists()

    def test_a_destination_that_cannot_be_written(self, olympia, tmp_path):
        (tmp_path / "file").touch()
        assert olympia("export", "create", "f", "--dest", "file/d").exit_code in (30, 31)

    def test_interrupted_it_says_how_to_go_on(self, olympia, tmp_path, monkeypatch):
        class Interrupted(WrappedStore):
            def create_many(self, files):
                raise KeyboardInterrupt

        wrap_store(monkeypatch, lambda store: Interrupted(store) if store.uri.endswith("dest") else store)
        done = olympia("export", "create", "friday", "--dest", "a dest")
        assert done.exit_code == 130
        assert done.stderr.splitlines()[-1] == "interrupted"
        [line] = [line for line in done.stderr.splitlines() if line.startswith("to continue: olympia -c ")]
        assert line.endswith("export resume friday --dest 'a dest'")
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        olympia("export", "resume", "friday", "--dest", "a dest").ok()

    def test_the_advised_resume_command_works_when_typed(self, run, olympia, tmp_path, monkeypatch):
        class Unclear(WrappedStore):
            def create_many(self, files):
                raise OutcomeUnknown("no answer")

        with monkeypatch.context() as patch:
            wrap_store(patch, lambda store: Unclear(store) if store.uri.endswith("dest") else store)
            stopped = olympia("export", "create", "friday", "--dest", "a dest").failed(30)
        taken = olympia("export", "create", "other", "--dest", "a dest").failed(11)
        for done in (stopped, taken):
            program, *words = shlex.split(done.stderr.partition("resume with: ")[2])
            assert program == "olympia"
            run(*words).ok()

    def test_the_advised_resume_command_names_the_destination_profile(self, olympia, friday, config):
        config('["the backup"]\n')
        done = olympia("export", "create", "f", "--dest", "friday", "--dest-profile", "the backup").failed(11)
        words = shlex.split(done.stderr.partition("resume with: ")[2])
        assert words[words.index("--dest-profile") + 1] == "the backup"

    def test_resume_finishes_an_export_after_a_kill(self, sample, tmp_path, program):
        """kill -9 somewhere during the copy. Nothing is recorded; resume finishes it."""
        with Catalog(sample.store).transaction() as transaction:
            for number in range(100):
                transaction.create_namespace(ns(f"n{number}"))
        dest = tmp_path / "dest"
        run_killed("-c", sample.uri, "export", "create", "f", "--dest", dest, event="os.link", number=60)
        assert (dest / EXPORT_NOTE).exists()
        assert 0 < len(list(LocalStore(dest).list("def/ns/"))) < 100
        assert "f" not in sample.catalog.snapshot().definition.exported_snapshots
        done = program("-c", sample.uri, "export", "resume", "f", "--dest", dest, "--json").ok()
        assert done.json["at_version"] == 8
        assert program("-c", sample.uri, "export", "verify", "f", "--json").ok().json["damaged"] is False
        check_catalog(LocalStore(dest))


class TestResume:
    def test_of_one_that_is_complete(self, olympia, friday):
        done = olympia("export", "resume", "friday", "--dest", "friday", "--json").ok()
        assert (done.json["version"], done.json["at_version"]) == (8, 7)

    def test_errors(self, olympia, friday, tmp_path):
        olympia("export", "resume", "friday", "--dest", "nowhere").failed(10)
        olympia("export", "resume", "other", "--dest", "friday").failed(11, "friday")
        olympia("export", "resume", "friday").failed(2)


class TestLs:
    def test_lines(self, olympia, friday, tmp_path):
        olympia("export", "create", "brief", "--dest", "b", "--mode", "minimal", "--expires", "1d").ok()
        assert [line.split("\t") for line in olympia("export", "ls").ok().lines][1] == [
            *("friday", "7", "full", "current", "", str(tmp_path / "friday"))
        ]
        assert olympia("export", "ls", "-o", "name").ok().lines == ["brief", "friday"]
        rows = olympia("export", "ls", "--json").ok().json["exports"]
        assert [row["state"] for row in rows] == ["current", "current"]
        assert rows[0]["expires_at"] > "2026"

    def test_none(self, olympia):
        assert olympia("export", "ls", "--json").ok().json == {"version": 7, "exports": [], "unfinished": []}
        assert olympia("export", "ls").ok().stdout == ""

    def test_names_are_data(self, olympia, sample):
        name = "\x9b31m[red]\u202e"
        olympia("export", "create", name, "--dest", "x").ok()
        shown = look("-c", sample.uri, "export", "ls", width=200)
        assert "\\x9b31m[red]\\u202e" in shown.screen
        assert olympia("export", "ls", "--json").ok().json["exports"][0]["name"] == name


class TestReference:
    def test_a_name_reads_the_version(self, olympia):
        olympia("export", "create", "friday", "--dest", "friday", "--at", "v1").ok()
        assert olympia("table", "ls", "--at", "friday").ok().stdout == ""
        assert olympia("time-travel", "friday", "--json").ok().json["version"] == 1

    def test_reading_a_purged_version_names_its_export(self, olympia, sample, tmp_path):
        olympia("export", "create", "friday", "--dest", "friday", "--at", "v1").ok()
        olympia("export", "create", "pin", "--dest", "pin", "--at", "v2", "--mode", "minimal").ok()
        mark(sample.catalog, 4)
        sample.store.delete_many([root_path(number) for number in range(4)])
        olympia("table", "ls", "--at", "friday").failed(10, str(tmp_path / "friday"))
        assert len(olympia("table", "ls", "--at", "pin").ok().lines) == 5
        olympia("rollback", "pin", "--yes").failed(10)


class TestVerify:
    def test_sound(self, olympia, friday):
        done = olympia("export", "verify", "friday").ok()
        assert done.stdout == ""
        assert done.stderr.splitlines()[-1].startswith("sound: friday of v7, ")

    def test_50(self, olympia, friday):
        bad = min(friday.glob("def/table/*"))
        bad.unlink()
        done = olympia("export", "verify", "friday")
        assert done.exit_code == 50
        assert done.lines == [f"error\tF301\tdef/table/{bad.name}\tit is missing"]
        assert "DAMAGED" in done.stderr
        done = olympia("export", "verify", "friday", "--json")
        assert (done.exit_code, done.json["damaged"], done.stderr) == (50, True, "")
        [found] = done.json["findings"]
        assert (found["code"], found["versions"], found["objects_total"]) == ("F301", [7], 1)
        assert json.loads(olympia("export", "verify", "friday", "-o", "jsonl").stdout) == found
        assert olympia("export", "verify", "friday", "-o", "csv").lines[0] == "severity,code,path,message"

    def test_by_its_place(self, run, olympia, friday):
        """A full one needs no catalog at all."""
        done = run("export", "verify", "--dest", friday, "--json").ok()
        assert (done.json["name"], done.json["shared_files"]) == ("friday", 0)
        olympia("export", "create", "m", "--dest", "m", "--mode", "minimal").ok()
        run("export", "verify", "--dest", "m").failed(2, "no catalog")
        assert olympia("export", "verify", "--dest", "m", "--json").ok().json["shared_files"] > 5

    def test_of_another_catalog(self, run, empty, olympia, tmp_path):
        olympia("export", "create", "m", "--dest", "m", "--mode", "minimal").ok()
        run("-c", empty, "export", "verify", "--dest", "m").failed(2, "another catalog")

    def test_one_that_was_moved(self, olympia, friday, tmp_path):
        shutil.move(friday, tmp_path / "moved")
        assert olympia("export", "verify", "friday").exit_code == 50
        olympia("export", "verify", "friday", "--dest", "moved").ok()

    def test_errors(self, olympia, tmp_path):
        olympia("export", "verify").failed(2)
        olympia("export", "verify", "nope").failed(10)
        olympia("export", "verify", "--dest", "nowhere").failed(10)


class TestDrop:
    def test_asks(self, olympia, sample, friday):
        done = olympia("export", "drop", "friday")
        done.failed(12, "--yes")
        assert f"its files at {friday} stay" in done.stderr
        shown = look("-c", sample.uri, "export", "drop", "friday", type="n\n")
        assert shown.exit_code == 12
        assert sample.catalog.snapshot().version == 8
        shown = look("-c", sample.uri, "export", "drop", "friday", type="y\n")
        assert shown.exit_code == 0
        assert shown.plain[-1] == "v9  dropped export friday"
        check_catalog(LocalStore(friday))
        assert "export drop friday of v7" in olympia("log", "-n", "1").ok().stdout

    def test_dry_run(self, olympia, sample, friday):
        done = olympia("export", "drop", "friday", "--dry-run", "--delete-files", "--json").ok()
        assert done.json["dry_run"] is True
        assert done.json["dropped"] is False
        assert done.json["deleted_files"] > 5
        assert sample.catalog.snapshot().version == 8
        check_catalog(LocalStore(friday))

    def test_with_its_files(self, olympia, friday):
        done = olympia("export", "drop", "friday", "--delete-files", "--yes").ok()
        assert f"its files at {friday} will be deleted: " in done.stderr
        assert [path for path in friday.rglob("*") if path.is_file()] == []
        olympia("export", "drop", "friday", "--yes").failed(10)

    def test_files_that_are_not_its_own(self, olympia, sample, friday):
        (friday / "mine").touch()
        olympia("export", "drop", "friday", "--delete-files", "--yes").failed(12, "mine")
        assert sample.catalog.snapshot().version == 8
        check_catalog(LocalStore(friday))

    def test_files_that_come_while_it_is_dropped(self, olympia, sample, friday, monkeypatch):
        """The record is gone by then, so it says where the files are."""
        race(monkeypatch, lambda _: (friday / "mine").touch())
        done = olympia("export", "drop", "friday", "--delete-files", "--yes")
        done.failed(3, "is dropped", str(friday), "mine")
        assert sample.catalog.snapshot().definition.exported_snapshots == {}
        check_catalog(LocalStore(friday))


class TestProfiles:
    @pytest.fixture
    def s3(self):
        with StrictS3() as server:
            server.create_bucket(BUCKET)
            yield server

    def test_the_destination_has_a_profile_of_its_own(self, olympia, config, s3, run):
        config(
            f'[backup]\ncatalog = "s3://{BUCKET}/x"\n[backup.storage]\nendpoint_url = "{s3.url}"\n'
            'key = "AKIAKEY"\nsecret = "verysecret"\nregion = "us-east-1"\n'
        )
        words = ["export", "create", "friday", "--dest", f"s3://{BUCKET}/x", "--dest-profile", "backup"]
        done = olympia(*words, "--json", "--verbose").ok()
        assert done.json["location"] == f"s3://{BUCKET}/x"
        assert run("--profile", "backup", "table", "ls").ok().lines
        olympia("export", "verify", "friday", "--dest-profile", "backup").ok()
        shown = olympia("export", "ls", "--json").ok().stdout + olympia("catalog", "show", "--json").ok().stdout
        assert "secret" not in shown + done.stdout + done.stderr
        assert "AKIAKEY" not in shown
        dropped = olympia("export", "drop", "friday", "--delete-files", "--yes", "--dest-profile", "backup").ok()
        assert "will be deleted: " in dropped.stderr
        run("--profile", "backup", "table", "ls").failed(10)

    def test_one_of_another_kind_of_store_is_not_passed_over(self, olympia, config, tmp_path):
        config('[backup]\ncatalog = "gs://backup/x"\n[backup.storage]\ntoken = "anon"\n')
        words = ["export", "create", "friday", "--dest", f"s3://{BUCKET}/x", "--dest-profile", "backup"]
        olympia(*words).failed(2, "the profile backup has storage options for gs", "name a profile")


def test_completion_knows_the_names(olympia, friday, sample, program):
    env = {"OLYMPIA_CATALOG": sample.uri}
    done = program("__complete", "zsh", "--", "export", "drop", "fr", env=env)
    assert done.exit_code == 0, done.stderr
    assert "friday" in done.stdout


class TestExpire:
    """The files that an expire deletes, and those that an export keeps."""

    def expire(self, olympia) -> None:
        policy = ["--keep-last", "1", "--older-than", "0s", "--grace", "0s"]
        olympia("expire", *policy, "--offline", "--yes").ok()
        olympia("expire", "purge", "--offline", "--yes").ok()

    def test_a_sharing_export_stays_whole_until_it_is_dropped(self, olympia, sample):
        olympia("txn", "abort", sample.transaction, "--yes").ok()
        olympia("export", "create", "pin", "--dest", "pin", "--mode", "minimal", "--at", "v4").ok()
        olympia("export", "create", "part", "--dest", "part", "--mode", "partial", "--depth", "1", "--at", "v2").ok()
        before = olympia("table", "ls", "--at", "v4").ok().stdout
        self.expire(olympia)
        assert not sample.store.exists(root_path(4))
        assert olympia("table", "ls", "--at", "pin").ok().stdout == before
        for name in ("pin", "part"):
            assert olympia("export", "verify", name, "--json").ok().json["damaged"] is False
        olympia("export", "drop", "pin", "--yes").ok()
        olympia("export", "drop", "part", "--yes").ok()
        self.expire(olympia)
        done = olympia("export", "verify", "--dest", "pin", "--json")
        assert (done.exit_code, {one["code"] for one in done.json["findings"]}) == (50, {"F503"})

    def test_a_full_export_does_without_the_catalog(self, olympia, run, sample, tmp_path):
        olympia("txn", "abort", sample.transaction, "--yes").ok()
        olympia("export", "create", "friday", "--dest", "friday", "--at", "v2").ok()
        self.expire(olympia)
        olympia("export", "verify", "friday").ok()
        olympia("table", "ls", "--at", "friday").failed(10, "friday")
        # and can be expired itself
        run("-c", tmp_path / "friday", "ns", "create", "new").ok()
        self.expire(lambda *words: run("-c", tmp_path / "friday", *words))
        check_catalog(LocalStore(tmp_path / "friday"))

    def test_an_export_of_a_catalog_with_a_past_has_none(self, olympia, run, sample, tmp_path):
        """An export has no quarantine, and its expire has nothing to undo."""
        olympia("expire", "--keep-last", "1", "--older-than", "0s", "--offline", "--yes").ok()
        olympia("export", "create", "friday", "--dest", "friday").ok()
        friday = tmp_path / "friday"
        assert run("-c", friday, "fsck", "--level", "full", "--all-versions", "--json").ok().json["findings"] == []
        assert run("-c", friday, "catalog", "show", "--json").ok().json["properties"] == {}
        for words in (["undo"], ["purge", "--offline"]):
            run("-c", friday, "expire", *words, "--yes").ok()
        assert Catalog(LocalStore(friday)).snapshot().version == 8
        check_catalog(LocalStore(friday))

    @pytest.mark.parametrize("hint", [None, "1"])
    @pytest.mark.parametrize("more", [0, 2])
    def test_one_that_lost_its_oldest_hint_is_mended_as_fsck_says(self, olympia, run, sample, tmp_path, hint, more):
        olympia("export", "create", "friday", "--dest", "friday", "--at", "v2").ok()
        friday = tmp_path / "friday"
        for number in range(more):
            run("-c", friday, "ns", "create", f"more{number}").ok()
        oldest = friday / "vn" / "oldest"
        oldest.unlink()
        if hint is not None:
            oldest.write_text(hint)
        told = run("-c", friday, "fsck", "--all-versions", "--json").json
        assert [one["code"] for one in told["findings"]] == ["F101"]
        words = told["next"][0]["command"]
        assert words == ["olympia", "-c", str(friday), "fsck", "--repair"]
        assert told["next"][0]["loses"] == 0
        assert "nothing to acknowledge" in run("-c", friday, "fsck", "--all-versions", "--acknowledge").stderr
        run(*words[1:], "--yes").ok()
        assert oldest.read_text() == "2"
        assert run("-c", friday, "fsck", "--level", "full", "--all-versions", "--json").ok().json["findings"] == []
        olympia("export", "verify", "friday").ok()
        run("-c", friday, "expire", "--dry-run").ok()

    def test_fsck_advises_acknowledging_an_export_without_its_note(self, olympia, run, sample, tmp_path):
        """Versions may be lost as well, so that is acknowledged and not mended."""
        olympia("export", "create", "friday", "--dest", "friday", "--at", "v2").ok()
        friday = tmp_path / "friday"
        (friday / "vn" / "oldest").unlink()
        (friday / EXPORT_NOTE).unlink()
        run("-c", friday, "ns", "create", "more").ok()
        told = run("-c", friday, "fsck", "--all-versions", "--json").json
        words = told["next"][0]["command"]
        assert words[3:] == ["fsck", "--all-versions", "--acknowledge"]
        run(*words[1:]).ok()
        run("-c", friday, "fsck", "--all-versions").ok()
        run("-c", friday, "expire", "--dry-run").ok()

    def test_one_that_lost_its_first_version_is_not_mended_by_a_hint(self, olympia, run, sample, tmp_path):
        olympia("export", "create", "friday", "--dest", "friday", "--at", "v2").ok()
        friday = tmp_path / "friday"
        run("-c", friday, "ns", "create", "more").ok()
        (friday / root_path(2)).unlink()
        told = run("-c", friday, "fsck", "--all-versions", "--json").json
        assert told["next"][0]["command"][3:] == ["fsck", "--all-versions", "--acknowledge"]
        assert (friday / "vn" / "oldest").read_text() == "2"


class TestUnfinished:
    """An export that was interrupted is seen from its catalog, which has no record of it."""

    @pytest.fixture
    def dest(self, sample, tmp_path) -> Path:
        dest = tmp_path / "the dest"
        run_killed("-c", sample.uri, "export", "create", "f", "--dest", dest, event="os.link", number=12)
        return dest

    def test_it_is_listed_with_the_command_that_goes_on(self, run, sample, dest):
        done = run("-c", sample.uri, "export", "ls", "--json").ok()
        check(done.json, "export-ls")
        assert done.json["exports"] == []
        [row] = done.json["unfinished"]
        assert (row["name"], row["at_version"], row["mode"], row["location"]) == ("f", 7, "full", str(dest))
        assert row["begun_at"].endswith("Z")
        listed = run("-c", sample.uri, "export", "ls").ok()
        assert listed.lines == [f"f\t7\tfull\tunfinished\t\t{dest}"]
        told, advice = listed.stderr.rstrip().split(": ", 1)
        assert (told, shlex.split(advice)) == ("f is unfinished; if it is not running", row["command"])
        for form in ("name", "csv", "jsonl"):
            assert "unfinished" not in run("-c", sample.uri, "export", "ls", "-o", form).ok().stdout
        program, *words = row["command"]
        assert program == "olympia"
        run(*words).ok()
        done = run("-c", sample.uri, "export", "ls", "--json").ok()
        assert (done.json["unfinished"], [row["name"] for row in done.json["exports"]]) == ([], ["f"])
        assert not list((sample.folder / "ops" / "exports").iterdir())
        check_catalog(sample.store)

    def test_status_says_it(self, run, sample, dest):
        done = run("-c", sample.uri, "status", "--json").ok()
        check(done.json, "status")
        [row] = done.json["unfinished_exports"]
        assert (row["name"], row["location"], done.json["exports"]) == ("f", str(dest), 0)
        [reason] = [reason for reason in done.json["reasons"] if "the export f" in reason["text"]]
        assert done.json["needs_attention"] == []
        lines = run("-c", sample.uri, "status").ok().lines
        assert f"unfinished_export\tf\t7\tfull\t{row['begun_at']}\t{dest}" in lines
        run(*reason["command"][1:]).ok()
        done = run("-c", sample.uri, "status", "--json").ok()
        assert (done.json["unfinished_exports"], done.json["exports"]) == ([], 1)
        assert not [reason for reason in done.json["reasons"] if "export" in reason["text"]]

    def test_it_can_be_forgotten(self, run, sample, dest):
        before = run("-c", sample.uri, "status", "--json").ok().json["version"]
        run("-c", sample.uri, "export", "drop", "f", "--delete-files", "--yes").failed(12, "unfinished")
        assert run("-c", sample.uri, "export", "drop", "f", "--dry-run").ok().lines == [
            f"v{before}  would drop export f"
        ]
        assert len(run("-c", sample.uri, "export", "ls", "--json").ok().json["unfinished"]) == 1
        done = run("-c", sample.uri, "export", "drop", "f", "--yes", "--json").ok()
        check(done.json, "export-drop")
        assert (done.json["version"], done.json["dropped"], done.json["location"]) == (before, True, str(dest))
        assert (dest / EXPORT_NOTE).exists()
        assert run("-c", sample.uri, "export", "ls", "--json").ok().json["unfinished"] == []
        run("-c", sample.uri, "export", "drop", "f", "--yes").failed(10)

    def test_a_recorded_export_with_leftover_note_is_finished(self, run, sample, dest):
        """Killed after the record, before the note in the catalog went."""
        [note] = (sample.folder / "ops" / "exports").iterdir()
        kept = note.read_bytes()
        run("-c", sample.uri, "export", "resume", "f", "--dest", dest).ok()
        note.write_bytes(kept)
        assert run("-c", sample.uri, "export", "ls", "--json").ok().json["unfinished"] == []
        assert run("-c", sample.uri, "status", "--json").ok().json["unfinished_exports"] == []
        run("-c", sample.uri, "export", "drop", "f", "--yes").ok()
        assert run("-c", sample.uri, "export", "ls", "--json").ok().json["unfinished"] == []

    def test_fsck_and_expire_know_the_file(self, run, sample, dest):
        found = run("-c", sample.uri, "fsck", "--level", "full", "--all-versions", "--json").ok().json["findings"]
        assert not [each for each in found if each["path"].startswith("ops/")]
        ran = run("-c", sample.uri, "expire", "--dry-run", "--json").ok()
        assert ran.json["unknown_files"]["count"] == 0

    @pytest.mark.parametrize(
        "content", [b"", b"[]", b"{}", b'{"name": 3}', b"\xff", b'{"name": "f", "at_version": -1}']
    )
    def test_a_note_that_cannot_be_read_is_none(self, run, sample, dest, content):
        [note] = (sample.folder / "ops" / "exports").iterdir()
        note.write_bytes(content)
        assert run("-c", sample.uri, "export", "ls", "--json").ok().json["unfinished"] == []
        run("-c", sample.uri, "status").ok()
        run("-c", sample.uri, "export", "resume", "f", "--dest", dest).ok()
        assert not note.exists()

    def test_a_catalog_that_takes_no_note_is_exported_all_the_same(self, olympia, sample):
        (sample.folder / "ops").mkdir(exist_ok=True)
        (sample.folder / "ops" / "exports").write_bytes(b"in the way")
        olympia("export", "create", "f", "--dest", "d").ok()
