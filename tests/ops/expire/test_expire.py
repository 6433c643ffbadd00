"""Expire: what goes, what stays, and that nothing kept ever loses a file."""

from __future__ import annotations

from contextlib import suppress

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.retained import QuarantineMark, purged_before, read_quarantine
from olympia_cli.catalog.snapshot import expired_before
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import (
    CommitConflict,
    Damaged,
    PartlyDone,
    Refused,
    StorageDenied,
    StorageFailed,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import OLDEST, FileKind, file_kind, new_node_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import AtVersion
from olympia_cli.ops.expire import ExpirePlanner, Floors, mark, purge, read_policy, undo
from olympia_cli.ops.fsck import Level
from tests.helpers.check import check_catalog, orphans, replay
from tests.helpers.clock import DAY, HOUR, MINUTE
from tests.helpers.expire_place import FLOORS, Place, filled
from tests.helpers.fsck import fsck
from tests.helpers.names import location, table
from tests.helpers.stores import WrappedStore


@pytest.fixture
def place():
    place = Place()
    place.namespace()
    yield place
    check_catalog(place.store)
    replay(place.store)


@pytest.fixture
def aged(place):
    """Thirty versions, an hour apart, the last of them twenty days ago."""
    for number in range(30):
        place.commit(f"a.t{number:02}")
    place.clock.advance(20 * DAY)
    return place


def test_versions_go_when_count_and_age_both_allow_it(aged):
    head = aged.head.version
    plan = aged.plan().mark
    assert plan.expired == range(head - 2)
    assert [(kept.version, kept.reason) for kept in plan.kept_versions] == [
        (head - 2, "keep-last"),
        (head - 1, "keep-last"),
        (head, "latest"),
    ]
    assert aged.plan(keep_last=10).mark.oldest == head - 9
    assert aged.plan(older_than="30d").mark.oldest == 0
    assert aged.plan(older_than="30d").mark.kept_versions[0].reason == "age"


def test_the_version_current_at_the_age_limit_is_kept(place):
    """Looking at the catalog as it was a week ago works however long ago the last commit was."""
    place.commit("a.old")
    place.clock.advance(30 * DAY)
    place.commit("a.new")
    place.clock.advance(5 * DAY)
    assert place.plan(keep_last=1).mark.oldest == 2
    place.clock.advance(3 * DAY)
    assert place.plan(keep_last=1).mark.oldest == 3


def test_a_root_that_a_sleeper_wrote_is_in_one_half_of_a_plan(aged):
    """At a name that a purge has freed: the purge takes it, so the mark does not name it too."""
    aged.mark(keep_last=20)
    aged.clock.advance(2 * DAY)
    aged.purge()
    aged.mark(keep_last=10)
    aged.store.create(root_path(0), b"slept")
    aged.clock.advance(2 * DAY)
    plan = aged.plan(keep_last=5)
    assert plan.mark.expired
    assert [root_path(0) in {file.path for file in half.files} for half in (plan.mark, plan.purge)] == [False, True]
    purge(aged.catalog, plan.purge, plan.head, FLOORS)


def test_mark_deletes_nothing_and_moves_the_oldest_version(aged):
    before = {file.path: aged.store.read(file.path) for file in aged.store.list() if not file.path.startswith("ops/")}
    done = aged.mark()
    assert aged.store.deletes == 2  # the probes of the clock
    for path, data in before.items():
        assert path in ("vn/latest", "vn/oldest") or aged.store.read(path) == data
    definition = aged.head.definition
    assert expired_before(definition) == oldest_version(aged.head) == done.version - 3
    assert read_hints(aged.store).oldest == done.version - 3
    [resting] = read_quarantine(definition)
    assert (resting.version, resting.oldest, resting.former_oldest) == (done.version, done.version - 3, 0)
    with pytest.raises(VersionNotFound):
        aged.catalog.snapshot(AtVersion(3))


def test_a_purge_deletes_files_that_no_kept_version_reaches(aged):
    aged.mark()
    aged.clock.advance(2 * DAY)
    kept = check_catalog(aged.store)
    plan = aged.purge()
    head = aged.head
    assert aged.roots == list(range(oldest_version(head), head.version + 1))
    assert purged_before(head.definition) == oldest_version(head)
    assert read_quarantine(head.definition) == []
    assert plan.files
    assert not orphans(aged.store)
    assert not list(aged.store.list("ops/expire/"))
    after = check_catalog(aged.store)
    assert {version: set(contents) for version, contents in kept.items()} == {
        version: set(after[version]) for version in kept
    }


def test_a_purge_leaves_files_until_their_quarantine_ends(aged):
    aged.mark()
    aged.clock.advance(DAY - MINUTE)
    assert aged.purge().is_empty
    assert aged.roots[0] == 0
    aged.clock.advance(2 * MINUTE)
    assert not aged.purge().is_empty
    assert aged.roots[0] > 0


def test_undo_brings_all_back(aged):
    before = check_catalog(aged.store)
    aged.mark()
    undo(aged.catalog)
    assert oldest_version(aged.head) == 0
    assert read_hints(aged.store).oldest == 0
    assert read_quarantine(aged.head.definition) == []
    after = check_catalog(aged.store)
    assert {version: after[version] for version in before} == before
    assert undo(aged.catalog) is None


@pytest.mark.parametrize("error", [StorageFailed("cable cut"), StorageDenied("no")])
def test_an_undo_that_cannot_take_the_oldest_back_is_refused(aged, error):
    """Else vn/oldest would lead, and readers would go by it."""
    aged.mark()
    before = aged.head.version

    class Stuck(WrappedStore):
        def overwrite(self, path, data):
            if path == OLDEST:
                raise error
            super().overwrite(path, data)

    with pytest.raises(type(error)):
        undo(Catalog(Stuck(aged.store), aged.clock))
    assert aged.head.version == before
    undo(aged.catalog)


def test_undo_after_purge_is_too_late(aged):
    aged.mark()
    aged.clock.advance(2 * DAY)
    aged.purge()
    assert undo(aged.catalog) is None
    assert oldest_version(aged.head) > 0


def test_a_purge_of_an_undone_mark_deletes_nothing(aged):
    aged.mark()
    aged.clock.advance(2 * DAY)
    planner = aged.planner()
    plan = planner.purge()
    undo(aged.catalog)
    with pytest.raises(CommitConflict):
        purge(aged.catalog, plan, planner.facts.head.version, FLOORS)
    assert aged.roots[0] == 0
    assert check_catalog(aged.store)[0] == {}


def test_two_marks_rest_each_for_itself(aged):
    aged.mark()
    first = oldest_version(aged.head)
    for number in range(10):
        aged.commit(f"a.u{number}")
    aged.clock.advance(10 * DAY)
    later = aged.mark()
    assert [resting.oldest for resting in read_quarantine(aged.head.definition)] == [first, later.version - 3]
    plan = aged.purge()
    assert plan.purged == first
    assert oldest_version(aged.head) == later.version - 3
    # what rests can still be brought back, so its files are there
    undo(aged.catalog)
    assert oldest_version(aged.head) == first


def test_a_file_too_young_is_not_taken(aged):
    aged.store.create("node/00000000-0000-4000-8000-000000000000.arrow", b"being written")
    plan = aged.plan().mark
    assert plan.young == 1
    aged.clock.advance(DAY)
    plan = aged.plan().mark
    assert plan.young == 0
    assert "node/00000000-0000-4000-8000-000000000000.arrow" in {file.path for file in plan.files}


def test_orphans_alone_are_swept_too(place):
    place.store.create("def/table/00000000-0000-4000-8000-000000000000-x.binpb", b"lost a race")
    place.store.create("vn/.tmp-00000000-0000-4000-8000-000000000000", b"cut off")
    place.clock.advance(2 * DAY)
    place.mark(older_than="30d")
    place.clock.advance(2 * DAY)
    place.purge()
    left = {file_kind(file.path) for file in place.store.list(temporary=True)}
    assert FileKind.TEMPORARY not in left
    assert not orphans(place.store)


def test_unknown_files_are_reported_and_never_touched(aged):
    strange = ["README", "node/notes.txt", "vn/" + "0" * 64, "def/dtxn/x.binpb", "other/catalog/vn/0", "ops/mine.json"]
    for path in strange:
        aged.store.create(path, b"mine")
    aged.clock.advance(30 * DAY)
    assert sorted(aged.plan().mark.unknown_paths) == sorted(strange)
    aged.mark()
    aged.clock.advance(2 * DAY)
    aged.purge()
    assert all(aged.store.exists(path) for path in strange)
    aged.store.delete_many(["vn/" + "0" * 64])


def test_a_live_distributed_transaction_keeps_its_base_and_files(aged):
    aged.clock.advance(DAY)
    begun = distributed.begin(aged.catalog)
    begun.transaction.create_table(table("a.mine"), location("mine"))
    begun.save()
    for number in range(8):
        aged.commit(f"a.later{number}")
    plan = aged.plan(Floors(HOUR, HOUR), older_than="0s", offline=True, keep_last=1).mark
    assert plan.oldest == begun.transaction.base.version
    assert plan.kept_versions[0].reason == "transaction"
    mark(aged.catalog, plan)
    aged.clock.advance(2 * HOUR)
    aged.purge(Floors(HOUR, HOUR))
    loaded = distributed.load(aged.catalog, begun.id)
    loaded.commit()
    assert aged.head.table(table("a.mine"))


def test_a_stale_distributed_transaction_goes_with_its_nodes(aged):
    begun = distributed.begin(aged.catalog)
    begun.transaction.create_table(table("a.mine"), location("mine"))
    begun.save()
    aged.clock.advance(3 * DAY + 29 * MINUTE)
    assert not {file.path for file in aged.plan().mark.files if file.kind == "transaction"}
    aged.clock.advance(2 * MINUTE)
    aged.mark()
    aged.clock.advance(2 * DAY)
    aged.purge()
    assert not list(aged.store.list("dtxn/"))
    assert not orphans(aged.store)


def test_a_stale_distributed_transaction_that_cannot_be_read_stops_nothing(aged):
    """Another of its saves says when it ends, which never moves."""
    begun = distributed.begin(aged.catalog)
    begun.save()
    for path in (f"dtxn/{begun.id}.1.binpb", f"dtxn/{begun.id}.binpb"):
        aged.store.overwrite(path, b"")
    with pytest.raises(Damaged) as caught:
        aged.plan()
    assert (caught.value.code, caught.value.path) == ("F501", f"dtxn/{begun.id}.1.binpb")
    aged.clock.advance(4 * DAY)
    assert {file.path for file in aged.plan().mark.files if file.kind == "transaction"}
    aged.store.delete_many([file.path for file in aged.store.list("dtxn/")])


class _Sleeping(WrappedStore):
    """The writer of vn/oldest sleeps before it, while `meanwhile` runs, once."""

    def __init__(self, store, meanwhile) -> None:
        super().__init__(store)
        self._meanwhile = [meanwhile]

    def overwrite(self, path, data):
        if path == OLDEST and self._meanwhile:
            self._meanwhile.pop()()
        super().overwrite(path, data)


@pytest.mark.parametrize("slept", [0, 2 * DAY])
def test_late_purge_keeps_a_transaction_that_reuses_an_id(aged, slept):
    stale = distributed.begin(aged.catalog)
    stale.save()
    aged.clock.advance(4 * DAY)
    aged.mark()
    aged.clock.advance(2 * DAY)

    def meanwhile():
        aged.purge()
        assert not list(aged.store.list("dtxn/"))
        again = distributed.begin(aged.catalog, id=stale.id)
        again.transaction.create_table(table("a.mine"), location("mine"))
        again.save()
        aged.clock.advance(slept)

    planner = aged.planner()
    late = Catalog(_Sleeping(aged.store, meanwhile), aged.clock)
    purge(late, planner.purge(), planner.facts.head.version, FLOORS)
    distributed.load(aged.catalog, stale.id).commit()
    assert aged.head.table(table("a.mine"))


def test_versions_in_which_a_transaction_may_still_live_stay_unless_offline(place):
    for number in range(6):
        place.commit(f"a.t{number}")
    place.clock.advance(2 * DAY)
    with pytest.raises(Refused, match="lifetime"):
        place.policy(older_than="1d")
    assert place.plan(keep_last=1, older_than="0s", offline=True).mark.oldest == place.head.version
    # the catalog's retention is not an error of this command, so the floor applies silently
    with place.catalog.transaction() as transaction:
        transaction.alter_catalog({"olympia.retention.max-version-age": "1h"})
    place.clock.advance(2 * HOUR)
    kept = place.plan(keep_last=1).mark.kept_versions
    assert kept[0].version == 0
    assert kept[0].reason == "in-use"


def test_a_longer_lifetime_in_the_past_counts(place):
    """A transaction lives as long as the version that it began at says, not as long as today's."""
    with place.catalog.transaction() as transaction:
        transaction.alter_catalog(txn_ttl_millis=30 * DAY)
    place.commit("a.x")
    long = place.head.version
    place.clock.advance(HOUR)
    with place.catalog.transaction() as transaction:
        transaction.alter_catalog(txn_ttl_millis=HOUR)
    for number in range(5):
        place.commit(f"a.y{number}")
    place.clock.advance(20 * DAY)
    assert place.plan(keep_last=1).mark.oldest <= long
    place.clock.advance(20 * DAY)
    assert place.plan(keep_last=1).mark.oldest == place.head.version


@pytest.mark.parametrize("keep", [0, -1])
def test_a_policy_that_keeps_nothing_is_refused(aged, keep):
    with pytest.raises(Refused):
        aged.policy(keep_last=keep)


@pytest.mark.parametrize("floors", [(HOUR - 1, DAY), (DAY, HOUR - 1), (0, 0)])
def test_floors_hold_unless_offline(floors):
    with pytest.raises(Refused):
        Floors(*floors)
    Floors(*floors, offline=True)


def test_a_rollback_to_a_marked_version_is_refused_and_one_before_is_kept(aged):
    with aged.catalog.transaction() as transaction:
        transaction.drop_table(table("a.t05"))
    transaction = aged.catalog.begin()
    transaction.roll_back(8)
    plan = aged.planner()
    marking = plan.expire(aged.policy()).mark
    aged.catalog.commit(transaction)
    mark(aged.catalog, marking)
    aged.clock.advance(2 * DAY)
    aged.purge()
    # the tree that came back is whole, whatever became of the version that it came from
    assert {name.name for name in aged.head.tables("a")} == {f"t{n:02}" for n in range(7)}
    with pytest.raises(VersionNotFound):
        aged.catalog.begin().roll_back(8)


def test_a_rollback_between_plan_and_purge_keeps_its_files(aged):
    aged.mark()
    aged.clock.advance(2 * DAY)
    planner = aged.planner()
    plan = planner.purge()
    oldest = oldest_version(aged.head)
    with aged.catalog.transaction() as transaction:
        transaction.roll_back(oldest)
    purge(aged.catalog, plan, planner.facts.head.version, FLOORS)
    check_catalog(aged.store)
    assert aged.roots[0] == oldest


class Failing(WrappedStore):
    """Deletes a number of batches, and fails after that."""

    def __init__(self, store, after: int) -> None:
        super().__init__(store)
        self.after = after

    def delete_many(self, paths):
        paths = list(paths)
        if not any(".tmp-" in path for path in paths):
            self.after -= 1
            if self.after < 0:
                raise StorageFailed("the store is tired")
        self.inner.delete_many(paths)


@pytest.mark.parametrize("after", [0, 1, 5, 27, 28, 29, 30, 31])
def test_a_purge_that_stops_half_way_is_finished_by_the_next(aged, after):
    aged.mark()
    aged.clock.advance(2 * DAY)
    failing = Catalog(Failing(aged.store, after), aged.clock)
    planner = ExpirePlanner(failing, FLOORS)
    plan = planner.purge()
    with suppress(PartlyDone):
        purge(failing, plan, planner.facts.head.version, FLOORS)
    check_catalog(aged.store)
    assert undo(aged.catalog) is None
    aged.clock.advance(HOUR)
    aged.purge()
    assert not orphans(aged.store)
    assert not list(aged.store.list("ops/expire/"))
    assert aged.roots[0] == oldest_version(aged.head)


def test_a_mark_that_dies_before_its_commit_leaves_a_manifest_that_means_nothing(aged):
    plan = aged.plan().mark

    class Dies(WrappedStore):
        def create(self, path, data):
            if path.startswith("vn/"):
                raise StorageFailed("cut")
            self.inner.create(path, data)

    with pytest.raises(StorageFailed):
        mark(Catalog(Dies(aged.store), aged.clock), plan)
    assert oldest_version(aged.head) == 0
    aged.clock.advance(2 * DAY)
    assert aged.purge().is_empty
    aged.mark()
    aged.clock.advance(2 * DAY)
    aged.purge()
    assert not list(aged.store.list("ops/expire/"))


def test_commits_made_by_expire_do_not_count_for_retention(aged):
    """Otherwise a quiet catalog would lose its last versions to the runs that are to keep them."""
    aged.mark()
    oldest = oldest_version(aged.head)
    for _ in range(5):
        aged.clock.advance(2 * DAY)
        aged.purge()
        aged.mark()
    assert oldest_version(aged.head) == oldest
    # and it comes to rest
    head = aged.head.version
    aged.clock.advance(10 * DAY)
    assert aged.purge().is_empty
    assert aged.mark() is None
    assert aged.head.version == head


# What is refused


def _flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


@pytest.mark.parametrize("kind", [FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION])
@pytest.mark.parametrize("harm", ["gone", "flipped", "empty"])
def test_expire_writes_nothing_when_a_kept_file_is_unreadable(kind, harm):
    place = filled(30)
    version = place.head.version - 1
    snapshot = place.catalog.snapshot(AtVersion(version))
    paths = {
        FileKind.ROOT: snapshot.file.path,
        FileKind.NODE: next(child for child in snapshot.root.node.children if isinstance(child, str)),
        FileKind.DEFINITION: snapshot.find(table("a.t03")),
    }
    path = paths[kind]
    data = place.store.read(path)
    place.store.delete_many([path])
    if harm != "gone":
        place.store.create(path, b"" if harm == "empty" else _flipped(data))
    before = {file.path for file in place.store.list()}
    with pytest.raises(Damaged):
        place.plan()
    assert {file.path for file in place.store.list()} == before


def _written_by_a_transaction(place: Place) -> str:
    begun = distributed.begin(place.catalog)
    begun.transaction.create_table(table("a.mine"), location("mine"))
    begun.save()
    return next(file.path for file in place.store.list("def/table/") if file.path.endswith("mine.binpb"))


def _pinned_by_an_export(place: Place) -> str:
    pin = new_node_path()
    place.store.create(pin, place.store.read(root_path(5)))
    payload = ExportDef(name="other", location="s3://elsewhere/vn/x", mode="minimal", version=5, pin=pin)
    transaction = place.catalog.begin()
    transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))
    place.catalog.commit(transaction)
    return pin


