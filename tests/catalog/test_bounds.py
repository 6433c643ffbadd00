"""The numbers of requests of operations. They are counted, not timed, so they are the same on every machine."""

from __future__ import annotations

import math
import os
import pwd
import socket
from collections import Counter

import pytest

from olympia_cli.catalog.catalog import Catalog, _user, who
from olympia_cli.errors import Damaged
from olympia_cli.format.paths import LATEST, OLDEST, FileKind, file_kind
from olympia_cli.names import AtTime, NamespaceName, TableName
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.search import depth
from tests.helpers.big_catalog import add_versions, make_big_catalog
from tests.helpers.stores import CountingStore


@pytest.fixture(scope="module")
def deep():
    """A catalog whose tree has three levels."""
    store = MemoryStore()
    catalog = make_big_catalog(store, namespaces=4, tables=60, order=8)
    snapshot = catalog.snapshot()
    assert depth(NodeReader(store), snapshot.root.node) == 3
    return store


def counting(store) -> CountingStore:
    return CountingStore(MemoryStore(files=dict(store._files)))


def kinds(paths) -> Counter[FileKind]:
    return Counter(file_kind(path) for path in paths)


def leaf_table(store) -> TableName:
    """A table whose key is in a leaf, so that finding it takes all levels."""
    snapshot = Catalog(store).snapshot()
    reader = NodeReader(store)
    upper = set(snapshot.root.node.keys)
    for child in snapshot.root.node.children:
        upper |= set(reader.node(child).keys)
    return next(name for name in snapshot.tables() if snapshot.keys.encode(name) not in upper)


def test_a_lookup_reads_the_root_the_catalog_definition_a_node_a_level_and_the_definition(deep):
    name = leaf_table(deep)
    store = counting(deep)
    Catalog(store).snapshot().table(name)
    assert store.sequence[:2] == [("read_many", LATEST), ("read_many", OLDEST)], "both hints in one round trip"
    read = kinds(store.paths("read", "read_many"))
    # the root that the hint names, the next one, which is missing, and then that root again
    assert read == {FileKind.HINT: 2, FileKind.ROOT: 3, FileKind.NODE: 2, FileKind.DEFINITION: 2}
    assert store.probes == 0
    assert store.lists == 0
    assert store.writes == 0


def test_the_catalog_definition_and_the_first_level_are_read_in_the_same_round_trip_as_the_root(deep):
    store = counting(deep)
    name = leaf_table(deep)
    snapshot = Catalog(store).snapshot(names=[name])
    assert store.calls == {"read_many": 3}, "the hints; a guess; the root with both of them"
    store.reset()
    snapshot.table(name)
    assert store.calls == {"read_many": 2}, "the leaf; the table's definition"


def test_a_prefetched_damaged_definition_fails_only_when_used(deep):
    """Prefetched definitions are not decoded before they are used."""
    files = MemoryStore(files=dict(deep._files))
    name, root = leaf_table(deep), Catalog(deep).snapshot().root
    for path in (root.catalog_def, *root.node.children):
        files.overwrite(path, b"garbage")
    for names in ([], [name], [TableName("ns000001", "x" * 1000)]):
        snapshot = Catalog(files).snapshot(names=names)
        with pytest.raises(Damaged):
            snapshot.table(name)


def test_a_commit_of_one_object_writes_a_definition_two_nodes_a_root_and_a_hint(deep):
    name = leaf_table(deep)
    store = counting(deep)
    catalog = Catalog(store)
    transaction = catalog.begin()
    transaction.alter_table(name, {"p": "1"})
    store.reset()
    catalog.commit(transaction)
    written = kinds(store.paths("create", "create_many", "overwrite", "write_hint"))
    assert written == {FileKind.DEFINITION: 1, FileKind.NODE: 2, FileKind.ROOT: 1, FileKind.HINT: 1}
    assert store.lists == 0
    assert store.probes == 0, "the new root is created, not looked for"
    assert store.calls["create_many"] == 1, "definitions and nodes go out together"


def test_creating_a_table_lists_nothing_and_reads_one_path(deep):
    store = counting(deep)
    catalog = Catalog(store)
    with catalog.transaction() as transaction:
        transaction.create_table(TableName("ns000001", "zzz"), "s3://x")
    assert store.lists == 0
    # the way to the table and the way to its namespace, and the neighbours of nothing
    assert kinds(store.paths("read", "read_many"))[FileKind.NODE] <= 4


@pytest.mark.parametrize("versions", [100, 1_000, 10_000])
def test_finding_the_latest_version_without_a_hint_takes_logarithmically_many_probes(versions):
    files = MemoryStore()
    Catalog.create(files)
    add_versions(files, versions)
    files.delete_many([LATEST])
    store = CountingStore(files)
    assert Catalog(store).snapshot().version == versions
    assert store.probes <= 2 * math.ceil(math.log2(versions)) + 2
    assert store.lists == 0


