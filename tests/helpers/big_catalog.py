"""Catalogs of any size, written in one go, bottom-up."""

from __future__ import annotations

import uuid

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.versions import read_latest, write_latest
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, encode_action
from olympia_cli.format.codec import decode_root, encode_node, encode_root
from olympia_cli.format.node import Node, Root
from olympia_cli.format.paths import new_definition_path, new_node_path, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, CommitInfoDef
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef
from olympia_cli.names import Kind, NamespaceName, TableName
from olympia_cli.tree.edit import bulk_load


def make_big_catalog(store, namespaces: int, tables: int, *, order: int = 128, own: bool = False) -> Catalog:
    """A catalog of `namespaces` namespaces with `tables` tables each, as version 1.

    All tables share one definition file, as the tree is what is large; with `own` each has its own, as in real life.
    """
    catalog = Catalog.create(store, order=order)
    base = catalog.snapshot()
    ns_path = _write_definition(store, Kind.NAMESPACE, NamespaceDef(id=str(uuid.uuid4())))
    table = TableDef(id=str(uuid.uuid4()), iceberg_metadata_location="s3://bucket/table/metadata/00001.json")
    table_path = _write_definition(store, Kind.TABLE, table)

    pending: dict[str, bytes] = {}

    def own_definition(kind: Kind, name) -> str:
        path = new_definition_path(kind, name)
        id = str(uuid.uuid4())
        made = (
            NamespaceDef(id=id) if kind is Kind.NAMESPACE else TableDef(id=id, iceberg_metadata_location=f"s3://{id}")
        )
        pending[path] = definitions.encode(definitions.body(made), path)
        return path

    def items():
        encode = base.keys.encode
        for number in range(namespaces):
            name = NamespaceName(f"ns{number:06}")
            yield encode(name), own_definition(Kind.NAMESPACE, name) if own else ns_path
        for number in range(namespaces):
            namespace = f"ns{number:06}"
            for at in range(tables):
                name = TableName(namespace, f"table{at:06}")
                yield encode(name), own_definition(Kind.TABLE, name) if own else table_path

    def write(node: Node) -> str:
        path = new_node_path()
        pending[path] = encode_node(node, base.created_at_millis)
        if len(pending) >= 256:
            store.create_many(pending)
            pending.clear()
        return path

    node = bulk_load(items(), order, write)
    store.create_many(pending)
    info = CommitInfoDef(transaction_id=str(uuid.uuid4()), by="maker", program="test")
    actions = [Action(ActionType.COMMIT_INFO, None, b"", info.SerializeToString())]
    root = Root(node, base.root.catalog_def, base.created_at_millis, base.file.path, None, base.sizes)
    store.create(root_path(1), encode_root(root, [encode_action(action, base.keys) for action in actions]))
    write_latest(store, 1)
    return catalog


def add_versions(store, count: int) -> None:
    """Append versions that are copies of the latest but for their predecessor."""
    file = read_latest(store)
    root = decode_root(file.data, file.path)
    for version in range(file.version + 1, file.version + 1 + count):
        copy = Root(root.node, root.catalog_def, root.created_at_millis, root_path(version - 1), None, root.sizes)
        store.create(root_path(version), encode_root(copy, []))
    write_latest(store, file.version + count)


def _write_definition(store, kind: Kind, definition) -> str:
    path = new_definition_path(kind, None if kind is Kind.CATALOG else NamespaceName("shared"))
    store.create(path, definitions.encode(definitions.body(definition), path))
    return path
