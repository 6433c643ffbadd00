"""The next command is the product: on damaged copies of a catalog each that fsck names is typed as it stands, does what
it says, and the first one loses least."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import LATEST, OLDEST, root_path
from olympia_cli.names import Kind, ObjectName
from olympia_cli.ops.fsck.fsck import Level, fsck
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Ran, Run, run_here
from tests.helpers.check import check_catalog, plain
from tests.helpers.damage import flipped, rewrite_definition
from tests.helpers.json_schema import check
from tests.helpers.names import location, ns, table

LAST = 9
Objects = dict[ObjectName, Any]
Damage = Callable[[Path], None]


@dataclass(frozen=True)
class Damaged:
    """A damaged copy, kept as it is beside the place where commands are tried on it."""

    kept: Path
    folder: Path

    def again(self) -> Path:
        """A fresh copy at the place that the commands name."""
        for place in (self.folder, Path(f"{self.folder}-salvaged")):
            shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.kept, self.folder)
        return self.folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 0 to 9: tables come, change and go, in a tree of three levels."""
    folder = tmp_path_factory.mktemp("whole") / "catalog"
    catalog = Catalog.create(LocalStore(folder, durable=False), order=4)
    with catalog.transaction("teams") as transaction:
        for name in ("a", "b"):
            transaction.create_namespace(ns(name))
    for number in range(2, LAST + 1):
        with catalog.transaction(f"load {number}") as transaction:
            for at in range(4):
                transaction.create_table(table(f"{'ab'[number % 2]}.t{number}{at}"), location(number))
            if number > 4:
                transaction.alter_table(table(f"{'ab'[number % 2]}.t{number - 2}0"), {"by": str(number)})
                transaction.drop_table(table(f"{'ab'[number % 2]}.t{number - 2}1"))
    check_catalog(catalog.store)
    return folder


def objects(folder: Path) -> Objects:
    snapshot = Catalog(LocalStore(folder)).snapshot()
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    return {found.name: plain(found.definition) for kind in kinds for found in snapshot.objects(kind)}


def lost(before: Objects, after: Objects) -> int:
    """How many objects are gone, or other than they were."""
    return sum(after.get(name) != definition for name, definition in before.items())


# Damage


def path_of(folder: Path, name: str) -> Path:
    return folder / str(Catalog(LocalStore(folder)).snapshot().find(table(name)))


def some_leaves(folder: Path) -> list[Path]:
    """In the order of their keys."""
    snapshot = Catalog(LocalStore(folder)).snapshot()
    level = [str(child) for child in snapshot.root.node.children]
    while not (nodes := list(snapshot.reader.nodes(level)))[0].is_leaf:
        level = [str(child) for node in nodes for child in node.children]
    return [folder / path for path in level]


def definition_missing(folder: Path) -> None:
    path_of(folder, "a.t22").unlink()


def definition_flipped(folder: Path) -> None:
    path = path_of(folder, "b.t92")
    path.write_bytes(flipped(path.read_bytes()))


def namespace_missing(folder: Path) -> None:
    (folder / str(Catalog(LocalStore(folder)).snapshot().find(ns("b")))).unlink()


def node_truncated(folder: Path) -> None:
    node = some_leaves(folder)[0]
    node.write_bytes(node.read_bytes()[:700])


def node_deleted(folder: Path) -> None:
    some_leaves(folder)[-1].unlink()


def nodes_swapped(folder: Path) -> None:
    one, *_, other = some_leaves(folder)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def inner_node_deleted(folder: Path) -> None:
    root = Catalog(LocalStore(folder)).snapshot().root
    (folder / str(root.node.children[0])).unlink()


