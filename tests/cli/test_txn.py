"""Distributed transactions: begun by one process, continued by others, committed by one of them."""

from __future__ import annotations

import json
import time

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from tests.helpers.clock import DAY, FakeClock
from tests.helpers.json_schema import check


def test_across_processes(program, sample):
    """Each command is a process of its own, as in a script."""

    def olympia(*args):
        return program("-c", sample.uri, *args).ok()

    id = olympia("txn", "begin", "-o", "name").stdout.strip()
    olympia("ns", "create", "x", "--txn", id)
    olympia("table", "register", "x.t", "--metadata-location", "s3://t", "--txn", id)
    assert "x" not in olympia("ns", "ls").lines
    assert "x" in olympia("ns", "ls", "--txn", id).lines
    done = json.loads(olympia("txn", "commit", id, "-m", "together", "--json").stdout)
    assert done["version"] == 8
    assert [one["type"] for one in done["actions"]] == ["NAMESPACE_CREATE", "TABLE_CREATE"]
    assert olympia("table", "ls", "x").lines == ["x\tt"]


class TestInside:
    @pytest.fixture
    def inside(self, olympia, sample):
        return lambda *args, **more: olympia(*args, "--txn", sample.transaction, **more)

    def test_every_change_is_visible_only_inside_the_transaction(self, olympia, inside, sample, tmp_path):
        (tmp_path / "plan").touch()
        inside("ns", "create", "x", "--property", "a=1").ok()
        inside("ns", "alter", "x", "--set", "b=2").ok()
        inside("table", "register", "x.t", "--metadata-location", "s3://t").ok()
        inside("table", "alter", "x.t", "--set", "k=v").ok()
        inside("table", "rename", "x.t", "x.u").ok()
        inside("view", "create", "x.v", "--plan", "plan").ok()
        inside("view", "alter", "x.v", "--set", "k=v").ok()
        inside("view", "replace", "x.v", "--plan", "plan").ok()
        inside("view", "rename", "x.v", "x.w").ok()
        inside("table", "drop", "sales.lines").ok()
        inside("table", "restore", "sales.lines", "--at", "v7").ok()
        inside("view", "drop", "sales.open").ok()
        inside("ns", "rename", "x", "y").ok()
        inside("ns", "drop", "a.b", "--cascade").ok()
        assert inside("table", "ls", "y").ok().lines == ["y\tu"]
        assert inside("view", "ls").ok().lines == ["y\tw"]
        assert inside("ns", "ls").ok().lines == ["sales", "smile😀", "staged", "y"]
        assert inside("ns", "show", "y", "--json").ok().json["properties"] == {"a": "1", "b": "2"}
        assert inside("table", "show", "y.u", "--json").ok().json["properties"] == {"k": "v"}
        inside("view", "show", "y.w").ok()
        inside("table", "show", "x.t").failed(10)
        assert olympia("log", "-n", "1", "-o", "name").ok().lines == ["v7"]
        olympia("ns", "show", "y").failed(10)
        shown = olympia("txn", "show", sample.transaction, "--json").ok().json
        assert shown["state"] == "open"
        assert len(shown["actions"]) >= 15
        assert olympia("txn", "commit", sample.transaction, "--json").ok().json["version"] == 8
        assert olympia("ns", "ls").ok().lines == ["sales", "smile😀", "staged", "y"]

    def test_a_transaction_reads_its_own_version_until_committed(self, olympia, inside, sample):
        olympia("ns", "create", "later").ok()
        assert "later" not in inside("ns", "ls").ok().lines
        assert inside("ns", "ls", "--json").ok().json["version"] == 7
        assert olympia("txn", "commit", sample.transaction, "--json").ok().json["version"] == 9

    def test_if_exists(self, inside):
        assert inside("ns", "create", "staged", "--if-not-exists", "--json").ok().json["actions"] == []
        inside("table", "drop", "sales.nope", "--if-exists").ok()
        inside("ns", "create", "staged").failed(11)

    def test_a_statement_that_fails_changes_nothing(self, olympia, inside, sample):
        before = olympia("txn", "show", sample.transaction, "--json").ok().json
        inside("ns", "drop", "nope").failed(10)
        assert olympia("txn", "show", sample.transaction, "--json").ok().json == before


def test_ls_and_show(olympia, sample):
    olympia("txn", "begin", "--isolation", "serializable").ok()
    rows = olympia("txn", "ls", "--json").ok().json["transactions"]
    assert {row["isolation"] for row in rows} == {"snapshot", "serializable"}
    assert [row["state"] for row in rows] == ["open", "open"]
    lines = olympia("txn", "show", sample.transaction).ok().lines
    assert lines[0] == f"id\t{sample.transaction}"
    assert lines[-1].strip() == "+ namespace staged"
    assert olympia("txn", "show", sample.transaction.upper(), "-o", "jsonl").ok().json["id"] == sample.transaction


def test_a_second_commit_returns_the_first_result(olympia, sample):
    first = olympia("txn", "commit", sample.transaction, "--json").ok().json
    olympia("ns", "create", "later").ok()
    assert olympia("txn", "commit", sample.transaction, "--json").ok().json == first
    shown = olympia("txn", "show", sample.transaction, "--json").ok().json
    assert (shown["state"], shown["committed_version"]) == ("committed", 8)


