"""A deterministic scheduler: actors over one store, of which exactly one runs at a time.

Every operation of a store is a point at which control may go to another actor: each file of `read_many`,
`create_many` and `delete_many`, each page of a listing, and each step of the clock (`Stage.wait`). A choice is made
before the operation, so a suspended actor has done all before it and nothing of it.

A schedule is a list of (actor, number of turns): `[("expire", 14), ("writer", 9), ("expire", 80)]`. A failure prints
it, and `replay` takes it. Random names and delays of the program come from generators that each run seeds again, so a
schedule means the same each time.

A sign before the name is a fault at that point: `("!expire", 1)` kills the actor, `("?expire", 1)` performs its
creation and loses the answer, `("/expire", 1)` loses the request, and `("<expire", 1)` shows it a listing that lags.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from olympia_cli import names
from olympia_cli.errors import OutcomeUnknown, PathTaken, StoreError
from olympia_cli.storage.protocol import FileInfo, Store
from tests.helpers.clock import FakeClock
from tests.helpers.stores import WrappedStore

Schedule = Sequence[tuple[str, int]]

PAGE = 8
"""Number of files per page of a listing. A store may change between two pages."""

MOST_TURNS = 20_000

KILLED, NO_ANSWER, NO_REQUEST, LAGGING = FAULTS = "!", "?", "/", "<"
_BY_METHOD = {"create": (NO_ANSWER, NO_REQUEST), "list": (LAGGING,)}
"""Possible faults of each operation."""


class Killed(BaseException):
    """The machine of this actor is off. Not an Exception, so that no handler of errors goes on after it."""


class Operation(NamedTuple):
    """The next operation of an actor."""

    actor: str
    method: str
    path: str


class Choice(NamedTuple):
    """A choice of the next actor.

    Its fields are the chosen actor, the candidates, the next operation of the actor that ran until then, and the number
    of operations before. The operation is None if that actor has ended.
    """

    chosen: str
    alive: tuple[str, ...]
    waiting: Operation | None
    done: int


Choose = Callable[[int, tuple[str, ...], Operation | None], str]
"""A function that chooses the next actor from the number of the choice, the candidates and the pending operation."""


@dataclass
class Ended:
    """The end of an actor: a value, an error of the program, or a kill."""

    value: Any = None
    error: BaseException | None = None
    began_at: int = 0
    ended_at: int = 0
    said: list[Any] = field(default_factory=list)
    """Messages of the actor, however it ended."""

    @property
    def took(self) -> int:
        """In milliseconds of the clock that all share."""
        return self.ended_at - self.began_at


class Stage:
    """The store and the clock of an actor, both controlled by the scheduler."""

    def __init__(self, name: str, store: Store, clock: FakeClock, scheduler: Scheduler, said: list[Any]) -> None:
        self.name = name
        self.store = _ScheduledStore(store, lambda method, path: scheduler.point(name, method, path))
        self.clock: Any = clock
        self._time = clock
        self._scheduler = scheduler
        self._said = said

    def say(self, what: Any) -> None:
        self._said.append(what)

    def wait(self, millis: int) -> None:
        """Let time pass for all actors: suspended ones have slept for this long."""
        self._scheduler.point(self.name, "wait", f"{millis / 3_600_000:g}h")
        self._time.advance(millis)


Work = Callable[[Stage], Any]


class _Actor:
    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self.work = work
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.alive = True
        self.killed = False
        self.fault = ""
        self.ended = Ended()


class Scheduler:
    """Runs the actors once. `choose` is asked before each operation, and when an actor has ended."""

    def __init__(self, actors: Mapping[str, Work], store: Store, clock: FakeClock, choose: Choose) -> None:
        self._actors = {name: _Actor(name, work) for name, work in actors.items()}
        self._store = store
        self._clock = clock
        self._choose = choose
        self._done = threading.Semaphore(0)
        self._failure: Exception | None = None
        self.choices: list[Choice] = []
        self.operations: list[Operation] = []
        self.times: list[int] = []

    def run(self) -> dict[str, Ended]:
        with repeatable("run"):
            self._hand_over(None)
            self._done.acquire()
            for actor in self._actors.values():
                if actor.thread is not None:
                    actor.thread.join()
        if self._failure is not None:
            raise self._failure
        return {name: actor.ended for name, actor in self._actors.items()}

    def point(self, name: str, method: str, path: str) -> str:
        """An operation is about to be done: perhaps others go first. What goes wrong with it."""
        actor = self._actors[name]
        if actor.killed:
            raise Killed
        waiting = Operation(name, method, path)
        if not self._hand_over(waiting):
            actor.turn.acquire()
        if actor.killed:
            raise Killed
        self.operations.append(waiting)
        self.times.append(self._clock.now_millis())
        fault, actor.fault = actor.fault, ""
        return fault

    def _hand_over(self, waiting: Operation | None) -> bool:
        """Let the chosen actor continue. Return whether it is the one that asks."""
        alive = tuple(name for name, actor in self._actors.items() if actor.alive)
        if not alive:
            self._done.release()
            return False
        try:
            if len(self.choices) >= MOST_TURNS:
                raise AssertionError("the actors do not come to an end")
            chosen = self._choose(len(self.choices), alive, waiting)
        except Exception as error:
            # end them all, one by one
            self._failure = self._failure or error
            chosen = KILLED + (alive[0] if waiting is None else waiting.actor)
        self.choices.append(Choice(chosen, alive, waiting, len(self.operations)))
        actor = self._actors[without_fault(chosen)]
        actor.fault = chosen.removesuffix(actor.name)
        actor.killed = actor.killed or actor.fault == KILLED
        if waiting is not None and actor.name == waiting.actor:
            return True
        if actor.thread is None:
            actor.thread = threading.Thread(target=self._work, args=(actor,), name=actor.name, daemon=True)
            actor.thread.start()
        else:
            actor.turn.release()
        return False

    def _work(self, actor: _Actor) -> None:
        ended = actor.ended
        ended.began_at = self._clock.now_millis()
        try:
            ended.value = actor.work(Stage(actor.name, self._store, self._clock, self, ended.said))
        except BaseException as error:
            # the test decides whether the actor may end like this
            ended.error = error
        ended.ended_at = self._clock.now_millis()
        actor.alive = False
        self._hand_over(None)


def without_fault(chosen: str) -> str:
    return chosen[1:] if chosen.startswith(FAULTS) else chosen


@contextmanager
def repeatable(seed: str) -> Iterator[None]:
    """Whatever is drawn at random is the same in each run: new names by the actor that draws them, delays in order."""
    real, state = names.urandom, random.getstate()
    drawn: dict[str, random.Random] = {}
    random.seed(seed)

    def draw(size: int) -> bytes:
        name = threading.current_thread().name
        return drawn.setdefault(name, random.Random(f"{seed}/{name}")).randbytes(size)

    names.urandom = draw
    try:
        yield
    finally:
        names.urandom = real
        random.setstate(state)


class _ScheduledStore(WrappedStore):
    """Asks before each operation, and learns what goes wrong with it. Batches are taken apart, and listings come in
    pages."""

    def __init__(self, store: Store, point: Callable[[str, str], str]) -> None:
        super().__init__(store)
        self._point = point

    def read(self, path: str) -> bytes:
        self._point("read", path)
        return self.inner.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        for path in paths:
            self._point("read", path)
            yield from self.inner.read_many([path])

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self._point("read", path)
        return self.inner.read_range(path, start, length)

    def create(self, path: str, data: bytes) -> None:
        fault = self._point("create", path)
        if not fault:
            return self.inner.create(path, data)
        if fault == NO_ANSWER:
            with suppress(PathTaken):  # that answer is lost as well
                self.inner.create(path, data)
        raise OutcomeUnknown(f"no answer for {path}")

    def create_many(self, files: Mapping[str, bytes]) -> None:
        for path, data in files.items():
            self.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self._point("overwrite", path)
        self.inner.overwrite(path, data)

    def write_hint(self, path: str, data: bytes) -> None:
        self._point("write_hint", path)
        self.inner.write_hint(path, data)

    def exists(self, path: str) -> bool:
        self._point("exists", path)
        return self.inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        self._point("stat", path)
        return self.inner.stat(path)

    def list(self, prefix: str = "", temporary: bool = False) -> Iterator[FileInfo]:
        after = ""
        while True:
            late = self._point("list", prefix) == LAGGING
            shown = self.inner.list_late(prefix, temporary) if late else self.inner.list(prefix, temporary)
            found = sorted(shown, key=lambda file: file.path)
            page = [file for file in found if file.path > after][:PAGE]
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].path

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._point("delete", path)
            self.inner.delete_many([path])


# Which schedules there are


@dataclass
class Run:
    """A run: its choices, the ends of the actors, and the rules that do not hold afterwards."""

    choices: list[Choice]
    operations: list[Operation]
    times: list[int]
    """When each operation was done."""
    ended: dict[str, Ended]
    violation: Exception | None = None
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def schedule(self) -> list[tuple[str, int]]:
        return [(name, len(list(turns))) for name, turns in groupby(choice.chosen for choice in self.choices)]

    def describe(self) -> str:
        ends = "\n".join(
            f"  {name}: {ended.value if ended.error is None else repr(ended.error)}"
            for name, ended in self.ended.items()
        )
        return f"{self.violation}\nschedule = {self.schedule}\n{ends}"


Play = Callable[[Choose], Run]


def follow(choices: Sequence[str]) -> Choose:
    """Return a function that follows these choices.

    Then the running actor continues to its end, and the first other one follows.
    """

    def choose(at: int, alive: tuple[str, ...], waiting: Operation | None) -> str:
        if at < len(choices):
            if without_fault(choices[at]) not in alive:
                raise AssertionError(f"{choices[at]} cannot go on at turn {at}: this schedule is of another scenario")
            return choices[at]
        return alive[0] if waiting is None else waiting.actor

    return choose


def replay(play: Play, schedule: Schedule) -> Run:
    """The run that a schedule describes."""
    return play(follow([name for name, turns in schedule for _ in range(turns)]))


def everywhere(operation: Operation) -> bool:
    return True


def explore(
    play: Play,
    bound: int,
    *,
    points: Callable[[Operation], bool] = everywhere,
    mortal: Iterable[str] = (),
    unlucky: Iterable[str] = (),
) -> Iterator[Run]:
    """Yield the run of every schedule with at most `bound` switches, kills and faults.

    A switch leaves an actor that could continue; the order after the end of an actor is free. Actors are left only at
    operations that `points` allows. Those that are `mortal` may be killed there, and those that are `unlucky` have
    faults.

    Leaving an actor before or after it reads something is the same if the other actor does not change it and no time
    passes. Then one schedule is run for both, and its run stands for both.
    """
    mortals, unfortunates = frozenset(mortal), frozenset(unlucky)
    # by what they cost: the simplest schedule that shows a mistake is found first
    waiting: list[deque[tuple[list[Choice], int, str]]] = [deque() for _ in range(bound + 1)]
    run, begun, spent = play(follow([])), 0, 0
    yield run
    known: list[Choice] = []
    latest: dict[str, tuple[int, Run]] = {}
    """Among schedules that begin like `known`, by the next actor: the last choice at which a run left the actor."""
    while True:
        for at in range(begun, len(run.choices)):
            choice = run.choices[at]
            operation = choice.waiting
            cost = spent + (operation is not None)
            if cost > bound or (operation is not None and not points(operation)):
                continue
            others = [name for name in choice.alive if name != without_fault(choice.chosen)]
            if operation is not None and operation.actor in mortals:
                others.append(KILLED + operation.actor)
            if operation is not None and operation.actor in unfortunates:
                others += [fault + operation.actor for fault in _BY_METHOD.get(operation.method, ())]
            waiting[cost].extend((run.choices, at, other) for other in others)
        while True:
            spent = next((cost for cost, queue in enumerate(waiting) if queue), bound + 1)
            if spent > bound:
                return
            choices, at, other = waiting[spent].popleft()
            if choices is not known:
                known, latest = choices, {}
            if other not in latest or not _is_same(choices, at, other, *latest[other]):
                break
            yield latest[other][1]
        run, begun = play(follow([*(choice.chosen for choice in choices[:at]), other])), at + 1
        yield run
        latest[other] = (at, run)


def _is_same(choices: Sequence[Choice], at: int, other: str, earlier: int, run: Run) -> bool:
    """Return whether leaving an actor for `other` at this choice is the same as in the run that left it earlier.

    It is the same if the actor only reads in between, the other one does not change what it reads, and no time passes.
    """
    between, done = choices[earlier:at], choices[earlier].done
    actor = next((choice.waiting.actor for choice in between if choice.waiting is not None), None)
    again = next((at for at in range(done, len(run.operations)) if run.operations[at].actor == actor), None)
    if len(choices[at].alive) != 2 or other.startswith(FAULTS) or not done or again is None:
        return False
    changes = [found for found in run.operations[done:again] if found.method not in _LOOKS]
    return run.times[done - 1] == run.times[again] and all(
        choice.waiting is not None
        and choice.waiting.actor == choice.chosen == actor
        and choice.waiting.method in _LOOKS
        and not any(_is_seen(change.path, choice.waiting) for change in changes)
        for choice in between
    )


_LOOKS = ("read", "exists", "stat", "list")


def _is_seen(path: str, look: Operation) -> bool:
    return path.startswith(look.path) if look.method == "list" else path == look.path


def wander(play: Play, count: int, seed: int, mortal: Iterable[str] = (), unlucky: Iterable[str] = ()) -> Iterator[Run]:
    """Yield the runs of `count` random schedules, which are the same for the same seed.

    The rate of switches is random too, and so is the rate of faults of `unlucky` actors.
    """
    mortals, unfortunates = frozenset(mortal), frozenset(unlucky)
    for number in range(count):
        drawn = random.Random(f"{seed}/{number}")
        restless = drawn.choice((0.02, 0.05, 0.1, 0.3))
        misfortune = drawn.choice((0.0, 0.03, 0.2)) if unfortunates else 0.0

        def choose(
            at: int,
            alive: tuple[str, ...],
            waiting: Operation | None,
            drawn: random.Random = drawn,
            restless: float = restless,
            misfortune: float = misfortune,
        ) -> str:
            if waiting is not None and waiting.actor in unfortunates and drawn.random() < misfortune:
                faults = _BY_METHOD.get(waiting.method)
                if faults:
                    return drawn.choice(faults) + waiting.actor
            if waiting is not None and drawn.random() >= restless:
                return waiting.actor
            if waiting is not None and waiting.actor in mortals and drawn.random() < 0.02:
                return KILLED + waiting.actor
            return drawn.choice(alive)

        yield play(choose)


def check_all(runs: Iterable[Run]) -> int:
    """Return the number of runs. Raise the failure of the first run that breaks a rule."""
    count = 0
    for run in runs:
        count += 1
        assert run.violation is None, run.describe()
    return count
