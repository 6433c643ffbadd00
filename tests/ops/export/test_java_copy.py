"""A copy for the Java SDK is laid out as the SDK's own catalogs are."""

import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, LocationNotEmpty, StorageFailed
from olympia_cli.format.codec import decode_node, encode_node
from olympia_cli.format.node import Node
from olympia_cli.importers.olympia import import_catalog
from olympia_cli.names import AtVersion, Kind, NamespaceName, TableName
from olympia_cli.ops.export.java_copy import create_java_copy
from olympia_cli.ops.fsck import Level
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.fsck import fsck
from tests.helpers.java_catalog import key, root_name
from tests.helpers.sdk_catalogs import BULK, SMALL, unpack
from tests.helpers.stores import CuttingStore, PowerCut, WrappedStore

WIDE = ["a", "\U0001f600", "Ａ", "été"]
"""In the order of UTF-16 units."""


def rows(store, path):
    """The rows of a file that has one uncompressed batch and the SDK's columns."""
    data = store.read(path)
    reader = pa.ipc.open_file(pa.py_buffer(data))
    assert reader.schema.equals(pa.schema([(name, pa.string()) for name in ("key", "value", "pnode")]))
    assert not reader.schema.metadata
    assert reader.num_record_batches == 1
    batch = reader.get_batch(0)
    # compressed buffers would be smaller than what they hold
    assert len(data) > batch.nbytes
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def keys_below(store, path):
    """All keys with their values, from left to right."""
    found = rows(store, path)
    start = next(at for at, row in enumerate(found) if row[0] is None)
    for name, value, child in found[start:]:
        if name is not None:
            yield name, value
        if child is not None:
            yield from keys_below(store, child)


def brought(name, folder):
    """A catalog of the SDK's in one of ours, and what the SDK says of its latest version."""
    there, expected = unpack(name, folder)
    source, here = Catalog(LocalStore(str(there))), Catalog.create(MemoryStore())

    def commit(bring, about):
        transaction = here.begin()
        return bring(transaction), here.commit(transaction, about).version

    import_catalog(source, source.snapshot(), None, False, here, commit)
    return here, expected["versions"][-1]


@pytest.mark.parametrize("name", [SMALL, BULK])
def test_it_comes_back_as_the_sdk_had_it(name, tmp_path):
    here, expected = brought(name, tmp_path)
    dest = MemoryStore()
    create_java_copy(here, dest, "copy")
    assert dest.read("vn/latest") == b"1"
    assert rows(dest, root_name(0))[-1] == (None, None, None)
    system = [row[0] for row in rows(dest, root_name(1))][:4]
    assert system == ["created_at_millis", "n_keys", "catalog_def", "previous_root"]
    assert rows(dest, root_name(1))[3][1] == root_name(0)
    ours = [found for found, value in keys_below(dest, root_name(1)) if value is not None]
    theirs = [found for found, value in expected["node_key_table"] if value is not None]
    # a view without a namespace was left out
    assert ours == [found for found in theirs if not found.startswith("D===gone")]
    report = fsck(dest, level=Level.FULL, all_versions=True)
    assert not report.damaged
    assert {one.code for one in report.findings} == {"F904"}


@pytest.fixture
def catalog():
    catalog = Catalog.create(
        MemoryStore(), namespace_name_max_bytes=16, table_name_max_bytes=16, view_name_max_bytes=16, order=4
    )
    with catalog.transaction() as transaction:
        for name in WIDE:
            transaction.create_namespace(NamespaceName(name), {"n": name})
            for number in range(5):
                transaction.create_table(TableName(name, f"t{number}"), "s3://b/t.json")
    with catalog.transaction() as transaction:
        transaction.drop_table(TableName("a", "t3"))
    return catalog


