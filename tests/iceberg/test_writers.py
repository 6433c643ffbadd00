"""Writers of PyIceberg at once: what goes together, what does not, and what a commit that fails leaves behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table, Transaction

from olympia_cli import Catalog, CommitConflict, StorageFailed, TableName, open_store
from olympia_cli.catalog import distributed
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import PathTaken, TransactionClosed
from olympia_cli.format.definitions import decode
from olympia_cli.format.paths import parse_root_path
from olympia_cli.format.pb.objects_pb2 import IsolationLevel, TableDef
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.iceberg.changes import TableChanges
from olympia_cli.storage.protocol import Store
from tests.helpers.clock import MINUTE, FakeClock
from tests.helpers.stores import AmbiguousStore, CuttingStore, PowerCut, WrappedStore

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "20", "commit.retry.num-retries": "100"}
RETRIES = hasattr(Transaction, "_rebuild_snapshot_updates")
"""True if this PyIceberg repeats an append on the result of another writer."""


class BeforeRoot(WrappedStore):
    """Does something once before a root is created: another writer is first."""

    def __init__(self, store: Store, do: Callable[[], object]) -> None:
        super().__init__(store)
        self._do: Callable[[], object] | None = do

    def create(self, path: str, data: bytes) -> None:
        if parse_root_path(path) is not None and self._do is not None:
            do, self._do = self._do, None
            do()
        super().create(path, data)


@pytest.fixture
def table(catalog: OlympiaCatalog) -> Table:
    catalog.create_namespace("ns")
    return catalog.create_table("ns.t", ROWS.schema, properties=QUICK)


def through(store: Store, catalog: OlympiaCatalog, **properties: str) -> OlympiaCatalog:
    """The same catalog through another store."""
    return OlympiaCatalog.of(Catalog(store), **{**catalog.properties, **properties})


def rows_in(catalog: OlympiaCatalog, name: str = "ns.t") -> int:
    return catalog.load_table(name).scan().to_arrow().num_rows


def metadata_files(catalog: OlympiaCatalog) -> set[str]:
    return {str(path) for path in Path(catalog.properties["warehouse"]).glob("data/**/*.metadata.json")}


def named_files(catalog: OlympiaCatalog) -> set[str]:
    """Return the locations in all definitions, whether or not a version has them."""
    store = catalog.store_catalog.store
    files = [file.path for file in store.list("def/table/")]
    return {decode(TableDef, store.read(path), path).iceberg_metadata_location for path in files}


# Two at once


def test_many_appends_to_one_table_all_succeed(catalog: OlympiaCatalog, table: Table) -> None:
    def append() -> None:
        mine = OlympiaCatalog("mine", warehouse=catalog.properties["warehouse"])
        for _ in range(4):
            while True:
                try:
                    mine.load_table("ns.t").append(ROWS)
                    break
                except CommitFailedException:
                    assert not RETRIES

    writers = [threading.Thread(target=append) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert rows_in(catalog) == 3 * 4 * 3
    assert metadata_files(catalog) <= named_files(catalog)
    assert len(metadata_files(catalog)) == 1 + 3 * 4


@pytest.mark.skipif(not RETRIES, reason="this PyIceberg makes no append again")
def test_an_append_after_a_lost_race_is_repeated(catalog: OlympiaCatalog, table: Table) -> None:
    first = lambda: catalog.load_table("ns.t").append(ROWS)  # noqa: E731
    late = through(BeforeRoot(catalog.store_catalog.store, first), catalog)
    late.load_table("ns.t").append(ROWS)
    assert rows_in(catalog) == 6


def test_a_commit_with_requirements_still_met_is_repeated(catalog: OlympiaCatalog, table: Table) -> None:
    """Properties do not ask which snapshot is current."""
    first = lambda: catalog.load_table("ns.t").append(ROWS)  # noqa: E731
    late = through(BeforeRoot(catalog.store_catalog.store, first), catalog)
    late.load_table("ns.t").transaction().set_properties({"a": "1"}).commit_transaction()
    assert rows_in(catalog) == 3
    assert catalog.load_table("ns.t").properties["a"] == "1"
    # the metadata that was made for nothing is gone
    assert len(metadata_files(catalog)) == 3


def test_incompatible_changes_conflict(catalog: OlympiaCatalog, table: Table) -> None:
    from pyiceberg.types import LongType

    def first() -> None:
        catalog.load_table("ns.t").update_schema().add_column("mine", LongType()).commit()

    late = through(BeforeRoot(catalog.store_catalog.store, first), catalog)
    with pytest.raises(CommitFailedException, match="current schema id has changed"):
        late.load_table("ns.t").update_schema().add_column("theirs", LongType()).commit()
    assert catalog.load_table("ns.t").schema().column_names == ["id", "mine"]
    assert len(metadata_files(catalog)) == 2


def test_a_concurrent_create_of_the_same_table_fails(catalog: OlympiaCatalog, table: Table) -> None:
    first = lambda: catalog.create_table("ns.u", ROWS.schema)  # noqa: E731
    late = through(BeforeRoot(catalog.store_catalog.store, first), catalog)
    with pytest.raises(TableAlreadyExistsError):
        late.create_table("ns.u", ROWS.schema)
    assert len(metadata_files(catalog)) == 2


def test_writers_of_different_tables_do_not_disturb_each_other(catalog: OlympiaCatalog, table: Table) -> None:
    catalog.create_table("ns.u", ROWS.schema)
    first = lambda: catalog.load_table("ns.u").append(ROWS)  # noqa: E731
    late = through(BeforeRoot(catalog.store_catalog.store, first), catalog)
    before = late.version
    late.load_table("ns.t").append(ROWS)
    assert late.version == before + 2
    assert (rows_in(catalog), rows_in(catalog, "ns.u")) == (3, 3)
    # made once: what others commit elsewhere is no reason to write the metadata again
    assert len(metadata_files(catalog)) == 4


# Several tables in one commit


def test_several_tables_change_together(catalog: OlympiaCatalog, table: Table) -> None:
    before = catalog.version
    with catalog.transaction("nightly load") as together:
        together.create_namespace("new")
        together.load_table("ns.t").append(ROWS)
        together.create_table("new.u", ROWS.schema).append(ROWS)
        together.load_table("new.u").append(ROWS)
        together.rename_table("new.u", "new.v")
        assert (rows_in(together), rows_in(together, "new.v")) == (3, 6)
        assert together.version == catalog.version == before
        assert rows_in(catalog) == 0
        assert not catalog.namespace_exists("new")
    assert catalog.version == before + 1
    assert (rows_in(catalog), rows_in(catalog, "new.v")) == (3, 6)


def test_a_transaction_that_fails_changes_nothing(catalog: OlympiaCatalog, table: Table) -> None:
    before, files = catalog.version, metadata_files(catalog)
    with pytest.raises(ZeroDivisionError), catalog.transaction() as together:  # noqa: PT012
        together.load_table("ns.t").append(ROWS)
        together.create_table("ns.u", ROWS.schema)
        raise ZeroDivisionError
    assert (catalog.version, metadata_files(catalog)) == (before, files)


def test_after_a_transaction_has_failed_nothing_is_taken(catalog: OlympiaCatalog, table: Table) -> None:
    with pytest.raises(ZeroDivisionError), catalog.transaction() as together:
        raise ZeroDivisionError
    with pytest.raises(TransactionClosed):
        together.create_namespace("late")


def test_a_call_that_fails_in_a_transaction_leaves_nothing_of_itself(catalog: OlympiaCatalog, table: Table) -> None:
    there = {("ns", "u"): table.metadata_location, ("ns", "t"): table.metadata_location}
    with catalog.transaction() as together:
        with pytest.raises(TableAlreadyExistsError):
            together.register_tables(there)
        together.create_namespace("new")
    assert (catalog.table_exists("ns.u"), catalog.namespace_exists("new")) == (False, True)


def test_a_transaction_conflicts_as_a_whole(catalog: OlympiaCatalog, table: Table) -> None:
    catalog.create_table("ns.u", ROWS.schema)
    with pytest.raises(CommitFailedException), catalog.transaction() as together:  # noqa: PT012
        together.load_table("ns.u").append(ROWS)
        together.load_table("ns.t").append(ROWS)
        catalog.load_table("ns.t").append(ROWS)
    assert (rows_in(catalog), rows_in(catalog, "ns.u")) == (3, 0)
    assert len(metadata_files(catalog)) == 3


def test_a_transaction_goes_together_with_writers_of_other_tables(catalog: OlympiaCatalog, table: Table) -> None:
    catalog.create_table("ns.u", ROWS.schema)
    with catalog.transaction() as together:
        together.load_table("ns.t").append(ROWS)
        catalog.load_table("ns.u").append(ROWS)
    assert (rows_in(catalog), rows_in(catalog, "ns.u")) == (3, 3)


def test_a_transaction_holds_no_other(catalog: OlympiaCatalog) -> None:
    with catalog.transaction() as together:
        with pytest.raises(ValueError, match="no transactions inside"):
            together.transaction()
        with pytest.raises(ValueError, match="version of its own"):
            together.at("latest")


# What a failed commit leaves


class NoRoot(WrappedStore):
    """A store that refuses roots."""

    def create(self, path: str, data: bytes) -> None:
        if parse_root_path(path) is not None:
            raise StorageFailed(f"{path}: refused")
        super().create(path, data)


def test_metadata_of_a_commit_that_failed_is_removed(catalog: OlympiaCatalog, table: Table) -> None:
    files = metadata_files(catalog)
    with pytest.raises(StorageFailed, match="refused"):
        through(NoRoot(catalog.store_catalog.store), catalog).load_table("ns.t").append(ROWS)
    assert metadata_files(catalog) == files


def test_metadata_that_cannot_be_removed_is_named(catalog: OlympiaCatalog, table: Table) -> None:
    files = metadata_files(catalog)
    io = {"py-io-impl": "tests.helpers.iceberg_io.NothingIsDeleted"}
    failing = through(NoRoot(catalog.store_catalog.store), catalog, **io)
    with pytest.raises(StorageFailed) as failed:
        failing.load_table("ns.t").append(ROWS)
    [left] = metadata_files(catalog) - files
    assert f"left behind: {left}" in str(failed.value)


def test_metadata_that_cannot_be_written_stops_the_commit(
    catalog: OlympiaCatalog, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    before, files = catalog.version, metadata_files(catalog)
    with pytest.raises(StorageFailed, match="file"), catalog.transaction() as together:  # noqa: PT012
        together.load_table("ns.t").append(ROWS)
        together.create_table("ns.u", ROWS.schema, location=str(tmp_path / "file" / "u"))
    assert (catalog.version, metadata_files(catalog)) == (before, files)


def test_metadata_is_on_the_disk_before_the_root(
    catalog: OlympiaCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noted(file: int) -> None:
        sync(file)
        synced.append(os.readlink(f"/proc/self/fd/{file}"))

    monkeypatch.setattr(os, "fsync", noted)
    made = catalog.create_table("ns.u", ROWS.schema)
    folder = os.path.dirname(made.metadata_location)
    root = next(at for at, name in enumerate(synced) if "/vn" in name)
    # the file, under the name that it is written by, and each folder on the way to it
    assert any(name.startswith(f"{folder}/") for name in synced[:root])
    assert {folder, os.path.dirname(folder)} <= set(synced[:root])


class RootUnknown(AmbiguousStore):
    """Does not say whether it created a root, and does not show it either."""

    def _write(self, method: str, path: str, write: Callable[[], None]) -> None:
        self.fail_at = range(self.writes, self.writes + 1) if parse_root_path(path) is not None else ()
        super()._write(method, path, write)

    def read(self, path: str) -> bytes:
        if parse_root_path(path) is not None and self.fail_at:
            raise StorageFailed(f"{path}: no answer")
        return super().read(path)


@pytest.mark.parametrize("mode", ["lost_reply", "lost_request"])
def test_when_the_outcome_is_unknown_the_metadata_stays(catalog: OlympiaCatalog, table: Table, mode: str) -> None:
    files = metadata_files(catalog)
    unknown = through(RootUnknown(catalog.store_catalog.store, (), mode), catalog)  # type: ignore[arg-type]
    with pytest.raises(CommitStateUnknownException) as error:
        unknown.load_table("ns.t").append(ROWS)
    [kept] = metadata_files(catalog) - files
    assert kept in str(error.value)
    assert rows_in(catalog) == (3 if mode == "lost_reply" else 0)


def test_wherever_the_power_goes_each_metadata_file_has_a_name(catalog: OlympiaCatalog, table: Table) -> None:
    """A definition names it, which fsck shows when no version has it: definitions are written first."""
    store, counting = catalog.store_catalog.store, CuttingStore(catalog.store_catalog.store)
    through(counting, catalog).load_table("ns.t").append(ROWS)
    assert counting.writes >= 3
    outcomes = set()
    for cut_at in range(counting.writes):
        before = rows_in(catalog)
        with pytest.raises(PowerCut):
            through(CuttingStore(store, cut_at), catalog).load_table("ns.t").append(ROWS)
        assert metadata_files(catalog) <= named_files(catalog)
        outcomes.add(rows_in(catalog) - before)
    assert outcomes == {0, 3}


# A distributed transaction


def test_several_processes_work_in_one_transaction(catalog: OlympiaCatalog, table: Table) -> None:
    running = distributed.begin(catalog.store_catalog)
    mine, theirs = catalog.inside(running.id), OlympiaCatalog("b", **catalog.properties).inside(running.id)
    mine.create_table("ns.u", ROWS.schema).append(ROWS)
    theirs.load_table("ns.t").append(ROWS)
    assert (rows_in(theirs, "ns.u"), rows_in(mine)) == (3, 3)
    assert rows_in(catalog) == 0
    assert not catalog.table_exists("ns.u")
    before = catalog.version
    distributed.load(catalog.store_catalog, running.id).commit()
    assert (catalog.version, rows_in(catalog), rows_in(catalog, "ns.u")) == (before + 1, 3, 3)


def test_a_distributed_transaction_conflicts_with_an_earlier_append(catalog: OlympiaCatalog, table: Table) -> None:
    running = distributed.begin(catalog.store_catalog)
    catalog.inside(running.id).load_table("ns.t").append(ROWS)
    table.append(ROWS)
    with pytest.raises(CommitConflict):
        distributed.load(catalog.store_catalog, running.id).commit()
    assert rows_in(catalog) == 3
    with pytest.raises(ValueError, match="no transactions inside"):
        catalog.inside(running.id).transaction()


def reads_table(inside: OlympiaCatalog) -> None:
    inside.load_table("ns.t")


def reads_none(inside: OlympiaCatalog) -> None:
    with pytest.raises(NoSuchTableError):
        inside.load_table("ns.u")
    # what is looked at later does not make this forgotten
    inside.list_namespaces()


def reads_list(inside: OlympiaCatalog) -> None:
    inside.list_tables("ns")


def fails(inside: OlympiaCatalog) -> None:
    with pytest.raises(NoSuchTableError):
        inside.drop_table("ns.u")


@pytest.mark.parametrize("read", [reads_table, reads_none, reads_list, fails])
def test_reads_in_a_distributed_transaction_cause_conflicts(
    catalog: OlympiaCatalog, table: Table, read: Callable[[OlympiaCatalog], None]
) -> None:
    running = distributed.begin(catalog.store_catalog, IsolationLevel.SERIALIZABLE)
    inside = catalog.inside(running.id)
    read(inside)
    inside.create_namespace("new")
    table.append(ROWS)
    catalog.create_table("ns.u", ROWS.schema)
    with pytest.raises(CommitConflict):
        distributed.load(catalog.store_catalog, running.id).commit()


class FailsAfterTheSave(WrappedStore):
    """Half an hour goes by while a save is written, and after it the store fails."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        super().__init__(store)
        self.clock = clock
        self.armed = self.failing = False

    def create(self, path: str, data: bytes) -> None:
        if self.failing:
            raise StorageFailed(f"{path}: no answer")
        super().create(path, data)
        if self.armed and path.startswith("dtxn/"):
            self.failing = True
            self.clock.advance(31 * MINUTE)


