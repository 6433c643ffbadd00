"""Promises of an expire whose violations would be rare and silent.

Each test fails if the single line is removed that implements its promise (`tests/mutants`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import read_quarantine
from olympia_cli.catalog.snapshot import Snapshot, expired_before
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import CommitConflict, Damaged, PartlyDone, StorageFailed
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.codec import encode_root
from olympia_cli.format.paths import new_node_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.names import AtVersion
from olympia_cli.ops.expire import ExpirePlanner, Floors, mark, purge, undo
from tests.helpers.check import check_catalog, orphans
from tests.helpers.clock import DAY, HOUR, MINUTE
from tests.helpers.expire_place import FLOORS, Place, filled
from tests.helpers.expire_world import SkewedClock, listed
from tests.helpers.fsck import everything
from tests.helpers.names import location, table
from tests.helpers.reach import reach_of
from tests.helpers.stores import WrappedStore


def bring_back(place: Place, version: int) -> int:
    """Commit the tree of an old version, as a program does that knows of no quarantine; the actions do not tell it."""
    head = place.head
    old = Snapshot(place.store, read_root(place.store, version))
    root = replace(
        old.root,
        catalog_def=head.root.catalog_def,
        created_at_millis=place.clock.now_millis(),
        previous_root=head.file.path,
    )
    place.store.create(root_path(head.version + 1), encode_root(root, []))
    return head.version + 1


def export(place: Place, version: int, pin: str = "", expires_at_millis: int = 0, mode: str = "minimal") -> None:
    """Record an export as another program does."""
    payload = ExportDef(
        name="other",
        location="s3://x/vn/1",
        mode=mode,
        version=version,
        pin=pin,
        expires_at_millis=expires_at_millis,
    )
    with place.catalog.transaction() as transaction:
        transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))


def marked(versions: int = 12) -> Place:
    """With a mark that has rested."""
    place = filled(versions)
    place.mark()
    place.clock.advance(2 * DAY)
    return place


def marked_twice() -> Place:
    """With a mark that has rested, and one that has not."""
    place = marked()
    for number in range(6):
        place.commit(f"a.u{number}")
    place.clock.advance(10 * DAY)
    place.mark()
    return place


class Dies(WrappedStore):
    """Does not create or delete what begins so."""

    def __init__(self, store, *, create: str = "-", delete: str = "-") -> None:
        super().__init__(store)
        self._create, self._delete = create, delete

    def create(self, path, data):
        if path.startswith(self._create):
            raise StorageFailed("cut")
        self.inner.create(path, data)

    def delete_many(self, paths):
        paths = list(paths)
        if any(path.startswith(self._delete) for path in paths):
            raise StorageFailed("cut")
        self.inner.delete_many(paths)


# What came back since the plan


def test_a_version_that_says_nothing_of_itself_may_have_brought_files_back():
    place = marked()
    planner = place.planner()
    plan = planner.purge()
    bring_back(place, 5)
    purge(place.catalog, plan, planner.facts.head.version, FLOORS)
    assert len(listed(place.head)) == 5


def test_a_revival_that_is_expired_since_the_plan_is_looked_for():
    place = marked()
    planner = place.planner()
    plan = planner.purge()
    back = bring_back(place, 5)
    place.clock.advance(HOUR)
    place.commit("a.later", "a.latest")
    place.clock.advance(20 * DAY)
    place.mark(keep_last=1)
    assert expired_before(place.head.definition) > back
    purge(place.catalog, plan, planner.facts.head.version, FLOORS)
    assert len(listed(place.head)) == 7


def test_a_purge_keeps_files_of_revived_versions_in_quarantine():
    """A version that brought files back, and is in quarantine by now itself, can be brought back."""
    place = marked()
    planner = place.planner()
    plan = planner.purge()
    back = bring_back(place, 5)
    bring_back(place, planner.facts.head.version)
    place.clock.advance(20 * DAY)
    place.mark(keep_last=1)
    assert expired_before(place.head.definition) > back
    purge(place.catalog, plan, planner.facts.head.version, FLOORS)
    undo(place.catalog)
    assert len(listed(place.catalog.snapshot(AtVersion(back)))) == 5


def test_a_purge_does_not_take_a_later_mark_of_the_same_versions_for_its_own():
    """The mark was undone, and the later mark has not rested."""
    place = marked()
    planner = place.planner()
    plan = planner.purge()
    undo(place.catalog)
    place.mark()
    with pytest.raises(CommitConflict):
        purge(place.catalog, plan, planner.facts.head.version, FLOORS)
    undo(place.catalog)
    assert min(check_catalog(place.store)) == 0


# How long anything rests


def test_marks_leave_quarantine_from_the_first_on():
    """The store says that the first is younger than the second, as after a copy by hand: neither leaves."""
    place = marked_twice()
    first, _ = read_quarantine(place.head.definition)
    place.clock.advance(DAY)
    place.store.overwrite(root_path(first.version), place.store.read(root_path(first.version)))
    assert place.purge().is_empty
    undo(place.catalog)
    assert min(check_catalog(place.store)) == 0


def test_a_mark_rests_while_an_export_without_a_pin_needs_it():
    place = filled(12)
    plan = place.plan().mark
    export(place, 5)
    mark(place.catalog, plan)
    place.clock.advance(2 * DAY)
    assert place.purge().is_empty
    with place.catalog.transaction() as transaction:
        payload = ExportDef(name="other", dropped=True)
        transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))
    assert place.purge().purged == plan.oldest


def test_an_export_with_an_unreadable_record_stops_an_expire():
    place = filled(12)
    transaction = place.catalog.begin()
    definition = transaction.draft.catalog
    definition.exported_snapshots["other"] = "s3://x/vn/1"
    definition.properties["olympia.export.other"] = "nonsense"
    transaction.draft.put_catalog(definitions.body(definition))
    transaction.actions.append(Action(ActionType.CATALOG_ALTER, None, definitions.body(definition)))
    place.catalog.commit(transaction)
    with pytest.raises(Damaged, match="the files that it needs are unknown"):
        place.plan()


@pytest.mark.parametrize("mode", ["", "weird"])
def test_an_export_of_unknown_mode_stops_an_expire(mode):
    place = filled(12)
    export(place, 5, mode=mode)
    with pytest.raises(Damaged, match="the files that it needs are unknown") as caught:
        place.plan()
    assert caught.value.code == "F504"


def test_pin_of_an_export_is_kept_in_any_mode():
    place = filled(12)
    pin = new_node_path()
    place.store.create(pin, place.store.read(root_path(5)))
    export(place, 5, pin, mode="full")
    place.clock.advance(10 * DAY)
    place.mark()
    place.clock.advance(10 * DAY)
    place.purge()
    assert not everything(place.store, clock=place.clock).damaged
    place.store.delete_many([pin])
    with pytest.raises(Damaged) as caught:
        place.plan()
    assert (caught.value.code, caught.value.path) == ("F503", pin)


def test_a_full_export_without_a_pin_keeps_nothing():
    place = filled(12)
    export(place, 1, mode="full")
    place.clock.advance(10 * DAY)
    assert place.plan().mark.oldest > 1


def nodes_of(store, version: int) -> set[str]:
    """The nodes below the root of a version."""
    reach = reach_of(store)
    paths = {path for new in reach.each([(root_path(version), store.read(root_path(version)))]) for path in new}
    return {path for path in paths if path.startswith("node/")}


@pytest.mark.parametrize("lost", ["root", "node"])
def test_damage_of_a_version_that_rests_stops_no_purge_and_no_node_is_deleted(lost):
    """The files that the version reaches are unknown, so all of them would seem dead."""
    place = marked_twice()
    oldest = expired_before(place.head.definition)
    victim = root_path(oldest - 1)
    if lost == "node":
        victim = min(nodes_of(place.store, oldest - 1) - nodes_of(place.store, oldest))
    place.store.delete_many([victim])
    assert not everything(place.store, clock=place.clock).damaged, "fsck looks at no version in quarantine"
    trees = {file.path for file in place.store.list() if file.path.startswith(("node/", "def/"))}
    plan = place.purge()
    assert len(plan.versions) > 1
    assert "no node and no definition" in plan.notes[0]
    assert victim in plan.notes[0]
    assert trees <= {file.path for file in place.store.list()}
    assert not place.store.exists(root_path(plan.versions[-1]))
    # what rests comes back, as far as it is whole
    undo(place.catalog)
    assert {one.path for one in everything(place.store, clock=place.clock).findings if one.is_damage} == {victim}


def test_the_purge_after_a_damaged_version_deletes_its_files():
    place = marked_twice()
    place.store.delete_many([root_path(expired_before(place.head.definition) - 1)])
    place.purge()
    place.clock.advance(2 * DAY)
    for _ in range(2):
        place.mark(keep_last=1)
        place.clock.advance(2 * DAY)
        assert not place.purge().notes
    assert not orphans(place.store)


def test_a_lifetime_is_half_an_hour_longer_for_an_expire():
    settings = {"olympia.retention.max-version-age": "1h", "olympia.retention.min-versions": "1"}
    place = Place(txn_ttl_millis=6 * HOUR, properties=settings)
    place.namespace()
    place.commit("a.x", after=0)
    place.clock.advance(6 * HOUR + 29 * MINUTE)
    assert place.plan().mark.oldest == 0
    place.clock.advance(2 * MINUTE)
    assert place.plan().mark.oldest == 2


def test_an_export_lives_half_an_hour_longer_for_an_expire():
    place = filled(12)
    pin = new_node_path()
    place.store.create(pin, place.store.read(root_path(5)))
    export(place, 5, pin, place.clock.now_millis() + DAY)
    place.clock.advance(DAY + 29 * MINUTE)
    assert pin not in {file.path for file in place.plan().mark.files}
    place.clock.advance(2 * MINUTE)
    assert pin in {file.path for file in place.plan().mark.files}


@pytest.mark.parametrize("off", [-2 * MINUTE, 2 * MINUTE])
def test_a_transaction_lives_by_the_clock_that_makes_it_younger(off):
    """This machine's and the store's are on two sides of the end of its lifetime."""
    place = filled(3)
    begun = distributed.begin(place.catalog)
    place.clock.advance(3 * DAY + 30 * MINUTE - off // 2)
    planner = ExpirePlanner(Catalog(place.store, SkewedClock(place.clock, off)), FLOORS)
    files = {file.path for file in planner.expire(place.policy()).mark.files}
    assert not any(begun.id in path for path in files)


def test_a_mark_rests_by_the_clock_of_the_store():
    place = filled(12)
    place.mark()
    place.clock.advance(DAY - MINUTE)
    ahead = Catalog(place.store, SkewedClock(place.clock, 2 * MINUTE))
    assert ExpirePlanner(ahead, FLOORS).purge().is_empty


class Unlisted(WrappedStore):
    """A store whose listings do not show a file yet."""

    def __init__(self, store, path: str) -> None:
        super().__init__(store)
        self._path = path

    def list(self, prefix="", temporary=False):
        return (file for file in self.inner.list(prefix, temporary) if file.path != self._path)


def test_a_mark_that_a_listing_does_not_show_yet_has_not_rested():
    place = filled(12)
    version = place.mark().version
    assert ExpirePlanner(Catalog(Unlisted(place.store, root_path(version)), place.clock), FLOORS).purge().is_empty


def test_a_root_that_a_listing_does_not_show_yet_does_not_make_the_one_before_it_older():
    """The root has a time from before its writer slept."""
    settings = {"olympia.retention.max-version-age": "1h", "olympia.retention.min-versions": "1"}
    place = Place(txn_ttl_millis=6 * HOUR, properties=settings)
    place.namespace()
    root = replace(place.head.root, previous_root=place.head.file.path)
    place.clock.advance(7 * HOUR)
    place.store.create(root_path(2), encode_root(root, []))
    lagging = Catalog(Unlisted(place.store, root_path(2)), place.clock)
    assert ExpirePlanner(lagging, FLOORS).expire(place.policy()).mark.oldest == 1


# What others leave


def test_a_young_manifest_is_not_swept():
    """The manifest may belong to a mark that is about to be committed."""
    place = marked()
    before = {file.path for file in place.store.list("ops/expire/")}
    stray = new_node_path()
    place.store.create(stray, b"")
    place.clock.advance(2 * DAY)
    with pytest.raises(StorageFailed):
        mark(Catalog(Dies(place.store, create="vn/"), place.clock), place.plan().mark)
    [young] = {file.path for file in place.store.list("ops/expire/")} - before
    place.purge()
    assert [file.path for file in place.store.list("ops/expire/")] == [young]


def test_a_purge_that_dies_twice_is_still_finished():
    """The second time after it committed another mark's purge, too."""
    place = marked_twice()
    dying = Catalog(Dies(place.store, delete="node/"), place.clock)
    for _ in range(2):
        planner = ExpirePlanner(dying, FLOORS)
        plan = planner.purge()
        assert plan.manifests
        with suppress(PartlyDone):
            purge(dying, plan, planner.facts.head.version, FLOORS)
        place.clock.advance(2 * DAY)
    assert len(plan.unfinished) == 1
    place.purge()
    assert not orphans(place.store)
    assert not list(place.store.list("ops/expire/"))


