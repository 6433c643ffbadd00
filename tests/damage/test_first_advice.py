"""Damage of each kind, before and after an expire, an export, transactions and a repair. The first command that fsck
names is typed until it names none. Then all is there that the best of the program's other commands could have kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.distributed import Saved, saved_transactions
from olympia_cli.catalog.retained import find_export, read_exports
from olympia_cli.errors import OlympiaError
from olympia_cli.format.paths import LATEST, OLDEST, root_path
from olympia_cli.names import AtVersion, Kind, ObjectName
from olympia_cli.ops.expire import undo
from olympia_cli.ops.repair.repair import Prefer, apply_repair, plan_repair
from olympia_cli.ops.repair.salvage import salvage_catalog
from olympia_cli.storage import memory
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.cli.conftest import Ran, run_here
from tests.helpers.check import check_catalog, plain
from tests.helpers.damage import spoil
from tests.helpers.names import location, ns, select, table, view
from tests.helpers.places import quiet_environment

pytestmark = pytest.mark.usefixtures("decoded_once")

NAME = "advised"
URI = f"memory://{NAME}"
AUTHOR = Author(by="mender@test")
MOST_COMMANDS = 4
LAST = 7

Objects = dict[ObjectName, Any]
Files = dict[str, tuple[bytes, int]]


def olympia(*words: str) -> Ran:
    return run_here("-c", URI, *words)


def objects(store: Store, version: int | None = None) -> Objects:
    catalog = Catalog(store)
    snapshot = catalog.snapshot() if version is None else catalog.snapshot(AtVersion(version))
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    return {found.name: plain(found.definition) for kind in kinds for found in snapshot.objects(kind)}


def place(files: Files, beside: dict[str, Files] | None = None) -> MemoryStore:
    """Copies of the files where the commands look for them, and nothing else."""
    memory._shared.clear()
    memory._shared.update({name: MemoryStore(name, files=dict(found)) for name, found in (beside or {}).items()})
    memory._shared[NAME] = store = MemoryStore(NAME, files=dict(files))
    return store


# Scenes


def filled() -> MemoryStore:
    """Versions 0 to 7: tables come, change, go and move, in a tree of three levels."""
    store = place({})
    catalog = Catalog.create(store, order=4)
    with catalog.transaction("teams") as transaction:
        for name in "ab":
            transaction.create_namespace(ns(name), {"owner": "ann"})
    for number in range(2, LAST + 1):
        space, before = "ab"[number % 2], number - 2
        with catalog.transaction(f"load {number}") as transaction:
            for at in range(3):
                transaction.create_table(table(f"{space}.t{number}{at}"), location(number))
            if number > 4:
                transaction.alter_table(table(f"{space}.t{before}0"), {"by": str(number)})
                transaction.drop_table(table(f"{space}.t{before}1"))
            if number == 6:
                transaction.create_view(view("a.v"), select())
            if number == LAST:
                transaction.rename_table(table("a.t42"), table("b.moved"))
    return store


def one_more(store: Store) -> None:
    with Catalog(store).transaction("one more") as transaction:
        transaction.create_table(table("a.later"), location(8))


def marked() -> MemoryStore:
    store = filled()
    olympia("expire", "--keep-last", "3", "--older-than", "0s", "--grace", "0s", "--offline", "--yes").ok()
    one_more(store)
    return store


def purged() -> MemoryStore:
    store = marked()
    olympia("expire", "purge", "--offline", "--yes").ok()
    return store


def exported() -> MemoryStore:
    store = filled()
    olympia("export", "create", "full", "--dest", f"{URI}-full").ok()
    olympia("export", "create", "part", "--mode", "minimal", "--at", "v5", "--dest", f"{URI}-part").ok()
    one_more(store)
    return store


def transactions() -> MemoryStore:
    """The latest version is that of a distributed transaction, and another is open."""
    store = filled()
    done = distributed.begin(Catalog(store))
    done.transaction.create_table(table("a.committed"), location(8))
    done.save()
    done.commit()
    begun = distributed.begin(Catalog(store))
    begun.transaction.create_namespace(ns("staged"))
    begun.save()
    return store


def repaired() -> MemoryStore:
    store = filled()
    spoil(store, root_path(LAST), "empty")
    olympia("fsck", "--repair", "--yes").ok()
    one_more(store)
    return store


def in_a_root() -> MemoryStore:
    """All entries stand in roots."""
    store = place({})
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
    one_more(store)
    return store


def levels(store: Store, version: int) -> list[list[str]]:
    """The nodes of a version below its root, a level at a time, each in the order of its keys."""
    snapshot = Catalog(store).snapshot(AtVersion(version))
    found, level = [], [str(child) for child in snapshot.root.node.children]
    while level:
        found.append(level)
        level = [str(child) for node in snapshot.reader.nodes(level) for child in node.children]
    return found


@dataclass(frozen=True)
class Scene:
    files: Files
    beside: dict[str, Files]
    truth: Objects
    history: dict[int, Objects]
    paths: dict[str, str]
    """The path of each role's file."""