@pytest.mark.parametrize(("write", "code"), [(_written_by_a_transaction, "F502"), (_pinned_by_an_export, "F503")])
@pytest.mark.parametrize("harm", ["gone", "flipped"])
def test_expire_and_fsck_agree_on_damage_of_held_files(write, code, harm):
    place = filled(30)
    path = write(place)
    if harm == "gone":
        place.store.delete_many([path])
    else:
        place.store.overwrite(path, _flipped(place.store.read(path)))
    with pytest.raises(Damaged, match="needs it") as caught:
        place.plan()
    assert (caught.value.code, caught.value.path) == (code, path)
    findings = fsck(place.store, level=Level.FULL, all_versions=True, clock=place.clock).findings
    assert (code, path) in {(finding.code, finding.path) for finding in findings}


def test_a_damaged_version_that_goes_anyway_is_no_obstacle(aged):
    aged.store.delete_many([root_path(4)])
    aged.store.overwrite(root_path(6), b"garbage")
    aged.mark()
    aged.clock.advance(2 * DAY)
    aged.purge()
    assert aged.roots[0] == oldest_version(aged.head)


def test_a_stale_hint_does_not_hide_versions(aged):
    aged.store.overwrite("vn/latest", b"3")
    aged.mark()
    assert oldest_version(aged.head) == aged.head.version - 3


