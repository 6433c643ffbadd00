"""About how large a version is, from a few reads."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged
from olympia_cli.format.codec import encode_node
from olympia_cli.format.node import Node
from olympia_cli.format.paths import new_node_path
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.ops.walk import count_nodes, estimated_objects
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.search import depth
from tests.helpers.stores import CountingStore


def filled(store, tables: int, order: int = 8) -> Catalog:
    catalog = Catalog.create(store, order=order)
    if tables:
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName("ns"))
            for number in range(tables):
                transaction.create_table(TableName("ns", f"t{number:06}"), f"s3://lake/{number}")
    return catalog


@pytest.mark.parametrize("tables", [0, 1, 5, 60, 700, 3000])
def test_the_estimate_is_near(tables):
    store = CountingStore(MemoryStore())
    snapshot = filled(store, tables).snapshot()
    objects = tables + 1 if tables else 0
    store.reset()
    assert objects / 3 <= estimated_objects(snapshot) <= objects * 3
    assert store.reads <= depth(snapshot.reader, snapshot.root.node)


def test_the_estimate_of_objects_raises_damage_on_its_way(tmp_path):
    catalog = filled(LocalStore(str(tmp_path)), 60)
    for node in (tmp_path / "node").iterdir():
        node.write_bytes(b"")
    with pytest.raises(Damaged):
        estimated_objects(catalog.snapshot())


def test_pointers_that_lead_in_a_circle_end():
    store = MemoryStore()
    own = new_node_path()
    store.create(own, encode_node(Node((), (), (own,)), 1))
    with pytest.raises(Damaged, match="deeper"):
        count_nodes(NodeReader(store), Node((), (), (own,)))
