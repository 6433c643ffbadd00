"""Clocks that jump, machines that sleep, and what an expire does meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import SystemClock
from olympia_cli.errors import CommitConflict, CommitUnknown, Damaged, OlympiaError, TransactionExpired
from olympia_cli.format.paths import parse_root_path, root_path
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_versions, replay
from tests.helpers.clock import DAY, HOUR, MINUTE, START, FakeClock
from tests.helpers.expire import mark, purge
from tests.helpers.names import location, ns, table
from tests.helpers.stores import WrappedStore

LIFETIME = 3 * DAY


class WatchedStore(WrappedStore):
    """Calls functions before or after steps of a commit, and records the time of each file's creation.

    `before_root` and `after_root` surround the creation of a root, `before_files` and `after_files` that of the other
    files. `after_definition` follows the read of the catalog's definition, in the same round trip as the latest root.
    `after_look` follows a read of roots, which confirms the latest version.
    """

    def __init__(self, store, clock):
        super().__init__(store)
        self.clock = clock
        self.created_at = {}
        self.steps = {}

    def at(self, step, function, times=1):
        """Call the function at a step, a number of times."""
        self.steps[step] = [function] * times
        return self

    def _step(self, step):
        if self.steps.get(step):
            self.steps[step].pop()()

    def create(self, path, data):
        is_root = parse_root_path(path) is not None
        if is_root:
            self._step("before_root")
        super().create(path, data)
        self.created_at[path] = self.clock.elapsed_millis()
        if is_root:
            self._step("after_root")

    def create_many(self, files):
        self._step("before_files")
        # by the time that the batch was begun: no file is older than that
        self.created_at.update(dict.fromkeys(files, self.clock.elapsed_millis()))
        super().create_many(files)
        self._step("after_files")

    def read_many(self, paths):
        paths = list(paths)
        found = list(super().read_many(paths))
        if any(path.startswith("def/catalog/") for path in paths):
            self._step("after_definition")
        if any(parse_root_path(path) is not None for path in paths):
            self._step("after_look")
        yield from found


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def files():
    return MemoryStore()


@pytest.fixture
def watched(files, clock):
    return WatchedStore(files, clock)


@pytest.fixture
def catalog(watched, clock):
    """The catalog of the writer that has flaw with its clock. Version 1 has the namespace a with ten tables."""
    catalog = Catalog.create(watched, order=4, clock=clock, txn_ttl_millis=LIFETIME)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for number in range(10):
            transaction.create_table(table(f"a.t{number}"), location(number))
    return catalog


@pytest.fixture
def others(files, clock, catalog):
    """The catalog as other writers see it."""
    return Catalog(files, clock)


def commit(catalog, name, **more):
    transaction = catalog.begin()
    transaction.create_table(table(f"a.{name}"), location())
    return catalog.commit(transaction, **more)


class TestTimeOfDay:
    def test_created_at_never_decreases(self, catalog, clock, files):
        times = []
        for jump in (0, -HOUR, 10 * MINUTE, -400 * DAY, 0, 401 * DAY, -1):
            clock.set_wall(clock.wall + jump)
            version = commit(catalog, f"n{len(times)}").version
            times.append(catalog.snapshot().created_at_millis)
            assert version == len(times) + 1
        assert times == sorted(times)
        assert times[3] == START, "a writer whose clock is behind takes its predecessor's time"
        assert times[-1] > START
        replay(files)

    def test_another_writers_clock_is_behind(self, catalog, files):
        behind = Catalog(files, FakeClock(wall=START - 20 * MINUTE))
        commit(behind, "behind")
        assert behind.snapshot().created_at_millis == START

    def test_a_rebase_takes_the_winners_time(self, catalog, files, clock):
        transaction = catalog.begin()
        transaction.create_table(table("a.mine"), location())
        commit(Catalog(files, FakeClock(wall=START + 20 * MINUTE)), "ahead")
        catalog.commit(transaction)
        assert catalog.snapshot().created_at_millis == START + 20 * MINUTE
        replay(files)


class TestLifetime:
    @pytest.mark.parametrize(
        ("move", "expired"),
        [
            (lambda clock: clock.advance(LIFETIME), False),
            (lambda clock: clock.advance(LIFETIME + 1), True),
            (lambda clock: clock.set_wall(START + LIFETIME + 1), True),
            (lambda clock: clock.set_wall(START - 100 * DAY), False),
            (lambda clock: (clock.advance(LIFETIME + 1), clock.set_wall(START)), True),
            (lambda clock: (clock.set_wall(START - 100 * DAY), clock.advance(LIFETIME + 1)), True),
            (lambda clock: (clock.set_wall(START + LIFETIME + 1), clock.set_wall(START)), False),
        ],
        ids=[
            "just in time",
            "both clocks passed it",
            "only the wall clock passed it",
            "the wall clock was set back",
            "set back after the lifetime",
            "set back before the lifetime",
            "the wall clock went there and came back",
        ],
    )
    def test_past_it_nothing_is_committed(self, catalog, clock, files, move, expired):
        transaction = catalog.begin()
        transaction.create_table(table("a.mine"), location())
        before = {file.path for file in files.list()}
        move(clock)
        if not expired:
            assert catalog.commit(transaction).version == 2
            return
        with pytest.raises(TransactionExpired) as raised:
            catalog.commit(transaction)
        assert raised.value.exit_code == 12
        assert {file.path for file in files.list()} == before, "nothing was written"

    @pytest.mark.parametrize("left", [LIFETIME, 10 * MINUTE])
    def test_it_passes_while_the_files_are_written(self, catalog, clock, watched, left):
        """Also where they are not old enough to be written again."""
        transaction = catalog.begin()
        transaction.create_table(table("a.mine"), location())
        clock.advance(LIFETIME - left)
        watched.at("after_files", lambda: clock.advance(left + 1))
        with pytest.raises(TransactionExpired):
            catalog.commit(transaction)
        assert catalog.snapshot().version == 1

    def test_it_passes_while_the_commit_tries_again(self, catalog, clock, others, watched):
        transaction = catalog.begin()
        transaction.create_table(table("a.mine"), location())
        watched.at("before_root", lambda: (commit(others, "winner"), clock.advance(LIFETIME + 1)))
        with pytest.raises(TransactionExpired):
            catalog.commit(transaction)
        assert others.snapshot().version == 2

    @pytest.mark.parametrize("when", ["before_root", "after_root"])
    def test_a_root_created_slightly_late_is_committed(self, catalog, clock, files, watched, when):
        watched.at(when, lambda: clock.advance(LIFETIME + 30 * MINUTE))
        assert commit(catalog, "mine").version == 2
        assert table("a.mine") in replay(files)[2]

    @pytest.mark.parametrize("when", ["before_root", "after_root"])
    @pytest.mark.parametrize("clocks", ["both", "elapsed", "wall"])
    def test_a_root_created_much_later_is_unknown(self, catalog, clock, files, watched, when, clocks):
        late = LIFETIME + 30 * MINUTE + 1

        def sleep():
            clock.advance(0 if clocks == "wall" else late)
            clock.set_wall({"both": clock.wall, "elapsed": START, "wall": START + late}[clocks])

        watched.at(when, sleep)
        transaction = catalog.begin()
        transaction.create_table(table("a.mine"), location())
        with pytest.raises(CommitUnknown) as raised:
            catalog.commit(transaction)
        assert raised.value.exit_code == 21
        assert transaction.id in str(raised.value), "it says what to look for"
        with pytest.raises(OlympiaError):
            catalog.commit(transaction)
        assert max(replay(files)) == 2, "it was committed once"


class TestAgeOfFiles:
    """Until a root names them, only their age protects files from an expire."""

    def check_fresh(self, watched, files):
        [*_, before, version] = check_versions(files)
        root_at = watched.created_at[root_path(version.number)]
        new = version.files - before.files
        old = {path: (root_at - watched.created_at.get(path, 0)) // MINUTE for path in new}
        too_old = {path: f"{age} minutes" for path, age in old.items() if age > 30}
        assert not too_old, "the root names files that were written long before it"
        replay(files)
        return new

    @pytest.mark.parametrize("minutes", [29, 31, 60, 24 * 60])
    def test_a_sleep_between_the_files_and_the_root(self, catalog, clock, files, watched, minutes):
        written = set(files._files)
        watched.at("after_files", lambda: clock.advance(minutes * MINUTE))
        assert commit(catalog, "mine").version == 2
        new = self.check_fresh(watched, files)
        left = set(files._files) - written - new - {"vn/latest"}
        assert bool(left) == (minutes > 30), "they are written again only when they must"

    def test_a_batch_that_takes_long(self, catalog, clock, files, watched):
        original = WrappedStore.create_many

        def slow(mapping):
            watched.created_at.update(dict.fromkeys(mapping, clock.elapsed_millis()))
            original(watched, mapping)
            clock.advance(40 * MINUTE if not watched.steps else 0)
            watched.steps["slept"] = [None]

        watched.create_many = slow
        assert commit(catalog, "mine").version == 2
        self.check_fresh(watched, files)

    def test_a_sleep_before_the_commit_tries_again(self, catalog, clock, files, others, watched):
        watched.at("before_root", lambda: (commit(others, "winner"), clock.advance(40 * MINUTE)))
        assert commit(catalog, "mine").version == 3
        self.check_fresh(watched, files)

    def test_many_short_sleeps(self, catalog, clock, files, others, watched):
        turns = iter(range(5))
        # beside ours, so that each attempt writes a node again and uses the definition that the first one wrote
        watched.at("before_root", lambda: (commit(others, f"mine{next(turns)}"), clock.advance(11 * MINUTE)), times=5)
        assert commit(catalog, "mine").version == 7
        self.check_fresh(watched, files)

    def test_a_store_that_is_always_too_slow_is_not_tried_for_ever(self, catalog, clock, files, watched):
        tries = 0

        def slow():
            nonlocal tries
            tries += 1
            assert tries < 1000, "the commit goes on although its transaction is long past its lifetime"
            clock.advance(31 * MINUTE)

        watched.at("after_files", slow, times=1001)
        with pytest.raises(TransactionExpired):
            commit(catalog, "mine")
        assert Catalog(files, clock).snapshot().version == 1

    def test_a_distributed_transaction_that_was_saved_long_ago(self, catalog, clock, files, watched):
        running = distributed.begin(catalog)
        running.transaction.create_table(table("a.mine"), location())
        running.transaction.rename_table(table("a.t1"), table("a.renamed"))
        running.save()
        clock.advance(2 * DAY)
        distributed.load(catalog, running.id).commit()
        self.check_fresh(watched, files)


# A writer that sleeps through an expire


def expire(files, clock, keep):
    """Mark and purge all but the last few versions, as the format describes it, at the least times that it allows."""
    catalog = Catalog(files, clock)
    oldest = catalog.snapshot().version + 1 - keep
    mark(catalog, oldest)
    files.overwrite("vn/oldest", str(oldest).encode())
    clock.advance(HOUR)
    candidates = {file.path for file in files.list() if not file.path.startswith(("vn/latest", "vn/oldest"))}
    purge(catalog, oldest)
    files.overwrite("vn/oldest", str(oldest).encode())
    kept = set().union(*(version.files for version in check_versions(files)))
    files.delete_many(sorted(candidates - kept))
    return oldest


class TestSleepingThroughAnExpire:
    @pytest.fixture
    def sleep(self, files, clock, others):
        """Let others commit, pass the writer's lifetime, and free its names by an expire."""

        def happen():
            for number in range(6):
                commit(others, f"other{number}")
                clock.advance(HOUR)
            clock.advance(LIFETIME + DAY)
            for number in range(6, 9):
                commit(others, f"other{number}")
                clock.advance(HOUR)
            assert expire(files, clock, keep=3) >= 8
            for wanted in (2, 3):
                assert not files.exists(root_path(wanted)), "the name that the writer wants is free again"
            self.true_latest = others.snapshot().version

        return happen

    @contextmanager
    def never_acknowledged(self, files):
        with pytest.raises((TransactionExpired, CommitUnknown, CommitConflict, Damaged)) as raised:
            yield
        assert raised.value.exit_code in (12, 20, 21, 40)
        self.check_readers(files)

    def check_readers(self, files):
        """Whatever lies at the freed name, and whatever became of the hints, readers open the true latest version."""
        latest = self.true_latest
        hints = {path: files.read(path) for path in ("vn/latest", "vn/oldest")}
        for change in (
            {},
            {"vn/latest": None},
            {"vn/latest": b"garbage"},
            {"vn/latest": b"1"},
            {"vn/latest": b"2"},
            {"vn/latest": b"1000000"},
            {"vn/oldest": None},
            {"vn/oldest": b"garbage"},
            {"vn/latest": None, "vn/oldest": None},
        ):
            for path, data in (hints | change).items():
                files.delete_many([path]) if data is None else files.overwrite(path, data)
            opened = Catalog(files).snapshot()
            assert opened.version == latest, f"with the hints {hints | change}"
            assert opened.find(table("a.other8"))
            assert opened.find(table("a.mine")) is None
        for path, data in hints.items():
            files.overwrite(path, data)
        versions = check_versions(files)
        assert versions[-1].number == latest
        assert all(table("a.mine") not in version.contents for version in versions)

    @pytest.mark.parametrize("when", ["before_files", "after_files", "before_root"])
    def test_in_a_commit(self, catalog, files, watched, sleep, when):
        watched.at(when, sleep)
        with self.never_acknowledged(files):
            commit(catalog, "mine")

    def test_between_two_statements(self, catalog, files, sleep):
        transaction = catalog.begin()
        transaction.create_table(table("a.mine"), location())
        sleep()
        with self.never_acknowledged(files):
            catalog.commit(transaction)

    def test_after_losing_a_race(self, catalog, others, files, watched, sleep):
        watched.at("before_root", sleep)
        watched.steps["before_root"].append(lambda: commit(others, "winner"))
        with self.never_acknowledged(files):
            commit(catalog, "mine")

    def test_while_beginning(self, clock, files, watched, sleep):
        """The lifetime counts from before the version was read, not from after."""
        # the writer changes the catalog's own definition, so that it needs no file of the version that is gone
        watched.at("after_definition", sleep)
        catalog = Catalog(watched, clock)
        with self.never_acknowledged(files):
            transaction = catalog.begin()
            transaction.alter_catalog({"mine": "1"})
            catalog.commit(transaction)

    def test_beginning_on_a_remembered_version_finds_the_latest(self, clock, files, watched, sleep):
        """A writer that slept before the answer does not use it: the known version is no longer the latest."""
        catalog = Catalog(watched, clock, remembers=True)
        catalog.snapshot()
        watched.at("after_look", sleep)
        transaction = catalog.begin()
        assert transaction.base.version == self.true_latest
        transaction.alter_catalog({"mine": "1"})
        with self.never_acknowledged(files):
            catalog.commit(transaction)

    def test_a_distributed_transaction_while_beginning(self, clock, files, watched, sleep):
        watched.at("after_definition", sleep)
        catalog = Catalog(watched, clock)
        with self.never_acknowledged(files):
            running = distributed.begin(catalog)
            running.transaction.alter_catalog({"mine": "1"})
            running.commit()

    def test_a_distributed_transaction(self, catalog, files, watched, sleep):
        running = distributed.begin(catalog)
        running.transaction.create_table(table("a.mine"), location())
        running.save()
        watched.at("before_root", sleep)
        with self.never_acknowledged(files):
            distributed.load(catalog, running.id).commit()

    def test_others_go_on_afterwards(self, catalog, others, files, watched, sleep):
        watched.at("before_root", sleep)
        with self.never_acknowledged(files):
            commit(catalog, "mine")
        assert files.exists(root_path(2)), "its root lies at the freed name, where nobody looks"
        assert commit(others, "later").version == self.true_latest + 1
        assert commit(catalog, "again").version == self.true_latest + 2
        replay(files)


UNHEARD = """
import signal, threading, time
from olympia_cli.catalog.clock import SystemClock

signal.signal(signal.SIGINT, signal.default_int_handler)
begun, ended = threading.Event(), threading.Event()

def interrupt():
    begun.wait()
    # most likely it sleeps by then; if not, it is interrupted all the same
    time.sleep(0.2)
    # here it does not end the sleep of the main thread, as one does not that comes just before it
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    if not ended.wait(30):
        print("once more")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    begun.set()
    SystemClock().sleep(3600)
except KeyboardInterrupt:
    ended.set()
    print("interrupted")
"""


def test_ctrl_c_interrupts_although_the_sleep_continues():
    done = subprocess.run([sys.executable, "-c", UNHEARD], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_sleep_lasts_as_long_as_it_is_to():
    clock = SystemClock()
    began = time.monotonic()
    clock.sleep(0.6)
    assert time.monotonic() - began >= 0.6
