"""Catalogs of the Java SDK: read in full, never written."""

import os
from itertools import pairwise

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author, commit
from olympia_cli.catalog.lineage import tree_changes
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import (
    CatalogExists,
    Damaged,
    NamespaceNotFound,
    TableNotFound,
    Unsupported,
    VersionNotFound,
    ViewNotFound,
)
from olympia_cli.names import Ago, AtTime, AtVersion, Kind, Latest, NamespaceName, Oldest, TableName, ViewName
from olympia_cli.storage.local import LocalStore
from tests.helpers.clock import FakeClock
from tests.helpers.java_catalog import EMOJI, JavaCatalog, key, pointing, sample, tombstone

COUNTINGS = ["keys", "rows", "over"]
KINDS = {"namespace": NamespaceName, "table": TableName, "view": ViewName}


def contents(snapshot):
    return {
        "namespace": [(name.namespace,) for name in snapshot.namespaces()],
        "table": [(name.namespace, name.name) for name in snapshot.tables()],
        "view": [(name.namespace, name.name) for name in snapshot.views()],
    }


def read_all(snapshot):
    for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW):
        list(snapshot.objects(kind))
    contents(snapshot)


def everything_below(folder):
    return {
        os.path.join(at, name): (open(os.path.join(at, name), "rb").read(), os.stat(os.path.join(at, name)).st_mtime_ns)
        for at, _, names in os.walk(folder)
        for name in names
    }


@pytest.fixture(params=COUNTINGS)
def expected(request, tmp_path):
    return sample(tmp_path, request.param)


@pytest.fixture
def catalog(expected, tmp_path):
    return Catalog.open(LocalStore(tmp_path), FakeClock(6_000))


