"""An undo of what rests in quarantine, when some of it is gone: what is whole comes back, and nothing else."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.retained import QuarantineMark, read_quarantine
from olympia_cli.errors import VersionNotFound
from olympia_cli.format.paths import parse_root_path, root_path
from olympia_cli.names import AtVersion
from olympia_cli.ops.expire import ExpirePlanner, Floors, mark, purge, read_manifest, read_policy, undo
from olympia_cli.ops.fsck import Finding, Level, acknowledge, plan_whole_undo
from olympia_cli.storage import memory
from olympia_cli.storage.memory import MemoryStore
from tests.cli.conftest import run_here
from tests.helpers.check import check_catalog, orphans
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.damage import FILE_DAMAGE, spoil
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut

pytestmark = pytest.mark.usefixtures("decoded_once")

FLOORS = Floors(0, 0, offline=True)
LAST = 9
BOUNDS = (3, 6)
"""Versions below 3 rest by one mark, those below 6 by another."""


class Place:
    """Table n is made by version n, and dropped by version n + 2. The last two versions are marks."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore("rest", now_millis=self.clock.now_millis)
        catalog = Catalog.create(self.store, order=4, clock=self.clock)
        self.definitions: dict[int, str] = {}
        """By version, one that this is the last to name."""
        for number in range(1, LAST + 1):
            self.clock.advance(HOUR)
            with catalog.transaction() as t:
                if number == 1:
                    t.create_namespace(ns("a"))
                t.create_table(table(f"a.t{number}"), location(number))
                if number > 2:
                    t.drop_table(table(f"a.t{number - 2}"))
            self.definitions[number + 1] = str(catalog.snapshot().find(table(f"a.t{number}")))
        for bound in BOUNDS:
            self.clock.advance(20 * DAY)
            planner = ExpirePlanner(catalog, FLOORS)
            policy = read_policy(
                planner.facts.definition,
                planner.facts.now_millis,
                keep_last=LAST + 1 - bound,
                older_than="0s",
                offline=True,
            )
            mark(catalog, planner.expire(policy).mark)
        assert tuple(mark.oldest for mark in self.marks) == BOUNDS

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.store, self.clock)

    @property
    def marks(self) -> list[QuarantineMark]:
        return read_quarantine(self.catalog.snapshot().definition)

    @property
    def oldest(self) -> int:
        return oldest_version(self.catalog.snapshot())

    def undo(self) -> list[Finding]:
        """Undo as the command does, and return the remaining errors. The catalog stays as sound as before."""
        plan, errors = plan_whole_undo(self.catalog.snapshot())
        undo(self.catalog, back_to=plan.oldest)
        self.check()
        assert self.oldest == plan.oldest
        return errors

    def check(self) -> None:
        check_catalog(self.store)
        report = fsck(self.store, level=Level.FULL, all_versions=True)
        assert not report.damaged, report.findings

    def purge(self) -> None:
        self.clock.advance(20 * DAY)
        planner = ExpirePlanner(self.catalog, FLOORS)
        plan = planner.purge()
        assert not plan.notes
        purge(self.catalog, plan, planner.facts.head.version, FLOORS)
        self.check()


@pytest.fixture
def place() -> Place:
    return Place()


def left(back_to: int) -> list[int]:
    """The bounds of the marks that still rest when history begins at a version."""
    return [min(bound, back_to) for before, bound in zip((0, *BOUNDS), BOUNDS, strict=False) if before < back_to]


def test_all_of_it_comes_back(place: Place) -> None:
    assert place.undo() == []
    assert (place.oldest, place.marks) == (0, [])


@pytest.mark.parametrize("gone", range(BOUNDS[-1]))
def test_an_undo_leaves_versions_before_a_missing_root(place: Place, gone: int) -> None:
    place.store.delete_many([root_path(gone)])
    [error] = place.undo()
    assert (error.code, error.path) == ("F101", root_path(gone))
    assert place.oldest == gone + 1
    assert [mark.oldest for mark in place.marks] == left(gone + 1)
    for mark_ in place.marks:
        named = read_manifest(place.store, mark_.manifest).files
        assert all((parse_root_path(file.path) or 0) < mark_.oldest for file in named)
    assert [again.path for again in place.undo()] == [error.path], "there is nothing more to bring back"


@pytest.mark.parametrize("how", FILE_DAMAGE)
@pytest.mark.parametrize("version", [2, 4])
def test_an_undo_leaves_damaged_versions_in_quarantine(place: Place, version: int, how: str) -> None:
    spoil(place.store, place.definitions[version], how)
    assert {error.path for error in place.undo()} == {place.definitions[version]}
    assert place.oldest == version + 1


