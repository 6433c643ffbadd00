"""fsck on sound catalogs and on those that cannot be opened; what it names, what it reads, and when it stops."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import (
    CatalogNotFound,
    ExportNotFound,
    StorageFailed,
    Unsupported,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.codec import decode_root, encode_node, encode_root
from olympia_cli.format.node import Node, Root
from olympia_cli.format.paths import new_node_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef, TableDef
from olympia_cli.names import Ago, AtExport, AtTime, AtVersion, Latest, NamespaceName, Oldest, TableName, parse_table
from olympia_cli.ops.fsck import (
    CODES,
    DataFinding,
    Level,
    Severity,
    describe_finding,
    describe_report,
    finding,
    merge,
    note_fsck,
    ranges,
    severity,
)
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers import java_catalog
from tests.helpers.big_catalog import add_versions, make_big_catalog
from tests.helpers.clock import DAY, FakeClock
from tests.helpers.damage_sample import make_sample, older_definitions
from tests.helpers.fsck import READS, codes, everything, fsck, leaves_of, make, nodes_of
from tests.helpers.names import location, ns, table
from tests.helpers.stores import CountingStore, WrappedStore


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore("fsck")
    make(store)
    return store


# Sound catalogs


@pytest.mark.parametrize("level", [Level.HINTS, Level.STRUCTURE, Level.FULL])
@pytest.mark.parametrize("all_versions", [False, True])
def test_a_sound_catalog_has_no_finding_and_each_file_is_read_once(store, level, all_versions):
    counting = CountingStore(store)
    report = fsck(counting, level=level, all_versions=all_versions)
    assert (report.findings, report.damaged, report.complete) == ((), False, True)
    assert (report.version, report.last_sound_version) == (4, 4)
    read = counting.paths(*READS)
    assert len(read) == len(set(read))
    assert counting.writes == 0


def test_everything_that_versions_reach_is_read(store):
    counting = CountingStore(store)
    everything(counting)
    known = {file.path for file in store.list() if file.path.startswith(("vn/0", "vn/1", "node/", "def/"))}
    assert known <= set(counting.paths(*READS))


def test_reads_do_not_grow_with_versions_that_share_nodes(tmp_path):
    store = MemoryStore("big")
    make_big_catalog(store, 4, 500, order=16)
    few = CountingStore(store)
    first = fsck(few, all_versions=True)
    add_versions(store, 30)
    many = CountingStore(store)
    second = fsck(many, all_versions=True)
    assert (first.findings, second.findings) == ((), ())
    assert second.checked["nodes"] == first.checked["nodes"] > 100
    assert many.reads == few.reads + 30


def test_checked_files_and_bytes_are_counted(store):
    checked = everything(store).checked
    assert checked["versions"] == checked["roots"] == 5
    assert checked["nodes"] == sum(file.path.startswith("node/") for file in store.list())
    assert checked["definitions"] == sum(file.path.startswith("def/") for file in store.list())
    assert checked["actions"] == 2 + 3 + 61 + 2 + 2
    assert checked["bytes"] == sum(file.size for file in store.list())


def test_files_read_twice_are_counted_once(store):
    path = leaves_of(store, 4)[-1]
    store.overwrite(path, store.read(path)[:-10])
    report = everything(store)
    assert any(finding.objects for finding in report.findings)
    assert report.checked["bytes"] == sum(file.size for file in store.list())


def test_fsck_accepts_every_kind_of_version_reference(store):
    clock = FakeClock()
    clocked = MemoryStore("clocked")
    make(clocked, clock=clock)
    latest = Catalog(clocked).snapshot().created_at_millis
    for at, version in (
        (AtVersion(2), 2),
        (Latest(), 4),
        (Latest(1), 3),
        (Oldest(), 0),
        (AtTime(latest), 4),
        (Ago(0), 4),
    ):
        assert fsck(clocked, at=at).version == version
    for missing in (AtVersion(5), Latest(9), AtTime(5)):
        with pytest.raises(VersionNotFound):
            fsck(clocked, at=missing)
    with pytest.raises(ExportNotFound):
        fsck(clocked, at=AtExport("friday"))


def test_damage_of_another_version_is_not_this_versions(store):
    """A node that only version 2 has: version 4 is sound, and said to be."""
    [path] = {*leaves_of(store, 2)} - {*leaves_of(store, 3)} - {*leaves_of(store, 4)}
    store.delete_many([path])
    assert not fsck(store).damaged
    assert codes(fsck(store, at=AtVersion(2))) == ["F201"]
    report = fsck(store, all_versions=True)
    assert [(one.path, one.versions, one.hint) for one in report.findings] == [(path, ((2, 2),), "")]
    assert report.last_sound_version == 4


def test_a_catalog_of_the_java_sdk(tmp_path):
    java_catalog.sample(tmp_path / "java")
    report = everything(LocalStore(str(tmp_path / "java")))
    assert not report.damaged
    assert codes(report) == ["F116"]
    assert [one.message for one in report.findings if one.code == "F904"]
    assert report.read_only


# Catalogs that cannot be opened


def test_no_catalog():
    with pytest.raises(CatalogNotFound):
        fsck(MemoryStore("nothing"))
    other = MemoryStore("other")
    other.create("readme.txt", b"hello")
    with pytest.raises(CatalogNotFound):
        fsck(other)


def test_an_init_that_did_not_finish_is_no_catalog(store):
    half = MemoryStore("half")
    half.create("def/catalog/5f5f8a0e-1111-4111-8111-111111111111.binpb", b"\x0a\x01x")
    with pytest.raises(CatalogNotFound):
        fsck(half)


@pytest.mark.parametrize("left", ["node/", "vn/latest", "def/table/", "ops/"])
def test_any_leftover_file_shows_that_a_catalog_existed(store, left):
    store.overwrite("ops/last-fsck.json", b"{}")
    store.delete_many([file.path for file in store.list() if not file.path.startswith(left)])
    report = fsck(store)
    assert [(one.code, one.path) for one in report.findings] == [("F103", "vn/")]
    assert (report.damaged, report.last_sound_version, report.version) == (True, None, None)
    assert report.findings[0].hint == "fsck --salvage DEST"


def test_no_root_can_be_read(store):
    for version in range(5):
        store.overwrite(root_path(version), b"ARROW1")
    report = everything(store)
    assert {one.code for one in report.findings if one.severity is Severity.ERROR} == {"F103", "F204"}
    assert report.last_sound_version is None


def test_the_latest_root_cannot_be_read(store):
    store.overwrite(root_path(4), b"not a root")
    report = fsck(store)
    assert codes(report) == ["F203"]
    assert report.last_sound_version == 3
    assert report.findings[0].hint == "fsck --repair"


def test_a_newer_format_is_not_damage(store):
    snapshot = Catalog(store).snapshot()
    newer = snapshot.definition
    newer.ClearField("integrity")
    newer.major_version = 9
    path = snapshot.root.catalog_def
    store.overwrite(path, definitions.encode(definitions.body(newer), path))
    with pytest.raises(Unsupported):
        fsck(store)


# What damage hits


def test_the_latest_version_is_hit_so_older_ones_are_looked_at(store):
    """Only the latest is asked for; the way back must be known all the same."""
    new = {*nodes_of(store, 4)} - {*nodes_of(store, 3)}
    store.delete_many(new)
    report = fsck(store)
    assert {one.code for one in report.findings} == {"F201"}
    assert {one.versions for one in report.findings} == {((4, 4),)}
    assert {one.hint for one in report.findings} == {"fsck --repair"}
    assert report.last_sound_version == 3


def test_objects_of_lost_leaves_are_named_from_older_versions(store):
    reader = Catalog(store).snapshot().reader
    old, new = {*leaves_of(store, 2)}, {*leaves_of(store, 3)}
    [path] = [leaf for leaf in new - old if any("t007" in key for key in reader.node(leaf).keys)]
    keys = Catalog(store).snapshot().keys
    expected = [keys.decode(key, "") for key in reader.node(path).keys]
    store.delete_many([path])
    [found] = fsck(store, all_versions=True).findings
    assert (found.code, found.path) == ("F201", path)
    assert list(found.objects) == expected
    assert found.objects_total == len(expected)
    assert "v2" in found.message


def test_objects_of_a_renamed_namespace_have_their_current_names(store):
    catalog = Catalog(store)
    with catalog.transaction() as transaction:
        transaction.rename_namespace(ns("a"), ns("c"))
    snapshot = catalog.snapshot()
    first, *_ = snapshot.root.node.children
    high = snapshot.keys.decode(snapshot.root.node.keys[0], "")
    expected = [ns("b"), ns("c"), *(name for name in snapshot.tables() if name < high)]
    store.delete_many([first])
    found = next(one for one in fsck(store).findings if one.path == first)
    assert list(found.objects) == expected


def test_objects_of_a_partly_readable_leaf_are_named(store):
    [*_, path] = leaves_of(store, 4)
    keys = Catalog(store).snapshot().keys
    expected = [keys.decode(key, "") for key in Catalog(store).snapshot().reader.node(path).keys]
    store.overwrite(path, store.read(path)[:-10])
    found = next(one for one in fsck(store).findings if one.path == path)
    assert found.code == "F204"
    assert list(found.objects) == expected


def test_a_lost_inner_node_names_all_that_is_below(store):
    root = Catalog(store).snapshot().root.node
    path = next(child for child in root.children if child in nodes_of(store, 3))
    below = {str(one) for one in Catalog(store).snapshot().tables()}
    store.delete_many([path])
    found = next(one for one in fsck(store).findings if one.code == "F201")
    assert found.objects_total > 3
    assert {str(one) for one in found.objects if isinstance(one, TableName)} <= below | {"a.t009"}


def test_a_definition_and_every_name_of_it(store):
    path = Catalog(store).snapshot().find(parse_table("a.t020"))
    assert path is not None
    store.overwrite(path, store.read(path)[:-1])
    assert fsck(store).findings == ()
    [found] = everything(store).findings
    assert (found.code, found.path, found.versions) == ("F303", path, ((2, 4),))
    assert [str(one) for one in found.objects] == ["a.t020"]
    assert found.hint == "fsck --repair"


def test_a_definition_that_was_cut_at_the_end_of_a_field_is_compared_with_the_log():
    store = MemoryStore("older")
    with older_definitions():
        make(store)
    path = Catalog(store).snapshot().find(parse_table("a.t007"))
    assert path is not None
    whole = TableDef.FromString(store.read(path))
    store.overwrite(path, TableDef(id=whole.id).SerializeToString())
    [cut] = [one for one in everything(store).findings if one.severity is Severity.ERROR]
    assert (cut.code, cut.path) == ("F304", path)
    whole.ClearField("integrity")
    store.overwrite(path, definitions.body(whole))
    report = everything(store)
    assert (report.damaged, [one.code for one in report.findings]) == (False, ["F904"])


def test_a_cycle_of_nodes_is_reported_once(store):
    holder = nodes_of(store, 4)[0]
    node = Catalog(store).snapshot().reader.node(holder)
    store.overwrite(holder, encode_node(Node(node.keys, node.values, (holder, *node.children[1:])), 1))
    report = fsck(store, all_versions=True)
    assert [one.path for one in report.findings if one.code == "F213"] == [holder]


def test_trees_of_shared_nodes_take_no_longer_than_their_nodes():
    """Sixty levels of nodes that each point twice to the next one: two to the sixty paths, and sixty reads."""
    store = MemoryStore("doubled")
    catalog = Catalog.create(store, order=4)
    base = catalog.snapshot()
    child = new_node_path()
    store.create(child, encode_node(Node((), ()), 1))
    for level in range(60):
        key = base.keys.encode(NamespaceName(f"n{level:02}"))
        path = new_node_path()
        store.create(path, encode_node(Node((key,), (base.root.catalog_def,), (child, child)), 1))
        child = path
    root = Root(Node((), (), ()), base.root.catalog_def, base.created_at_millis, root_path(0), None, base.sizes)
    top = catalog.snapshot().keys.encode(NamespaceName("z"))
    node = Node((top,), (base.root.catalog_def,), (child, child))
    store.create(root_path(1), encode_root(Root(node, root.catalog_def, 1 << 50, root_path(0), None, base.sizes), []))
    counting = CountingStore(store)
    report = everything(counting)
    assert report.damaged
    assert counting.reads < 3000


def test_fsck_sees_versions_behind_a_gap_unlike_readers(store):
    store.delete_many([root_path(2)])
    store.overwrite("vn/latest", b"1")
    assert Catalog(store).snapshot().version == 1
    report = fsck(store)
    assert report.version == 4
    gap = next(one for one in report.findings if one.code == "F101")
    assert (gap.path, gap.versions, gap.hint) == (root_path(2), ((2, 2),), "fsck --salvage DEST")


def test_fsck_advises_no_commit_into_a_gap(store):
    """A rollback would commit into the gap, and join what does not belong together."""
    store.delete_many([root_path(2), *leaves_of(store, 4)[-1:]])
    report = fsck(store)
    assert {one.hint for one in report.findings if one.severity is Severity.ERROR} == {"fsck --salvage DEST"}


def test_a_version_that_is_committed_while_names_are_listed_is_no_gap(store):
    class Late(WrappedStore):
        """The listing passed version 2's name before it was there, and shows version 3."""

        def list(self, prefix: str = "", temporary: bool = False) -> Any:
            return (file for file in self.inner.list(prefix, temporary) if file.path != root_path(2))

    assert fsck(Late(store), all_versions=True).findings == ()


