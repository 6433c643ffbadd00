"""Lost or empty roots of the last commits: facts from unreferenced nodes, and unknown facts.

A plan that names no losses loses nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import CommitConflict, Damaged
from olympia_cli.format.paths import LATEST, root_path
from olympia_cli.format.pb.actions_pb2 import RepairDef
from olympia_cli.names import Kind, ObjectName
from olympia_cli.ops.fsck import Level
from olympia_cli.ops.repair.advice import Places, advise
from olympia_cli.ops.repair.plan import RepairPlan
from olympia_cli.ops.repair.repair import apply_repair, plan_repair
from olympia_cli.ops.repair.salvage import plan_salvage
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import ALL, Between, FileInfo, Store
from tests.helpers.check import check_catalog, plain
from tests.helpers.clock import HOUR, FakeClock
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, select, table, view
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut, WrappedStore

pytestmark = pytest.mark.usefixtures("decoded_once")

AUTHOR = Author(by="mender@test")
Objects = dict[ObjectName, Any]


class Place:
    """A catalog in memory, and an hour between its commits."""

    def __init__(self, order: int = 8) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore("place", now_millis=self.clock.now_millis)
        Catalog.create(self.store, order=order, clock=self.clock)

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.store, self.clock)

    def commit(self, *statements: Callable[[Transaction], None]) -> int:
        self.clock.advance(HOUR)
        transaction = self.catalog.begin()
        for statement in statements:
            statement(transaction)
        return self.catalog.commit(transaction).version

    def lose(self, count: int, how: str) -> Objects:
        """Lose the roots of the last versions; what the last one held."""
        before, latest = objects(self.store), self.catalog.snapshot().version
        for version in range(latest - count + 1, latest + 1):
            if how == "missing":
                self.store.delete_many([root_path(version)])
            else:
                self.store.overwrite(root_path(version), b"")
        return before

    def mend(self) -> RepairPlan:
        made = plan_repair(self.store)
        apply_repair(self.store, self.clock, made, AUTHOR)
        versions = MemoryStore(files={path: file for path, file in self.store._files.items() if path[:4] != "dtxn"})
        check_catalog(versions, all_versions=False)
        assert plan_repair(self.store).nothing_to_do
        return made


def objects(store: Store) -> Objects:
    snapshot = Catalog(store).snapshot()
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    return {found.name: plain(found.definition) for kind in kinds for found in snapshot.objects(kind)}


def is_sure(made: RepairPlan) -> bool:
    return not any(step.lost_ranges or step.loses or step.reverts for step in made.steps)


@pytest.fixture
def place() -> Place:
    """Two namespaces and sixty tables, in a tree of three levels."""
    made = Place()
    made.commit(lambda t: t.create_namespace(ns("a")), lambda t: t.create_namespace(ns("b")))
    for part in range(6):
        made.commit(*(create(f"{'ab'[part % 2]}.t{part}{at}", at) for at in range(10)))
    return made


def create(name: str, at: int = 0) -> Callable[[Transaction], None]:
    return lambda t: t.create_table(table(name), location(at))


COMMITS: dict[str, tuple[Callable[[Transaction], None], ...]] = {
    "create": (create("a.new"),),
    "create at the end": (create("b.zz"),),
    "drop": (lambda t: t.drop_table(table("a.t05")),),
    "alter": (lambda t: t.alter_table(table("b.t33"), {"k": "v"}),),
    "move": (lambda t: t.alter_table(table("b.t33"), {}, (), location(99)),),
    "rename": (lambda t: t.rename_table(table("a.t05"), table("b.moved")),),
    "rename nearby": (lambda t: t.rename_table(table("a.t05"), table("a.t05x")),),
    "several": (create("a.n1"), create("b.n2"), lambda t: t.alter_table(table("a.t22"), {"k": "v"})),
    "namespace": (lambda t: t.create_namespace(ns("c")),),
    "view": (lambda t: t.create_view(view("a.v"), select()),),
    "restored": (lambda t: t.alter_namespace(ns("b"), {"owner": "ann"}),),
}


@pytest.mark.parametrize("how", ["missing", "empty"])
@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_is_brought_back(place: Place, commit: str, how: str) -> None:
    place.commit(*COMMITS[commit])
    before = place.lose(1, how)
    made = place.mend()
    assert is_sure(made)
    assert objects(place.store) == before
    assert place.catalog.snapshot().version == (8 if how == "missing" else 9)
    assert "what v8 left" in made.steps[0].text


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_several_commits_are_brought_back(place: Place, how: str) -> None:
    for commit in ("create", "alter", "move"):
        place.commit(*COMMITS[commit])
    before = place.lose(3, how)
    made = place.mend()
    assert is_sure(made)
    assert "from v7 and what v8 to v10 left" in made.steps[0].text
    assert objects(place.store) == before


def test_the_number_of_the_lost_version_is_kept(place: Place) -> None:
    for commit in ("create", "alter"):
        place.commit(*COMMITS[commit])
    place.lose(2, "missing")
    place.mend()
    assert place.store.read(LATEST) == b"8"
    [repair] = [action for action in place.catalog.snapshot().actions() if action.type_name == "CATALOG_REPAIR"]
    told = repair.parse_payload(RepairDef)
    assert told.named_latest == 9
    assert "it says 9, and the last root is that of version 7: versions 8 to 9 are lost" in told.description


def test_a_power_cut_at_any_write(place: Place) -> None:
    """The evidence stands until the version that has it."""
    place.commit(*COMMITS["several"])
    before = place.lose(1, "missing")
    files = {file.path: place.store.read(file.path) for file in place.store.list()}
    counting = CountingStore(MemoryStore(files={path: (data, 0) for path, data in files.items()}))
    apply_repair(counting, place.clock, plan_repair(counting), AUTHOR)
    for number in range(counting.writes):
        broken = MemoryStore(files={path: (data, 0) for path, data in files.items()})
        made = plan_repair(broken)
        with pytest.raises(PowerCut):
            apply_repair(CuttingStore(broken, number), place.clock, made, AUTHOR)
        assert broken.exists(root_path(8)) or broken.read(LATEST) == b"8"
        if broken.exists(root_path(8)):
            assert objects(broken) == before
            continue
        again = plan_repair(broken)
        apply_repair(broken, place.clock, again, AUTHOR)
        check_catalog(broken)
        # nodes of the repair that died exist too, and cannot be told from those of the lost commit
        assert objects(broken) == before or not is_sure(again)


def test_a_copy_of_an_older_root_in_its_place(place: Place) -> None:
    place.commit(*COMMITS["several"])
    before = objects(place.store)
    lost = place.store.read(root_path(8))
    place.store.overwrite(root_path(8), place.store.read(root_path(3)))
    made = place.mend()
    assert [step.kind for step in made.steps] == ["rebuild", "set aside"]
    assert is_sure(made)
    assert objects(place.store) == before
    assert place.store.read(root_path(8)) != lost
    assert [place.store.read(file.path) for file in place.store.list("ops/aside/")] == [place.store.read(root_path(3))]


def test_a_distributed_transaction_is_brought_back_by_its_running_root(place: Place) -> None:
    """Whatever else lies about: a copy of the root has all of it."""
    place.clock.advance(HOUR)
    committed = distributed.begin(place.catalog)
    committed.transaction.create_table(table("a.new"), location())
    committed.commit()
    leave_nodes(place, "b.other")
    before = place.lose(1, "missing")
    made = place.mend()
    assert objects(place.store) == before
    assert any("is a copy of its root" in detail for detail in made.steps[0].details)


# Unknown facts


def leave_nodes(place: Place, name: str) -> None:
    """Leave the files of a commit that lost the race: nodes and definitions, but no root."""
    place.clock.advance(HOUR)
    transaction = place.catalog.begin()
    transaction.create_table(table(name), location(7))
    transaction.alter_table(table("a.t01"), {"never": "committed"})
    # a node on each of two levels, twice, two definitions, and not the root
    transaction.base.store = CuttingStore(place.store, 6)
    with pytest.raises(PowerCut):
        place.catalog.commit(transaction)


def test_nodes_that_were_never_committed_are_not_taken_for_those_of_a_commit(place: Place) -> None:
    place.commit(*COMMITS["create"])
    version = place.catalog.snapshot().version
    leave_nodes(place, "b.other")
    assert place.catalog.snapshot().version == version
    before = place.lose(1, "missing")
    made = place.mend()
    assert not is_sure(made)
    after = objects(place.store)
    assert after[table("a.t01")] == before[table("a.t01")]
    # it is there, and said to be in doubt; so is what was never committed
    assert {table("a.new"), table("b.other")} == set(made.steps[0].doubtful)
    assert all(after[name] == definition for name, definition in before.items())


def test_saved_changes_of_a_transaction_are_not_a_commit(place: Place) -> None:
    place.commit(lambda t: t.alter_catalog({"team": "data"}))
    place.clock.advance(HOUR)
    going = distributed.begin(place.catalog)
    going.transaction.create_table(table("a.staged"), location())
    going.save()
    before = place.lose(1, "missing")
    made = place.mend()
    assert not is_sure(made), "a commit that changed no object left no node"
    assert objects(place.store) == before
    assert not made.steps[0].doubtful


def test_nodes_of_a_transaction_without_its_root_are_doubtful(place: Place) -> None:
    place.commit(lambda t: t.alter_catalog({"team": "data"}))
    place.clock.advance(HOUR)
    going = distributed.begin(place.catalog)
    going.transaction.create_table(table("a.staged"), location())
    going.save()
    before = place.lose(1, "missing")
    place.store.delete_many([going.saved.definition.running_root_node_file_path])
    made = place.mend()
    assert not is_sure(made)
    assert set(made.steps[0].doubtful) == {table("a.staged")}
    after = objects(place.store)
    assert all(after[name] == definition for name, definition in before.items())


@pytest.mark.parametrize("hint", [b"4711", b"60", b"9"])
def test_a_hint_that_is_garbage_is_recorded_and_changes_no_object(place: Place, hint: bytes) -> None:
    before = objects(place.store)
    going = distributed.begin(place.catalog)
    going.transaction.create_table(table("a.staged"), location())
    going.save()
    place.store.overwrite(LATEST, hint)
    made = place.mend()
    assert not is_sure(made)
    assert objects(place.store) == before
    [repair] = [action for action in place.catalog.snapshot().actions() if action.type_name == "CATALOG_REPAIR"]
    assert repair.parse_payload(RepairDef).named_latest == int(hint)


# Trees without nodes


@pytest.fixture
def small() -> Place:
    """All of it stands in the root."""
    made = Place(order=64)
    made.commit(lambda t: t.create_namespace(ns("a")), *(create(f"a.t{at}", at) for at in range(9)))
    return made


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_definitions_of_a_lost_commit_are_taken_and_doubtful(small: Place, how: str) -> None:
    small.commit(
        create("a.new-one", 1),
        lambda t: t.alter_table(table("a.t3"), {}, (), location(99)),
        lambda t: t.alter_table(table("a.t4"), {"k": "v"}),
    )
    before = small.lose(1, how)
    assert not plan_salvage(small.store, "x").complete
    made = small.mend()
    assert objects(small.store) == before
    assert set(made.steps[0].doubtful) == {table("a.new-one"), table("a.t3"), table("a.t4")}
    assert not is_sure(made)


def test_a_definition_from_a_failed_commit_is_not_restored(small: Place) -> None:
    """A writer began from metadata that another commit had replaced, and failed; then a root is lost."""
    slow = small.catalog.begin()
    slow.alter_table(table("a.t3"), {}, (), location(50))
    slow.alter_table(table("a.t4"), {"k": "slow"})
    small.commit(
        lambda t: t.alter_table(table("a.t3"), {}, (), location(60)), lambda t: t.alter_table(table("a.t4"), {"k": "v"})
    )
    with pytest.raises(CommitConflict):
        small.catalog.commit(slow)
    small.commit(create("a.new"))
    before = small.lose(1, "missing")
    made = small.mend()
    assert objects(small.store) == before
    assert set(made.steps[0].doubtful) == {table("a.new")}


def test_of_two_definitions_that_could_follow_none_is_taken(small: Place) -> None:
    for at in (50, 60):
        transaction = small.catalog.begin()
        transaction.alter_table(table("a.t3"), {}, (), location(at))
        transaction.base.store = CuttingStore(small.store, 1)
        with pytest.raises(PowerCut):
            small.catalog.commit(transaction)
    before = objects(small.store)
    small.commit(create("a.new"))
    small.lose(1, "missing")
    small.mend()
    assert objects(small.store)[table("a.t3")] == before[table("a.t3")]


# What others do about it


def test_no_commit_takes_the_name_of_a_version_that_is_lost(place: Place) -> None:
    going = distributed.begin(place.catalog)
    going.transaction.create_table(table("a.staged"), location())
    going.save()
    place.commit(*COMMITS["create"])
    place.lose(1, "missing")
    for commit in (lambda: place.commit(create("a.x")), lambda: distributed.load(place.catalog, going.id).commit()):
        with pytest.raises(Damaged) as refused:
            commit()
        assert (refused.value.code, refused.value.path) == ("F114", LATEST)
    assert place.store.read(LATEST) == b"8"
    place.mend()
    assert place.commit(create("a.x")) == 9
    assert {table("a.new"), table("a.x")} <= objects(place.store).keys()


class Lagging(WrappedStore):
    """A listing that does not show what was written last."""

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        hidden = {root_path(7), root_path(8)}
        return (file for file in super().list(prefix, temporary, between) if file.path not in hidden)


def test_a_listing_that_lags_is_no_lost_commit(place: Place) -> None:
    place.commit(*COMMITS["create"])
    report = fsck(Lagging(place.store), level=Level.FULL)
    assert report.findings == ()
    assert report.version == 8


def test_the_first_advice_claims_no_loss_only_when_certain(place: Place) -> None:
    place.commit(*COMMITS["several"])
    place.lose(1, "missing")
    report = fsck(place.store)
    assert [advice.loses for advice in advise(place.store, report, [], lambda: Places("x", {}))] == [0, 3]
    place.store.overwrite(LATEST, b"9")
    report = fsck(place.store)
    [first, *others] = advise(place.store, report, [], lambda: Places("x", {}))
    assert (first.words, first.loses) == (("fsck", "--repair"), None)
    assert [advice.words[:2] for advice in others] == [("fsck", "--salvage"), ("fsck", "--repair")]


# At random


def random_commit(numbers: random.Random, live: set[str], at: int) -> Iterator[Callable[[Transaction], None]]:
    for _ in range(numbers.choice((1, 1, 2, 5))):
        what = numbers.choice(("create", "create", "drop", "alter", "move", "rename"))
        name = numbers.choice(sorted(live)) if live else ""
        new = f"{numbers.choice('ab')}.{numbers.choice('rt')}{numbers.randrange(400):03}"
        if what == "create" or not name:
            if new not in live:
                live.add(new)
                yield create(new, at)
        elif what == "drop":
            live.discard(name)
            yield lambda t, name=name: t.drop_table(table(name))  # type: ignore[misc]
        elif what == "alter":
            yield lambda t, name=name: t.alter_table(table(name), {"k": str(at)})  # type: ignore[misc]
        elif what == "move":
            yield lambda t, name=name: t.alter_table(table(name), {}, (), location(at))  # type: ignore[misc]
        elif new not in live:
            live.discard(name)
            live.add(new)
            yield lambda t, name=name, new=new: t.rename_table(table(name), table(new))  # type: ignore[misc]


def test_random_lost_commits_are_restored_or_reported_as_uncertain() -> None:
    sure = 0
    for seed in range(25):
        numbers = random.Random(seed)
        place = Place(numbers.choice((8, 16)))
        place.commit(lambda t: t.create_namespace(ns("a")), lambda t: t.create_namespace(ns("b")))
        live: set[str] = set()
        for at in range(numbers.randrange(15, 30)):
            place.commit(*random_commit(numbers, live, at))
        count = numbers.choice((1, 1, 2, 3))
        before = place.lose(count, numbers.choice(("missing", "empty")))
        made = plan_repair(place.store)
        salvaged = plan_salvage(place.store, "x")
        apply_repair(place.store, place.clock, made, AUTHOR)
        report = fsck(place.store, level=Level.FULL)
        assert report.last_sound_version == report.version or made.unmended, seed
        if is_sure(made):
            assert objects(place.store) == before, seed
            sure += 1
        else:
            assert not salvaged.complete, seed
    assert sure > 7
