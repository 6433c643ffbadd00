"""The catalog as PyIceberg uses it: what PyIceberg's own catalogs do, and the errors that its callers know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import AddSchemaUpdate, AssertTableUUID, SetCurrentSchemaUpdate, SetPropertiesUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from olympia_cli import Catalog, CatalogNotFound, NamespaceName, TableName
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.stores import CountingStore

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]}).cast(
    pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
)


@pytest.fixture
def ns(catalog: OlympiaCatalog) -> OlympiaCatalog:
    catalog.create_namespace("ns")
    return catalog


def test_pyiceberg_loads_it_by_name(warehouse: str) -> None:
    Catalog.create(warehouse)
    settings = {"py-catalog-impl": "olympia_cli.iceberg.OlympiaCatalog", "warehouse": warehouse}
    assert load_catalog("lake", **settings).list_namespaces() == []


def test_opening_without_a_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogNotFound):
        OlympiaCatalog("olympia", warehouse=str(tmp_path / "none"))
    with pytest.raises(ValueError, match="warehouse"):
        OlympiaCatalog("olympia")


# Namespaces


def test_namespaces_have_properties(catalog: OlympiaCatalog) -> None:
    catalog.create_namespace("a", {"owner": "ann", "level": 3})
    assert catalog.load_namespace_properties("a") == {"owner": "ann", "level": "3"}
    done = catalog.update_namespace_properties("a", {"level", "absent"}, {"owner": "bob", "new": "1"})
    assert (done.removed, sorted(done.updated), done.missing) == (["level"], ["new", "owner"], ["absent"])
    assert catalog.load_namespace_properties("a") == {"owner": "bob", "new": "1"}


def test_a_namespace_is_created_only_once(catalog: OlympiaCatalog) -> None:
    catalog.create_namespace("a")
    with pytest.raises(NamespaceAlreadyExistsError, match="Namespace a already exists"):
        catalog.create_namespace("a")
    catalog.create_namespace_if_not_exists("a")
    assert catalog.list_namespaces() == [("a",)]
    assert catalog.list_namespaces("a") == []


def test_a_missing_namespace_is_reported_by_every_call(catalog: OlympiaCatalog) -> None:
    asks: list[Any] = [
        catalog.load_namespace_properties,
        catalog.drop_namespace,
        catalog.list_tables,
        catalog.list_views,
        catalog.list_namespaces,
        catalog.update_namespace_properties,
    ]
    for ask in asks:
        with pytest.raises(NoSuchNamespaceError, match="Namespace none does not exists"):
            ask("none")
    assert not catalog.namespace_exists("none")


@pytest.mark.parametrize("empty", ["", (), ("",), ("", ""), " "])
def test_a_namespace_without_a_name(catalog: OlympiaCatalog, empty: Any) -> None:
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_namespace(empty)


def test_a_namespace_has_one_level(catalog: OlympiaCatalog) -> None:
    with pytest.raises(ValueError, match=r"Namespaces have one level in this catalog, and a\.b has 2"):
        catalog.create_namespace("a.b")
    with pytest.raises(ValueError, match="one level"):
        catalog.create_table(("a", "b", "t"), SCHEMA)
    with pytest.raises(NoSuchTableError, match="one level"):
        catalog.load_table("a.b.t")
    with pytest.raises(NoSuchNamespaceError, match="one level"):
        catalog.list_tables("a.b")
    assert not catalog.namespace_exists(("a", "b"))
    assert not catalog.table_exists("a.b.t")
    # a tuple is taken literally
    catalog.create_namespace(("a.b",))
    assert catalog.create_table(("a.b", "t.u"), SCHEMA).name() == ("a.b", "t.u")
    assert catalog.list_tables(("a.b",)) == [("a.b", "t.u")]


def test_names_that_the_catalog_cannot_have(ns: OlympiaCatalog) -> None:
    for bad in ("a b", "x" * 101, "a\n"):
        with pytest.raises(ValueError, match=r"name|bytes"):
            ns.create_namespace((bad,))
        with pytest.raises(ValueError, match=r"name|bytes"):
            ns.create_table(("ns", bad), SCHEMA)
        assert not ns.table_exists(("ns", bad))
        with pytest.raises(NoSuchTableError):
            ns.load_table(("ns", bad))
    with pytest.raises(ValueError, match="None"):
        ns.create_namespace("b", {"key": None})
    assert ns.list_namespaces() == [("ns",)]


def test_a_namespace_with_tables_stays(ns: OlympiaCatalog) -> None:
    ns.create_table("ns.t", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError, match="Namespace ns is not empty"):
        ns.drop_namespace("ns")
    ns.drop_table("ns.t")
    ns.drop_namespace("ns")
    assert ns.list_namespaces() == []


# Tables


def test_a_table_is_created_and_loaded(ns: OlympiaCatalog, warehouse: str) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    order = SortOrder(SortField(1, IdentityTransform()))
    made = ns.create_table(
        "ns.t", SCHEMA, partition_spec=spec, sort_order=order, properties={"format-version": "1", "p": 1}
    )
    loaded = ns.load_table("ns.t")
    assert loaded == made
    assert loaded.name() == ("ns", "t")
    assert (loaded.format_version, loaded.properties) == (1, {"p": "1"})
    assert loaded.metadata_location.startswith(f"{warehouse}/data/ns/t-")
    assert ns.table_exists("ns.t")
    assert ns.list_tables("ns") == [("ns", "t")]


def test_a_table_is_created_only_once(ns: OlympiaCatalog) -> None:
    made = ns.create_table("ns.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError, match=r"Table ns.t already exists"):
        ns.create_table("ns.t", SCHEMA)
    assert ns.create_table_if_not_exists("ns.t", SCHEMA) == made
    with (
        pytest.raises(CommitFailedException, match="Table already exists"),
        ns.create_table_transaction("ns.t", SCHEMA),
    ):
        pass


def test_metadata_of_a_failed_create_is_deleted(ns: OlympiaCatalog, tmp_path: Path) -> None:
    ns.create_table("ns.t", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        ns.create_table("ns.t", SCHEMA, location=str(tmp_path / "second"))
    assert not list(tmp_path.glob("second/**/*.json"))


def test_a_table_needs_a_namespace(catalog: OlympiaCatalog) -> None:
    for identifier in ("none.t", "t"):
        with pytest.raises(NoSuchNamespaceError):
            catalog.create_table(identifier, SCHEMA)


def test_a_location_is_taken_as_given(ns: OlympiaCatalog, tmp_path: Path) -> None:
    assert ns.create_table("ns.t", SCHEMA, location=f"file://{tmp_path}/own/").location() == f"file://{tmp_path}/own"
    ns.create_namespace("placed", {"location": f"{tmp_path}/there/"})
    assert ns.create_table("placed.t", SCHEMA).location().startswith(f"{tmp_path}/there/t-")


def test_the_catalog_can_say_where_tables_go(ns: OlympiaCatalog, tmp_path: Path) -> None:
    with ns.store_catalog.transaction() as transaction:
        transaction.alter_catalog({"olympia.table-location": f"{tmp_path}/lake"})
    assert ns.create_table("ns.t", SCHEMA).location().startswith(f"{tmp_path}/lake/ns/t-")


@pytest.mark.parametrize("name", ["..", "a/b", "a?b#c", "%2e", "ü"])
def test_no_name_leads_out_of_the_folder(ns: OlympiaCatalog, warehouse: str, name: str) -> None:
    table = ns.create_table(("ns", name), SCHEMA)
    table.append(ROWS)
    assert ns.load_table(("ns", name)).scan().to_arrow().num_rows == 3
    folder = Path(warehouse) / "data" / "ns"
    assert Path(table.metadata_location).resolve().parent.parent.parent == folder


def test_two_tables_never_share_a_folder(ns: OlympiaCatalog) -> None:
    first = ns.create_table("ns.t", SCHEMA).location()
    ns.rename_table("ns.t", "ns.u")
    assert ns.create_table("ns.t", SCHEMA).location() != first


def test_a_missing_table_is_reported_by_every_call(ns: OlympiaCatalog) -> None:
    asks: list[Any] = [ns.load_table, ns.drop_table, ns.purge_table, lambda name: ns.rename_table(name, "ns.new")]
    for ask in asks:
        with pytest.raises(NoSuchTableError, match=r"Table does not exist: ns.none"):
            ask("ns.none")
    assert not ns.table_exists("ns.none")
    assert not ns.table_exists("none.t")


def test_rename(ns: OlympiaCatalog) -> None:
    ns.create_namespace("other")
    made = ns.create_table("ns.t", SCHEMA)
    ns.create_table("ns.u", SCHEMA)
    with pytest.raises(TableAlreadyExistsError, match=r"Table ns.u already exists"):
        ns.rename_table("ns.t", "ns.u")
    with pytest.raises(NoSuchNamespaceError):
        ns.rename_table("ns.t", "none.t")
    renamed = ns.rename_table("ns.t", ("other", "t"))
    assert (renamed.name(), renamed.metadata_location) == (("other", "t"), made.metadata_location)
    assert not ns.table_exists("ns.t")


def test_register(ns: OlympiaCatalog) -> None:
    made = ns.create_table("ns.t", SCHEMA)
    first = made.metadata_location
    made.append(ROWS)
    ns.drop_table("ns.t")
    assert ns.register_table("ns.t", first).scan().to_arrow().num_rows == 0
    with pytest.raises(TableAlreadyExistsError):
        ns.register_table("ns.t", made.metadata_location)
    ns.register_table("ns.t", made.metadata_location, overwrite=True)
    assert ns.load_table("ns.t").scan().to_arrow().num_rows == 3
    with pytest.raises(NoSuchNamespaceError):
        ns.register_table("none.t", first)


def test_a_table_with_missing_metadata_is_not_registered(ns: OlympiaCatalog, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ns.register_table("ns.t", str(tmp_path / "none.metadata.json"))
    assert ns.list_tables("ns") == []


def test_many_tables_are_registered_in_one_commit(ns: OlympiaCatalog) -> None:
    location = ns.create_table("ns.t", SCHEMA).metadata_location
    before = ns.version
    ns.register_tables({("ns", f"t{number}"): location for number in range(50)})
    assert ns.version == ns.last_version == before + 1
    assert len(ns.list_tables("ns")) == 51
    with pytest.raises(TableAlreadyExistsError, match=r"ns.t7"):
        ns.register_tables({("ns", "new"): location, ("ns", "t7"): location})
    assert not ns.table_exists("ns.new")


# Commits


def test_a_commit_of_pyiceberg(ns: OlympiaCatalog) -> None:
    table = ns.create_table("ns.t", SCHEMA)
    first = table.metadata_location
    with table.update_schema() as update:
        update.add_column("b", LongType())
    assert table.schema().find_field("b").field_type == LongType()
    assert [entry.metadata_file for entry in table.metadata.metadata_log] == [first]
    assert table.metadata_location.rpartition("/")[2].startswith("00001-")
    assert ns.load_table("ns.t") == table


def test_a_stale_requirement_fails_at_once(ns: OlympiaCatalog) -> None:
    table, stale = ns.create_table("ns.t", SCHEMA), ns.load_table("ns.t")
    with table.update_schema() as update:
        update.add_column("b", LongType())
    before = ns.version
    with pytest.raises(CommitFailedException, match="current schema id has changed: expected 0, found 1"):  # noqa: SIM117
        with stale.update_schema() as update:
            update.add_column("c", LongType())
    assert ns.version == before


def test_a_commit_without_requirements(ns: OlympiaCatalog) -> None:
    table = ns.create_table("ns.t", SCHEMA)
    schema = Schema(*SCHEMA.fields, NestedField(3, "more", LongType()), schema_id=1)
    done = ns.commit_table(table, (), (AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=-1)))
    assert done.metadata.current_schema_id == 1
    assert ns.load_table("ns.t").metadata_location == done.metadata_location


def test_a_commit_that_changes_nothing_is_none(ns: OlympiaCatalog) -> None:
    table = ns.create_table("ns.t", SCHEMA, properties={"a": "1"})
    before = ns.version
    done = ns.commit_table(table, (), (SetPropertiesUpdate(updates={}),))
    assert (done.metadata_location, ns.version) == (table.metadata_location, before)


def test_a_commit_to_a_dropped_table_is_refused(ns: OlympiaCatalog) -> None:
    table = ns.create_table("ns.t", SCHEMA)
    ns.drop_table("ns.t")
    with pytest.raises(NoSuchTableError):
        ns.commit_table(
            table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (SetPropertiesUpdate(updates={"a": "1"}),)
        )
    # another table of that name is another table
    ns.create_table("ns.t", SCHEMA)
    with pytest.raises(CommitFailedException, match="UUID does not match"):
        table.transaction().set_properties({"a": "1"}).commit_transaction()


def test_write_overwrite_and_delete(ns: OlympiaCatalog) -> None:
    table = ns.create_table("ns.t", SCHEMA)
    table.append(ROWS)
    table.overwrite(ROWS.slice(0, 1), overwrite_filter="id = 2")
    table.delete("id = 3")
    assert sorted(ns.load_table("ns.t").scan().to_arrow()["id"].to_pylist()) == [1, 1]


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_that_is_created_with_its_rows(ns: OlympiaCatalog, version: int) -> None:
    before = ns.version
    with ns.create_table_transaction("ns.t", ROWS.schema, properties={"format-version": str(version)}) as creation:
        creation.append(ROWS)
        assert not ns.table_exists("ns.t")
    assert ns.version == before + 1
    loaded = ns.load_table("ns.t")
    assert (loaded.format_version, loaded.scan().to_arrow().num_rows) == (version, 3)


# What is deleted


def test_old_metadata_files_stay_while_versions_name_them(ns: OlympiaCatalog, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "olympia_cli")
    cleaning = {
        TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "1",
        TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    }
    table = ns.create_table("ns.t", SCHEMA, properties=cleaning)
    first = table.metadata_location
    for number in range(3):
        table.transaction().set_properties({"n": str(number)}).commit_transaction()
    assert len(table.metadata.metadata_log) == 1
    assert "delete-after-commit.enabled is not done: versions that are kept name" in caplog.text
    assert Path(first).exists()
    assert ns.at("v2").load_table("ns.t").metadata_location == first


def test_a_purge_keeps_files_that_versions_name(ns: OlympiaCatalog, caplog: pytest.LogCaptureFixture) -> None:
    table = ns.create_table("ns.t", SCHEMA)
    table.append(ROWS)
    ns.purge_table("ns.t")
    assert "versions that are kept still name them" in caplog.text
    with pytest.raises(NoSuchTableError, match=r"Table does not exist: ns.t"):
        ns.load_table("ns.t")
    assert ns.at("latest~1").load_table("ns.t").scan().to_arrow().num_rows == 3


# What is read


def test_a_second_load_reads_no_unchanged_files(ns: OlympiaCatalog) -> None:
    """Nodes and definitions never change: who asks again looks for the latest version, and no further."""
    for number in range(3):
        ns.create_table(("ns", f"t{number}"), SCHEMA)
    store = CountingStore(ns.store_catalog.store)
    catalog = OlympiaCatalog.of(Catalog(store), **ns.properties)
    catalog.load_table("ns.t1")
    store.reset()
    catalog.load_table("ns.t1")
    assert [what for what, _ in store.sequence] == ["exists"]
    ns.rename_table("ns.t2", "ns.u2")
    assert catalog.list_tables("ns") == [("ns", "t0"), ("ns", "t1"), ("ns", "u2")]


def test_a_change_after_a_change_waits_three_times(ns: OlympiaCatalog) -> None:
    """For the look, for the files, for the root: what the change before has written is known."""
    store = CountingStore(ns.store_catalog.store)
    catalog = OlympiaCatalog.of(Catalog(store), **ns.properties)
    for owner in "ab":
        store.reset()
        catalog.update_namespace_properties("ns", updates={"owner": owner})
    assert store.calls == {"read_many": 1, "create_many": 1, "create": 1, "write_hint": 1}


def test_another_catalog_at_the_same_place_is_another_catalog(tmp_path: Path) -> None:
    store = MemoryStore()
    Catalog.create(store, table_name_max_bytes=50)
    catalog = OlympiaCatalog.of(Catalog(store))
    catalog.create_namespace("old")
    store.delete_many([file.path for file in list(store.list())])
    new = Catalog.create(store)
    with new.transaction() as transaction:
        transaction.create_namespace(NamespaceName("new"))
    with new.transaction() as transaction:
        transaction.create_table(TableName("new", "t" * 80), "m")
    assert catalog.list_namespaces() == [("new",)]
    assert catalog.list_tables("new") == [("new", "t" * 80)]
