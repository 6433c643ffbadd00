"""A copy takes a damaged catalog's place, and no commit reaches the former catalog afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import SURE_OF_BASE_MILLIS, Author
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import (
    CatalogNotFound,
    CommitConflict,
    CommitUnknown,
    Damaged,
    InvalidLocation,
    OlympiaError,
    OutcomeUnknown,
    PartlyDone,
    Refused,
    StorageFailed,
    Unsupported,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import LATEST, OLDEST, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import AtVersion, Kind
from olympia_cli.ops.expire import ExpirePlanner, Floors, expire_once, mark, purge_once, read_policy, undo
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.java_copy import create_java_copy
from olympia_cli.ops.fsck import Level
from olympia_cli.ops.inspect import log_between
from olympia_cli.ops.repair.promote import PromotePlan, apply_promotion, open_copy, plan_forget, plan_promotion
from olympia_cli.ops.repair.repair import plan_repair
from olympia_cli.ops.repair.salvage import salvage_catalog
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import ALL, Between, FileInfo, Store
from tests.helpers.check import Contents, check_catalog, orphans, plain
from tests.helpers.clock import DAY, HOUR, START, FakeClock
from tests.helpers.damage import rewrite_definition, set_property, spoil
from tests.helpers.expire import mark as mark_oldest
from tests.helpers.expire import undo as undo_mark
from tests.helpers.fsck import codes, everything, fsck, leaves_of
from tests.helpers.names import location, ns, table
from tests.helpers.places import BUCKET, quiet_environment, s3_place
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import AmbiguousStore, CuttingStore, PowerCut, WrappedStore

pytestmark = pytest.mark.usefixtures("decoded_once")

AUTHOR = Author(by="mender@test")
LAST = 9
GAP = (5, 6, 7)
"""A reader without hints probes 1, 2, 3 and 5, and takes version 4 for the latest."""
Files = dict[str, tuple[bytes, int]]


def clock() -> FakeClock:
    return FakeClock(START + 100 * HOUR)


def make(store: Store, time: FakeClock, order: int = 4) -> Catalog:
    """Versions 0 to 9: tables come, change and go, in a tree of two levels."""
    catalog = Catalog.create(store, order=order, clock=time)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"), {"owner": "ann"})
    for number in range(2, LAST + 1):
        time.advance(HOUR)
        with catalog.transaction() as transaction:
            transaction.create_table(table(f"a.t{number}"), location(number))
            if number > 5:
                transaction.alter_table(table(f"a.t{number - 2}"), {"by": str(number)})
            if number == LAST:
                transaction.drop_table(table("a.t2"))
    return catalog


def made() -> Files:
    files, time = {}, FakeClock()
    make(MemoryStore("lake", files, time.now_millis), time)
    return files


WHOLE = made()


def lake() -> MemoryStore:
    """A copy of the sound catalog."""
    return MemoryStore("lake", dict(WHOLE))


def contents(store: Store) -> dict[str, object]:
    """Return the content of the latest version, even if older ones are damaged."""
    found = check_catalog(store, all_versions=False)
    return shown(found[max(found)])


def shown(found: Contents) -> dict[str, object]:
    return {f"{name.kind.word} {name}": plain(definition) for name, definition in found.items()}


HELD = contents(lake())


def files_of(store: Store) -> dict[str, bytes]:
    return {file.path: store.read(file.path) for file in store.list()}


def salvaged(store: Store, name: str = "copy") -> MemoryStore:
    copy = MemoryStore(name)
    salvage_catalog(store, copy, clock(), AUTHOR)
    return copy


def exported(mode: str = "full", name: str = "copy") -> MemoryStore:
    """An export of the sound catalog, which does not record it."""
    copy = MemoryStore(name)
    wanted = scope(Mode.PARTIAL, 2) if mode == "partial" else scope(Mode(mode))
    create_export(Catalog(lake(), clock()), copy, "friday", wanted)
    return copy


def planned(store: Store, copy: Store) -> PromotePlan:
    """The plan, which only reads."""
    before, time = (files_of(store), files_of(copy)), clock()
    plan = plan_promotion(store, open_copy(copy, store, time), time)
    assert (files_of(store), files_of(copy)) == before
    return plan


def promote(store: Store, copy: Store) -> PromotePlan:
    """Put the copy into the place, and see that it is there, whole, and on top of all that was there."""
    before = files_of(store)
    plan = planned(store, copy)
    latest = apply_promotion(plan, clock(), AUTHOR)
    settled(store, plan)
    assert latest == max(plan.version, plan.promotion.through)
    after = files_of(store)
    gone = [path for path, data in before.items() if after.get(path) != data]
    assert set(gone) <= {LATEST, OLDEST}, "nothing of the former catalog is lost"
    return plan


def settled(store: Store, plan: PromotePlan) -> None:
    """The copy is in place for every reader, and no name below is free."""
    held = Catalog(plan.copy.snapshot.store).snapshot() if not plan.is_done else plan.copy.snapshot
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    expected = {
        f"{one.name.kind.word} {one.name}": plain(one.definition) for kind in kinds for one in held.objects(kind)
    }
    assert contents(store) == expected
    report = fsck(store, level=Level.FULL)
    assert not report.damaged
    assert not everything(store).damaged
    assert plan_repair(store).nothing_to_do
    without_hints(store, lambda copy: contents(copy) == expected or pytest.fail("readers need a hint"))
    assert all(store.exists(root_path(version)) for version in range(plan.first, plan.version))


def without_hints(store: Store, look: Callable[[Store], object]) -> None:
    copy = MemoryStore("bare")
    copy.create_many({path: data for path, data in files_of(store).items() if path not in (LATEST, OLDEST)})
    look(copy)


# What is left of the former catalog


def middle(store: Store) -> None:
    store.delete_many([root_path(version) for version in GAP])


def middle_and_hints(store: Store) -> None:
    middle(store)
    store.overwrite(LATEST, b"4711")


def end(store: Store) -> None:
    """The last two roots; the hint names one of them."""
    store.delete_many([root_path(8), root_path(9)])


def beginning(store: Store) -> None:
    store.delete_many([root_path(0), root_path(1)])


def latest_cut(store: Store) -> None:
    spoil(store, root_path(LAST), "truncated")


def node_and_definition(store: Store) -> None:
    snapshot = Catalog(store).snapshot()
    spoil(store, str(snapshot.find(table("a.t8"))), "flipped")
    spoil(store, leaves_of(store, LAST)[0], "truncated")


def nothing(store: Store) -> None:
    pass


def stray(store: Store) -> None:
    store.create(root_path(LAST + 4), store.read(root_path(3)))


def no_root(store: Store) -> None:
    store.delete_many([root_path(version) for version in range(LAST + 1)])


def no_root_and_no_hint(store: Store) -> None:
    no_root(store)
    store.delete_many([LATEST])


VERSIONS = {
    nothing: (10, 10),
    middle: (10, 10),
    middle_and_hints: (10, 10),
    # v9 is lost, so that a writer who holds it commits v10
    end: (8, 10),
    beginning: (10, 10),
    latest_cut: (10, 10),
    node_and_definition: (10, 10),
    stray: (14, 14),
    no_root: (10, 10),
    no_root_and_no_hint: (1, 1),
}
"""The number that the copy gets, and how far versions go then."""


def named(value: object) -> str:
    return value.__name__ if callable(value) else str(value)


@pytest.mark.parametrize("damage", VERSIONS, ids=named)
def test_a_copy_from_before_the_damage(damage):
    store = lake()
    copy = exported()
    damage(store)
    plan = promote(store, copy)
    assert (plan.version, plan.promotion.through) == VERSIONS[damage]
    assert contents(store) == HELD
    assert Catalog(store).snapshot().definition.id == Catalog(lake()).snapshot().definition.id
    assert [change.name for change in plan.changes if damage in (nothing, middle)] == []


@pytest.mark.parametrize("damage", VERSIONS, ids=named)
def test_a_salvaged_copy(damage):
    store = lake()
    damage(store)
    copy = salvaged(store)
    plan = promote(store, copy)
    assert (plan.version, plan.promotion.through) == VERSIONS[damage]
    assert plan.loses == []
    if damage not in (no_root, no_root_and_no_hint):
        assert contents(store).keys() >= HELD.keys() - {"table a.t9"}


@pytest.mark.parametrize("mode", ["minimal", "partial"])
@pytest.mark.parametrize("damage", [nothing, middle, end, no_root], ids=named)
def test_a_copy_that_shares_files_with_the_catalog(mode, damage):
    store = lake()
    copy = exported(mode)
    damage(store)
    plan = planned(store, copy)
    apply_promotion(plan, clock(), AUTHOR)
    assert contents(store) == HELD
    assert not everything(store).damaged


def test_a_copy_that_shares_damaged_files_is_refused():
    store = lake()
    copy = exported("minimal")
    node_and_definition(store)
    before = files_of(store)
    with pytest.raises(Damaged, match="is not sound") as refused:
        open_copy(copy, store, clock())
    assert refused.value.command == ("-c", copy.uri, "fsck")
    assert files_of(store) == before


@pytest.mark.parametrize("damage", [node_and_definition, middle, latest_cut], ids=named)
def test_a_copy_that_is_not_whole_is_refused(damage):
    store = lake()
    copy = MemoryStore("copy", dict(WHOLE))
    damage(copy)
    with pytest.raises(Damaged, match="is not sound"):
        open_copy(copy, store, clock())


@pytest.mark.parametrize("how", ["truncated", "missing"])
def test_damage_in_older_versions_of_a_copy_is_harmless(how):
    """A copy that was damaged itself, and had its gap closed by a promotion, is one, too."""
    store, copy = lake(), MemoryStore("copy", dict(WHOLE))
    spoil(copy, root_path(3), how)
    if how == "missing":
        promote(copy, exported(name="other"))
    promote(store, copy)
    assert contents(store) == HELD


def test_a_restored_copy_is_older():
    """A backup of the place as it was at version 6. The files that both have stay as they are."""
    store = lake()
    backup = MemoryStore("copy")
    later = {root_path(version) for version in range(7, LAST + 1)}
    backup.create_many({path: data for path, (data, _) in WHOLE.items() if path not in later | {LATEST}})
    middle(store)
    plan = promote(store, backup)
    assert sorted(f"{change.change} {change.name}" for change in plan.changes) == [
        "altered a.t5",
        "altered a.t6",
        "created a.t2",
        "dropped a.t7",
        "dropped a.t8",
        "dropped a.t9",
    ]
    assert len(plan.loses) == 5
    # t2 is nowhere in the latest version here, and t5 and t6 are other
    assert plan.definitions == 3
    held = Catalog(store).snapshot(AtVersion(LAST))
    assert [held.table(table(f"a.t{number}")).id for number in (7, 8, 9)], "the former catalog can be read by number"


def test_a_definition_that_is_damaged_here_is_brought_under_another_name():
    store = lake()
    copy = exported()
    path = str(Catalog(store).snapshot().find(table("a.t8")))
    spoil(store, path, "flipped")
    broken = store.read(path)
    plan = promote(store, copy)
    assert plan.definitions == 1
    assert store.read(path) == broken, "nothing is overwritten"
    assert Catalog(store).snapshot().find(table("a.t8")) != path


def test_a_definition_that_was_rewritten_here_is_not_shared():
    """The definition is sound, but differs from the copy's definition of the same name."""
    store = lake()
    path = str(Catalog(store).snapshot().find(table("a.t8")))
    rewrite_definition(store, path, lambda found: found.properties.update({"by": "somebody"}))
    promote(store, exported())
    assert Catalog(store).snapshot().find(table("a.t8")) != path
    assert contents(store) == HELD