def test_a_gap_that_hides_the_latest_versions_is_refused(aged):
    """Readers probe upwards from the hint, so they stop at the gap; all that is behind it would seem dead."""
    lost = aged.head.version - 1
    data = aged.store.read(root_path(lost))
    aged.store.delete_many([root_path(lost)])
    aged.store.overwrite("vn/latest", str(lost - 2).encode())
    assert aged.head.version == lost - 1
    with pytest.raises(Damaged, match=f"version {lost} is missing, but there is a version {lost + 1}"):
        aged.plan(keep_last=1)
    aged.store.create(root_path(lost), data)


def test_a_hint_beyond_the_last_root_is_refused(aged):
    lost = aged.head.version
    data = aged.store.read(root_path(lost))
    aged.store.delete_many([root_path(lost)])
    with pytest.raises(Refused, match="may be lost"):
        aged.plan()
    aged.store.create(root_path(lost), data)


def test_a_manifest_cannot_lead_a_purge_astray(aged):
    aged.mark()
    [resting] = read_quarantine(aged.head.definition)
    text = aged.store.read(resting.manifest)
    for evil in (b"vn/latest", b"../other", b"README", root_path(aged.head.version).encode(), b"ops/last-fsck.json"):
        aged.store.overwrite(resting.manifest, text.replace(root_path(0).encode(), evil))
        aged.clock.advance(2 * DAY)
        with pytest.raises(Damaged, match="never deletes"):
            aged.planner().purge()
    aged.store.overwrite(resting.manifest, text)


