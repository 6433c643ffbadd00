"""Each kind of bad input gets an error of its own that names what is wrong, and leaves the catalog as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import (
    CatalogExists,
    CatalogNotFound,
    Damaged,
    ExclusiveCreateUnsupported,
    InvalidLocation,
    InvalidName,
    InvalidOption,
    LocationNotEmpty,
    NamespaceNotFound,
    OlympiaError,
    PathOutside,
    StorageDenied,
    StorageFailed,
    StorageFull,
    TableNotFound,
    Unsupported,
)
from olympia_cli.format import definitions
from olympia_cli.format.codec import decode_root, encode_root
from olympia_cli.format.node import Node, Root
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.open import open_store
from olympia_cli.storage.s3 import S3Store
from tests.helpers.check import check_catalog
from tests.helpers.in_place import as_ordinary_user, read_only
from tests.helpers.stores import WrappedStore

A, T = NamespaceName("a"), TableName("a", "t")


@pytest.fixture
def folder(tmp_path):
    catalog = Catalog.create(LocalStore(tmp_path / "catalog"), order=8)
    with catalog.transaction() as transaction:
        transaction.create_namespace(A)
        for number in range(20):
            transaction.create_table(TableName("a", f"t{number}"), "s3://x")
    return tmp_path / "catalog"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_all(folder: Path) -> Damaged | None:
    try:
        snapshot = Catalog(LocalStore(folder)).snapshot()
        for kind in (Kind.NAMESPACE, Kind.TABLE):
            list(snapshot.objects(kind))
    except Damaged as damaged:
        return damaged
    return None


class TestLocations:
    def test_opening_a_missing_folder_reports_no_catalog(self, tmp_path):
        with pytest.raises(CatalogNotFound, match="no catalog") as raised:
            Catalog.open(LocalStore(tmp_path / "nothing"))
        assert raised.value.exit_code == 10
        assert not (tmp_path / "nothing").exists(), "looking makes nothing"

    def test_a_folder_that_holds_something_else(self, tmp_path):
        (tmp_path / "photo.jpg").write_bytes(b"x")
        with pytest.raises(CatalogNotFound):
            Catalog.open(LocalStore(tmp_path))
        with pytest.raises(LocationNotEmpty, match=r"photo\.jpg"):
            Catalog.create(LocalStore(tmp_path))
        assert files(tmp_path) == {"photo.jpg": b"x"}

    def test_a_catalog_is_not_created_over_another(self, folder):
        before = files(folder)
        with pytest.raises(CatalogExists):
            Catalog.create(LocalStore(folder))
        assert files(folder) == before

    def test_create_succeeds_over_orphans_of_a_crashed_creation(self, tmp_path):
        store = LocalStore(tmp_path)
        store.create("def/catalog/00000000-0000-4000-8000-000000000000.binpb", b"orphan")
        Catalog.create(store)
        assert Catalog.open(store).snapshot().version == 0

    @pytest.mark.parametrize("uri", ["", "ftp://x/y", "s3://", "://", "s3:///prefix"])
    def test_a_location_that_is_none(self, uri):
        with pytest.raises(InvalidLocation) as raised:
            open_store(uri)
        assert raised.value.exit_code == 2

    def test_a_file_in_place_of_the_folder(self, tmp_path):
        (tmp_path / "file").write_bytes(b"x")
        with pytest.raises((CatalogNotFound, StorageFailed)):
            Catalog.open(LocalStore(tmp_path / "file"))

    def test_a_store_that_overwrites_is_refused(self):
        class Overwriting(WrappedStore):
            def create(self, path, data):
                self.inner.overwrite(path, data)

        store = MemoryStore()
        with pytest.raises(ExclusiveCreateUnsupported) as raised:
            Catalog.create(Overwriting(store))
        assert raised.value.exit_code == 12
        assert list(store.list()) == []


class TestNames:
    @pytest.mark.parametrize("name", ["", " ", "a b", "a\n", "\x00", "\x7f", "a\tb", "\ud800"])
    def test_illegal_names(self, name):
        with pytest.raises(InvalidName) as raised:
            NamespaceName(name)
        assert raised.value.exit_code == 2

    def test_overlong_names_by_bytes(self, folder):
        transaction = Catalog.open(LocalStore(folder)).begin()
        transaction.create_namespace(NamespaceName("é" * 50))
        for statement in (
            lambda: transaction.create_namespace(NamespaceName("é" * 51)),
            lambda: transaction.create_table(TableName("a", "x" * 101), "s3://x"),
            lambda: transaction.rename_table(TableName("a", "t1"), TableName("a", "x" * 101)),
            lambda: transaction.rename_namespace(A, NamespaceName("x" * 101)),
        ):
            with pytest.raises(InvalidName, match=r"10[12] bytes"):
                statement()
        assert len(transaction.actions) == 1

    def test_unknown_objects_name_themselves_and_the_version(self, folder):
        snapshot = Catalog.open(LocalStore(folder)).snapshot()
        with pytest.raises(TableNotFound, match=r"a\.nope in version 1"):
            snapshot.table(TableName("a", "nope"))
        with pytest.raises(NamespaceNotFound, match="nope in version 1"):
            snapshot.tables("nope")

    @pytest.mark.parametrize(
        "settings",
        [
            {"order": 2},
            {"order": 4096},
            {"namespace_name_max_bytes": 0},
            {"table_name_max_bytes": 100_000},
            {"node_file_max_bytes": 1000},
            {"txn_ttl_millis": 0},
            {"properties": {"olympia.required-features": "x"}},
        ],
    )
    def test_settings_that_make_no_catalog(self, settings):
        store = MemoryStore()
        with pytest.raises(InvalidOption) as raised:
            Catalog.create(store, **settings)
        assert raised.value.exit_code == 2
        assert list(store.list()) == []


def rewrite_catalog_definition(store, **changes):
    """Another program's catalog definition, with the root made to match."""
    snapshot = Catalog(store).snapshot()
    definition = CatalogDef()
    definition.CopyFrom(snapshot.definition)
    for name, value in changes.items():
        if name == "properties":
            definition.properties.update(value)
        else:
            setattr(definition, name, value)
    path = snapshot.root.catalog_def
    store.overwrite(path, definitions.encode(definitions.body(definition), path))


