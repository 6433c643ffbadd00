"""The division of tables, without Spark: parts are disjoint and complete, and each reads its own files."""

from __future__ import annotations

import gc
import json
import pickle
import shutil
import uuid

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, VersionNotFound
from olympia_cli.format.codec import decode_node
from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.names import Kind, Latest, NamespaceName, TableName
from olympia_cli.ops.inspect import describe_action, describe_object, log
from olympia_cli.spark import rows, source
from olympia_cli.spark.options import TABLES, Conditions, parse_options
from olympia_cli.spark.pins import pin, store_at
from olympia_cli.spark.rows import PARTITIONS, plan_files, read_files
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.expire import mark
from tests.helpers.java_catalog import sample as java_sample
from tests.helpers.reach import reach_of
from tests.helpers.stores import CountingStore


def parts_of(store, what: str, **options: str):
    asked = parse_options({"catalog": "/anywhere", "path": what, **options})
    return source.plan(store, asked, None if what == "files" else pin(store, asked.reference))


def rows_in(store, part, what: str, columns=(), **options: str) -> list[dict]:
    # parts travel to other processes
    part = pickle.loads(pickle.dumps(part))
    return list(source.read(store, parse_options({"catalog": "/x", "path": what, **options}), part, columns))


def rows_of(store, what: str, columns=None, **options: str) -> list[dict]:
    wanted = columns or source.COLUMNS[what]
    parts = parts_of(store, what, **options)
    return [row for part in parts for row in rows_in(store, part, what, wanted, **options)]


@pytest.fixture(scope="module")
def grown() -> Catalog:
    """A deep tree that grew, split, was rolled back and shrank: versions share nodes on different levels."""
    catalog = Catalog.create(MemoryStore(), order=3)
    for number in range(40):
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName(f"n{number * 7 % 40:02}"))
    undoing = catalog.begin()
    undoing.roll_back(12)
    catalog.commit(undoing)
    for number in range(40, 60):
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName(f"n{number}"))
    for name in list(catalog.snapshot().namespaces())[::2]:
        with catalog.transaction() as transaction:
            transaction.drop_namespace(name)
    return catalog


ODD_FILES = (
    *("README", "nodes", "node/strange", "node2/x", "vn/strange", "zebra"),
    *("def/other", "def/tables", "def/table/0", "def/table/8", "def/table/c/inside", "def/table/~", "def/table/ü"),
    *("data/def/table/8", "data/a/b.parquet", "ops/else/x", "ops/last-fsck.json", "dtxn/odd"),
    *(f"{folder}.tmp-{uuid.UUID(int=0)}" for folder in ("", "def/table/", "vn/", "data/")),
    f"dtxn/{uuid.UUID(int=0)}.binpb",
)


@pytest.fixture(scope="module")
def odd_folder(sample, tmp_path_factory) -> str:
    """A catalog on disk, and names beside it that lie on cuts, between them, and where the format defines nothing."""
    folder = tmp_path_factory.mktemp("odd") / "catalog"
    shutil.copytree(sample.store.uri, folder)
    for path in ODD_FILES:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"x")
    return str(folder)


