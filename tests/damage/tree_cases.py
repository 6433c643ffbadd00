"""Damage of trees whose files are sound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from olympia_cli.format.codec import DIGEST_KEY, N_KEYS
from olympia_cli.format.node import Node
from olympia_cli.format.paths import root_path
from olympia_cli.names import NamespaceName
from olympia_cli.storage.protocol import Store
from tests.damage.case import (
    Wanted,
    case,
    children,
    definition,
    inner,
    leaf,
    leaf_of_tables,
    many,
    names,
    wanted,
)
from tests.helpers.damage import (
    Raw,
    add_chain,
    add_node,
    crowded,
    digest_in,
    doubled_key,
    no_keys,
    reversed_keys,
    rewrite_node,
    rewrite_raw,
    with_child,
    with_key,
    with_value,
)
from tests.helpers.damage_sample import Sample


@case
def node_that_is_its_own_child(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    rewrite_node(store, path, with_child(0, path))
    return wanted("F213", path, versions=s.hit(path))


@case
def two_nodes_below_each_other(s: Sample, store: Store) -> Wanted:
    one, other = inner(s, 0), inner(s, 1)
    rewrite_node(store, one, with_child(0, other))
    rewrite_node(store, other, with_child(0, one))
    return wanted("F213", one, other, versions=s.hit(one) | s.hit(other))


@case
def leaf_that_points_back_up(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    low = children(s, path)[0]
    rewrite_node(store, low, lambda node: replace(node, children=(path,) * (len(node.keys) + 1)))
    return wanted("F213", path, low, versions=s.hit(low))


@case
def root_below_itself(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    rewrite_node(store, path, with_child(0, root_path(s.latest)))
    return wanted("F213|F207|F212|F210|F209", versions={s.latest})


@case
def root_of_another_version_as_a_child(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    rewrite_node(store, path, with_child(0, root_path(1)))
    return wanted("F207|F212|F210|F209|F214", versions=s.hit(path))


@case
def root_that_is_a_child_too_and_whose_own_tree_is_wrong(s: Sample, store: Store) -> Wanted:
    """The node has two places, and is checked at each."""
    tree = s.tree(9)
    low = str(tree.nodes[str(tree.root.node.children[1])].children[0])
    rewrite_node(store, root_path(8), with_child(0, root_path(9)))
    rewrite_node(store, low, with_key(0, s.keys.encode(NamespaceName("a"))))
    return wanted("F209", low, versions=s.hit(low))


@case
def root_of_a_sound_version_in_the_tree_of_another(s: Sample, store: Store) -> Wanted:
    """The version that misuses it is to blame, not the one whose root it is."""
    rewrite_node(store, root_path(7), with_child(1, root_path(11)))
    return wanted("F207", versions={7})


@case
def cycle_that_several_versions_run_into(s: Sample, store: Store) -> Wanted:
    """Cut where it may be, each version that leads into it is hit."""
    holder = max(s.tree(8).inner, key=lambda path: len(s.hit(path)))
    rewrite_node(store, holder, with_child(0, root_path(sorted(s.hit(holder))[1])))
    return wanted("F207|F213", versions=s.hit(holder))


@case
def node_under_two_parents(s: Sample, store: Store) -> Wanted:
    one, other = inner(s, 0), inner(s, 1)
    shared = children(s, other)[0]
    rewrite_node(store, one, with_child(0, shared))
    return wanted("F214", shared, one, versions=s.hit(one) & s.hit(other))


@case
def node_twice_under_one_parent(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    shared = children(s, path)[0]
    rewrite_node(store, path, with_child(1, shared))
    return wanted("F214", shared, path, versions=s.hit(path))


@case
def empty_leaf_under_two_parents(s: Sample, store: Store) -> Wanted:
    """Only the two parents show it: an empty leaf is outside of no range."""
    one, other = inner(s, 0), inner(s, 1)
    shared = children(s, other)[0]
    rewrite_node(store, shared, no_keys)
    rewrite_node(store, one, with_child(0, shared))
    return wanted("F214", shared, one, versions=s.hit(one) & s.hit(other))


@case
def keys_out_of_order(s: Sample, store: Store) -> Wanted:
    path = leaf_of_tables(s)
    rewrite_node(store, path, reversed_keys)
    return wanted("F208", path, versions=s.hit(path), objects=names(s, s.tree().below(path)))


@case
def keys_of_an_inner_node_out_of_order(s: Sample, store: Store) -> Wanted:
    path = next(path for path in s.tree().inner if len(s.tree().nodes[path].keys) > 1)
    rewrite_node(store, path, reversed_keys)
    return wanted("F208", path, versions=s.hit(path))


@case
def keys_of_a_root_out_of_order(s: Sample, store: Store) -> Wanted:
    path = root_path(s.latest)
    rewrite_node(store, path, reversed_keys)
    return wanted("F208", path, versions={s.latest})


@case
def key_there_twice(s: Sample, store: Store) -> Wanted:
    path = leaf(s)
    rewrite_node(store, path, doubled_key)
    return wanted("F208", path, versions=s.hit(path))


@case
def key_of_the_parent_in_the_leaf(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    low = children(s, path)[0]
    key = s.tree().nodes[path].keys[0]
    rewrite_node(store, low, with_key(-1, key))
    return wanted("F208|F209", low, path, versions=s.hit(low))


@case
def key_outside_its_range(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    low = children(s, path)[0]
    rewrite_node(store, low, with_key(-1, "D===" + "zz".ljust(16) + "z".ljust(16)))
    return wanted("F209", low, path, versions=s.hit(low))


@case
def key_below_its_range(s: Sample, store: Store) -> Wanted:
    path = inner(s, 1)
    low = children(s, path)[-1]
    rewrite_node(store, low, with_key(0, "B===" + "!".ljust(16)))
    return wanted("F209", low, path, versions=s.hit(low))


@case
def key_outside_the_range_of_the_grandparent(s: Sample, store: Store) -> Wanted:
    """Right for its parent: only the root knows that it is beyond."""
    tree = s.tree()
    path = str(tree.root.node.children[0])
    low = children(s, path)[-1]
    beyond = tree.root.node.keys[0][:4] + "zz".ljust(16) + ("z".ljust(16) if tree.root.node.keys[0][0] != "B" else "")
    if beyond <= tree.root.node.keys[0]:
        beyond = "D===" + "zz".ljust(16) + "z".ljust(16)
    rewrite_node(store, low, with_key(-1, beyond))
    return wanted("F209", versions=s.hit(low))


def n_keys(value: str | None) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = leaf_of_tables(s)
        text = value
        if value in ("+1", "-1"):
            text = str(len(s.tree().nodes[path].keys) + int(value))
        rewrite_raw(store, path, lambda raw: raw.set(N_KEYS, text))
        return wanted("F207", path, versions=s.hit(path))

    return do


def n_keys_of_a_root(value: str | None) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = root_path(s.latest)
        text = value
        if value in ("+1", "-1"):
            text = str(len(s.tree().root.node.keys) + int(value))
        rewrite_raw(store, path, lambda raw: raw.set(N_KEYS, text))
        return wanted("F207|F401|F208", path, versions={s.latest})

    return do


WRONG_COUNTS = (
    ("one-more", "+1"),
    ("one-less", "-1"),
    ("garbage", "many"),
    ("missing", None),
    ("negative", "-3"),
    ("huge", "9" * 17),
    ("endless", "9" * 5000),
    ("empty", ""),
)
many(n_keys, *WRONG_COUNTS)
many(n_keys_of_a_root, *WRONG_COUNTS)


@case
def leaf_on_the_level_of_inner_nodes(s: Sample, store: Store) -> Wanted:
    tree = s.tree()
    low = children(s, str(tree.root.node.children[0]))[0]
    rewrite_node(store, root_path(s.latest), with_child(0, low))
    return wanted("F210", versions={s.latest})


@case
def inner_node_on_the_level_of_leaves(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    low = children(s, path)[0]
    node = s.tree().nodes[low]
    key = node.keys[0]
    nothing = [add_node(store, Node((), ())), add_node(store, Node((), ()))]
    deeper = add_node(store, Node((key,), (node.values[0],), tuple(nothing)))
    rewrite_node(store, path, with_child(0, deeper))
    return wanted("F210", versions=s.hit(path))


@case
def leaf_too_full(s: Sample, store: Store) -> Wanted:
    path = leaf_of_tables(s)
    rewrite_node(store, path, crowded(s.keys, 4))
    return wanted("F211", path, versions=s.hit(path))


@case
def root_too_full(s: Sample, store: Store) -> Wanted:
    """Version 1 as one leaf of five keys, where three are allowed."""
    entries = sorted(s.tree(1).entries.items())
    flat = Node(tuple(key for key, _ in entries), tuple(value for _, (value, _) in entries))
    rewrite_node(store, root_path(1), lambda _: flat)
    return wanted("F211", root_path(1), versions={1})


@case
def inner_node_too_full(s: Sample, store: Store) -> Wanted:
    """All that two inner nodes and the key between them hold, in one."""
    tree = s.tree()
    left, right = str(tree.root.node.children[0]), str(tree.root.node.children[1])
    one, other, root = tree.nodes[left], tree.nodes[right], tree.root.node
    merged = Node(
        (*one.keys, root.keys[0], *other.keys),
        (*one.values, root.values[0], *other.values),
        (*one.children, *other.children),
    )
    assert len(merged.keys) > 3
    rewrite_node(store, left, lambda _: merged)
    rewrite_node(
        store, root_path(s.latest), lambda node: Node(node.keys[1:], node.values[1:], (left, *node.children[2:]))
    )
    return wanted("F211", left, versions={s.latest})


@case
def leaf_without_keys(s: Sample, store: Store) -> Wanted:
    path = leaf_of_tables(s)
    rewrite_node(store, path, no_keys)
    return wanted("F211", path, versions=s.hit(path))


@case
def inner_node_without_keys(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    rewrite_node(store, path, no_keys)
    return wanted("F211", path, versions=s.hit(path))


@case
def root_with_one_child(s: Sample, store: Store) -> Wanted:
    rewrite_node(store, root_path(s.latest), no_keys)
    return wanted("F211", root_path(s.latest), versions={s.latest})


def rows(change: Callable[[Raw], None]) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        path = inner(s)
        rewrite_raw(store, path, change)
        return wanted("F207", path, versions=s.hit(path))

    return do


def _leftmost_value(raw: Raw) -> None:
    raw.pivot[0] = (None, "def/x", raw.pivot[0][2])


def _no_key(raw: Raw) -> None:
    raw.pivot[1] = (None, raw.pivot[1][1], raw.pivot[1][2])


def _half_of_the_pointers(raw: Raw) -> None:
    raw.pivot[1] = (raw.pivot[1][0], raw.pivot[1][1], None)


def _system_row_twice(raw: Raw) -> None:
    raw.system.append(raw.system[0])


def _system_row_without_value(raw: Raw) -> None:
    raw.system.append(("odd", None, None))


def _row_behind(raw: Raw) -> None:
    raw.actions.append(("B===x", "AAAA", None))


def _no_rows(raw: Raw) -> None:
    raw.system, raw.pivot, raw.actions = [], [], []


def _no_pivot(raw: Raw) -> None:
    raw.pivot = []


many(
    rows,
    ("leftmost-value", _leftmost_value),
    ("no-key", _no_key),
    ("half-of-the-pointers", _half_of_the_pointers),
    ("system-row-twice", _system_row_twice),
    ("system-row-without-value", _system_row_without_value),
    ("row-behind", _row_behind),
    ("none", _no_rows),
    ("no-pivot", _no_pivot),
)


@case
def column_too_many(s: Sample, store: Store) -> Wanted:
    path = inner(s)
    rewrite_raw(store, path, lambda raw: None, extra_column=True)
    return wanted("F203|F205|F207", path, versions=s.hit(path))


@case
def columns_of_another_type(s: Sample, store: Store) -> Wanted:
    import pyarrow as pa

    path = inner(s)
    rewrite_raw(store, path, lambda raw: None, column_type=pa.large_string())
    return wanted("F203|F207", path, versions=s.hit(path))


@case
def digest_of_other_rows(s: Sample, store: Store) -> Wanted:
    """Whole and in order, but not what was written."""
    path = leaf_of_tables(s)
    expected = digest_in(store.read(path), DIGEST_KEY)
    rewrite_node(store, path, with_value(0, definition(s, "table")))
    changed = store.read(path)
    store.overwrite(path, changed.replace(digest_in(changed, DIGEST_KEY), expected))
    return wanted("F206", path, versions=s.hit(path))


def odd_key(key: str) -> Callable[[Sample, Store], Wanted]:
    def do(s: Sample, store: Store) -> Wanted:
        tree = s.tree()
        path = tree.leaves[-1]
        rewrite_node(store, path, with_key(-1, key))
        return wanted("F215", path, versions=s.hit(path))

    return do


many(
    odd_key,
    ("unknown-type", "Z===" + "a".ljust(16) + "t".ljust(16)),
    ("too-short", "D===zz"),
    ("too-long", "D===" + "zz".ljust(16) + "t".ljust(17)),
    ("no-name", "D===" + "zz".ljust(16) + " " * 16),
    ("control-character", "D===" + "zz".ljust(16) + "t\x01".ljust(16)),
    ("space-in-front", "D===" + "zz".ljust(16) + " t".ljust(16)),
)


@case
def chain_of_a_thousand_nodes(s: Sample, store: Store) -> Wanted:
    """Deeper than any tree, and than any recursion."""
    low = s.tree().nodes[leaf(s)]
    chain = [Node(low.keys, low.values)] + [Node((), ())] * 1200
    rewrite_node(store, root_path(s.latest), with_child(0, add_chain(store, chain)))
    return wanted("F210|F211", versions={s.latest})


@case
def node_reached_on_exponentially_many_ways(s: Sample, store: Store) -> Wanted:
    keys = tuple("B===" + name.ljust(16) for name in "mno")
    chain = [Node((), ())] + [Node(keys, (definition(s, "ns"),) * 3)] * 100
    rewrite_node(store, root_path(s.latest), with_child(0, add_chain(store, chain)))
    return wanted("F214", versions={s.latest})
