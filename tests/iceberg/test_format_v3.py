"""Metadata of format 3: what a commit through PyIceberg would lose is not committed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from olympia_cli.iceberg import OlympiaCatalog, changes
from olympia_cli.iceberg.transaction import CatalogTransaction

DOCUMENT: dict[str, Any] = {
    "format-version": 3,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "",
    "last-sequence-number": 1,
    "last-updated-ms": 1602638573590,
    "last-column-id": 5,
    "next-row-id": 10,
    "current-schema-id": 0,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": 1, "name": "x", "required": False, "type": "long", "initial-default": 5, "write-default": 6},
                {
                    "id": 2,
                    "name": "y",
                    "required": True,
                    "doc": None,
                    "type": {
                        "type": "list",
                        "element-id": 3,
                        "element-required": False,
                        "element": {
                            "type": "struct",
                            "fields": [{"id": 4, "name": "z", "required": False, "type": "timestamptz_ns"}],
                        },
                    },
                },
            ],
        }
    ],
    "default-spec-id": 0,
    "partition-specs": [
        {"spec-id": 0, "fields": [{"source-ids": [1], "field-id": 1000, "name": "p", "transform": "identity"}]}
    ],
    "last-partition-id": 1000,
    "default-sort-order-id": 1,
    "sort-orders": [
        {
            "order-id": 1,
            "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
        }
    ],
    "properties": {"a": "b"},
    "current-snapshot-id": 1,
    "snapshots": [
        {
            "snapshot-id": 1,
            "parent-snapshot-id": None,
            "timestamp-ms": 1602638573000,
            "sequence-number": 1,
            "summary": {"operation": "append", "of": "somebody"},
            "manifest-list": "/nowhere/m.avro",
            "schema-id": 0,
            "first-row-id": 0,
            "added-rows": 10,
        }
    ],
    "snapshot-log": [{"snapshot-id": 1, "timestamp-ms": 1602638573000}],
    "metadata-log": [],
    "refs": {"main": {"snapshot-id": 1, "type": "branch", "min-snapshots-to-keep": 3}},
    "statistics": [
        {
            "snapshot-id": 1,
            "statistics-path": "/nowhere/s.puffin",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "key-metadata": "eA==",
            "blob-metadata": [
                {
                    "type": "apache-datasketches-theta-v1",
                    "snapshot-id": 1,
                    "sequence-number": 1,
                    "fields": [1],
                    "properties": {"ndv": "1"},
                }
            ],
        }
    ],
    "partition-statistics": [{"snapshot-id": 1, "statistics-path": "/nowhere/p", "file-size-in-bytes": 1}],
}
EMPTY = {"current-snapshot-id": -1, "snapshots": [], "snapshot-log": [], "refs": {}, "statistics": []}


def registered(catalog: OlympiaCatalog, folder: Path, document: dict[str, Any]) -> str:
    """A table ns.t of such metadata; where this is."""
    location = folder / "metadata" / "00000-x.metadata.json"
    location.parent.mkdir()
    location.write_text(json.dumps({**document, "location": str(folder)}))
    catalog.create_namespace("ns")
    catalog.register_table("ns.t", str(location))
    return str(location)


@pytest.mark.parametrize(
    "document",
    [DOCUMENT, {**DOCUMENT, **EMPTY}, {name: value for name, value in DOCUMENT.items() if name != "refs"}],
    ids=["full", "empty", "no refs"],
)
def test_metadata_in_another_notation_survives_a_commit(catalog, tmp_path, document):
    registered(catalog, tmp_path, document)
    for value in ("1", "2"):
        catalog.load_table("ns.t").transaction().set_properties(n=value).commit_transaction()
    assert catalog.load_table("ns.t").properties == {"a": "b", "n": "2"}


@pytest.mark.parametrize(
    ("where", "inside"),
    [
        ("snapshots[0]", lambda one: one["snapshots"][0]),
        ("refs.main", lambda one: one["refs"]["main"]),
        ("schemas[0].fields[0]", lambda one: one["schemas"][0]["fields"][0]),
        (
            "schemas[0].fields[1].type.element.fields[0]",
            lambda one: one["schemas"][0]["fields"][1]["type"]["element"]["fields"][0],
        ),
        ("partition-specs[0].fields[0]", lambda one: one["partition-specs"][0]["fields"][0]),
        ("sort-orders[0]", lambda one: one["sort-orders"][0]),
        ("statistics[0].blob-metadata[0]", lambda one: one["statistics"][0]["blob-metadata"][0]),
        ("partition-statistics[0]", lambda one: one["partition-statistics"][0]),
    ],
)
def test_a_commit_that_would_lose_metadata_fields_is_refused(
    catalog: OlympiaCatalog, tmp_path: Path, where: str, inside: Callable[[Any], dict[str, Any]]
) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    inside(document)["key-id"] = "k"
    location, version = registered(catalog, tmp_path, document), catalog.version
    with pytest.raises(ValueError, match="would lose") as raised:
        catalog.load_table("ns.t").transaction().set_properties(n="1").commit_transaction()
    assert f"{location} has '{where}.key-id', which a commit through PyIceberg would lose" in str(raised.value)
    assert catalog.version == version
    # nor is it lost where it says nothing
    inside(document)["key-id"] = None
    Path(location).write_text(json.dumps({**document, "location": str(tmp_path)}))
    catalog.load_table("ns.t").transaction().set_properties(n="1").commit_transaction()


def test_a_table_is_changed_twice_in_a_transaction_of_very_many(catalog, monkeypatch):
    """Only the bytes of most tables are kept, and no file is on the store yet."""
    monkeypatch.setattr(changes, "_KEPT", 1)
    catalog.create_namespace("ns")
    together = CatalogTransaction.begin(catalog)
    for name in ("ns.t", "ns.u"):
        schema = Schema(NestedField(1, "id", LongType(), required=False))
        together.create_table(name, schema, properties={"format-version": "3"})
    together.load_table("ns.t").transaction().set_properties(a="b").commit_transaction()
    together.commit()
    assert catalog.load_table("ns.t").properties["a"] == "b"