class TestObjects:
    @pytest.mark.parametrize("partitions", ["1", "2", "7", "64", "5000"])
    def test_objects_appear_once_for_any_number_of_parts(self, sample, partitions):
        snapshot = sample.snapshot()
        expected = [
            describe_object(found, snapshot.version) for kind in list(Kind)[1:] for found in snapshot.objects(kind)
        ]
        rows = rows_of(sample.store, "objects", partitions=partitions)
        assert [row["definition"] for row in rows] == [one["definition"] for one in expected]
        assert [(row["id"], row["properties"]) for row in rows] == [(one["id"], one["properties"]) for one in expected]
        assert len(parts_of(sample.store, "objects", partitions=partitions)) <= int(partitions)

    def test_of_a_namespace_both_names_are_its_own(self, sample):
        found = rows_of(sample.store, "objects", type="namespace")
        assert [(row["namespace"], row["name"]) for row in found][:2] == [("ns0", "ns0"), ("ns1", "ns1")]
        assert found[1]["properties"] == {"number": "1"}

    def test_parts_read_their_own_subtrees(self, sample):
        store = CountingStore(sample.store)
        columns = ("type", "namespace", "name")
        parts = parts_of(store, "objects", partitions="6")
        assert len(parts) == 6
        read = []
        for part in parts:
            store.reset()
            assert rows_in(store, part, "objects", columns)
            read.append(set(store.paths("read", "read_many")))
        assert all(not one & other for at, one in enumerate(read) for other in read[at + 1 :])
        assert all(file_kind(path) is FileKind.NODE for one in read for path in one)

    def test_planning_reads_no_leaf(self, sample):
        store = CountingStore(sample.store)
        parts_of(store, "objects", partitions="100")
        nodes = [path for path in store.paths("read", "read_many") if path.startswith("node/")]
        leaves = [path for path in nodes if decode_node(sample.store.read(path), path).node.is_leaf]
        # one, to learn how deep the tree is
        assert len(nodes) > 2
        assert len(leaves) == 1

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({"type": "view"}, 1),
            ({"type": "table", "namespace": "ns2"}, 19),
            ({"namespace": "ns2"}, 20),
            ({"namespace": "ns1", "name": "renamed"}, 1),
            ({"name": "t07"}, 6),
            ({"name": "ns3"}, 1),
            ({"namespace": "ns3", "name": "ns3"}, 1),
            ({"namespace": "δ.ns"}, 2),
            ({"namespace": "no such thing", "name": "x" * 500}, 0),
            ({"type": "nonsense"}, 0),
        ],
    )
    def test_options_filter_objects_by_type_and_name(self, sample, wanted, found):
        everything = rows_of(sample.store, "objects")
        rows = rows_of(sample.store, "objects", partitions="5", **wanted)
        assert rows == [row for row in everything if all(row[column] == value for column, value in wanted.items())]
        assert len(rows) == found

    def test_one_object_costs_one_path_through_the_tree(self):
        files = MemoryStore()
        make_big_catalog(files, 50, 200, order=16, own=True)
        store = CountingStore(files)
        rows = rows_of(store, "objects", namespace="ns000007", name="table000099")
        assert [(row["namespace"], row["name"]) for row in rows] == [("ns000007", "table000099")]
        # hints, roots and definitions apart: the way to the leaf, for tables and for views, and the way down for depth
        assert len([path for path in store.paths("read", "read_many") if path.startswith("node/")]) <= 3 * 4
        assert len([path for path in store.paths("read", "read_many") if path.startswith("def/table")]) == 1

    def test_names_alone_read_no_definition(self, sample):
        store = CountingStore(sample.store)
        assert len(rows_of(store, "objects", columns=("type", "namespace", "name", "definition"))) == 129
        assert not [path for path in store.paths("read", "read_many") if path.startswith(("def/ns", "def/table"))]

    def test_a_version_of_the_java_sdk(self, tmp_path):
        java_sample(tmp_path)
        store = LocalStore(str(tmp_path))
        snapshot = Catalog(store).snapshot()
        expected = [(name.kind.word, path) for kind in list(Kind)[1:] for name, path in snapshot.scan(kind)]
        assert expected
        rows = rows_of(store, "objects", partitions="3")
        assert [(row["type"], row["definition"]) for row in rows] == expected

    def test_a_missing_definition_is_named(self):
        catalog = Catalog.create(MemoryStore())
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName("a"))
        path = rows_of(catalog.store, "objects")[0]["definition"]
        catalog.store.delete_many([path])
        with pytest.raises(Damaged, match="the definition of namespace a is missing"):
            rows_of(catalog.store, "objects")