def test_definitions_already_in_the_catalog_are_shared():
    store = lake()
    plan = promote(store, exported())
    assert plan.definitions == plan.bytes == 0
    before, after = Catalog(store).snapshot(AtVersion(LAST)), Catalog(store).snapshot()
    assert dict(before.entries(Kind.TABLE)) == dict(after.entries(Kind.TABLE))


def test_definitions_that_the_latest_version_lacks_are_copied():
    """An expire may be about to delete it, so only what the former catalog's latest version needs stays where it is."""
    store = lake()
    path = str(Catalog(store).snapshot(AtVersion(4)).find(table("a.t2")))
    copy = MemoryStore("copy")
    create_export(Catalog(lake(), clock()), copy, "friday", scope(Mode.FULL), at=AtVersion(4))
    assert Catalog(copy).snapshot().find(table("a.t2")) == path
    promote(store, copy)
    assert Catalog(store).snapshot().find(table("a.t2")) != path


# Writers who hold the former catalog


def writer(store: Store, version: int) -> Transaction:
    """A transaction that began when this version was the latest, as far as its writer could see."""
    former = lake()
    former.delete_many([root_path(number) for number in range(version + 1, LAST + 1)] + [LATEST])
    transaction = Catalog(former, clock()).begin()
    assert transaction.base.version == version
    transaction.create_namespace(ns("late"))
    # what it has read is in memory, and from now on it meets what became of the place
    transaction.base.store = transaction.base.reader._store = transaction.base.definitions._store = store
    return transaction


