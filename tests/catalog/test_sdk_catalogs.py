"""Our reading of catalogs that the Java SDK wrote equals the SDK's own, version by version."""

import pytest
from google.protobuf.json_format import MessageToDict

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.java_transactions import saved_by_java
from olympia_cli.errors import Damaged
from olympia_cli.names import AtVersion, Kind, TableName, as_found
from olympia_cli.ops.fsck import Level, Severity
from olympia_cli.ops.inspect import log_between
from olympia_cli.storage.local import LocalStore
from tests.helpers.clock import HOUR, FakeClock
from tests.helpers.fsck import fsck
from tests.helpers.java_catalog import JavaCatalog, pointing
from tests.helpers.sdk_catalogs import NAMES, ODD, SMALL, TXN, unpack


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("java")
    return {name: unpack(name, folder) for name in NAMES}


@pytest.fixture
def open_catalog(unpacked):
    return lambda name: Catalog.open(LocalStore(str(unpacked[name][0])))


def saved_at(catalog):
    """Return the time of the latest version: transactions of the Java SDK end some days after their beginning."""
    return catalog.snapshot().created_at_millis


def told(definition):
    return MessageToDict(definition, preserving_proto_field_name=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_version_holds_the_objects_that_the_sdk_lists(unpacked, open_catalog, name):
    catalog, expected = open_catalog(name), unpacked[name][1]
    assert catalog.snapshot().version == expected["latest"]
    for version in expected["versions"]:
        snapshot = catalog.snapshot(AtVersion(version["version"]))
        namespaces = sorted(one.namespace for one in snapshot.namespaces())
        assert namespaces == sorted(version["show_namespaces"])
        for namespace in namespaces:
            assert sorted(one.name for one in snapshot.tables(namespace)) == sorted(version["show_tables"][namespace])
            assert sorted(one.name for one in snapshot.views(namespace)) == sorted(version["show_views"][namespace])
        # the SDK's own lookups miss a few names; those that it finds have the same definitions here
        for kind, shown in ((Kind.NAMESPACE, "namespaces"), (Kind.TABLE, "tables"), (Kind.VIEW, "views")):
            objects = {one.name: one.definition for one in snapshot.objects(kind)}
            for key, definition in version[shown].items():
                assert told(objects[as_found(kind, *key.split("\0"))]) == definition
            for found, definition in objects.items():
                assert snapshot.get(found).definition == definition


def test_only_views_of_dropped_namespaces_exceed_the_sdk_listing(unpacked, open_catalog):
    """A drop of a namespace leaves its views: they are there, and no namespace shows them."""
    views = {str(view) for view in open_catalog(SMALL).snapshot().views()}
    shown = unpacked[SMALL][1]["versions"][-1]["show_views"]
    assert views - {f"{namespace}.{view}" for namespace, names in shown.items() for view in names} == {"gone.gv"}


@pytest.mark.parametrize("name", NAMES)
def test_fsck_finds_them_sound_and_advises_nothing_that_is_refused(open_catalog, name):
    report = fsck(open_catalog(name).store, level=Level.FULL, all_versions=True)
    assert {one.severity for one in report.findings} <= {Severity.INFO}
    assert [one.hint for one in report.findings if one.hint] == []
    assert not any("expire " in one.message for one in report.findings)
    codes = {one.code for one in report.findings}
    assert codes <= {"F901", "F904", "F907", "F908"}
    assert ("F908" in codes) == (name == SMALL)


def test_a_live_transaction_holds_its_files(open_catalog):
    while_one_is_open = FakeClock(wall=saved_at(open_catalog(TXN)) + HOUR)
    report = fsck(open_catalog(TXN).store, level=Level.FULL, all_versions=True, clock=while_one_is_open)
    orphans = {one.path for one in report.findings if one.code == "F901"}
    # the running root of the one that is over
    assert orphans == {"node/bfb674d3-e2b2-497e-8bb3-d5bc50efde39.arrow"} | {
        path for path in orphans if path.startswith("def/")
    }
    assert not any("staged" in path for path in orphans)
    assert report.checked["transactions"] == 3


def test_transactions_are_read(open_catalog):
    found = {saved.id: saved for saved in saved_by_java(open_catalog(TXN).store)}
    assert {id: saved.began_at_version for id, saved in found.items()} == {
        "txn-committed": 2,
        "txn-expired": 1,
        "txn-open": 1,
    }


def test_log_entries_of_sdk_versions_come_from_tree_differences(open_catalog):
    entries = {entry.version: entry for entry in log_between(open_catalog(SMALL), None, None)}
    assert not any(entry.unreadable for entry in entries.values())

    def done(version):
        return [(action.type_name, str(action.name)) for action in entries[version].changes]

    assert done(0) == [("CATALOG_CREATE", "None")]
    assert done(24) == [("TABLE_ALTER", "sales.t0")]
    assert done(27) == [("TABLE_RENAME", "hr.t4")]
    assert done(28) == [("TABLE_DROP", "ops.t2"), ("TABLE_DROP", "sales.t3")]
    assert done(32) == [("NAMESPACE_DROP", "gone"), ("TABLE_DROP", "gone.x")]
    assert done(33) == []


class TestKeysThatAreThereTwice:
    """On trees of two levels the SDK can move a key up and leave it, and those behind it, below."""

    @pytest.fixture
    def snapshot(self, tmp_path):
        java = JavaCatalog(tmp_path)
        namespace, rows = java.namespace("n"), [java.table("n", f"t{number}") for number in range(4)]
        moved = java.table("n", "t1")
        below = java.node(rows)
        java.commit(1, [pointing(namespace, below), pointing(moved, None)], leftmost=None)
        return Catalog.open(LocalStore(tmp_path)).snapshot()

    def test_a_list_and_a_look_say_the_same(self, snapshot):
        with pytest.raises(Damaged) as listed:
            list(snapshot.tables())
        for name in ("t0", "t1", "t2", "t3", "none"):
            with pytest.raises(Damaged) as shown:
                snapshot.find(TableName("n", name))
            assert (shown.value.code, shown.value.path) == (listed.value.code, listed.value.path)


def test_odd_names_are_those_of_the_keys(open_catalog):
    tables = {(one.namespace, one.name) for one in open_catalog(ODD).snapshot().tables()}
    for name in ("my table", "new\nline", "tab\there", "back\\slash", "s3://x/y"):
        assert ("plain", name) in tables
