"""The reads and writes of the tree, and its errors for damaged nodes."""

from __future__ import annotations

import pytest

from olympia_cli.errors import Damaged, InvalidOption, StorageFailed
from olympia_cli.format.codec import encode_node
from olympia_cli.format.node import EMPTY, Node
from olympia_cli.format.paths import new_node_path
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.diff import diff
from olympia_cli.tree.edit import bulk_load, edit
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.search import depth, scan, search
from tests.helpers.stores import CountingStore
from tests.helpers.trees import check_tree, write_node, write_tree


def key(number: int) -> str:
    return f"C==={number:06}"


@pytest.fixture
def store():
    return CountingStore(MemoryStore())


def load(store, count: int, order: int = 8) -> Node:
    items = ((key(number), f"def/table/{number}") for number in range(count))
    return bulk_load(items, order, lambda node: write_node(store, node))


def reads(store) -> set[str]:
    return {path for method, path in store.sequence if method.startswith("read")}


def test_a_search_reads_one_node_a_level(store):
    tree = load(store, 2000)
    levels = depth(NodeReader(store), tree)
    for number in (0, 1, 777, 1999):
        store.reset()
        assert search(NodeReader(store), tree, key(number)) == f"def/table/{number}"
        assert len(reads(store)) <= levels - 1


def test_a_scan_of_a_range_reads_only_the_nodes_that_can_hold_it(store):
    tree = load(store, 4000)
    store.reset()
    assert len(list(scan(NodeReader(store), tree, "C===00120"))) == 10
    levels = depth(NodeReader(MemoryStore(files=store.inner._files)), tree)
    # ten keys of a tree whose leaves hold seven lie in at most three leaves; above them, one path or two
    assert len(reads(store)) <= 3 + 2 * (levels - 2)


def test_a_scan_continues_after_present_and_absent_keys(store):
    tree = load(store, 600)
    keys = [found for found, _ in scan(NodeReader(store), tree, "C===")]
    for at in (0, 1, 57, 128, len(keys) - 2, len(keys) - 1):
        assert [found for found, _ in scan(NodeReader(store), tree, "C===", keys[at])] == keys[at + 1 :]
        between = keys[at][:-1] + "!"
        rest = [found for found in keys if found > between]
        assert [found for found, _ in scan(NodeReader(store), tree, "C===", between)] == rest
    # what comes before the prefix leaves nothing out
    assert [found for found, _ in scan(NodeReader(store), tree, "C===", "B===z")] == keys


def test_an_edit_of_one_key_makes_one_new_node_a_level(store):
    tree = load(store, 4000)
    reader = NodeReader(store)
    levels = depth(reader, tree)
    store.reset()
    write_tree(store, edit(reader, tree, {key(1234): "def/table/new"}, 8))
    assert store.writes <= levels - 1


def test_ten_thousand_keys_in_one_edit_write_each_node_once(store):
    reader = NodeReader(store)
    tree = edit(reader, EMPTY, {key(number): "def/table/x" for number in range(10_000)}, 128)
    assert store.writes == 0, "an edit writes nothing itself"
    tree = write_tree(store, tree)
    nodes = {file.path for file in store.list()}
    assert store.writes == len(nodes)
    check_tree(NodeReader(store), tree, 128)


@pytest.mark.parametrize("order", [3, 4, 7, 128])
@pytest.mark.parametrize("keys", [range(1, 2000), range(700, 3000, 7), [3, 4, 5, 1601, *range(1602, 1700, 2)]])
def test_many_keys_in_one_edit_make_the_tree_that_they_make_one_by_one(store, order, keys):
    tree = load(store, 1000, order)
    reader = NodeReader(store)
    # some are new, some are there with another value or the same one, and some go
    values = (None, "def/table/y", f"def/table/{keys[0]}")
    changes = {key(number): values[number % 13 if number % 13 < 2 else 2] for number in keys}
    one_by_one = tree
    for changed in sorted(changes):
        one_by_one = edit(reader, one_by_one, {changed: changes[changed]}, order)
    assert edit(reader, tree, changes, order) == one_by_one
    puts = {changed: value for changed, value in changes.items() if value is not None}
    again = edit(reader, one_by_one, puts, order)
    assert again is one_by_one, "what is there already changes nothing"


