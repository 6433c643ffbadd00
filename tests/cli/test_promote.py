"""`olympia promote`: what it says before it does anything, what it prints, and the way through a bad night with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import LATEST, root_path
from olympia_cli.storage.local import LocalStore
from tests.helpers.check import check_catalog
from tests.helpers.damage import spoil
from tests.helpers.json_schema import check
from tests.helpers.names import location, ns, table

LAST = 6


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Versions 0 to 6: v1 has a namespace, and v2 to v6 a table each."""
    folder = tmp_path / "lake"
    catalog = Catalog.create(LocalStore(folder, durable=False))
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    for number in range(2, LAST + 1):
        with catalog.transaction() as transaction:
            transaction.create_table(table(f"a.t{number}"), location(number))
    return folder


def lose_roots(folder: Path, *versions: int) -> None:
    LocalStore(folder).delete_many([root_path(version) for version in versions])


def names(run, folder: Path) -> list[str]:
    return [found["name"] for found in run("-c", folder, "table", "ls", "--json").ok().json["tables"]]


def test_advice_leads_from_lost_roots_to_a_sound_catalog(run, lake):
    """Each command is typed as the one before it says."""
    lose_roots(lake, 3, 4)
    run("-c", lake, "ns", "create", "b").ok()
    for _ in range(2):
        told = run("-c", lake, "fsck", "--json").json
        assert told["damaged"]
        words = told["next"][0]["command"][1:]
        run(*words, *(["--yes"] if "promote" in words else [])).ok()
    assert run("-c", lake, "fsck", "--all-versions").ok().stdout.splitlines()[-1].startswith("SOUND")
    assert names(run, lake) == [f"t{number}" for number in range(2, LAST + 1)]
    assert run("-c", lake, "ns", "show", "b").ok()
    assert names_at(run, lake, "v2") == ["t2"], "the former catalog can be read by number"
    check_catalog(LocalStore(lake), all_versions=False)


def names_at(run, folder: Path, version: str) -> list[str]:
    return [found["name"] for found in run("-c", folder, "table", "ls", "--at", version, "--json").ok().json["tables"]]


def test_the_plan_comes_first(run, lake, tmp_path):
    run("-c", lake, "export", "create", "x", "--dest", tmp_path / "copy").ok()
    run("-c", lake, "table", "register", "a.since", "--metadata-location", "s3://x/1").ok()
    lose_roots(lake, 3, 4)
    before = sorted(path for path in lake.rglob("*"))
    asked = run("-c", lake, "promote", tmp_path / "copy").failed(12, "--yes", "--dry-run")
    looked = run("-c", lake, "promote", tmp_path / "copy", "--dry-run").ok()
    assert before == sorted(path for path in lake.rglob("*"))
    plan = looked.stderr.splitlines()
    assert plan == [
        f"plan: v6 of {tmp_path}/copy becomes v9 of {lake}: 6 objects",
        "  - table a.since",
        "lose    1 object that can be read here: missing or different in the copy",
        "copy    0 definitions, 0 bytes; the nodes are rewritten",
        "close   the lost roots of v3…v4: readers stop there, and writers could commit",
        "keep    v0…v8 (9 versions) aside, readable by number, until promote --forget",
        "keep    the record of 1 export: x",
        "leave   the older versions of the copy where they are: they are not copied",
        f"to do it: olympia -c {lake} promote {tmp_path}/copy",
    ]
    assert asked.stderr.splitlines()[:-1] == plan[:-1]
    assert looked.stdout == f"v9  would promote v6 of {tmp_path}/copy\n"


def test_as_json(run, lake, tmp_path):
    run("-c", lake, "fsck", "--salvage", tmp_path / "copy").ok()
    run("-c", tmp_path / "copy", "table", "register", "a.since", "--metadata-location", "s3://x/1").ok()
    lose_roots(lake, 3, 4, 6)
    planned = run("-c", lake, "promote", tmp_path / "copy", "--dry-run", "--json").ok().json
    check(planned, "promote")
    assert (planned["version"], planned["latest"], planned["in_place"]) == (6, None, False)
    assert (planned["lost_versions"], planned["passed_versions"]) == ([3, 4], [7])
    assert planned["kept_aside"] == {"first": 0, "last": 5}
    assert [(change["namespace"], change["name"]) for change in planned["changes"]] == [("a", "since")]
    done = run("-c", lake, "promote", tmp_path / "copy", "--yes", "--json", "-m", "disk 3").ok().json
    assert done == {**planned, "dry_run": False, "latest": 7}
    again = run("-c", lake, "promote", tmp_path / "copy", "--json").ok().json
    check(again, "promote")
    assert (again["in_place"], again["version"], again["latest"]) == (True, 6, 7)
    [entry] = run("-c", lake, "log", "--since", "v6", "--until", "v6", "--json").ok().json["versions"]
    assert (entry["message"], entry["actions"][0]["type"]) == ("disk 3", "CATALOG_REPAIR")
    assert entry["actions"][0]["detail"]["source"] == f"{tmp_path}/copy"
    assert entry["actions"][0]["detail"]["source_version"] == 1