def test_metadata_of_a_save_survives_a_later_failure(tmp_path: Path) -> None:
    """A save that took too long is made again; the first one stands all the same."""
    clock, warehouse = FakeClock(), str(tmp_path / "lake")
    store = FailsAfterTheSave(open_store(warehouse), clock)
    catalog = OlympiaCatalog.of(Catalog.create(store, clock=clock), warehouse=warehouse)
    catalog.create_namespace("ns")
    running = distributed.begin(catalog.store_catalog)
    store.armed = True
    with pytest.raises(CommitStateUnknownException, match="saved, and then it failed"):
        catalog.inside(running.id).create_table("ns.t", ROWS.schema)
    store.armed = store.failing = False
    distributed.load(catalog.store_catalog, running.id).commit()
    assert rows_in(catalog) == 0


def test_a_failed_create_keeps_an_existing_file(catalog: OlympiaCatalog, table: Table, tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("somebody else's")
    changes = TableChanges(catalog.store_catalog.begin(), catalog.metadata_files)
    changes.create(TableName("ns", "u"), table.metadata, str(tmp_path / "there.json"))
    with pytest.raises(PathTaken):
        changes.commit(Author())
    assert (tmp_path / "there.json").read_text() == "somebody else's"
    assert not catalog.table_exists("ns.u")