@pytest.mark.parametrize("damage", VERSIONS, ids=named)
def test_writers_of_the_former_catalog_conflict_after_a_promotion(damage):
    """Whatever version a writer holds, the latest that he saw or one before a gap, the next name is taken."""
    store = lake()
    copy = exported()
    damage(store)
    plan = promote(store, copy)
    for version in range(LAST + 1):
        transaction = writer(store, version)
        # where nothing told of the former versions, the copy begins at version 0
        transaction.clock.advance(SURE_OF_BASE_MILLIS)
        with pytest.raises((CommitConflict, Damaged)) as refused:
            Catalog(store, clock()).commit(transaction, retry_for=0)
        # where the next version of the former catalog is there and damaged, a writer meets that first
        assert isinstance(refused.value, CommitConflict) or damage is latest_cut
    settled(store, plan)
    Catalog(store, clock()).commit(late(Catalog(store, clock())))
    assert contents(store).keys() == HELD.keys() | {"namespace late"}


def test_a_commit_after_the_plan_stops_the_promotion():
    """Committed between the plan and the switch, on the latest version or in a gap: the copy does not know of it."""
    for held in (LAST, GAP[0] - 1):
        store = lake()
        middle(store)
        plan = planned(store, exported())
        transaction = writer(store, held)
        assert Catalog(store, clock()).commit(transaction, retry_for=0).version == held + 1
        with pytest.raises(CommitConflict, match="since this was planned"):
            apply_promotion(plan, clock(), AUTHOR)
        assert (ns("late") in set(Catalog(store).snapshot().namespaces())) is (held == LAST)
        again = promote(store, exported())
        assert again.version == LAST + 1 + (held == LAST)
        assert contents(store) == HELD


