"""A definition that lost its end is damaged, whether or not a log is left to tell.

It is cut where a field ends, so that what is left can be parsed: an id, and no location.
"""

from __future__ import annotations

import contextlib

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import SystemClock
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import Damaged
from olympia_cli.format import definitions
from olympia_cli.format.definitions import Digest, check_digest
from olympia_cli.format.paths import root_path, says_digest
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, Scope
from olympia_cli.ops.fsck import Level
from olympia_cli.ops.repair.plan import RepairPlan
from olympia_cli.ops.repair.repair import apply_repair, plan_repair
from olympia_cli.storage.memory import MemoryStore
from tests.helpers import expire
from tests.helpers.damage import cut_behind_id, flipped
from tests.helpers.damage_sample import older_definitions
from tests.helpers.fsck import everything, fsck
from tests.helpers.names import location, ns, table

ORDERS, LINES = table("sales.orders"), table("sales.lines")


def forgetful() -> tuple[MemoryStore, str]:
    """A catalog whose oldest version knows a table, and whose log says nothing of it; the path of its definition."""
    store = MemoryStore("forgetful")
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("sales"))
        transaction.create_table(ORDERS, location(1), {"owner": "ann"})
        transaction.create_table(LINES, location(2))
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("other"))
    expire.mark(catalog, 2)
    expire.purge(catalog, 2)
    store.delete_many([root_path(0), root_path(1)])
    return store, catalog.snapshot().table(ORDERS).path


@pytest.fixture(params=[None, 8], ids=["digest first", "digest last, version 8"])
def forgotten(request) -> tuple[MemoryStore, str, str]:
    """Return a catalog of this program or of an older one, and the message about a definition that lost its end."""
    with contextlib.nullcontext() if request.param is None else older_definitions(request.param):
        store, path = forgetful()
    assert not everything(store).damaged
    assert says_digest(path) is bool(request.param)
    return store, path, "its checksum is missing" if request.param else "truncated: "


def cut(store: MemoryStore, path: str) -> None:
    store.overwrite(path, cut_behind_id(store.read(path)))
    assert TableDef.FromString(store.read(path)).id


def repaired(store: MemoryStore) -> RepairPlan:
    plan = plan_repair(store)
    apply_repair(store, SystemClock(), plan, Author(by="test"))
    return plan


def test_fsck_finds_it(forgotten):
    store, path, message = forgotten
    cut(store, path)
    [found] = [one for one in everything(store).findings if one.severity == "error"]
    assert (found.code, found.path, [str(one) for one in found.objects]) == ("F304", path, ["sales.orders"])
    assert message in found.message


def test_the_message_tells_how_much_is_left():
    store, path = forgetful()
    before = len(store.read(path))
    cut(store, path)
    [found] = [one for one in everything(store).findings if one.severity == "error"]
    assert found.message == f"truncated: {len(store.read(path))} of {before} bytes"


def test_reads_and_exports_refuse_it(forgotten):
    store, path, message = forgotten
    cut(store, path)
    catalog = Catalog(store)
    with pytest.raises(Damaged, match=message):
        catalog.snapshot().table(ORDERS)
    with pytest.raises(Damaged, match=message):
        create_export(catalog, MemoryStore("copy"), "copy", Scope(Mode.FULL, None, definitions=True))


def test_a_repair_keeps_the_readable_part_of_a_definition(forgotten):
    store, path, _ = forgotten
    id = Catalog(store).snapshot().table(ORDERS).id
    cut(store, path)
    assert [str(name) for name in repaired(store).steps[0].reverts] == ["sales.orders"]
    found = Catalog(store).snapshot().table(ORDERS)
    assert (found.id, found.definition.iceberg_metadata_location) == (id, "")
    assert check_digest(store.read(found.path), found.path) is Digest.VERIFIED
    assert not fsck(store, level=Level.FULL).damaged


def test_a_repair_keeps_nothing_of_changed_bytes(forgotten):
    store, path, _ = forgotten
    data = store.read(path)
    store.overwrite(path, flipped(data, data.index(b"metadata/")))
    assert [str(name) for name in repaired(store).steps[0].loses] == ["sales.orders"]


def test_the_catalogs_own_definition_is_held_to_it_too(forgotten):
    store, _, message = forgotten
    path = Catalog(store).snapshot().root.catalog_def
    cut(store, path)
    with pytest.raises(Damaged, match=message):
        Catalog(store).snapshot().table(ORDERS)
    assert "F307" in {one.code for one in everything(store).findings}


class TestExchanged:
    """Each of two files holds the definition of the other, and the digest in it is of those bytes."""

    def test_fsck_names_the_files(self):
        store, path = forgetful()
        other = exchange(store, path)
        found = {one.path: (one.code, one.message) for one in everything(store).findings if one.severity == "error"}
        names = {path: path.rpartition("/")[2], other: other.rpartition("/")[2]}
        assert found == {
            path: ("F304", f"it is a copy of '{names[other]}'"),
            other: ("F304", f"it is a copy of '{names[path]}'"),
        }

    def test_a_repair_puts_them_back(self, forgotten):
        store, path, _ = forgotten
        before = contents(store)
        exchange(store, path)
        [step, *_] = repaired(store).steps
        assert (step.loses, step.reverts) == ((), ())
        assert contents(store) == before
        assert not fsck(store, level=Level.FULL).damaged

    def test_a_definition_replaced_by_a_copy_is_lost(self):
        store, path = forgetful()
        other = Catalog(store).snapshot().table(LINES).path
        store.overwrite(path, store.read(other))
        [step, *_] = repaired(store).steps
        assert [str(name) for name in step.loses] == ["sales.orders"]
        assert Catalog(store).snapshot().table(LINES).definition.iceberg_metadata_location == location(2)


def exchange(store: MemoryStore, path: str) -> str:
    other = Catalog(store).snapshot().table(LINES).path
    data = store.read(path)
    store.overwrite(path, store.read(other))
    store.overwrite(other, data)
    return other


def contents(store: MemoryStore) -> dict[str, bytes]:
    snapshot = Catalog(store).snapshot()
    return {str(name): definitions.body(snapshot.table(name).definition) for name in (ORDERS, LINES)}


def test_the_oldest_definitions_need_no_digest():
    """Neither their names nor their first fields say that they have one."""
    with older_definitions(4):
        store, path = forgetful()
    cut(store, path)
    assert Catalog(store).snapshot().table(ORDERS).definition.iceberg_metadata_location == ""
    report = everything(store)
    assert (report.damaged, [one.code for one in report.findings]) == (False, ["F904"])
    with Catalog(store).transaction() as transaction:
        transaction.alter_table(ORDERS, {"owner": "bob"})
    cut(store, Catalog(store).snapshot().table(ORDERS).path)
    with pytest.raises(Damaged, match="truncated: "):
        Catalog(store).snapshot().table(ORDERS)


def test_only_definitions_of_version_8_say_it():
    name = f"{'0' * 8}-0000-8000-8000-{'0' * 12}"
    assert says_digest(f"def/table/{name}.binpb")
    assert not says_digest(f"dtxn/{name}.0.binpb")
    assert not says_digest("def/table/short.binpb")
