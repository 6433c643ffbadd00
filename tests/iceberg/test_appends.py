"""Files that others wrote, appended in one commit: what is in a table afterwards, and what is on the disk."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.transforms import IdentityTransform

from olympia_cli.errors import CommitConflict, InvalidOption, PathMissing
from olympia_cli.iceberg import OlympiaCatalog, appends
from olympia_cli.iceberg.appends import Destination, commit_append, destination, give_up_append, write_rows
from olympia_cli.importers.parquet_tables import data_file
from olympia_cli.names import TableName
from tests.iceberg.test_writers import BeforeRoot, RootUnknown, through

NAME = TableName("ns", "t")
BATCH = pa.record_batch({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def table(catalog: OlympiaCatalog) -> Table:
    catalog.create_namespace("ns")
    return catalog.create_table("ns.t", BATCH.schema)


def begin(catalog: OlympiaCatalog, run: str | None = None, name: TableName = NAME) -> Destination:
    return destination(catalog.load_table((name.namespace, name.name)), name, run, {})


def written(catalog: OlympiaCatalog, to: Destination, *batches: pa.RecordBatch) -> list:
    table = catalog.load_table((to.name.namespace, to.name.name))
    return list(write_rows(table.metadata, table.io, to.folder, batches or [BATCH]))


def rows(catalog: OlympiaCatalog, name: str = "ns.t") -> int:
    return catalog.load_table(name).scan().to_arrow().num_rows


def check_files(catalog: OlympiaCatalog, name: str = "ns.t") -> None:
    """The table has the files that it names and no others, manifests included."""
    table = catalog.load_table(name)
    named = {task.file.file_path for task in table.scan().plan_files()}
    for snapshot in table.metadata.snapshots:
        named |= {snapshot.manifest_list, *(one.manifest_path for one in snapshot.manifests(table.io))}
    there = {str(path) for path in Path(table.location()).rglob("*") if path.is_file()}
    assert {path for path in there if not path.endswith(".metadata.json")} == named


def test_files_of_failed_tasks_are_deleted_on_commit(catalog, table):
    to = begin(catalog)
    files = written(catalog, to)
    # a task that failed, one that did the same twice, and a write that was cut off
    written(catalog, to)
    Path(to.folder, ".tmp-x").write_bytes(b"x")
    version = catalog.version
    assert commit_append(catalog, {to: files}, "m") == version + 1
    assert rows(catalog) == 3
    check_files(catalog)


def test_rows_become_files_before_they_fill_the_memory(catalog, table, monkeypatch):
    monkeypatch.setattr(appends, "_MOST_BYTES", 2 * BATCH.nbytes)
    to = begin(catalog)
    files = written(catalog, to, *[BATCH] * 5)
    assert [file.record_count for file in files] == [6, 6, 3]
    commit_append(catalog, {to: files})
    assert rows(catalog) == 15


def test_another_writer_is_first(catalog, table):
    other = OlympiaCatalog("other", warehouse=catalog.properties["warehouse"])
    late = through(
        BeforeRoot(
            catalog.store_catalog.store, lambda: other.load_table("ns.t").append(pa.Table.from_batches([BATCH]))
        ),
        catalog,
    )
    to = begin(catalog)
    assert commit_append(late, {to: written(catalog, to)}) == catalog.version
    assert rows(catalog) == 6
    check_files(catalog)


def test_the_same_append_is_under_way_elsewhere(catalog, table):
    """The second process finds the append done, and deletes its own files."""
    first, second = begin(catalog, "monday"), begin(catalog, "monday")
    files = written(catalog, first)
    late = through(BeforeRoot(catalog.store_catalog.store, lambda: commit_append(catalog, {first: files})), catalog)
    assert commit_append(late, {second: written(catalog, second)}) is None
    assert rows(catalog) == 3
    check_files(catalog)
    third = begin(catalog, "monday")
    assert commit_append(catalog, {third: written(catalog, third)}) is None
    check_files(catalog)


@pytest.mark.parametrize("change", ["another table", "another partitioning"])
def test_an_append_to_a_replaced_or_repartitioned_table_conflicts(catalog, table, change):
    to = begin(catalog)
    files = written(catalog, to)
    if change == "another table":
        catalog.drop_table("ns.t")
        catalog.create_table("ns.t", BATCH.schema)
    else:
        with table.update_spec() as update:
            update.add_identity("id")
    with pytest.raises(CommitConflict, match=change.split()[1][:5]):
        commit_append(catalog, {to: files})
    assert rows(catalog) == 0
    give_up_append(catalog, [to])
    # the table that it began with may be there under another name, and have the files
    assert bool(list(Path(to.folder).rglob("*.parquet"))) == (change == "another table")
    check_files(catalog)


def test_a_column_that_came_meanwhile_is_empty(catalog, table):
    to = begin(catalog)
    files = written(catalog, to)
    with table.update_schema() as update:
        from pyiceberg.types import StringType

        update.add_column("more", StringType())
    commit_append(catalog, {to: files})
    assert catalog.load_table("ns.t").scan().to_arrow()["more"].to_pylist() == [None] * 3


@pytest.mark.parametrize("mode", ["lost_reply", "lost_request"])
def test_when_the_outcome_is_unknown_the_files_stay(catalog, table, mode):
    to = begin(catalog, "monday")
    files = written(catalog, to)
    store = RootUnknown(catalog.store_catalog.store, (), mode)
    with pytest.raises(CommitStateUnknownException) as raised:
        commit_append(through(store, catalog), {to: files})
    assert f"the data files are kept: {to.folder}" in str(raised.value)
    give_up_append(catalog, [to])
    assert all(Path(file.file_path).exists() for file in files)
    # under its name it may be done again
    again = begin(catalog, "monday")
    done = commit_append(catalog, {again: written(catalog, again)})
    assert (done is None) == (mode == "lost_reply")
    assert rows(catalog) == 3


def test_giving_up_a_committed_append_deletes_nothing(catalog, table):
    """Spark does so when it was not told that the commit went well."""
    to = begin(catalog)
    files = written(catalog, to)
    commit_append(catalog, {to: files})
    give_up_append(catalog, [to])
    assert rows(catalog) == 3
    # nor if the outcome is unknown
    other = begin(catalog)
    kept = written(catalog, other)
    catalog.drop_table("ns.t")
    give_up_append(catalog, [other])
    assert Path(kept[0].file_path).exists()


def test_giving_up_deletes_no_files_of_a_renamed_table(catalog, table):
    to = begin(catalog)
    commit_append(catalog, {to: written(catalog, to)})
    catalog.rename_table("ns.t", "ns.u")
    catalog.create_table("ns.t", BATCH.schema)
    give_up_append(catalog, [to])
    assert rows(catalog, "ns.u") == 3


@pytest.mark.parametrize("run", ["monday", None])
def test_a_second_commit_of_an_append_changes_nothing(catalog, table, run):
    to = begin(catalog, run)
    files = written(catalog, to)
    version = commit_append(catalog, {to: files})
    # nor does it matter which of its files the second call knows of
    for known in (files, [], files):
        assert commit_append(catalog, {to: known}) is None
        assert (catalog.version, rows(catalog)) == (version, 3)
        check_files(catalog)
    catalog.create_table("ns.u", BATCH.schema)
    other = begin(catalog, name=TableName("ns", "u"))
    assert commit_append(catalog, {to: [], other: written(catalog, other)}) == catalog.version
    assert (rows(catalog), rows(catalog, "ns.u")) == (3, 3)


@pytest.mark.parametrize("mode", ["lost_reply", "lost_request"])
def test_an_append_of_unknown_outcome_may_be_committed_again(catalog, table, mode):
    to = begin(catalog)
    files = written(catalog, to)
    with pytest.raises(CommitStateUnknownException):
        commit_append(through(RootUnknown(catalog.store_catalog.store, (), mode), catalog), {to: files})
    # a second one that fails does not make the outcome of the first known
    with pytest.raises(PathMissing):
        commit_append(catalog, {to: [*files, data_file(file_path=f"{to.folder}/x", file_size_in_bytes=1)]})
    give_up_append(catalog, [to])
    assert all(Path(file.file_path).exists() for file in files)
    assert (commit_append(catalog, {to: files}) is None) == (mode == "lost_reply")
    assert rows(catalog) == 3


def test_a_run_that_some_of_the_tables_have_is_refused(catalog, table):
    """Skipping the run would lose rows of the other tables, and repeating it would duplicate rows."""
    catalog.create_table("ns.u", BATCH.schema)
    other = TableName("ns", "u")
    first = begin(catalog, "monday")
    version = commit_append(catalog, {first: written(catalog, first)})
    both = begin(catalog, "monday"), begin(catalog, "monday", other)
    with pytest.raises(InvalidOption, match=r"the append 'monday' is in ns\.t, and not in ns\.u"):
        commit_append(catalog, {to: written(catalog, to) for to in both})
    give_up_append(catalog, both)
    assert (catalog.version, rows(catalog), rows(catalog, "ns.u")) == (version, 3, 0)
    check_files(catalog)
    check_files(catalog, "ns.u")
    # a table that gets no rows has nothing to say
    both = begin(catalog, "monday"), begin(catalog, "monday", other)
    assert commit_append(catalog, {both[0]: written(catalog, both[0]), both[1]: []}) is None
    # and when all have it, it was done
    last = begin(catalog, "monday", other)
    commit_append(catalog, {last: written(catalog, last)})
    both = begin(catalog, "monday"), begin(catalog, "monday", other)
    assert commit_append(catalog, {to: written(catalog, to) for to in both}) is None
    assert (rows(catalog), rows(catalog, "ns.u")) == (3, 3)


@pytest.mark.skipif(not hasattr(ManageSnapshots, "rollback_to_snapshot"), reason="this PyIceberg rolls nothing back")
def test_a_rolled_back_append_is_committed_again(catalog, table):
    for run in ("monday", "tuesday"):
        to = begin(catalog, run)
        commit_append(catalog, {to: written(catalog, to)})
    table = catalog.load_table("ns.t")
    with table.manage_snapshots() as change:
        change.rollback_to_snapshot(table.history()[0].snapshot_id)
    assert rows(catalog) == 3
    for run, done in (("monday", True), ("tuesday", False), ("tuesday", True)):
        to = begin(catalog, run)
        assert (commit_append(catalog, {to: written(catalog, to)}) is None) == done
    assert rows(catalog) == 6


@pytest.mark.skipif(not hasattr(Table, "maintenance"), reason="this PyIceberg expires no snapshots")
def test_an_append_is_recognized_beyond_expired_snapshots(catalog, table):
    for run in ("monday", "tuesday", "wednesday"):
        to = begin(catalog, run)
        commit_append(catalog, {to: written(catalog, to)})
    table = catalog.load_table("ns.t")
    first, second, _ = (entry.snapshot_id for entry in table.history())
    table.manage_snapshots().create_tag(first, "kept").commit()
    table.maintenance.expire_snapshots().by_id(second).commit()
    to = begin(catalog, "monday")
    assert commit_append(catalog, {to: written(catalog, to)}) is None
    assert rows(catalog) == 9


def test_a_missing_written_file_is_not_committed(catalog, table):
    version = catalog.version
    for break_it in (Path.unlink, lambda path: path.write_bytes(b"x")):
        to = begin(catalog)
        files = written(catalog, to)
        break_it(Path(files[0].file_path))
        with pytest.raises(PathMissing, match="a written file is missing"):
            commit_append(catalog, {to: files})
        give_up_append(catalog, [to])
    assert catalog.version == version
    check_files(catalog)


def test_several_tables_or_none(catalog, table):
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    catalog.create_table("ns.u", table.schema(), partition_spec=spec)
    both = begin(catalog), begin(catalog, name=TableName("ns", "u"))
    files = {to: written(catalog, to) for to in both}
    assert len(files[both[1]]) == 3
    version = catalog.version
    assert commit_append(catalog, files) == version + 1
    assert (rows(catalog), rows(catalog, "ns.u")) == (3, 3)
    again = begin(catalog), begin(catalog, name=TableName("ns", "u"))
    files = {to: written(catalog, to) for to in again}
    catalog.drop_table("ns.u")
    with pytest.raises(Exception, match=r"ns\.u"):
        commit_append(catalog, files)
    give_up_append(catalog, again)
    assert rows(catalog) == 3
    check_files(catalog)


def test_a_value_that_must_be_and_is_not(catalog):
    catalog.create_namespace("ns")
    catalog.create_table("ns.t", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    with pytest.raises(InvalidOption, match="the data has rows without 'id'"):
        written(catalog, begin(catalog), pa.record_batch({"id": pa.array([None], pa.int64())}))
