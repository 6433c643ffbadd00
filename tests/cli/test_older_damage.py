"""Damage in versions before the latest: what an error suggests finds it, what fsck suggests ends it, and an expire goes
on. Every command is typed as it is printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtVersion
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.protocol import Store
from tests.cli.conftest import Ran, run_here
from tests.cli.test_hints import suggested
from tests.helpers.clock import FakeClock
from tests.helpers.damage import spoil
from tests.helpers.names import location, ns, table

HIT, NEXT, LATEST = 3, 4, 5
DAMAGE = ["definition", "node", "root"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 a namespace with tables, 2 and 3 tables, 4 one of them altered and others dropped, 5 a namespace; years ago."""
    folder = tmp_path_factory.mktemp("older") / "catalog"
    catalog = Catalog.create(LocalStore(str(folder)), order=4, clock=FakeClock())
    with catalog.transaction() as t:
        t.create_namespace(ns("a"))
        for number in range(9):
            t.create_table(table(f"a.t{number}"), location(number))
    for version in (2, 3):
        with catalog.transaction() as t:
            t.create_table(table(f"a.new{version}"), location(version))
    with catalog.transaction() as t:
        t.alter_table(table("a.new3"), {"k": "v"})
    with catalog.transaction() as t:
        t.create_namespace(ns("b"))
    return folder


def lose(store: Store, what: str) -> str:
    """Something of version 3 that the latest does not need; its path."""
    old = Catalog(store).snapshot(AtVersion(HIT))
    path = root_path(HIT)
    if what == "definition":
        path = str(old.find(table("a.new3")))
    elif what == "node":
        mine, latest = ({str(child) for child in one.root.node.children} for one in (old, Catalog(store).snapshot()))
        [path] = mine - latest
    spoil(store, path, "truncated" if what == "root" else "missing")
    return path


@pytest.fixture
def place(made: Path, tmp_path: Path) -> str:
    shutil.copytree(made, tmp_path / "my catalog")
    return str(tmp_path / "my catalog")


def files(place: str) -> set[str]:
    return {file.path for file in LocalStore(place).list()}


