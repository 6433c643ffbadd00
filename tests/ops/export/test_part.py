"""A part of the work on an export, as a task of Spark has it: what is read, what is written, and what is told."""

from __future__ import annotations

from collections import Counter

import pytest

from olympia_cli.errors import OutcomeUnknown, StorageDenied, StorageFailed
from olympia_cli.format.node import Node
from olympia_cli.format.node_file import encode_node
from olympia_cli.ops.export import part as export_part
from olympia_cli.ops.export.checks import FAILURES_IN_A_ROW, Place, root_pointers
from olympia_cli.ops.export.note import Mode, scope
from olympia_cli.ops.export.part import FILE, POINTER, WRONG, Asked, Part, Row, pointer_rows
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.exports import make_catalog
from tests.helpers.stores import CountingStore, WrappedStore

FULL, MINIMAL = scope(Mode.FULL), scope(Mode.MINIMAL)


def asked(row: Row, *, second: bool = False, there: bool = False) -> Asked:
    return Asked(
        path=row.path,
        is_node=row.is_node,
        level=row.level + row.is_node,
        key=row.key,
        low=row.low,
        high=row.high,
        holder=row.holder,
        rank=row.rank,
        at=row.at,
        second=second,
        there=there,
    )


@pytest.fixture
def catalog():
    return make_catalog(MemoryStore("source"))


@pytest.fixture
def pointers(catalog) -> list[Row]:
    """What the root points to."""
    file, root = catalog.snapshot().file, catalog.snapshot().root
    return list(pointer_rows(root_pointers(root, file.path), Place(file.path), 1, True, None))


def all_below(catalog, pointers) -> list[Asked]:
    """All files of the version, by parts that copy nothing."""
    found, waiting = [], [asked(row) for row in pointers]
    while waiting:
        found += waiting
        rows = Part(FULL, None, catalog.store).visit([one for one in waiting if one.is_node])
        waiting = [asked(row) for row in rows if row.what == POINTER]
    return found


def test_each_file_is_read_and_written_once_and_read_back(catalog, pointers):
    files = all_below(catalog, pointers)
    source, dest = CountingStore(catalog.store), CountingStore(MemoryStore("dest"))
    rows = list(Part(FULL, source, dest, copying=True).visit(files))
    assert Counter(row.what for row in rows)[FILE] == len(files) > 40
    assert not [row for row in rows if row.code]
    for one in files:
        assert source.of(one.path, "read", "read_many") == 1
        assert dest.of(one.path, "create", "create_many") == 1
        assert dest.of(one.path, "read", "read_many") == 1
        assert dest.read(one.path) == catalog.store.read(one.path)
    assert sum(row.size for row in rows) == sum(len(catalog.store.read(one.path)) for one in files)
    # a task that is run again finds the same, and changes nothing
    assert list(Part(FULL, source, dest, copying=True).visit(files)) == rows


def test_what_is_there_is_not_written_and_of_definitions_not_even_read(catalog, pointers):
    files = [one._replace(there=True) for one in all_below(catalog, pointers)]
    dest = MemoryStore("dest")
    dest.create_many({one.path: catalog.store.read(one.path) for one in files})
    source, target = CountingStore(catalog.store), CountingStore(dest)
    rows = list(Part(FULL, source, target, copying=True).visit(files))
    assert not [row for row in rows if row.code]
    assert target.paths("create", "create_many") == []
    assert set(source.paths("read", "read_many")) == {one.path for one in files if one.is_node}
    assert Counter(target.paths("read_many")) == Counter(one.path for one in files)


def test_what_is_there_and_is_another_file_is_no_copy(catalog, pointers):
    """Not even when it is whole."""
    child = asked(next(row for row in pointers if row.is_node), there=True)
    dest = MemoryStore("dest")
    for data, reason in ((encode_node(Node((), ()), 1), "it is not what the catalog has"), (b"", "it is empty")):
        dest.overwrite(child.path, data)
        rows = list(Part(FULL, catalog.store, dest, copying=True).visit([child]))
        assert [(row.path, row.reason, row.of_copy) for row in rows if row.code] == [(child.path, reason, True)]
        assert dest.read(child.path) == data


def test_what_is_shared_and_what_is_replaced_is_read_and_not_copied(catalog, pointers):
    files = all_below(catalog, pointers)
    dest = MemoryStore("dest")
    rows = list(Part(MINIMAL, catalog.store, dest, copying=True).visit(files))
    assert not any(row.copied for row in rows if row.what == FILE)
    assert list(dest.list()) == []
    replaced = catalog.snapshot().root.catalog_def
    rows = list(Part(FULL, catalog.store, dest, copying=True, replaced=replaced).visit(files))
    assert sum(not row.copied for row in rows if row.what == FILE) == 1
    assert {file.path for file in dest.list()} == {one.path for one in files} - {replaced}


def test_in_portions_of_so_many_files_and_bytes(catalog, pointers, monkeypatch):
    files = all_below(catalog, pointers)
    for name, value, number in (("FILES_AT_ONCE", 7, -(-len(files) // 7)), ("BYTES_AT_ONCE", 1, len(files))):
        with monkeypatch.context() as patch:
            patch.setattr(export_part, name, value)
            dest = CountingStore(MemoryStore("dest"))
            list(Part(FULL, catalog.store, dest, copying=True).visit(files))
            assert dest.calls["create_many"] == number


def test_a_second_pointer_is_named_and_not_followed(catalog, pointers):
    source = CountingStore(catalog.store)
    child = next(row for row in pointers if row.is_node)
    [row] = Part(FULL, source, MemoryStore("dest"), copying=True).visit([asked(child, second=True)])
    assert (row.what, row.code, row.path, row.level, row.at) == (WRONG, "F214", child.holder, 1, child.at)
    assert child.path in row.reason
    assert source.paths("read", "read_many") == []


class Unclear(WrappedStore):
    def create_many(self, files):
        raise OutcomeUnknown("no answer")


def test_a_write_that_may_not_have_happened_is_told(catalog, pointers):
    """And is no failure of the task: doing it again would tell nothing new."""
    files = [asked(row) for row in pointers]
    rows = list(Part(FULL, catalog.store, Unclear(MemoryStore("dest")), copying=True).visit(files))
    assert [(row.code, row.reason, row.of_copy) for row in rows if row.code] == [("OutcomeUnknown", "no answer", False)]


class Failing(WrappedStore):
    def __init__(self, store, error):
        super().__init__(store)
        self.error = error

    def read_many(self, paths):
        return ((path, self.error) for path in paths)


def test_a_store_that_is_ill(catalog, pointers):
    files = [one for one in all_below(catalog, pointers) if not one.is_node]
    few, many = files[: FAILURES_IN_A_ROW - 1], files[:FAILURES_IN_A_ROW]
    assert len(many) == FAILURES_IN_A_ROW
    ill = Failing(catalog.store, StorageFailed("an i/o error"))
    for copying in (True, False):
        part = Part(FULL, ill, ill, copying=copying)
        assert {row.code for row in part.visit(few)} == {"F205"}
        with pytest.raises(StorageFailed):
            list(part.visit(many))
    with pytest.raises(StorageDenied):
        list(Part(FULL, None, Failing(catalog.store, StorageDenied("no"))).visit(few[:1]))
    # what was written and cannot be read back is told as well, up to as many
    back = Part(FULL, catalog.store, ill, copying=True)
    assert {(row.code, row.of_copy) for row in back.visit(few) if row.code} == {("F205", True)}