def test_forget(run, lake, tmp_path):
    run("-c", lake, "fsck", "--salvage", tmp_path / "copy").ok()
    none = run("-c", lake, "promote", "--forget", "--json").ok().json
    check(none, "promote-forget")
    assert none["expired_versions"] == []
    run("-c", lake, "promote", tmp_path / "copy", "--yes").ok()
    assert "promote --forget" in run("-c", lake, "expire", "--offline", "--keep-last", "1", "--dry-run").ok().stderr
    run("-c", lake, "promote", "--forget", "--yes").failed(12, "--offline")
    run("-c", lake, "promote", "--forget", "--offline").failed(12, "--yes")
    planned = run("-c", lake, "promote", "--forget", "--offline", "--dry-run", "--json").ok().json
    done = run("-c", lake, "promote", "--forget", "--offline", "--yes", "--json").ok().json
    check(done, "promote-forget")
    assert planned == {**done, "dry_run": True, "version": LAST + 1}
    assert (done["oldest"], done["expired_versions"]) == (LAST + 1, list(range(LAST + 1)))
    run("-c", lake, "table", "ls", "--at", "v2").failed(10, "expire undo")
    run("-c", lake, "expire", "undo", "--yes").ok()
    assert names_at(run, lake, "v2") == ["t2"]


def test_a_rebuilt_copy(run, lake, tmp_path):
    """The tree and all roots are gone, and `rebuild` made a catalog of definitions, under an id of its own."""
    store = LocalStore(lake)
    id = Catalog(store).snapshot().definition.id
    store.delete_many([file.path for folder in ("vn/", "node/") for file in store.list(folder) if file.path != LATEST])
    run("rebuild", lake, "-c", tmp_path / "new").ok()
    run("-c", lake, "promote", tmp_path / "new", "--yes").ok()
    assert names(run, lake) == [f"t{number}" for number in range(2, LAST + 1)]
    snapshot = Catalog(store).snapshot()
    assert (snapshot.version, snapshot.definition.id) == (LAST + 1, id)
    run("-c", lake, "fsck", "--level", "full", "--all-versions").ok()


def test_a_copy_that_holds_data_of_its_own_must_stay(run, lake, tmp_path):
    copy = tmp_path / "my copy"
    run("-c", lake, "fsck", "--salvage", copy).ok()
    own = f"{copy}/data/own/v1.json"
    run("-c", copy, "table", "register", "a.own", "--metadata-location", own).ok()
    told = run("-c", lake, "promote", copy, "--dry-run").ok()
    assert f"1 table or view has its files in {copy}, so do not delete it" in told.stderr
    run("-c", copy, "table", "register", "a.encoded", "--metadata-location", Path(own).as_uri()).ok()
    run("-c", copy, "table", "register", "a.beside", "--metadata-location", f"{copy}-2/v1.json").ok()
    assert run("-c", lake, "promote", copy, "--dry-run", "--json").ok().json["stays_in_copy"] == 2


def test_a_copy_that_is_not_whole_is_refused(run, lake, tmp_path):
    copy = tmp_path / "copy"
    run("-c", lake, "fsck", "--salvage", copy).ok()
    store = LocalStore(copy)
    spoil(store, str(Catalog(store).snapshot().find(table("a.t3"))), "flipped")
    run("-c", lake, "promote", copy, "--yes").failed(40, "is not sound", f"olympia -c {copy} fsck")
    assert Catalog(LocalStore(lake)).snapshot().version == LAST


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--forget"),
        (["copy", "--forget"], "leave out the copy"),
        (["copy", "--offline"], "add --forget"),
        (["lake"], "is the catalog itself"),
        (["lake/inside"], "lies inside the catalog"),
    ],
)
def test_promote_refuses_invalid_arguments(run, lake, words, said):
    run("-c", lake, "promote", *words).failed(2, said)


def test_promote_of_a_missing_copy_fails(run, lake, tmp_path):
    run("-c", lake, "promote", tmp_path / "nowhere").failed(10, "name a copy of this one")


# The damaged catalog takes commits


def test_a_commit_says_that_fsck_found_damage(run, lake, tmp_path):
    lose_roots(lake, 3, 4)
    assert run("-c", lake, "ns", "create", "b").ok().stderr == "", "nobody has looked"
    run("-c", lake, "fsck")
    warned = run("-c", lake, "ns", "create", "c").ok()
    assert warned.stderr.startswith("warning: fsck found damage in this catalog (20")
    assert warned.stderr.endswith(f": see olympia -c {lake} fsck\n")
    assert run("-c", lake, "ns", "create", "d", "--quiet").ok().stderr == ""
    assert run("-c", lake, "ns", "create", "e", "--json").ok().stderr == ""
    run("-c", lake, "fsck", "--salvage", tmp_path / "copy").ok()
    run("-c", lake, "promote", tmp_path / "copy", "--yes").ok()
    assert run("-c", lake, "ns", "create", "f").ok().stderr == "", "fsck has looked again"


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"runs": 3}', b'{"runs": [3, null]}', b"[" * 5000])
def test_a_note_that_is_garbage_warns_of_nothing(run, lake, note):
    LocalStore(lake).overwrite("ops/last-fsck.json", note)
    assert run("-c", lake, "ns", "create", "b").ok().stderr == ""


def test_damage_in_a_version_that_was_looked_at_by_number_warns_of_nothing(run, lake):
    run_of_old = {"damaged": True, "latest": False, "version": 2, "finished_at": "2026-01-01T00:00:00.000Z"}
    LocalStore(lake).overwrite("ops/last-fsck.json", json.dumps({**run_of_old, "runs": [run_of_old]}).encode())
    assert run("-c", lake, "ns", "create", "b").ok().stderr == ""