class TestGroups:
    @pytest.mark.parametrize("most", range(1, 12))
    def test_runs_are_alike_and_begin_with_subtrees(self, most):
        subtree, entry = rows.Subtree("node/x", None, None, 1), rows.KeyEntry("k", "v")
        pieces = [entry, *[subtree, entry] * 9, subtree]
        runs = rows.groups(pieces, most)
        assert [piece for run in runs for piece in run] == pieces
        sizes = [sum(isinstance(piece, rows.Subtree) for piece in run) for run in runs]
        assert len(runs) == min(most, 10)
        assert max(sizes) - min(sizes) <= 1
        assert all(isinstance(run[0], rows.Subtree) for run in runs[1:])

    def test_keys_without_subtrees_are_one_run_and_nothing_is_none(self):
        assert rows.groups([rows.KeyEntry("k", "v")], 4) == [[rows.KeyEntry("k", "v")]]
        assert rows.groups([], 4) == []


class TestVersions:
    @pytest.mark.parametrize("partitions", ["1", "3", "100"])
    def test_the_log_is_the_librarys(self, grown, partitions):
        newest = grown.snapshot()
        entries = list(log(newest, 0))[::-1]
        rows = rows_of(grown.store, "versions", partitions=partitions)
        assert [
            (row["version"], row["created_at"], row["previous_version"], row["rollback_from"], row["rollback_to"])
            for row in rows
        ] == [
            (one.version, one.snapshot.created_at_millis, one.previous_version, one.rollback_from, one.rollback_to)
            for one in entries
        ]
        assert [(row["transaction_id"], row["by"]) for row in rows] == [(one.transaction_id, one.by) for one in entries]
        assert [row["actions"] for row in rows] == [len(one.changes) for one in entries]

    def test_actions_are_the_librarys(self, sample):
        entries = list(log(sample.snapshot(), 0))[::-1]
        expected = [
            (entry.version, at, *describe_action(action).values())
            for entry in entries
            for at, action in enumerate(entry.changes)
        ]
        rows = rows_of(sample.store, "actions", partitions="3")
        found = [
            (*(row[name] for name in ("version", "position", "type", "object", "namespace", "name")), detail)
            for row in rows
            for detail in [json.loads(row["detail"])]
        ]
        assert found == expected

    def test_a_range_of_versions_reads_these_roots_alone(self, grown):
        store = CountingStore(grown.store)
        parts = parts_of(store, "versions", since="6", version="8")
        store.reset()
        rows = [row for part in parts for row in rows_in(store, part, "versions")]
        assert [row["version"] for row in rows] == [6, 7, 8]
        assert store.paths("read", "read_many") == [root_path(version) for version in (6, 7, 8)]

    def test_actions_of_one_kind(self, sample):
        everything = rows_of(sample.store, "actions")
        rows = rows_of(sample.store, "actions", type="TABLE_RENAME", namespace="ns1")
        assert rows == [row for row in everything if row["type"] == "TABLE_RENAME"]
        assert len(rows) == 1

    def test_as_of_a_version_and_since_another(self, grown):
        rows = rows_of(grown.store, "versions", version="9", since="6")
        assert [row["version"] for row in rows] == [6, 7, 8, 9]
        assert rows_of(grown.store, "actions", version="5", since="9") == []

    def test_few_versions_are_one_part(self, grown):
        assert len(parts_of(grown.store, "versions")) == 2
        assert len(parts_of(grown.store, "versions", version="60")) == 1

    def test_expired_versions_have_no_rows(self):
        catalog = Catalog.create(MemoryStore())
        for number in range(6):
            with catalog.transaction() as transaction:
                transaction.create_namespace(NamespaceName(f"n{number}"))
        mark(catalog, 4)
        assert [row["version"] for row in rows_of(catalog.store, "versions")] == [4, 5, 6, 7]
        parts = parts_of(catalog.store, "versions")
        catalog.store.overwrite("vn/oldest", b"6")
        catalog.store.delete_many([root_path(5)])
        with pytest.raises(VersionNotFound, match="version 5 does not exist any more: the oldest is 6"):
            rows_in(catalog.store, parts[0], "versions")

    def test_a_gap_in_the_versions_is_damage(self, sample):
        store = MemoryStore()
        for file in sample.store.list():
            store.create(file.path, sample.store.read(file.path))
        store.delete_many([root_path(2)])
        with pytest.raises(Damaged, match="version 2 is missing"):
            rows_of(store, "versions")


