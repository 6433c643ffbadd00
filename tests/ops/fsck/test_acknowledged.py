"""Damage of the past that is known: it is told, and raises no alarm; anything else does."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.properties import ACKNOWLEDGED
from olympia_cli.catalog.retained import read_acknowledged
from olympia_cli.errors import InvalidOption
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import AtVersion
from olympia_cli.ops.fsck import Level, Report, acknowledge, of_the_past
from olympia_cli.ops.repair.advice import Places, advise
from olympia_cli.ops.repair.repair import apply_repair, plan_repair
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import FakeClock
from tests.helpers.damage import FILE_DAMAGE, set_property, spoil
from tests.helpers.expire import mark, purge
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table

CLOCK = FakeClock()
LATEST = 6


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore("past")
    catalog = Catalog.create(store, order=4, clock=CLOCK)
    for number in range(LATEST):
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
            transaction.create_table(table(f"n{number}.t"), location(number))
    return store


def everything(store: MemoryStore) -> Report:
    return fsck(store, level=Level.FULL, all_versions=True, clock=CLOCK)


def note(store: MemoryStore, report: Report | None = None) -> int | None:
    report = everything(store) if report is None else report
    past = [found for found in report.findings if of_the_past(found, report.latest, report.oldest)]
    return acknowledge(Catalog(store, CLOCK), past)


def errors(report: Report) -> list[tuple[str, str, bool]]:
    return [(found.code, found.path, found.acknowledged) for found in report.findings if found.severity == "error"]


def test_acknowledged_damage_is_reported_but_does_not_count(store):
    store.overwrite(root_path(3), b"")
    assert everything(store).damaged
    assert note(store) == LATEST + 1
    for report in (everything(store), fsck(store), fsck(store, level=Level.HINTS)):
        assert not report.damaged
        assert errors(report) == [("F202", root_path(3), True)]
    [alter, info] = Catalog(store).snapshot().actions()
    assert (alter.type, info.type) == (ActionType.CATALOG_ALTER, ActionType.COMMIT_INFO)
    assert note(store) is None, "it is known already"


def test_other_damage_of_other_versions_counts(store):
    store.overwrite(root_path(3), b"")
    note(store)
    store.overwrite(root_path(4), b"")
    report = everything(store)
    assert report.damaged
    assert errors(report) == [("F202", root_path(4), False), ("F202", root_path(3), True)]
    note(store, report)
    assert not everything(store).damaged
    assert len(read_acknowledged(Catalog(store).snapshot().definition)) == 2


def test_other_damage_of_the_same_file_counts(store):
    store.overwrite(root_path(3), b"")
    note(store)
    store.overwrite(root_path(3), b"junk")
    assert errors(everything(store)) == [("F203", root_path(3), False)]


def test_the_same_damage_that_hits_more_versions_counts(store):
    path = Catalog(store).snapshot().find(table("n0.t"))
    with Catalog(store, CLOCK).transaction() as transaction:
        transaction.drop_table(table("n0.t"))
    data = store.read(path)
    store.delete_many([path])
    assert [found.versions for found in everything(store).findings if found.code == "F301"] == [((1, LATEST),)]
    note(store)
    assert not everything(store).damaged
    # a rollback to a version that has it would bring it back, and is refused; so it comes back with its file
    store.create(path, data)
    with Catalog(store, CLOCK).transaction() as transaction:
        transaction.roll_back(LATEST)
    with Catalog(store, CLOCK).transaction() as transaction:
        transaction.drop_table(table("n0.t"))
    store.delete_many([path])
    report = everything(store)
    assert [(found.versions, found.acknowledged) for found in report.findings if found.code == "F301"] == [
        (((1, LATEST), (LATEST + 3, LATEST + 3)), False)
    ]
    assert report.damaged


def test_damage_of_the_latest_version_cannot_be_acknowledged(store):
    store.delete_many([Catalog(store).snapshot().find(table("n1.t"))])
    assert note(store) is None
    assert everything(store).damaged


def test_history_that_has_a_gap_cannot_be_acknowledged(store):
    store.delete_many([root_path(3)])
    assert note(store) is None
    assert everything(store).damaged


def test_that_the_oldest_versions_are_missing_can_be(store):
    store.delete_many([root_path(0), root_path(1)])
    assert everything(store).damaged
    assert note(store) is not None
    assert not everything(store).damaged


def test_a_rollback_keeps_acknowledged_damage(store):
    store.overwrite(root_path(3), b"")
    note(store)
    with Catalog(store, CLOCK).transaction() as transaction:
        transaction.roll_back(2)
    assert not everything(store).damaged


def test_acknowledged_damage_is_forgotten_only_after_a_purge(store):
    def known() -> set[str]:
        return {path for _, path in read_acknowledged(Catalog(store).snapshot().definition)}

    store.overwrite(root_path(1), b"")
    store.overwrite(root_path(4), b"")
    note(store)
    mark(Catalog(store, CLOCK), 3)
    store.overwrite(root_path(5), b"")
    note(store)
    assert known() == {root_path(1), root_path(4), root_path(5)}
    purge(Catalog(store, CLOCK), 3)
    store.overwrite(root_path(6), b"")
    note(store)
    assert known() == {root_path(4), root_path(5), root_path(6)}


@pytest.mark.parametrize(
    "value",
    [
        "", "junk", "{}", "[1]", '[{"code":1}]', "[" * 10_000, '[{"code":"F202","path":3}]',
        '[{"code":"F202","path":"x","versions":[[1e999,2]]}]', '[{"code":"F202","path":"x","versions":[[NaN,2]]}]',
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_read_hides_nothing(store, value):
    store.overwrite(root_path(3), b"")
    set_property(store, Catalog(store).snapshot().root.catalog_def, ACKNOWLEDGED, value)
    assert errors(everything(store)) == [("F202", root_path(3), False)]


def test_the_acknowledged_property_cannot_be_set_by_hand(store):
    transaction = Catalog(store, CLOCK).begin()
    with pytest.raises(InvalidOption, match="kept by the program"):
        transaction.alter_catalog({ACKNOWLEDGED: "[]"})


# What a repair answers


def mend(store: MemoryStore) -> int:
    version = apply_repair(store, CLOCK, plan_repair(store), Author(by="mender@test"))
    assert version is not None
    return version


def told(report: Report) -> list[tuple[str, str, int | None]]:
    """Return the severity, the file and the answering repair of each damage."""
    bad = [found for found in report.findings if found.severity != "info"]
    return [(str(found.severity), found.path, found.mended_in) for found in bad]


@pytest.mark.parametrize("how", FILE_DAMAGE[:-1])
@pytest.mark.parametrize("level", list(Level)[:3])
def test_repaired_damage_is_a_warning_for_the_latest_version(store, level, how):
    spoil(store, root_path(LATEST), how)
    before = {found.code for found in fsck(store, level=level).findings if found.versions == ((LATEST, LATEST),)}
    assert mend(store) == LATEST + 1
    for _ in range(2):
        report = fsck(store, level=level)
        assert not report.damaged
        # what is wrong with its log alone is no fault of the chain
        assert {found.code for found in report.findings} <= before
        assert set(told(report)) <= {("warning", root_path(LATEST), LATEST + 1)}
        whole = everything(store)
        assert whole.damaged
        assert all(severity == "error" and mended is None for severity, _, mended in told(whole))
        with Catalog(store, CLOCK).transaction() as transaction:
            transaction.create_namespace(ns(f"after{transaction.base.version}"))
    note(store)
    assert not everything(store).damaged
    assert [found.acknowledged for found in fsck(store, level=level).findings] == [True] * len(fsck(store).findings)


def test_a_root_before_it_that_nothing_answers_is_an_error(store):
    """Damaged before the repair, but not what it was about; and damaged since."""
    store.overwrite(root_path(2), b"")
    store.overwrite(root_path(LATEST), b"")
    mend(store)
    store.overwrite(root_path(LATEST - 1), b"")
    report = fsck(store)
    assert report.damaged
    assert set(told(report)) == {
        ("error", root_path(2), None),
        ("error", root_path(LATEST - 1), None),
        ("warning", root_path(LATEST), LATEST + 1),
    }


def test_all_roots_that_a_repair_answers(store):
    for version in (LATEST, LATEST - 1, LATEST - 2):
        store.overwrite(root_path(version), b"")
    mend(store)
    report = fsck(store)
    assert not report.damaged
    assert {mended for _, _, mended in told(report)} == {LATEST + 1}
    assert len(report.findings) == 3


def test_a_look_at_that_version_calls_it_damaged(store):
    store.overwrite(root_path(LATEST), b"")
    mend(store)
    assert fsck(store, at=AtVersion(LATEST)).damaged


def test_the_advice_after_a_repair_is_to_acknowledge(store):
    store.overwrite(root_path(LATEST), b"")
    mend(store)
    [following] = advise(store, fsck(store), [], lambda: Places("x", {}))
    assert (following.words, following.loses) == (("fsck", "--all-versions", "--acknowledge"), 0)
    note(store)
    assert advise(store, fsck(store), [], lambda: Places("x", {})) == []