class Busy(WrappedStore):
    """Another writer commits while the versions are listed for the n-th time."""

    def __init__(self, store: Store, at: int) -> None:
        super().__init__(store)
        self.left = at

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        if prefix == "vn/":
            self.left -= 1
            if self.left == 0:
                writer = Catalog(self.inner, clock())
                writer.commit(late(writer))
        return super().list(prefix, temporary, between)


@pytest.mark.parametrize("at", range(1, 6))
def test_a_commit_while_it_is_planned_is_in_the_plan_or_in_the_way(at):
    store = Busy(lake(), at)
    plan = plan_promotion(store, open_copy(exported(), store, clock()), clock())
    dropped = [change.name for change in plan.changes]
    if store.left > 0 or dropped == [ns("late")]:
        return
    with pytest.raises(CommitConflict):
        apply_promotion(plan, clock(), AUTHOR)
    assert "namespace late" in contents(store)


def test_of_two_promotions_one_wins():
    store = lake()
    middle(store)
    one, other = planned(store, exported()), planned(store, salvaged(store, "other"))
    apply_promotion(one, clock(), AUTHOR)
    with pytest.raises(CommitConflict):
        apply_promotion(other, clock(), AUTHOR)
    settled(store, one)


def test_a_server_that_remembers_goes_on_with_the_copy():
    store = lake()
    server = Catalog(store, clock(), remembers=True)
    server.snapshot()
    middle(store)
    promote(store, exported())
    assert server.snapshot().version == LAST + 1
    server.commit(late(server))
    assert contents(store).keys() == HELD.keys() | {"namespace late"}


def late(catalog: Catalog) -> Transaction:
    transaction = catalog.begin()
    transaction.create_namespace(ns("late"))
    return transaction


def test_a_distributed_transaction_cannot_be_committed_any_more():
    store = lake()
    open_transaction = distributed.begin(Catalog(store, clock()))
    open_transaction.transaction.create_table(table("a.late"), location(99))
    open_transaction.save()
    plan = promote(store, exported())
    assert plan.transactions == (open_transaction.id,)
    with pytest.raises(CommitConflict):
        distributed.load(Catalog(store, clock()), open_transaction.id).commit()


# Cut off


def scene(damage: Callable[[Store], None]) -> tuple[Files, MemoryStore]:
    """Return the files of a damaged catalog, and a copy of version 3 that readers can tell from it."""
    store, copy = lake(), MemoryStore("copy")
    damage(store)
    at = AtVersion(3 if damage in (nothing, middle) else LAST)
    create_export(Catalog(lake(), clock()), copy, "friday", scope(Mode.FULL), at=at)
    return store._files, copy


SCENES = {damage: scene(damage) for damage in (nothing, middle, end, no_root, node_and_definition)}


