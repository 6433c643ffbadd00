"""`doctor` and `config show`: what is the matter here, where settings come from, and never a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.cli.config import masked_options
from olympia_cli.format.paths import root_path
from olympia_cli.masking import MASK, masked
from olympia_cli.storage import memory
from olympia_cli.storage.memory import MemoryStore
from tests.cli.conftest import Ran, Run
from tests.cli.test_terminal import look
from tests.helpers import java_catalog
from tests.helpers.in_place import as_ordinary_user, read_only
from tests.helpers.json_schema import check
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import FullStore

SECRETS = ("AKIA-hush", "hush-hush", "token-hush")


def states(done: Ran) -> dict[str, str]:
    check(done.json, "doctor")
    assert done.json["exit_code"] == done.exit_code
    return {one["check"]: one["state"] for one in done.json["checks"]}


def type_next(run: Run, done: Ran, *more: str) -> Ran:
    program, *words = done.json["next"]["command"]
    assert program == "olympia"
    return run(*words, *more)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestFolder:
    def test_all_is_well_and_nothing_is_left_behind(self, olympia, sample, run):
        before = files(sample.folder)
        done = olympia("doctor", "--json").ok()
        assert files(sample.folder) == before
        found = states(done)
        tried = ("settings", "list", "read", "create", "create exclusively", "delete")
        assert {found[what] for what in tried} == {"ok"}
        assert (found["clock"], found["fsck"]) == ("ok", "note")
        # the advice is followed until there is none
        type_next(run, done).ok()
        done = olympia("doctor", "--json").ok()
        assert done.json["next"]["command"][3:] == ["fsck", "--level", "full", "--all-versions"]
        type_next(run, done).ok()
        done = olympia("doctor", "--json").ok()
        assert (states(done)["fsck"], done.json["next"]["command"][3:]) == ("ok", ["status"])
        type_next(run, done).ok()

    def test_damage(self, run, damageable):
        (damageable.folder / "ops").mkdir()
        (damageable.folder / "ops" / "last-fsck.json").write_text(json.dumps({"damaged": True, "level": "full"}))
        done = run("-c", damageable.uri, "doctor", "--json")
        assert (done.exit_code, done.json["verdict"]) == (51, "damaged")
        assert [one["text"] for one in done.json["checks"] if one["check"] == "catalog" and one["state"] == "ok"] == [
            "version 7"
        ]
        type_next(run, done).ok()
        run("-c", damageable.uri, "doctor").ok()

    def test_a_catalog_that_cannot_be_opened(self, run, damageable):
        (damageable.folder / root_path(7)).write_bytes(b"x")
        done = run("-c", damageable.uri, "doctor", "--json")
        assert (done.exit_code, states(done)["catalog"], states(done)["create"]) == (40, "failed", "ok")
        assert type_next(run, done).exit_code == 50

    @pytest.mark.parametrize("there", [False, True])
    def test_no_catalog(self, run, tmp_path, there):
        folder = tmp_path / "new"
        if there:
            folder.mkdir()
        done = run("-c", folder, "doctor", "--json")
        assert (done.exit_code, folder.exists()) == (10, there)
        assert ("create" in states(done)) is there
        assert not there or not list(folder.iterdir())
        type_next(run, done).ok()
        run("-c", folder, "doctor").ok()

    def test_none_is_given(self, run):
        done = run("doctor", "--json")
        assert (done.exit_code, done.json["catalog"], states(done)["settings"]) == (2, None, "failed")
        type_next(run, done).ok()

    def test_read_only(self, olympia):
        found = states(olympia("doctor", "--read-only", "--json").ok())
        assert (found["read"], found["create"], found["clock"]) == ("ok", "note", "note")

    def test_a_folder_that_may_only_be_read(self, run, damageable):
        """The last line says what decides the exit code, and what to do; followed, it is well for a reader."""
        run("-c", damageable.uri, "fsck", "--level", "full", "--all-versions").ok()
        assert run("-c", damageable.uri, "doctor", "--json").ok().json["next"]["why"] == "all is well"
        with read_only(damageable.folder):
            done, shown, read = as_ordinary_user(
                damageable.folder,
                lambda: (
                    run("-c", damageable.uri, "doctor", "--json"),
                    run("-c", damageable.uri, "doctor"),
                    run("-c", damageable.uri, "doctor", "--read-only", "--json"),
                ),
            )
        assert (done.exit_code, states(done)["create"]) == (51, "attention")
        why = done.json["next"]["why"]
        assert "Permission denied: commits will fail here: make it writable" in why
        assert done.json["next"]["command"] == ["ls", "-ld", str(damageable.folder)]
        program, command, last = shown.lines[-1].split("\t")
        assert (program, command.split()) == ("next", done.json["next"]["command"])
        assert "commits will fail here" in last
        assert read.ok().json["next"]["why"] == "all is well"

    @pytest.mark.parametrize("read_only", [[], ["--read-only"]], ids=str)
    def test_a_folder_that_may_not_be_read(self, run, damageable, read_only):
        versions = damageable.folder / "vn"
        versions.chmod(0)
        try:
            done = as_ordinary_user(
                damageable.folder, lambda: run("-c", damageable.uri, "doctor", *read_only, "--json")
            )
        finally:
            versions.chmod(0o755)
        assert done.exit_code == 31
        assert done.json["next"]["command"] == ["ls", "-ld", str(versions)]

    def test_doctor_advises_on_the_exit_code_before_overdue_work(self, run, damageable):
        assert run("-c", damageable.uri, "doctor", "--json").ok().json["next"]["command"][-1] == "fsck"
        with read_only(damageable.folder):
            done = as_ordinary_user(damageable.folder, lambda: run("-c", damageable.uri, "doctor", "--json"))
        assert states(done)["fsck"] == "note"
        assert done.exit_code == 51
        assert "commits will fail here" in done.json["next"]["why"]

    def test_a_catalog_of_another_program_is_not_written_to(self, run, tmp_path):
        java_catalog.sample(tmp_path / "java")
        before = files(tmp_path / "java")
        done = run("-c", tmp_path / "java", "doctor", "--json").ok()
        assert states(done)["create"] == "note"
        assert files(tmp_path / "java") == before

    def test_on_a_terminal(self, sample):
        seen = look("-c", sample.uri, "doctor")
        assert seen.exit_code == 0
        assert seen.lines[0].startswith("\x1b[32mok ")
        assert seen.plain[-2:] == [f"next  olympia -c {sample.uri} fsck", "      this catalog has never been checked"]

    def test_in_a_pipe(self, olympia, sample):
        lines = olympia("doctor").ok().lines
        assert {line.split("\t")[0] for line in lines} == {"check", "setting", "version", "next"}
        assert f"setting\tcatalog\t{sample.uri}\tflag\t--catalog" in lines
        assert olympia("doctor", "-o", "name").ok().lines == []
        assert olympia("doctor", "-o", "csv").ok().lines[0] == "check,state,text"


class TestFullDisk:
    """The advice frees space when it is typed."""

    URI = "memory://full-disk"

    @pytest.fixture
    def store(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> FullStore:
        store = FullStore(MemoryStore("full-disk"))
        monkeypatch.setitem(memory._shared, "full-disk", store)
        run("-c", self.URI, "init").ok()
        for name in "abcdefgh":
            run("-c", self.URI, "ns", "create", name).ok()
        return store

    def test_with_versions_in_quarantine(self, run, store):
        now = ("--older-than", "0s", "--grace", "0s")
        run("-c", self.URI, "expire", "--offline", "--yes", "--keep-last", "1", *now).ok()
        store.free = 0
        done = run("-c", self.URI, "doctor", "--json")
        assert (done.exit_code, states(done)["create"]) == (30, "failed")
        assert done.json["next"]["command"] == ["olympia", "-c", self.URI, "expire", "purge", "--offline"]
        assert "no space left: stop all writers" in done.json["next"]["why"]
        type_next(run, done).failed(12, "--yes")
        type_next(run, done, "--yes").ok()
        assert states(run("-c", self.URI, "doctor", "--json").ok())["create"] == "ok"

    def test_without(self, run, store):
        store.free = 0
        done = run("-c", self.URI, "doctor", "--json")
        assert done.exit_code == 30
        assert done.json["next"]["command"][3:] == ["expire", "--dry-run"]
        type_next(run, done).ok()


class TestBucket:
    @pytest.fixture
    def server(self) -> Iterator[StrictS3]:
        with StrictS3() as server:
            server.create_bucket("lake")
            yield server

    @pytest.fixture
    def doctor(self, run, server, config, monkeypatch) -> Any:
        def start(key: str = "writer", *more: str) -> Ran:
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
            config(f'[default]\ncatalog = "s3://lake/c"\n[default.storage]\nendpoint_url = "{server.url}"\n')
            return run("doctor", "--json", *more)

        start()
        run("init").ok()
        return start

    def test_all_is_well(self, doctor, server):
        before = set(server.buckets["lake"])
        done = doctor().ok()
        assert set(server.buckets["lake"]) == before
        assert states(done)["credentials"] == "ok"
        assert {one["name"]: one["source"] for one in done.json["settings"]}["storage.endpoint_url"] == "profile"
        assert "hush" not in done.stdout + done.stderr

    def test_no_permission(self, doctor):
        done = doctor("nobody")
        assert (done.exit_code, states(done)["list"], states(done)["read"]) == (31, "failed", "failed")

    def test_credentials_that_only_read_need_attention(self, doctor):
        done = doctor("reader")
        assert (done.exit_code, states(done)["read"], states(done)["create"]) == (51, "ok", "attention")
        assert "commits will fail here" in done.json["next"]["why"]
        assert done.json["next"]["command"][1:] == ["config", "show"]
        doctor("reader", "--read-only").ok()

    def test_a_store_that_overwrites(self, doctor, server):
        server.ignore_conditions = True
        done = doctor()
        assert (done.exit_code, states(done)["create exclusively"]) == (12, "failed")

    def test_a_store_that_does_not_answer(self, run, config, monkeypatch):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
        config('[default]\ncatalog = "s3://lake/c"\n[default.storage]\nendpoint_url = "http://127.0.0.1:9"\n')
        done = run("doctor", "--timeout", "1s", "--json")
        assert (done.exit_code, states(done)["catalog"], states(done)["store"]) == (30, "failed", "note")


class TestConfig:
    TEXT = """
