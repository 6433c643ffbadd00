"""Verifying exports and dropping them."""

from __future__ import annotations

import json
import re

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import find_export, read_exports
from olympia_cli.errors import (
    Damaged,
    ExportNotFound,
    InvalidLocation,
    PartlyDone,
    Refused,
    StorageDenied,
    StorageFailed,
)
from olympia_cli.format.codec import decode_node, decode_root, encode_node, encode_root
from olympia_cli.format.definitions import body
from olympia_cli.format.node import Node, Root
from olympia_cli.format.paths import (
    EXPORT_NOTE,
    JAVA_WIDTH,
    LATEST,
    OLDEST,
    FileKind,
    file_kind,
    new_node_path,
    root_path,
)
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import AtVersion
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.records import delete_files, drop_export, list_exports, plan_deletion
from olympia_cli.ops.export.verify import MAX_FINDINGS, note_of, verify_export
from olympia_cli.ops.fsck import Level
from olympia_cli.ops.walk import FAILURES_IN_A_ROW
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog, replay
from tests.helpers.clock import DAY, FakeClock
from tests.helpers.expire import mark
from tests.helpers.exports import files, make_catalog, own_files
from tests.helpers.fsck import fsck
from tests.helpers.names import ns
from tests.helpers.reach import reach_of
from tests.helpers.stores import CountingStore, WrappedStore

FULL, MINIMAL, TWO_LEVELS = scope(Mode.FULL), scope(Mode.MINIMAL), scope(Mode.PARTIAL, 2)
NODES = scope(Mode.PARTIAL, None, definitions=False)
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


def verify(catalog, dest):
    record = find_export("friday", catalog.snapshot().definition)
    return verify_export(dest, note_of(dest, record), catalog.store)


def codes(found) -> list[str]:
    return [one.code for one in found.findings]