class TestNodes:
    def reached(self, catalog: Catalog, versions) -> set[str]:
        reach = reach_of(catalog.store)
        reach.add((root_path(version), catalog.store.read(root_path(version))) for version in versions)
        return {file.path for file in catalog.store.list() if file.path in reach and not file.path.startswith("def/")}

    @pytest.mark.parametrize("partitions", ["1", "2", "5", "30"])
    @pytest.mark.parametrize(("version", "since"), [("latest", None), ("12", None), ("latest", "0"), ("55", "38")])
    def test_each_node_once(self, grown, version, since, partitions):
        last = grown.snapshot().version if version == "latest" else int(version)
        options = {"version": version, "partitions": partitions} | ({"since": since} if since else {})
        rows = rows_of(grown.store, "nodes", **options)
        paths = [row["path"] for row in rows]
        assert len(set(paths)) == len(paths)
        assert set(paths) == self.reached(grown, range(int(since) if since else last, last + 1))

    def test_a_row_counts_keys_children_and_bytes_of_nodes(self, sample):
        rows = rows_of(sample.store, "nodes")
        assert {row["kind"] for row in rows} == {"root", "node"}
        assert all(row["verified"] for row in rows)
        assert sum(row["keys"] for row in rows) == 129
        for row in rows:
            data = sample.store.read(row["path"])
            node = decode_node(data, row["path"]).node
            assert (row["keys"], row["children"], row["bytes"]) == (len(node.keys), len(node.children), len(data))
        assert [row["version"] for row in rows if row["kind"] == "root"] == [sample.snapshot().version]

    def test_more_than_one_part_has_nodes(self, sample):
        parts = parts_of(sample.store, "nodes", partitions="4")
        counts = [len(rows_in(sample.store, part, "nodes")) for part in parts]
        assert len(counts) == 4
        assert all(count > 2 for count in counts)

    def test_a_missing_node_is_named(self, grown):
        store = MemoryStore()
        for file in grown.store.list():
            store.create(file.path, grown.store.read(file.path))
        path = next(row["path"] for row in rows_of(store, "nodes") if row["kind"] == "node" and not row["children"])
        store.delete_many([path])
        with pytest.raises(Damaged, match=path):
            rows_of(store, "nodes")