def test_abort(olympia, sample):
    dry = olympia("txn", "abort", sample.transaction, "--dry-run", "--json").ok()
    assert (dry.json["aborted"], dry.json["actions"]) == (False, 1)
    assert dry.stderr == "", "a program that asks for JSON gets documents only"
    dry = olympia("txn", "abort", sample.transaction, "--dry-run").ok()
    assert dry.stderr == f"transaction {sample.transaction} has 1 staged action\n"
    assert olympia("txn", "abort", sample.transaction, "--yes", "--json").ok().json["aborted"] is True
    assert olympia("txn", "ls", "--json").ok().json["transactions"][0]["state"] == "aborted"
    olympia("txn", "commit", sample.transaction).failed(12, "aborted")


class TestWhatIsLeft:
    """Files of a transaction are lost or damaged."""

    @pytest.fixture
    def unreadable(self, sample):
        for file in list(sample.store.list(f"dtxn/{sample.transaction}.")):
            sample.store.overwrite(file.path, b"")
        yield sample.transaction
        # what is over may be damaged: the rest of the catalog is sound
        sample.store.delete_many([file.path for file in sample.store.list(f"dtxn/{sample.transaction}.")])

    def test_one_that_cannot_be_read_is_listed(self, olympia, unreadable):
        other = olympia("txn", "begin", "-o", "name").ok().stdout.strip()
        listed = olympia("txn", "ls", "--json").ok().json
        check(listed, "txn-ls")
        rows = {row["id"]: row for row in listed["transactions"]}
        assert {id: row["state"] for id, row in rows.items()} == {unreadable: "unreadable", other: "open"}
        assert rows[unreadable].keys() == rows[other].keys()
        assert any("unreadable" in line for line in olympia("txn", "ls", "-o", "wide").ok().lines)
        for command in ("show", "commit"):
            olympia("txn", command, unreadable).failed(40, f"txn abort {unreadable}")

    def test_status_says_so(self, olympia, unreadable):
        done = olympia("status")
        assert (done.exit_code, done.stderr) == (51, "needs attention: 1 distributed transaction cannot be read\n")
        found = olympia("status", "--json").json
        check(found, "status")
        assert (found["unreadable_transactions"], found["open_transactions"]) == (1, 0)
        assert "olympia_unreadable_transactions{" in olympia("status", "--prometheus").stdout

    def test_one_that_cannot_be_read_can_be_aborted(self, olympia, unreadable):
        dry = olympia("txn", "abort", unreadable, "--dry-run").ok()
        assert dry.stderr == f"transaction {unreadable} has staged actions that cannot be loaded\n"
        assert olympia("txn", "ls", "--json").ok().json["transactions"][0]["state"] == "unreadable"
        done = olympia("txn", "abort", unreadable, "--yes", "--json").ok().json
        check(done, "txn-abort")
        assert (done["aborted"], done["actions"]) == (True, None)
        assert olympia("txn", "ls", "--json").ok().json["transactions"][0]["state"] == "aborted"
        olympia("status").ok()
        olympia("txn", "abort", unreadable, "--yes").failed(12, "aborted")

    def test_one_without_its_running_root_can_be_aborted(self, olympia, sample):
        saved = distributed.find(sample.store, sample.transaction)
        sample.store.delete_many([saved.definition.running_root_node_file_path])
        olympia("txn", "commit", sample.transaction).failed(40)
        assert olympia("txn", "abort", sample.transaction, "--yes", "--json").ok().json["aborted"] is True
        assert olympia("txn", "show", sample.transaction, "--json").ok().json["state"] == "aborted"

    def test_one_past_its_lifetime_can_be_aborted(self, olympia, sample):
        begun = distributed.begin(Catalog(sample.store, FakeClock(wall=int(time.time() * 1000) - 4 * DAY)))
        olympia("txn", "abort", begun.id, "--yes").ok()
        assert olympia("txn", "show", begun.id, "--json").ok().json["state"] == "aborted"
        olympia("status").ok()


def test_a_changed_read_fails_a_serializable_transaction(olympia):
    """A transaction cannot be committed after another commit changed an object that it read."""
    id = olympia("txn", "begin", "--isolation", "serializable", "-o", "name").ok().stdout.strip()
    assert olympia("table", "show", "sales.lines", "--txn", id, "--json").ok().json["properties"] == {"k": "v"}
    olympia("ns", "create", "because-k-is-v", "--txn", id).ok()
    olympia("table", "alter", "sales.lines", "--set", "k=w").ok()
    olympia("txn", "commit", id).failed(20)


def test_an_outdated_failure_fails_a_serializable_transaction(olympia):
    """Others take the cause away; that it failed is no longer true then."""
    id = olympia("txn", "begin", "--isolation", "serializable", "-o", "name").ok().stdout.strip()
    olympia("table", "drop", "sales.none", "--txn", id).failed(10)
    olympia("ns", "create", "because-there-is-none", "--txn", id).ok()
    olympia("table", "register", "sales.none", "--metadata-location", "s3://t").ok()
    olympia("txn", "commit", id).failed(20)
