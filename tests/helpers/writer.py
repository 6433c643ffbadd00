"""A writer for tests with many of them: it commits one change after the other, and reports how each of them ended."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import CommitConflict, OlympiaError
from olympia_cli.format.pb.objects_pb2 import IsolationLevel, ViewDef
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import Store

SHARED = NamespaceName("shared")
HOT = TableName("shared", "hot")
POOL = 12
PATIENCE = 120.0


@dataclass(frozen=True)
class Outcome:
    """The end of one commit: `committed`, `unneeded` (others had done all of it), `conflict`, `refused` (a statement
    did not fit) or the name of an error."""

    id: str
    what: str
    end: str
    version: int = -1
    message: str = ""


def prepare(store: Store, writers: int) -> None:
    """The catalog that all the writers work on."""
    catalog = Catalog.create(store, order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(SHARED)
        transaction.create_table(HOT, "s3://hot")
        for number in range(POOL):
            transaction.create_table(TableName("shared", f"pool{number}"), f"s3://pool/{number}")
        for number in range(writers):
            transaction.create_namespace(NamespaceName(f"own{number}"))


TOGETHER = 3
"""So many transactions a writer has open at once: they are in each other's way even where no other writer is."""


def work(store: Store, number: int, commits: int) -> list[Outcome]:
    """Do so many changes; which ones depends on the number of the writer alone."""
    chosen = random.Random(number)
    catalog = Catalog(store)
    outcomes = []
    for start in range(0, commits, TOGETHER):
        begun = [_begin(catalog, number, turn, chosen) for turn in range(start, min(start + TOGETHER, commits))]
        outcomes += [_commit(catalog, *staged) for staged in begun]
    return outcomes


def _begin(catalog: Catalog, number: int, turn: int, chosen: random.Random) -> tuple[Transaction, str, str]:
    """A transaction, what it does, and why it does not fit, if it does not."""
    isolation = IsolationLevel.SERIALIZABLE if chosen.random() < 0.1 else None
    transaction = catalog.begin(isolation)
    what, statement = chosen.choice(CHANGES)
    try:
        statement(transaction, number, turn, chosen)
    except OlympiaError as error:
        return transaction, f"{what} by writer {number}", str(error)
    return transaction, f"{what} by writer {number}", ""


def _commit(catalog: Catalog, transaction: Transaction, what: str, refused: str) -> Outcome:
    if refused:
        # what this writer chose is not there any more: nothing to commit
        return Outcome(transaction.id, what, "refused", message=refused)
    try:
        done = catalog.commit(transaction, what)
    except CommitConflict as error:
        return Outcome(transaction.id, what, "conflict", message=str(error))
    except OlympiaError as error:
        return Outcome(transaction.id, what, type(error).__name__, message=str(error))
    # other writers may have done all of it first: then there is no version of its own
    return Outcome(transaction.id, what, "committed" if done.actions else "unneeded", done.version)


Statement = Callable[[Transaction, int, int, random.Random], None]


def _create(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    t.create_table(TableName("shared", f"t{number}-{turn}"), f"s3://{number}/{turn}")


def _create_many(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    for extra in range(5):
        t.create_table(TableName(f"own{number}", f"t{turn}-{extra}"), f"s3://{number}/{turn}/{extra}")
    t.create_view(ViewName("shared", f"v{number}-{turn}"), ViewDef(substrait_read_rel=b"select"))


def _set_own_key(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    t.alter_table(HOT, {f"writer{number}": str(turn)})
    t.alter_namespace(SHARED, {f"writer{number}": str(turn)})


def _set_same_key(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    t.alter_table(HOT, {"everybody": f"{number}-{turn}"})


def _alter_catalog(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    t.alter_catalog({f"writer{number}": str(turn)})


def _any_of(names: list[TableName], namespace: str, chosen: random.Random) -> TableName:
    """One of these tables. The others may have dropped or renamed all of them: then one that is not there."""
    return chosen.choice(names or [TableName(namespace, "none")])


def _rename(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    old = _any_of(list(t.tables("shared")), "shared", chosen)
    t.rename_table(old, TableName(f"own{number}", f"r{turn}"))


def _rename_back(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    other = f"own{chosen.randrange(4)}"
    old = _any_of(list(t.tables(other)), other, chosen)
    t.rename_table(old, TableName("shared", f"back{number}-{turn}"))


def _drop_pool(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    t.drop_table(TableName("shared", f"pool{chosen.randrange(POOL)}"))


def _drop_any(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    t.drop_table(_any_of([name for name in t.tables("shared") if name != HOT], "shared", chosen))


def _rename_own(t: Transaction, number: int, turn: int, chosen: random.Random) -> None:
    t.rename_namespace(NamespaceName(f"own{number}"), NamespaceName(f"passing{number}"))
    t.rename_namespace(NamespaceName(f"passing{number}"), NamespaceName(f"own{number}"))


CHANGES: list[tuple[str, Statement]] = [
    ("create", _create),
    ("create", _create),
    ("create many", _create_many),
    ("set own key", _set_own_key),
    ("set own key", _set_own_key),
    ("set same key", _set_same_key),
    ("alter catalog", _alter_catalog),
    ("rename", _rename),
    ("rename back", _rename_back),
    ("drop from the pool", _drop_pool),
    ("drop any", _drop_any),
    ("rename own namespace there and back", _rename_own),
]


def begin_with(environment: Mapping[str, str], all_there: Barrier) -> None:
    """What a process is made ready with (`take_part`). It is a fork of one that has loaded all that it needs, whose
    environment may be an older one."""
    os.environ.clear()
    os.environ.update(environment)
    globals()["_all_there"] = all_there


def take_part(uri: str, options: Mapping[str, object], number: int, commits: int) -> list[Outcome]:
    """As `work`, in a process, at the same moment as all the others."""
    store = open_store(uri, options)
    # everything that the work needs is connected before the start
    Catalog.open(store)
    globals()["_all_there"].wait(PATIENCE)
    outcomes = work(store, number, commits)
    store.close()
    return outcomes
