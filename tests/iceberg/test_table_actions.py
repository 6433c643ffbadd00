"""A commit of PyIceberg in the log: the format's own actions, with their columns and files."""

from __future__ import annotations

import json
from inspect import signature
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, LongType

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import (
    AlterDef,
    TableDeleteDef,
    TableInsertDef,
    TableUpdateDef,
)
from olympia_cli.iceberg import OlympiaCatalog, changes
from olympia_cli.iceberg.changes import actions_of
from olympia_cli.ops.inspect.actions import action_detail

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "part": ["a", "b", "b"]})


@pytest.fixture
def table(catalog: OlympiaCatalog) -> Table:
    catalog.create_namespace("ns")
    return catalog.create_table("ns.t", ROWS.schema)


def last_actions(catalog: OlympiaCatalog) -> list[Action]:
    actions = catalog.store_catalog.snapshot().actions()
    return [action for action in actions if action.type_name != "COMMIT_INFO"]


def types(catalog: OlympiaCatalog) -> list[str]:
    return [action.type_name for action in last_actions(catalog)]


def test_an_append_is_an_insert_with_its_data_files(catalog: OlympiaCatalog, table: Table) -> None:
    with table.update_spec() as spec:
        spec.add_field("part", IdentityTransform(), "part")
    table.append(ROWS)
    [insert] = last_actions(catalog)
    assert insert.type_name == "TABLE_INSERT"
    named = [json.loads(text) for text in insert.parse_payload(TableInsertDef).iceberg_data_files_json]
    files = table.inspect.files().to_pylist()
    assert {file["file-path"]: file["record-count"] for file in named} == {
        file["file_path"]: file["record_count"] for file in files
    }
    assert [(file["content"], file["file-format"], file["spec-id"]) for file in named] == [("data", "parquet", 1)] * 2
    assert sorted(file["partition"]["part"] for file in named) == ["a", "b"]
    assert all(file["file-size-in-bytes"] > 0 for file in named)
    assert action_detail(insert)["added_files"] == 2


def test_an_action_records_the_expected_metadata_location(catalog: OlympiaCatalog, table: Table) -> None:
    before = table.metadata_location
    table.append(ROWS)
    [insert] = last_actions(catalog)
    assert insert.parse_payload(AlterDef).expected_metadata_location == before
    definition: Any = insert.parse_definition()
    assert definition.iceberg_metadata_location == table.metadata_location
    assert definition.iceberg_previous_metadata_location == before


def test_several_changes_in_one_commit_are_several_actions(catalog: OlympiaCatalog, table: Table) -> None:
    before = table.metadata_location
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.add_column("more", LongType())
        transaction.append(ROWS)
        transaction.set_properties({"a": "1"})
    assert types(catalog) == ["TABLE_ALTER_ADD_COLUMNS", "TABLE_INSERT", "TABLE_ALTER"]
    assert action_detail(last_actions(catalog)[0])["added_columns"] == ["more"]
    definition: Any = last_actions(catalog)[-1].parse_definition()
    assert definition.iceberg_previous_metadata_location == before


def test_columns_come_go_and_are_renamed(catalog: OlympiaCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("more", ListType(1, LongType()))
        update.delete_column("part")
    # what lies in a column comes and goes with it
    assert action_detail(last_actions(catalog)[0])["added_columns"] == ["more"]
    assert types(catalog) == ["TABLE_ALTER_ADD_COLUMNS", "TABLE_ALTER_REMOVE_COLUMNS"]
    assert action_detail(last_actions(catalog)[1])["removed_columns"] == ["part"]
    with table.update_schema() as update:
        update.rename_column("more", "less")
    assert types(catalog) == ["TABLE_ALTER"]


def test_removed_data_files_are_listed_in_the_action(catalog: OlympiaCatalog, table: Table) -> None:
    table.append(ROWS)
    [file] = table.inspect.files().to_pylist()
    table.delete("id = 1")
    [update] = last_actions(catalog)
    payload = update.parse_payload(TableUpdateDef)
    assert [json.loads(text)["file-path"] for text in payload.iceberg_removed_data_files_json] == [file["file_path"]]
    assert len(payload.iceberg_added_data_files_json) == 1
    table.delete("id > 1")
    [delete] = last_actions(catalog)
    assert delete.type_name == "TABLE_DELETE"
    assert len(delete.parse_payload(TableDeleteDef).iceberg_data_files_json) == 1


@pytest.mark.skipif("branch" not in signature(Table.append).parameters, reason="this PyIceberg writes no branches")
def test_a_branch_is_not_the_table_s_data(catalog: OlympiaCatalog, table: Table) -> None:
    table.append(ROWS)
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_branch(current.snapshot_id, "side").commit()
    assert types(catalog) == ["TABLE_ALTER"]
    table.append(ROWS, branch="side")
    assert types(catalog) == ["TABLE_ALTER"]


def test_a_table_that_is_created_with_rows(catalog: OlympiaCatalog, table: Table) -> None:
    with catalog.create_table_transaction("ns.u", ROWS.schema, properties={"a": "1"}) as creation:
        creation.append(ROWS)
    assert types(catalog) == ["TABLE_CREATE", "TABLE_INSERT"]


def test_too_many_files_are_counted(catalog: OlympiaCatalog, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_NAMED_FILES", 1)
    table.append(ROWS)
    table.delete("id = 1")
    detail = action_detail(last_actions(catalog)[0])
    assert (detail["added_files"], detail["removed_files"], detail["unnamed_files"]) == (0, 0, 2)


def test_manifests_that_cannot_be_read_cost_the_names_only(table: Table) -> None:
    def silent(location: str) -> bytes:
        raise FileNotFoundError(location)

    before = table.metadata
    table.append(ROWS)
    from pyiceberg.table.update import AddSnapshotUpdate

    updates = (AddSnapshotUpdate(snapshot=table.metadata.snapshots[-1]),)
    [insert] = actions_of(before, table.metadata, updates, silent)
    payload = TableInsertDef.FromString(insert.payload)
    assert (list(payload.iceberg_data_files_json), AlterDef.FromString(insert.payload).unnamed_files) == ([], 1)


def test_the_same_location_again_says_more_of_the_same_change(catalog: OlympiaCatalog, table: Table) -> None:
    """The previous location of a moved table is that before the commit, not one between two actions."""
    from olympia_cli import TableName

    name, plain = TableName("ns", "t"), Catalog(catalog.store_catalog.store)
    first = table.metadata_location
    with plain.transaction() as transaction:
        transaction.alter_table(name, metadata_location="/new", expected_metadata_location=first)
        transaction.alter_table(name, metadata_location="/new", payload=TableInsertDef().SerializeToString())
    definition = plain.snapshot().table(name).definition
    assert (definition.iceberg_metadata_location, definition.iceberg_previous_metadata_location) == ("/new", first)
