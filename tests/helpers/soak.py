"""Writers, expires, checks and exports on one catalog at once, as real processes, with a clock that follows the work.

Floors and lifetimes are hours. So all processes share a clock that advances twenty minutes with each turn of an expire,
and times of files follow it. An expire takes its turn after a number of commits of others. As much happens in an hour
on a busy machine as on an idle one. Everything else is real: the code, the floors and the store.

All processes work until each has reached its goal, however long that takes on this machine. So every kind of work
happens while the others are running.

As a program, `python -m tests.helpers.soak` follows a protocol:

1. It reads its task as one line of JSON, prints `ready`, and waits for another line.
2. It works, prints `done` when it has reached its goal, and continues until it gets a third line.
3. It prints its report as one line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.references import oldest_version
from olympia_cli.errors import CommitUnknown, OlympiaError
from olympia_cli.format.actions import commit_info
from olympia_cli.names import AtVersion, NamespaceName, TableName
from olympia_cli.ops.expire import ExpirePlanner, Floors, mark, purge, read_policy, undo
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.records import drop_export
from olympia_cli.ops.export.verify import verify_export
from olympia_cli.ops.fsck import Level, Severity
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import FileInfo, Store
from tests.helpers import writer
from tests.helpers.check import check_versions, replay
from tests.helpers.clock import HOUR, MINUTE
from tests.helpers.fsck import fsck
from tests.helpers.stores import WrappedStore

LIFETIME = HOUR
FLOORS = Floors(HOUR, HOUR)
POOL_NAMESPACE = NamespaceName("spread")


TICK = 20 * MINUTE
"""Time that passes with each turn of an expire."""

COMMITS = 5
"""Minimum number of commits of others between two turns of an expire."""

PATIENCE_BY_CLOCK = 1000 * HOUR / 1000
"""The seconds to retry for, by that clock."""


class WorkClock:
    """A clock that advances on request. All processes share a file with the wall times of the advances."""

    def __init__(self, ticks: str, began: float) -> None:
        self._ticks = ticks
        self._began = round(began * 1000)
        self._moments: list[float] = []

    def tick(self) -> None:
        with open(self._ticks, "ab", buffering=0) as file:
            file.write(struct.pack("d", time.time()))

    def now_millis(self) -> int:
        return self._began + os.stat(self._ticks).st_size // 8 * TICK

    def elapsed_millis(self) -> int:
        return self.now_millis()

    def at(self, seconds: float) -> int:
        """Return the time that it showed at a wall time."""
        if not self._moments or seconds >= self._moments[-1]:
            data = Path(self._ticks).read_bytes()
            self._moments = sorted(struct.unpack(f"{len(data) // 8}d", data))
        return self._began + bisect_right(self._moments, seconds) * TICK

    def sleep(self, seconds: float) -> None:
        # it waits for other processes, which are no faster
        time.sleep(seconds)


class WorkStore(WrappedStore):
    """A store whose files have the times of that clock."""

    def __init__(self, store: Store, clock: WorkClock) -> None:
        super().__init__(store)
        self._clock = clock

    def stat(self, path: str) -> FileInfo:
        return self._told(self.inner.stat(path))

    def list(self, prefix: str = "", temporary: bool = False) -> Iterator[FileInfo]:
        return (self._told(file) for file in self.inner.list(prefix, temporary))

    def _told(self, file: FileInfo) -> FileInfo:
        return replace(file, modified_at_millis=self._clock.at(file.modified_at_millis / 1000))


@dataclass
class Report:
    """The report of a process: acknowledged commits, counts of events, and failures."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    history: dict[int, str] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    ended_at: int = 0
    """When all were done, by their clock."""

    def encode(self) -> str:
        return json.dumps([self.acknowledged, self.refused, list(self.history.items()), dict(self.counted), self.wrong])

    @classmethod
    def decode(cls, text: str) -> Report:
        acknowledged, refused, history, counted, wrong = json.loads(text)
        return cls(acknowledged, refused, dict(history), Counter(counted), wrong)

    def add(self, other: Report) -> None:
        self.acknowledged |= other.acknowledged
        self.refused += other.refused
        self.history |= other.history
        self.counted += other.counted
        self.wrong += other.wrong


EXPECTED = frozenset({"CommitConflict", "SavedElsewhere", "Refused", "ExportExists"})
"""Errors that are allowed while other processes work."""

