"""A small catalog for the scheduler: actors that write, read, roll back and expire, and what must hold afterwards.

Lifetimes are short so that a day is long: a transaction lives six hours, grace and quarantine are an hour.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.retained import purged_before, read_quarantine
from olympia_cli.catalog.snapshot import Snapshot, expired_before
from olympia_cli.catalog.versions import RootFile, read_hints, read_latest
from olympia_cli.errors import (
    CommitConflict,
    CommitUnknown,
    Damaged,
    OlympiaError,
    PartlyDone,
    PathMissing,
    Refused,
    SavedElsewhere,
    StorageFailed,
    TransactionClosed,
    TransactionExpired,
    TransactionNotFound,
    VersionNotFound,
)
from olympia_cli.format.actions import Action, commit_info
from olympia_cli.format.paths import LATEST, new_node_path, parse_root_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.names import AtVersion, Kind
from olympia_cli.ops.expire import Floors, Planner, mark, purge, read_policy, undo
from olympia_cli.ops.fsck import Level, Severity
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import FileInfo
from tests.helpers.check import Unsound, check_versions, orphans
from tests.helpers.check import replay as replay_log
from tests.helpers.clock import DAY, HOUR, MINUTE, FakeClock
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table
from tests.helpers.reach import reach_of
from tests.helpers.scheduler import Choose, Ended, Killed, Play, Run, Scheduler, Stage, Work, repeatable
from tests.helpers.stores import WrappedStore

LIFETIME = 6 * HOUR
FLOORS = Floors(HOUR, HOUR)
HOT = table("a.hot")
Files = dict[str, tuple[bytes, int]]


LAG = 20 * MINUTE
"""The maximum lag of a listing. Files are safe for half an hour before a root names them."""


class World(WrappedStore):
    """The store that all actors share. It remembers every file that ever was, and which roots came at the end."""

    def __init__(self, files: Files, wall: int) -> None:
        self.clock = FakeClock(wall)
        self.files = dict(files)
        self.ever = dict(files)
        super().__init__(MemoryStore("world", self.files, self.clock.now_millis))
        self._created: dict[int, bytes] = {}
        self._before: list[tuple[int, str, FileInfo | None]] = []
        """Each change with its time and the former file."""
        for path, (data, _) in files.items():
            version = parse_root_path(path)
            if version is not None:
                self._created[version] = data

    @property
    def log(self) -> dict[int, str]:
        """The transaction of each version that came after the latest one when it was created."""
        found = {}
        for version, data in self._created.items():
            info = commit_info(Snapshot(self, RootFile.of(version, 32, data)).actions())
            assert info is not None
            found[version] = info.transaction_id
        return found

    @property
    def catalog(self) -> Catalog:
        return Catalog(self, self.clock)

    def list_late(self, prefix: str, temporary: bool) -> Iterator[FileInfo]:
        """A listing without what changed a short time ago."""
        shown = {file.path: file for file in self.list(prefix, temporary)}
        for when, path, before in reversed(self._before):
            if when <= self.clock.now_millis() - LAG:
                break
            if path.startswith(prefix) and before is not None:
                shown[path] = before
            else:
                shown.pop(path, None)
        return iter(shown.values())

    def _note(self, path: str) -> None:
        before = self.files.get(path)
        info = None if before is None else FileInfo(path, len(before[0]), before[1])
        self._before.append((self.clock.now_millis(), path, info))

    def overwrite(self, path: str, data: bytes) -> None:
        self._note(path)
        super().overwrite(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        for path in paths:
            self._note(path)
        super().delete_many(paths)

    def create(self, path: str, data: bytes) -> None:
        version = parse_root_path(path)
        last = self.last_version() if version is not None else 0
        if path not in self.files:
            self._note(path)
        super().create(path, data)
        self.ever[path] = self.files[path]
        if version is not None and version == last + 1:
            self._created[version] = data

    def last_version(self) -> int:
        return max((v for path in self.files if (v := parse_root_path(path)) is not None), default=-1)

    def contents(self, version: int) -> dict[str, str]:
        """Return the content of a version, even of a deleted one: ids by name."""
        past = MemoryStore("past", self.ever)
        return listed(Snapshot(past, RootFile.of(version, 32, past.read(root_path(version)))))

    def copy(self) -> World:
        return World(self.files, self.clock.wall)


def listed(snapshot: Snapshot) -> dict[str, str]:
    """All objects with their ids, each definition read."""
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    return {str(found.name): found.id for kind in kinds for found in snapshot.objects(kind)}


# Where it begins


@cache
def aged() -> tuple[Files, int]:
    """Seven versions; all but the latest may go."""
    with repeatable("aged"):
        return _aged()


def _aged() -> tuple[Files, int]:
    clock = FakeClock()
    files: Files = {}
    catalog = Catalog.create(
        MemoryStore("world", files, clock.now_millis),
        order=4,
        txn_ttl_millis=LIFETIME,
        properties={"olympia.retention.max-version-age": "6h", "olympia.retention.min-versions": "1"},
        clock=clock,
    )

    def commit(*statements: Callable[[Any], None]) -> None:
        clock.advance(10 * MINUTE)
        with catalog.transaction() as transaction:
            for statement in statements:
                statement(transaction)

    commit(
        lambda t: t.create_namespace(ns("a")),
        lambda t: t.create_table(HOT, location()),
        *(lambda t, n=n: t.create_table(table(f"a.t{n}"), location(n)) for n in range(4)),
    )
    commit(lambda t: t.drop_table(table("a.t0")))
    commit(lambda t: t.alter_table(table("a.t1"), {"turn": "1"}))
    commit(lambda t: t.drop_table(table("a.t2")))
    commit(lambda t: t.alter_table(table("a.t1"), {"turn": "2"}))
    commit(lambda t: t.create_table(table("a.t5"), location(5)))
    clock.advance(DAY)
    return files, clock.wall


@cache
def marked() -> tuple[Files, int]:
    """Make the world of `aged` with the versions below 4 in quarantine, long enough to be purged."""
    return _later(aged(), lambda world: _mark(world, not_beyond=4))


@cache
def marked_twice() -> tuple[Files, int]:
    """Make the world of `marked` with the versions below 6 in quarantine too, not long enough to be purged."""

    def more(world: World) -> None:
        world.clock.advance(HOUR)
        _mark(world, not_beyond=6)

    return _later(marked(), more, rest=0)


def _later(start: tuple[Files, int], change: Callable[[World], None], rest: int = HOUR) -> tuple[Files, int]:
    world = World(*start)
    with repeatable(f"later {len(start[0])}"):
        change(world)
    world.clock.advance(rest)
    return world.files, world.clock.wall


def _mark(world: World, not_beyond: int) -> None:
    done = mark(world.catalog, plan_expire(world.catalog, not_beyond=not_beyond).mark)
    assert done is not None


# What actors do


@dataclass(frozen=True)
class Acknowledged:
    """A commit that was acknowledged to its writer."""

    id: str
    version: int


@dataclass(frozen=True)
class Seen:
    """The content of a version as a reader saw it."""

    version: int
    contents: Mapping[str, str]
    at_least: int
    """The latest version when it began to look."""


@dataclass(frozen=True)
class Pinned:
    """An export that was recorded, and what it needs."""

    done: Acknowledged
    pin: str


@dataclass(frozen=True)
class Saved:
    """A distributed transaction that stays open."""

    id: str


def writer(name: str) -> Work:
    """Creates a table."""

    def work(stage: Stage) -> Acknowledged:
        catalog = Catalog(stage.store, stage.clock)
        transaction = catalog.begin()
        stage.say(transaction.id)
        transaction.create_table(table(f"a.{name}"), location())
        return Acknowledged(transaction.id, catalog.commit(transaction, name, by="x").version)

    return work


def rollback(to: int) -> Work:
    def work(stage: Stage) -> Acknowledged:
        catalog = Catalog(stage.store, stage.clock)
        transaction = catalog.begin()
        stage.say(transaction.id)
        transaction.roll_back(to)
        return Acknowledged(transaction.id, catalog.commit(transaction, "back", by="x").version)

    return work


def read(stage: Stage) -> Seen:
    """Looks at the latest version."""
    before = stage.store.inner.last_version()
    snapshot = Catalog(stage.store, stage.clock).snapshot()
    return Seen(snapshot.version, listed(snapshot), before)


def read_old(version: int) -> Work:
    """Looks at an old version."""

    def work(stage: Stage) -> Seen:
        snapshot = Catalog(stage.store, stage.clock).snapshot(AtVersion(version))
        return Seen(snapshot.version, listed(snapshot), 0)

    return work


def hint(version: int) -> Work:
    """A hint that took its time."""

    def work(stage: Stage) -> None:
        stage.store.write_hint(LATEST, str(version).encode())

    return work


def read_after_hint(version: int) -> Work:
    """Write a late hint, then read the latest version. No hint is written before its version."""

    def work(stage: Stage) -> Seen:
        if read_latest(stage.store).version >= version:
            hint(version)(stage)
        return read(stage)

    return work


def plan_expire(catalog: Catalog, floors: Floors = FLOORS, not_beyond: int = 2**31, **asked: Any) -> Any:
    planner = Planner(catalog, floors)
    policy = read_policy(planner.facts.definition, catalog.clock.now_millis(), **asked)
    return planner.expire(policy, not_beyond)


def mark_now(stage: Stage) -> Acknowledged | None:
    catalog = Catalog(stage.store, stage.clock)
    return _acknowledged(mark(catalog, plan_expire(catalog).mark))


def purge_now(stage: Stage) -> Acknowledged | None:
    catalog = Catalog(stage.store, stage.clock)
    planner = Planner(catalog, FLOORS)
    return _acknowledged(purge(catalog, planner.purge(), planner.facts.head.version, FLOORS))


def undo_now(stage: Stage) -> Acknowledged | None:
    return _acknowledged(undo(Catalog(stage.store, stage.clock)))


def _acknowledged(done: Any) -> Acknowledged | None:
    if done is None:
        return None
    info = commit_info(done.actions)
    assert info is not None
    return Acknowledged(info.transaction_id, done.version)


def in_turn(*steps: Work | int) -> Work:
    """Run steps one after the other; a number is a time to wait. Losing to another expire is no error."""

    def work(stage: Stage) -> list[Any]:
        done: list[Any] = []
        for step in steps:
            if isinstance(step, int):
                stage.wait(step)
                continue
            try:
                done.append(step(stage))
            except (CommitConflict, Refused, TransactionExpired) as error:
                done.append(error)
        return done

    return work


class SkewedClock:
    """A clock that is off by a number of milliseconds."""

    def __init__(self, clock: FakeClock, by: int) -> None:
        self._clock = clock
        self._by = by

    def now_millis(self) -> int:
        return self._clock.now_millis() + self._by

    def elapsed_millis(self) -> int:
        return self._clock.elapsed_millis()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


def skewed(work: Work, by: int) -> Work:
    """The same on a machine whose clock is off."""

    def elsewhere(stage: Stage) -> Any:
        stage = copy.copy(stage)
        stage.clock = SkewedClock(stage.clock, by)
        return work(stage)

    return elsewhere


def waiting(*times: int) -> Work:
    """The clock as an actor of its own."""

    def work(stage: Stage) -> None:
        for millis in times:
            stage.wait(millis)

    return work


def check_now(stage: Stage) -> None:
    """Looks at everything; others at work are no damage."""
    report = fsck(stage.store, level=Level.FULL, all_versions=True, clock=stage.clock)
    errors = [found for found in report.findings if found.severity is Severity.ERROR]
    _need(not errors, f"fsck takes others at work for damage: {errors[:2]}")


def share(version: int) -> Work:
    """Records an export that shares files: its pin first, then the commit."""

    def work(stage: Stage) -> Pinned:
        catalog = Catalog(stage.store, stage.clock)
        transaction = catalog.begin()
        stage.say(transaction.id)
        data = catalog.snapshot(AtVersion(version)).file.data
        pin = new_node_path()
        stage.store.create(pin, data)
        transaction.expires_at_millis = min(
            transaction.expires_at_millis, transaction.began_at_millis + HALF_AN_HOUR_MILLIS
        )
        payload = ExportDef(name="shared", location="file:///x", mode="minimal", version=version, pin=pin)
        transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))
        done = catalog.commit(transaction, "share", by="x")
        return Pinned(Acknowledged(transaction.id, done.version), pin)

    return work


def distribute(stage: Stage) -> Saved:
    """Begins a distributed transaction, and saves a change."""
    catalog = Catalog(stage.store, stage.clock)
    begun = distributed.begin(catalog)
    begun.transaction.create_table(table("a.spread"), location())
    begun.save()
    return Saved(begun.id)


def distribute_and_commit(stage: Stage) -> Acknowledged:
    """Begins a distributed transaction, loads it as another process would, and commits it."""
    catalog = Catalog(stage.store, stage.clock)
    begun = distributed.begin(catalog)
    begun.transaction.create_table(table("a.spread"), location())
    begun.save()
    loaded = distributed.load(catalog, begun.id)
    return Acknowledged(begun.id, loaded.commit("spread", by="x").version)


# What holds afterwards


LATE = (Damaged, PartlyDone, PathMissing, VersionNotFound, TransactionExpired, TransactionNotFound, CommitUnknown)
"""Errors that are allowed for an actor that slept longer than the lifetime of a transaction."""

TIME = dict.fromkeys(("mark", "purge", "slow", "expire", "rollback", "old reader"), HOUR)
"""The longest sleep of each actor: an hour of quarantine for readers of old versions, a lifetime for all others."""
TIME["export"] = HALF_AN_HOUR_MILLIS

AT_ANY_TIME = (CommitConflict, Refused, Killed, SavedElsewhere, TransactionClosed)


class Scene:
    """Actors on a world. `play` runs them once, and checks the outcome by the rules that hold in every order.

    One in `look_ahead` distinct outcomes is followed into the future (`check_future`).
    """

    def __init__(
        self,
        start: Callable[[], tuple[Files, int]],
        actors: Mapping[str, Work],
        *,
        may_refuse: Sequence[type[OlympiaError]] = (),
        look_ahead: int = 3,
    ) -> None:
        self._start = start
        self._actors = dict(actors)
        self._may_refuse = tuple(may_refuse)
        self._look_ahead = look_ahead
        self._known: set[bytes] = set()
        self.runs = 0
        self.done: set[str] = set()
        """Actors that succeeded in one of the runs. A scene in which an actor never succeeds shows nothing about it."""

    @property
    def outcomes(self) -> int:
        """The number of distinct outcomes."""
        return len(self._known)

    @property
    def play(self) -> Play:
        return self._play

    def _play(self, choose: Choose) -> Run:
        world = World(*self._start())
        scheduler = Scheduler(self._actors, world, world.clock, choose)
        ended = scheduler.run()
        run = Run(scheduler.choices, scheduler.operations, scheduler.times, ended)
        run.about["world"] = world
        self.runs += 1
        self.done |= {name for name, how in ended.items() if how.error is None}
        try:
            self._check(world, ended)
        except (AssertionError, OlympiaError) as violation:
            run.violation = violation
        return run

    def _check(self, world: World, ended: dict[str, Ended]) -> None:
        for name, how in ended.items():
            self._check_end(name, how)
        end = digest(world, ended)
        if end in self._known:
            return
        check_world(world, ended)
        # looking ahead takes longer than all else, so it is done for some of the outcomes
        if end[0] % self._look_ahead == 0:
            check_future(world)
        self._known.add(end)

    def _check_end(self, name: str, how: Ended) -> None:
        allowed: tuple[type[BaseException], ...] = (*AT_ANY_TIME, *self._may_refuse)
        if how.took >= TIME.get(name, LIFETIME):
            allowed += LATE
        if how.error is not None and not isinstance(how.error, allowed):
            raise Unsound(f"{name} ended in {how.error!r} after {how.took / MINUTE:g} minutes") from how.error


def digest(world: World, ended: dict[str, Ended]) -> bytes:
    """Return a digest that differs between distinct outcomes."""
    found = hashlib.sha256()
    for path, (data, modified) in sorted(world.files.items()):
        found.update(f"{path} {modified} {len(data)} ".encode() + data)
    found.update(repr([(name, how.value, type(how.error)) for name, how in ended.items()]).encode())
    return found.digest()


def check_world(world: World, ended: dict[str, Ended]) -> None:
    """Check the rules that hold in every order."""
    now = world.clock.now_millis()
    versions = check_versions(world, now_millis=now)
    replay_log(world, now_millis=now)
    in_log = {version.number: version.info.transaction_id for version in versions}
    latest = world.catalog.snapshot()
    oldest = expired_before(latest.definition)
    log = world.log
    for done in _acknowledgements(ended):
        _need(log.get(done.version) == done.id, f"version {done.version} was acknowledged and is not in history")
        _need(done.version < oldest or in_log.get(done.version) == done.id, f"version {done.version} is another's")
        _need(list(log.values()).count(done.id) == 1, f"{done.id} is in history more than once")
    for name, how in ended.items():
        if isinstance(how.error, CommitConflict | StorageFailed | TransactionExpired | VersionNotFound):
            _need(not set(how.said) & set(log.values()), f"{name} was refused, and is in history all the same")
        if isinstance(how.value, Seen):
            seen = how.value
            _need(seen.version in log, f"{name} saw version {seen.version}, which never counted")
            _need(seen.version >= seen.at_least, f"{name} saw version {seen.version} after {seen.at_least}")
            _need(seen.contents == world.contents(seen.version), f"{name} saw another version {seen.version}")
        if isinstance(how.value, Pinned):
            _check_pin(world, how.value.pin, name)
        if isinstance(how.value, Saved) and world.clock.now_millis() <= how.began_at + LIFETIME:
            _check_saved(world, how.value.id, name)
    said = read_hints(world).oldest or 0
    # of two, one may die with a number on its lips that the other has made too great
    excused = len(ended) > 1 and _killed(ended)
    _need(said <= oldest or excused, f"vn/oldest says {said}, which is beyond {oldest}")


def _check_pin(world: World, pin: str, name: str) -> None:
    try:
        reach_of(world, definitions=True).add([(pin, world.read(pin))])
    except OlympiaError as error:
        raise Unsound(f"what {name} pinned is not whole: {error}") from error


def _check_saved(world: World, id: str, name: str) -> None:
    try:
        distributed.load(world.catalog, id)
    except OlympiaError as error:
        raise Unsound(f"what {name} saved cannot be loaded: {error}") from error


def _killed(ended: dict[str, Ended]) -> bool:
    return any(isinstance(how.error, Killed) for how in ended.values())


def _acknowledgements(ended: dict[str, Ended]) -> Iterator[Acknowledged]:
    for how in ended.values():
        for value in how.value if isinstance(how.value, list) else [how.value]:
            if isinstance(value, Pinned):
                value = value.done
            if isinstance(value, Acknowledged):
                yield value


def check_future(world: World) -> None:
    """Check that an undo restores the quarantine completely, and that later expires finish the work of earlier ones."""
    try:
        _check_future(world)
    except OlympiaError as error:
        raise Unsound(f"what comes next fails: {error!r}") from error


def _check_future(world: World) -> None:
    again = world.copy()
    definition = again.catalog.snapshot().definition
    if read_quarantine(definition):
        undo(again.catalog)
        versions = [version.number for version in check_versions(again, now_millis=again.clock.now_millis())]
        _need(versions[0] == expired_before(again.catalog.snapshot().definition), "an undo does not bring all back")
        _need(versions[0] >= purged_before(definition), "an undo brings back what is purged")
    later = world.copy()
    for _ in range(2):
        later.clock.advance(30 * DAY)
        catalog = later.catalog
        mark(catalog, plan_expire(catalog).mark)
        later.clock.advance(2 * DAY)
        planner = Planner(catalog, FLOORS)
        purge(catalog, planner.purge(), planner.facts.head.version, FLOORS)
        check_versions(later)
    left = set() if later.catalog.snapshot().definition.exported_snapshots else orphans(later)
    _need(not left, f"what two expires leave: {sorted(left)[:5]}")


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise Unsound(message)