def test_roots_that_were_swapped_stay_in_quarantine(place: Place) -> None:
    """Each is whole, and neither is what its name says."""
    one, other = (place.store.read(root_path(version)) for version in (1, 2))
    place.store.overwrite(root_path(1), other)
    place.store.overwrite(root_path(2), one)
    assert {error.code for error in place.undo()} == {"F104"}
    assert place.oldest == 3


def test_versions_left_in_quarantine_return_with_their_files(place: Place) -> None:
    root = place.store.read(root_path(1))
    place.store.delete_many([root_path(1)])
    place.undo()
    assert place.oldest == 2
    place.store.create(root_path(1), root)
    assert place.undo() == []
    assert (place.oldest, place.marks) == (0, [])
    assert place.catalog.snapshot(AtVersion(0)).version == 0


@pytest.mark.parametrize("gone", [0, 1, 2, 4])
def test_a_purge_after_an_undo_keeps_the_restored_versions(place: Place, gone: int) -> None:
    place.store.delete_many([root_path(gone)])
    place.undo()
    before = {version: place.store.read(root_path(version)) for version in range(gone + 1, LAST)}
    place.purge()
    assert place.oldest == gone + 1
    assert {version: place.store.read(root_path(version)) for version in before} == before
    with pytest.raises(VersionNotFound):
        place.catalog.snapshot(AtVersion(gone))
    for bound in (LAST, LAST):
        place.clock.advance(20 * DAY)
        planner = ExpirePlanner(place.catalog, FLOORS)
        policy = read_policy(
            planner.facts.definition, planner.facts.now_millis, keep_last=1, older_than="0s", offline=True
        )
        plan = planner.expire(policy)
        purge(place.catalog, plan.purge, plan.head, FLOORS)
        mark(place.catalog, plan.mark)
        place.check()
        assert place.oldest >= bound
    place.purge()
    assert not orphans(place.store)


def test_where_nothing_is_whole_nothing_comes_back(place: Place) -> None:
    place.store.delete_many([root_path(version) for version in range(BOUNDS[-1])])
    version = place.catalog.snapshot().version
    assert place.undo()
    assert (place.oldest, place.catalog.snapshot().version) == (BOUNDS[-1], version)
    assert len(place.marks) == 2


def test_an_undo_ignores_acknowledged_damage(place: Place) -> None:
    """The damage was acknowledged in history, and stays acknowledged when it is restored."""
    place.undo()
    spoil(place.store, place.definitions[2], "missing")
    report = fsck(place.store, level=Level.FULL, all_versions=True)
    acknowledge(place.catalog, [finding for finding in report.findings if finding.is_damage])
    planner = ExpirePlanner(place.catalog, FLOORS)
    policy = read_policy(planner.facts.definition, planner.facts.now_millis, keep_last=5, older_than="0s", offline=True)
    mark(place.catalog, planner.expire(policy).mark)
    assert place.oldest > 2
    plan, errors = plan_whole_undo(place.catalog.snapshot())
    assert (plan.oldest, errors) == (0, [])


def test_a_power_cut_at_any_write(place: Place) -> None:
    place.store.delete_many([root_path(1)])
    files = dict(place.store._files)
    counting = CountingStore(MemoryStore(files=dict(files), now_millis=place.clock.now_millis))
    undo(Catalog(counting, place.clock), back_to=2)
    for number in range(counting.writes):
        store = MemoryStore(files=dict(files), now_millis=place.clock.now_millis)
        with pytest.raises(PowerCut):
            undo(Catalog(CuttingStore(store, number), place.clock), back_to=2)
        place.store = store
        place.check()
        assert place.oldest in (2, BOUNDS[-1])
        place.undo()
        assert place.oldest == 2


def test_expire_undo_reports_versions_left_in_quarantine(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_shared", {"rest": place.store})
    place.store.delete_many([root_path(1)])
    spoil(place.store, place.definitions[4], "missing")
    told = run_here("-c", "memory://rest", "expire", "undo", "--dry-run", "--json")
    assert told.exit_code == 3
    assert (told.json["restored_versions"], told.json["left_versions"]) == ([5], [0, 1, 2, 3, 4])
    assert {problem["what"] for problem in told.json["problems"]} == {root_path(1), place.definitions[4]}
    done = run_here("-c", "memory://rest", "expire", "undo", "--yes")
    assert done.exit_code == 3
    assert "brought back v5" in done.stdout
    assert "leaves v0…v4 (5 versions) in quarantine" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("and then: olympia -c memory://rest expire undo")
    run_here("-c", "memory://rest", "fsck", "--level", "full", "--all-versions").ok()
    again = run_here("-c", "memory://rest", "expire", "undo", "--yes")
    assert (again.exit_code, "no version in quarantine is sound" in again.stdout) == (3, True)
