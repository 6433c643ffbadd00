"""The next command is the product: on damaged copies of a catalog each that fsck names is typed as it stands, does what
it says, and the first one loses least."""

from __future__ import annotations

import shlex
import time
from typing import Any

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import LATEST, OLDEST, root_path
from olympia_cli.names import AtVersion, Kind, ObjectName
from olympia_cli.ops.fsck import Level
from olympia_cli.storage import memory
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.cli.conftest import Ran, Run
from tests.helpers.check import check_catalog, plain
from tests.helpers.clock import HOUR, SECOND, FakeClock
from tests.helpers.damage import rewrite_definition, spoil
from tests.helpers.fsck import fsck
from tests.helpers.json_schema import check
from tests.helpers.names import location, ns, table

LAST = 9
NAME = "night"
URI, SALVAGED = f"memory://{NAME}", f"memory://{NAME}-salvaged"
Files = dict[str, tuple[bytes, int]]
Objects = dict[ObjectName, Any]


@pytest.fixture(scope="module")
def whole() -> Files:
    """Versions 0 to 9: tables come, change and go, in a tree of three levels.

    The creation times of nodes tell lost commits apart, so no two commits are made in one millisecond.
    """
    clock = FakeClock(wall=int(time.time() * 1000) - HOUR)
    catalog = Catalog.create(MemoryStore(), order=4, clock=clock)
    with catalog.transaction("teams") as transaction:
        for name in ("a", "b"):
            transaction.create_namespace(ns(name))
    for number in range(2, LAST + 1):
        clock.advance(SECOND)
        with catalog.transaction(f"load {number}") as transaction:
            for at in range(4):
                transaction.create_table(table(f"{'ab'[number % 2]}.t{number}{at}"), location(number))
            if number > 4:
                transaction.alter_table(table(f"{'ab'[number % 2]}.t{number - 2}0"), {"by": str(number)})
                transaction.drop_table(table(f"{'ab'[number % 2]}.t{number - 2}1"))
    check_catalog(catalog.store)
    return catalog.store._files


def place(files: Files, patch: pytest.MonkeyPatch) -> MemoryStore:
    """A fresh copy where the commands look for it, and nothing beside it."""
    store = MemoryStore(NAME, files=dict(files))
    patch.setattr(memory, "_shared", {NAME: store})
    return store


def objects(store: Store) -> Objects:
    snapshot = Catalog(store).snapshot()
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    return {found.name: plain(found.definition) for kind in kinds for found in snapshot.objects(kind)}


def lost(before: Objects, after: Objects) -> int:
    """Return the number of objects that are missing or changed."""
    return sum(after.get(name) != definition for name, definition in before.items())


# Damage


def find(store: Store, name: ObjectName) -> str:
    return str(Catalog(store).snapshot().find(name))


def leaves(store: Store, version: int = LAST) -> list[str]:
    """In the order of their keys."""
    snapshot = Catalog(store).snapshot(AtVersion(version))
    level = [str(child) for child in snapshot.root.node.children]
    while not (nodes := list(snapshot.reader.nodes(level)))[0].is_leaf:
        level = [str(child) for node in nodes for child in node.children]
    return level


def definition_missing(store: Store) -> None:
    spoil(store, find(store, table("a.t22")), "missing")


def definition_flipped(store: Store) -> None:
    spoil(store, find(store, table("b.t92")), "flipped")


def namespace_missing(store: Store) -> None:
    spoil(store, find(store, ns("b")), "missing")


def node_truncated(store: Store) -> None:
    spoil(store, leaves(store)[0], "truncated")


def node_deleted(store: Store) -> None:
    spoil(store, leaves(store)[-1], "missing")


def nodes_swapped(store: Store) -> None:
    one, *_, other = leaves(store)
    first, second = store.read(one), store.read(other)
    store.overwrite(one, second)
    store.overwrite(other, first)


def inner_node_deleted(store: Store) -> None:
    spoil(store, str(Catalog(store).snapshot().root.node.children[0]), "missing")


def root_flipped(store: Store) -> None:
    spoil(store, root_path(LAST), "flipped")


def root_empty(store: Store) -> None:
    spoil(store, root_path(LAST), "empty")


