"""Every documented exit code, reached by what it stands for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format import definitions
from olympia_cli.format.paths import LATEST, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import MAIN, Run, Sample, command_line
from tests.cli.racing import race, wrap_store
from tests.helpers import java_catalog
from tests.helpers.big_catalog import add_versions
from tests.helpers.check import check_catalog
from tests.helpers.clock import DAY, FakeClock
from tests.helpers.names import ns
from tests.helpers.patience import PATIENCE
from tests.helpers.stores import AmbiguousStore, WrappedStore

UNKNOWN = "6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"


class TestUsage:
    @pytest.mark.parametrize(
        "args",
        [
            ["nope"],
            ["ns", "nope"],
            ["ns", "create"],
            ["ns", "create", "a", "b"],
            ["ns", "ls", "--nope"],
            ["ns", "ls", "-o", "yaml"],
            ["ns", "create", "with space"],
            ["ns", "create", ""],
            ["table", "show", "nodot"],
            ["table", "show", "a.b.c"],
            ["table", "register", "sales.t"],
            ["table", "register", "sales.t", "--metadata-location", " "],
            ["log", "-n", "-1"],
            ["log", "-n", "few"],
            ["log", "--action", "NOPE"],
            ["log", "sales", "--object", "other"],
            ["ns", "ls", "--at", "a b"],
            ["ns", "ls", "--at", ""],
            ["ns", "ls", "--at", "2026-99-99"],
            ["ns", "alter", "sales"],
            ["ns", "alter", "sales", "--set", "novalue"],
            ["ns", "alter", "sales", "--set", "a=1", "--set", "a=2"],
            ["ns", "alter", "sales", "--set", "a=1", "--unset", "a"],
            ["ns", "create", "x", "--retry-for", "soon"],
            ["compact", "--fill", "0"],
            ["compact", "--fill", "101"],
            ["apply", "no-such-file"],
            ["apply", "."],
            ["apply", "-", "--commit-every", "0"],
            ["apply", "-", "--commit-every", "2", "--dry-run"],
            ["diff", "v1..v2", "v3"],
            ["txn", "begin", "--isolation", "chaos"],
            ["view", "create", "sales.v", "--plan", "no-such-file"],
            ["catalog", "alter", "--set", "olympia.expire.oldest=3"],
            ["catalog", "alter", "--set", "olympia.retention.min-versions=none"],
            ["catalog", "alter", "--txn-ttl", "1s"],
            ["table", "ls", "--at", "v1", "--txn", UNKNOWN],
        ],
        ids=" ".join,
    )
    def test_2(self, args, olympia):
        done = olympia(*args).failed(2)
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)

    def test_no_catalog_location_is_given(self, run):
        run("ns", "ls").failed(2, "no catalog", "OLYMPIA_CATALOG")

    @pytest.mark.parametrize("uri", ["nope://x", "s3://", "s3:/x", "://x", "gs:///x"])
    def test_a_location_that_is_none(self, run, uri):
        run("-c", uri, "ns", "ls").failed(2)

    @pytest.mark.parametrize(
        "args", [["--order", "2"], ["--order", "1048577"], ["--txn-ttl", "1s"], ["--isolation", "none"]]
    )
    def test_init_refuses_invalid_options_and_creates_no_folder(self, run, args, tmp_path):
        run("init", tmp_path / "new", *args).failed(2)
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("group", [[], ["ns"], ["table"], ["view"], ["txn"], ["catalog"], ["namespace"]])
    def test_a_bare_group_prints_its_help_on_stderr(self, run, group):
        done = run(*group)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("Usage: olympia")
        assert "Commands:" in done.stderr
        assert "error" not in done.stderr.lower().replace("show the traceback of an error", "").replace("errors", "")

    def test_the_choices_of_a_missing_argument_fit_one_line(self, run):
        done = run("completion")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == (
            "error: Missing argument 'SHELL'. Choose from: bash, zsh, fish: see olympia completion --help\n"
        )

    @pytest.mark.parametrize("args", [["-q"], ["--json"], ["ns", "-q"]])
    def test_options_without_a_command_are_an_error(self, run, args):
        done = run(*args)
        assert done.exit_code == 2
        assert "Missing command" in done.stderr


class TestNotFound:
    @pytest.mark.parametrize(
        ("args", "code"),
        [
            (["ns", "show", "nope"], "NamespaceNotFound"),
            (["ns", "drop", "nope"], "NamespaceNotFound"),
            (["ns", "alter", "nope", "--set", "k=v"], "NamespaceNotFound"),
            (["ns", "rename", "nope", "x"], "NamespaceNotFound"),
            (["table", "ls", "nope"], "NamespaceNotFound"),
            (["table", "register", "nope.t", "--metadata-location", "s3://x"], "NamespaceNotFound"),
            (["table", "show", "sales.nope"], "TableNotFound"),
            (["table", "show", "sales.orders"], "TableNotFound"),
            (["table", "drop", "sales.nope"], "TableNotFound"),
            (["table", "history", "sales.nope"], "TableNotFound"),
            (["table", "restore", "sales.nope", "--at", "v2"], "TableNotFound"),
            (["table", "show", "sales.open"], "TableNotFound"),
            (["view", "show", "sales.orders_2025"], "ViewNotFound"),
            (["view", "drop", "sales.nope"], "ViewNotFound"),
            (["ns", "ls", "--at", "v99"], "VersionNotFound"),
            (["ns", "ls", "--at", "latest~8"], "VersionNotFound"),
            (["ns", "ls", "--at", "1999-12-31"], "VersionNotFound"),
            (["time-travel", "52w"], "VersionNotFound"),
            (["diff", "v0", "v99"], "VersionNotFound"),
            (["rollback", "v99", "--yes"], "VersionNotFound"),
            (["ns", "ls", "--at", "quarter-end"], "ExportNotFound"),
            (["txn", "show", UNKNOWN], "TransactionNotFound"),
            (["txn", "commit", UNKNOWN], "TransactionNotFound"),
            (["txn", "abort", "not-a-uuid", "--yes"], "TransactionNotFound"),
            (["ns", "create", "x", "--txn", UNKNOWN], "TransactionNotFound"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else value,
    )
    def test_10(self, args, code, olympia):
        done = olympia(*args, "--json")
        assert (done.exit_code, done.error["code"]) == (10, code), done.stderr

    @pytest.mark.parametrize("args", [["ns", "ls"], ["ns", "create", "x"], ["log"], ["status"], ["txn", "ls"]])
    def test_10_location_without_a_catalog_stays_untouched(self, run, tmp_path, args):
        """A folder that does not exist, an empty one, one with other files; nothing is made there."""
        (tmp_path / "empty").mkdir()
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "file").touch()
        for name in ("missing", "empty", "other"):
            done = run("-c", tmp_path / name, *args, "--json")
            assert (done.exit_code, done.error["code"]) == (10, "CatalogNotFound")
        assert not (tmp_path / "missing").exists()
        assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["init"], "CatalogExists"),
        (["ns", "create", "sales"], "NamespaceExists"),
        (["ns", "rename", "sales", "a.b"], "NamespaceExists"),
        (["ns", "drop", "sales"], "NamespaceNotEmpty"),
        (["table", "register", "sales.lines", "--metadata-location", "s3://x"], "TableExists"),
        (["table", "rename", "sales.lines", "sales.orders_2025"], "TableExists"),
        (["table", "restore", "sales.orders", "--at", "v6"], "TableExists"),
        (["view", "create", "sales.open", "--plan", "plan"], "ViewExists"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_11_exists(args, code, olympia, tmp_path):
    (tmp_path / "plan").touch()
    done = olympia(*args, "--json")
    assert (done.exit_code, done.error["code"]) == (11, code), done.stderr


def test_11_not_empty(run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    run("init", tmp_path).failed(11, "notes.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "notes.txt"]


class TestRefused:
    @pytest.mark.parametrize("answer", ["y\n", "", "n\n"])
    def test_12_rollback_without_terminal_needs_yes(self, olympia, answer):
        """Not even a yes on stdin counts: only a terminal is asked."""
        olympia("rollback", "v2", input=answer).failed(12, "--yes", "--dry-run")

    def test_12_txn_abort_without_terminal_needs_yes(self, olympia, sample):
        olympia("txn", "abort", sample.transaction).failed(12, "--yes")
        assert olympia("txn", "show", sample.transaction, "--json").ok().json["state"] == "open"

    def test_too_large(self, olympia):
        olympia("catalog", "alter", "--set", "olympia.txn.max-actions=2").ok()
        lines = "".join(f'{{"do": "ns create", "name": "n{number}"}}\n' for number in range(3))
        done = olympia("apply", "-", "--json", input=lines)
        assert (done.exit_code, done.error["code"]) == (12, "TransactionTooLarge")
        olympia("apply", "-", "--atomic", input=lines).ok()

    def test_expired(self, olympia, sample):
        clock = FakeClock(wall=int(time.time() * 1000) - 4 * DAY)
        # began four days ago, with three to live
        begun = distributed.begin(Catalog(sample.store, clock))
        done = olympia("txn", "commit", begun.id, "--json")
        assert (done.exit_code, done.error["code"]) == (12, "TransactionExpired")
        assert olympia("txn", "show", begun.id, "--json").ok().json["state"] == "expired"

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_closed(self, olympia, sample, end):
        olympia("txn", end, sample.transaction, *(["--yes"] if end == "abort" else [])).ok()
        done = olympia("ns", "create", "x", "--txn", sample.transaction, "--json")
        assert (done.exit_code, done.error["code"]) == (12, "TransactionClosed")
        done = olympia("txn", "abort", sample.transaction, "--yes", "--json")
        assert (done.exit_code, done.error["code"]) == (12, "TransactionClosed")


class TestConflicts:
    def test_20_another_writer_was_first(self, olympia, sample, monkeypatch):
        race(monkeypatch, lambda t: t.alter_namespace(ns("sales"), {"owner": "eve"}))
        done = olympia("ns", "alter", "sales", "--set", "owner=bob", "--json")
        assert (done.exit_code, done.error["code"]) == (20, "CommitConflict")
        assert "version 8" in done.error["message"]
        assert sample.catalog.snapshot().namespace(ns("sales")).properties == {"owner": "eve"}

    def test_0_another_writer_did_something_else(self, olympia, monkeypatch):
        race(monkeypatch, lambda t: t.create_namespace(ns("theirs")), lambda t: t.create_namespace(ns("more")))
        assert olympia("ns", "create", "ours", "--json").ok().json["version"] == 10

    def test_20_a_transaction_that_no_longer_fits(self, olympia, sample):
        olympia("ns", "create", "staged").ok()
        olympia("txn", "commit", sample.transaction).failed(20, "NAMESPACE_CREATE staged", "version 8")

    def test_20_a_rollback_over_a_concurrent_commit(self, olympia, monkeypatch):
        race(monkeypatch, lambda t: t.create_namespace(ns("theirs")))
        olympia("rollback", "v2", "--yes").failed(20)

    def test_20_saved_elsewhere(self, olympia, sample, monkeypatch):
        class Late(WrappedStore):
            def create(self, path: str, data: bytes) -> None:
                if path.startswith("dtxn/"):
                    other = distributed.load(Catalog(self.inner), sample.transaction)
                    other.save()
                super().create(path, data)

        wrap_store(monkeypatch, Late)
        done = olympia("ns", "create", "x", "--txn", sample.transaction, "--json")
        assert (done.exit_code, done.error["code"]) == (20, "SavedElsewhere")

    def test_21_no_answer_to_the_commit(self, olympia, monkeypatch):
        # 0 is the definition, 1 the root
        wrap_store(monkeypatch, lambda store: AmbiguousStore(store, 1, "lost_request"))
        done = olympia("ns", "create", "x", "--json")
        assert (done.exit_code, done.error["code"]) == (21, "CommitUnknown")
        assert done.error["hint"]

    def test_0_a_commit_stands_though_its_reply_was_lost(self, olympia, monkeypatch):
        wrap_store(monkeypatch, lambda store: AmbiguousStore(store, 1, "lost_reply"))
        assert olympia("ns", "create", "x", "--json").ok().json["version"] == 8


class TestStorage:
    def test_30_the_store_refuses_the_connection(self, run, config):
        config(
            '[away]\ncatalog = "s3://bucket/catalog"\n[away.storage]\n'
            'endpoint_url = "http://127.0.0.1:9"\nkey = "k"\nsecret = "hush"\nregion = "us-east-1"\n'
        )
        done = run("--profile", "away", "--timeout", "1s", "ns", "ls").failed(30, "127.0.0.1:9")
        assert "hush" not in done.stderr

    AS_NOBODY = """
