"""The requests of reading commands to the store: files and round trips are counted, not timed."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import LAST_FSCK, LATEST, OLDEST
from olympia_cli.storage import memory
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.expire import mark, record_export
from tests.helpers.names import ns, table
from tests.helpers.stores import CountingStore

NAME = "counted"


@pytest.fixture(scope="module")
def files():
    """Versions 0 to 20; the tree of each but the first has two levels."""
    catalog = Catalog.create(MemoryStore(), order=8)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("sales"))
        for number in range(20):
            transaction.create_table(table(f"sales.t{number:02}"), "s3://x")
    for number in range(2, 20):
        with catalog.transaction() as transaction:
            transaction.alter_table(table(f"sales.t{number:02}"), {"p": "1"})
    with catalog.transaction() as transaction:
        record_export(transaction, "friday", 12)
    return catalog.store._files


@pytest.fixture
def store(files, monkeypatch):
    counting = CountingStore(MemoryStore(NAME, files=dict(files)))
    monkeypatch.setitem(memory._shared, NAME, counting)
    return counting


def leaf_table(store) -> str:
    """A table whose key is in a leaf of every version."""
    snapshot = Catalog(store).snapshot()
    name = next(name for name in snapshot.tables() if snapshot.keys.encode(name) not in snapshot.root.node.keys)
    store.reset()
    return str(name)


@pytest.mark.parametrize(
    ("command", "rounds", "requests"),
    [
        # both hints; the root and the next one, which is missing; the root again, with the catalog definition and a
        # node; the definition
        ("table show T", 4, 8),
        # the version's root comes with the latest definition, which says whether it counts
        ("table show T --at v12", 5, 10),
        ("table show T --at latest~3", 5, 10),
        # the namespace, and what is in it
        ("ns show sales --at v12", 6, 13),
        ("table ls sales --at v12", 5, 12),
        ("ns ls --at v12", 5, 9),
        ("time-travel v12", 6, 12),
        # which version it is of stands in the definition
        ("table show T --at friday", 6, 10),
        # where history begins is looked up
        ("ns ls --at oldest", 6, 9),
        ("log -n 1", 3, 6),
        ("log -n 3", 5, 9),
        # 21 versions: all their roots; the nodes on the way and the definitions, each in one round
        ("table history T", 8, 31),
    ],
)
def test_a_reading_command_waits_for_so_many_rounds_and_asks_for_so_many_files(run, store, command, rounds, requests):
    words = [leaf_table(store) if word == "T" else word for word in command.split()]
    done = run("-c", f"memory://{NAME}", *words)
    assert (done.exit_code, store.lists, store.writes) == (0, 0, 0)
    assert (store.round_trips, len(store.sequence)) == (rounds, requests)
    assert store.of(LATEST) == store.of(OLDEST) == 1, "the hints are read once"


@pytest.mark.parametrize(
    ("command", "rounds"),
    [
        # as for a reader, with the nodes for both names; the files; the root. Then the hint, which the end waits for
        ("table register sales.new --metadata-location s3://x", 5 + 1),
        ("table alter T --set a=b", 6 + 1),
        ("table drop T", 6 + 1),
        ("table rename T sales.new", 6 + 1),
        ("ns create new", 5 + 1),
        # the running root; the save
        ("txn begin", 5 + 1),
    ],
)
def test_a_changing_command_waits_for_so_many_rounds(run, store, command, rounds):
    words = [leaf_table(store) if word == "T" else word for word in command.split()]
    run("-c", f"memory://{NAME}", *words).ok()
    assert store.round_trips + store.calls["write_hint"] == rounds
    assert store.of(LAST_FSCK) == 1, "what fsck found last comes along"
    check_catalog(store.inner)


def test_a_hint_that_lags_by_one_costs_one_probe_more(run, store):
    store.overwrite(LATEST, b"19")
    words = ["table", "show", leaf_table(store)]
    assert run("-c", f"memory://{NAME}", *words, "--json").json["version"] == 20
    assert (store.round_trips, store.probes) == (5, 1)


def test_reading_after_a_mark_costs_no_more_requests(run, store):
    mark(Catalog(store), 4)
    words = ["table", "show", leaf_table(store), "--at"]
    assert run("-c", f"memory://{NAME}", *words, "v12").exit_code == 0
    assert (store.round_trips, len(store.sequence)) == (5, 10)
    store.reset()
    done = run("-c", f"memory://{NAME}", *words, "v3")
    assert (done.exit_code, "the oldest is 4" in done.stderr) == (10, True)
    assert store.round_trips == 4, "after the definition only whether version 4 is there"
