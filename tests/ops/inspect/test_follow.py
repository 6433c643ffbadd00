"""The log as it grows. The clock's sleep is where others commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import StorageFailed
from olympia_cli.format.paths import root_path
from olympia_cli.ops.inspect import LogEntry, follow
from olympia_cli.ops.inspect.changes import LOOK_AROUND, WINDOW
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import FakeClock
from tests.helpers.names import ns
from tests.helpers.stores import CountingStore


class BusyClock(FakeClock):
    """A clock that runs other work during each sleep, and then ends."""

    def __init__(self, *turns: Callable[[], None]) -> None:
        super().__init__()
        self.turns = list(turns)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if not self.turns:
            raise KeyboardInterrupt
        self.turns.pop(0)()


@pytest.fixture
def catalog() -> Catalog:
    return Catalog.create(MemoryStore())


def commit(catalog: Catalog, name: str) -> None:
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns(name))


def followed(catalog: Catalog, clock: BusyClock, said: list[str] | None = None) -> list[LogEntry]:
    """Return the entries that were seen until Ctrl-C."""
    found = []
    try:
        for entry in follow(catalog.snapshot(), clock, 2.0, (said if said is not None else []).append):
            found.append(entry)
    except KeyboardInterrupt:
        return found
    raise AssertionError("it came to an end")


def seen(catalog: Catalog, clock: BusyClock, said: list[str] | None = None) -> list[int]:
    return [entry.version for entry in followed(catalog, clock, said)]


def test_versions_come_in_their_order_and_each_once(catalog):
    several = [lambda n=n: [commit(catalog, f"n{n}-{i}") for i in range(n)] for n in (1, 0, 3, 2 * WINDOW + 1, 0)]
    clock = BusyClock(*several)
    assert seen(catalog, clock) == list(range(1, 4 + 2 * WINDOW + 2))
    assert set(clock.slept) == {2.0}
    assert len(clock.slept) == len(several) + 1, "what is more than one look shows is read without a pause"


def test_a_look_costs_the_same_however_long_the_log_is(catalog):
    for number in range(20):
        commit(catalog, f"n{number}")
    store = CountingStore(catalog.store)
    opening = Catalog(store).snapshot() and store.round_trips
    store.reset()
    assert seen(Catalog(store), BusyClock(lambda: None, lambda: None)) == []
    assert store.round_trips - opening == 3


def test_versions_expired_before_follow_saw_them_are_reported(catalog):
    def vanish() -> None:
        for number in range(5):
            commit(catalog, f"n{number}")
        catalog.store.delete_many([root_path(version) for version in (1, 2, 3)])

    said: list[str] = []
    assert seen(catalog, BusyClock(vanish, *[lambda: None] * LOOK_AROUND), said) == [5]
    assert said == ["v1 was expired before it was seen; going on after v4"]


def test_an_unreadable_version_is_reported_and_hides_no_other(catalog):
    def break_one() -> None:
        commit(catalog, "a")
        commit(catalog, "b")
        catalog.store.overwrite(root_path(1), b"garbage")

    entries = followed(catalog, BusyClock(break_one))
    assert [(entry.version, bool(entry.unreadable)) for entry in entries] == [(1, True), (2, False)]


def test_a_store_that_fails_ends_it(catalog):
    class Failing(CountingStore):
        def read_many(self, paths):
            return ((path, StorageFailed("down")) for path in paths)

    newest = catalog.snapshot()
    newest.store = Failing(catalog.store)
    with pytest.raises(StorageFailed):
        next(follow(newest, FakeClock(), 1.0, print))