def test_a_hint_that_moves_is_not_behind(store):
    class Moving(WrappedStore):
        reads = 0

        def read_many(self, paths: Any) -> Iterator[tuple[str, Any]]:
            for path, data in self.inner.read_many(paths):
                self.reads += path == "vn/latest"
                yield path, b"3" if path == "vn/latest" and self.reads == 1 else data

    assert fsck(Moving(store)).findings == ()
    store.overwrite("vn/latest", b"3")
    assert codes(fsck(store)) == ["F113"]


# Transactions and what else keeps files


def test_a_live_transaction_is_part_of_all_versions(store):
    catalog = Catalog(store)
    begun = distributed.begin(catalog)
    begun.transaction.create_namespace(ns("staged"))
    begun.save()
    running = distributed.find(store, begun.id).definition.running_root_node_file_path
    assert everything(store).damaged is False
    store.delete_many([running])
    assert fsck(store).findings == ()
    [found] = fsck(store, all_versions=True).findings
    assert (found.code, found.path, found.hint) == ("F502", running, f"txn abort {begun.id}")
    begun.abort()
    assert fsck(store, all_versions=True).findings == ()


def test_a_transaction_of_another_program_has_one_file_without_a_number(store):
    begun = distributed.begin(Catalog(store))
    begun.transaction.create_namespace(ns("staged"))
    begun.save()
    running = distributed.find(store, begun.id).definition.running_root_node_file_path
    store.delete_many([f"dtxn/{begun.id}.{save}.binpb" for save in range(2)])
    report = everything(store)
    assert not report.damaged
    assert report.checked["transactions"] == 1
    # what the first save led to is an orphan now, what this one leads to is not
    assert running not in {found.path for found in report.findings}
    store.delete_many([running])
    assert [found.code for found in fsck(store, all_versions=True).findings] == ["F502"]