import os, sys
from olympia_cli.cli.app import app, main
from typer.testing import CliRunner
import encodings.idna
folder = sys.argv[1]
# all modules are loaded before: another user may not see them
for warm in (["ns", "ls"], ["ns", "create", "sales", "--if-not-exists"]):
    CliRunner().invoke(app, ["-c", folder, *warm])
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.argv = ["olympia", "-c", *sys.argv[1:]]
sys.exit(main())
"""

    def test_31_no_permission(self, template):
        """In folders that cannot be written, and as an ordinary user, since root may do anything."""
        # not in pytest's own folder, which is closed to other users
        with tempfile.TemporaryDirectory(dir="/tmp") as outside:
            os.chmod(outside, 0o755)
            folder = Path(outside) / "catalog"
            shutil.copytree(template[0], folder)

            def as_nobody(*args: str) -> subprocess.CompletedProcess[str]:
                command = [sys.executable, "-c", self.AS_NOBODY, str(folder), *args]
                return subprocess.run(command, capture_output=True, text=True, cwd=outside)

            folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
            for path in folders:
                path.chmod(0o555)
            denied = as_nobody("ns", "create", "x")
            assert (denied.returncode, denied.stdout) == (31, ""), denied.stderr
            assert denied.stderr.startswith("error: ")
            assert "Traceback" not in denied.stderr
            assert as_nobody("ns", "ls").returncode == 0
            for path in folders:
                path.chmod(0o755)
            assert check_catalog(LocalStore(str(folder)))

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    @pytest.mark.parametrize("args", [["log"], ["--help"]])
    def test_30_the_output_cannot_be_written(self, args, sample):
        with open("/dev/full", "w") as full:
            command = [*command_line(), "-c", sample.uri, *args]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 30
        assert done.stderr.startswith("error: the output cannot be written: No space left")
        assert done.stderr.count("\n") == 1


class TestUnreadable:
    @pytest.mark.parametrize("content", [b"", b"garbage", b"ARROW1\0\0" * 50])
    def test_40_a_damaged_root(self, run, damageable, content):
        (damageable.folder / root_path(7)).write_bytes(content)
        for args in (["ns", "ls"], ["log"], ["status"], ["ns", "create", "x"], ["diff"]):
            done = run("-c", damageable.uri, *args, "--json")
            assert (done.exit_code, done.error["code"]) == (40, "Damaged"), args
            assert root_path(7) in done.error["message"]

    def test_40_a_damaged_root_in_the_past(self, run, damageable):
        (damageable.folder / root_path(3)).write_bytes(b"garbage")
        run("-c", damageable.uri, "ns", "ls").ok()
        run("-c", damageable.uri, "ns", "ls", "--at", "v3").failed(40, root_path(3))
        # the log goes on behind it
        lines = run("-c", damageable.uri, "log").ok().lines
        assert [line for line in lines if line.startswith("v3\t")] == [line for line in lines if "unreadable" in line]
        assert lines[-1].startswith("v0\t")

    @pytest.mark.parametrize("damage", ["cut", "gone"])
    def test_40_a_damaged_node(self, run, tmp_path, damage):
        folder = tmp_path / "tall"
        run("init", folder, "--order", "3").ok()
        lines = "".join(f'{{"do": "ns create", "name": "n{number:02}"}}\n' for number in range(20))
        run("-c", folder, "apply", "-", input=lines).ok()
        for node in (folder / "node").iterdir():
            node.write_bytes(node.read_bytes()[:100]) if damage == "cut" else node.unlink()
        for args in (["ns", "ls"], ["ns", "show", "n13"], ["status"], ["time-travel", "latest"]):
            done = run("-c", folder, *args)
            assert done.exit_code == 40, (args, done)
            assert "error: node/" in done.stderr
        assert run("-c", folder, "log", "-n", "1").ok().lines

    def test_40_a_definition_is_missing(self, run, damageable):
        shutil.rmtree(damageable.folder / "def" / "table")
        run("-c", damageable.uri, "table", "ls").ok()
        run("-c", damageable.uri, "table", "show", "sales.lines").failed(40, "def/table/")

    def test_40_a_link_that_leads_outside(self, run, damageable, tmp_path):
        (damageable.folder / "vn").rename(tmp_path / "elsewhere")
        (damageable.folder / "vn").symlink_to(tmp_path / "elsewhere")
        run("-c", damageable.uri, "ns", "ls").failed(40, "outside")

    def test_41_a_catalog_of_the_java_sdk_is_read_only(self, run, tmp_path):
        java_catalog.sample(tmp_path / "java")
        java = ["-c", tmp_path / "java"]
        assert run(*java, "ns", "ls").ok().lines == ["a", "ab", java_catalog.EMOJI]
        assert run(*java, "table", "ls", "--at", "v2", "-o", "name").ok().lines == ["a.t1", "a.t2"]
        assert run(*java, "log", "--json").ok().json["versions"][0]["version"] == 3
        assert run(*java, "status", "--json").json["read_only"] is True
        for args in (["ns", "create", "x"], ["rollback", "v1", "--yes"], ["compact"], ["txn", "begin"]):
            done = run(*java, *args, "--json")
            assert (done.exit_code, done.error["code"]) == (41, "Unsupported"), args
            assert "Java" in done.error["message"]

    @pytest.mark.parametrize("newer", [{"major_version": 9}, {"properties": {"olympia.required-features": "teleport"}}])
    def test_41_a_newer_format(self, run, damageable, newer):
        path = damageable.catalog.snapshot().root.catalog_def
        definition = definitions.decode(CatalogDef, (damageable.folder / path).read_bytes(), path)
        definition.ClearField("integrity")
        definition.MergeFrom(CatalogDef(**newer))
        (damageable.folder / path).write_bytes(definitions.encode(definitions.body(definition), path))
        for args in (["ns", "create", "x"], ["catalog", "show"]):
            run("-c", damageable.uri, *args).failed(41, "newer olympia")


class TestStatus:
    def test_0_a_catalog_that_was_never_checked(self, olympia):
        assert olympia("status").ok().stderr == ""

    def test_51_a_stale_transaction(self, olympia, sample):
        distributed.begin(Catalog(sample.store, FakeClock(wall=int(time.time() * 1000) - 4 * DAY)))
        done = olympia("status")
        assert (done.exit_code, done.stderr) == (
            51,
            "needs attention: 1 distributed transaction is past its lifetime\n",
        )
        assert olympia("status", "--json").json["needs_attention"]

    def test_51_a_hint_far_behind(self, run, damageable):
        add_versions(damageable.store, 150)
        (damageable.folder / LATEST).write_text("3")
        done = run("-c", damageable.uri, "status", "--json")
        assert (done.exit_code, done.json["hint_lag"], done.json["version"]) == (51, 154, 157)

    @pytest.mark.parametrize(("finished", "code"), [("2020-01-01T00:00:00Z", 51), ("2999-01-01T00:00:00Z", 0)])
    def test_51_expire_is_overdue(self, run, damageable, finished, code):
        (damageable.folder / "ops").mkdir()
        (damageable.folder / "ops" / "last-expire.json").write_text(json.dumps({"finished_at": finished}))
        done = run("-c", damageable.uri, "status")
        assert done.exit_code == code

    def test_51_fsck_is_overdue_by_policy(self, run, damageable):
        (damageable.folder / "ops").mkdir()
        record = {"finished_at": "2020-01-01T00:00:00Z", "damaged": False}
        (damageable.folder / "ops" / "last-fsck.json").write_text(json.dumps(record))
        run("-c", damageable.uri, "status").ok()
        run("-c", damageable.uri, "catalog", "alter", "--set", "olympia.fsck.max-age=7d").ok()
        assert run("-c", damageable.uri, "status").exit_code == 51

    def test_50_the_last_fsck_found_damage(self, run, damageable):
        (damageable.folder / "ops").mkdir()
        (damageable.folder / "ops" / "last-fsck.json").write_text(json.dumps({"damaged": True}))
        assert run("-c", damageable.uri, "status").exit_code == 50
        assert "olympia_damaged{" in run("-c", damageable.uri, "status", "--prometheus").stdout

    @pytest.mark.parametrize("record", ["", "[]", "{", "[" * 100_000])
    def test_a_record_that_cannot_be_read_is_none(self, run, damageable, record):
        (damageable.folder / "ops").mkdir()
        (damageable.folder / "ops" / "last-fsck.json").write_text(record)
        assert run("-c", damageable.uri, "status", "--json").ok().json["last_fsck"] is None

    def test_40_unreadable(self, run, damageable):
        (damageable.folder / root_path(7)).write_bytes(b"x")
        run("-c", damageable.uri, "status").failed(40)


def test_130_and_the_catalog_opens_afterwards(sample, tmp_path):
    """Ctrl-C in the middle of a long load; a second run ends what the first began."""
    lines = tmp_path / "many.jsonl"
    lines.write_text("".join(f'{{"do": "ns create", "name": "n{number:04}"}}\n' for number in range(400)))
    command = [*command_line(), "-c", sample.uri, "apply", str(lines), "--commit-every", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for _ in range(3):
        process.stderr.readline()
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    found = check_catalog(sample.store)
    assert 3 <= len(found) - 8 < 200
    done = subprocess.run([*command[:-1], "2", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["done_before"] == 2 * (len(found) - 8)
    names = [name.namespace for name in sample.catalog.snapshot().namespaces()]
    assert [name for name in names if name.startswith("n0")] == [f"n{number:04}" for number in range(400)]


def test_130_while_a_store_does_not_answer(tmp_path):
    """After Ctrl-C the program does not wait for pending requests."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        command = [*command_line(), "-c", "s3://bucket/catalog", "--timeout", "10m", "ns", "ls"]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1) == b"G"
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stderr) == (130, "interrupted\n")