def roles(store: Store) -> Iterator[tuple[str, str]]:
    head = Catalog(store).snapshot()
    latest = head.version
    yield from (("root", root_path(latest)), ("root before", root_path(latest - 1)), ("hint", LATEST))
    yield from (("older root", root_path(max(latest - 3, 0))), ("first root", root_path(0)), ("oldest", OLDEST))
    yield "catalog", head.root.catalog_def
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW):
        for found in islice(head.objects(kind), 1):
            yield kind.word, str(head.find(found.name))
    now, before = levels(store, latest), levels(store, latest - 1)
    if len(now) == 2:
        yield from (("inner", now[0][0]), ("last inner", now[0][-1]), ("leaf", now[1][0]), ("last leaf", now[1][-1]))
        yield from (("new leaf", node) for node in now[1] if node not in before[1])
        yield from (("former leaf", node) for node in before[1] if node not in now[1])
    yield from (("manifest", file.path) for file in store.list("ops/expire/"))
    for saved in saved_transactions(store):
        if isinstance(saved, Saved) and saved.is_running:
            yield "running root", saved.definition.running_root_node_file_path
    for name in head.definition.exported_snapshots:
        if pin := find_export(name, head.definition).pin:
            yield "pin", pin


SCENES = (filled, marked, purged, exported, transactions, repaired, in_a_root)


@cache
def scene(make: Callable[[], MemoryStore]) -> Scene:
    store = make()
    beside = {name: dict(other._files) for name, other in memory._shared.items() if name != NAME}
    history = {}
    for version in range(Catalog(store).snapshot().version):
        with suppress(OlympiaError):
            history[version] = objects(store, version)
    return Scene(dict(store._files), beside, objects(store), history, dict(roles(store)))


# Damage: the scene, and what is done to which files

Damage = tuple[str, ...]

CASES: dict[Callable[[], MemoryStore], list[tuple[Damage, ...]]] = {
    filled: [
        (("zeros", "root"),),
        (("truncated", "root before"),),
        (("empty", "first root"),),
        (("exchanged", "root", "first root"),),
        (("exchanged", "root", "root before"),),
        (("copied", "root before", "root"),),
        (("zeros", "hint"),),
        (("empty", "hint"), ("empty", "root")),
        (("exchanged", "inner", "last inner"),),
        (("copied", "leaf", "last leaf"),),
        (("copied", "last inner", "leaf"),),
        (("missing", "leaf"), ("zeros", "last leaf")),
        (("flipped", "new leaf"), ("truncated", "root before")),
        (("empty", "inner"), ("missing", "former leaf")),
        (("zeros", "former leaf"),),
        (("truncated", "namespace"),),
        (("zeros", "table"),),
        (("missing", "view"),),
        (("copied", "table", "view"),),
        (("exchanged", "catalog", "table"),),
        (("missing", "root"), ("empty", "catalog")),
        (("empty", "root"), ("missing", "new leaf")),
    ],
    marked: [
        (("missing", "root"),),
        (("empty", "root"), ("missing", "hint")),
        (("copied", "root", "older root"), ("missing", "hint")),
        (("zeros", "oldest"),),
        (("missing", "manifest"),),
        (("truncated", "manifest"), ("flipped", "table")),
        (("missing", "first root"),),
        (("exchanged", "root", "older root"),),
        (("exchanged", "leaf", "inner"), ("missing", "table"), ("empty", "root before")),
    ],
    purged: [
        (("truncated", "root"),),
        (("missing", "namespace"),),
        (("empty", "table"), ("missing", "view")),
        (("zeros", "leaf"),),
        (("exchanged", "leaf", "last leaf"),),
        (("missing", "oldest"), ("missing", "hint")),
    ],
    exported: [
        (("missing", "root"),),
        (("flipped", "root"), ("missing", "leaf")),
        (("empty", "pin"), ("missing", "table")),
        (("zeros", "catalog"),),
    ],
    transactions: [
        (("missing", "root"),),
        (("empty", "root"),),
        (("missing", "running root"), ("missing", "root")),
        (("truncated", "last inner"),),
        (("exchanged", "root", "older root"), ("empty", "table")),
    ],
    repaired: [
        (("missing", "root"),),
        (("flipped", "view"), ("missing", "leaf")),
        (("copied", "root", "older root"),),
        (("empty", "root before"),),
        (("empty", "root"), ("empty", "former leaf")),
        (("copied", "root", "former leaf"), ("flipped", "last inner")),
        (("truncated", "root"), ("exchanged", "namespace", "former leaf"), ("flipped", "table")),
        (("exchanged", "last inner", "last leaf"), ("empty", "catalog")),
    ],
    in_a_root: [
        (("missing", "root"),),
        (("truncated", "root"),),
        (("exchanged", "root", "root before"),),
        (("missing", "table"), ("missing", "root before")),
        (("copied", "root", "root before"), ("missing", "hint")),
    ],
}