def test_a_transaction_past_its_end_is_information():
    clock = FakeClock()
    store = MemoryStore("stale")
    catalog = make(store, clock=clock)
    begun = distributed.begin(catalog)
    clock.advance(catalog.snapshot().definition.txn_ttl_millis + 1)
    report = fsck(store, all_versions=True, clock=clock)
    assert [(one.code, one.path) for one in report.findings] == [("F907", f"dtxn/{begun.id}.0.binpb")]
    assert not report.damaged


def test_damaged_save_with_a_sound_copy_is_a_warning(store):
    """The transaction is read from the copy, and can be committed: nothing is lost, so nothing is damaged."""
    begun = distributed.begin(Catalog(store))
    last = f"dtxn/{begun.id}.0.binpb"
    store.overwrite(last, store.read(last)[:-1])
    report = fsck(store, all_versions=True)
    assert [(one.code, one.path, one.severity) for one in report.findings] == [("F505", last, Severity.WARNING)]
    assert not report.damaged
    distributed.load(Catalog(store), begun.id).commit()
    assert fsck(store, all_versions=True).findings == ()


@pytest.mark.parametrize("alone", [False, True], ids=["beside its save", "alone"])
def test_a_transaction_of_which_no_copy_is_whole_is_damaged(store, alone):
    begun = distributed.begin(Catalog(store))
    last, copy = f"dtxn/{begun.id}.0.binpb", f"dtxn/{begun.id}.binpb"
    for path in (last, copy):
        store.overwrite(path, store.read(path)[:-1])
    if alone:
        store.delete_many([last])
    report = everything(store)
    [found] = [one for one in report.findings if one.severity is Severity.ERROR]
    assert (found.code, found.path, found.hint) == ("F501", copy if alone else last, f"txn abort {begun.id}")
    distributed.abort(Catalog(store), distributed.look(store, begun.id))
    assert not everything(store).damaged


