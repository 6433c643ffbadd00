"""Exporting a version: what is copied, what is shared, what is recorded, and what is refused."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import find_export, location_of, read_exports, root_uri
from olympia_cli.errors import (
    Damaged,
    ExportExists,
    ExportNotFound,
    InvalidLocation,
    InvalidName,
    InvalidOption,
    LocationNotEmpty,
    PathTaken,
    TransactionExpired,
    Unsupported,
    VersionNotFound,
)
from olympia_cli.format.codec import decode_root
from olympia_cli.format.definitions import body
from olympia_cli.format.paths import EXPORT_NOTE, LATEST, OLDEST, FileKind, file_kind, root_path
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import AtExport, AtVersion, Latest, Oldest
from olympia_cli.ops.export import export as export_copy
from olympia_cli.ops.export import files as export_files
from olympia_cli.ops.export.export import create_export, resume_export
from olympia_cli.ops.export.files import Mode, read_note, scope
from olympia_cli.ops.export.records import check_apart, plan_deletion
from olympia_cli.ops.fsck import Level
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers import java_catalog
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.check import check_catalog, check_versions, replay
from tests.helpers.clock import DAY, HOUR, FakeClock
from tests.helpers.damage import rewrite_raw
from tests.helpers.damage_sample import older_definitions
from tests.helpers.expire import mark
from tests.helpers.exports import EXOTIC, contents, files, make_catalog, own_files
from tests.helpers.fsck import fsck, nodes_of
from tests.helpers.names import ns
from tests.helpers.reach import reach_of
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut, WrappedStore

FULL, MINIMAL = scope(Mode.FULL), scope(Mode.MINIMAL)
NODES = scope(Mode.PARTIAL, None, definitions=False)
TWO_LEVELS = scope(Mode.PARTIAL, 2)
SCOPES = {"full": FULL, "minimal": MINIMAL, "nodes": NODES, "two levels": TWO_LEVELS}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def catalog(clock):
    return make_catalog(clock=clock)


@pytest.fixture
def dest():
    return MemoryStore("dest")


def reached(catalog, version) -> set[str]:
    file = catalog.snapshot(AtVersion(version)).file
    found = reach_of(catalog.store)
    return {path for paths in found.each([(file.path, file.data)]) for path in paths}


class TestFull:
    def test_is_a_catalog_of_its_own_with_the_same_version(self, catalog, dest, clock):
        before = contents(catalog)
        done = create_export(catalog, dest, "friday", FULL)
        copy = Catalog.open(dest, clock)
        assert copy.snapshot().version == 3
        assert contents(copy) == before
        assert copy.snapshot(Oldest()).version == 3
        assert (dest.read(LATEST), dest.read(OLDEST)) == (b"3", b"3")
        check_catalog(dest)
        assert done.version == catalog.snapshot().version == 4

    def test_passes_fsck(self, catalog, dest):
        """Whatever its catalog has been through, and so does the catalog that it was made of."""
        create_export(catalog, dest, "friday", FULL)
        create_export(catalog, pinned := MemoryStore("pinned"), "pinned", MINIMAL)
        mark(catalog, 2)
        create_export(catalog, other := MemoryStore("other"), "saturday", FULL)
        for store in (dest, other):
            assert fsck(store, level=Level.FULL, all_versions=True).findings == ()
        assert not fsck(catalog.store, level=Level.FULL, all_versions=True).damaged
        assert files(pinned)

    def test_is_the_version_byte_for_byte(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL, at=AtVersion(2))
        assert own_files(dest) == {path: catalog.store.read(path) for path in reached(catalog, 2)}

    def test_an_export_counts_its_files_and_bytes(self, catalog, dest):
        done = create_export(catalog, dest, "friday", FULL)
        assert done.count.files == len(own_files(dest))
        assert done.count.bytes == sum(map(len, own_files(dest).values()))

    def test_can_be_written_to(self, catalog, dest, clock):
        create_export(catalog, dest, "friday", FULL)
        copy = Catalog(dest, clock)
        with copy.transaction() as transaction:
            transaction.create_namespace(ns("new"))
        assert copy.snapshot().version == 4
        check_catalog(dest)
        replay(dest)

    def test_knows_nothing_of_the_exports_and_the_expires_of_its_catalog(self, catalog, dest, clock):
        create_export(catalog, MemoryStore("pins"), "pins", MINIMAL)
        mark(catalog, 2)
        latest = catalog.snapshot()
        create_export(catalog, dest, "friday", FULL)
        copy = Catalog.open(dest, clock).snapshot()
        definition, expected = copy.definition, latest.definition
        expected.ClearField("exported_snapshots")
        for key in list(expected.properties):
            del expected.properties[key]
        expected.ClearField("integrity")
        definition.ClearField("integrity")
        assert definition == expected
        # the root says where that definition is, and is otherwise the same
        assert replace(copy.root, catalog_def=latest.root.catalog_def) == latest.root
        assert copy.actions() == latest.actions()
        assert check_versions(dest)[0].number == latest.version
        assert copy.file.path == root_path(latest.version)
        assert latest.root.catalog_def not in files(dest)

    def test_of_version_0(self, catalog, dest):
        create_export(catalog, dest, "empty", FULL, at=AtVersion(0))
        assert Catalog.open(dest).snapshot().version == 0
        check_catalog(dest)

    def test_the_note_is_a_file_of_the_format(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        assert {file_kind(path) for path in files(dest)} == {
            FileKind.ROOT,
            FileKind.HINT,
            FileKind.NODE,
            FileKind.DEFINITION,
            FileKind.OPERATION,
        }


class TestSharing:
    def test_minimal_is_the_root_alone(self, catalog, dest):
        done = create_export(catalog, dest, "friday", MINIMAL)
        assert set(files(dest)) == {EXPORT_NOTE, root_path(3)}
        assert dest.read(root_path(3)) == catalog.store.read(root_path(3))
        assert done.count.files == 1

    def test_partial_without_definitions(self, catalog, dest):
        create_export(catalog, dest, "friday", NODES)
        expected = {path for path in reached(catalog, 3) if file_kind(path) is not FileKind.DEFINITION}
        assert set(own_files(dest)) == expected
        assert len(expected) > 5

    def test_partial_to_a_depth(self, catalog, dest):
        create_export(catalog, dest, "friday", TWO_LEVELS)
        root = catalog.snapshot(AtVersion(3)).root
        nodes = {path for path in own_files(dest) if path.startswith("node/")}
        assert nodes == set(root.node.children)
        named = {root.catalog_def, *root.node.values}
        for path in nodes:
            named |= set(catalog.snapshot().reader.node(path).values)
        assert {path for path in own_files(dest) if path.startswith("def/")} == named

    def test_a_depth_beyond_the_tree_is_all_of_it(self, catalog, dest):
        create_export(catalog, dest, "friday", scope(Mode.PARTIAL, 60))
        assert set(own_files(dest)) == reached(catalog, 3)

    @pytest.mark.parametrize("name", ["minimal", "nodes", "two levels"])
    def test_the_pin_is_a_copy_of_the_root(self, catalog, dest, name):
        create_export(catalog, dest, "friday", SCOPES[name])
        record = read_exports(catalog.snapshot().definition)["friday"]
        assert file_kind(record.pin) is FileKind.NODE
        assert catalog.store.read(record.pin) == catalog.store.read(root_path(3))
        check_catalog(catalog.store)
        replay(catalog.store)

    def test_a_full_export_pins_nothing(self, catalog, dest):
        before = set(files(catalog.store))
        create_export(catalog, dest, "friday", FULL)
        assert read_exports(catalog.snapshot().definition)["friday"].pin is None
        new = set(files(catalog.store)) - before
        assert {file_kind(path) for path in new} == {FileKind.ROOT, FileKind.DEFINITION, FileKind.OPERATION}


class TestRecord:
    def test_the_record_holds_version_mode_and_expiry(self, catalog, dest, clock):
        expires = clock.now_millis() + DAY
        create_export(catalog, dest, "friday", FULL, at=AtVersion(2), expires_at_millis=expires)
        snapshot = catalog.snapshot()
        assert dict(snapshot.definition.exported_snapshots) == {"friday": f"memory://dest/{root_path(2)}"}
        properties = json.loads(snapshot.definition.properties["olympia.export.friday"])
        assert properties == {"version": 2, "mode": "full", "expires_at": expires}
        record = read_exports(snapshot.definition)["friday"]
        assert (record.location, record.version, record.mode) == ("memory://dest", 2, "full")
        assert not record.expired(expires - 1)
        assert record.expired(expires)

    def test_is_a_commit_of_its_own(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL, message="before the load")
        actions = catalog.snapshot().actions()
        assert [action.type_name for action in actions] == ["CATALOG_EXPORT", "COMMIT_INFO"]
        replay(catalog.store)

    def test_a_name_is_a_reference(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL, at=AtVersion(1))
        assert catalog.snapshot(AtExport("friday")).version == 1

    @pytest.mark.parametrize("text", ["/tmp/a b", "/tmp/100%25", "/", "/tmp/é", "s3://bucket/a b", "memory://x"])
    def test_locations_and_uris(self, text):
        assert location_of(root_uri(text, 5)) == text
        assert root_uri(text, 5).endswith(root_path(5))
        assert "://" in root_uri(text, 5)

    def test_a_location_that_names_no_root(self):
        assert location_of("s3://b/x") == "s3://b/x"
        assert location_of("file:///exports/friday") == "/exports/friday"

    @pytest.mark.parametrize(
        "record", ["", "{", "[]", "7", '{"version": "1"}', '{"version": true}', '{"version": -1}', '{"version": 1e3}']
    )
    def test_a_record_that_cannot_be_read(self, catalog, dest, record):
        create_export(catalog, dest, "friday", FULL)
        definition = catalog.snapshot().definition
        definition.properties["olympia.export.friday"] = record
        [(name, flaw)] = read_exports(definition).items()
        assert name == "friday"
        assert isinstance(flaw, str)


class TestReadingWhatAnExportPins:
    """The version is gone from the catalog; what a sharing export needs of it is not."""

    @pytest.fixture
    def expired(self, catalog, dest, clock):
        create_export(catalog, dest, "friday", MINIMAL, at=AtVersion(1), expires_at_millis=clock.now_millis() + DAY)
        create_export(catalog, MemoryStore("full"), "whole", FULL, at=AtVersion(1))
        mark(catalog, 3)
        catalog.store.delete_many([root_path(number) for number in range(3)])
        return catalog

    def test_it_can_be_read(self, expired):
        snapshot = expired.snapshot(AtExport("friday"))
        assert snapshot.version == 1
        assert {name.namespace for name in snapshot.namespaces()} == {"sales", *EXOTIC}

    def test_until_the_export_expires(self, expired, clock):
        clock.advance(2 * DAY)
        with pytest.raises(VersionNotFound) as caught:
            expired.snapshot(AtExport("friday"))
        assert "memory://dest" in caught.value.hint

    def test_a_full_one_says_where_it_lies(self, expired):
        with pytest.raises(VersionNotFound) as caught:
            expired.snapshot(AtExport("whole"))
        assert "memory://full" in caught.value.hint

    def test_it_is_not_brought_back(self, expired):
        with pytest.raises(VersionNotFound):
            create_export(expired, MemoryStore("again"), "again", FULL, at=AtExport("friday"))
        with pytest.raises(VersionNotFound):
            expired.begin().roll_back(1)


class TestRefused:
    @pytest.mark.parametrize("name", ["", "12", "v12", "latest", "oldest", "latest~2", "2h", "2026-11-15", "a b"])
    def test_a_name_that_is_none(self, catalog, dest, name):
        with pytest.raises(InvalidName):
            create_export(catalog, dest, name, FULL)
        assert files(dest) == {}

    @pytest.mark.parametrize("name", ["friday", "é漢\U0001f600", "2h-ago", "v1.2", "a/b", "..", '"', "x" * 500])
    def test_any_other_name_is_fine(self, catalog, dest, name):
        create_export(catalog, dest, name, FULL)
        assert catalog.snapshot(AtExport(name)).version == 3
        assert read_note(dest).name == name

    def test_a_name_that_is_taken(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        with pytest.raises(ExportExists):
            create_export(catalog, other := MemoryStore("other"), "friday", FULL)
        assert files(other) == {}

    @pytest.mark.parametrize("path", ["x", "vn/latest", "node/x", root_path(3), "ops/export.json"])
    def test_a_place_that_is_not_empty(self, catalog, dest, path):
        dest.create(path, b"{}")
        with pytest.raises((LocationNotEmpty, Damaged)):
            create_export(catalog, dest, "friday", FULL)
        assert files(dest) == {path: b"{}"}
        assert catalog.snapshot().version == 3

    def test_a_location_with_another_export_is_refused(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        with pytest.raises(LocationNotEmpty, match="friday"):
            create_export(catalog, dest, "saturday", FULL)

    @pytest.mark.parametrize("late", [0, 1, DAY])
    def test_an_export_that_already_expired_is_refused(self, catalog, dest, clock, late):
        with pytest.raises(InvalidOption):
            create_export(catalog, dest, "friday", FULL, expires_at_millis=clock.now_millis() - late)
        assert files(dest) == {}

    @pytest.mark.parametrize("reference", [AtVersion(9), AtVersion(0), Latest(50)])
    def test_an_export_of_a_missing_version_is_refused(self, catalog, dest, reference):
        mark(catalog, 2)
        with pytest.raises(VersionNotFound):
            create_export(catalog, dest, "friday", FULL, at=reference)
        assert files(dest) == {}

    @pytest.mark.parametrize(
        ("mode", "depth", "definitions"),
        [
            (Mode.FULL, 2, True),
            (Mode.FULL, None, False),
            (Mode.MINIMAL, 1, True),
            (Mode.MINIMAL, None, False),
            (Mode.PARTIAL, None, True),
            (Mode.PARTIAL, 0, True),
            (Mode.PARTIAL, -1, False),
        ],
    )
    def test_a_scope_that_makes_no_sense(self, mode, depth, definitions):
        with pytest.raises(InvalidOption):
            scope(mode, depth, definitions)

    def test_a_catalog_of_the_java_sdk(self, tmp_path, dest):
        """The catalog is read only, so the export could not be recorded."""
        java_catalog.JavaCatalog(tmp_path).commit(1)
        with pytest.raises(Unsupported) as caught:
            create_export(Catalog(LocalStore(tmp_path)), dest, "friday", FULL)
        assert "import this one" in caught.value.hint
        assert files(dest) == {}

    def test_a_node_of_a_newer_program(self, catalog, dest):
        """The node may be sound: a newer program can export it."""
        path = nodes_of(catalog.store, catalog.snapshot().version)[-1]
        rewrite_raw(catalog.store, path, lambda raw: None, extra_column=True)
        with pytest.raises(Unsupported, match="columns") as caught:
            create_export(catalog, dest, "friday", FULL)
        assert caught.value.hint == Unsupported.default_hint
        assert catalog.snapshot().definition.exported_snapshots == {}


class TestApart:
    @pytest.fixture
    def source(self, tmp_path):
        folder = tmp_path / "catalog"
        make_catalog(LocalStore(folder), tables=1)
        return folder

    def refuse(self, source, dest):
        before = files(LocalStore(source))
        with pytest.raises(InvalidLocation):
            create_export(Catalog(LocalStore(source), FakeClock()), LocalStore(dest), "friday", FULL)
        assert files(LocalStore(source)) == before

    def test_the_catalog_itself(self, source):
        self.refuse(source, source)
        self.refuse(source, source / "vn" / "..")

    def test_inside_the_catalog(self, source):
        self.refuse(source, source / "x" / "y")
        self.refuse(source, source / "vn")

    def test_around_the_catalog(self, source):
        self.refuse(source, source.parent)
        self.refuse(source, "/")

    def test_through_links(self, source, tmp_path):
        (tmp_path / "link").symlink_to(source)
        (tmp_path / "deep").symlink_to(source / "node")
        for dest in ("link", "link/x", "deep/x"):
            self.refuse(source, tmp_path / dest)
        self.refuse(tmp_path / "link", source / "x")

    def test_beside_it_is_fine(self, source, tmp_path):
        create_export(Catalog(LocalStore(source)), LocalStore(tmp_path / "catalog-2"), "friday", FULL)
        os.mkdir(tmp_path / "elsewhere")
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        create_export(Catalog(LocalStore(source)), LocalStore(tmp_path / "link"), "saturday", FULL)
        check_catalog(LocalStore(tmp_path / "elsewhere"))

    @pytest.mark.parametrize("dest", ["s3://b/c/x", "s3://b/c/vn"])
    def test_prefixes(self, dest):
        with pytest.raises(InvalidLocation):
            check_apart("s3://b/c", dest)

    @pytest.mark.parametrize("dest", ["s3://b/c2", "s3://b2/c", "gs://b/c/x", "/b/c", "s3://b/c"])
    def test_prefixes_that_are_apart(self, dest):
        # the same prefix may be that of another server; on the same one it is not empty
        check_apart("s3://b/c", dest)


class TestDamage:
    @pytest.mark.parametrize("name", SCOPES)
    @pytest.mark.parametrize("what", ["node", "def/table", "def/ns", "def/catalog"])
    @pytest.mark.parametrize("how", ["missing", "empty", "flipped"])
    def test_a_damaged_version_is_not_exported(self, catalog, dest, name, what, how):
        """Not even where the damaged file would stay in the catalog: the export needs it all the same."""
        path = min(path for path in reached(catalog, 3) if path.startswith(what))
        store, data = catalog.store, catalog.store.read(path)
        store.delete_many([path])
        if how != "missing":
            store.create(path, b"" if how == "empty" else data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
        fresh = Catalog(store, catalog.clock)
        with pytest.raises(Damaged) as caught:
            create_export(fresh, dest, "friday", SCOPES[name])
        assert caught.value.path == path
        assert root_path(3) not in files(dest)
        assert store.exists(root_path(3))
        assert not store.exists(root_path(4))

    def test_a_damaged_latest_version_does_not_matter_to_an_older_one(self, catalog, dest):
        only_new = reached(catalog, 3) - reached(catalog, 2)
        bad = next(path for path in only_new if path.startswith("node/"))
        catalog.store.overwrite(bad, b"")
        create_export(Catalog(catalog.store, catalog.clock), dest, "friday", FULL, at=AtVersion(2))
        check_catalog(dest)

    def test_a_damaged_copy_is_not_recorded(self, catalog, dest):
        class Rotten(WrappedStore):
            def create_many(self, files):
                super().create_many({path: data[:-1] if "node/" in path else data for path, data in files.items()})

        with pytest.raises(Damaged, match="the copy is damaged"):
            create_export(catalog, Rotten(dest), "friday", FULL)
        assert catalog.snapshot().version == 3
        assert root_path(3) not in files(dest)


class TestCost:
    @pytest.mark.parametrize("name", SCOPES)
    def test_each_file_is_read_once_and_written_once(self, catalog, dest, name):
        source, target = CountingStore(catalog.store), CountingStore(dest)
        create_export(Catalog(source, catalog.clock), target, "friday", SCOPES[name])
        for path in reached(catalog, 3) - {root_path(3), catalog.snapshot(AtVersion(3)).root.catalog_def}:
            assert source.of(path, "read", "read_many") == 1, path
        for path in own_files(dest):
            assert target.of(path, "create", "create_many") == 1, path
            # whether the root is there is asked before it is written
            assert target.of(path, "read", "read_many") == 1 + (path == root_path(3)), path
        assert source.of("", "list") == 0
        assert source.probes <= 4

    def test_export_lists_the_catalog_once_and_reads_few_roots(self, dest):
        catalog = make_catalog()
        for number in range(20):
            with catalog.transaction() as transaction:
                transaction.alter_catalog({"n": str(number)})
        source = CountingStore(catalog.store)
        create_export(Catalog(source), dest, "friday", FULL)
        assert source.paths("list") == ["vn/"]
        older = {root_path(version) for version in range(catalog.snapshot().version - 1)}
        assert sum(path in older for path in source.paths("read", "read_many")) == 4
        # when the catalog is opened, for what fsck says, and for the commit
        assert source.of(OLDEST) == 3

    def test_in_batches(self, catalog, dest, monkeypatch):
        monkeypatch.setattr(export_files, "FILES_AT_ONCE", 7)
        target = CountingStore(dest)
        create_export(catalog, target, "friday", FULL)
        assert target.calls["create_many"] == -(-(len(own_files(dest)) - 1) // 7) + 1
        check_catalog(dest)

    def test_in_batches_of_so_many_bytes(self, catalog, dest, monkeypatch):
        monkeypatch.setattr(export_files, "BYTES_AT_ONCE", 1)
        target = CountingStore(dest)
        create_export(catalog, target, "friday", FULL)
        assert target.calls["create_many"] == len(own_files(dest))

    def test_a_version_with_duplicate_ids_is_not_exported(self, dest):
        """Tables that share a definition have one id: no version that fsck blames is exported."""
        catalog = make_big_catalog(MemoryStore("big"), 30, 400, order=16)
        with pytest.raises(Damaged) as caught:
            create_export(catalog, dest, "friday", FULL)
        assert caught.value.code == "F305"
        assert root_path(catalog.snapshot().version) not in files(dest)
        assert not catalog.snapshot().definition.exported_snapshots


def test_catalog_definitions_of_other_versions_stay_where_they_are(catalog, dest):
    """A definition without a checksum is compared with the log, which needs the definitions of other versions."""
    for word in "ab":
        with older_definitions(), catalog.transaction() as transaction:
            transaction.alter_catalog({"word": word})
    snapshot = catalog.snapshot()
    path = snapshot.root.catalog_def
    catalog.store.overwrite(path, body(snapshot.definition))
    done = create_export(catalog, dest, "friday", FULL)
    assert [path for path in own_files(dest) if path.startswith("def/catalog/")] == [path]
    assert done.count.files == len(own_files(dest))
    record = find_export("friday", catalog.snapshot().definition)
    assert plan_deletion(dest, record, snapshot.definition.id, catalog.store.uri).count.files == len(files(dest))


class TwoPlaces(WrappedStore):
    """A destination whose copier sees another place: files that are copied there exist only there."""

    def __init__(self, store, prefix):
        super().__init__(store)
        self.elsewhere, self.prefix = MemoryStore("elsewhere"), prefix

    def create_many(self, files):
        self.elsewhere.create_many({path: data for path, data in files.items() if path.startswith(self.prefix)})
        super().create_many({path: data for path, data in files.items() if not path.startswith(self.prefix)})

    def read_many(self, paths):
        for path in paths:
            yield from (self.elsewhere if path.startswith(self.prefix) else self.inner).read_many([path])


class TestWhatIsThere:
    """Only what this process finds at the destination is an export, whatever was said by those who copied."""

    @pytest.mark.parametrize(
        ("wanted", "prefix"), [("full", "def/table/"), ("nodes", "node/"), ("two levels", "node/")]
    )
    def test_files_that_went_elsewhere(self, catalog, dest, wanted, prefix):
        there = TwoPlaces(dest, prefix)
        with pytest.raises(Damaged, match=r"the export copied \d+ files?, and the destination has \d+") as raised:
            create_export(catalog, there, "friday", SCOPES[wanted])
        assert raised.value.hint == "nothing was recorded; resume with: export resume friday --dest memory://dest"
        assert len(list(there.elsewhere.list())) > 0
        assert not catalog.snapshot().definition.exported_snapshots
        assert not dest.exists(root_path(3)), "it does not open"
        done = resume_export(catalog, dest, "friday")
        assert done.count.files == len(own_files(dest))
        assert list(catalog.snapshot().definition.exported_snapshots) == ["friday"]

    def test_a_file_of_another_size(self, catalog, dest):
        class Torn(WrappedStore):
            def list(self, prefix="", temporary=False):
                for file in super().list(prefix, temporary):
                    yield replace(file, size=file.size - 1) if file.path.startswith("node/") else file

        with pytest.raises(Damaged, match="its files are not those that were copied"):
            create_export(catalog, Torn(dest), "friday", FULL)
        assert not catalog.snapshot().definition.exported_snapshots

    def test_other_names_of_the_same_sizes(self, catalog, dest):
        class Renamed(WrappedStore):
            def list(self, prefix="", temporary=False):
                for file in super().list(prefix, temporary):
                    path = file.path
                    yield replace(file, path=path[:-7] + "f.arrow") if path.startswith("node/") else file

        with pytest.raises(Damaged, match="its files are not those that were copied"):
            create_export(catalog, Renamed(dest), "friday", FULL)

    def test_resume_records_an_export_that_already_has_commits(self, catalog, dest, clock):
        """The root existed already, so other programs used the catalog: their additions are no difference."""
        with pytest.raises(PowerCut):
            # what comes after the note that it has begun is the record
            create_export(Catalog(CuttingStore(catalog.store, 1), clock), dest, "friday", FULL)
        assert dest.exists(root_path(3))
        with Catalog(dest, clock).transaction() as transaction:
            transaction.create_namespace(ns("later"))
        lost = min(file.path for file in dest.list("def/table/"))
        data = dest.read(lost)
        dest.delete_many([lost])
        done = resume_export(catalog, dest, "friday")
        assert dest.read(lost) == data
        assert done.count.files < len(own_files(dest))
        assert list(catalog.snapshot().definition.exported_snapshots) == ["friday"]


class TestOthersAtTheSameTime:
    def test_a_writer_during_the_copy(self, catalog, dest, clock):
        """The version exported is the one that was the latest when it began, and no commit is lost."""

        class Busy(WrappedStore):
            def create_many(self, files):
                with catalog.transaction() as transaction:
                    transaction.create_namespace(ns(f"meanwhile{catalog.snapshot().version}"))
                super().create_many(files)

        done = create_export(catalog, Busy(dest), "friday", FULL)
        assert done.note.version == 3
        assert done.version > 5
        assert Catalog.open(dest, clock).snapshot().version == 3
        check_catalog(dest)
        replay(catalog.store)

    def test_a_writer_before_the_record(self, catalog, dest):
        class Racing(WrappedStore):
            def create(self, path, data):
                if path == root_path(4) and not self.inner.exists(path):
                    with Catalog(self.inner, catalog.clock).transaction() as transaction:
                        transaction.create_namespace(ns("first"))
                super().create(path, data)

        done = create_export(Catalog(Racing(catalog.store), catalog.clock), dest, "friday", MINIMAL)
        assert done.version == 5
        replay(catalog.store)

    def test_another_export_of_the_same_name(self, catalog, dest):
        class Racing(WrappedStore):
            def create_many(self, files):
                if "friday" not in catalog.snapshot().definition.exported_snapshots:
                    create_export(catalog, MemoryStore("other"), "friday", FULL)
                super().create_many(files)

        with pytest.raises(ExportExists):
            create_export(catalog, Racing(dest), "friday", FULL)
        assert catalog.snapshot().definition.exported_snapshots["friday"].startswith("memory://other/")

    def test_another_export_to_the_same_place(self, catalog, dest):
        class Racing(WrappedStore):
            def create(self, path, data):
                if path == EXPORT_NOTE:
                    create_export(catalog, dest, "saturday", FULL)
                super().create(path, data)

        with pytest.raises(LocationNotEmpty):
            create_export(catalog, Racing(dest), "friday", FULL)
        assert list(catalog.snapshot().definition.exported_snapshots) == ["saturday"]
        check_catalog(dest)

    @pytest.mark.parametrize("moment", ["while files are copied", "before the root"])
    def test_an_init_at_the_same_place(self, catalog, dest, clock, moment):
        """A program without our check creates a catalog there; ours does not."""
        other = MemoryStore()
        Catalog.create(other, clock=clock)

        class Racing(WrappedStore):
            def create_many(self, files):
                if not dest.exists(root_path(0)) and (moment == "while files are copied" or root_path(3) in files):
                    with pytest.raises(LocationNotEmpty):
                        Catalog.create(dest, clock=clock)
                    dest.create_many({file.path: other.read(file.path) for file in other.list("def/")})
                    dest.create(root_path(0), other.read(root_path(0)))
                super().create_many(files)

        with pytest.raises(PathTaken, match="another process"):
            create_export(catalog, Racing(dest), "friday", FULL)
        assert catalog.snapshot().version == 3
        assert dest.exists(root_path(3)) is (moment == "before the root")

    def test_a_file_of_another_process_in_the_way(self, catalog, dest):
        class Racing(WrappedStore):
            def create_many(self, files):
                for path in files:
                    if path.startswith("node/"):
                        self.inner.create(path, b"somebody else's")
                super().create_many(files)

        with pytest.raises(PathTaken, match="another process"):
            create_export(catalog, Racing(dest), "friday", FULL)
        assert catalog.snapshot().version == 3

    def test_an_expire_takes_the_version_out_of_history_during_the_copy(self, catalog, dest):
        """A revival: the record is refused, though every file was still there."""

        class Racing(WrappedStore):
            def create_many(self, files):
                if catalog.snapshot().version == 3:
                    mark(catalog, 2)
                super().create_many(files)

        with pytest.raises(VersionNotFound):
            create_export(catalog, Racing(dest), "friday", MINIMAL, at=AtVersion(1))
        assert catalog.snapshot().version == 4
        assert not catalog.snapshot().definition.exported_snapshots

    def test_a_purge_takes_the_files_during_the_copy(self, catalog, dest):
        only_old = reached(catalog, 2) - reached(catalog, 3)

        class Racing(WrappedStore):
            def read_many(self, paths):
                if dest.exists(EXPORT_NOTE) and catalog.snapshot().version == 3:
                    mark(catalog, 3)
                    self.inner.delete_many(only_old)
                return super().read_many(paths)

        with pytest.raises(VersionNotFound, match="version 2 does not exist any more"):
            create_export(Catalog(Racing(catalog.store), catalog.clock), dest, "friday", FULL, at=AtVersion(2))
        assert not catalog.snapshot().definition.exported_snapshots

    def test_a_pin_that_grew_old_before_the_record_is_not_recorded(self, catalog, clock):
        """An expire may take a file that no root refers to once it is an hour old."""

        class Slow(WrappedStore):
            def create(self, path, data):
                super().create(path, data)
                if path.startswith("node/"):
                    clock.advance(HOUR)

        dest = MemoryStore("a dest")
        with pytest.raises(TransactionExpired, match="lifetime") as caught:
            create_export(Catalog(Slow(catalog.store), clock), dest, "friday", MINIMAL)
        assert caught.value.hint.endswith("export resume friday --dest 'memory://a dest'")
        assert catalog.snapshot().version == 3
        done = resume_export(catalog, dest, "friday")
        assert done.version == 4


class TestResume:
    def test_resume_copies_only_missing_files(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        lost = [*[path for path in own_files(dest) if path.startswith("def/table")][:3], root_path(3)]
        unrecorded = Catalog(catalog.store, catalog.clock)
        catalog.store.delete_many([root_path(4), LATEST])
        dest.delete_many(lost)
        target, source = CountingStore(dest), CountingStore(catalog.store)
        done = resume_export(Catalog(source, catalog.clock), target, "friday")
        assert sorted(target.paths("create", "create_many")) == sorted(lost)
        assert not {path for path in source.paths("read", "read_many") if path.startswith("def/table")} - set(lost)
        assert done.count.files == len(own_files(dest))
        assert unrecorded.snapshot().version == 4
        check_catalog(dest)

    def test_a_definition_that_was_cut_at_the_destination_is_no_copy(self, catalog, dest):
        """The rest of the definition can be parsed, and has no checksum."""
        total = CuttingStore(MemoryStore("whole"))
        create_export(catalog, total, "whole", FULL)
        with pytest.raises(PowerCut):
            create_export(catalog, CuttingStore(dest, total.writes - 3), "friday", FULL)
        path = min(path for path in own_files(dest) if path.startswith("def/table/"))
        dest.overwrite(path, TableDef(id=TableDef.FromString(dest.read(path)).id).SerializeToString())
        with pytest.raises(Damaged, match="it differs from the file in the catalog"):
            resume_export(catalog, dest, "friday")
        assert "friday" not in catalog.snapshot().definition.exported_snapshots

    def test_of_a_recorded_export_says_where_the_damage_is(self, catalog, dest):
        create_export(catalog, dest, "friday", MINIMAL)
        path = min(path for path in reached(catalog, 3) if path.startswith("def/table/"))
        catalog.store.overwrite(path, b"")
        with pytest.raises(Damaged) as caught:
            resume_export(catalog, dest, "friday")
        assert (caught.value.code, caught.value.path) == ("F503", path)
        assert "resume" not in caught.value.hint

    def test_of_a_complete_export_changes_nothing(self, catalog, dest):
        create_export(catalog, dest, "friday", TWO_LEVELS)
        before = files(dest), files(catalog.store)
        done = resume_export(catalog, dest, "friday")
        assert done.version == 4
        assert (files(dest), files(catalog.store)) == before

    def test_resume_completes_an_export_of_an_expired_version(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL, at=AtVersion(1))
        mark(catalog, 3)
        assert resume_export(catalog, dest, "friday").note.version == 1

    def test_of_a_complete_export_that_is_damaged(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        dest.overwrite(min(path for path in files(dest) if path.startswith("node/")), b"")
        with pytest.raises(Damaged):
            resume_export(catalog, dest, "friday")

    def test_resume_without_an_export_is_refused(self, catalog, dest):
        with pytest.raises(ExportNotFound):
            resume_export(catalog, dest, "friday")

    def test_of_another_one(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        with pytest.raises(LocationNotEmpty, match="friday"):
            resume_export(catalog, dest, "saturday")
        with pytest.raises(LocationNotEmpty, match="another catalog"):
            resume_export(make_catalog(MemoryStore("another")), dest, "friday")

    @pytest.mark.parametrize(
        "text", [b"", b"{", b"[]", b"{}", b"null", b"7", b"\xff", b'{"format": 1, "version": 1}', b"[" * 100_000]
    )
    def test_with_a_note_that_cannot_be_read(self, catalog, dest, text):
        dest.create(EXPORT_NOTE, text)
        with pytest.raises(Damaged):
            resume_export(catalog, dest, "friday")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("format", 2),
            ("version", -1),
            ("version", True),
            ("version", 2**40),
            ("mode", "most"),
            ("depth", 0),
            ("depth", "1"),
            ("definitions", 1),
            ("definition", "../x"),
            ("definition", "/etc/passwd"),
            ("name", None),
            ("expires_at_millis", "soon"),
        ],
    )
    def test_with_a_note_that_says_nonsense(self, catalog, dest, key, value):
        create_export(catalog, dest, "friday", FULL)
        note = json.loads(dest.read(EXPORT_NOTE))
        dest.overwrite(EXPORT_NOTE, json.dumps({**note, key: value}).encode())
        with pytest.raises(Damaged):
            read_note(dest)

    def test_past_its_end(self, catalog, dest, clock):
        create_export(catalog, dest, "friday", FULL, expires_at_millis=clock.now_millis() + DAY)
        catalog.store.delete_many([root_path(4), LATEST])
        clock.advance(2 * DAY)
        with pytest.raises(InvalidOption, match="expired"):
            resume_export(catalog, dest, "friday")

    def test_of_a_version_that_was_expired_since(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL, at=AtVersion(1))
        catalog.store.delete_many([root_path(4), LATEST])
        mark(catalog, 2)
        with pytest.raises(VersionNotFound):
            resume_export(catalog, dest, "friday")

    def test_resume_keeps_commits_made_on_the_export(self, catalog, dest, clock):
        """The root was written and the record was not; a commit on top of it stays."""
        create_export(catalog, dest, "friday", FULL)
        catalog.store.delete_many([root_path(4), LATEST])
        copy = Catalog(dest, clock)
        with copy.transaction() as transaction:
            transaction.create_namespace(ns("new"))
        resume_export(catalog, dest, "friday")
        assert copy.snapshot().version == 4
        assert dest.read(LATEST) == b"4"
        check_catalog(dest)

    def test_with_a_root_of_another_process(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        catalog.store.delete_many([root_path(4), LATEST])
        dest.overwrite(root_path(3), catalog.store.read(root_path(2)))
        with pytest.raises(PathTaken):
            resume_export(catalog, dest, "friday")

    def test_a_root_that_was_encoded_otherwise_is_the_same(self, catalog):
        data = catalog.store.read(root_path(3))
        root = decode_root(data, "r")
        rows = export_copy.decode_action_rows(data, "r")
        again = export_copy.encode_root(root, rows)
        assert export_copy.same_root(data, again, "r")
        assert not export_copy.same_root(data, export_copy.encode_root(root, rows[:-1]), "r")
        assert not export_copy.same_root(data, b"", "r")