class TestClosedPipe:
    def test_the_log_into_head(self, sample):
        # more than a pipe holds
        add = "".join(f'{{"do": "ns create", "name": "{number:0>95}"}}\n' for number in range(800))
        command = " ".join(f"'{word}'" for word in [*command_line(), "-c", sample.uri])
        subprocess.run(f"{command} apply -", shell=True, input=add, text=True, check=True, capture_output=True)
        for words in ("log", "ns ls", "ns ls --json", "diff v0", "time-travel latest"):
            script = f"{command} {words} | head -1; echo ${{PIPESTATUS[0]}}"
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
            assert done.stderr == "", words
            assert done.stdout.splitlines()[1:] == ["0"], words

    @pytest.mark.parametrize("args", [["--help"], ["ns", "--help"], ["log"], ["--version"]])
    def test_a_closed_stdout_is_no_error(self, args, sample):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([*command_line(), "-c", sample.uri, *args], stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")

    def test_a_closed_stderr_keeps_the_exit_code(self, sample):
        """A change is not given up because stderr is closed, and an error keeps its code."""
        for args, code in ((["rollback", "v2", "--yes"], 0), (["ns", "show", "nope"], 10), (["ns"], 2)):
            reading, writing = os.pipe()
            os.close(reading)
            done = subprocess.run([*command_line(), "-c", sample.uri, *args], stdout=subprocess.PIPE, stderr=writing)
            os.close(writing)
            assert done.returncode == code, args
        assert sample.catalog.snapshot().version == 8

    def test_streams_that_are_closed_from_the_start(self, sample):
        command = " ".join(f"'{word}'" for word in [sys.executable, "-c", MAIN, "-c", sample.uri])
        script = f"{command} ns create x >&- 2>&- <&-; echo $?; {command} apply - <&- 2>&1; echo $?"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert done.stdout.splitlines()[::2] == ["0", "0"], done.stdout
        check_catalog(sample.store)


def test_1_is_for_bugs_alone(run, sample, monkeypatch):
    """An unexpected error prints one line, and writes a file with the traceback, without the arguments' values."""

    class Broken(WrappedStore):
        def read_many(self, paths):
            raise ZeroDivisionError("who would have thought")

    wrap_store(monkeypatch, Broken)
    done = run("-c", sample.uri, "ns", "ls", "--at=v1").failed(1, "a bug: ZeroDivisionError: who would", "please send")
    [report] = Path(os.environ["TMPDIR"]).glob("olympia-bug-*.txt")
    assert str(report) in done.stderr
    text = report.read_text()
    assert "Traceback" in text
    assert "--at" in text
    assert "v1" not in text.splitlines()[0]
    report.unlink()
    run("-c", sample.uri, "ns", "ls", "--debug").failed(1, "who would have thought", "please send this traceback")
    assert not list(Path(os.environ["TMPDIR"]).glob("olympia-bug-*.txt"))


def test_debug_adds_a_traceback_and_changes_nothing_else(olympia):
    plain, debug = (olympia("ns", "show", "nope", *more).failed(10, "nope") for more in ([], ["--debug"]))
    assert plain.stderr.count("\n") == 1
    assert debug.stderr.startswith("Traceback (most recent call last):\n")
    assert debug.stderr.endswith(plain.stderr)
    *_, error = olympia("ns", "show", "nope", "--debug", "--json").stderr.splitlines()
    assert json.loads(error)["error"]["exit_code"] == 10


def test_the_sample_matches_its_docstring(sample: Sample, olympia: Run):
    assert olympia("time-travel", "latest", "--json").ok().json["version"] == 7
    assert olympia("txn", "show", sample.transaction, "--json").ok().json["state"] == "open"