def root_missing(store: Store) -> None:
    store.delete_many([root_path(LAST)])


def two_roots_missing(store: Store) -> None:
    store.delete_many([root_path(LAST), root_path(LAST - 1)])


def root_replaced(store: Store) -> None:
    """By that of an older version."""
    store.overwrite(root_path(LAST), store.read(root_path(3)))


def exchange(store: Store, *paths: str) -> None:
    """Each gets the content of the one before it."""
    contents = [store.read(path) for path in paths]
    for path, content in zip(paths, contents[-1:] + contents, strict=False):
        store.overwrite(path, content)


def roots_exchanged(store: Store) -> None:
    exchange(store, root_path(LAST), root_path(3))


def three_roots_exchanged(store: Store) -> None:
    exchange(store, root_path(LAST), root_path(3), root_path(6))


def node_exchanged_with_an_older_one(store: Store) -> None:
    """The older tree, which fills the hole, has another whole node in a place that its keys fit."""
    exchange(store, str(Catalog(store).snapshot().root.node.children[1]), leaves(store, 7)[4])


def node_copied_over_by_an_older_one(store: Store) -> None:
    store.overwrite(str(Catalog(store).snapshot().root.node.children[2]), store.read(leaves(store, 8)[8]))


def gap(store: Store) -> None:
    spoil(store, root_path(4), "missing")


def no_root_left(store: Store) -> None:
    store.delete_many([root_path(version) for version in range(LAST + 1)])


def stray_root(store: Store) -> None:
    store.create(root_path(LAST + 4), store.read(root_path(LAST - 2)))


def stray_root_next(store: Store) -> None:
    store.create(root_path(LAST + 1), store.read(root_path(LAST - 2)))


def hints_garbage(store: Store) -> None:
    store.overwrite(LATEST, b"4711")
    store.overwrite(OLDEST, b"junk")


def catalog_definition_lost(store: Store) -> None:
    spoil(store, Catalog(store).snapshot().root.catalog_def, "missing")


def root_of_the_past_empty(store: Store) -> None:
    spoil(store, root_path(3), "empty")


def root_of_the_past_and_hints(store: Store) -> None:
    root_of_the_past_empty(store)
    hints_garbage(store)


def ids_twice(store: Store) -> None:
    """Give two objects the same id. Only people can decide which of them stays."""
    id = Catalog(store).snapshot().table(table("a.t80")).id
    rewrite_definition(store, find(store, table("b.t90")), lambda found: setattr(found, "id", id))


def many_at_once(store: Store) -> None:
    definition_missing(store)
    node_truncated(store)
    hints_garbage(store)
    root_of_the_past_empty(store)


DAMAGE = [
    definition_missing,
    definition_flipped,
    namespace_missing,
    node_truncated,
    node_deleted,
    nodes_swapped,
    inner_node_deleted,
    root_flipped,
    root_empty,
    root_missing,
    two_roots_missing,
    root_replaced,
    roots_exchanged,
    three_roots_exchanged,
    node_exchanged_with_an_older_one,
    node_copied_over_by_an_older_one,
    gap,
    no_root_left,
    stray_root,
    stray_root_next,
    hints_garbage,
    catalog_definition_lost,
    root_of_the_past_empty,
    root_of_the_past_and_hints,
    ids_twice,
    many_at_once,
]


@pytest.fixture(params=DAMAGE, ids=lambda damage: damage.__name__)
def damaged(request: pytest.FixtureRequest, whole: Files, monkeypatch: pytest.MonkeyPatch) -> Files:
    """A damaged copy; it stands where the commands look for it."""
    store = place(whole, monkeypatch)
    request.param(store)
    return dict(store._files)


def typed(run: Run, command: list[str]) -> tuple[Ran, Store]:
    """Run it as it stands, with --yes where it asks; how it ended, and where the catalog is then."""
    assert command[:3] == ["olympia", "-c", URI]
    asks = {"--repair", "rollback", "promote"} & set(command)
    done = run(*command[1:], *(["--yes"] if asks else []))
    assert done.exit_code == 0 or ("--salvage" in command and done.exit_code == 3), done.stderr
    return done, memory._shared[f"{NAME}-salvaged" if "--salvage" in command else NAME]