def test_names_are_padded_and_sorted_by_utf_16_units(catalog):
    dest = MemoryStore()
    done = create_java_copy(catalog, dest, "copy")
    found = [name for name, _ in keys_below(dest, root_name(1))]
    names = sorted(WIDE, key=lambda name: name.encode("utf-16-be"))
    wanted = [key("namespace", name) for name in names]
    wanted += [key("table", name, f"t{n}") for name in names for n in range(5) if (name, n) != ("a", 3)]
    assert found == wanted
    assert done.count.files == sum(1 for _ in dest.list()) - 1
    copy = Catalog.open(dest).snapshot()
    for kind in (Kind.NAMESPACE, Kind.TABLE):
        there = {one.name: one.definition for one in catalog.snapshot().objects(kind)}
        assert {one.name: one.definition for one in copy.objects(kind)} == there


def test_an_older_version_and_its_definition(catalog):
    with catalog.transaction() as transaction:
        transaction.alter_catalog({"owner": "me"})
    dest = MemoryStore()
    assert create_java_copy(catalog, dest, "copy", at=AtVersion(1)).at_version == 1
    copy = Catalog.open(dest).snapshot()
    assert copy.find(TableName("a", "t3")) is not None
    assert dict(copy.definition.properties) == {}
    assert copy.definition.id == catalog.snapshot().definition.id


def test_a_damaged_catalog_or_used_destination_is_refused(catalog):
    dest = MemoryStore()
    create_java_copy(catalog, dest, "copy")
    with pytest.raises(LocationNotEmpty):
        create_java_copy(catalog, dest, "copy")
    path = catalog.snapshot().find(TableName("a", "t0"))
    catalog.store.delete_many([path])
    with pytest.raises(Damaged) as caught:
        create_java_copy(Catalog(catalog.store), MemoryStore(), "copy")
    assert caught.value.path == path


def test_a_subtree_that_fell_away_is_not_passed_over(catalog):
    """Each file that is left is whole, and a scan says nothing of what is not there."""
    root = catalog.snapshot().root
    inner = decode_node(catalog.store.read(root.node.children[0]), root.node.children[0]).node
    catalog.store.overwrite(root.node.children[0], encode_node(Node((), (), inner.children[:1]), 1))
    report = fsck(catalog.store, level=Level.FULL)
    dest = MemoryStore()
    with pytest.raises(Damaged) as caught:
        create_java_copy(Catalog(catalog.store), dest, "copy")
    assert (caught.value.code, caught.value.path) in {(one.code, one.path) for one in report.findings}
    assert not list(dest.list())


def test_a_store_that_fails_is_not_damage(catalog):
    class Failing(WrappedStore):
        def read_many(self, paths):
            for path, data in super().read_many(paths):
                yield path, StorageFailed("an i/o error") if path.startswith("def/table/") else data

    dest = MemoryStore()
    with pytest.raises(StorageFailed, match="an i/o error"):
        create_java_copy(Catalog(Failing(catalog.store)), dest, "copy")
    assert not list(dest.list())


@pytest.mark.parametrize("name", [SMALL, BULK])
def test_a_catalog_of_the_sdk_s_is_copied_too(name, tmp_path):
    there, _ = unpack(name, tmp_path)
    source, dest = Catalog(LocalStore(str(there))), MemoryStore()
    create_java_copy(source, dest, "copy")
    assert not fsck(dest, level=Level.FULL, all_versions=True).damaged
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW):
        assert list(Catalog(dest).snapshot().scan(kind)) == list(source.snapshot().scan(kind))


def test_interrupted_java_copy_is_no_catalog_for_the_sdk(catalog):
    """The SDK asks for version 0, which is written last."""
    whole = MemoryStore()
    create_java_copy(catalog, whole, "copy")
    writes = sum(1 for _ in whole.list())
    for number in range(1, writes):
        files = MemoryStore()
        with pytest.raises((PowerCut, StorageFailed)):
            create_java_copy(catalog, CuttingStore(files, number), "copy")
        assert not files.exists(root_name(0))
