"""Definitions that are missing are seen without reading one, where a listing is cheap."""

from __future__ import annotations

import uuid

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.ops.fsck import Level
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table
from tests.helpers.stores import CountingStore


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    catalog = Catalog.create(store, order=4)
    for number in range(4):
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns(f"n{number}"))
            for at in range(3):
                transaction.create_table(table(f"n{number}.t{at}"), location(at))
    return store


def lose(store: MemoryStore, name: str) -> str:
    path = Catalog(store).snapshot().find(table(name))
    assert path is not None
    store.delete_many([path])
    return path


def test_missing_definitions_are_found_without_reading_any(store):
    missing = [lose(store, "n1.t1"), lose(store, "n3.t0")]
    counting = CountingStore(store)
    report = fsck(counting)
    assert report.definitions == "listed"
    assert {(found.code, found.path, str(found.objects[0]), found.versions) for found in report.findings} == {
        ("F301", missing[0], "n1.t1", ((2, 4),)),
        ("F301", missing[1], "n3.t0", ((4, 4),)),
    }
    assert report.last_sound_version == 1, "the versions before are looked for what is missing, too"
    read = [path for path in counting.paths("read", "read_many") if path.startswith("def/")]
    assert all(path.startswith("def/catalog/") for path in read)


def test_a_sound_catalog_costs_one_listing(store):
    counting = CountingStore(store)
    assert fsck(counting).findings == ()
    assert counting.paths("list") == ["vn/", "def/"]
    assert not counting.paths("exists")


def test_all_versions(store):
    path = lose(store, "n0.t2")
    with Catalog(store).transaction() as transaction:
        transaction.drop_table(table("n0.t2"))
    assert fsck(store).findings == ()
    [found] = fsck(store, all_versions=True).findings
    assert (found.code, found.path, found.versions) == ("F301", path, ((1, 4),))


def test_the_definition_check_is_skipped_among_too_many_files(store):
    lose(store, "n1.t1")
    nodes = sum(file_kind(file.path) is FileKind.NODE for file in store.list("node/"))
    for _ in range(1000 * (10 + nodes) + 1):
        store.create(f"def/table/{uuid.uuid4()}.binpb", b"")
    report = fsck(store)
    assert (report.findings, report.definitions) == ((), "no")
    assert [found.code for found in fsck(store, level=Level.FULL).findings] == ["F301"]


def test_the_deeper_level_says_that_it_read_them(store):
    assert fsck(store, level=Level.FULL).definitions == "read"
    assert fsck(store, level=Level.HINTS).definitions == "no"
