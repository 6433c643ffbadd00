"""A version from a clock that was ahead: later versions are dated so too, and every command that can tell says so."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.names import parse_time
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Run
from tests.helpers.check import check_catalog
from tests.helpers.clock import DAY, HOUR, MINUTE, FakeClock
from tests.helpers.json_schema import check
from tests.helpers.names import ns


def now() -> int:
    return time.time_ns() // 1_000_000


def commit(folder: Path, name: str, clock: FakeClock, by: str) -> None:
    catalog = Catalog(LocalStore(folder, durable=False), clock)
    transaction = catalog.begin()
    transaction.create_namespace(ns(name))
    catalog.commit(transaction, by=by)


def catalog_ahead(folder: Path, millis: int) -> Path:
    """Version 2 was committed by a machine whose clock was so far ahead."""
    Catalog.create(LocalStore(folder, durable=False), author=Author("ann@home"))
    commit(folder, "right", FakeClock(now()), "ann@home")
    commit(folder, "wrong", FakeClock(now() + millis + 5 * MINUTE), "etl@node7")
    return folder


@pytest.fixture
def ahead(tmp_path: Path) -> Path:
    return catalog_ahead(tmp_path / "cat", 400 * DAY)


CULPRIT = "v2 by etl@node7 is dated "


def test_a_commit_says_that_it_is_dated_ahead(run: Run, ahead: Path):
    ran = run("-c", ahead, "ns", "create", "later").ok()
    [warning] = ran.stderr.splitlines()
    assert warning.startswith("warning: v3 is dated 400 days ahead of this machine's clock, since " + CULPRIT)
    assert warning.endswith(f"see olympia -c {ahead} status")
    run("-c", ahead, "ns", "create", "later", "-q").failed(11)
    assert run("-c", ahead, "ns", "create", "more", "--json").ok().stderr == ""
    assert run("-c", ahead, "ns", "create", "again", "-q").ok().stderr == warning.replace("v3 is", "v5 is") + "\n"


@pytest.mark.parametrize(
    "words",
    [
        ("compact",),
        ("rollback", "v1", "--yes"),
        ("revert", "v2", "--yes"),
        ("ns", "alter", "wrong", "--set", "a=b"),
        ("expire", "--yes", "--offline", "--keep-last", "1", "--older-than", "0s", "--grace", "0s"),
    ],
    ids=lambda words: words[0],
)
def test_each_kind_of_commit_says_it(run: Run, ahead: Path, words: tuple[str, ...]):
    before = Catalog(LocalStore(ahead)).snapshot().version
    ran = run("-c", ahead, *words).ok()
    committed = Catalog(LocalStore(ahead)).snapshot().version > before
    assert (CULPRIT in ran.stderr) is committed


def test_a_distributed_transaction_says_it(run: Run, ahead: Path):
    id = run("-c", ahead, "txn", "begin", "-o", "name").ok().stdout.strip()
    run("-c", ahead, "ns", "create", "later", "--txn", id).ok()
    assert CULPRIT in run("-c", ahead, "txn", "commit", id).ok().stderr


@pytest.mark.parametrize("millis", [-400 * DAY, 0, 20 * MINUTE])
def test_clocks_that_agree_are_nothing_to_say(run: Run, tmp_path: Path, millis: int):
    folder = catalog_ahead(tmp_path / "cat", millis)
    assert run("-c", folder, "ns", "create", "later").ok().stderr == ""
    assert "dated" not in run("-c", folder, "status").ok().stdout
    assert run("-c", folder, "fsck", "--all-versions", "--json").ok().json["findings"] == []


def test_status_says_it_and_the_way_out_works(run: Run, ahead: Path, tmp_path: Path):
    run("-c", ahead, "ns", "create", "later").ok()
    ran = run("-c", ahead, "status", "--json")
    check(ran.json, "status")
    assert ran.exit_code == 51
    [reason] = ran.json["reasons"]
    assert reason["text"].startswith(CULPRIT)
    assert "400 days ahead" in reason["text"]
    program, *words = reason["command"]
    assert (program, words[0], "NEW" in words) == ("olympia", "-c", True)
    screen = run("-c", ahead, "status").stdout
    assert f"\t{shlex.join(reason['command'])}" in screen
    # as printed, once there is the new catalog that it names
    run("init", "NEW").ok()
    run(*words).ok()
    run("-c", "NEW", "ns", "create", "newest").ok()
    made = run("-c", "NEW", "status", "--json").ok().json
    assert abs(parse_time(made["created_at"]) - now()) < HOUR
    names = {row["name"] for row in run("-c", "NEW", "ns", "ls", "--json").ok().json["namespaces"]}
    assert names == {"right", "wrong", "later", "newest"}
    check_catalog(LocalStore(tmp_path / "NEW"))


def test_a_day_is_waited_for(run: Run, tmp_path: Path):
    """If the time difference is over tomorrow, the advice is to wait, not to move the catalog."""
    folder = catalog_ahead(tmp_path / "cat", 5 * HOUR)
    [reason] = run("-c", folder, "status", "--json").json["reasons"]
    assert "5 hours ahead" in reason["text"]
    ran = run(*reason["command"][1:]).ok()
    assert ran.lines[0].startswith("v2\t")
    assert "etl@node7" in ran.stdout


def test_doctor_names_version_and_host_and_advises_a_command(run: Run, ahead: Path):
    run("-c", ahead, "fsck", "--level", "full", "--all-versions").ok()
    done = run("-c", ahead, "doctor", "--json")
    assert done.exit_code == 51
    assert done.json["next"]["why"].startswith(CULPRIT)
    assert "set that clock" in done.json["next"]["why"]
    assert "doctor" not in done.json["next"]["command"]
    run("init", "NEW").ok()
    run(*done.json["next"]["command"][1:]).ok()


@pytest.mark.parametrize("words", [(), ("--all-versions",), ("--level", "full"), ("--level", "hints")], ids=str)
def test_fsck_says_it(run: Run, ahead: Path, words: tuple[str, ...]):
    for name in ("later", "more"):
        run("-c", ahead, "ns", "create", name).ok()
    ran = run("-c", ahead, "fsck", *words, "--json").ok()
    [found] = [found for found in ran.json["findings"] if found["severity"] != "info"]
    assert (found["code"], found["severity"], found["versions"]) == ("F119", "warning", [2, 3, 4])
    assert found["message"].startswith(CULPRIT)
    assert not ran.json["damaged"]
    hint = shlex.split(found["hint"])
    run("init", "NEW").ok()
    run(*hint[1:]).ok()
    assert run("-c", "NEW", "fsck", "--all-versions", "--json").ok().json["findings"] == []


def test_a_local_clock_that_lags_is_reported_as_behind(run: Run, tmp_path: Path):
    """The store wrote the latest version in the future of this machine's clock: no version is wrong."""
    folder = catalog_ahead(tmp_path / "cat", 0)
    later = time.time() + 2 * 86_400
    root = max((folder / "vn").glob("[01]*"), key=lambda path: path.name[::-1])
    os.utime(root, (later, later))
    [reason] = run("-c", folder, "status", "--json").json["reasons"]
    assert "clock" in reason["text"]
    assert "behind" in reason["text"]
    done = run("-c", folder, "doctor", "--json")
    assert done.exit_code == 51
    assert json.dumps(done.json["next"]).count("doctor") == 0