class TestSound:
    @pytest.mark.parametrize("name", SCOPES)
    def test_every_file_is_read_once_where_it_is(self, catalog, dest, name):
        create_export(catalog, dest, "friday", SCOPES[name])
        source, target = CountingStore(catalog.store), CountingStore(dest)
        note = note_of(dest, None)
        found = verify_export(target, note, source)
        assert (found.findings, found.damaged, found.findings_total) == ((), False, 0)
        assert found.copied.files == len(own_files(dest))
        for path in own_files(dest):
            assert target.of(path, "read", "read_many") == 1
            assert source.of(path, "read", "read_many") == 0
        root = catalog.store.read(root_path(3))
        every = {path for paths in reach_of(catalog.store).each([(root_path(3), root)]) for path in paths}
        shared = every - set(own_files(dest))
        assert {path for path in source.paths("read", "read_many") if file_kind(path) is not FileKind.HINT} == shared
        assert found.shared.files == len(shared)
        assert target.writes == source.writes == 0

    def test_a_full_one_needs_no_catalog(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        assert verify_export(dest, note_of(dest, None), None).findings == ()

    def test_one_that_shares_does(self, catalog, dest):
        create_export(catalog, dest, "friday", MINIMAL)
        with pytest.raises(InvalidLocation):
            verify_export(dest, note_of(dest, None), None)

    def test_an_export_with_own_commits_is_sound(self, catalog, dest, clock):
        create_export(catalog, dest, "friday", FULL)
        with Catalog(dest, clock).transaction() as transaction:
            transaction.create_namespace(ns("new"))
        assert verify(catalog, dest).findings == ()

    def test_an_export_with_its_version_expired_there_is_sound(self, catalog, dest, clock):
        create_export(catalog, dest, "friday", FULL)
        with Catalog(dest, clock).transaction() as transaction:
            transaction.create_namespace(ns("new"))
        mark(Catalog(dest, clock), 4)
        assert verify(catalog, dest).findings == ()

    def test_export_is_sound_without_its_version_in_the_catalog(self, catalog, dest):
        create_export(catalog, dest, "friday", MINIMAL, at=AtVersion(1))
        catalog.store.delete_many([root_path(1)])
        assert verify(catalog, dest).findings == ()


KINDS = {"node": "node/", "table": "def/table", "ns": "def/ns", "view": "def/view", "catalog": "def/catalog"}
HOW = {
    "missing": ("F201", "F301", "F307"),
    "empty": ("F202", "F302", "F307"),
    "foreign": ("F203", "F303", "F307"),
    "cut": ("F204", "F304", "F307"),
    "flipped": ("F206", "F304", "F307"),
}


def damage(store, path: str, how: str) -> None:
    data = store.read(path)
    store.delete_many([path])
    if how == "missing":
        return
    if how == "flipped" and path.startswith("node/"):
        # the rows are compressed: what a flipped bit in them becomes is made by hand
        node = decode_node(data, path)
        other = encode_node(Node((*node.node.keys[:-1], "C===zzz"), node.node.values, node.node.children), 1)
        [mine], [theirs] = (set(re.findall(rb"\b[0-9a-f]{64}\b", file)) for file in (data, other))
        store.create(path, other.replace(theirs, mine))
        return
    flipped = data[:3] + bytes([data[3] ^ 1]) + data[4:]
    store.create(path, {"empty": b"", "foreign": b"\xff" * 50, "cut": data[:-1], "flipped": flipped}[how])


class TestDamaged:
    @pytest.mark.parametrize("how", HOW)
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_copied_file(self, catalog, dest, kind, how):
        create_export(catalog, dest, "friday", FULL)
        path = max(path for path in files(dest) if path.startswith(KINDS[kind]))
        damage(dest, path, how)
        found = verify(catalog, dest)
        assert found.damaged
        [one] = found.findings
        assert (one.path, one.versions) == (path, ((3, 3),))
        node, definition, catalog_def = HOW[how]
        expected = node if kind == "node" else catalog_def if kind == "catalog" else definition
        # a cut or flipped definition is one that does not parse, or one that is not what its digest says
        assert one.code == expected or (how in ("cut", "flipped") and one.code in ("F303", "F304"))
        if kind in ("table", "ns", "view"):
            assert [name.kind.word[:2] for name in one.objects] == [{"ns": "na"}.get(kind, kind[:2])]

    @pytest.mark.parametrize("how", ["missing", "empty", "foreign"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_shared_file(self, catalog, dest, kind, how):
        create_export(catalog, dest, "friday", MINIMAL, at=AtVersion(2))
        root = decode_root(dest.read(root_path(2)), "r")
        reached = {p for paths in reach_of(catalog.store).each([("r", dest.read(root_path(2)))]) for p in paths}
        path = max(path for path in reached if path.startswith(KINDS[kind]))
        assert root.catalog_def in reached
        note = note_of(dest, None)
        damage(catalog.store, path, how)
        found = verify_export(dest, note, catalog.store)
        assert found.damaged
        assert [(one.code, one.path) for one in found.findings] == [("F503", path)]
        assert "in the catalog" in found.findings[0].message

    def test_a_shared_definition_that_the_log_disproves(self, catalog, dest):
        """The definition was cut behind its id: it can be parsed, but has fewer fields."""
        create_export(catalog, dest, "friday", MINIMAL, at=AtVersion(2))
        path = max(path for path in files(catalog.store) if path.startswith("def/table/"))
        cut = TableDef(id=TableDef.FromString(catalog.store.read(path)).id)
        catalog.store.overwrite(path, cut.SerializeToString())
        assert "F304" in {one.code for one in fsck(catalog.store, level=Level.FULL, at=AtVersion(2)).findings}
        found = verify_export(dest, note_of(dest, None), catalog.store)
        assert [(one.code, one.path) for one in found.findings] == [("F503", path)]

    def test_a_root_is_never_the_catalog_s(self, catalog, dest):
        create_export(catalog, dest, "friday", MINIMAL)
        dest.delete_many([root_path(3)])
        assert codes(verify(catalog, dest)) == ["F201"]

    @pytest.mark.parametrize(("how", "code"), [("missing", "F201"), ("empty", "F202"), ("foreign", "F203")])
    def test_the_root(self, catalog, dest, how, code):
        create_export(catalog, dest, "friday", FULL)
        damage(dest, root_path(3), how)
        assert codes(verify(catalog, dest)) == [code]

    def test_hints(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        for latest, oldest, expected in (
            (b"2", b"3", "F113"),
            (b"9", b"3", "F114"),
            (b"x", b"3", "F112"),
            (b"3", b"2", "F101"),
            (b"3", b"9", "F102"),
            (b"3", b"", "F115"),
        ):
            dest.overwrite(LATEST, latest)
            dest.overwrite(OLDEST, oldest)
            found = verify(catalog, dest)
            assert codes(found) == [expected]
            assert found.damaged is fsck(dest).damaged is (expected in ("F101", "F102", "F114"))

    @pytest.mark.parametrize(("hint", "code"), [(LATEST, "F111"), (OLDEST, "F101")])
    def test_a_hint_that_is_missing_is_not_the_catalog_s(self, catalog, dest, hint, code):
        create_export(catalog, dest, "friday", FULL)
        dest.delete_many([hint])
        assert catalog.store.exists(LATEST)
        assert codes(verify(catalog, dest)) == [code]

    def test_a_root_with_the_name_that_the_java_sdk_gives_it(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        dest.create(root_path(3, JAVA_WIDTH), dest.read(root_path(3)))
        dest.delete_many([root_path(3)])
        assert [(one.code, one.path) for one in verify(catalog, dest).findings] == [("F201", root_path(3))]

    @pytest.mark.parametrize(
        "pointer", ["/etc/passwd", "../../x", "file:///etc/passwd", "node/../x", "node\\x", "a//b"]
    )
    @pytest.mark.parametrize("where", ["child", "definition", "catalog"])
    def test_a_pointer_outside(self, catalog, dest, pointer, where):
        """The pointer is named, and never followed."""
        create_export(catalog, dest, "friday", FULL)
        root = decode_root(dest.read(root_path(3)), root_path(3))
        node, catalog_def = root.node, root.catalog_def
        if where == "catalog":
            catalog_def = pointer
        elif where == "child":
            node = Node(node.keys, node.values, (pointer, *node.children[1:]))
        else:
            node = Node(node.keys, (pointer, *node.values[1:]), node.children)
        dest.overwrite(root_path(3), encode_root(Root(node, catalog_def, 1, root_path(2), None, root.sizes), []))
        target = CountingStore(dest)
        found = verify_export(target, note_of(dest, None), None)
        assert codes(found) == ["F212"]
        assert found.findings[0].path == root_path(3)
        assert not target.of(pointer)

    def test_a_cycle_and_a_node_in_two_places(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        root = decode_root(dest.read(root_path(3)), root_path(3))
        first, second = root.node.children[:2]
        for pointed, code in ((first, "F213"), (second, "F214")):
            target = MemoryStore("x", dict(dest._files))
            inner = decode_node(target.read(first), first).node
            assert not inner.is_leaf
            changed = Node(inner.keys, inner.values, (pointed, *inner.children[1:]))
            target.overwrite(first, encode_node(changed, 1))
            found = verify_export(target, note_of(dest, None), None)
            assert code in codes(found)

    def test_keys_out_of_range_and_a_node_on_another_level(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        root = decode_root(dest.read(root_path(3)), root_path(3))
        first, second = root.node.children[:2]
        swapped = Node(root.node.keys, root.node.values, (second, first, *root.node.children[2:]))
        target = MemoryStore("x", dict(dest._files))
        target.overwrite(
            root_path(3), encode_root(Root(swapped, root.catalog_def, 1, root.previous_root, None, root.sizes), [])
        )
        assert codes(verify_export(target, note_of(dest, None), None)) == ["F209", "F209"]
        inner = decode_node(dest.read(first), first).node
        leaf = Node(inner.keys, inner.values, ())
        dest.overwrite(first, encode_node(leaf, 1))
        assert "F210" in codes(verify_export(dest, note_of(dest, None), None))

    def test_a_chain_without_end(self, catalog, dest):
        """Every node is whole, and each has one child more."""
        create_export(catalog, dest, "friday", FULL)
        root = decode_root(dest.read(root_path(3)), root_path(3))
        path = new_node_path()
        dest.create(path, encode_node(Node((), ()), 1))
        for _ in range(80):
            above = new_node_path()
            dest.create(above, encode_node(Node((), (), (path,)), 1))
            path = above
        chain = Root(Node((), (), (path,)), root.catalog_def, 1, root.previous_root, None, root.sizes)
        dest.overwrite(root_path(3), encode_root(chain, []))
        assert "F210" in codes(verify_export(dest, note_of(dest, None), None))

    def test_a_key_of_no_type(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        root = decode_root(dest.read(root_path(3)), root_path(3))
        odd = Root(Node(("ZZZZ",), (root.catalog_def,)), root.catalog_def, 1, root.previous_root, None, root.sizes)
        dest.overwrite(root_path(3), encode_root(odd, []))
        assert codes(verify_export(dest, note_of(dest, None), None)) == ["F215"]

    def test_nothing_is_left_but_the_tree(self, catalog, dest, monkeypatch):
        monkeypatch.setattr("olympia_cli.ops.export.verify.MAX_FINDINGS", 5)
        create_export(catalog, dest, "friday", FULL)
        lost = [path for path in files(dest) if path.startswith("def/")]
        dest.delete_many(lost)
        found = verify(catalog, dest)
        assert (len(found.findings), found.findings_total) == (5, len(lost))
        assert MAX_FINDINGS > 5

    def test_a_file_that_the_store_cannot_read(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        bad = [path for path in files(dest) if path.startswith("def/") and not path.startswith("def/catalog/")]
        note = note_of(dest, None)
        assert codes(verify_export(Failing(dest, bad[:1]), note, None)) == ["F205"]
        # many in a row are not many damaged files, but a store that is ill
        assert len(bad) > FAILURES_IN_A_ROW
        with pytest.raises(StorageFailed):
            verify_export(Failing(dest, bad), note, None)
        with pytest.raises(StorageDenied):
            verify_export(Failing(dest, bad[:1], StorageDenied("no")), note, None)


class Failing(WrappedStore):
    """Cannot read some files."""

    def __init__(self, store, bad, error=None):
        super().__init__(store)
        self.bad = frozenset(bad)
        self.error = error or StorageFailed("an i/o error")

    def read_many(self, paths):
        for path, data in super().read_many(paths):
            yield path, self.error if path in self.bad else data


class TestNotes:
    def test_without_a_note_the_record_of_a_full_export_is_enough(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        dest.delete_many([EXPORT_NOTE])
        assert verify(catalog, dest).findings == ()
        dest.create(EXPORT_NOTE, b"{")
        assert verify(catalog, dest).findings == ()

    def test_one_that_shares_needs_its_note(self, catalog, dest):
        create_export(catalog, dest, "friday", MINIMAL)
        dest.overwrite(EXPORT_NOTE, b"{")
        with pytest.raises(Damaged):
            verify(catalog, dest)
        dest.delete_many([EXPORT_NOTE])
        with pytest.raises(ExportNotFound):
            verify(catalog, dest)

    def test_a_missing_note_means_no_export(self, catalog, dest):
        with pytest.raises(ExportNotFound):
            note_of(dest, None)

    def test_a_note_of_another_export_is_refused(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        create_export(catalog, other := MemoryStore("other"), "saturday", FULL)
        with pytest.raises(ExportNotFound, match="version 4"):
            note_of(other, find_export("friday", catalog.snapshot().definition))


class TestDrop:
    def test_forgets_the_record_and_touches_nothing_else(self, catalog, dest):
        create_export(catalog, dest, "friday", MINIMAL)
        before, there = files(dest), files(catalog.store)
        assert drop_export(catalog, "friday") == 5
        definition = catalog.snapshot().definition
        assert not definition.exported_snapshots
        assert not definition.properties
        assert files(dest) == before
        assert {path: files(catalog.store)[path] for path in there if path != LATEST}.items() <= there.items()
        replay(catalog.store)

    def test_drop_of_a_missing_export_is_refused(self, catalog):
        with pytest.raises(ExportNotFound):
            drop_export(catalog, "friday")

    def test_an_export_with_an_unreadable_record_can_be_dropped(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns("beside"))
            definition = transaction.draft.catalog
            definition.properties["olympia.export.friday"] = "{"
            transaction.draft.put_catalog(body(definition))
        assert [one["state"] for one in list_exports(catalog.snapshot(), 0)] == ["malformed"]
        drop_export(catalog, "friday")
        assert read_exports(catalog.snapshot().definition) == {}

    def test_one_that_has_a_record_and_no_location(self, catalog, dest):
        """fsck says to drop it, so it can be found and dropped."""
        create_export(catalog, dest, "friday", FULL)
        with catalog.transaction() as transaction:
            transaction.create_namespace(ns("beside"))
            definition = transaction.draft.catalog
            del definition.exported_snapshots["friday"]
            transaction.draft.put_catalog(body(definition))
        assert [(one["name"], one["state"]) for one in list_exports(catalog.snapshot(), 0)] == [("friday", "malformed")]
        drop_export(catalog, "friday")
        assert read_exports(catalog.snapshot().definition) == {}

    def plan(self, catalog, dest):
        definition = catalog.snapshot().definition
        return plan_deletion(dest, find_export("friday", definition), definition.id, catalog.store.uri)

    def test_deleting_the_files(self, catalog, dest):
        create_export(catalog, dest, "friday", FULL)
        there = files(dest)
        plan = self.plan(catalog, dest)
        assert files(dest) == there
        assert (plan.count.files, plan.count.bytes) == (len(there), sum(map(len, there.values())))
        target = CountingStore(dest)
        delete_files(plan)
        assert files(dest) == {}
        assert target.writes == 0
        check_catalog(catalog.store)

    @pytest.mark.parametrize("path", ["mine.txt", "vn/x", "node/mine", "ops/last-fsck.json", root_path(2)])
    def test_foreign_files_prevent_the_deletion_of_an_export(self, catalog, dest, path):
        create_export(catalog, dest, "friday", FULL)
        dest.create(path, b"")
        before = files(dest)
        with pytest.raises(Refused, match="did not write"):
            self.plan(catalog, dest)
        assert files(dest) == before

    def test_an_export_with_own_commits_is_not_deleted(self, catalog, dest, clock):
        create_export(catalog, dest, "friday", FULL)
        plan = self.plan(catalog, dest)
        with Catalog(dest, clock).transaction() as transaction:
            transaction.create_namespace(ns("new"))
        with pytest.raises(Refused):
            self.plan(catalog, dest)
        # and not when that began after the plan was made
        with pytest.raises(PartlyDone, match=re.escape(dest.uri)):
            delete_files(plan)
        check_catalog(dest)

    @pytest.mark.parametrize("name", ["minimal", "nodes", "two levels"])
    def test_not_of_one_that_shares(self, catalog, dest, name):
        create_export(catalog, dest, "friday", SCOPES[name])
        with pytest.raises(Refused, match="full"):
            self.plan(catalog, dest)

    @pytest.mark.parametrize("how", ["no note", "another name", "another catalog", "a damaged node", "no root"])
    def test_an_export_of_uncertain_ownership_is_not_deleted(self, catalog, dest, how):
        create_export(catalog, dest, "friday", FULL)
        note = json.loads(dest.read(EXPORT_NOTE))
        if how == "no note":
            dest.delete_many([EXPORT_NOTE])
        elif how == "another name":
            dest.overwrite(EXPORT_NOTE, json.dumps({**note, "name": "x"}).encode())
        elif how == "another catalog":
            dest.overwrite(EXPORT_NOTE, json.dumps({**note, "catalog": "x"}).encode())
        elif how == "a damaged node":
            dest.overwrite(max(path for path in files(dest) if path.startswith("node/")), b"")
        else:
            dest.delete_many([root_path(3)])
        before = files(dest)
        with pytest.raises(Refused):
            self.plan(catalog, dest)
        assert files(dest) == before


def test_a_list_of_exports(catalog, dest, clock):
    now = clock.now_millis()
    create_export(catalog, dest, "friday", FULL)
    create_export(catalog, MemoryStore("b"), "brief", MINIMAL, at=AtVersion(1), expires_at_millis=now + DAY)
    brief, friday = list_exports(catalog.snapshot(), now + DAY)
    assert (brief["name"], brief["state"], brief["at_version"], brief["mode"]) == ("brief", "expired", 1, "minimal")
    assert brief["expires_at"] == "2023-11-15T22:13:20.000Z"
    assert file_kind(brief["pin"]) is FileKind.NODE
    assert friday == {
        "name": "friday",
        "at_version": 3,
        "mode": "full",
        "expires_at": None,
        "pin": None,
        "state": "current",
        "location": "memory://dest",
        "root": f"memory://dest/{root_path(3)}",
    }
