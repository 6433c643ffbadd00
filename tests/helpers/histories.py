"""Histories: concurrent transactions on a few names, drawn from a seed and played on a real catalog.

A history has transactions and a schedule, which is a list of steps:

    open 1    begin transaction 1 and run its statements; one that fails is caught, and the transaction goes on
    commit 1  commit it, up to the moment before its root is created; there the next steps are taken
    go        the commit that waits there creates its root; if the name is taken it rebases, and waits again
    die       the process of the commit that waits ends; another one loads a distributed transaction and commits it

So `open 0, open 1, open 2, commit 0, commit 1, go, go, commit 2` lets 0 rebase over 1 alone, and then over 2.
"""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Committed
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import CommitConflict, TransactionExists
from olympia_cli.format.paths import parse_root_path
from olympia_cli.format.pb.objects_pb2 import IsolationLevel
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers.clock import FakeClock
from tests.helpers.statements import BEGINNING, Outcome, State, Statement, beginning, do, run
from tests.helpers.stores import PowerCut, WrappedStore

LEVELS = {"serializable": IsolationLevel.SERIALIZABLE, "snapshot": IsolationLevel.SNAPSHOT}
IDS = tuple(str(uuid.UUID(int=number, version=4)) for number in (1, 2))


@dataclass(frozen=True, slots=True)
class Plan:
    """A transaction: its statements, the id of a distributed one, and whether a purge takes its saves later."""

    statements: tuple[Statement, ...]
    isolation: str
    id: str = ""
    purged: bool = False


@dataclass(frozen=True, slots=True)
class History:
    plans: tuple[Plan, ...]
    schedule: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"  schedule: {', '.join(self.schedule)}"]
        for number, plan in enumerate(self.plans):
            lines.append(f"  {number}: {plan.isolation} {plan.id}{' purged' * plan.purged}")
            lines += [f"     {statement}" for statement in plan.statements]
        return "\n".join(lines)


@dataclass
class Played:
    """The outcome of a transaction."""

    plan: Plan
    base: int
    """The version that its statements were done on."""
    outcomes: list[Outcome] = field(default_factory=list)
    committed: Committed | None = None


OWN = NamespaceName("own")
THEMES = (
    ("create", "rename"),
    ("create", "drop"),
    ("rename", "drop"),
    ("alter", "alter", "append"),
    ("create", "drop", "rename", "alter", "append", "restore"),
)
"""Templates for the writes of a history: related writes rarely meet among many different ones."""

READS = ("exists", "show", "list")


def draw(seed: int) -> History:
    """The history of a seed. Names are few, and the others go after what transaction 0 does, so that they meet."""
    drawn = random.Random(seed)
    kind, namespaces = drawn.choice((TableName, TableName, ViewName)), drawn.sample("abc", 2)
    objects = [kind(namespace, name) for namespace in namespaces for name in "tu"]
    names: list[ObjectName] = [*drawn.sample(objects, drawn.choice((1, 2, 3))), *map(NamespaceName, namespaces)]
    levels = drawn.choice((*3 * (("serializable",),), ("snapshot",), ("serializable", "snapshot")))
    theme = drawn.choice(THEMES)
    plans: list[Plan] = []
    state = beginning()
    for number in range(drawn.choice((2, 3, 3, 4))):
        statements: list[Statement] = []
        for at in range(drawn.choice((1, 1, 2) if number else (1, 1, 2, 2))):
            near = _names_of(drawn.choice(plans[0].statements)) if number and drawn.random() < 0.8 else names
            verbs = READS if drawn.random() < 0.1 else theme
            fails = drawn.random() < (0.1 if number else 0.4)
            proposals = [_statement(drawn, verbs, near or names, f"{number}.{at}") for _ in range(15)]
            statements.append(next((fit for fit in proposals if _fails(fit, state) == fails), proposals[0]))
            run(statements[-1], state)
        if not number:
            # the others follow each other
            state = beginning()
            if drawn.random() < 0.8:
                # a write that conflicts with no other: otherwise a transaction whose statements fail only reads
                statements.append(Statement("create", OWN, text="own"))
        id = drawn.choice((*IDS, "", "", ""))
        plans.append(Plan(tuple(statements), drawn.choice(levels), id, purged=bool(id) and drawn.random() < 0.7))
    return History(tuple(plans), tuple(_schedule(drawn, len(plans))))


def _names_of(statement: Statement) -> list[ObjectName]:
    names = [name for name in (statement.name, statement.new) if name is not None and name != OWN]
    return [*names, *names, *(NamespaceName(name.namespace) for name in names)]


def _fails(statement: Statement, state: State) -> bool:
    """Return whether the statement fails within its own transaction."""
    return isinstance(run(statement, dict(state)), str)


def _statement(drawn: random.Random, verbs: Sequence[str], names: Sequence[ObjectName], text: str) -> Statement:
    verb, name = drawn.choice(verbs), drawn.choice(names)
    if verb == "restore":
        return Statement(verb, drawn.choice([create.name for create in BEGINNING if create.name.kind is name.kind]))
    if verb == "append":
        tables = [other for other in names if isinstance(other, TableName)] or [TableName("a", "t")]
        return Statement(verb, drawn.choice(tables), text=text)
    if verb == "rename":
        # also to itself, and into namespaces that are not there
        new = drawn.choice([other for other in names if other.kind is name.kind])
        if not isinstance(new, NamespaceName):
            new = replace(new, namespace=drawn.choice((new.namespace, new.namespace, *"abc")))
        return Statement(verb, name, new)
    if verb == "list" and drawn.random() < 0.3:
        return Statement(verb)
    if verb == "drop" and isinstance(name, NamespaceName):
        return Statement(drawn.choice(("drop", "cascade")), name)
    if verb == "alter":
        key = drawn.choice("pq") if isinstance(name, NamespaceName) else drawn.choice(("p", "q", ""))
        expected = None
        if isinstance(name, TableName) and drawn.random() < 0.5:
            expected = drawn.choice((f"start {name}", f"start {name}", f"{drawn.randrange(4)}.{drawn.randrange(3)}"))
        return Statement(verb, name, key=key, text=text, expected=expected)
    return Statement(verb, name, text=text if verb == "create" else "")


