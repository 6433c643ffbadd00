"""The files of an export as they are read and copied, here and in a task of Spark."""

from __future__ import annotations

from collections import Counter

import pytest

from olympia_cli.errors import Damaged, OutcomeUnknown, PathTaken, StorageDenied, StorageFailed
from olympia_cli.format.codec import encode_node
from olympia_cli.format.node import Node
from olympia_cli.ops.export import files as export_files
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import CopyFiles, ExportFiles, FileCount, Mode, Scope, scope
from olympia_cli.ops.walk import FAILURES_IN_A_ROW, Flaw, Place, StoreFailure, flaw_of
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.exports import make_catalog
from tests.helpers.stores import CountingStore, WrappedStore

FULL, MINIMAL = scope(Mode.FULL), scope(Mode.MINIMAL)


@pytest.fixture
def catalog():
    return make_catalog(MemoryStore("source"))


@pytest.fixture
def places(catalog) -> dict[Place, bool]:
    """All files of the version below its root, and whether each is a node."""
    snapshot = catalog.snapshot()
    found, level, nodes = {Place(snapshot.root.catalog_def, 1): False}, 1, [snapshot.root.node]
    while nodes:
        found |= {Place(value, level): False for node in nodes for value in node.values}
        children = [Place(child, level + 1) for node in nodes for child in node.children]
        found |= dict.fromkeys(children, True)
        nodes, level = [snapshot.reader.node(place.path) for place in children], level + 1
    return found


def copy(files: CopyFiles, places: dict[Place, bool]) -> None:
    for is_node, read in ((True, files.nodes), (False, files.definitions)):
        for place, data in read([place for place, kind in places.items() if kind is is_node]):
            files.looked_at(place, data, None if isinstance(data, bytes) else flaw_of(data), is_node=is_node)
    files.close()


def copying(how_much: Scope, source, dest, *, fresh: bool = True, replaced: str | None = None) -> CopyFiles:
    return CopyFiles(how_much, source, dest, fresh=fresh, replaced=replaced)


def test_each_file_is_read_and_written_once_and_read_back(catalog, places):
    source, dest = CountingStore(catalog.store), CountingStore(MemoryStore("dest"))
    files = copying(FULL, source, dest)
    copy(files, places)
    assert len(places) > 40
    for path, _ in places:
        assert source.of(path, "read", "read_many") == 1
        assert dest.of(path, "create", "create_many") == 1
        assert dest.of(path, "read", "read_many") == 1
        assert dest.read(path) == catalog.store.read(path)
    assert files.copied == FileCount(len(places), sum(len(catalog.store.read(path)) for path, _ in places))
    # a task that is run again finds the same, and changes nothing
    again = copying(FULL, source, dest)
    copy(again, places)
    assert again.copied == files.copied


def test_existing_copies_are_not_written_again(catalog, places):
    dest = MemoryStore("dest")
    dest.create_many({path: catalog.store.read(path) for path, _ in places})
    source, target = CountingStore(catalog.store), CountingStore(dest)
    files = copying(FULL, source, target, fresh=False)
    copy(files, places)
    assert files.copied.files == len(places)
    assert target.paths("create", "create_many") == []
    assert set(source.paths("read", "read_many")) == {place.path for place, is_node in places.items() if is_node}
    assert Counter(target.paths("read_many")) == Counter(path for path, _ in places)


def test_an_existing_different_file_is_not_accepted_as_copy(catalog, places):
    """Not even when it is whole."""
    path = next(place.path for place, is_node in places.items() if is_node)
    dest = MemoryStore("dest")
    for data in (encode_node(Node((), ()), 1), b""):
        dest.overwrite(path, data)
        with pytest.raises(Damaged, match="the copy is damaged: it differs from the file in the catalog"):
            copy(copying(FULL, catalog.store, dest, fresh=False), places)
        with pytest.raises(PathTaken):
            copy(copying(FULL, catalog.store, dest), places)
        assert dest.read(path) == data


def test_shared_and_replaced_files_are_read_but_not_copied(catalog, places):
    dest = MemoryStore("dest")
    copy(copying(MINIMAL, catalog.store, dest), places)
    assert list(dest.list()) == []
    replaced = catalog.snapshot().root.catalog_def
    copy(copying(FULL, catalog.store, dest, replaced=replaced), places)
    assert {file.path for file in dest.list()} == {path for path, _ in places} - {replaced}