[default]
catalog = "s3://key:hush-hush@lake/c"
[default.storage]
endpoint_url = "https://ann:hush-hush@minio.example.com"
region = "eu"
anon = false
key = "AKIA-hush"
secret = "hush-hush"
client_kwargs = {aws_session_token = "token-hush"}
[prod]
catalog = "gs://lake/c"
[prod.storage]
token = "token-hush"
project = "p"
"""

    @pytest.mark.parametrize("form", [[], ["--json"], ["-o", "csv"], ["-o", "wide"]], ids=str)
    @pytest.mark.parametrize("command", [["config", "show"], ["doctor", "--timeout", "1s"]], ids=" ".join)
    def test_no_secret_is_printed(self, run, config, form, command):
        config(self.TEXT)
        done = run(*command, *form)
        for secret in SECRETS:
            assert secret not in done.stdout + done.stderr

    def test_profiles(self, run, config):
        path = config(self.TEXT)
        found = run("config", "show", "--json").ok().json
        check(found, "config-show")
        assert (found["config_file"], found["exists"], found["profile"]) == (str(path), True, "default")
        default, prod = found["profiles"]
        assert default["catalog"] == f"s3://{MASK}@lake/c"
        assert default["storage"]["endpoint_url"] == f"https://{MASK}@minio.example.com"
        assert (default["storage"]["region"], default["storage"]["anon"]) == ("eu", "false")
        assert {default["storage"][name] for name in ("key", "secret", "client_kwargs")} == {MASK}
        assert prod["storage"] == {"token": MASK, "project": "p"}
        lines = run("config", "show").ok().lines
        assert "prod\tgs://lake/c\ttoken=***, project=p" in lines

    def test_where_each_comes_from(self, run, config, monkeypatch):
        config('[default]\ncatalog = "file"\n[other]\ncatalog = "other"\n')

        def found(*args: str) -> dict[str, tuple[str, str, str]]:
            rows = run("config", "show", *args, "--json").ok().json["settings"]
            return {row["name"]: (row["value"], row["source"], row["from"]) for row in rows}

        assert found()["catalog"] == ("file", "profile", "profile default")
        assert found()["timeout"] == ("30s", "default", "")
        assert found("--profile", "other")["catalog"] == ("other", "profile", "profile other")
        monkeypatch.setenv("OLYMPIA_CATALOG", "environment")
        monkeypatch.setenv("OLYMPIA_TIMEOUT", "50s")
        monkeypatch.setenv("OLYMPIA_BY", "ann")
        assert found()["catalog"] == ("environment", "environment", "OLYMPIA_CATALOG")
        assert found()["timeout"] == ("50s", "environment", "OLYMPIA_TIMEOUT")
        assert found()["by"] == ("ann", "environment", "OLYMPIA_BY")
        assert found("-c", "flag", "--timeout", "1s")["catalog"] == ("flag", "flag", "--catalog")
        assert found("--timeout", "1s")["timeout"] == ("1s", "flag", "--timeout")
        assert found("--profile", "other")["catalog"] == ("other", "profile", "profile other")
        assert found("--no-color")["color"][0] == "never"

    def test_config_show_names_the_catalog_that_commands_open(self, run, config, tmp_path, monkeypatch):
        """Every way to name a catalog: the setting that is shown is the catalog that is opened."""
        places = {}
        for name in ("flag", "environment", "file", "other"):
            places[name] = str(tmp_path / name)
            run("init", places[name]).ok()
        config(f'[default]\ncatalog = "{places["file"]}"\n[other]\ncatalog = "{places["other"]}"\n')
        flag, profile = ["-c", places["flag"]], ["--profile", "other"]
        for variable in (None, places["environment"]):
            if variable:
                monkeypatch.setenv("OLYMPIA_CATALOG", variable)
            for args in ([], flag, profile, [*flag, *profile]):
                shown = run(*args, "config", "show", "--json").ok().json["settings"]
                [catalog] = [row["value"] for row in shown if row["name"] == "catalog"]
                assert run(*args, "status", "--json").ok().json["catalog"] == catalog

    def test_a_file_that_cannot_be_read(self, run, config):
        config("[default")
        run("config", "show").failed(2, "config file")
        done = run("doctor", "--json")
        assert (done.exit_code, states(done)["settings"]) == (2, "failed")

    def test_a_file_that_cannot_be_read_and_is_not_needed(self, olympia, config):
        config("[default")
        olympia("ns", "ls").ok()
        done = olympia("doctor", "--json")
        assert (done.exit_code, states(done)["settings"], states(done)["catalog"]) == (51, "attention", "ok")
        assert "config file" in done.json["next"]["why"]

    def test_without_a_file(self, run):
        found = run("config", "show", "--json").ok().json
        assert (found["exists"], found["profiles"], found["profile"]) == (False, [], None)

    def test_masks(self):
        assert masked_options({"anything": "new"}) == {"anything": MASK}
        assert masked("s3://bucket/a@b") == "s3://bucket/a@b"
        assert re.fullmatch(r"s3://\*\*\*@b/c", masked("s3://k:s@b/c"))