@pytest.mark.parametrize("whole", [0, None], ids=["by another save", "by the age of its files"])
def test_a_damaged_transaction_past_its_end_is_information(whole):
    clock = FakeClock()
    store = MemoryStore("stale", now_millis=clock.now_millis)
    catalog = make(store, clock=clock)
    begun = distributed.begin(catalog)
    begun.save()
    for file in list(store.list("dtxn/")):
        if whole is None or not file.path.endswith(f".{whole}.binpb"):
            store.overwrite(file.path, b"")
    clock.advance(catalog.snapshot().definition.txn_ttl_millis + 1)
    [found] = fsck(store, all_versions=True, clock=clock).findings
    assert found.code == ("F501" if whole is None else "F907")
    clock.advance(366 * DAY)
    [found] = fsck(store, all_versions=True, clock=clock).findings
    assert found.code == "F907"


# The store


class Failing(WrappedStore):
    """Reads of these paths fail."""

    def __init__(self, store: Any, fails: Callable[[str], bool]) -> None:
        super().__init__(store)
        self.fails = fails

    def read_many(self, paths: Any) -> Iterator[tuple[str, Any]]:
        for path, data in self.inner.read_many(paths):
            yield path, StorageFailed(f"no answer for {path}") if self.fails(path) else data


def test_a_file_that_the_store_cannot_read_is_damaged(store):
    [path, *_] = nodes_of(store, 4)
    [found] = fsck(Failing(store, lambda one: one == path)).findings
    assert (found.code, found.path) == ("F205", path)


