"""The power fails before any single write of any operation. Afterwards the catalog is as it was or as it should be.

Each operation is run once to count its writes, and then once for each of them with a store that dies before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.distributed import TransactionState
from olympia_cli.errors import CatalogNotFound, TransactionNotFound
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import AtVersion
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers.check import check_catalog, orphans, replay, shape
from tests.helpers.clock import FakeClock
from tests.helpers.names import location, ns, select, table, view
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut

pytestmark = pytest.mark.usefixtures("decoded_once")

Files = dict[str, bytes]
ID = "11111111-2222-4333-8444-555555555555"


# Places


class InMemory:
    def make(self, files: Files) -> Store:
        store = MemoryStore()
        for path, data in files.items():
            store.create(path, data)
        return store

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, MemoryStore)
        return MemoryStore(files=store._files)


class OnDisk:
    def __init__(self, folder: Any) -> None:
        self._folder = folder
        self._made = 0

    def make(self, files: Files) -> Store:
        self._made += 1
        store = LocalStore(self._folder / str(self._made), durable=False)
        store.create_many(files)
        return store

    def reopen(self, store: Store) -> Store:
        return LocalStore(store.uri, durable=False)


@pytest.fixture(params=["memory", "local"])
def place(request, tmp_path):
    return InMemory() if request.param == "memory" else OnDisk(tmp_path)


def files_of(store: Store) -> Files:
    return {file.path: store.read(file.path) for file in store.list()}


@contextmanager
def note(text: str) -> Iterator[None]:
    """Say in a failure where the power was cut."""
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


def cuts(place: Any, files: Files, run: Callable[[Store], Any]) -> Iterator[tuple[Store, str]]:
    """For each write of the operation, yield the store as a power failure before it leaves it, opened again."""
    counted = CountingStore(place.make(files))
    run(counted)
    writes = counted.paths("create", "create_many", "overwrite", "write_hint", "delete_many")
    assert writes, "an operation that writes nothing has no place here"
    for number, path in enumerate(writes):
        inner = place.make(files)
        cutting = CuttingStore(inner, number)
        with pytest.raises(PowerCut):
            run(cutting)
        text = f"the power was cut before write {number} of {len(writes)}, {file_kind(path).value} {path}"
        with note(text):
            yield place.reopen(inner), text


# Commits


@dataclass(frozen=True)
class Operation:
    name: str
    run: Callable[[Catalog], Any]


def commit(name: str) -> Callable[[Callable[..., None]], Operation]:
    """An operation of one transaction: the statements are given."""

    def make(statements: Callable[..., None]) -> Operation:
        def run(catalog: Catalog) -> None:
            with catalog.transaction("test") as transaction:
                statements(transaction)

        return Operation(name, run)

    return make


def simple(name: str, method: str, *arguments: Any, **named: Any) -> Operation:
    return commit(name)(lambda transaction: getattr(transaction, method)(*arguments, **named))


def restore(catalog: Catalog) -> None:
    found = catalog.snapshot(AtVersion(2)).table(table("a.dropped"))
    with catalog.transaction() as transaction:
        transaction.restore(found, 2)


def many_statements(transaction: Any) -> None:
    transaction.create_namespace(ns("many"))
    for number in range(9):
        transaction.create_table(table(f"many.t{number}"), location(number))
    transaction.create_view(view("many.v"), select())
    transaction.alter_table(table("a.t0"), {"k": "v"})
    transaction.rename_table(table("a.t1"), table("many.moved"))
    transaction.drop_view(view("a.v0"))


def many_drops(transaction: Any) -> None:
    for number in (1, 2, 3, 4):
        transaction.drop_table(table(f"a.t{number}"))
    transaction.drop_namespace(ns("b"), cascade=True)


def lose_the_race(catalog: Catalog) -> None:
    """Another writer commits, through the store below the one that dies, between our begin and our commit."""
    transaction = catalog.begin()
    transaction.create_table(table("a.mine"), location())
    transaction.alter_namespace(ns("a"), {"mine": "1"})
    below = Catalog(catalog.store.inner, catalog.clock)  # type: ignore[attr-defined]
    for number in (1, 2):
        with below.transaction() as winner:
            winner.create_table(table(f"a.theirs{number}"), location())
            winner.alter_namespace(ns("a"), {f"theirs{number}": "1"})
    catalog.commit(transaction)


OPERATIONS = [
    simple("namespace create", "create_namespace", ns("new"), {"owner": "me"}),
    simple("namespace alter", "alter_namespace", ns("a"), {"k": "v"}, ["owner"]),
    simple("namespace rename", "rename_namespace", ns("a"), ns("zz")),
    simple("namespace drop", "drop_namespace", ns("empty")),
    simple("namespace drop cascade", "drop_namespace", ns("a"), cascade=True),
    simple("table create", "create_table", table("a.new"), location(), {"k": "v"}),
    simple("table alter", "alter_table", table("a.t1"), {"k": "v"}, ["p"], location(9)),
    simple("table rename", "rename_table", table("a.t1"), table("b.renamed")),
    simple("table drop", "drop_table", table("a.t2")),
    simple("view create", "create_view", view("b.new"), select("select 2")),
    simple("view replace", "replace_view", view("a.v0"), select("select 3", k="v")),
    simple("view alter", "alter_view", view("a.v0"), {"k": "v"}),
    simple("view rename", "rename_view", view("a.v0"), view("b.renamed")),
    simple("view drop", "drop_view", view("a.v1")),
    simple("catalog alter", "alter_catalog", {"k": "v"}, txn_ttl_millis=5_000_000),
    simple("rollback", "roll_back", 2),
    Operation("restore", restore),
    commit("many statements, which split nodes")(many_statements),
    commit("many drops, which merge nodes")(many_drops),
    Operation("a lost race", lose_the_race),
]
ON_DISK = {"namespace rename", "table create", "a lost race"}


@pytest.fixture(scope="module")
def base() -> Files:
    """A catalog of four versions and three levels, with nothing left over."""
    store = MemoryStore()
    catalog = Catalog.create(store, order=3, clock=FakeClock())
    with catalog.transaction() as transaction:
        for name in ("a", "b", "empty"):
            transaction.create_namespace(ns(name), {"owner": "them"})
    with catalog.transaction() as transaction:
        for number in range(6):
            transaction.create_table(table(f"a.t{number}"), location(number), {"p": "1"})
        transaction.create_table(table("a.dropped"), location())
        transaction.create_view(view("a.v0"), select())
        transaction.create_view(view("a.v1"), select())
    with catalog.transaction() as transaction:
        transaction.drop_table(table("a.dropped"))
        transaction.create_table(table("b.x"), location())
        transaction.create_view(view("b.y"), select())
    assert replay(store).keys() == {0, 1, 2, 3}
    assert orphans(store) == set()
    return files_of(store)


@pytest.mark.parametrize(
    ("operation", "place"),
    [pytest.param(op, "memory", id=f"{op.name}-memory".replace(" ", "-")) for op in OPERATIONS]
    + [pytest.param(op, "local", id=f"{op.name}-local".replace(" ", "-")) for op in OPERATIONS if op.name in ON_DISK],
    indirect=["place"],
)
def test_commit(operation, place, base):
    def run(store: Store) -> None:
        operation.run(Catalog(store, FakeClock()))

    done = place.make(base)
    run(CuttingStore(done))
    after = replay(done)
    wanted, new = shape(after[max(after)]), max(after)
    assert new > 3, "the operation commits something"

    ends = set()
    for store, _ in cuts(place, base, run):
        versions = replay(store)
        latest = max(versions)
        ends.add(latest)
        assert latest in range(3, new + 1)
        now = files_of(store)
        changed = {path for path in base if now.get(path) != base[path]}
        assert changed <= {"vn/latest"}, "an operation took files away, or changed them"
        left = orphans(store)
        if latest == 3:
            added = {path for path in now.keys() - base.keys() if file_kind(path) is not FileKind.HINT}
            assert left == added, "what an operation that was cut short leaves is seen by nobody"
        if latest == new:
            assert shape(versions[latest]) == wanted
            with Catalog(store, FakeClock()).transaction() as transaction:
                transaction.create_namespace(ns("afterwards"))
        else:
            if operation.name != "a lost race":
                run(CuttingStore(store))
                assert shape(check_catalog(store)[new]) == wanted
            else:
                finish_lost_race(Catalog(store, FakeClock()))
                assert table("a.mine") in check_catalog(store)[latest + 1]
        replay(store)
    assert min(ends) == (3 if operation.name != "a lost race" else 5), "the first cut leaves the version before"
    assert new in ends, "the last cut, before the hint, leaves the new version"


def finish_lost_race(catalog: Catalog) -> None:
    with catalog.transaction() as transaction:
        transaction.create_table(table("a.mine"), location())
        transaction.alter_namespace(ns("a"), {"mine": "1"})


# Creating a catalog


def test_create_catalog(place):
    def run(store: Store) -> None:
        Catalog.create(store, order=3, properties={"k": "v"}, clock=FakeClock())

    there = []
    for store, _ in cuts(place, {}, run):
        try:
            Catalog.open(store)
        except CatalogNotFound:
            there.append(False)
            run(store)
        else:
            there.append(True)
        assert check_catalog(store) == {0: {}}
        assert {file_kind(path) for path in orphans(store)} <= {FileKind.DEFINITION, FileKind.TEMPORARY}
        assert Catalog.open(store).snapshot().definition.properties == {"k": "v"}
        with Catalog.open(store).transaction() as transaction:
            transaction.create_namespace(ns("a"))
        replay(store)
    assert there[0] is False
    assert there[-1] is True


# Distributed transactions


@pytest.fixture
def begun(base) -> Files:
    """The base with a distributed transaction that has created a table, and another writer's commit after it began."""
    store = MemoryStore()
    for path, data in base.items():
        store.create(path, data)
    catalog = Catalog(store, FakeClock())
    running = distributed.begin(catalog, id=ID)
    running.transaction.create_table(table("a.first"), location())
    running.save()
    with catalog.transaction() as other:
        other.create_table(table("a.other"), location())
    return files_of(store)


