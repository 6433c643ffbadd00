"""A definition that was written with a digest and has none is damaged, whether or not a log is left to tell.

It is cut where a field ends, so that what is left can be parsed: an id, and no location.
"""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import SystemClock
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import Damaged
from olympia_cli.format.paths import new_definition_path, root_path, says_digest
from olympia_cli.names import Kind
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.note import Mode, Scope
from olympia_cli.ops.repair.repair import apply_repair, plan_repair
from olympia_cli.storage.memory import MemoryStore
from tests.helpers import expire
from tests.helpers.damage_sample import older_names
from tests.helpers.fsck import everything
from tests.helpers.names import location, ns, table

ORDERS = table("sales.orders")
AN_ID = 38
"""An id has so many bytes with its tag."""


def forgetful() -> tuple[MemoryStore, str]:
    """A catalog whose oldest version knows a table, and whose log says nothing of it; the path of its definition."""
    store = MemoryStore("forgetful")
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("sales"))
        transaction.create_table(ORDERS, location(1), {"owner": "ann"})
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("other"))
    expire.mark(catalog, 2)
    expire.purge(catalog, 2)
    store.delete_many([root_path(0), root_path(1)])
    return store, catalog.snapshot().table(ORDERS).path


def cut(store: MemoryStore, path: str) -> None:
    store.overwrite(path, store.read(path)[:AN_ID])


def test_fsck_finds_it():
    store, path = forgetful()
    assert not everything(store).damaged
    cut(store, path)
    [found] = [one for one in everything(store).findings if one.severity == "error"]
    assert (found.code, found.path, [str(one) for one in found.objects]) == ("F304", path, ["sales.orders"])
    assert "its digest is missing" in found.message


def test_reads_and_exports_refuse_it():
    store, path = forgetful()
    cut(store, path)
    catalog = Catalog(store)
    with pytest.raises(Damaged, match="its digest is missing"):
        catalog.snapshot().table(ORDERS)
    with pytest.raises(Damaged, match="its digest is missing"):
        create_export(catalog, MemoryStore("copy"), "copy", Scope(Mode.FULL, None, definitions=True))


def test_a_repair_keeps_what_is_left_of_it():
    store, path = forgetful()
    id = Catalog(store).snapshot().table(ORDERS).id
    cut(store, path)
    plan = plan_repair(store)
    assert [str(name) for name in plan.steps[0].reverts] == ["sales.orders"]
    apply_repair(store, SystemClock(), plan, Author(by="test"))
    found = Catalog(store).snapshot().table(ORDERS)
    assert (found.id, found.definition.iceberg_metadata_location) == (id, "")
    assert says_digest(found.path)


def test_the_catalogs_own_definition_is_held_to_it_too():
    store, _ = forgetful()
    path = Catalog(store).snapshot().root.catalog_def
    cut(store, path)
    with pytest.raises(Damaged, match="its digest is missing"):
        Catalog(store).snapshot().table(ORDERS)
    assert "F307" in {one.code for one in everything(store).findings}


def test_definitions_of_an_older_program_need_none():
    """Their names do not say that they have one, so there is nothing to hold them to."""
    with older_names():
        store, path = forgetful()
    assert not says_digest(path)
    cut(store, path)
    assert Catalog(store).snapshot().table(ORDERS).definition.iceberg_metadata_location == ""
    report = everything(store)
    assert (report.damaged, [one.code for one in report.findings]) == (False, ["F904"])
    with Catalog(store).transaction() as transaction:
        transaction.alter_table(ORDERS, {"owner": "bob"})
    assert says_digest(Catalog(store).snapshot().table(ORDERS).path), "what is written from now on has"


@pytest.mark.parametrize("kind", [Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.VIEW])
def test_a_new_name_says_it(kind):
    assert says_digest(new_definition_path(kind, None))
    assert not says_digest(f"dtxn/{'0' * 8}-0000-8000-8000-{'0' * 12}.0.binpb")
    assert not says_digest("def/table/short.binpb")