def test_in_portions_of_so_many_files_and_bytes(catalog, places, monkeypatch):
    for name, value, number in (("FILES_AT_ONCE", 7, -(-len(places) // 7)), ("BYTES_AT_ONCE", 1, len(places))):
        with monkeypatch.context() as patch:
            patch.setattr(export_files, name, value)
            dest = CountingStore(MemoryStore("dest"))
            copy(copying(FULL, catalog.store, dest), places)
            assert dest.calls["create_many"] == number


def test_once_something_is_damaged_nothing_more_is_written(catalog, places):
    first = next(iter(places))
    dest = MemoryStore("dest")
    files = copying(FULL, catalog.store, dest)
    files.looked_at(first, catalog.store.read(first.path), Flaw("F304", "x"), is_node=places[first])
    copy(files, places)
    assert list(dest.list()) == []


class Unclear(WrappedStore):
    def create_many(self, files):
        raise OutcomeUnknown("no answer")


def test_a_write_of_unknown_outcome_is_reported(catalog, places):
    with pytest.raises(OutcomeUnknown, match="no answer"):
        copy(copying(FULL, catalog.store, Unclear(MemoryStore("dest"))), places)


class Failing(WrappedStore):
    def __init__(self, store, error):
        super().__init__(store)
        self.error = error

    def read_many(self, paths):
        return ((path, self.error) for path in paths)


def test_a_store_that_is_ill(catalog, places):
    """Unreadable files are neither copied nor damage. A verification that copies nothing tolerates some of them."""
    definitions = [place for place, is_node in places.items() if not is_node]
    few, many = definitions[: FAILURES_IN_A_ROW - 1], definitions[:FAILURES_IN_A_ROW]
    ill = Failing(catalog.store, StorageFailed("an i/o error"))
    with pytest.raises(StoreFailure):
        copy(copying(FULL, ill, MemoryStore("dest")), places)
    with pytest.raises(StorageFailed):
        copy(copying(FULL, catalog.store, ill), places)
    assert len(list(ExportFiles(FULL, ill, None).definitions(few))) == len(few)
    with pytest.raises(StoreFailure):
        list(ExportFiles(FULL, ill, None).definitions(many))
    with pytest.raises(StoreFailure):
        list(ExportFiles(FULL, Failing(catalog.store, StorageDenied("no")), None).definitions(few[:1]))


def test_copied_and_shared_files_are_read_from_different_stores(catalog, places):
    source, dest = CountingStore(catalog.store), CountingStore(MemoryStore("dest"))
    two = scope(Mode.PARTIAL, 2, definitions=False)
    copy(copying(two, catalog.store, dest), places)
    here = {place.path for place, is_node in places.items() if is_node and place.level <= 2}
    assert {file.path for file in dest.list()} == here
    files = ExportFiles(two, dest, source)
    dest.reset(), source.reset()
    nodes = [place for place, is_node in places.items() if is_node]
    assert all(isinstance(data, bytes) for _, data in files.nodes(nodes))
    assert all(isinstance(data, bytes) for _, data in files.definitions(list(places.keys() - nodes)))
    assert set(dest.paths("read_many")) == here
    assert set(source.paths("read_many")) == {path for path, _ in places} - here
    assert files.copied.files == len(here)
    assert files.shared.files == len(places) - len(here)


class Taken(WrappedStore):
    """Another program's file stands in place of the first portion; the second one is refused in another way."""

    portions = 0

    def create_many(self, files):
        self.portions += 1
        raise PathTaken("it is taken") if self.portions == 1 else StorageDenied("no")


def test_a_write_error_ends_the_export_and_is_reported(catalog, monkeypatch):
    monkeypatch.setattr(export_files, "FILES_AT_ONCE", 8)
    dest = Taken(MemoryStore("dest"))
    with pytest.raises(PathTaken, match="it is taken"):
        create_export(catalog, dest, "friday", FULL)
    assert dest.portions == 1


def test_interrupted_while_it_reads_nothing_more_is_written(catalog, places):
    dest = CountingStore(MemoryStore("dest"))
    files = copying(FULL, catalog.store, dest)
    for place, data in files.nodes([place for place, is_node in places.items() if is_node]):
        files.looked_at(place, data, None, is_node=True)
    files.close(complete=False)
    assert dest.paths("create_many") == []


def test_files_waiting_when_damage_is_found_are_not_written(catalog, places):
    dest = MemoryStore("dest")
    files = copying(FULL, catalog.store, dest)
    first, second = list(places)[:2]
    files.looked_at(first, catalog.store.read(first.path), None, is_node=places[first])
    files.looked_at(second, catalog.store.read(second.path), Flaw("F304", "x"), is_node=places[second])
    files.close()
    assert list(dest.list()) == []
