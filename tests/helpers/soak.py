"""Writers, expires, checks and exports on one catalog at once, as real processes, with clocks that run fast.

Floors and lifetimes are hours, so every process lives by a clock of which an hour takes seconds, and sees the times of
files by it too. Nothing else is changed: the code, the floors and the store are the real ones.

As a program (`python -m tests.helpers.soak`) it reads its task as one line of JSON, says `ready`, waits for another
line, works until its time is over, and prints its report as one line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
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
from olympia_cli.ops.expire.expire import mark, purge, undo
from olympia_cli.ops.expire.plan import Floors, Planner
from olympia_cli.ops.expire.retention import read_policy
from olympia_cli.ops.export.drop import drop_export
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.note import Mode, scope
from olympia_cli.ops.export.verify import verify_export
from olympia_cli.ops.fsck.findings import Severity
from olympia_cli.ops.fsck.fsck import Level, fsck
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import FileInfo, Store
from tests.helpers import writer
from tests.helpers.check import check_versions, replay
from tests.helpers.clock import HOUR
from tests.helpers.stores import WrappedStore

LIFETIME = HOUR
FLOORS = Floors(HOUR, HOUR)
POOL_NAMESPACE = NamespaceName("spread")


class FastClock:
    """So many times as fast as the clock on the wall, from a moment that all processes know."""

    def __init__(self, began: float, rate: int) -> None:
        self._began = began
        self._rate = rate

    def now_millis(self) -> int:
        return self.scaled(time.time())

    def elapsed_millis(self) -> int:
        return self.now_millis()

    def scaled(self, seconds: float) -> int:
        return round((self._began + (seconds - self._began) * self._rate) * 1000)

    def sleep(self, seconds: float) -> None:
        # it waits for other processes, which are no faster
        time.sleep(seconds)


class FastStore(WrappedStore):
    """A store whose files have the times of that clock."""

    def __init__(self, store: Store, clock: FastClock) -> None:
        super().__init__(store)
        self._clock = clock

    def stat(self, path: str) -> FileInfo:
        return self._fast(self.inner.stat(path))

    def list(self, prefix: str = "", temporary: bool = False) -> Iterator[FileInfo]:
        return (self._fast(file) for file in self.inner.list(prefix, temporary))

    def _fast(self, file: FileInfo) -> FileInfo:
        return replace(file, modified_at_millis=self._clock.scaled(file.modified_at_millis / 1000))


@dataclass
class Report:
    """What a process did: each commit that it was told of, how often what happened, and what should not have."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    history: dict[int, str] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

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
"""How work may end while others work too."""

LATE = frozenset({"TransactionExpired", "CommitUnknown", "VersionNotFound"})
"""How it may end for one that was held up for longer than its lifetime."""