def test_a_save_that_the_store_cannot_read_is_damaged(store):
    begun = distributed.begin(Catalog(store))
    last, copy = f"dtxn/{begun.id}.0.binpb", f"dtxn/{begun.id}.binpb"
    for paths, code in (((last,), "F505"), ((last, copy), "F501")):
        [found] = fsck(Failing(store, paths.__contains__), all_versions=True).findings
        assert (found.code, found.path) == (code, last)
        assert f"no answer for {last}" in found.message


def test_a_store_that_fails_is_not_a_damaged_catalog(store):
    for fails in (lambda path: True, lambda path: path.startswith("def/table"), lambda path: path == "vn/latest"):
        with pytest.raises(StorageFailed):
            everything(Failing(store, fails))


# Files that nothing leads to


def test_files_that_nothing_leads_to_are_information(store):
    store.create(new_node_path(), b"lost")
    store.create("notes.txt", b"mine")
    store.create("vn/backup", b"mine")
    report = everything(store)
    assert not report.damaged
    assert sorted((one.code, one.severity) for one in report.findings) == [
        ("F901", Severity.INFO),
        ("F903", Severity.INFO),
        ("F903", Severity.INFO),
    ]
    assert fsck(store, level=Level.FULL).findings == ()


def test_a_thousand_of_one_kind_are_twenty_and_a_sum(store):
    for at in range(1000):
        store.create(f"junk/{at:04}", b"xx")
    found = everything(store).findings
    assert len(found) == 21
    assert "980 files" in found[-1].message
    assert "1,960 bytes" in found[-1].message


def test_files_of_a_version_that_is_committed_meanwhile_are_no_orphans(store):
    class Busy(WrappedStore):
        """Another writer commits while all files are listed."""

        def list(self, prefix: str = "", temporary: bool = False) -> Any:
            if temporary:
                with Catalog(self.inner).transaction() as transaction:
                    transaction.create_namespace(ns("late"))
            return self.inner.list(prefix, temporary)

    assert [one for one in everything(Busy(store)).findings if one.code == "F901"] == []


# Data


def test_tables_are_handed_to_the_data_checks_once_for_each_location(store):
    class Checks:
        data_files = 0
        seen: list[tuple[TableName, str]] = []  # noqa: RUF012

        def check(self, tables: Any, progress: Any) -> Iterator[Any]:
            for name, definition in tables:
                self.seen.append((name, definition.iceberg_metadata_location))
                if definition.iceberg_metadata_location == location(7):
                    gone = finding("F601", location(7), "it is gone", objects=[name])
                    yield DataFinding(gone, frozenset({location(7)}))

    checks = Checks()
    report = fsck(store, level=Level.DATA, all_versions=True, data=checks)
    assert len(checks.seen) == len({one for _, one in checks.seen}) == 61
    [found] = report.findings
    assert (found.code, found.versions) == ("F601", ((2, 2),))
    assert report.last_sound_version == 4


def test_data_checks_may_stop_early(store):
    class Lazy:
        data_files = 0

        def check(self, tables: Any, progress: Any) -> Iterator[Any]:
            next(iter(tables))
            return iter(())

    report = fsck(store, level=Level.DATA, data=Lazy())
    assert report.checked["definitions"] == 62
    assert report.findings == ()


# Findings


def test_every_code_has_a_meaning_and_one_severity():
    assert all(text and text[0].islower() and not text.endswith(".") for text in CODES.values())
    assert severity("F201") is Severity.ERROR
    assert severity("F113") is Severity.WARNING
    assert severity("F901") is Severity.INFO