def _schedule(drawn: random.Random, count: int) -> Iterator[str]:
    early = [number for number in range(1, count) if drawn.random() < 0.3]
    yield from (f"open {number}" for number in (0, *early))
    if waits := drawn.random() < 0.8:
        yield "commit 0"
    for number in drawn.sample(range(1, count), count - 1) if drawn.random() < 0.3 else range(1, count):
        yield from (f"open {number}", f"commit {number}")
        yield from drawn.choices(("go", "die"), (9, 1), k=drawn.choice((0, 1, 2, 2)))
    if not waits:
        yield "commit 0"


# Playing


class _Pausing(WrappedStore):
    """Calls `pause` before the root of a version is created."""

    def __init__(self, store: Store, pause: Callable[[], None]) -> None:
        super().__init__(store)
        self._pause = pause

    def create(self, path: str, data: bytes) -> None:
        if parse_root_path(path) is not None:
            self._pause()
        super().create(path, data)


class Playing:
    """A history on a catalog of its own. `start` holds the files of one with some objects in it."""

    def __init__(self, history: History, start: dict[str, tuple[bytes, int]]) -> None:
        self.history = history
        self.clock = FakeClock()
        self.store = MemoryStore("history", dict(start), self.clock.now_millis)
        self.transactions: dict[int, Played] = {}
        self._open: dict[int, Transaction | distributed.DistributedTransaction] = {}
        self._steps = deque(history.schedule)
        while self._steps:
            self._take(self._steps.popleft())

    def _catalog(self) -> Catalog:
        return Catalog(_Pausing(self.store, self._pause), self.clock)

    def _pause(self) -> None:
        while self._steps and (step := self._steps.popleft()) != "go":
            if step == "die":
                raise PowerCut
            self._take(step)

    def _take(self, step: str) -> None:
        verb, _, number = step.partition(" ")
        if verb == "open" and int(number) not in self.transactions:
            with suppress(TransactionExists):
                self._begin(int(number))
        elif verb == "commit" and int(number) in self._open:
            self._commit(self.transactions[int(number)], self._open.pop(int(number)))

    def _begin(self, number: int) -> None:
        plan = self.history.plans[number]
        level, catalog = LEVELS[plan.isolation], self._catalog()
        if plan.id:
            begun = distributed.begin(catalog, level, plan.id)
            played = self._do(number, begun.transaction, plan.statements[:2])
            begun.save()
            opened = distributed.load(self._catalog(), plan.id)
            played.outcomes += [do(statement, opened.transaction) for statement in plan.statements[2:]]
            self._open[number] = opened
        else:
            transaction = catalog.begin(level)
            self._do(number, transaction, plan.statements)
            self._open[number] = transaction

    def _do(self, number: int, transaction: Transaction, statements: Sequence[Statement]) -> Played:
        played = self.transactions[number] = Played(self.history.plans[number], transaction.base.version)
        played.outcomes = [do(statement, transaction) for statement in statements]
        return played

    def _commit(self, played: Played, opened: Transaction | distributed.DistributedTransaction) -> None:
        try:
            if isinstance(opened, Transaction):
                played.committed = self._catalog().commit(opened)
            else:
                played.committed = self._commit_distributed(opened)
        except PowerCut:
            pass
        except CommitConflict:
            if not isinstance(opened, Transaction):
                distributed.abort(self._catalog(), distributed.look(self.store, opened.id))
        if played.plan.purged:
            self.store.delete_many([file.path for file in list(self.store.list(f"dtxn/{played.plan.id}"))])

    def _commit_distributed(self, opened: distributed.DistributedTransaction) -> Committed:
        while True:
            try:
                return opened.commit()
            except PowerCut:
                opened = distributed.load(self._catalog(), opened.id)


def start() -> dict[str, tuple[bytes, int]]:
    """The files of the catalog that each history begins with, at version 1."""
    files: dict[str, tuple[bytes, int]] = {}
    clock = FakeClock()
    catalog = Catalog.create(MemoryStore("history", files, clock.now_millis), order=8, clock=clock)
    with catalog.transaction() as transaction:
        for statement in BEGINNING:
            do(statement, transaction)
    return files


def shrink(history: History, fails: Callable[[History], bool]) -> History:
    """The same without whatever the failure does not need."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _without(history):
            if fails(candidate):
                history, smaller = candidate, True
                break
    return history


def _without(history: History) -> Iterator[History]:
    for at in range(len(history.schedule)):
        yield replace(history, schedule=history.schedule[:at] + history.schedule[at + 1 :])
    for number, plan in enumerate(history.plans):
        for at in range(len(plan.statements)):
            fewer = replace(plan, statements=plan.statements[:at] + plan.statements[at + 1 :])
            yield replace(history, plans=(*history.plans[:number], fewer, *history.plans[number + 1 :]))
        if plan.id:
            plain = replace(plan, id="", purged=False)
            yield replace(history, plans=(*history.plans[:number], plain, *history.plans[number + 1 :]))