class TestFiles:
    @pytest.mark.parametrize("uri", ["/a/folder", "s3://bucket/prefix"])
    @pytest.mark.parametrize("partitions", ["1", "4", "500"])
    def test_each_file_once(self, sample, uri, partitions):
        store = MemoryStore()
        strange = ["README", "node/strange", "vn/strange", "def/other", "node2/x", "ops/else/x", "def/table/ü"]
        for path in strange:
            store.create(path, b"x")
        for file in sample.store.list():
            store.create(file.path, sample.store.read(file.path))
        rows = rows_of(store, "files", catalog=uri, partitions=partitions)
        listed = {file.path: (file_kind(file.path).value, file.size) for file in store.list()}
        assert len(rows) == len(listed)
        assert {row["path"]: (row["kind"], row["bytes"]) for row in rows} == listed
        assert {row["path"] for row in rows if row["kind"] == "unknown"} == set(strange)

    @pytest.mark.parametrize("kind", [None, *FileKind], ids=lambda kind: kind and kind.value)
    @pytest.mark.parametrize("cores", [1, 2, 3, 8, 100])
    def test_each_file_of_a_local_folder_once_however_many_share_it(self, odd_folder, cores, kind):
        store, conditions = LocalStore(odd_folder), Conditions({} if kind is None else {"kind": kind.value})
        listed = [file.path for file in store.list(temporary=True)]
        wanted = sorted(path for path in listed if kind in (None, file_kind(path)))
        assert wanted, "the folder has files of every kind"
        for partitions in (None, 1, 5):
            parts = plan_files(odd_folder, conditions, partitions, cores)
            assert len(parts) <= (partitions or PARTITIONS)
            rows = [row for part in parts for row in read_files(store, part, conditions)]
            assert sorted(row["path"] for row in rows) == wanted

    @pytest.mark.parametrize(("cores", "partitions", "shares"), [(1, 16, 1), (2, 16, 2), (8, 3, 3), (100, 100, 8)])
    def test_the_tables_of_a_local_folder_are_shared_by_the_cores(self, odd_folder, cores, partitions, shares):
        store = LocalStore(odd_folder)
        parts = plan_files(odd_folder, Conditions(), partitions, cores)
        counts = [
            sum(row["path"].startswith("def/table/") for row in read_files(store, part, Conditions())) for part in parts
        ]
        assert len(counts) == shares
        assert max(counts) < 2 * sum(counts) / shares

    @pytest.mark.parametrize(("partitions", "most"), [("16", 260), ("64", 260), ("500", 20)])
    def test_no_part_of_a_bucket_has_more_than_its_share(self, partitions, most):
        """Not even the one with what the format does not define."""
        store = MemoryStore()
        store.create_many(
            {f"node/{number:03x}{'0' * 5}-{'0' * 4}-4000-8000-{'0' * 12}.arrow": b"" for number in range(4096)}
        )
        store.create_many(dict.fromkeys(("README", "node/-", "node/~", "nodes", "zebra"), b""))
        asked = parse_options({"catalog": "s3://bucket/lake", "path": "files", "partitions": partitions})
        ranges = [part for plan in source.plan(store, asked, None) for part in plan.ranges]
        listed = [list(store.list(one.prefix, True, one.between)) for one in ranges]
        assert max(map(len, listed)) <= most
        assert sum(map(len, listed)) == 4096 + 5

    def test_a_kind_with_a_folder_lists_that_folder_alone(self, sample):
        store = CountingStore(sample.store)
        rows = rows_of(store, "files", kind="root")
        assert store.paths("list") == ["vn/"]
        assert len(rows) == sample.snapshot().version + 1
        assert {row["kind"] for row in rows} == {"root"}
        assert rows_of(store, "files", kind="nonsense") == []


@pytest.mark.parametrize("what", TABLES)
def test_rows_have_the_columns_that_are_promised(sample, what):
    rows = rows_of(sample.store, what)
    # a column that no row has would be NULL for ever
    assert set(source.COLUMNS[what]) <= {name for row in rows for name in row}


def test_a_pin_keeps_its_version_while_others_commit():
    catalog = Catalog.create(MemoryStore())
    pinned = pin(catalog.store, Latest())
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("late"))
        transaction.create_table(TableName("late", "t"), "s3://t")
    asked = parse_options({"catalog": "/x", "path": "objects"})
    parts = source.plan(catalog.store, asked, pinned)
    assert [row for part in parts for row in rows_in(catalog.store, part, "objects")] == []


def test_tasks_freeze_loaded_objects_for_the_garbage_collector(tmp_path):
    from pyspark import TaskContext

    before = gc.get_freeze_count()
    store_at(str(tmp_path / "driver"), ())
    assert gc.get_freeze_count() == before
    TaskContext._setTaskContext(TaskContext())
    try:
        store_at(str(tmp_path / "task"), ())
        assert gc.get_freeze_count() > before
    finally:
        TaskContext._setTaskContext(None)
        store_at.cache_clear()