@pytest.mark.parametrize("hint", [b"9999999", b"4294967295"])
def test_a_hint_far_ahead_takes_logarithmically_many_probes(hint):
    files = MemoryStore()
    Catalog.create(files)
    add_versions(files, 300)
    files.overwrite(LATEST, hint)
    store = CountingStore(files)
    assert Catalog(store).snapshot().version == 300
    assert store.probes <= 40
    assert store.lists == 0


def test_resolving_a_time_reads_logarithmically_many_roots():
    files = MemoryStore()
    catalog = Catalog.create(files)
    add_versions(files, 1000)
    store = CountingStore(files)
    moment = catalog.snapshot().created_at_millis
    assert Catalog(store).snapshot(AtTime(moment)).version == 1000
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("late"))
    store.reset()
    Catalog(store).snapshot(AtTime(moment))
    assert kinds(store.paths("read"))[FileKind.ROOT] <= 14


def test_a_scan_of_a_namespace_reads_only_the_nodes_that_hold_it(deep):
    store = counting(deep)
    snapshot = Catalog(store).snapshot()
    reader = NodeReader(deep)
    prefix = snapshot.keys.prefix(TableName("ns000002", "x").kind, "ns000002")

    holding = set()

    def walk(node, path):
        inside = any(key.startswith(prefix) for key in node.keys)
        below = sum(walk(reader.node(child), child) for child in node.children) > 0
        if (inside or below) and path is not None:
            holding.add(path)
        return inside or below

    walk(snapshot.root.node, None)
    store.reset()
    snapshot.definition  # noqa: B018
    list(snapshot.scan(TableName("ns000002", "x").kind, "ns000002"))
    read = {path for path in store.paths("read", "read_many") if file_kind(path) is FileKind.NODE}
    levels = 3
    # a neighbour on either side cannot be ruled out before it is read
    assert len(read - holding) <= 2 * (levels - 1)
    assert holding <= read


def test_ten_thousand_objects_in_one_transaction_write_each_file_once():
    store = CountingStore(MemoryStore())
    catalog = Catalog.create(store)
    transaction = catalog.begin()
    transaction.create_namespace(NamespaceName("a"))
    for number in range(9_999):
        transaction.create_table(TableName("a", f"t{number:05}"), "s3://x")
    store.reset()
    catalog.commit(transaction)
    written = store.paths("create", "create_many", "write_hint")
    assert len(written) == len(set(written))
    reachable = {file.path for file in store.list("node/")}
    assert kinds(written)[FileKind.NODE] == len(reachable)
    assert kinds(written) == {
        FileKind.DEFINITION: 10_000,
        FileKind.NODE: len(reachable),
        FileKind.ROOT: 1,
        FileKind.HINT: 1,
    }


def test_retry_after_a_lost_race_rewrites_only_changed_files(deep):
    """Losers reuse the definitions and the untouched nodes that they already wrote."""
    store = counting(deep)
    catalog = Catalog(store)
    loser = catalog.begin()
    loser.alter_table(TableName("ns000000", "table000000"), {"p": "1"})
    with catalog.transaction() as winner:
        winner.alter_table(TableName("ns000003", "table000059"), {"p": "1"})
    store.reset()
    catalog.commit(loser)
    written = kinds(store.paths("create_many"))
    assert written[FileKind.DEFINITION] == 1, "the definition is written once"
    assert written[FileKind.NODE] <= 2, "the other writer's path is not ours: our nodes fit the newer root as they are"


class TestWhoCommits:
    @pytest.fixture(autouse=True)
    def _nobody_says(self, monkeypatch):
        for name in ("OLYMPIA_BY", "LOGNAME", "USER", "LNAME", "USERNAME"):
            monkeypatch.delenv(name, raising=False)
        _user.cache_clear()
        yield
        _user.cache_clear()

    def test_the_user_name_is_looked_up_once(self, monkeypatch):
        asked, ask = [], pwd.getpwuid
        monkeypatch.setattr(pwd, "getpwuid", lambda number: asked.append(number) or ask(number))
        assert who() == who() == f"{ask(os.getuid()).pw_name}@{socket.gethostname()}"
        assert asked == [os.getuid()]

    def test_environment_variables_are_read_each_time(self, monkeypatch):
        monkeypatch.setenv("USER", "ann")
        assert who() == f"ann@{socket.gethostname()}"
        monkeypatch.setenv("LOGNAME", "bob")
        assert who() == f"bob@{socket.gethostname()}"
        monkeypatch.setenv("OLYMPIA_BY", "the night job")
        assert who() == "the night job"

    def test_a_user_that_the_machine_does_not_know(self, monkeypatch):
        monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
        assert who() == f"unknown@{socket.gethostname()}"