def test_the_last_save_of_a_transaction_is_deleted_last():
    """By its number, and not by its name: while it stands, those before it mean nothing."""
    place = filled(3)
    begun = distributed.begin(place.catalog)
    begun.transaction.create_table(table("a.mine"), location())
    for _ in range(10):
        begun.save()
    begun.abort()
    last = distributed.find(place.store, begun.id).path
    place.clock.advance(4 * DAY)
    place.mark()
    place.clock.advance(2 * DAY)
    place.store.reset()
    place.purge()
    deleted = [path for path in place.store.paths("delete_many") if path.startswith("dtxn/")]
    assert len(deleted) == 13
    assert deleted[-1] == last


def test_expire_and_fsck_agree_on_transactions_without_their_base():
    """The files of the transaction were missing while an expire purged the version at which it began."""
    place = filled(12)
    place.clock.advance(HOUR)
    begun = distributed.begin(place.catalog)
    files = {file.path: place.store.read(file.path) for file in place.store.list() if "/" in file.path}
    began = begun.transaction.base.version
    place.store.delete_many([path for path in files if path.startswith("dtxn/")])
    for number in range(3):
        place.commit(f"a.v{number}", after=MINUTE)
    offline = Floors(0, 0, offline=True)
    place.clock.advance(MINUTE)
    place.mark(offline, keep_last=1, older_than="1s", offline=True)
    place.purge(offline)
    assert not place.store.exists(root_path(began))
    for path in files.keys() - {file.path for file in place.store.list()}:
        if path.startswith(("dtxn/", "node/", "def/")):
            place.store.create(path, files[path])
    [error] = [one for one in everything(place.store, clock=place.clock).findings if one.is_damage]
    with pytest.raises(Damaged) as stopped:
        place.plan()
    assert (stopped.value.code, stopped.value.path) == (error.code, error.path)
    assert stopped.value.code == "F502"
    assert stopped.value.reason == error.message
    assert error.hint == " ".join(stopped.value.command) == f"txn abort {begun.transaction.id}"
    distributed.abort(place.catalog, distributed.find(place.store, begun.transaction.id))
    place.plan()
    assert not everything(place.store, clock=place.clock).damaged