def writes(damage: Callable[[Store], None]) -> int:
    files, copy = SCENES[damage]
    store = CuttingStore(MemoryStore("lake", dict(files)))
    apply_promotion(plan_promotion(store, open_copy(copy, store, clock()), clock()), clock(), AUTHOR)
    return store.writes


CUTS = [(damage, cut_at) for damage in SCENES for cut_at in range(writes(damage))]


def cut_off(store: Store, copy: Store, cut_at: int) -> None:
    """A promotion that dies before a write."""
    dying = CuttingStore(store, cut_at)
    with pytest.raises(PowerCut):
        apply_promotion(plan_promotion(dying, open_copy(copy, store, clock()), clock()), clock(), AUTHOR)


def in_place(store: Store, files: Files, copy: Store) -> bool:
    """Return whether the copy is in place. Otherwise the former catalog must be unchanged."""
    former = MemoryStore("former", dict(files))
    before, held, now = outcome(former), outcome(copy), outcome(store)
    assert before != held
    assert now in (before, held)
    # a reader without hints may stop before a gap, until that is closed
    assert bare(store) in ((now,) if now == held else (now, bare(former)))
    if now == held:
        assert not fsck(store, level=Level.FULL).damaged
    return now == held


def bare(store: Store) -> object:
    """Return the content that readers see without hints."""
    found: list[object] = []
    without_hints(store, lambda copy: found.append(outcome(copy)))
    return found[0]


def outcome(store: Store) -> object:
    """Return the content that readers see, with or without hints."""
    try:
        snapshot = Catalog(store).snapshot()
        kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        return {one.name: plain(one.definition) for kind in kinds for one in snapshot.objects(kind)}
    except OlympiaError as error:
        return type(error)


@pytest.mark.parametrize(("damage", "cut_at"), CUTS, ids=named)
def test_cut_off_at_any_write_one_of_the_two_is_in_place(damage, cut_at):
    files, copy = SCENES[damage]
    store = MemoryStore("lake", dict(files))
    cut_off(store, copy, cut_at)
    is_in_place = in_place(store, files, copy)
    assert store.exists(root_path(VERSIONS[damage][0])) is is_in_place, "one file decides"
    for version in range(LAST + 1):
        # what could be read by its number still can
        with suppress(Damaged, VersionNotFound, CatalogNotFound):
            former = Catalog(MemoryStore("former", dict(files))).snapshot(AtVersion(version))
            assert set(former.tables()) == set(Catalog(store).snapshot(AtVersion(version)).tables())
    plan = promote(store, copy)
    assert outcome(store) == outcome(copy)
    assert plan_promotion(store, open_copy(copy, store, clock()), clock()).is_done, "the next run has nothing to do"
    assert plan.version == VERSIONS[damage][0]


@pytest.mark.parametrize("damage", SCENES, ids=named)
def test_an_interrupted_promotion_continues_with_another_copy(damage):
    files, copy = SCENES[damage]
    other = MemoryStore("other")
    create_export(Catalog(lake(), clock()), other, "older", scope(Mode.FULL), at=AtVersion(2))
    for cut_at in range(0, writes(damage), 3):
        store = MemoryStore("lake", dict(files))
        cut_off(store, copy, cut_at)
        promote(store, other)
        assert contents(store).keys() == {"namespace a", "table a.t2"}


@pytest.fixture(scope="module")
def servers() -> Iterator[StrictS3]:
    with pytest.MonkeyPatch.context() as patch, StrictS3() as server:
        quiet_environment(patch)
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path) -> Iterator[Callable[[], Store]]:
    """Fresh places on a real store."""
    opened = []

    def fresh() -> Store:
        if request.param == "local":
            return LocalStore(tmp_path / f"lake{len(opened)}-{len(list(tmp_path.iterdir()))}")
        opened.append(s3_place(request.getfixturevalue("servers").url))
        return opened[-1].open()

    yield fresh
    for one in opened:
        one.close()


def test_cut_off_at_any_write_on_a_real_store(place):
    """Each write has the same effect as in memory, and the next run finishes."""
    files, copy = SCENES[middle]
    former, held = outcome(MemoryStore("former", dict(files))), outcome(copy)
    for cut_at in range(writes(middle)):
        store = place()
        store.create_many({path: data for path, (data, _) in files.items()})
        cut_off(store, copy, cut_at)
        is_in_place = store.exists(root_path(VERSIONS[middle][0]))
        assert outcome(store) == (held if is_in_place else former)
        apply_promotion(plan_promotion(store, open_copy(copy, store, clock()), clock()), clock(), AUTHOR)
        assert outcome(store) == held
    settled(store, plan_promotion(store, open_copy(copy, store, clock()), clock()))


