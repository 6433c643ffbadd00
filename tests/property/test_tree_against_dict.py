"""The tree does what a dict does, keeps its invariants after every step, and shares what it did not touch."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from olympia_cli.format.node import EMPTY
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.diff import diff
from olympia_cli.tree.edit import bulk_load, edit
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.search import scan, search
from tests.helpers.trees import check_tree, write_node, write_tree

pytestmark = pytest.mark.usefixtures("decoded_once")

SETTINGS = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
orders = st.sampled_from([3, 4, 5, 6, 7, 8, 16])
keys = st.integers(0, 120).map(lambda number: f"C==={number:03}")
values = st.one_of(st.none(), st.integers(0, 9).map(lambda number: f"def/table/{number}"))
steps = st.lists(st.dictionaries(keys, values, min_size=1, max_size=30), min_size=1, max_size=12)


@SETTINGS
@given(order=orders, steps=steps, prefix=st.sampled_from(["", "C===", "C===0", "C===01", "C===05", "C===119", "D"]))
def test_any_sequence_of_edits_equals_a_dict(order, steps, prefix):
    store = MemoryStore()
    reader = NodeReader(store, keep=3)
    tree, model = EMPTY, {}
    for changes in steps:
        before, model_before = tree, dict(model)
        tree = write_tree(store, edit(reader, tree, changes, order))
        for key, value in changes.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        check_tree(reader, tree, order)
        assert dict(scan(reader, tree)) == model
        assert list(scan(reader, tree)) == sorted(model.items())
        expected = [(key, value) for key, value in sorted(model.items()) if key.startswith(prefix)]
        assert list(scan(reader, tree, prefix)) == expected
        for key in changes:
            assert search(reader, tree, key) == model.get(key)
        found = [(change.key, change.old, change.new) for change in diff(reader, before, reader, tree)]
        differing = sorted(key for key in model_before | model if model_before.get(key) != model.get(key))
        assert found == [(key, model_before.get(key), model.get(key)) for key in differing]
        assert dict(scan(reader, before)) == model_before, "the older tree is untouched"


@SETTINGS
@given(order=orders, count=st.integers(0, 400), fill=st.floats(0.01, 1.0))
def test_bulk_loading_gives_a_sound_tree_with_each_node_written_once(order, count, fill):
    store = MemoryStore()
    items = [(f"C==={number:04}", f"def/table/{number}") for number in range(count)]
    tree = bulk_load(iter(items), order, lambda node: write_node(store, node), fill)
    reader = NodeReader(store)
    check_tree(reader, tree, order)
    assert list(scan(reader, tree)) == items
    reachable = set()
    level = [tree]
    while level:
        paths = [path for node in level for path in node.children]
        reachable.update(paths)
        level = [reader.node(path) for path in paths]
    assert {file.path for file in store.list()} == reachable


@SETTINGS
@given(order=orders, count=st.integers(0, 200), changes=st.dictionaries(keys, values, max_size=40))
def test_a_bulk_loaded_tree_can_be_edited_like_any_other(order, count, changes):
    store = MemoryStore()
    items = {f"C==={number:03}": "def/table/x" for number in range(count)}
    reader = NodeReader(store)
    tree = bulk_load(sorted(items.items()), order, lambda node: write_node(store, node))
    tree = write_tree(store, edit(reader, tree, changes, order))
    check_tree(reader, tree, order)
    expected = {key: value for key, value in (items | changes).items() if value is not None}
    assert dict(scan(reader, tree)) == expected