@pytest.mark.parametrize("words", [[], ["--level", "full", "--all-versions"]], ids=["plain", "all"])
def test_advised_commands_lose_as_stated_and_the_first_least(run, whole, damaged, monkeypatch, words):
    before = objects(MemoryStore(files=dict(whole)))
    told = run("-c", URI, "fsck", *words, "--json").json
    check(told, "fsck")
    assert bool(told["next"]) == any(one["severity"] != "info" for one in told["findings"])
    losses = []
    for each in told["next"]:
        place(damaged, monkeypatch)
        _, store = typed(run, each["command"])
        losses.append(lost(before, objects(store)))
        assert each["loses"] in (None, losses[-1]), each
        check_catalog(store, all_versions=False)
        after = fsck(store, level=Level.FULL)
        assert after.last_sound_version == after.version
    assert not losses or losses[0] == min(losses), list(zip(losses, told["next"], strict=True))


def test_findings_and_the_report_say_the_same_command(run, damaged, tmp_path):
    words = ["-c", URI, "fsck", "--level", "full"]
    told = run(*words, "--report", tmp_path / "fsck.html", "--json").json
    lines = run(*words).stderr.splitlines()
    page = (tmp_path / "fsck.html").read_text()
    commands = [" ".join(each["command"]) for each in told["next"]]
    for command in commands:
        assert f'<code class="command">{command}</code>' in page
        assert any(f": {command}  (" in line for line in lines)
    hints = {one["hint"] for one in told["findings"]}
    mending = {hint for hint in hints if "--repair" in hint or "--salvage" in hint}
    assert mending <= set([command for command in commands if "--acknowledge" not in command][:1])
    assert not any("rollback" in hint for hint in hints) or "F305" in {one["code"] for one in told["findings"]}


@pytest.mark.parametrize("level", ["hints", "structure", "full"])
def test_fsck_never_prints_sound_together_with_a_repair_plan(run, damaged, level):
    done = run("-c", URI, "fsck", "--level", level, "--repair", "--dry-run")
    assert "SOUND" not in done.stdout or "plan:" not in done.stderr, done


def test_a_sound_catalog_is_planned_nothing_for(run, whole, monkeypatch):
    place(whole, monkeypatch)
    assert run("-c", URI, "fsck", "--json").ok().json["next"] == []
    assert run("-c", URI, "fsck").ok().stderr == ""


def test_of_two_objects_with_one_id_the_log_tells_which_one_to_drop(run, whole, monkeypatch):
    store = place(whole, monkeypatch)
    ids_twice(store)
    first, *others = run("-c", URI, "fsck", "--level", "full", "--json").json["next"]
    assert (first["command"][3:], first["loses"]) == (["table", "drop", "b.t90"], 1)
    assert [other["command"][3] for other in others] == ["rollback"]
    typed(run, first["command"])
    assert not run("-c", URI, "fsck", "--level", "full", "--json").json["damaged"]


def test_without_the_log_either_of_two_objects_with_one_id_can_be_dropped(run, whole, monkeypatch):
    store = place(whole, monkeypatch)
    run("-c", URI, "ns", "create", "last").ok()
    run("-c", URI, "expire", "--keep-last", "1", "--older-than", "0s", "--grace", "0s", "--offline", "--yes").ok()
    ids_twice(store)
    told = run("-c", URI, "fsck", "--level", "full", "--json").json["next"]
    drops = [(advice["command"][3:], advice["loses"]) for advice in told if advice["command"][3] == "table"]
    assert drops == [(["table", "drop", "a.t80"], None), (["table", "drop", "b.t90"], None)]
    typed(run, told[0]["command"])
    assert not run("-c", URI, "fsck", "--level", "full", "--json").json["damaged"]


def test_an_empty_place_is_chosen_for_a_new_catalog(run, whole, monkeypatch, tmp_path):
    gap(place(whole, monkeypatch))
    memory.shared(f"{NAME}-salvaged").create("mine.txt", b"mine")
    [command] = run("-c", URI, "fsck", "--json").json["next"]
    assert command["command"][-2:] == ["--salvage", f"{SALVAGED}-2"]
    assert (command["loses"], command["leaves_versions"]) == (0, LAST - 1), "v4 is missing, and v9 is what is written"
    assert run(*command["command"][1:]).exit_code == 0
    assert objects(memory.shared(f"{NAME}-salvaged-2")) == objects(MemoryStore(files=dict(whole)))


