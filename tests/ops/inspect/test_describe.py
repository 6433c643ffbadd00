"""Definitions as plain values: nothing that they hold is left out."""

from __future__ import annotations

from olympia_cli.catalog.snapshot import CatalogObject
from olympia_cli.format.pb.objects_pb2 import Column, DataType, Schema, ViewDef
from olympia_cli.ops.inspect import changed_fields, describe_object
from tests.helpers.names import view


def column(name: str, type: str, **inner) -> Column:
    return Column(id=1, name=name, type=DataType.Value(type), **inner)


def nested(leaf: str) -> ViewDef:
    """A list of maps from text to structs."""
    struct = column("value", "STRUCT", struct_fields=[column("a", "INT4"), column(leaf, "INT8", nullable=True)])
    entry = column("element", "MAP", map_key=column("key", "VARCHAR", properties={"length": "9"}), map_value=struct)
    return ViewDef(id="i", schema=Schema(columns=[column("all", "LIST", list_element=entry)]))


def test_a_column_shows_all_that_lies_in_it():
    [shown] = describe_object(CatalogObject(view("a.v"), "", nested("b")), 1)["schema"]
    entry = shown["list_element"]
    assert (shown["name"], shown["type"]) == ("all", "list")
    assert (entry["type"], entry["map_key"]["type"], entry["map_key"]["properties"]) == (
        "map",
        "varchar",
        {"length": "9"},
    )
    assert [(one["name"], one["type"], one["nullable"]) for one in entry["map_value"]["struct_fields"]] == [
        ("a", "int4", False),
        ("b", "int8", True),
    ]
    # a column without any of them looks as it always did
    assert list(entry["map_value"]["struct_fields"][0]) == ["id", "name", "type", "nullable"]


def test_a_change_deep_inside_a_column_is_a_change():
    assert list(changed_fields(nested("b"), nested("c"))) == ["schema"]


def test_a_plan_that_is_replaced_by_one_of_its_length_is_a_change():
    old, new = ViewDef(id="i", substrait_read_rel=b"one"), ViewDef(id="i", substrait_read_rel=b"two")
    [(before, after)] = changed_fields(old, new).values()
    assert before[:7] == after[:7] == "3 bytes"
    assert before != after