@pytest.mark.parametrize("mode", ["lost_reply", "lost_request"])
@pytest.mark.parametrize("damage", [middle, end], ids=named)
def test_a_store_that_does_not_answer(damage, mode):
    """Whatever became of a write, the promotion fails or is done, and the next run finishes."""
    files, copy = SCENES[damage]
    for fail_at in range(writes(damage)):
        inner = MemoryStore("lake", dict(files))
        store = AmbiguousStore(inner, fail_at, mode)
        with suppress(StorageFailed, CommitUnknown, OutcomeUnknown, PartlyDone):
            apply_promotion(plan_promotion(store, open_copy(copy, store, clock()), clock()), clock(), AUTHOR)
        in_place(inner, files, copy)
        promote(inner, copy)
        assert outcome(inner) == outcome(copy)


def test_an_unwritable_hint_is_reported_after_the_promotion(tmp_path):
    """A folder stands in its place. The copy is in place all the same."""
    store = LocalStore(tmp_path / "lake")
    store.create_many({path: data for path, (data, _) in WHOLE.items() if path != LATEST})
    (tmp_path / "lake" / LATEST).mkdir()
    (tmp_path / "lake" / LATEST / "file").write_text("somebody's")
    copy = exported()
    for _ in range(2):
        with pytest.raises(PartlyDone, match="is the copy, but a hint could not be written"):
            apply_promotion(plan_promotion(store, open_copy(copy, store, clock()), clock()), clock(), AUTHOR)
        assert contents(store) == HELD
        assert Catalog(store).snapshot().version == LAST + 1


# The former catalog


def expire(catalog: Catalog, **policy: object) -> None:
    planner = ExpirePlanner(catalog, Floors(DAY, DAY))
    plan = planner.expire(read_policy(planner.facts.definition, planner.facts.now_millis, **policy))
    expire_once(planner, plan)


def aged(damage: Callable[[Store], None] = middle) -> tuple[Catalog, FakeClock]:
    """The copy took the place, and weeks went by."""
    time = clock()
    store = MemoryStore("lake", dict(WHOLE), time.now_millis)
    damage(store)
    apply_promotion(plan_promotion(store, open_copy(exported(), store, time), time), time, AUTHOR)
    time.advance(20 * DAY)
    catalog = Catalog(store, time)
    for number in range(4):
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(f"new{number}"))
        time.advance(DAY)
    time.advance(20 * DAY)
    return catalog, time


@pytest.mark.parametrize("damage", [middle, node_and_definition], ids=named)
def test_no_expire_takes_it(damage):
    catalog, _ = aged(damage)
    before = files_of(catalog.store)
    expire(catalog, keep_last=1)
    after = files_of(catalog.store)
    assert {path for path in before if after.get(path) != before[path]} <= {LATEST, "ops/last-expire.json"}
    assert catalog.snapshot(AtVersion(1)).version == 1
    planner = ExpirePlanner(catalog, Floors(DAY, DAY))
    kept = planner.expire(
        read_policy(planner.facts.definition, planner.facts.now_millis, keep_last=1)
    ).mark.kept_versions
    assert (kept[0].version, kept[0].reason) == (0, "kept-aside")
    assert "promote --forget" in kept[0].detail


def test_forgotten_it_rests_in_quarantine_and_goes_with_a_purge():
    catalog, time = aged()
    store = catalog.store
    held = contents(store)
    planner, plan = plan_forget(catalog)
    assert plan is not None
    assert (plan.former_oldest, plan.oldest) == (0, LAST + 1)
    mark(planner.catalog, plan)
    assert contents(store) == held
    with pytest.raises(VersionNotFound) as gone:
        catalog.snapshot(AtVersion(LAST))
    assert gone.value.command == ("expire", "undo")
    assert plan_forget(catalog)[1] is None, "there is nothing more to forget"
    undo(catalog)
    assert catalog.snapshot(AtVersion(LAST)).version == LAST
    expire(catalog, keep_last=1)
    assert catalog.snapshot(AtVersion(LAST)).version == LAST, "what was brought back is kept aside again"
    planner, plan = plan_forget(catalog)
    assert plan is not None
    mark(planner.catalog, plan)
    time.advance(2 * DAY)
    planner = ExpirePlanner(catalog, Floors(DAY, DAY))
    purge_once(planner, planner.purge())
    assert contents(store) == held
    check_catalog(store)
    expire(catalog, keep_last=1)
    assert not everything(store).damaged
    time.advance(2 * DAY)
    for _ in range(2):
        expire(catalog, keep_last=1)
        time.advance(2 * DAY)
    assert not orphans(store)
    assert contents(store) == held


