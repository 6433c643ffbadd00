"""A catalog whose store has the same clock, with what an expire does to it a word each."""

from __future__ import annotations

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.expire import ExpirePlanner, Floors, Policy, mark, purge, read_policy
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.names import location, ns, table
from tests.helpers.stores import CountingStore

FLOORS = Floors(DAY, DAY)


class Place:
    def __init__(self, order: int = 4, **settings) -> None:
        self.clock = FakeClock()
        self.store = CountingStore(MemoryStore("place", now_millis=self.clock.now_millis))
        self.catalog = Catalog.create(self.store, order=order, clock=self.clock, **settings)

    def commit(self, *names, after: int = HOUR) -> int:
        self.clock.advance(after)
        with_names = self.catalog.begin()
        for name in names:
            with_names.create_table(table(name), location(name))
        return self.catalog.commit(with_names, "more").version

    def namespace(self, name: str = "a") -> None:
        with self.catalog.transaction() as transaction:
            transaction.create_namespace(ns(name))

    def planner(self, floors: Floors = FLOORS) -> ExpirePlanner:
        return ExpirePlanner(self.catalog, floors)

    def policy(self, **asked) -> Policy:
        return read_policy(self.head.definition, self.clock.now_millis(), **asked)

    def plan(self, floors: Floors = FLOORS, **asked):
        return self.planner(floors).expire(self.policy(**asked))

    def mark(self, floors: Floors = FLOORS, **asked):
        return mark(self.catalog, self.plan(floors, **asked).mark)

    def purge(self, floors: Floors = FLOORS):
        planner = self.planner(floors)
        plan = planner.purge()
        purge(self.catalog, plan, planner.facts.head.version, floors)
        return plan

    @property
    def head(self):
        return self.catalog.snapshot()

    @property
    def roots(self) -> list[int]:
        return sorted(v for file in self.store.list("vn/") if (v := parse_root_path(file.path)) is not None)


def filled(versions: int) -> Place:
    """Make a catalog with versions an hour apart, the last of them twenty days ago."""
    place = Place()
    place.namespace()
    for number in range(versions):
        place.commit(f"a.t{number:02}")
    place.clock.advance(20 * DAY)
    return place