class Worker:
    """One process of the soak."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.number: int = task["number"]
        self.rate: int = task["rate"]
        self.clock = FastClock(task["began"], self.rate)
        self.store: Store = FastStore(open_store(task["uri"], task["options"]), self.clock)
        self.catalog = Catalog(self.store, self.clock)
        self.patience = 60.0 * self.rate
        """The seconds to retry for, by the fast clock."""
        self.scratch = Path(task["scratch"])
        self.chosen = random.Random(self.number)
        self.report = Report()
        self.turn = 0

    def run(self, role: str, seconds: float) -> Report:
        step: Callable[[], None] = getattr(self, role)
        end = time.time() + seconds
        while time.time() < end:
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
        return self.report

    def _told(self, id: str, version: int, what: str) -> None:
        self.report.counted[what] += 1
        self.report.acknowledged[id] = version

    # Roles

    def write(self) -> None:
        """One change, as `tests.helpers.writer` makes them."""
        transaction, what, refused = writer._begin(self.catalog, self.number, self.turn, self.chosen)
        if refused:
            self.report.counted["refused statements"] += 1
            return
        try:
            done = self.catalog.commit(transaction, what, by="soak", retry_for=self.patience)
        except OlympiaError as error:
            if not isinstance(error, CommitUnknown):
                self.report.refused.append(transaction.id)
            raise
        self._told(transaction.id, done.version, "commits")

    def distribute(self) -> None:
        """A transaction that rests, and is gone on with and committed by another that loads it."""
        begun = distributed.begin(self.catalog)
        begun.transaction.create_table(TableName("spread", f"t{self.number}-{self.turn}"), "s3://x")
        begun.save()
        # up to half of its lifetime
        time.sleep(self.chosen.random() * LIFETIME / 2 / 1000 / self.rate)
        loaded = distributed.load(self.catalog, begun.id)
        loaded.transaction.create_table(TableName("spread", f"u{self.number}-{self.turn}"), "s3://x")
        done = loaded.commit("spread", by="soak", retry_for=self.patience)
        self._told(begun.id, done.version, "distributed commits")

    def expire(self) -> None:
        """Mark what may go and purge what has rested; now and then undo. Before, note what history holds."""
        self._note_history()
        planner = Planner(self.catalog, FLOORS)
        policy = read_policy(planner.definition, self.clock.now_millis())
        plan = planner.expire(policy).mark
        done = mark(self.catalog, plan, retry_for=self.patience) if plan.expired else None
        if done is not None:
            self._expired(done, "marks")
            self.report.counted["marked versions"] += len(plan.expired)
        if self.chosen.random() < 0.06 and (done := undo(self.catalog, retry_for=self.patience)) is not None:
            self._expired(done, "undone marks")
        planner = Planner(self.catalog, FLOORS)
        purged = planner.purge()
        if not purged.is_empty:
            done = purge(self.catalog, purged, planner.head.version, FLOORS, retry_for=self.patience)
            self.report.counted["purged versions"] += purged.purged - purged.former_purged
            self.report.counted["purged files"] += len(purged.files)
            if done is not None:
                self._expired(done, "purges")
        time.sleep(0.2)

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
        time.sleep(0.1)

    def export(self) -> None:
        """Export the latest version, let time pass, look whether it is still whole, and drop it."""
        mode = Mode.FULL if self.turn % 2 else Mode.MINIMAL
        name = f"export-{self.number}-{self.turn}"
        dest = LocalStore(self.scratch / name, durable=False)
        done = create_export(self.catalog, dest, name, scope(mode), message=name, retry_for=self.patience)
        self.report.counted[f"{mode} exports"] += 1
        # meanwhile the version that it is of may expire
        time.sleep(self.chosen.random() * 3 * HOUR / 1000 / self.rate)
        verified = verify_export(dest, done.note, self.store)
        if verified.findings:
            self.report.wrong.append(f"{mode} export of version {done.note.version}: {verified.findings[:2]}")
        drop_export(self.catalog, name, retry_for=self.patience)
        self.report.counted["dropped exports"] += 1
        shutil.rmtree(self.scratch / name)


ROLES = ("write", "write", "write", "write", "distribute", "expire", "check", "export")


def prepare(store: Store, clock: FastClock) -> None:
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
    """Where, how long and how fast."""

    uri: str
    options: Mapping[str, object]
    scratch: Path
    seconds: float
    rate: int
    roles: Sequence[str] = ROLES

    def tasks(self) -> list[dict[str, Any]]:
        began = time.time()
        clock = FastClock(began, self.rate)
        store = FastStore(open_store(self.uri, dict(self.options)), clock)
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
                "rate": self.rate,
                "seconds": self.seconds,
            }
            for number, role in enumerate(self.roles)
        ]

    def in_processes(self) -> Report:
        root = Path(__file__).parents[2]
        processes: list[subprocess.Popen[str]] = []
        total = Report()
        try:
            for task in self.tasks():
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
            for process in processes:
                assert process.stdout is not None
                if process.stdout.readline() != "ready\n":
                    raise AssertionError(f"a process did not start:\n{process.communicate(timeout=60)[1]}")
            for process in processes:
                _say(process, "go")
            for process in processes:
                out, err = process.communicate(timeout=self.seconds + 120)
                if process.returncode != 0:
                    raise AssertionError(f"a process failed:\n{err}")
                total.add(Report.decode(out))
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        return total

    def in_threads(self) -> Report:
        total = Report()
        workers = [(Worker(task), task) for task in self.tasks()]
        with ThreadPoolExecutor(len(workers)) as pool:
            for report in pool.map(lambda found: found[0].run(found[1]["role"], found[1]["seconds"]), workers):
                total.add(report)
        for worker, _ in workers:
            worker.store.close()
        return total


def check_told(store: Store, total: Report) -> None:
    """Nothing went wrong on the way; the catalog is whole; and history holds what was acknowledged, and only once."""
    assert not total.wrong, "\n".join(total.wrong[:10])
    versions = check_versions(store)
    replay(store)
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


def main() -> None:
    task = json.loads(sys.stdin.readline())
    worker = Worker(task)
    worker.catalog.snapshot()
    print("ready", flush=True)
    sys.stdin.readline()
    report = worker.run(task["role"], task["seconds"])
    worker.store.close()
    print(report.encode(), flush=True)


if __name__ == "__main__":
    main()