def do(store: Store, paths: dict[str, str], how: str, role: str, other: str = "") -> None:
    if how not in ("exchanged", "copied"):
        spoil(store, paths[role], how)
        return
    one, another = store.read(paths[role]), store.read(paths[other])
    store.overwrite(paths[role], another)
    if how == "exchanged":
        store.overwrite(paths[other], one)


# What is kept


class Kept(NamedTuple):
    """The more the better, the first first. `strangers` are objects that were not there."""

    objects: int = -1
    minus_strangers: int = 0
    versions: int = 0
    exports: int = 0


def kept(before: Scene, store: Store) -> Kept:
    try:
        now, definition = objects(store), Catalog(store).snapshot().definition
    except OlympiaError:
        return Kept()
    versions = 0
    for version, content in before.history.items():
        with suppress(OlympiaError):
            versions += objects(store, version) == content
    same = sum(now.get(name) == found for name, found in before.truth.items())
    return Kept(same, -len(now.keys() - before.truth.keys()), versions, len(read_exports(definition)))


def others(before: Scene, damaged: Files) -> Iterator[tuple[str, Kept]]:
    """Yield the objects that each other command of the program keeps."""

    def repair(prefer: Prefer) -> Callable[[MemoryStore], Store]:
        def run(store: MemoryStore) -> Store:
            apply_repair(store, Catalog(store).clock, plan_repair(store, prefer=prefer), AUTHOR)
            return store

        return run

    def roll_back(version: int) -> Callable[[MemoryStore], Store]:
        def run(store: MemoryStore) -> Store:
            with Catalog(store).transaction() as transaction:
                transaction.roll_back(version)
            return store

        return run

    def save(store: MemoryStore) -> Store:
        new = MemoryStore("new")
        salvage_catalog(store, new, Catalog(store).clock, AUTHOR)
        return new

    def bring_back(store: MemoryStore) -> Store:
        undo(Catalog(store))
        return store

    commands: dict[str, Callable[[MemoryStore], Store]] = {
        "nothing": lambda store: store,
        "salvage": save,
        "expire undo": bring_back,
        **{f"repair {prefer}": repair(prefer) for prefer in ("auto", "rebuild", "rollback")},  # type: ignore[arg-type]
        **{f"rollback {version}": roll_back(version) for version in sorted(before.history)[-4:]},
    }
    for name, command in commands.items():
        with suppress(OlympiaError):
            yield name, kept(before, command(place(damaged, before.beside)))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet_environment(monkeypatch)
    monkeypatch.setattr(memory, "_shared", {})


def named(value: Any) -> str:
    return value.__name__ if callable(value) else " and ".join(" ".join(words) for words in value)


@pytest.mark.parametrize(
    ("make", "damage"), [(make, damage) for make, cases in CASES.items() for damage in cases], ids=named
)
def test_no_other_command_keeps_more(make: Callable[[], MemoryStore], damage: tuple[Damage, ...]) -> None:
    before = scene(make)
    store = place(before.files, before.beside)
    for how, *files in damage:
        do(store, before.paths, how, *files)
    damaged = dict(store._files)
    losses = []
    while commands := olympia("fsck", "--level", "full", "--json").json["next"]:
        assert len(losses) < MOST_COMMANDS, commands
        first = commands[0]["command"]
        asks = {"--repair", "promote", "rollback"} & set(first)
        done = run_here(*first[1:], *(["--yes"] if asks else []))
        assert done.exit_code == 0 or (done.exit_code == 3 and "--salvage" in first), (first, done.stderr)
        losses.append(commands[0]["loses"])
    assert olympia("fsck", "--level", "full", "--json").exit_code == 0
    mended = memory._shared[NAME]
    after, now = kept(before, mended), objects(mended)
    transactions_apart = {path: file for path, file in mended._files.items() if not path.startswith("dtxn/")}
    check_catalog(MemoryStore(files=transactions_apart), all_versions=False)
    if None not in losses:
        gone = sum(now.get(name) != found for name, found in before.truth.items())
        assert gone + len(now.keys() - before.truth.keys()) <= sum(losses), "it loses more than it said"
    for name, other in others(before, damaged):
        assert after >= other, name