def test_an_edit_reads_each_node_once_and_only_on_the_way_to_its_keys(store):
    tree = load(store, 4000)
    store.reset()
    edit(NodeReader(store), tree, {key(number): "def/table/new" for number in range(100, 140)}, 8)
    read = [path for method, path in store.sequence if method.startswith("read")]
    assert len(read) == len(set(read))
    assert len(read) < 25


def test_a_diff_of_trees_skips_shared_nodes(store):
    tree = load(store, 4000)
    reader = NodeReader(store)
    levels = depth(reader, tree)
    changed = write_tree(store, edit(reader, tree, {key(2222): "def/table/new", key(9999): "def/table/more"}, 8))
    store.reset()
    found = list(diff(NodeReader(store), tree, NodeReader(store), changed))
    assert [(change.key, change.new) for change in found] == [
        (key(2222), "def/table/new"),
        (key(9999), "def/table/more"),
    ]
    # two paths in each tree, and the leftmost path that tells their height
    assert len(reads(store)) <= 6 * levels


def test_a_diff_across_a_growth_in_height_still_skips(store):
    order = 4
    items = {key(number): "def/table/x" for number in range(0, 2000, 2)}
    reader = NodeReader(store)
    tree = bulk_load(sorted(items.items()), order, lambda node: write_node(store, node))
    grown, number = tree, 1
    while depth(reader, grown) == depth(reader, tree):
        grown = write_tree(store, edit(reader, grown, {key(number): "def/table/y"}, order))
        number += 2
    store.reset()
    found = list(diff(NodeReader(store), tree, NodeReader(store), grown))
    assert len(found) == number // 2
    total = sum(1 for _ in store.inner.list())
    assert len(reads(store)) < total / 4


def test_a_diff_of_equal_trees_reads_next_to_nothing(store):
    tree = load(store, 4000)
    store.reset()
    assert list(diff(NodeReader(store), tree, NodeReader(store), tree)) == []
    assert len(reads(store)) <= 8


@pytest.mark.parametrize("fill", [0, -1, 1.01])
def test_a_fill_factor_that_makes_no_sense_is_refused(store, fill):
    with pytest.raises(InvalidOption):
        bulk_load([("a", "b")], 4, lambda node: write_node(store, node), fill)


@pytest.mark.parametrize("items", [[("b", "x"), ("a", "x")], [("a", "x"), ("a", "y")]])
def test_bulk_loading_refuses_keys_out_of_order(store, items):
    with pytest.raises(InvalidOption):
        bulk_load(items, 4, lambda node: write_node(store, node))


def _everything(store, tree):
    """All that reads or edits a tree; each must end, with Damaged."""
    for number in range(30):
        search(NodeReader(store), tree, key(number))
    list(scan(NodeReader(store), tree))


def test_a_cycle_ends_in_damaged(store):
    path = new_node_path()
    root = Node((key(10),), ("def/table/x",), (path, path))
    store.create(path, encode_node(Node((key(10),), ("def/table/x",), (path, path)), 0))
    with pytest.raises(Damaged, match="outside the range"):
        list(scan(NodeReader(store), root))
    with pytest.raises(Damaged, match="outside the range"):
        search(NodeReader(store), root, key(5))
    with pytest.raises(Damaged):
        edit(NodeReader(store), root, {key(5): "def/table/y"}, 4)
    with pytest.raises(Damaged):
        list(diff(NodeReader(store), root, NodeReader(store), EMPTY))


