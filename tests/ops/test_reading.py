"""The cost of reading, and the correctness of counts: log, diff, shape, reach, describe."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import root_path
from olympia_cli.names import time_text
from olympia_cli.ops.inspect import diff, log_between
from olympia_cli.ops.walk import count_nodes
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.check import check_versions
from tests.helpers.names import location, ns, table
from tests.helpers.reach import reach_of
from tests.helpers.stores import CountingStore


def change(catalog: Catalog, *statements) -> None:
    with catalog.transaction() as transaction:
        for statement in statements:
            statement(transaction)


@pytest.fixture
def tall() -> Catalog:
    """Some versions of a tree with several levels."""
    catalog = Catalog.create(MemoryStore(), order=4)
    for start in range(0, 40, 10):
        change(catalog, *(lambda t, n=n: t.create_namespace(ns(f"n{n:02}")) for n in range(start, start + 10)))
    return catalog


def test_the_log_reads_the_roots_that_it_shows_and_no_others(tall):
    store = CountingStore(tall.store)
    assert [entry.version for entry in log_between(Catalog(store), None, None, 2)] == [4, 3]
    roots = {path for path in store.paths("read", "read_many") if path.startswith("vn/") and path[3].isdigit()}
    # and where the next one would be
    assert roots == {root_path(version) for version in (3, 4, 5)}
    assert not [path for path in store.paths("read", "read_many") if path.startswith(("node/", "def/ns"))]


def test_a_diff_does_not_read_shared_nodes():
    catalog = make_big_catalog(MemoryStore(), 3, 2000, order=16)
    change(catalog, lambda t: t.create_table(table("ns000001.new"), location(0)))
    store = CountingStore(catalog.store)
    again = Catalog(store)
    new = again.snapshot()
    old = again.snapshot(_at(1))
    store.reset()
    [found] = diff(old, new)
    assert (found.change, str(found.name)) == ("created", "ns000001.new")
    assert store.reads < 30


def test_a_rename_is_one_though_the_former_name_is_taken_again():
    catalog = Catalog.create(MemoryStore())
    change(catalog, lambda t: t.create_namespace(ns("n")), *(_create(name) for name in ("n.a", "n.b", "n.c")))
    change(
        catalog,
        lambda t: t.rename_table(table("n.a"), table("n.d")),
        _create("n.a"),
        lambda t: t.rename_table(table("n.b"), table("n.x")),
        lambda t: t.rename_table(table("n.c"), table("n.b")),
        lambda t: t.rename_table(table("n.x"), table("n.c")),
    )
    found = [(one.change, one.old_name.name, one.name.name) for one in diff(*map(catalog.snapshot, (_at(1), _at(2))))]
    assert found == [("created", "a", "a"), ("renamed", "c", "b"), ("renamed", "b", "c"), ("renamed", "a", "d")]


def _create(name):
    return lambda t: t.create_table(table(name), location(0))


def test_a_diff_of_versions_agrees_with_the_checker(tall):
    contents = {version.number: version.contents for version in check_versions(tall.store)}
    for old, new in ((0, 4), (4, 0), (1, 3), (2, 2)):
        found = {change.name for change in diff(tall.snapshot(_at(old)), tall.snapshot(_at(new)))}
        assert found == set(contents[old]) ^ set(contents[new])


def test_nodes_are_counted_and_files_reached_as_the_checker_does(tall):
    for version in check_versions(tall.store):
        snapshot = tall.snapshot(_at(version.number))
        assert count_nodes(snapshot.reader, snapshot.root.node) == len(version.nodes) + 1
        found = [path for new in reach_of(tall.store).each([(snapshot.file.path, snapshot.file.data)]) for path in new]
        assert sorted(found) == sorted(version.files)


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_763_236_800_123, "2025-11-15T20:00:00.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**18, f"{10**18} ms"),
        (-(10**18), f"{-(10**18)} ms"),
    ],
)
def test_any_time_has_a_text(millis, text):
    assert time_text(millis) == text


def _at(version: int):
    from olympia_cli.names import AtVersion

    return AtVersion(version)