def test_fsck_after_a_finished_salvage_advises_promote(run, whole, monkeypatch):
    gap(place(whole, monkeypatch))
    [salvage] = run("-c", URI, "fsck", "--json").json["next"]
    told = run("-c", URI, "fsck")
    assert f"(loses no object, and leaves {LAST - 1} older versions behind)" in told.stderr
    done = run(*salvage["command"][1:]).ok()
    promote = done.stderr.splitlines()[-1].rpartition(": ")[2]
    assert promote == f"olympia -c {URI} promote {SALVAGED}"
    [command] = run("-c", URI, "fsck", "--json").json["next"]
    assert shlex.join(command["command"]) == promote
    assert (command["loses"], command["leaves_versions"]) == (0, 0)
    assert {one["hint"] for one in run("-c", URI, "fsck", "--json").json["findings"]} == {promote}
    typed(run, command["command"])
    told = run("-c", URI, "fsck", "--level", "full", "--all-versions", "--json").ok().json
    assert (told["damaged"], told["next"]) == (False, [])
    assert objects(memory._shared[NAME]) == objects(MemoryStore(files=dict(whole)))


def test_fsck_advises_another_salvage_after_a_later_commit(run, whole, monkeypatch):
    gap(place(whole, monkeypatch))
    run("-c", URI, "fsck", "--salvage", SALVAGED).ok()
    run("-c", URI, "ns", "create", "since").ok()
    [command] = run("-c", URI, "fsck", "--json").json["next"]
    assert command["command"][-2:] == ["--salvage", f"{SALVAGED}-2"]


def test_a_salvage_that_was_changed_since_says_what_it_loses(run, whole, monkeypatch):
    gap(place(whole, monkeypatch))
    run("-c", URI, "fsck", "--salvage", SALVAGED).ok()
    dropped = next(name for name in objects(memory._shared[f"{NAME}-salvaged"]) if name.kind is Kind.TABLE)
    run("-c", SALVAGED, "table", "drop", str(dropped)).ok()
    salvage, promote = run("-c", URI, "fsck", "--json").json["next"]
    assert (salvage["command"][-2:], salvage["loses"]) == (["--salvage", f"{SALVAGED}-2"], 0)
    assert (promote["command"][-2:], promote["loses"]) == (["promote", SALVAGED], 1)
    planned = run(*promote["command"][1:], "--dry-run", "--json").ok().json
    assert planned["loses"] == promote["loses"]


@pytest.mark.parametrize("how", ["missing", "flipped"])
def test_a_salvage_that_is_damaged_since_is_not_promoted(run, whole, monkeypatch, how):
    gap(place(whole, monkeypatch))
    run("-c", URI, "fsck", "--salvage", SALVAGED).ok()
    copy = memory._shared[f"{NAME}-salvaged"]
    spoil(copy, str(Catalog(copy).snapshot().root.node.children[0]), how)
    [salvage] = run("-c", URI, "fsck", "--json").json["next"]
    assert salvage["command"][-2:] == ["--salvage", f"{SALVAGED}-2"]


def test_a_salvage_of_another_catalog_at_this_place_is_not_promoted(run, whole, monkeypatch):
    gap(place(whole, monkeypatch))
    run("-c", URI, "fsck", "--salvage", SALVAGED).ok()
    copy = memory._shared[f"{NAME}-salvaged"]
    other = Catalog.create(MemoryStore(), order=4)
    for number in range(LAST):
        with other.transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
    monkeypatch.setattr(
        memory, "_shared", {NAME: MemoryStore(NAME, files=dict(other.store._files)), copy.uri[9:]: copy}
    )
    gap(memory._shared[NAME])
    [salvage] = run("-c", URI, "fsck", "--json").json["next"]
    assert salvage["command"][-2:] == ["--salvage", f"{SALVAGED}-2"]


def losses(run) -> list[tuple[str, int]]:
    """Each command's loss as it is printed, and the versions that history lacks."""
    printed = [line.rpartition("  (")[2][:-1] for line in run("-c", URI, "fsck").stderr.splitlines() if "  (" in line]
    return [(text, one["leaves_versions"]) for text, one in zip(printed, next_of(run), strict=True)]


