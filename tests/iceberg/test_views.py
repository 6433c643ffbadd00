"""Iceberg's views through PyIceberg, beside the views that are plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchViewError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from olympia_cli import ViewName
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.iceberg.conversion import ViewAlreadyExistsError
from olympia_cli.ops.inspect import describe_object

SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def ns(catalog: OlympiaCatalog) -> OlympiaCatalog:
    catalog.create_namespace("ns")
    return catalog


@pytest.fixture
def version() -> Any:
    metadata = pytest.importorskip("pyiceberg.view.metadata", reason="this PyIceberg makes no views")
    text = {"type": "sql", "sql": "SELECT id FROM ns.t", "dialect": "spark"}
    return metadata.ViewVersion(
        version_id=1, schema_id=7, timestamp_ms=1, summary={}, representations=[text], default_namespace=["ns"]
    )


def test_a_view_is_made_loaded_listed_and_dropped(ns: OlympiaCatalog, version: Any) -> None:
    made = ns.create_view("ns.v", SCHEMA, version, properties={"a": "1"})
    loaded = ns.load_view("ns.v")
    assert loaded == made
    assert loaded.sql_for("spark").sql == "SELECT id FROM ns.t"
    assert (loaded.schema().column_names, loaded.properties) == (["id"], {"a": "1"})
    assert ns.view_exists("ns.v")
    assert ns.list_views("ns") == [("ns", "v")]
    shown = describe_object(ns.store_catalog.snapshot().view(ViewName("ns", "v")), 1)
    assert (shown["format"], Path(shown["metadata_location"]).exists()) == ("iceberg_view", True)
    ns.rename_view("ns.v", "ns.w")
    assert ns.load_view("ns.w").metadata == made.metadata
    ns.drop_view("ns.w")
    assert not ns.view_exists("ns.w")


def test_a_view_is_registered(ns: OlympiaCatalog, version: Any) -> None:
    made = ns.create_view("ns.v", SCHEMA, version)
    location = ns.store_catalog.snapshot().view(ViewName("ns", "v")).definition.iceberg_metadata_location
    assert ns.register_view("ns.again", location).metadata == made.metadata
    with pytest.raises(ViewAlreadyExistsError):
        ns.register_view("ns.v", location)


def test_tables_and_views_share_their_names(ns: OlympiaCatalog, version: Any) -> None:
    ns.create_table("ns.t", SCHEMA)
    ns.create_view("ns.v", SCHEMA, version)
    with pytest.raises(TableAlreadyExistsError):
        ns.create_view("ns.t", SCHEMA, version)
    with pytest.raises(TableAlreadyExistsError, match="View with same name"):
        ns.create_table("ns.v", SCHEMA)
    with pytest.raises(TableAlreadyExistsError, match="View with same name"):
        ns.create_table_transaction("ns.v", SCHEMA).commit_transaction()
    with pytest.raises(TableAlreadyExistsError, match="View with same name"):
        ns.rename_table("ns.t", "ns.v")
    with pytest.raises(ViewAlreadyExistsError):
        ns.create_view("ns.v", SCHEMA, version)
    assert not ns.table_exists("ns.v")


def test_a_view_in_a_transaction(ns: OlympiaCatalog, version: Any) -> None:
    before = ns.version
    with ns.transaction() as together:
        together.create_table("ns.t", SCHEMA)
        together.create_view("ns.v", SCHEMA, version)
        assert together.load_view("ns.v").schema().column_names == ["id"]
        assert not ns.view_exists("ns.v")
    assert ns.version == before + 1
    assert ns.load_view("ns.v").schema().column_names == ["id"]


def test_a_missing_view_is_reported_by_every_call(ns: OlympiaCatalog) -> None:
    with pytest.raises(NoSuchViewError, match=r"View does not exist: ns.none"):
        ns.drop_view("ns.none")
    with pytest.raises(NoSuchViewError, match=r"View does not exist: ns.none"):
        ns.load_view("ns.none")
    with pytest.raises(NoSuchNamespaceError):
        ns.list_views("none")
    assert not ns.view_exists("ns.none")


def test_a_plan_is_no_view_of_iceberg(ns: OlympiaCatalog) -> None:
    with ns.store_catalog.transaction() as transaction:
        transaction.create_view(ViewName("ns", "plan"), ViewDef(substrait_read_rel=b"plan"))
    assert ns.list_views("ns") == [("ns", "plan")]
    with pytest.raises(NoSuchViewError, match="Substrait plan"):
        ns.load_view("ns.plan")
    ns.drop_view("ns.plan")