def test_a_chain_without_keys_that_never_ends_is_damaged(store):
    path = new_node_path()
    store.create(path, encode_node(Node((), (), (path,)), 0))
    root = Node((), (), (path,))
    for attempt in (
        lambda: list(scan(NodeReader(store), root)),
        lambda: search(NodeReader(store), root, key(5)),
        lambda: edit(NodeReader(store), root, {key(5): "def/table/y"}, 4),
        lambda: list(diff(NodeReader(store), root, NodeReader(store), EMPTY)),
    ):
        with pytest.raises(Damaged, match="deeper than"):
            attempt()


def test_a_node_below_the_wrong_parent_is_damaged(store):
    left, right = (write_node(store, Node((key(number),), ("def/table/x",))) for number in (20, 5))
    with pytest.raises(Damaged, match="outside the range"):
        _everything(store, Node((key(10),), ("def/table/x",), (left, right)))


def test_a_missing_node_is_damaged_and_names_itself(store):
    gone = new_node_path()
    leaf = write_node(store, Node((key(20),), ("def/table/x",)))
    with pytest.raises(Damaged, match=gone):
        _everything(store, Node((key(10),), ("def/table/x",), (gone, leaf)))


@pytest.mark.parametrize(
    "pointer", ["../secret", "/etc/passwd", "node/../../x", "s3://other/node/x", "node\\x", "a//b"]
)
def test_a_pointer_out_of_the_catalog_is_never_followed(store, pointer):
    tree = Node((key(10),), ("def/table/x",), (pointer, pointer))
    store.reset()
    with pytest.raises(Damaged, match="outside the catalog"):
        search(NodeReader(store), tree, key(5))
    assert store.sequence == []


def test_neighbours_on_different_levels_are_damaged_before_they_are_merged(store):
    leaf = write_node(store, Node((key(1),), ("def/table/x",)))
    inner = write_node(
        store,
        Node(
            (key(20),),
            ("def/table/x",),
            tuple(write_node(store, Node((key(number),), ("def/table/x",))) for number in (15, 25)),
        ),
    )
    tree = Node((key(10),), ("def/table/x",), (leaf, inner))
    with pytest.raises(Damaged, match="level"):
        edit(NodeReader(store), tree, {key(1): None}, 4)


def test_tombstones_of_other_programs_are_read_as_deleted(store):
    leaves = [
        write_node(store, Node((key(1), key(2)), (None, "def/table/2"))),
        write_node(store, Node((key(20),), (None,))),
    ]
    tree = Node((key(10),), (None,), tuple(leaves))
    reader = NodeReader(store)
    assert dict(scan(reader, tree)) == {key(2): "def/table/2"}
    assert search(reader, tree, key(10)) is None
    assert [change.key for change in diff(reader, EMPTY, reader, tree)] == [key(2)]


def test_a_store_that_fails_is_not_taken_for_damage(store):
    class Failing(MemoryStore):
        def read_many(self, paths):
            return ((path, StorageFailed("down")) for path in paths)

    with pytest.raises(StorageFailed):
        search(NodeReader(Failing()), Node((key(10),), ("def/table/x",), ("node/a", "node/b")), key(5))


def test_a_diff_ends_where_a_chain_without_keys_lies_off_the_leftmost_path(store):
    left = write_node(store, Node(("a",), ("def/table/a",)))
    path = new_node_path()
    store.create(path, encode_node(Node((), (), (path,)), 0))
    old = Node(("k",), ("def/table/k",), (left, path))
    new = Node(("a", "k", "z"), ("def/table/a", "def/table/k", "def/table/z"))
    with pytest.raises(Damaged, match="deeper than"):
        list(diff(NodeReader(store), old, NodeReader(store), new))


def test_an_empty_leaf_is_damage_and_no_crash(store):
    empty = write_node(store, Node((), ()))
    leaf = write_node(store, Node((key(20),), ("def/table/x",)))
    tree = Node((key(10),), ("def/table/x",), (empty, leaf))
    with pytest.raises(Damaged, match="no keys"):
        edit(NodeReader(store), tree, {key(10): None}, 4)