def test_a_former_catalog_still_needed_is_not_forgotten():
    store = lake()
    promote(store, exported())
    catalog = Catalog(store, clock())
    with pytest.raises(Refused, match="may still be needed") as refused:
        plan_forget(catalog)
    assert "--offline" in refused.value.advice
    _, plan = plan_forget(catalog, offline=True)
    assert plan is not None
    assert plan.oldest == LAST + 1


def test_an_expire_that_was_planned_before_takes_nothing_of_it():
    store = lake()
    time = clock()
    time.advance(30 * DAY)
    catalog = Catalog(store, time)
    planner = ExpirePlanner(catalog, Floors(DAY, DAY), probe=False)
    plan = planner.expire(read_policy(planner.facts.definition, time.now_millis(), keep_last=2))
    assert plan.mark.oldest > 0
    apply_promotion(plan_promotion(store, open_copy(exported(), store, time), time), time, AUTHOR)
    with pytest.raises(CommitConflict, match="kept aside"):
        mark(catalog, plan.mark)
    assert catalog.snapshot(AtVersion(0)).version == 0


def test_versions_in_quarantine_before_a_promotion_can_return():
    store = lake()
    mark_oldest(Catalog(store, clock()), 3)
    promote(store, exported())
    catalog = Catalog(store, clock())
    assert oldest_version(catalog.snapshot()) == 3
    undo_mark(catalog, 0)
    assert catalog.snapshot(AtVersion(1)).version == 1
    _, plan = plan_forget(catalog, offline=True)
    assert plan is not None
    assert (plan.former_oldest, plan.oldest) == (0, LAST + 2)


def test_times_go_on_where_the_clock_of_the_former_catalog_was():
    """The clock of this machine is behind, and the latest root cannot be read."""
    for damage in (nothing, latest_cut, middle):
        store = lake()
        damage(store)
        behind = FakeClock(START - HOUR)
        plan = plan_promotion(store, open_copy(exported(), store, behind), behind)
        newest = max(Catalog(lake()).snapshot(AtVersion(version)).created_at_millis for version in (8, LAST))
        apply_promotion(plan, behind, AUTHOR)
        created = Catalog(store).snapshot().created_at_millis
        assert created >= newest - (HOUR if damage is latest_cut else 0)
        assert created > behind.now_millis()
        assert not everything(store).damaged


def test_a_rollback_leads_back_to_the_former_catalog():
    store = lake()
    backup = MemoryStore("copy")
    create_export(Catalog(lake(), clock()), backup, "older", scope(Mode.FULL), at=AtVersion(4))
    promote(store, backup)
    catalog = Catalog(store, clock())
    with catalog.transaction() as transaction:
        transaction.roll_back(LAST)
    assert contents(store) == HELD
    assert plan_forget(catalog, offline=True)[1] is not None, "what is kept aside stays known"
    assert not everything(store).damaged


def test_the_log_leads_through_it():
    store = lake()
    middle(store)
    promote(store, exported())
    told = {entry.version: entry for entry in log_between(Catalog(store, clock()), None, None)}
    assert list(told) == list(range(LAST + 1, -1, -1))
    assert [version for version in told if told[version].unreadable] == sorted(GAP, reverse=True)
    assert all("the root is lost" in told[version].unreadable for version in GAP)
    assert Catalog(store).snapshot(AtVersion(LAST)).version == LAST
    with pytest.raises(Damaged, match="the root is lost"):
        Catalog(store).snapshot(AtVersion(GAP[0]))


def test_names_of_lost_versions_are_no_content():
    """A salvage that comes after a promotion that was cut off must not take an empty file for an empty version."""
    files, copy = SCENES[middle]
    cut = next(at for at in range(writes(middle)) if keeps_names(MemoryStore("lake", dict(files)), copy, at))
    store = MemoryStore("lake", dict(files))
    cut_off(store, copy, cut)
    assert codes(everything(store)) == codes(fsck(store)) == ["F106"]
    assert plan_repair(store).nothing_to_do
    former = MemoryStore("lake", dict(files))
    changed = set(leaves_of(store, LAST)) - set(leaves_of(store, GAP[0] - 1))
    for place in (former, store):
        place.delete_many([*changed, root_path(8)])
    before, after = (salvage_catalog(place, MemoryStore("dest"), clock(), AUTHOR) for place in (former, store))
    assert after.lost_ranges == before.lost_ranges
    assert {lost.as_of for lost in after.lost_ranges} == {GAP[0] - 1}, "what the lost versions changed is not known"


