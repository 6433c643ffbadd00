"""Write a small catalog to tests/golden/NAME, and its content to tests/golden/NAME.json.

Files that exist are out there for good, so no catalog is made again when the program changes; a change that can no
longer read one is a mistake. Add another one when the format grows: `python -m tests.golden.make NAME`.

- `catalog`: the names of definitions are UUIDs of version 4, and the digest is the last field.
- `catalog-version-8`: the names of definitions are UUIDs of version 8, and the digest is the last field.
- `catalog-digest-first`: the names of definitions are UUIDs of version 4, and the digest is the first field.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.json_format import MessageToDict

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.objects_pb2 import Column, DataType, IsolationLevel, Schema, ViewDef
from olympia_cli.names import AtVersion, Kind, NamespaceName, TableName, ViewName
from olympia_cli.storage.local import LocalStore
from tests.helpers.clock import MINUTE, FakeClock
from tests.helpers.damage_sample import seeded_uuids

HERE = Path(__file__).resolve().parent
CATALOGS = ("catalog", "catalog-version-8", "catalog-digest-first")

ODD = ["dotted.name", "sla/sh", "..", 'quo"te', "é漢", "\U0001f600", "\uff21wide", "back\\slash", "per%2Fcent"]


def make(folder: Path) -> Catalog:
    """Make the catalog, the same one every time."""
    with seeded_uuids(20261115):
        return _make(folder)


def _make(folder: Path) -> Catalog:
    clock = FakeClock(1_794_744_000_123)
    store = LocalStore(folder)
    catalog = Catalog.create(
        store,
        order=4,
        namespace_name_max_bytes=16,
        table_name_max_bytes=20,
        view_name_max_bytes=24,
        properties={"owner": "golden"},
        author=Author(by="golden@test", message="begin"),
        clock=clock,
    )

    def commit(transaction: Any, message: str) -> None:
        clock.advance(MINUTE)
        catalog.commit(transaction, message, by="golden@test")

    one = catalog.begin()
    for name in ("sales", "x" * 16, "dotted.name", "\U0001f600" * 4):
        one.create_namespace(NamespaceName(name), {"about": f"namespace {name}", "é": ""})
    commit(one, "namespaces")

    two = catalog.begin()
    for name in ODD:
        two.create_table(TableName("sales", name), f"s3://bucket/{len(name)}/metadata.json", {"n": name})
    for number in range(6):
        two.create_table(TableName("dotted.name", f"t{number}"), f"file:///t{number}.json")
    commit(two, "tables, enough for a tree of several levels")

    three = catalog.begin()
    columns = [
        Column(id=1, name="id", type=DataType.INT8),
        Column(id=2, name="tags", type=DataType.LIST, nullable=True, list_element=Column(id=3, type=DataType.VARCHAR)),
    ]
    view = ViewDef(
        schema_binding=True, schema=Schema(columns=columns), substrait_read_rel=b"\x00\xff", properties={"a": "b"}
    )
    view.default_namespace_name = "sales"
    view.referenced_object_full_names.add(namespace_name="sales", name="..")
    three.create_view(ViewName("sales", "a-view"), view)
    three.create_view(ViewName("sales", "\U0001f600"), ViewDef(properties={"k": "v"}))
    commit(three, "views\nof two lines")

    four = catalog.begin()
    four.alter_table(TableName("sales", ".."), {"set": "1"}, ["n"], "s3://bucket/new.json")
    four.rename_table(TableName("dotted.name", "t0"), TableName("sales", "moved"))
    four.drop_table(TableName("dotted.name", "t1"))
    four.alter_namespace(NamespaceName("sales"), {"about": "changed"}, ["é"])
    four.drop_view(ViewName("sales", "\U0001f600"))
    four.alter_catalog({"owner": "another"}, txn_ttl_millis=86_400_000)
    commit(four, "alter, rename, drop")

    five = catalog.begin()
    five.roll_back(2)
    commit(five, "back to version 2")

    six = catalog.begin(IsolationLevel.SERIALIZABLE)
    list(six.tables("sales"))
    six.exists(TableName("sales", "é漢"))
    six.drop_namespace(NamespaceName("dotted.name"), cascade=True)
    commit(six, "with reads")
    store.close()
    return catalog


def as_dict(message: Any) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def describe(catalog: Catalog) -> dict[str, Any]:
    """All that readers find in the catalog, as JSON has it."""
    files = {file.path: catalog.store.read(file.path) for file in catalog.store.list()}
    snapshots = [catalog.snapshot(AtVersion(version)) for version in range(catalog.snapshot().version + 1)]
    kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
    objects = {
        found.path: as_dict(found.definition)
        for snapshot in snapshots
        for kind in kinds
        for found in snapshot.objects(kind)
    }
    catalogs = {snapshot.root.catalog_def: as_dict(snapshot.definition) for snapshot in snapshots}
    return {
        "files": {path: hashlib.sha256(data).hexdigest() for path, data in files.items()},
        "rows": {path: rows(data) for path, data in files.items() if data.startswith(b"ARROW1")},
        "definitions": objects | catalogs,
        "versions": [describe_version(snapshot) for snapshot in snapshots],
    }


def rows(data: bytes) -> list[list[str | None]]:
    """The rows of an Arrow file, by Arrow alone."""
    return [list(row.values()) for row in pa.ipc.open_file(pa.py_buffer(data)).read_all().to_pylist()]


def describe_version(snapshot: Snapshot) -> dict[str, Any]:
    root = snapshot.root
    return {
        "version": snapshot.version,
        "created_at_millis": root.created_at_millis,
        "catalog_def": root.catalog_def,
        "previous_root": root.previous_root,
        "rollback_from_root": root.rollback_from_root,
        "objects": [
            [kind.word, name.namespace, name.name, path]
            for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
            for name, path in snapshot.entries(kind)
        ],
        "actions": [
            [action.type_name, *named(action), action.definition.hex(), action.payload.hex()]
            for action in snapshot.actions()
        ],
    }


def named(action: Action) -> list[str]:
    return [action.kind.word] + ([] if action.name is None else [action.name.namespace, action.name.name])


if __name__ == "__main__":
    [name] = sys.argv[1:]
    made = HERE / name
    if made.exists():
        sys.exit(f"{made} is there; it is not made again, since files that exist do not change")
    text = json.dumps(describe(make(made)), indent=0, sort_keys=True, ensure_ascii=True)
    made.with_suffix(".json").write_text(text + "\n")