def test_versions_become_ranges():
    assert ranges([5, 1, 2, 3, 7, 7]) == ((1, 3), (5, 5), (7, 7))
    assert ranges([]) == ()
    assert merge([(5, 6), (1, 2), (3, 3), (9, 9)]) == ((1, 3), (5, 6), (9, 9))


def test_finding_lists_at_most_a_thousand_versions_and_objects():
    names = [TableName("a", f"t{at}") for at in range(1500)]
    found = finding("F201", "node/x", "it is missing", versions=[(0, 10), (100, 4_000_000_000)], objects=names)
    shown = describe_finding(found)
    assert (len(found.objects), found.objects_total) == (1000, 1500)
    assert (len(shown["versions"]), shown["versions"][-1]) == (1000, 4_000_000_000)
    assert shown["version_ranges"] == [[0, 10], [100, 4_000_000_000]]


def test_the_report_of_a_run_can_be_kept(store):
    clock = FakeClock()
    report = fsck(store)
    note_fsck(store, report, clock, False)
    record = json.loads(store.read("ops/last-fsck.json"))
    assert (record["damaged"], record["level"], record["version"], record["errors"]) == (False, "structure", 4, 0)
    json.dumps(describe_report(report))


def test_fsck_reports_its_progress(store):
    told: list[Any] = []

    class Listener:
        def phase(self, what: str, total: int | None = None) -> None:
            told.append(what)

        def advance(self, count: int = 1) -> None:
            told.append(count)

    everything(store, progress=Listener())
    assert [one for one in told if isinstance(one, str)] == ["reading versions", "listing files"]
    assert told.count(1) > 5 + 62


def test_a_catalog_definition_that_another_version_contradicts(store, tmp_path: Path):
    """The one that most versions agree on is the catalog's."""
    snapshot = Catalog(store).snapshot()
    other = CatalogDef()
    other.CopyFrom(snapshot.definition)
    other.ClearField("integrity")
    other.id = "somebody else"
    path = "def/catalog/5f5f8a0e-1111-4111-8111-111111111111.binpb"
    store.create(path, definitions.encode(definitions.body(other), path))
    root = decode_root(snapshot.file.data, snapshot.file.path)
    lie = Root(root.node, path, root.created_at_millis, root.previous_root, None, root.sizes)
    store.overwrite(root_path(4), encode_root(lie, []))
    [found] = fsck(store, all_versions=True).findings
    assert (found.code, found.path, found.versions) == ("F105", root_path(4), ((4, 4),))


def test_a_transaction_that_is_saved_while_versions_are_read_is_no_orphan(store):
    class Late(WrappedStore):
        saved = False

        def read_many(self, paths):
            paths = list(paths)
            if not self.saved and any(path.startswith("node/") for path in paths):
                self.saved = True
                late = distributed.begin(Catalog(self.inner))
                late.transaction.create_table(table("a.late"), location(7))
                late.save()
            return super().read_many(paths)

    report = everything(Late(store))
    assert report.checked["transactions"] == 1
    assert not [one for one in report.findings if one.code == "F901" and one.path.startswith("dtxn/")]


def test_few_definitions_wait_to_be_read():
    """Each node names as many as it has keys; those of a thousand nodes would take more memory than all else."""

    class Asked(WrappedStore):
        nodes = 0

        def read_many(self, paths):
            paths = list(paths)
            self.nodes = max(self.nodes, sum(path.startswith("node/") for path in paths))
            return super().read_many(paths)

    store = Asked(make_big_catalog(MemoryStore("wide"), 2, 1000, order=8, own=True).store)
    assert not fsck(store, level=Level.FULL).damaged
    assert store.nodes <= 64
    fsck(store, level=Level.STRUCTURE)
    assert store.nodes > 64


@pytest.mark.parametrize("path", ["node/notes.txt", "vn/latest", "README"])
def test_a_manifest_that_names_undeletable_files_is_reported(path):
    """A purge stops at it."""
    sample = make_sample(expired=True)
    store = sample.store()
    text = json.loads(store.read(sample.manifest))
    text["files"][0]["path"] = path
    store.overwrite(sample.manifest, json.dumps(text).encode())
    found = [one for one in everything(store).findings if one.code == "F906" and one.path == sample.manifest]
    assert found[0].message.endswith(f"it names a file that an expire never deletes: {path!a}, so a purge stops at it")