def keeps_names(store: Store, copy: Store, cut_at: int) -> bool:
    cut_off(store, copy, cut_at)
    return all(store.exists(root_path(version)) for version in GAP)


# Twice


def test_the_same_copy_again():
    store = lake()
    middle(store)
    copy = exported()
    promote(store, copy)
    with Catalog(store, clock()).transaction() as transaction:
        transaction.create_namespace(ns("since"))
    before = files_of(store)
    plan = planned(store, copy)
    assert plan.is_done
    assert apply_promotion(plan, clock(), AUTHOR) == LAST + 2
    assert files_of(store) == before, "what was committed since stays"


def test_another_copy_on_top():
    """All that was there before the second promotion is kept aside, the first copy too."""
    store = lake()
    middle(store)
    promote(store, exported())
    other = MemoryStore("other")
    create_export(Catalog(lake(), clock()), other, "older", scope(Mode.FULL), at=AtVersion(4))
    plan = promote(store, other)
    assert (plan.first, plan.version) == (0, LAST + 2)
    _, forgotten = plan_forget(Catalog(store, clock()), offline=True)
    assert forgotten is not None
    assert forgotten.oldest == LAST + 2


def test_the_copy_moved_on():
    store = lake()
    copy = exported()
    promote(store, copy)
    with Catalog(copy).transaction() as transaction:
        transaction.create_namespace(ns("since"))
    plan = promote(store, copy)
    assert [f"{change.change} {change.name}" for change in plan.changes] == ["created since"]


# What is no copy of this catalog


def test_another_catalog_is_refused():
    other = MemoryStore("other")
    make(other, clock())
    with pytest.raises(Refused, match="copy of another catalog"):
        planned(lake(), other)


def test_a_catalog_of_another_order_is_refused():
    other = MemoryStore("other")
    make(other, clock(), order=8)
    with pytest.raises(Refused, match="another order"):
        planned(lake(), other)


def test_a_promoted_copy_takes_the_id_of_the_catalog():
    """A rebuilt catalog has another id, but the objects of the catalog."""
    store, copy = lake(), MemoryStore("copy")
    catalog = Catalog.create(copy, order=4, clock=clock())
    with catalog.transaction() as transaction:
        for kind, type in ((Kind.NAMESPACE, ActionType.NAMESPACE_CREATE), (Kind.TABLE, ActionType.TABLE_CREATE)):
            for found in Catalog(lake()).snapshot().objects(kind):
                transaction.do(Action(type, found.name, definitions.body(found.definition)))
    promote(store, copy)
    assert Catalog(store).snapshot().definition.id == Catalog(lake()).snapshot().definition.id
    assert contents(store) == HELD


def test_a_place_is_no_copy_of_itself():
    with pytest.raises(InvalidLocation, match="is the catalog itself"):
        open_copy(lake(), lake(), clock())


def test_a_place_where_nothing_is():
    with pytest.raises(CatalogNotFound):
        planned(MemoryStore("empty"), exported())
    with pytest.raises(CatalogNotFound):
        open_copy(MemoryStore("empty"), lake(), clock())


def test_a_copy_for_the_java_sdk_is_refused():
    copy = MemoryStore("java")
    create_java_copy(Catalog(lake(), clock()), copy, "java")
    with pytest.raises(Unsupported, match="Java SDK"):
        open_copy(copy, lake(), clock())


@pytest.mark.parametrize("which", ["copy", "place"])
def test_features_that_this_program_does_not_know(which):
    store, copy = lake(), exported()
    newer = copy if which == "copy" else store
    set_property(newer, Catalog(newer).snapshot().root.catalog_def, "olympia.required-features", "branches")
    before = files_of(store)
    with pytest.raises(Unsupported, match="branches"):
        planned(store, copy)
    assert files_of(store) == before


def test_a_promotion_over_an_implausibly_wide_gap_is_refused():
    store = lake()
    store.create(root_path(2**31), store.read(root_path(3)))
    with pytest.raises(Refused, match="too many to be lost"):
        planned(store, exported())
