"""Files and numbers that are larger than any that this program writes: they hide nothing of what stands beside them."""

from __future__ import annotations

import json

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import read_quarantine
from olympia_cli.errors import FileTooLarge, Refused
from olympia_cli.format.paths import LATEST, OLDEST, root_path, says_digest, size_limit
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import AtVersion
from olympia_cli.ops.fsck import Level
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table

MIB = 2**20


@pytest.fixture
def catalog() -> Catalog:
    """A table that was dropped, and some versions since."""
    store = MemoryStore("lake")
    store.size_limit = lambda path: 10_000 if path.startswith(("vn/0", "vn/1")) else size_limit(path)
    catalog = Catalog.create(store)
    for number in range(6):
        with catalog.transaction() as transaction:
            if number == 0:
                transaction.create_namespace(ns("n"))
                transaction.create_table(table("n.t"), location(0))
            elif number == 1:
                transaction.drop_table(table("n.t"))
            else:
                transaction.create_namespace(ns(f"k{number}"))
    return catalog


def test_an_old_root_does_not_stand_in_the_way_of_a_restore(catalog):
    old = catalog.snapshot(AtVersion(1)).table(table("n.t"))
    catalog.store.overwrite(root_path(3), b"x" * 20_000)
    with catalog.transaction() as transaction:
        transaction.restore(old, 1)
    assert catalog.snapshot().table(table("n.t")).id == old.id


def test_the_latest_root_does_not_hide_those_before_it_when_hints_lead_nowhere(catalog):
    catalog.store.delete_many([LATEST, OLDEST, root_path(0)])
    catalog.store.overwrite(root_path(6), b"x" * 20_000)
    assert catalog.snapshot(AtVersion(5)).version == 5
    with pytest.raises(FileTooLarge):
        Catalog(catalog.store).snapshot()


@pytest.mark.parametrize("hint", [LATEST, OLDEST])
def test_an_oversized_hint_is_garbage(catalog, hint):
    catalog.store.overwrite(hint, b"3" + b" " * 2000)
    report = fsck(catalog.store, level=Level.FULL, all_versions=True)
    assert [finding.code for finding in report.findings] == ["F112" if hint == LATEST else "F115"]
    assert report.checked["versions"] == 7


def test_one_large_definition_can_be_written_and_read(catalog):
    catalog.store.size_limit = size_limit
    with catalog.transaction() as transaction:
        transaction.create_table(table("n.large"), location(1), {"notes": "x" * 30 * MIB})
    assert len(catalog.snapshot().table(table("n.large")).properties["notes"]) == 30 * MIB
    assert catalog.snapshot().actions()
    assert not fsck(catalog.store, level=Level.FULL, all_versions=True).damaged


def test_a_save_after_the_last_possible_number_is_refused(catalog):
    begun = distributed.begin(catalog)
    begun.save()
    catalog.store.create(f"dtxn/{begun.id}.9999999999.binpb", b"somebody's")
    with pytest.raises(Refused, match="has the last possible number") as raised:
        distributed.abort(catalog, distributed.look(catalog.store, begun.id))
    assert f"{begun.id}.9999999999" in raised.value.hint


def test_a_mark_of_versions_that_cannot_be_is_none():
    definition = CatalogDef()
    mark = {"version": 7, "oldest": 2**32, "former_oldest": 0, "manifest": "m"}
    definition.properties["olympia.expire.quarantine"] = json.dumps([mark])
    assert read_quarantine(definition) == []


def test_only_a_uuid_in_a_path_announces_a_digest():
    assert says_digest("def/table/abcdefab-cdef-8bcd-8bcd-abcdefabcdef-ns-t.binpb")
    for name in ("abcdefghijklmn8", "sales-2024-06-8-x", "abcdefab-cdef-4bcd-8bcd-abcdefabcdef"):
        assert not says_digest(f"def/table/{name}.binpb")
