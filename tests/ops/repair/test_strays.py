"""Stray roots: copies of older roots under the name of a later version are not taken for the latest version."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import CommitConflict, Damaged
from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.names import Kind
from olympia_cli.ops.expire import ExpirePlanner, Floors, expire_once, read_policy
from olympia_cli.ops.fsck import Level
from olympia_cli.ops.repair.repair import apply_repair, plan_repair
from olympia_cli.ops.repair.salvage import salvage_catalog
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers.check import check_catalog
from tests.helpers.clock import FakeClock
from tests.helpers.fsck import fsck
from tests.helpers.names import ns
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut

AUTHOR = Author(by="mender@test")
CLOCK = FakeClock()
LATEST = 8


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore("source")
    Catalog.create(store, clock=CLOCK)
    for number in range(LATEST):
        commit(store, f"n{number + 1}")
    return store


def commit(store: Store, name: str) -> int:
    catalog = Catalog(store, CLOCK)
    transaction = catalog.begin()
    transaction.create_namespace(ns(name))
    return catalog.commit(transaction).version


def stray(store: Store, at: int, of: int = LATEST) -> bytes:
    data = store.read(root_path(of))
    store.create(root_path(at), data)
    return data


def names(store: Store) -> list[str]:
    return [name.namespace for name, _ in Catalog(store).snapshot().scan(Kind.NAMESPACE)]


def numbered(last: int) -> list[str]:
    return sorted(f"n{number + 1}" for number in range(last))


@pytest.mark.parametrize(("at", "of"), [(12, 8), (12, 3), (12, 0), (9, 3), (9, 8)])
def test_it_is_set_aside_and_kept(store, at, of):
    data = stray(store, at, of)
    found = fsck(store, level=Level.FULL, all_versions=True)
    assert [(error.code, error.path, error.hint) for error in found.findings] == [
        ("F104", root_path(at), "fsck --repair")
    ]
    assert found.last_sound_version == LATEST
    plan = plan_repair(store)
    assert [step.kind for step in plan.steps] == ["set aside"]
    assert (plan.head, plan.loses) == (LATEST, ())
    assert apply_repair(store, CLOCK, plan, AUTHOR) is None
    [kept] = [file.path for file in store.list("ops/aside/")]
    assert store.read(kept) == data
    assert file_kind(kept) is FileKind.OPERATION
    assert names(store) == numbered(LATEST)
    check_catalog(store)
    assert fsck(store, level=Level.FULL, all_versions=True).findings == ()
    assert plan_repair(store).nothing_to_do
    assert commit(store, "n9") == 9


def test_no_expire_deletes_a_root_set_aside(store):
    stray(store, 12, 2)
    apply_repair(store, CLOCK, plan_repair(store), AUTHOR)
    [kept] = [file.path for file in store.list("ops/aside/")]
    for _ in range(2):
        planner = ExpirePlanner(Catalog(store, CLOCK), Floors(0, 0, offline=True))
        policy = read_policy(
            planner.facts.definition, planner.facts.now_millis, keep_last=1, older_than="0s", offline=True
        )
        plan = planner.expire(policy)
        assert plan.mark.unknown == 0
        expire_once(planner, plan)
    assert not store.exists(root_path(2)), "the version that it is a copy of is gone"
    assert store.exists(kept)
    check_catalog(store)


def test_several_are_set_aside(store):
    stray(store, 12)
    stray(store, 13, 9 - 1)
    stray(store, 20, 2)
    apply_repair(store, CLOCK, plan_repair(store), AUTHOR)
    assert len(list(store.list("ops/aside/"))) == 3
    check_catalog(store)


def test_it_is_no_version_that_other_damage_hits(store):
    stray(store, 12)
    store.create("node/00000000-0000-4000-8000-000000000000.arrow", b"an orphan, so that late versions are looked for")
    path = Catalog(store).snapshot().find(ns("n1"))
    store.delete_many([path])
    findings = fsck(store, level=Level.FULL, all_versions=True).findings
    assert [found.versions for found in findings if found.path == path] == [((1, LATEST),)]


def test_a_root_that_names_its_missing_predecessor_is_history(store):
    store.delete_many([root_path(5)])
    found = fsck(store)
    assert {error.code for error in found.findings} == {"F101"}
    assert found.version == LATEST


def test_commits_before_a_stray_root_survive_salvage_and_repair(store):
    stray(store, 12)
    assert commit(store, "n9") == 9
    dest = MemoryStore("dest")
    report = salvage_catalog(store, dest, CLOCK, AUTHOR)
    assert report.from_version == 9
    assert any("version 12" in note and "left out" in note for note in report.notes)
    assert names(dest) == numbered(9)
    apply_repair(store, CLOCK, plan_repair(store), AUTHOR)
    assert names(store) == numbered(9)
    check_catalog(store)


def test_no_commit_closes_the_gap(store):
    """From then on readers would take the copy for the latest version."""
    stray(store, 11)
    assert commit(store, "n9") == 9
    with pytest.raises(Damaged) as refused:
        commit(store, "n10")
    assert (refused.value.code, refused.value.exit_code) == ("F104", 40)
    assert "fsck --repair" in refused.value.hint
    assert names(store) == numbered(9)
    apply_repair(store, CLOCK, plan_repair(store), AUTHOR)
    for number in (10, 11, 12):
        assert commit(store, f"n{number}") == number
    assert names(store) == numbered(12)
    check_catalog(store)


def test_a_commit_that_lost_races_does_not_go_on_from_a_copy(store):
    catalog = Catalog(store, CLOCK)
    stray(store, 11)
    transactions = [catalog.begin() for _ in range(3)]
    for number, transaction in enumerate(transactions):
        transaction.create_namespace(ns(f"x{number}"))
    assert catalog.commit(transactions[0]).version == 9
    for transaction in transactions[1:]:
        # version 10 would close the gap
        with pytest.raises(Damaged) as refused:
            catalog.commit(transaction)
        assert refused.value.code == "F104"
    with pytest.raises(Damaged):
        catalog.begin()
    apply_repair(store, CLOCK, plan_repair(store), AUTHOR)
    assert names(store) == sorted([*numbered(LATEST), "x0"])
    assert commit(store, "x1") == 10
    check_catalog(store)


def test_a_commit_does_not_go_on_from_a_copy_that_took_its_name(store):
    catalog = Catalog(store, CLOCK)
    transaction = catalog.begin()
    transaction.create_namespace(ns("x"))
    stray(store, LATEST + 1)
    with pytest.raises(Damaged) as refused:
        catalog.commit(transaction)
    assert refused.value.code == "F104"


@pytest.mark.parametrize("hint", [None, b"0", b"3", b"junk"])
@pytest.mark.parametrize("at", [12, 16, 24])
def test_probes_that_leap_over_the_gap_come_back(store, hint, at):
    stray(store, at, 4)
    if hint is None:
        store.delete_many(["vn/latest"])
    else:
        store.overwrite("vn/latest", hint)
    assert Catalog(store).snapshot().version == LATEST
    assert names(store) == numbered(LATEST)


# Crashes, and others


def test_a_power_cut_at_any_write(store):
    data = stray(store, 12)
    store.overwrite("vn/latest", b"3")
    before = {file.path: store.read(file.path) for file in store.list()}
    counting = CountingStore(_copy(before))
    apply_repair(counting, CLOCK, plan_repair(counting), AUTHOR)
    assert counting.writes == 3, "the copy, the name that is freed, the hint"
    for number in range(counting.writes):
        broken = _copy(before)
        plan = plan_repair(broken)
        with pytest.raises(PowerCut):
            apply_repair(CuttingStore(broken, number), CLOCK, plan, AUTHOR)
        there = {file.path for file in broken.list()}
        kept = [path for path in there if path.startswith("ops/aside/")]
        assert root_path(12) in there or [broken.read(path) for path in kept] == [data]
        assert names(broken) == numbered(LATEST)
        apply_repair(broken, CLOCK, plan_repair(broken), AUTHOR)
        assert [broken.read(file.path) for file in broken.list("ops/aside/")] == [data]
        check_catalog(broken)


def test_a_repair_keeps_a_version_committed_since_its_plan(store):
    """Another repair was first, and writers have reached the number since."""
    stray(store, 9, 3)
    mine, others = plan_repair(store), plan_repair(store)
    apply_repair(store, CLOCK, others, AUTHOR)
    commit(store, "n9")
    with pytest.raises(CommitConflict):
        apply_repair(store, CLOCK, mine, AUTHOR)
    assert names(store) == numbered(9)
    check_catalog(store)


def test_two_repairs_at_once(store):
    stray(store, 12)
    mine, others = plan_repair(store), plan_repair(store)
    apply_repair(store, CLOCK, others, AUTHOR)
    apply_repair(store, CLOCK, mine, AUTHOR)
    assert len(list(store.list("ops/aside/"))) == 1
    check_catalog(store)


def _copy(files: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    store.create_many(files)
    return store