class TestFormats:
    @pytest.mark.parametrize(
        "changes", [{"major_version": 1}, {"properties": {"olympia.required-features": "write-buffer, teleport"}}]
    )
    def test_a_catalog_of_a_newer_program(self, folder, changes):
        store = LocalStore(folder)
        rewrite_catalog_definition(store, **changes)
        before = files(folder)
        catalog = Catalog(store)
        for attempt in (
            lambda: catalog.snapshot().table(TableName("a", "t1")),
            lambda: list(catalog.snapshot().namespaces()),
            lambda: catalog.begin(),
        ):
            with pytest.raises(Unsupported) as raised:
                attempt()
            assert raised.value.exit_code == 41
        assert files(folder) == before

    def test_sizes_that_the_definition_does_not_confirm(self, folder):
        store = LocalStore(folder)
        rewrite_catalog_definition(store, table_name_max_size_bytes=50)
        with pytest.raises(Damaged, match="sizes"):
            Catalog(store).snapshot().table(TableName("a", "t1"))

    @pytest.mark.parametrize("data", [b"", b"junk", b"ARROW1\0\0junk", b"ARROW1\0\0" + b"x" * 500 + b"ARROW1"])
    @pytest.mark.parametrize("kind", ["vn/1", "node/", "def/table/", "def/catalog/"])
    def test_a_damage_error_names_the_damaged_file(self, folder, kind, data):
        hit = 0
        for path in [path for path in files(folder) if path.startswith(kind)]:
            whole = (folder / path).read_bytes()
            (folder / path).write_bytes(data)
            damaged = read_all(folder)
            if damaged is not None:
                hit += 1
                assert damaged.exit_code == 40
                assert path in damaged.message
            (folder / path).write_bytes(whole)
        assert hit, "at least one of them is in use"

    @pytest.mark.parametrize("pointer", ["/etc/passwd", "../../etc/passwd", "s3://other/x", "node/../../x"])
    def test_a_pointer_that_leaves_the_prefix_is_not_followed(self, folder, pointer):
        store = LocalStore(folder)
        snapshot = Catalog(store).snapshot()
        root = decode_root(snapshot.file.data, snapshot.file.path)
        children = tuple(pointer for _ in root.node.children)
        changed = Root(
            Node(root.node.keys, root.node.values, children),
            root.catalog_def,
            root.created_at_millis,
            root_path(1),
            None,
            root.sizes,
        )
        store.create(root_path(2), encode_root(changed, []))
        opened: list[str] = []

        class Watching(WrappedStore):
            def read_many(self, paths):
                paths = list(paths)
                opened.extend(paths)
                return super().read_many(paths)

        with pytest.raises(Damaged, match="outside the catalog"):
            list(Catalog(Watching(store)).snapshot().tables())
        assert pointer not in opened

    @pytest.mark.parametrize("linked", ["node", "def", "vn"])
    def test_a_link_that_leads_outside_is_not_followed(self, folder, tmp_path, linked):
        (folder / linked).rename(tmp_path / "elsewhere")
        (folder / linked).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(PathOutside, match="outside") as raised:
            list(Catalog(LocalStore(folder)).snapshot().tables())
        assert raised.value.exit_code == 40

    def test_a_folder_that_is_itself_reached_by_a_link_is_fine(self, folder, tmp_path):
        (tmp_path / "link").symlink_to(folder)
        assert Catalog.open(LocalStore(tmp_path / "link")).snapshot().version == 1


class TestStores:
    def test_no_permission(self, folder):
        before = files(folder)

        def commit():
            try:
                with Catalog(LocalStore(folder)).transaction() as transaction:
                    transaction.create_namespace(NamespaceName("x"))
            except OlympiaError as error:
                return error.name, error.exit_code

        with read_only(folder):
            assert as_ordinary_user(folder, commit) == ("StorageDenied", 31)
        assert files(folder) == before

    @pytest.mark.parametrize("error", [StorageFull("no space left"), StorageDenied("no"), StorageFailed("cable cut")])
    @pytest.mark.parametrize("method", ["create_many", "create"])
    def test_a_store_that_fails_while_committing(self, error, method):
        class Failing(WrappedStore):
            failing = False

        def fail(self, *args):
            if self.failing:
                raise error
            return getattr(self.inner, method)(*args)

        setattr(Failing, method, fail)
        store = Failing(MemoryStore())
        catalog = Catalog.create(store)
        transaction = catalog.begin()
        transaction.create_namespace(A)
        store.failing = True
        with pytest.raises(type(error)) as raised:
            catalog.commit(transaction)
        assert raised.value is error
        store.failing = False
        check_catalog(store.inner)
        assert catalog.snapshot().version == 0
        assert catalog.commit(transaction).version == 1, "the same transaction can be committed once the store is back"

    def test_an_endpoint_without_a_listener_is_a_storage_failure(self):
        options = {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s", "region": "us-east-1"}
        with pytest.raises(StorageFailed) as raised:
            Catalog.open(S3Store("bucket", "catalog", options, time_allowed=1.0))
        assert raised.value.exit_code == 30
        assert "127.0.0.1:9" in str(raised.value)