COMMANDS = [
    ["table", "show", "a.new3", "--at", f"v{HIT}"],
    ["table", "ls", "-o", "wide", "--at", f"v{HIT}"],
    ["diff", f"v{HIT}", "latest"],
    ["revert", f"v{NEXT}", "--dry-run"],
    ["rollback", f"v{HIT}", "--dry-run"],
    ["rollback", f"v{HIT}", "--yes"],
    ["export", "create", "copy", "--dest", "copy", "--at", f"v{HIT}"],
    ["table", "restore", "a.new3", "--at", f"v{HIT}"],
    ["expire", "--keep-last", "4", "--dry-run"],
]


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: " ".join(args[:2]))
def test_the_command_that_an_error_advises_finds_the_damage(place, what, args, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = lose(LocalStore(place), what)
    failed = run_here("-c", place, *args)
    assert failed.exit_code == 40, failed
    words = suggested(failed.stderr)
    assert words[:3] == ["-c", place, "fsck"]
    found = run_here(*words, "--json")
    assert found.exit_code == 50, found
    assert path in [finding["path"] for finding in found.json["findings"] if finding["severity"] == "error"]


def test_damage_of_the_latest_version_advises_checking_that_version(place):
    store = LocalStore(place)
    spoil(store, str(Catalog(store).snapshot().find(table("a.new3"))), "missing")
    for args in (["table", "show", "a.new3"], ["table", "show", "a.new3", "--at", "latest"]):
        failed = run_here("-c", place, *args).failed(40)
        assert suggested(failed.stderr) == ["-c", place, "fsck", "--level", "full"]


@pytest.mark.parametrize("what", DAMAGE)
def test_expire_runs_once_the_damage_is_acknowledged(place, what):
    lose(LocalStore(place), what)
    stay = ["--keep-last", "4", "--older-than", "0s", "--grace", "0s", "--offline", "--yes"]

    def expire(*more: str) -> Ran:
        return run_here("-c", place, "expire", *stay, *more)

    failed = expire().failed(40, "once it is acknowledged")
    found = run_here(*suggested(failed.stderr), "--json")
    assert found.exit_code == 50
    [following] = found.json["next"]
    assert following["loses"] == 0
    run_here(*following["command"][1:], "--yes").ok()
    before = {path for path in files(place) if path.startswith(("node/", "def/"))}
    done = expire("--json").ok().json
    assert done["damaged_versions"] == [HIT]
    assert done["files"]["nodes"] == done["files"]["definitions"] == 0
    assert done["expired_versions"] == [0, 1, 2]
    run_here("-c", place, "expire", "purge", "--offline", "--yes").ok()
    assert before <= files(place)
    # once the damaged version is gone itself, so is what it alone may have reached
    gone = run_here("-c", place, "expire", "--keep-last", "1", *stay[2:], "--quarantine", "0s", "--json").ok().json
    assert gone["damaged_versions"] == []
    assert gone["files"]["nodes"] > 0
    run_here("-c", place, "expire", "purge", "--offline", "--yes").ok()
    assert not before <= files(place)
    last = run_here("-c", place, "fsck", "--level", "full", "--all-versions", "--json").ok().json
    assert [finding for finding in last["findings"] if finding["severity"] != "info"] == []
    run_here("-c", place, "status").ok()


def test_a_look_at_one_version_says_nothing_of_the_latest(place):
    """A repair mends damage that both versions have; the advice is followed until none is left."""
    store = LocalStore(place)
    spoil(store, str(Catalog(store).snapshot().find(table("a.t0"))), "missing")
    found = run_here("-c", place, "fsck", "--level", "full", "--at", f"v{HIT}", "--json")
    [following] = found.json["next"]
    assert following["command"][3:] == ["fsck", "--level", "full", "--all-versions"]
    assert "is sound" not in following["why"]
    seen = []
    while following and len(seen) < 5:
        words = [*following["command"][1:], *(["--yes"] if "--repair" in following["command"] else [])]
        done = run_here(*words, "--json")
        seen.append("--repair" in words)
        following = next(iter(done.json["next"]), None)
    assert seen[1], "the repair comes before any acknowledgement"
    assert run_here("-c", place, "fsck", "--level", "full").ok()


def test_table_history_skips_an_unreadable_version_with_a_warning(place):
    before = run_here("-c", place, "table", "history", "a.new3", "--json").ok().json["revisions"]
    path = lose(LocalStore(place), "definition")
    done = run_here("-c", place, "table", "history", "a.new3", "--json")
    after = done.ok().json["revisions"]
    assert [one["version"] for one in before] == [4, 3]
    assert [(one["version"], one["change"]) for one in after] == [(4, "created")]
    told = run_here("-c", place, "table", "history", "a.new3").ok().stderr
    assert told.startswith("warning: v3 cannot be read")
    assert path in told


def test_a_history_of_which_nothing_can_be_read_is_damage(place):
    store = LocalStore(place)
    spoil(store, str(Catalog(store).snapshot().find(table("a.t0"))), "missing")
    failed = run_here("-c", place, "table", "history", "a.t0").failed(40)
    assert run_here(*suggested(failed.stderr)).exit_code == 50


def test_errors_mention_that_damage_is_acknowledged(place):
    lose(LocalStore(place), "definition")
    run_here("-c", place, "fsck", "--level", "full", "--all-versions", "--acknowledge").ok()
    failed = run_here("-c", place, "table", "show", "a.new3", "--at", f"v{HIT}").failed(
        40, "this damage is acknowledged"
    )
    assert f"v{NEXT} " in run_here(*suggested(failed.stderr)).ok().stdout


@pytest.mark.parametrize(
    ("hit", "named"), [([3], "v3 is"), ([1, 2, 3], "v1…v3 are"), ([1, 3], "v1, v3 are")], ids=["one", "range", "list"]
)
def test_expire_names_all_damaged_versions_that_keep_files(place, hit, named):
    for version in hit:
        spoil(LocalStore(place), root_path(version), "truncated")
    run_here("-c", place, "fsck", "--level", "full", "--all-versions", "--acknowledge").ok()
    plan = run_here("-c", place, "expire", "--keep-last", "6", "--dry-run").ok()
    assert f"all nodes and definitions: {named} known to be damaged, and may need any of them" in plan.stderr


def test_advice_for_versions_in_quarantine_or_purged_works(place):
    """In quarantine they come back; after a purge the log says what there is."""
    words = ["--keep-last", "2", "--older-than", "0s", "--grace", "0s", "--offline", "--yes"]
    run_here("-c", place, "expire", *words).ok()
    resting = run_here("-c", place, "revert", f"v{NEXT}", "--dry-run").failed(10, "in quarantine")
    run_here(*suggested(resting.stderr), "--yes").ok()
    run_here("-c", place, "revert", f"v{NEXT}", "--dry-run").ok()
    run_here("-c", place, "expire", *words).ok()
    run_here("-c", place, "expire", "purge", "--offline", "--yes").ok()
    for command in (["table", "show", "a.t0", "--at", f"v{HIT}"], ["rollback", "v1"], ["revert", f"v{NEXT}"]):
        gone = run_here("-c", place, *command).failed(10, "does not exist any more")
        run_here(*suggested(gone.stderr)).ok()


def test_an_export_that_met_damage_names_the_version_when_it_goes_on(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = LocalStore(place)
    spoil(store, str(Catalog(store).snapshot().find(table("a.t0"))), "missing")
    run_here("-c", place, "export", "create", "e", "--dest", "out").failed(40)
    run_here("-c", place, "fsck", "--repair", "--yes").ok()
    going_on = run_here("-c", place, "export", "resume", "e", "--dest", "out").failed(40)
    assert run_here(*suggested(going_on.stderr)).exit_code == 50


def test_a_salvage_past_a_gap_has_all_of_the_newest_version_and_says_where_it_is(place):
    spoil(LocalStore(place), root_path(2), "missing")
    [following] = run_here("-c", place, "fsck", "--json").json["next"]
    done = run_here(*following["command"][1:]).ok()
    look, put_in_place = done.stderr.splitlines()[-2:]
    assert "verdict\tnever checked" in run_here(*suggested(look)).ok().stdout
    run_here(*suggested(put_in_place), "--yes").ok()
    assert "verdict\tsound" in run_here("-c", place, "status").ok().stdout
