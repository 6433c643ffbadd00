"""The version that a request sees: the latest at some moment after its arrival, with as few reads as possible."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from olympia_cli.catalog.catalog import SURE_FOR_MILLIS, Catalog
from olympia_cli.errors import StorageFailed
from olympia_cli.format.paths import root_path
from olympia_cli.names import NamespaceName
from olympia_cli.rest.service import LatestLookup
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import FakeClock
from tests.helpers.stores import CountingStore, WrappedStore


def commit(store: MemoryStore, name: str) -> int:
    with Catalog(store).transaction() as transaction:
        transaction.create_namespace(NamespaceName(name))
    return Catalog(store).snapshot().version


def test_latest_sees_new_commits_and_checks_with_one_request():
    store = MemoryStore()
    Catalog.create(store)
    counting = CountingStore(store)
    with ThreadPoolExecutor(2) as pool:
        latest = LatestLookup(Catalog(counting, FakeClock()), pool)
        assert latest.look().version == 0
        for number in range(3):
            assert commit(store, f"n{number}") == latest.look().version
            known = latest.look()
            counting.reset()
            assert latest.look() is known
            assert asyncio.run(latest.snapshot()) is known
            assert counting.sequence == [("exists", root_path(known.version + 1))] * 2


def test_a_version_that_was_purged_under_it_is_noticed_by_the_next_whole_look():
    """An expire did not wait for others: the known version and the ones after it are gone."""
    store, clock = MemoryStore(), FakeClock()
    Catalog.create(store)
    with ThreadPoolExecutor(2) as pool:
        latest = LatestLookup(Catalog(store, clock), pool)
        latest.look()
        for number in range(3):
            commit(store, f"n{number}")
        store.overwrite("vn/oldest", b"3")
        store.delete_many([root_path(version) for version in range(3)])
        clock.advance(SURE_FOR_MILLIS)
        assert latest.look().version == 3


def test_another_root_under_the_same_number_is_another_version():
    """A copy of an older root that a repair set aside, and a commit that took its place."""
    store, clock = MemoryStore(), FakeClock()
    Catalog.create(store)
    for name in ("a", "b"):
        commit(store, name)
    store.create(root_path(3), store.read(root_path(1)))
    with ThreadPoolExecutor(2) as pool:
        latest = LatestLookup(Catalog(store, clock), pool)
        latest.look()
        store.delete_many([root_path(3)])
        assert commit(store, "c") == 3
        clock.advance(SURE_FOR_MILLIS)
        assert sorted(name.namespace for name in latest.look().namespaces()) == ["a", "b", "c"]


def test_a_machine_that_slept_without_its_clock_going_on_looks_again():
    store, clock = MemoryStore(), FakeClock()
    Catalog.create(store)
    with ThreadPoolExecutor(2) as pool:
        latest = LatestLookup(Catalog(store, clock), pool)
        latest.look()
        for number in range(3):
            commit(store, f"n{number}")
        store.overwrite("vn/oldest", b"3")
        store.delete_many([root_path(version) for version in range(3)])
        clock.set_wall(clock.now_millis() + SURE_FOR_MILLIS)
        assert latest.look().version == 3


class Slow(WrappedStore):
    """Answers a probe when it is told to."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.waiting = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.probes = 0

    def exists(self, path: str) -> bool:
        self.probes += 1
        self.waiting.release()
        assert self.go.acquire(timeout=30)
        return super().exists(path)


def test_requests_that_come_together_ask_once_and_never_too_early():
    store = MemoryStore()
    Catalog.create(store)
    slow = Slow(store)

    async def main() -> None:
        with ThreadPoolExecutor(2) as pool:
            latest = LatestLookup(Catalog(slow, FakeClock()), pool)
            await latest.snapshot()
            latest._is_quick = False  # however quick the first look was: the next one waits
            first = asyncio.create_task(latest.snapshot())
            async with asyncio.timeout(60):
                while not slow.waiting.acquire(blocking=False):
                    await asyncio.sleep(0)
            # the question is under way; what is committed now must be seen by those who come from now on
            version = commit(store, "n")
            later = [asyncio.create_task(latest.snapshot()) for _ in range(10)]
            await asyncio.sleep(0)
            slow.go.release(2)
            assert (await first).version in (0, version)
            assert {(await one).version for one in later} == {version}
            assert slow.probes == 2

    asyncio.run(main())


def test_a_failing_store_is_reported_and_retried():
    class Failing(WrappedStore):
        fails = False

        def exists(self, path: str) -> bool:
            if self.fails:
                raise StorageFailed("no")
            return super().exists(path)

    failing = Failing(MemoryStore())
    Catalog.create(failing)

    async def main() -> None:
        with ThreadPoolExecutor(2) as pool:
            latest = LatestLookup(Catalog(failing, FakeClock()), pool)
            await latest.snapshot()
            failing.fails = True
            for _ in range(3):
                with pytest.raises(StorageFailed):
                    await latest.snapshot()
            failing.fails = False
            assert (await latest.snapshot()).version == 0

    asyncio.run(main())


def test_work_that_ends_too_early_is_an_error_and_no_silence():
    async def main() -> None:
        with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError):
            await LatestLookup(Catalog(MemoryStore()), pool).run(lambda: next(iter(())))

    asyncio.run(asyncio.wait_for(main(), 30))
