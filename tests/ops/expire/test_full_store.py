"""A purge on a store without room: what it deletes anyway makes the room, where no writer is running."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.retained import purged_before, read_quarantine
from olympia_cli.errors import CommitConflict, PartlyDone, StorageFull
from olympia_cli.ops.expire import ExpirePlanner, Floors, expire_once, mark, purge, purge_once, read_policy, undo
from tests.helpers.check import check_catalog, orphans, replay
from tests.helpers.clock import DAY, HOUR
from tests.helpers.expire_place import FLOORS, Place, filled
from tests.helpers.stores import CountingStore, CuttingStore, FullStore, PowerCut

OFFLINE = Floors(0, 0, offline=True)


@pytest.fixture
def place():
    """Versions in quarantine that have rested."""
    place = filled(30)
    place.mark()
    place.clock.advance(2 * DAY)
    return place


def full(place: Place, free: int = 0) -> FullStore:
    return FullStore(place.store, free)


def planner(place: Place, store, floors: Floors = OFFLINE) -> ExpirePlanner:
    return ExpirePlanner(Catalog(store, place.clock), floors)


def purge_all(place: Place, store, floors: Floors = OFFLINE):
    look = planner(place, store, floors)
    return purge(look.catalog, look.purge(), look.facts.head.version, floors)


@pytest.mark.parametrize("free", [*range(12), 40])
def test_the_oldest_roots_make_room_for_the_commit(place, free):
    before = check_catalog(place.store)
    place.store.reset()
    purge_all(place, full(place, free))
    events = [(method, path) for method, path in place.store.sequence if not path.startswith(".tmp-")]
    committed = next(at for at, (method, path) in enumerate(events) if method == "create" and path.startswith("vn/"))
    first = [path for method, path in events[:committed] if method == "delete_many"]
    roots = sorted(path for path in place.store.paths("delete_many") if path.startswith("vn/"))
    assert len(first) < len(roots) / 2
    assert all(path.startswith("vn/") for path in first)
    assert not (free == 40 and first)
    assert purged_before(place.head.definition) == oldest_version(place.head) == place.roots[0]
    assert read_quarantine(place.head.definition) == []
    assert not orphans(place.store)
    assert not list(place.store.list("ops/expire/"))
    after = check_catalog(place.store)
    assert {version: before[version] for version in after if version in before} == {
        version: after[version] for version in after if version in before
    }
    replay(place.store)


def test_no_more_goes_before_the_commit_than_it_needs(place):
    """The versions that are left could still be brought back, if the power failed there."""
    place.store.reset()
    purge_all(place, full(place))
    events = place.store.sequence
    committed = next(at for at, (method, path) in enumerate(events) if method == "create" and path.startswith("vn/"))
    assert 0 < len([path for method, path in events[:committed] if method == "delete_many"]) < 16


def test_where_writers_may_be_running_nothing_is_deleted_before_the_commit(place):
    store = full(place, 1)
    place.store.reset()
    with pytest.raises(StorageFull) as raised:
        purge_all(place, store, FLOORS)
    assert raised.value.command == ("expire", "purge", "--offline")
    assert [path for path in place.store.paths("delete_many") if not path.startswith(".tmp-")] == []
    check_catalog(place.store)


def test_room_for_the_commit_and_none_for_the_hint(place):
    """If writers may be running, the purge stops, and names the command that continues it."""
    free = 0
    while True:
        try:
            purge_all(place, full(place, free), FLOORS)
        except StorageFull:
            free += 1
        except PartlyDone as error:
            partly = error
            break
    assert partly.command == ("expire", "purge", "--offline")
    assert read_quarantine(place.head.definition) == []
    check_catalog(place.store)
    purge_all(place, full(place))
    assert not orphans(place.store)


def test_files_without_versions_make_room_too():
    place = Place()
    place.namespace()
    for number in range(40):
        place.store.create(f"node/{number:08x}-0000-4000-8000-000000000000.arrow", b"x" * 600)
    place.clock.advance(20 * DAY)
    place.mark(OFFLINE)
    assert len(read_quarantine(place.head.definition)) == 1
    store = full(place)
    purge_all(place, store)
    assert not orphans(place.store)
    check_catalog(place.store)


def test_a_purge_on_a_store_still_full_reports_progress(place):
    class Smaller(FullStore):
        """Another program takes the room at once."""

        def delete_many(self, paths):
            free = self.free
            super().delete_many(paths)
            self.free = free

    with pytest.raises(PartlyDone, match="is deleted, and there is still no room") as raised:
        purge_all(place, Smaller(place.store, 0))
    assert raised.value.command == ("expire", "purge", "--offline")
    check_catalog(place.store)
    purge_all(place, place.store)
    assert not orphans(place.store)
    assert not list(place.store.list("ops/expire/"))


def test_purge_continues_after_a_power_cut_at_any_write():
    cuts = 0
    for cut in range(10_000):
        place = filled(12)
        place.mark()
        place.clock.advance(2 * DAY)
        kept = check_catalog(place.store)
        cutting = CuttingStore(place.store, cut)
        try:
            purge_all(place, FullStore(cutting, 0))
        except PowerCut:
            cuts += 1
        else:
            break
        found = check_catalog(place.store)
        assert {version: found[version] for version in kept} == kept
        place.clock.advance(HOUR)
        expire_as_cron_does(place)
        purge_all(place, full(place))
        assert read_quarantine(place.head.definition) == []
        place.mark(OFFLINE)
        purge_all(place, place.store)
        assert not orphans(place.store)
    assert cuts > 20


def expire_as_cron_does(place: Place) -> None:
    look = planner(place, place.store, FLOORS)
    expire_once(look, look.expire(read_policy(look.facts.definition, look.facts.now_millis)))


def test_an_undo_after_the_plan_prevents_any_deletion(place):
    look = planner(place, full(place))
    plan = look.purge()
    undo(place.catalog)
    place.store.reset()
    with pytest.raises(CommitConflict, match="another expire was first"):
        purge(look.catalog, plan, look.facts.head.version, OFFLINE)
    assert [path for path in place.store.paths("delete_many") if not path.startswith(".tmp-")] == []


def test_a_mark_without_room_advises_an_offline_purge(place):
    for number in range(30, 40):
        place.commit(f"a.t{number}")
    place.clock.advance(20 * DAY)
    store = full(place, 3)
    look = ExpirePlanner(Catalog(store, place.clock), Floors(DAY, 365 * DAY))
    plan = look.expire(read_policy(look.facts.definition, look.facts.now_millis))
    assert plan.purge.is_empty
    with pytest.raises(StorageFull) as raised:
        expire_once(look, plan)
    assert raised.value.command == ("expire", "purge", "--offline")


def test_mark_failing_after_the_purge_reports_the_purge_done(place):
    for number in range(30, 40):
        place.commit(f"a.t{number}")
    place.clock.advance(20 * DAY)

    class FullForMarks(CountingStore):
        def create(self, path, data):
            if path.startswith("ops/expire/"):
                raise StorageFull("no space left")
            super().create(path, data)

    look = ExpirePlanner(Catalog(FullForMarks(place.store), place.clock), FLOORS)
    with pytest.raises(PartlyDone, match="the purge is done, and nothing was marked: no space left"):
        expire_once(look, look.expire(read_policy(look.facts.definition, look.facts.now_millis)))
    assert place.roots[0] == oldest_version(place.head)
    assert purge_once(planner(place, place.store), planner(place, place.store).purge()) == place.head.version
    assert mark(place.catalog, place.plan().mark) is not None


def test_a_quarantine_without_files_frees_nothing_and_says_so():
    """All files of the mark are too young, so the purge has no file to delete."""
    place = Place()
    place.namespace()
    for number in range(12):
        place.commit(f"a.t{number}")
    grace = Floors(DAY, 0, offline=True)
    assert place.mark(grace, keep_last=1, older_than="0s", offline=True) is not None
    for floors in (grace, Floors(DAY, HOUR)):
        with pytest.raises(StorageFull) as raised:
            purge_all(place, full(place), floors)
        assert raised.value.command == ()
        assert "no file is in quarantine" in raised.value.advice
        place.clock.advance(2 * HOUR)
    assert read_quarantine(place.head.definition), "nothing was purged"
    place.clock.advance(2 * DAY)
    purge_all(place, full(place), grace)
    assert not read_quarantine(place.head.definition)