def test_distributed_begin(place, base):
    def run(store: Store) -> None:
        distributed.begin(Catalog(store, FakeClock()), id=ID)

    found = []
    for store, _ in cuts(place, base, run):
        assert max(check_catalog(store)) == 3
        catalog = Catalog(store, FakeClock())
        try:
            loaded = distributed.load(catalog, ID)
            found.append(True)
        except TransactionNotFound:
            found.append(False)
            loaded = distributed.begin(catalog, id=ID)
        loaded.transaction.create_table(table("a.first"), location())
        assert loaded.commit().version == 4
        assert table("a.first") in replay(store)[4]
    assert found[0] is False
    assert found[-1] is True


def test_distributed_save(place, begun):
    def run(store: Store) -> None:
        loaded = distributed.load(Catalog(store, FakeClock()), ID)
        loaded.transaction.create_table(table("a.second"), location())
        loaded.save()

    found = []
    for store, _ in cuts(place, begun, run):
        assert max(check_catalog(store)) == 4
        loaded = distributed.load(Catalog(store, FakeClock()), ID)
        assert loaded.transaction.exists(table("a.first"))
        found.append(loaded.transaction.exists(table("a.second")))
        if not found[-1]:
            run(store)
            loaded = distributed.load(Catalog(store, FakeClock()), ID)
        assert loaded.commit().version == 5
        assert {table("a.first"), table("a.second")} <= replay(store)[5].keys()
    assert found[0] is False
    assert found[-1] is True


