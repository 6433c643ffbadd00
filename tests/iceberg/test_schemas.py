"""The columns of a table, from metadata of all ages and of any quality."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from olympia_cli.iceberg.metadata import SchemaColumn, columns_of, current_schema, partition_spec
from olympia_cli.ops.verify_metadata import parse_metadata
from tests.helpers.iceberg_tables import Lake


def test_the_columns_that_pyiceberg_writes(tmp_path: Path):
    lake = Lake(f"file://{tmp_path}")
    rows = pa.schema(
        [
            ("id", pa.int64()),
            ("place", pa.struct([("x", pa.float64()), ("names", pa.list_(pa.string()))])),
            ("more", pa.map_(pa.string(), pa.int32())),
        ]
    )
    table = lake.catalog.create_table("ns.t", rows)
    with table.update_schema() as update:
        update.rename_column("id", "number")
        update.delete_column("more")
    metadata = parse_metadata(lake.read(table.metadata_location), table.metadata_location)
    expected = {field.field_id: str(field.field_type) for field in table.schema().fields}
    found = columns_of(metadata)
    assert found[1] == SchemaColumn("number", expected[1])
    assert {column.name: column.type for column in found.values()} == {
        "number": "long",
        "place": "struct",
        "place.x": "double",
        "place.names": "list",
        "place.names.element": "string",
        # data files may have it still
        "more": "map",
        "more.key": "string",
        "more.value": "int",
    }
    schema = current_schema(metadata)
    assert schema is not None
    assert [field["name"] for field in schema["fields"]] == ["number", "place"]
    assert partition_spec(metadata) == {"spec-id": 0, "fields": []}


def test_a_table_of_the_first_format_has_one_schema():
    only = {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "int"}]}
    assert current_schema({"schema": only}) == only
    assert columns_of({"schema": only}) == {1: SchemaColumn("a", "int")}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"schemas": 3, "schema": [], "partition-specs": {}, "current-schema-id": 0},
        {"schemas": [None, 1, {"schema-id": 1}], "current-schema-id": 0},
        {"schemas": [{"schema-id": 0, "fields": {"id": 1}}]},
        {"schema": {"fields": [1, {"id": "x", "name": "a"}, {"id": 2, "name": ["b"]}, {"id": True}]}},
    ],
)
def test_nonsense_has_no_columns(metadata):
    assert columns_of(metadata) == {}
    assert partition_spec(metadata) is None


def test_a_type_that_goes_down_for_ever():
    inner: dict = {"type": "list", "element-id": 1, "element": "int"}
    for _ in range(5_000):
        inner = {"type": "list", "element-id": 2, "element": inner}
    assert set(columns_of({"schema": {"fields": [{"id": 3, "name": "deep", "type": inner}]}})) == {1, 2, 3}