LATE = frozenset({"TransactionExpired", "CommitUnknown", "VersionNotFound"})
"""Errors that are allowed for work that was delayed beyond its lifetime."""


class Worker:
    """A process of the soak."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.number: int = task["number"]
        self.clock = WorkClock(task["ticks"], task["began"])
        self.store: Store = WorkStore(open_store(task["uri"], task["options"]), self.clock)
        self.catalog = Catalog(self.store, self.clock)
        self.scratch = Path(task["scratch"])
        self.chosen = random.Random(self.number)
        self.report = Report()
        self.turn = 0
        self.expired_at = 0
        self.stop = threading.Event()

    def run(self, role: str, goal: Mapping[str, int], done: Callable[[], None]) -> Report:
        """Work until told to stop; say once when the goal is reached."""
        step: Callable[[], None] = getattr(self, role)
        reached = False
        while not self.stop.is_set():
            self.turn += 1
            began = self.clock.now_millis()
            try:
                step()
            except OlympiaError as error:
                kind = type(error).__name__
                took = self.clock.now_millis() - began
                late = took > HALF_AN_HOUR_MILLIS and kind in LATE
                self.report.counted[f"{role}: {kind}"] += 1
                if kind not in EXPECTED and not late:
                    self.report.wrong.append(f"{role}: {error!r} after {took / 60_000:.0f} minutes")
            if reached:
                # there is company still for those that have not got there, and no more to check than need be
                self.stop.wait(1)
            elif all(self.report.counted[what] >= times for what, times in goal.items()):
                reached = True
                done()
        return self.report

    def _told(self, id: str, version: int, what: str) -> None:
        self.report.counted[what] += 1
        self.report.acknowledged[id] = version

    def _rest(self, millis: float) -> None:
        """Wait on the clock that an expire advances, but not on a clock that has stopped."""
        end = self.clock.now_millis() + millis
        while self.clock.now_millis() < end and not self.stop.wait(0.005):
            pass

    # Roles

    def write(self) -> None:
        """Make a change, as `tests.helpers.writer` does."""
        transaction, what, refused = writer._begin(self.catalog, self.number, self.turn, self.chosen)
        if refused:
            self.report.counted["refused statements"] += 1
            return
        try:
            done = self.catalog.commit(transaction, what, by="soak", retry_for=PATIENCE_BY_CLOCK)
        except OlympiaError as error:
            if not isinstance(error, CommitUnknown):
                self.report.refused.append(transaction.id)
            raise
        self._told(transaction.id, done.version, "commits")

    def distribute(self) -> None:
        """Begin a distributed transaction, wait, and let another process load, continue and commit it."""
        begun = distributed.begin(self.catalog)
        begun.transaction.create_table(TableName("spread", f"t{self.number}-{self.turn}"), "s3://x")
        begun.save()
        # up to half of its lifetime
        self._rest(self.chosen.random() * LIFETIME / 2)
        loaded = distributed.load(self.catalog, begun.id)
        loaded.transaction.create_table(TableName("spread", f"u{self.number}-{self.turn}"), "s3://x")
        done = loaded.commit("spread", by="soak", retry_for=PATIENCE_BY_CLOCK)
        self._told(begun.id, done.version, "distributed commits")

    def expire(self) -> None:
        """Mark what may go and purge what has rested; now and then undo. Before, note what history holds."""
        if not self._others_went_on():
            return
        self.clock.tick()
        planner = ExpirePlanner(self.catalog, FLOORS)
        policy = read_policy(planner.facts.definition, self.clock.now_millis())
        plan = planner.expire(policy).mark
        # all that the plan takes out of history is noted, however long it took to make
        self._note_history()
        done = mark(self.catalog, plan, retry_for=PATIENCE_BY_CLOCK) if plan.expired else None
        if done is not None:
            self._expired(done, "marks")
            self.report.counted["marked versions"] += len(plan.expired)
        if self.chosen.random() < 0.06 and (done := undo(self.catalog, retry_for=PATIENCE_BY_CLOCK)) is not None:
            self._expired(done, "undone marks")
        planner = ExpirePlanner(self.catalog, FLOORS)
        purged = planner.purge()
        if not purged.is_empty:
            done = purge(self.catalog, purged, planner.facts.head.version, FLOORS, retry_for=PATIENCE_BY_CLOCK)
            self.report.counted["purged versions"] += purged.purged - purged.former_purged
            self.report.counted["purged files"] += len(purged.files)
            if done is not None:
                self._expired(done, "purges")

    def _others_went_on(self) -> bool:
        while (version := self.catalog.snapshot().version) < self.expired_at + COMMITS:
            # a look takes several requests
            if self.stop.wait(0.2):
                return False
        self.expired_at = version
        return True

    def _expired(self, done: Any, what: str) -> None:
        info = commit_info(done.actions)
        assert info is not None
        self._told(info.transaction_id, done.version, what)

    def _note_history(self) -> None:
        latest = self.catalog.snapshot()
        first = max(max(self.report.history, default=-1) + 1, oldest_version(latest))
        for version in range(first, latest.version + 1):
            info = commit_info(self.catalog.snapshot(AtVersion(version)).actions())
            assert info is not None
            self.report.history[version] = info.transaction_id

    def check(self) -> None:
        """Look at everything: no error may be found at any moment."""
        level = self.chosen.choice([Level.STRUCTURE, Level.FULL])
        found = fsck(self.store, level=level, all_versions=True, clock=self.clock)
        self.report.counted["fsck runs"] += 1
        errors = [one for one in found.findings if one.severity is Severity.ERROR]
        for one in errors[:3]:
            self.report.wrong.append(f"fsck at version {found.version}: {one}")
        self._rest(TICK)

    def export(self) -> None:
        """Export the latest version, let time pass, look whether it is still whole, and drop it."""
        mode = Mode.FULL if self.turn % 2 else Mode.MINIMAL
        name = f"export-{self.number}-{self.turn}"
        dest = LocalStore(self.scratch / name, durable=False)
        done = create_export(self.catalog, dest, name, scope(mode), message=name, retry_for=PATIENCE_BY_CLOCK)
        self.report.counted[f"{mode} exports"] += 1
        # meanwhile the version that it is of may expire
        self._rest(self.chosen.random() * 3 * HOUR)
        verified = verify_export(dest, done.note, self.store)
        if verified.findings:
            self.report.wrong.append(f"{mode} export of version {done.note.version}: {verified.findings[:2]}")
        drop_export(self.catalog, name, retry_for=PATIENCE_BY_CLOCK)
        self.report.counted["dropped exports"] += 1
        shutil.rmtree(self.scratch / name)


ROLES = ("write", "write", "write", "write", "distribute", "expire", "check", "export")

GOALS: Mapping[str, Mapping[str, int]] = {
    "write": {"commits": 8},
    "distribute": {"distributed commits": 2},
    "expire": {"marks": 1, "purges": 1, "purged files": 1},
    "check": {"fsck runs": 3},
    "export": {"full exports": 1, "dropped exports": 1},
}
"""Events that must happen to a process of each role before the soak may stop, with their numbers."""

PATIENCE = 300.0
"""Seconds after which a goal counts as missed."""


def prepare(store: Store, clock: WorkClock) -> None:
    """The catalog that `tests.helpers.writer` works on, with short lifetimes."""
    catalog = Catalog.create(
        store,
        order=4,
        txn_ttl_millis=LIFETIME,
        properties={"olympia.retention.max-version-age": "1h", "olympia.retention.min-versions": "3"},
        clock=clock,
    )
    with catalog.transaction() as transaction:
        transaction.create_namespace(writer.SHARED)
        transaction.create_namespace(POOL_NAMESPACE)
        transaction.create_table(writer.HOT, "s3://hot")
        for number in range(writer.POOL):
            transaction.create_table(TableName("shared", f"pool{number}"), f"s3://pool/{number}")
        for number in range(4):
            transaction.create_namespace(NamespaceName(f"own{number}"))


@dataclass(frozen=True)
class Soak:
    """The location and the goal of a soak."""

    uri: str
    options: Mapping[str, object]
    scratch: Path
    goals: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: GOALS)
    roles: Sequence[str] = ROLES
    seconds: float = 0
    """To go on for at least so long, whatever is reached by then."""

    def tasks(self) -> list[dict[str, Any]]:
        began = time.time()
        self.scratch.mkdir(parents=True, exist_ok=True)
        ticks = self.scratch / "ticks"
        ticks.touch()
        clock = WorkClock(str(ticks), began)
        store = WorkStore(open_store(self.uri, dict(self.options)), clock)
        prepare(store, clock)
        store.close()
        return [
            {
                "uri": self.uri,
                "options": dict(self.options),
                "scratch": str(self.scratch),
                "number": number,
                "role": role,
                "began": began,
                "ticks": str(ticks),
                "goal": dict(self.goals[role]),
            }
            for number, role in enumerate(self.roles)
        ]

    def in_processes(self) -> Report:
        root = Path(__file__).parents[2]
        processes: list[subprocess.Popen[str]] = []
        total = Report()
        tasks = self.tasks()
        try:
            for task in tasks:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.helpers.soak"],
                    cwd=root,
                    env={**os.environ, "PYTHONPATH": str(root)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                processes.append(process)
                _say(process, json.dumps(task))
            for word, answer, least in (("ready", "go", 0), ("done", "stop", self.seconds)):
                began = time.monotonic()
                for process in processes:
                    _hear(process, word)
                time.sleep(max(0, began + least - time.monotonic()))
                for process in processes:
                    _say(process, answer)
            for process in processes:
                out, err = process.communicate(timeout=PATIENCE)
                if process.returncode != 0:
                    raise AssertionError(f"a process failed:\n{err}")
                total.add(Report.decode(out))
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        total.ended_at = _now(tasks[0])
        return total

    def in_threads(self) -> Report:
        total = Report()
        tasks = self.tasks()
        workers = [Worker(task) for task in tasks]
        goals = [threading.Event() for _ in tasks]
        with ThreadPoolExecutor(len(workers)) as pool:
            running = [
                pool.submit(worker.run, task["role"], task["goal"], reached.set)
                for worker, task, reached in zip(workers, tasks, goals, strict=True)
            ]
            try:
                for task, reached in zip(tasks, goals, strict=True):
                    assert reached.wait(PATIENCE), f"{task['role']} did not get to {task['goal']}"
            finally:
                for worker in workers:
                    worker.stop.set()
            for report in running:
                total.add(report.result())
        for worker in workers:
            worker.store.close()
        total.ended_at = _now(tasks[0])
        return total


def _now(task: Mapping[str, Any]) -> int:
    return WorkClock(task["ticks"], task["began"]).now_millis()


def check_told(store: Store, total: Report) -> None:
    """Check that no failure happened, that the catalog is sound, and that history has each acknowledged commit once."""
    assert not total.wrong, "\n".join(total.wrong[:10])
    versions = check_versions(store, now_millis=total.ended_at)
    replay(store, now_millis=total.ended_at)
    for version in versions:
        id = total.history.setdefault(version.number, version.info.transaction_id)
        assert id == version.info.transaction_id, f"version {version.number} was another's before"
    missing = set(range(max(total.history) + 1)) - total.history.keys()
    assert not missing, f"nobody has seen the versions {sorted(missing)[:10]}"
    at = {id: version for version, id in total.history.items()}
    assert len(at) == len(total.history), "a transaction is in history twice"
    lost = {id: version for id, version in total.acknowledged.items() if at.get(id) != version}
    assert not lost, f"acknowledged, and not in history: {lost}"
    uninvited = at.keys() & set(total.refused)
    assert not uninvited, f"in history, although its writer was told otherwise: {uninvited}"


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str], word: str) -> None:
    """Wait until a process says so; one that never does is killed, and what it said on stderr is told."""
    assert process.stdout is not None
    alarm = threading.Timer(PATIENCE, process.kill)
    alarm.start()
    said = process.stdout.readline()
    alarm.cancel()
    if said != f"{word}\n":
        raise AssertionError(f"a process was not {word}, but said {said!r}:\n{process.communicate(timeout=60)[1]}")


def main() -> None:
    task = json.loads(sys.stdin.readline())
    worker = Worker(task)
    worker.catalog.snapshot()
    print("ready", flush=True)
    sys.stdin.readline()
    threading.Thread(target=lambda: (sys.stdin.readline(), worker.stop.set()), daemon=True).start()
    report = worker.run(task["role"], task["goal"], lambda: print("done", flush=True))
    worker.store.close()
    print(report.encode(), flush=True)


if __name__ == "__main__":
    main()