def root_flipped(folder: Path) -> None:
    path = folder / root_path(LAST)
    path.write_bytes(flipped(path.read_bytes(), len(path.read_bytes()) // 3))


def root_empty(folder: Path) -> None:
    (folder / root_path(LAST)).write_bytes(b"")


def gap(folder: Path) -> None:
    (folder / root_path(4)).unlink()


def no_root_left(folder: Path) -> None:
    for version in range(LAST + 1):
        (folder / root_path(version)).unlink()


def stray_root(folder: Path) -> None:
    shutil.copy(folder / root_path(LAST - 2), folder / root_path(LAST + 4))


def stray_root_next(folder: Path) -> None:
    shutil.copy(folder / root_path(LAST - 2), folder / root_path(LAST + 1))


def hints_garbage(folder: Path) -> None:
    (folder / LATEST).write_text("4711")
    (folder / OLDEST).write_text("junk")


def catalog_definition_lost(folder: Path) -> None:
    (folder / Catalog(LocalStore(folder)).snapshot().root.catalog_def).unlink()


def root_of_the_past_empty(folder: Path) -> None:
    (folder / root_path(3)).write_bytes(b"")


def ids_twice(folder: Path) -> None:
    """Nobody but people can say which of the two is to stay."""
    one, other = path_of(folder, "a.t80"), path_of(folder, "b.t90")
    store = LocalStore(folder)
    id = Catalog(store).snapshot().table(table("a.t80")).id
    assert one != other
    rewrite_definition(store, str(other.relative_to(folder)), lambda found: setattr(found, "id", id))


def many_at_once(folder: Path) -> None:
    definition_missing(folder)
    node_truncated(folder)
    hints_garbage(folder)
    root_of_the_past_empty(folder)


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
    gap,
    no_root_left,
    stray_root,
    stray_root_next,
    hints_garbage,
    catalog_definition_lost,
    root_of_the_past_empty,
    ids_twice,
    many_at_once,
]


@pytest.fixture(params=DAMAGE, ids=lambda damage: damage.__name__)
def damaged(request: pytest.FixtureRequest, whole: Path, tmp_path: Path) -> Damaged:
    shutil.copytree(whole, tmp_path / "kept")
    request.param(tmp_path / "kept")
    copy = Damaged(tmp_path / "kept", tmp_path / "catalog")
    copy.again()
    return copy


def typed(run: Run, command: list[str]) -> tuple[Ran, Path]:
    """Run it as it stands, with --yes where it asks; how it ended, and where the catalog is then."""
    assert command[:2] == ["olympia", "-c"]
    asks = "--repair" in command or "rollback" in command
    done = run(*command[1:], *(["--yes"] if asks else []))
    place = command[command.index("--salvage") + 1] if "--salvage" in command else command[2]
    return done, Path(place)


@pytest.mark.parametrize("words", [[], ["--level", "full"], ["--level", "full", "--all-versions"]], ids=" ".join)
def test_each_next_command_does_what_it_says_and_the_first_loses_least(run, whole, damaged, words):
    before = objects(whole)
    told = run("-c", damaged.folder, "fsck", *words, "--json")
    check(told.json, "fsck")
    commands = told.json["next"]
    warned = any(one["severity"] != "info" for one in told.json["findings"])
    assert bool(commands) == warned, told.stdout
    losses = []
    for each in commands:
        damaged.again()
        done, place = typed(run, each["command"])
        assert done.exit_code == 0 or ("--salvage" in each["command"] and done.exit_code == 3), done.stderr
        after = objects(place)
        losses.append(lost(before, after))
        if each["loses"] is not None:
            assert losses[-1] == each["loses"], each
        check_catalog(LocalStore(place), all_versions=False)
        assert not fsck(LocalStore(place), level=Level.HINTS).findings or "--salvage" not in each["command"]
        assert run("-c", place, "fsck", "--level", "full", "--json").json["last_sound_version"] is not None
    assert not losses or losses[0] == min(losses), list(zip(losses, commands, strict=True))


def test_findings_and_the_report_say_the_same_command(run, damaged, tmp_path):
    words = ["--level", "full", "--report", tmp_path / "fsck.html"]
    told = run("-c", damaged.folder, "fsck", *words, "--json").json
    lines = run("-c", damaged.folder, "fsck", "--level", "full")
    page = (tmp_path / "fsck.html").read_text()
    for each in told["next"]:
        line = " ".join(each["command"])
        assert line in page
        assert line in lines.stderr
    if told["next"]:
        best = " ".join(told["next"][0]["command"])
        hints = {one["hint"] for one in told["findings"] if "--repair" in one["hint"] or "--salvage" in one["hint"]}
        assert hints <= {best}
        assert lines.stderr.startswith(f"next: {best}  (")
    assert not any("rollback v0" in one["hint"] for one in told["findings"])


def test_a_repair_plan_never_stands_below_sound(run, damaged):
    for level in ("hints", "structure", "full"):
        done = run("-c", damaged.folder, "fsck", "--level", level, "--repair", "--dry-run")
        assert "SOUND" not in done.stdout or "plan:" not in done.stderr, done


def test_a_sound_catalog_is_planned_nothing_for(run, whole):
    done = run("-c", whole, "fsck", "--json").ok()
    assert done.json["next"] == []
    assert run("-c", whole, "fsck").ok().stderr == ""


def test_an_empty_place_is_chosen_for_a_new_catalog(run, whole, tmp_path):
    folder = tmp_path / "my catalog"
    shutil.copytree(whole, folder)
    gap(folder)
    taken = Path(f"{folder}-salvaged")
    taken.mkdir()
    (taken / "mine.txt").write_text("mine")
    [command] = run("-c", folder, "fsck", "--json").json["next"]
    assert command["command"][-2:] == ["--salvage", f"{folder}-salvaged-2"]
    done, place = typed(run, command["command"])
    assert done.exit_code == 3
    assert objects(place) == objects(whole)
    [hint] = {one["hint"] for one in run("-c", folder, "fsck", "--json").json["findings"]}
    assert hint.startswith("olympia -c '")
    assert hint.endswith("-salvaged-3'")


def test_without_time_to_plan_nothing_is_claimed(run, whole, tmp_path):
    folder = tmp_path / "catalog"
    shutil.copytree(whole, folder)
    root_empty(folder)
    [command] = run("-c", folder, "fsck", "--level", "hints", "--json").json["next"]
    assert command["loses"] is None
    assert "--dry-run" in command["why"]
    done, _ = typed(run, command["command"])
    assert done.exit_code == 0


def test_as_json_all_of_it_is_one_document(run, whole, tmp_path):
    folder = tmp_path / "catalog"
    shutil.copytree(whole, folder)
    many_at_once(folder)
    done = run("-c", folder, "fsck", "--repair", "--yes", "--json")
    assert json.loads(done.stdout)["next"][0]["command"][3:] == ["fsck", "--level", "full", "--acknowledge"]
    assert run_here("-c", folder, "fsck", "--level", "full", "--acknowledge", "--json").json["next"] == []