def test_where_a_manifest_stops_a_purge_an_undo_leads_on(aged):
    aged.mark()
    [resting] = read_quarantine(aged.head.definition)
    text = aged.store.read(resting.manifest)
    aged.store.overwrite(resting.manifest, text.replace(root_path(0).encode(), b"data/x.parquet"))
    aged.clock.advance(2 * DAY)
    with pytest.raises(Damaged, match="never deletes") as stopped:
        aged.purge()
    assert (stopped.value.code, stopped.value.command) == ("F906", ("expire", "undo"))
    undo(aged.catalog)
    aged.mark()
    aged.clock.advance(2 * DAY)
    aged.purge()
    assert not orphans(aged.store)


def test_files_of_a_lost_manifest_are_marked_again(aged):
    aged.mark()
    [resting] = read_quarantine(aged.head.definition)
    aged.store.delete_many([resting.manifest])
    aged.clock.advance(2 * DAY)
    plan = aged.purge()
    assert plan.notes
    aged.mark()
    aged.clock.advance(2 * DAY)
    aged.purge()
    assert not orphans(aged.store)


class TestNothingOnAHintsWord:
    """Readers believe vn/oldest where no expire has run. Expire deletes nothing for it."""

    @pytest.mark.parametrize("hint", [20, 31, 99])
    def test_a_hint_that_leads(self, aged, hint):
        aged.store.overwrite("vn/oldest", str(hint).encode())
        with pytest.raises(Refused, match="vn/oldest says"):
            aged.plan(older_than="90d")
        with pytest.raises(Refused, match="vn/oldest says"):
            aged.planner().purge()
        aged.store.delete_many(["vn/oldest"])

    @pytest.mark.parametrize("lost", [[0], [0, 15], [0, 15, 16]])
    def test_roots_lost_at_the_old_end(self, lost):
        place = filled(30)
        place.store.delete_many(root_path(version) for version in lost)
        with pytest.raises(Damaged, match="version 0 is missing"):
            place.plan(older_than="90d")

    def test_the_root_of_the_oldest_version_lost_after_an_expire(self):
        place = filled(30)
        place.mark(keep_last=25)
        place.clock.advance(2 * DAY)
        place.purge()
        oldest = place.planner().facts.oldest
        place.store.delete_many([root_path(oldest), root_path((oldest + place.head.version) // 2)])
        with pytest.raises(Damaged, match=f"version {oldest} is missing"):
            place.plan(older_than="90d")

    def test_purge_looks_for_versions_behind_a_gap_too(self, aged):
        aged.mark()
        aged.clock.advance(2 * DAY)
        lost = aged.head.version
        data = aged.store.read(root_path(lost))
        aged.store.delete_many([root_path(lost)])
        with pytest.raises(Refused, match="may be lost"):
            aged.planner().purge()
        aged.store.create(root_path(lost), data)


@pytest.mark.parametrize(
    ("key", "value", "flag"),
    [
        ("olympia.retention.max-version-age", "90 days", {"older_than": "90d"}),
        ("olympia.retention.max-version-age", "P365D", {"older_than": "90d"}),
        ("olympia.retention.min-versions", "1_000", {"keep_last": 5}),
        ("olympia.retention.min-versions", "0", {"keep_last": 5}),
    ],
)
def test_a_retention_that_cannot_be_understood_is_refused(aged, key, value, flag):
    """The author may have meant to keep much more than the default does."""
    definition = aged.head.definition
    definition.properties[key] = value
    with pytest.raises(Refused, match=key):
        read_policy(definition, aged.clock.now_millis())
    read_policy(definition, aged.clock.now_millis(), **flag)


def test_a_mark_planned_before_an_undo_does_not_take_it_back(aged):
    aged.mark()
    aged.store.create("node/00000000-0000-4000-8000-000000000000.arrow", b"stray")
    aged.clock.advance(2 * DAY)
    plan = aged.plan().mark
    assert len(plan.expired) == 0
    assert len(plan.files) == 1
    undo(aged.catalog)
    with pytest.raises(CommitConflict, match="another expire was first"):
        mark(aged.catalog, plan)
    assert oldest_version(aged.head) == 0


@pytest.mark.parametrize("ended", ["undone", "never committed"])
def test_files_of_a_mark_that_does_not_stand_are_not_purged(place, ended):
    stray = "node/00000000-0000-4000-8000-000000000000.arrow"
    place.store.create(stray, b"stray")
    place.clock.advance(2 * DAY)
    plan = place.plan(older_than="30d").mark
    if ended == "undone":
        mark(place.catalog, plan)
        undo(place.catalog)
    else:

        class Dies(WrappedStore):
            def create(self, path, data):
                if path.startswith("vn/"):
                    raise StorageFailed("cut")
                self.inner.create(path, data)

        with pytest.raises(StorageFailed):
            mark(Catalog(Dies(place.store), place.clock), plan)
    place.clock.advance(2 * DAY)
    assert place.purge().is_empty
    assert place.store.exists(stray)
    # the next mark finds it again, and it rests like everything else
    place.mark(older_than="30d")
    place.clock.advance(2 * DAY)
    place.purge()
    assert not place.store.exists(stray)


def test_a_catalog_that_begins_later_can_be_expired_and_undone():
    """A full export begins at the version that was exported, and no property says so."""
    place = filled(20)
    first = 11
    place.store.delete_many(root_path(version) for version in range(first))
    place.store.overwrite("vn/oldest", str(first).encode())
    plan = place.plan().mark
    assert plan.expired == range(first, place.head.version - 2)
    mark(place.catalog, plan)
    undo(place.catalog)
    assert expired_before(place.head.definition) == first
    assert min(check_catalog(place.store)) == first
    place.mark()
    place.clock.advance(2 * DAY)
    plan = place.purge()
    assert range(plan.former_purged, plan.purged) == range(first, oldest_version(place.head))
    check_catalog(place.store)


def test_an_export_without_a_pin_is_the_reason_it_gives(aged):
    payload = ExportDef(name="other", location="s3://elsewhere/vn/x", mode="minimal", version=5)
    transaction = aged.catalog.begin()
    transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))
    aged.catalog.commit(transaction)
    aged.clock.advance(10 * DAY)
    plan = aged.plan().mark
    assert plan.oldest == 5
    assert (plan.kept_versions[0].version, plan.kept_versions[0].reason) == (5, "export")


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"a": 1}', "[{}]"])
def test_an_unreadable_quarantine_purges_nothing_and_allows_new_marks(text):
    aged = filled(30)
    aged.mark()
    transaction = aged.catalog.begin()
    definition = transaction.draft.catalog
    definition.properties["olympia.expire.quarantine"] = text
    transaction.draft.put_catalog(definitions.body(definition))
    transaction.actions.append(Action(ActionType.CATALOG_ALTER, None, definitions.body(definition)))
    aged.catalog.commit(transaction)
    aged.clock.advance(2 * DAY)
    assert aged.purge().is_empty
    assert aged.roots[0] == 0
    aged.mark()
    aged.clock.advance(2 * DAY)
    assert aged.purge().files
    assert not orphans(aged.store)
    check_catalog(aged.store)


def test_unknown_fields_in_a_newer_mark_are_ignored():
    definition = CatalogDef()
    entry = '{"version":7,"oldest":5,"former_oldest":0,"manifest":"m","why":"new"}'
    definition.properties["olympia.expire.quarantine"] = f"[{entry}]"
    assert read_quarantine(definition) == [QuarantineMark(7, 5, 0, "m")]


# What it costs


def test_each_kept_file_is_read_once_and_no_removed_node_is(aged):
    aged.store.reset()
    plan = aged.plan(keep_last=10)
    reads = [path for path in aged.store.paths("read", "read_many") if file_kind(path) is not FileKind.HINT]
    twice = {path for path in reads if reads.count(path) > 1}
    # what opening the catalog reads is read again by the walk; each opening looks where the next version would be
    assert twice <= {aged.head.file.path, aged.head.root.catalog_def, root_path(aged.head.version + 1)}
    removed = {file.path for file in plan.mark.files if file.kind == "node"}
    assert removed
    assert not removed & set(reads)


def test_a_plan_writes_nothing_but_its_probe(aged):
    aged.store.reset()
    aged.plan()
    assert all(".tmp-" in path for path in aged.store.paths("create", "create_many", "overwrite", "write_hint"))