class TestReading:
    def test_the_latest_version_opens(self, catalog):
        snapshot = catalog.snapshot()
        assert snapshot.version == 3
        assert snapshot.created_at_millis == 5_000
        assert snapshot.definition.order == 128
        assert snapshot.root.previous_root == "vn/01" + "0" * 62

    def test_every_version_lists_its_objects(self, catalog, expected):
        assert {version: contents(catalog.snapshot(AtVersion(version))) for version in expected} == expected

    def test_namespaces_are_listed_apart(self, catalog):
        snapshot = catalog.snapshot()
        assert [name.name for name in snapshot.tables("a")] == ["t1"]
        assert [name.name for name in snapshot.tables("ab")] == ["t1"]
        assert [name.name for name in snapshot.tables(EMOJI)] == ["é漢"]
        assert [name.name for name in snapshot.views("ab")] == []
        with pytest.raises(NamespaceNotFound):
            snapshot.tables("b")

    def test_every_object_is_found_with_its_definition(self, catalog, expected):
        for version, kinds in expected.items():
            snapshot = catalog.snapshot(AtVersion(version))
            for kind, names in kinds.items():
                for name in names:
                    found = snapshot.get(KINDS[kind](*name))
                    assert found.id == "id of " + ".".join(name)
                    assert found.path.endswith("-" + "-".join(name) + ".binpb")

    def test_definitions_are_read_field_by_field(self, catalog):
        snapshot = catalog.snapshot()
        assert snapshot.namespace(NamespaceName("a")).properties == {"owner": "me"}
        assert snapshot.table(TableName("a", "t1")).definition.iceberg_metadata_location == "s3://b/t1.json"
        assert snapshot.view(ViewName(EMOJI, EMOJI)).definition.default_namespace_name == EMOJI
        objects = {kind: [found.id for found in snapshot.objects(kind)] for kind in (Kind.TABLE, Kind.VIEW)}
        assert objects[Kind.TABLE] == ["id of a.t1", "id of ab.t1", f"id of {EMOJI}.é漢"]
        assert objects[Kind.VIEW] == ["id of a.v1", f"id of {EMOJI}.{EMOJI}"]

    def test_dropped_objects_are_gone(self, catalog):
        snapshot = catalog.snapshot()
        for name in (TableName("a", "t2"), TableName("a", "u")):
            assert snapshot.find(name) is None
            with pytest.raises(TableNotFound):
                snapshot.table(name)

    @pytest.mark.parametrize("name", ["", "0", "A", "a", "aa", "zz", EMOJI + "x", "\uffff", "\U0010ffff"], ids=ascii)
    def test_names_below_a_missing_pointer_are_not_found(self, catalog, name):
        snapshot = catalog.snapshot()
        assert snapshot.find(TableName("ab", "t2" + name)) is None
        assert snapshot.find(NamespaceName("aa" + name)) is None
        with pytest.raises(ViewNotFound):
            snapshot.view(ViewName("ab", "x" + name))

    def test_versions_of_the_java_sdk_have_no_actions(self, catalog):
        assert [catalog.snapshot(AtVersion(version)).actions() for version in range(4)] == [()] * 4

    def test_changes_of_a_version_are_derived_from_its_tree(self, catalog):
        versions = [catalog.snapshot(AtVersion(version)) for version in range(4)]
        done = [
            {(action.type_name, action.name) for action in tree_changes(before, after)}
            for before, after in pairwise(versions)
        ]
        assert done == [
            {("NAMESPACE_CREATE", NamespaceName("a"))},
            {("TABLE_CREATE", TableName("a", "t1")), ("TABLE_CREATE", TableName("a", "t2"))},
            {
                ("NAMESPACE_CREATE", NamespaceName("ab")),
                ("NAMESPACE_CREATE", NamespaceName(EMOJI)),
                ("TABLE_DROP", TableName("a", "t2")),
                ("TABLE_CREATE", TableName("ab", "t1")),
                ("TABLE_CREATE", TableName(EMOJI, "é漢")),
                ("VIEW_CREATE", ViewName("a", "v1")),
                ("VIEW_CREATE", ViewName(EMOJI, EMOJI)),
            },
        ]

    @pytest.mark.parametrize("hint", [None, b"", b"0", b"2", b"3\n", b"4", b"1000000", b"-1", b"garbage", b"9" * 40])
    def test_the_hint_may_be_missing_wrong_or_garbage(self, tmp_path, hint):
        sample(tmp_path)
        if hint is None:
            (tmp_path / "vn" / "latest").unlink()
        else:
            (tmp_path / "vn" / "latest").write_bytes(hint)
        assert Catalog.open(LocalStore(tmp_path)).snapshot().version == 3


class TestTimes:
    """Versions 0 to 3 were created at 1000, 3000, 2000 and 5000: the clock of the writer ran back."""

    @pytest.mark.parametrize(
        ("millis", "version"),
        [(1_000, 0), (1_999, 0), (2_000, 2), (2_999, 2), (3_000, 2), (4_999, 2), (5_000, 3), (10**15, 3)],
    )
    def test_a_time_means_the_newest_version_at_or_before_it(self, catalog, millis, version):
        assert catalog.snapshot(AtTime(millis)).version == version

    def test_a_time_before_all_versions_is_an_error(self, catalog):
        with pytest.raises(VersionNotFound):
            catalog.snapshot(AtTime(999))

    def test_the_oldest_version_may_be_younger_than_the_one_meant(self, tmp_path):
        java = JavaCatalog(tmp_path)
        for millis in (3_000, 1_000, 5_000):
            java.commit(millis)
        catalog = Catalog.open(LocalStore(tmp_path))
        assert catalog.snapshot(AtTime(1_500)).version == 1
        with pytest.raises(VersionNotFound):
            catalog.snapshot(AtTime(999))

    def test_other_references(self, catalog):
        assert catalog.snapshot(Latest(1)).version == 2
        assert catalog.snapshot(Oldest()).version == 0
        assert catalog.snapshot(Ago(3_500)).version == 2
        for reference in (AtVersion(4), AtVersion(2**40), Latest(4)):
            with pytest.raises(VersionNotFound):
                catalog.snapshot(reference)


