"""The files that versions reach, and the findings for unsound ones, which are those of fsck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, PathOutside, StorageFailed
from olympia_cli.format.node import Node
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtVersion
from olympia_cli.ops.fsck import Severity
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.damage import (
    crowded,
    empty,
    flipped_meaning,
    no_keys,
    parquet,
    reversed_keys,
    rewrite_definition,
    rewrite_node,
    rewrite_raw,
    truncated,
    with_child,
    with_key,
    with_value,
)
from tests.helpers.fsck import everything, leaves_of, make, nodes_of
from tests.helpers.names import table
from tests.helpers.reach import reach_of
from tests.helpers.stores import CountingStore, WrappedStore

LATEST = 4


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore("reach")
    make(store)
    return store


def leaf(store) -> str:
    """Return a leaf that contains only tables."""
    return leaves_of(store, LATEST)[-1]


def inner(store) -> str:
    return nodes_of(store, LATEST)[0]


def definition(store) -> str:
    return Catalog(store).snapshot().find(table("a.t030"))


def catalog_definition(store) -> str:
    """Return the definition of a version before the latest, whose sizes decide how files are checked."""
    snapshot = Catalog(store).snapshot(AtVersion(2))
    path = "def/catalog/00000000-0000-4000-8000-000000000000.binpb"
    store.create(path, store.read(snapshot.root.catalog_def))
    rewrite_definition(store, path, lambda catalog: None)
    rewrite_raw(store, root_path(2), lambda raw: raw.set("catalog_def", path))
    return path


def older_root(store) -> str:
    return root_path(2)


def reach_everything(store) -> None:
    reach = reach_of(store, definitions=True)
    roots = [root_path(version) for version in range(LATEST + 1)]
    reach.add((path, store.read(path)) for path in roots)


def missing(store, path: str) -> None:
    store.delete_many([path])


def bytes_by(change):
    def harm(store, path: str) -> None:
        store.overwrite(path, change(store.read(path)))

    return harm


def flip(store, path: str) -> None:
    store.overwrite(path, flipped_meaning(store.read(path), path))


def node_by(change):
    return lambda store, path: rewrite_node(store, path, change)


def with_a_root(node: Node) -> Node:
    return replace(node, children=(*node.children[:-1], root_path(1)))


def crowd(store, path: str) -> None:
    rewrite_node(store, path, crowded(Catalog(store).snapshot().keys, 4))


DAMAGE = {
    "a missing node": (leaf, missing, {"F201"}),
    "an empty node": (leaf, bytes_by(empty), {"F202"}),
    "another program's file": (leaf, bytes_by(parquet), {"F203"}),
    "a node that is cut": (leaf, bytes_by(truncated), {"F204"}),
    "a flipped byte of a leaf": (leaf, flip, {"F203", "F205", "F206", "F207"}),
    "a flipped byte of an inner node": (inner, flip, {"F203", "F205", "F206", "F207"}),
    "a root that is cut": (older_root, bytes_by(truncated), {"F204"}),
    "keys out of order": (leaf, node_by(reversed_keys), {"F208"}),
    "too few keys": (leaf, node_by(no_keys), {"F211"}),
    "too many keys": (leaf, crowd, {"F211"}),
    "a child outside": (inner, node_by(with_child(0, "../outside.arrow")), {"F212"}),
    "a value outside": (leaf, node_by(with_value(0, "s3://elsewhere/x")), {"F212"}),
    "a key of no object": (leaf, node_by(with_key(-1, "Z===nothing")), {"F215"}),
    "a missing definition": (definition, missing, {"F301"}),
    "an empty definition": (definition, bytes_by(empty), {"F302"}),
    "a definition that is cut": (definition, bytes_by(truncated), {"F302", "F303", "F304"}),
    "a flipped byte of a definition": (definition, flip, {"F303", "F304"}),
    "a missing catalog definition": (catalog_definition, missing, {"F307"}),
    "an empty catalog definition": (catalog_definition, bytes_by(empty), {"F307"}),
    "a catalog without an order": (
        catalog_definition,
        lambda store, path: rewrite_definition(store, path, lambda catalog: catalog.ClearField("order")),
        {"F307"},
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_flawed_file_has_the_code_and_path_that_fsck_gives_it(store, case):
    where, harm, expected = DAMAGE[case]
    path = where(store)
    harm(store, path)
    with pytest.raises(Damaged) as caught:
        reach_everything(store)
    assert caught.value.path == path
    assert caught.value.code in expected
    findings = everything(store).findings
    assert (caught.value.code, path) in {(one.code, one.path) for one in findings if one.severity is Severity.ERROR}


def test_a_root_inside_a_tree(store):
    rewrite_node(store, inner(store), with_a_root)
    with pytest.raises(Damaged) as caught:
        reach_everything(store)
    assert (caught.value.code, caught.value.path) == ("F207", root_path(1))
    assert ("F207", root_path(1)) in {(one.code, one.path) for one in everything(store).findings}


def test_a_file_named_as_node_and_definition_is_damage(store):
    """A node whose path stands where a definition should."""
    named = leaf(store)
    other = leaves_of(store, LATEST)[-2]
    rewrite_node(store, other, with_value(0, named))
    with pytest.raises(Damaged) as caught:
        reach_everything(store)
    assert caught.value.path == named
    assert (caught.value.code, named) in {(one.code, one.path) for one in everything(store).findings}


def test_a_store_that_fails_is_no_damage(store):
    lost = leaf(store)

    class Failing(WrappedStore):
        def read_many(self, paths):
            for path, data in super().read_many(paths):
                yield path, StorageFailed("no answer") if path == lost else data

    with pytest.raises(StorageFailed):
        reach_everything(Failing(store))


def test_every_file_is_read_once_and_after_its_parents(store):
    counting = CountingStore(store)
    roots = [(root_path(version), store.read(root_path(version))) for version in range(LATEST + 1)]
    reach = reach_of(counting, definitions=True)
    counting.reset()
    order = [path for new in reach.each(roots) for path in new]
    assert len(order) == len(set(order))
    assert all(path in reach for path in order)
    read = counting.paths("read", "read_many")
    assert sorted(read) == sorted(path for path in order if not path.startswith("vn/"))
    at = {path: place for place, path in enumerate(order)}
    reader = Catalog(store).snapshot().reader
    for path in nodes_of(store, LATEST):
        assert all(at[path] < at[child] for child in reader.node(path).children)
    assert [*reach.each(roots)] == [[]]


def test_a_link_that_leads_outside_keeps_its_hint(tmp_path):
    store = LocalStore(tmp_path / "catalog")
    make(store)
    path = leaf(store)
    (tmp_path / "elsewhere").write_bytes(store.read(path))
    (tmp_path / "catalog" / path).unlink()
    (tmp_path / "catalog" / path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged) as caught:
        reach_of(store).add([(root_path(LATEST), store.read(root_path(LATEST)))])
    assert (caught.value.code, caught.value.hint) == ("F212", PathOutside.default_hint)