def test_distributed_commit(place, begun):
    def run(store: Store) -> None:
        distributed.load(Catalog(store, FakeClock()), ID).commit()

    ends = []
    for store, _ in cuts(place, begun, run):
        latest = max(check_catalog(store))
        catalog = Catalog(store, FakeClock())
        saved = distributed.find(store, ID)
        if saved.state(catalog.clock) is TransactionState.COMMITTED:
            ends.append("noted")
            assert latest == 5
        else:
            ends.append("committed" if latest == 5 else "open")
            assert saved.state(catalog.clock) is TransactionState.OPEN
            assert distributed.load(catalog, ID).commit().version == 5, "a commit that is done is done"
        assert max(replay(store)) == 5
        assert table("a.first") in replay(store)[5]
        assert distributed.find(store, ID).state(catalog.clock) is TransactionState.COMMITTED
    assert list(dict.fromkeys(ends)) == ["open", "committed", "noted"]


def test_distributed_abort(place, begun):
    def run(store: Store) -> None:
        distributed.load(Catalog(store, FakeClock()), ID).abort()

    states = []
    for store, _ in cuts(place, begun, run):
        assert max(check_catalog(store)) == 4
        catalog = Catalog(store, FakeClock())
        states.append(distributed.find(store, ID).state(catalog.clock))
        if states[-1] is TransactionState.OPEN:
            run(store)
        assert distributed.find(store, ID).state(catalog.clock) is TransactionState.ABORTED
        assert max(replay(store)) == 4
    assert states == [TransactionState.OPEN, TransactionState.ABORTED]