class TestOrder:
    """Java sorts by UTF-16 units, in which an emoji comes before U+FF21."""

    WIDE = "Ａ"

    def test_a_leaf_sorted_the_java_way_is_read(self, tmp_path):
        java = JavaCatalog(tmp_path)
        java.commit(1, [java.namespace("a"), java.namespace(EMOJI[-1]), java.namespace(self.WIDE)])
        snapshot = Catalog.open(LocalStore(tmp_path)).snapshot()
        names = ["a", EMOJI[-1], self.WIDE]
        assert [name.namespace for name in snapshot.namespaces()] == names
        assert [snapshot.namespace(NamespaceName(name)).id for name in names] == [f"id of {name}" for name in names]

    def test_a_deeper_tree_sorted_the_java_way_is_read(self, tmp_path):
        java = JavaCatalog(tmp_path)
        names = ["a", EMOJI[-1], self.WIDE]
        rows = [java.namespace(name) for name in names]
        java.commit(1, [pointing(rows[1], java.node(rows[2:]))], leftmost=java.node(rows[:1]))
        snapshot = Catalog.open(LocalStore(tmp_path)).snapshot()
        # an error would be a pity; that the object does not exist would be a wrong answer
        assert [name for name in names if snapshot.find(NamespaceName(name)) is None] == []
        assert sorted(name.namespace for name in snapshot.namespaces()) == sorted(names)


class TestDamage:
    def test_keys_padded_by_bytes_are_damage_here(self, tmp_path):
        java = JavaCatalog(tmp_path)
        _, path, _ = java.namespace("é")
        java.commit(1, [("B===é" + " " * 14, path, None)])
        with pytest.raises(Damaged):
            list(Catalog.open(LocalStore(tmp_path)).snapshot().namespaces())

    def test_a_duplicate_key_is_damage(self, tmp_path):
        java = JavaCatalog(tmp_path)
        row = java.namespace("a")
        java.commit(1, [row, tombstone(row)])
        with pytest.raises(Damaged, match="not in order"):
            Catalog.open(LocalStore(tmp_path))

    @pytest.mark.parametrize("what", ["node", "def/ns", "def/catalog"])
    def test_missing_files_are_named(self, tmp_path, what):
        sample(tmp_path)
        for file in (tmp_path / what).iterdir():
            file.unlink()
        with pytest.raises(Damaged) as caught:
            read_all(Catalog.open(LocalStore(tmp_path)).snapshot())
        assert caught.value.path.startswith(what)


class TestWriting:
    def test_a_transaction_cannot_begin(self, catalog):
        with pytest.raises(Unsupported, match="import this one") as caught:
            catalog.begin()
        assert caught.value.exit_code == 41

    def test_nor_be_committed(self, catalog):
        transaction = Transaction(catalog.snapshot(), catalog.clock)
        transaction.create_namespace(NamespaceName("n"))
        with pytest.raises(Unsupported, match="import this one"):
            commit(transaction, Author())

    def test_no_catalog_is_created_in_its_place(self, catalog):
        with pytest.raises(CatalogExists):
            Catalog.create(catalog.store)

    def test_reads_and_refused_operations_write_nothing(self, expected, tmp_path):
        before = everything_below(tmp_path)
        catalog = Catalog.open(LocalStore(tmp_path))
        for version in expected:
            read_all(catalog.snapshot(AtVersion(version)))
        catalog.snapshot(AtTime(2_500))
        for refused in (catalog.begin, lambda: Catalog.create(catalog.store)):
            with pytest.raises((Unsupported, CatalogExists)):
                refused()
        catalog.store.close()
        assert everything_below(tmp_path) == before


def test_the_builder_pads_by_utf_16_units():
    assert key("namespace", "\U0001f600") == "B===\U0001f600" + " " * 14
    assert key("table", "a", "é") == "C===a" + " " * 15 + "é" + " " * 15
