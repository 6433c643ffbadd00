"""The content of lists and shows beside names: wide lists, counts, and the schema in a table's own metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, TimestampType

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.iceberg.metadata import DEEPEST, describe_metadata, type_text
from olympia_cli.names import AtVersion
from olympia_cli.ops.inspect import last_changes
from tests.cli.conftest import Run
from tests.helpers.json_schema import check
from tests.helpers.names import location, ns, table, view
from tests.helpers.stores import CountingStore


class TestWide:
    def test_tables(self, olympia, sample):
        ids = {one.name: one.id for one in sample.catalog.snapshot().read_objects(sample.catalog.snapshot().entries(2))}
        lines = [line.split("\t") for line in olympia("table", "ls", "-o", "wide").ok().lines]
        found = {(line[0], line[1]): line for line in lines}
        orders = found["sales", "orders_2025"]
        assert orders[2] == ids[table("sales.orders_2025")]
        assert orders[4:] == ["v7", location(9)]
        assert found["sales", "lines"][4] == "v2", "dropped by a version that was rolled back, so it is as it was"
        assert len(lines) == len(olympia("table", "ls").ok().lines)

    def test_namespaces_and_views(self, olympia):
        olympia("ns", "alter", "sales", "--set", "k=v").ok()
        rows = {line.split("\t")[0]: line.split("\t")[3] for line in olympia("ns", "ls", "-o", "wide").ok().lines}
        assert rows == {"a.b": "v1", "sales": "v8", "smile😀": "v1"}
        [line] = olympia("view", "ls", "sales", "-o", "wide").ok().lines
        assert line.split("\t")[4] == "v3"

    def test_inside_a_transaction(self, olympia, sample):
        rows = [line.split("\t") for line in olympia("ns", "ls", "-o", "wide", "--txn", sample.transaction).ok().lines]
        assert [row[0] for row in rows] == ["a.b", "sales", "smile😀", "staged"]
        assert rows[-1][2:] == ["", ""], "no version has it yet"

    def test_rename_of_a_namespace_changes_its_objects_too(self, sample):
        catalog = sample.catalog
        with catalog.transaction() as transaction:
            transaction.rename_namespace(ns("sales"), ns("revenue"))
        names = [table("revenue.lines"), view("revenue.open"), table('"a.b"."t.1"')]
        last = last_changes(catalog.snapshot(), names)
        assert [last[name].version for name in names] == [8, 8, 2]
        assert last_changes(catalog.snapshot(AtVersion(7)), [table("sales.lines")])[table("sales.lines")].version == 2

    def test_names_alone_read_no_definition(self, sample):
        store = CountingStore(sample.store)
        assert list(Catalog(store).snapshot().tables())
        assert not [path for path in store.paths("read", "read_many") if path.startswith("def/table")]

    def test_wide_columns_are_not_added_to_json_and_csv(self, olympia):
        assert set(olympia("table", "ls", "--json").ok().json["tables"][0]) == {"namespace", "name"}
        assert olympia("table", "ls", "-o", "csv").ok().lines[0] == "namespace,name"


class TestCounts:
    def test_a_namespace_says_how_much_is_in_it(self, olympia):
        assert olympia("ns", "show", "sales", "--json").ok().json["counts"] == {"tables": 2, "views": 1}
        assert olympia("ns", "show", "sales", "--at", "v1", "--json").ok().json["counts"] == {"tables": 0, "views": 0}
        assert "counts.tables\t2" in olympia("ns", "show", "sales").ok().lines


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with nested fields, partitions, a sort order and two snapshots, as PyIceberg writes it."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.transforms import IdentityTransform

    schema = Schema(
        NestedField(1, "id", LongType(), required=True, doc="the key"),
        NestedField(2, "at", TimestampType(), required=False),
        NestedField(3, "tags", ListType(element_id=4, element=StringType(), element_required=False), required=False),
    )
    catalog = InMemoryCatalog("lake", warehouse=f"file://{tmp_path_factory.mktemp('lake')}")
    catalog.create_namespace("n")
    spec = PartitionSpec(
        PartitionField(source_id=2, field_id=1000, transform=DayTransform(), name="at_day"),
        PartitionField(source_id=1, field_id=1001, transform=BucketTransform(4), name="id_bucket"),
    )
    order = SortOrder(SortField(source_id=1, transform=IdentityTransform()))
    found = catalog.create_table("n.t", schema, partition_spec=PartitionSpec(), sort_order=order)
    rows = pa.table(
        {"id": [1], "at": pa.array([0], pa.timestamp("us")), "tags": pa.array([["x"]], pa.list_(pa.string()))},
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("at", pa.timestamp("us")),
                pa.field("tags", pa.list_(pa.string())),
            ]
        ),
    )
    found.append(rows)
    found.append(rows)
    with found.update_spec() as update:
        for field in spec.fields:
            update.add_field(schema.find_column_name(field.source_id), field.transform, field.name)
    return str(found.metadata_location)


class TestSchema:
    @pytest.fixture
    def real(self, olympia: Run, metadata: str) -> Run:
        olympia("table", "register", "sales.real", "--metadata-location", metadata).ok()
        return olympia

    def test_as_json(self, real):
        shown = real("table", "show", "sales.real", "--schema", "--json").ok().json
        check(shown, "table-show")
        known = real("schema", "table", "show").ok().json["properties"]
        assert set(shown) <= set(known), "what programs may rely on is all of it"
        assert set(shown["iceberg"]) <= set(known["iceberg"]["properties"])
        plain = real("table", "show", "sales.real", "--json").ok().json
        assert {key: shown[key] for key in plain} == plain
        assert shown["schema"]["fields"] == [
            {"id": 1, "name": "id", "type": "long", "required": True, "doc": "the key"},
            {"id": 2, "name": "at", "type": "timestamp", "required": False, "doc": None},
            {"id": 3, "name": "tags", "type": "list<string>", "required": False, "doc": None},
        ]
        assert shown["partitioning"] == [
            {"name": "at_day", "transform": "day", "source": "at"},
            {"name": "id_bucket", "transform": "bucket[4]", "source": "id"},
        ]
        assert [(one["source"], one["direction"]) for one in shown["sort_order"]] == [("id", "asc")]
        first, second = shown["snapshots"]
        assert (first["operation"], first["current"], second["current"]) == ("append", False, True)
        assert second["parent_id"] == first["snapshot_id"]
        assert (second["summary"]["added-records"], second["summary"]["total-records"]) == ("1", "2")
        assert shown["iceberg"]["current_snapshot_id"] == second["snapshot_id"]
        assert shown["iceberg"]["format_version"] == 2

    def test_as_lines(self, real):
        lines = real("table", "show", "sales.real", "--schema").ok().lines
        assert "fields\t1\tid\tlong\trequired\tthe key" in lines
        assert "partitioning\tat_day\tday\tat" in lines
        assert "sort order\tid\tidentity\tasc\tnulls-first" in lines
        assert [line for line in lines if line.startswith("snapshots\t")][1].endswith("append\t+1 of 2 rows\tcurrent")

    def test_without_it_no_metadata_is_opened(self, olympia):
        assert "schema" not in olympia("table", "show", "sales.lines", "--json").ok().json

    def test_schema_of_missing_or_invalid_metadata_fails(self, real, metadata, tmp_path: Path):
        gone = tmp_path / "gone.json"
        real("table", "alter", "sales.real", "--metadata-location", str(gone)).ok()
        real("table", "show", "sales.real", "--schema").failed(
            10, "there is no metadata at", "table history sales.real"
        )
        gone.write_text("{}")
        real("table", "show", "sales.real", "--schema").failed(40)
        real("table", "show", "sales.real").ok()

    def test_a_file_from_elsewhere_is_not_taken_on_trust(self):
        deep: object = "int"
        for _ in range(DEEPEST + 5):
            deep = {"type": "list", "element-id": 1, "element": deep}
        assert type_text(deep).count("list<") == DEEPEST
        assert type_text(
            {"type": "map", "key": "string", "value": {"type": "struct", "fields": [{"name": "a"}, 7]}}
        ) == ("map<string, struct<a: None>>")
        nonsense = {
            "schemas": 7,
            "snapshots": [{"summary": 7, "timestamp-ms": "x"}, 8],
            "sort-orders": {},
            "properties": [],
        }
        found = describe_metadata(nonsense)
        assert found["schema"]["fields"] == found["partitioning"] == found["sort_order"] == []
        assert json.loads(json.dumps(found["snapshots"]))[0]["created_at"] is None