def next_of(run) -> list[dict[str, Any]]:
    return run("-c", URI, "fsck", "--json").json["next"]


def test_of_several_lost_roots_only_the_last_comes_back(run, whole, monkeypatch):
    store = place(whole, monkeypatch)
    store.delete_many([root_path(LAST), root_path(LAST - 1)])
    (first, left), (other, others_left) = losses(run)
    assert (first, left) == ("loses no object and 1 version of history", 1)
    assert (other.endswith(" and 2 versions of history"), others_left) == (True, 2)
    plan = run("-c", URI, "fsck", "--repair", "--dry-run").stderr
    assert "only the last of 2 lost versions comes back, and their numbers are used again" in plan
    assert f"the log of v{LAST - 1} to v{LAST} is gone" in plan


def test_a_rollback_that_takes_back_a_drop_loses_something(run, whole, monkeypatch):
    store = place(whole, monkeypatch)
    with Catalog(store).transaction() as transaction:
        transaction.drop_table(table("b.t70"))
    store.delete_many([root_path(LAST + 1)])
    rollback = next(one for one in next_of(run) if "rollback" in one["command"])
    assert (rollback["loses"], rollback["leaves_versions"]) == (0, 1)
    assert rollback["why"].endswith(f"1 object is as v{LAST} has it; v{LAST + 1} is taken back")
    assert [text for text, _ in losses(run)] == ["loses nothing", "loses no object and 1 version of history"]


def test_a_place_with_a_space_is_quoted(run, whole, monkeypatch, tmp_path):
    store = LocalStore(tmp_path / "my catalog", durable=False)
    store.create_many({path: data for path, (data, _) in whole.items()})
    gap(store)
    [hint] = {one["hint"] for one in run("-c", tmp_path / "my catalog", "fsck", "--json").json["findings"]}
    assert run(*shlex.split(hint)[1:]).exit_code == 0
    assert objects(LocalStore(tmp_path / "my catalog-salvaged")) == objects(MemoryStore(files=dict(whole)))


def test_without_a_look_at_the_tree_nothing_is_claimed(run, whole, monkeypatch):
    root_empty(place(whole, monkeypatch))
    [command] = run("-c", URI, "fsck", "--level", "hints", "--json").json["next"]
    assert command["loses"] is None
    assert "--dry-run" in command["why"]
    typed(run, command["command"])


def test_repair_advises_acknowledging_damage_of_older_versions(run, whole, monkeypatch):
    many_at_once(place(whole, monkeypatch))
    [acknowledge] = run("-c", URI, "fsck", "--repair", "--yes", "--json").ok().json["next"]
    assert acknowledge["command"][3:] == ["fsck", "--level", "full", "--acknowledge"]
    typed(run, acknowledge["command"])
    told = run("-c", URI, "fsck", "--json").ok().json
    assert (told["damaged"], told["next"]) == (False, [])


def test_no_rollback_is_advised_where_a_transaction_alone_is_damaged(run, whole, monkeypatch):
    store = place(whole, monkeypatch)
    begun = distributed.begin(Catalog(store))
    begun.transaction.create_namespace(ns("staged"))
    begun.save()
    root_of_the_past_empty(store)
    for save in store.list("dtxn/"):
        spoil(store, save.path, "zeros")
    told = run("-c", URI, "fsck", "--level", "full", "--all-versions", "--acknowledge")
    assert (told.exit_code, "acknowledges" in told.stderr) == (50, True)
    assert f"txn abort {begun.id}" in told.stderr
    assert "rollback" not in told.stderr


def test_a_commit_below_a_stray_root_advises_a_repair(run, whole, monkeypatch):
    store = place(whole, monkeypatch)
    store.create(root_path(LAST + 2), store.read(root_path(LAST)))
    refused = run("-c", URI, "ns", "create", "x").failed(40, root_path(LAST + 2))
    words = shlex.split(refused.stderr.rpartition(": ")[2])
    assert words == ["olympia", "-c", URI, "fsck", "--repair"]
    run(*words[1:], "--yes").ok()
    run("-c", URI, "ns", "create", "x").ok()
    check_catalog(store)
