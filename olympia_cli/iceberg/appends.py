"""Rows that several processes write into tables, and one process commits.

1. Each table gets a folder for the files of this append.
2. Processes write data files there: `write_rows`.
3. A marker file is created in each folder, to show that a commit is under way. The data files are checked, and all
   tables are committed together: THE COMMIT.
4. Files that the commit does not name are deleted from the folders. They come from failed or repeated tasks.

If the commit failed, the folders are emptied. If its outcome is unknown, the marker of step 3 stays, and as long as it
exists the folder is not emptied. The folder is also kept if a snapshot of the table names the append, or if another
table now has the name.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import uuid4

import pyarrow
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from olympia_cli.catalog.commit import retry
from olympia_cli.catalog.properties import APPEND, RUN
from olympia_cli.errors import CommitConflict, InvalidOption, OlympiaError, PathMissing, PathTaken
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.conversion import identifier_of
from olympia_cli.iceberg.internals import write_data_files
from olympia_cli.iceberg.locations import parse_location, plain_folder
from olympia_cli.iceberg.rows import as_columns
from olympia_cli.iceberg.settings import store_options
from olympia_cli.iceberg.transaction import CatalogTransaction
from olympia_cli.names import TableName
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store

_DATA_PATH = "write.data.path"
_COMMITTING = f"{TEMPORARY_PREFIX}committing"
_MOST_BYTES = 128 * 2**20
"""The bytes of rows that a process buffers before it writes files, one per partition."""
_WORKERS = 16
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Destination:
    """A table as of the start of the append, and the folder for its files."""

    name: TableName
    uuid: str
    spec_id: int
    metadata_location: str
    folder: str
    run: str | None
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """PyIceberg's properties for the files. May contain secrets."""

    @property
    def id(self) -> str:
        return self.folder.rpartition("/")[2]

    @property
    def store(self) -> Store:
        """The store whose root is the folder."""
        return folder_store(self.folder, self.properties)


@lru_cache(maxsize=16)
def folder_store(folder: str, properties: tuple[tuple[str, str], ...]) -> Store:
    """Open a folder of data files with PyIceberg's properties."""
    uri = parse_location(folder).text
    return open_store(uri, store_options(uri, dict(properties)) or None)


def destination(table: Table, name: TableName, run: str | None, properties: Mapping[str, str]) -> Destination:
    """Do step 1. Nothing is written yet."""
    metadata = table.metadata
    # raises an error here rather than in every task
    load_location_provider(metadata.location, metadata.properties)
    data = metadata.properties.get(_DATA_PATH) or f"{metadata.location.rstrip('/')}/data"
    folder = f"{plain_folder(data)}/{run or 'append'}-{uuid4().hex[:12]}"
    spec = metadata.default_spec_id
    uuid, given = str(metadata.table_uuid), tuple(sorted(properties.items()))
    return Destination(name, uuid, spec, table.metadata_location, folder, run, given)


def was_done(metadata: TableMetadata, run: str | None) -> bool:
    """Return True if an append with this name is in the history of the table's current snapshot.

    An append that was rolled back does not count.
    """
    return run is not None and _says(_ancestors(metadata), RUN, run)


def partly_done(run: str | None, done: Iterable[TableName], lacking: Iterable[TableName]) -> InvalidOption:
    """Return the error for an append that only some tables have. Skipping it would lose rows; repeating it would
    duplicate rows.
    """
    what = "this append" if run is None else f"the append {run!a}"
    has, lacks = (", ".join(map(str, names)) for names in (done, lacking))
    hint = "nothing was committed; append to those that lack it on their own"
    return InvalidOption(f"{what} is in {has}, and not in {lacks}", hint=hint)


def _is_in(metadata: TableMetadata, destination: Destination) -> bool:
    """Return True if any snapshot names the append's folder. Its files then belong to the table, even after a
    rollback.
    """
    return _says(metadata.snapshots, APPEND, destination.id)


def _says(snapshots: Iterable[Snapshot], key: str, value: str) -> bool:
    summaries = (snapshot.summary for snapshot in snapshots)
    return any(summary is not None and summary.get(key) == value for summary in summaries)


def _ancestors(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield the current snapshot and its ancestors. If an ancestor has expired, yield all snapshots older than its
    child.
    """
    others: dict[int | None, Snapshot] = {one.snapshot_id: one for one in metadata.snapshots}
    next, last = metadata.current_snapshot_id, None
    while (snapshot := others.pop(next, None)) is not None:
        yield snapshot
        next, last = snapshot.parent_snapshot_id, snapshot
    if last is not None and not _is_first(last):
        yield from (one for one in others.values() if _age(one) < _age(last))


def _is_first(snapshot: Snapshot) -> bool:
    """Return True if the snapshot had no parent: all of its files are its own.

    The parent id alone does not tell, because PyIceberg removes it when the parent expires.
    """
    summary = snapshot.summary
    if snapshot.parent_snapshot_id is not None or summary is None:
        return False
    return summary.get("total-data-files") == (summary.get("added-data-files") or "0")


def _age(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def write_rows(
    metadata: TableMetadata, io: FileIO, folder: str, batches: Iterable[pyarrow.RecordBatch]
) -> Iterator[DataFile]:
    """Do step 2: write rows as data files of the table, partitioned, with field ids and statistics.

    Columns are matched by name, and required values are checked.
    """
    schema = schema_to_pyarrow(metadata.schema(), include_field_ids=False)
    inside = metadata.model_copy(update={"properties": {**metadata.properties, _DATA_PATH: folder}})
    id, counter = uuid4(), itertools.count()
    for part in _parts(batches):
        rows = as_columns(schema, pyarrow.Table.from_batches(part), "the data")
        yield from write_data_files(inside, rows, io, id, counter)


def _parts(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[list[pyarrow.RecordBatch]]:
    part: list[pyarrow.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            part.append(batch)
        if sum(one.nbytes for one in part) >= _MOST_BYTES:
            yield part
            part = []
    if part:
        yield part


def commit_append(
    catalog: OlympiaCatalog, written: Mapping[Destination, Sequence[DataFile]], message: str = ""
) -> int | None:
    """Do steps 3 and 4, all in one commit. Return its version.

    Return None if there is nothing to commit, or if all tables already have this append, or one of the same name. Raise
    InvalidOption if only some of them have it.
    """
    filled = {destination: files for destination, files in written.items() if files}
    marked = list[Destination]()
    try:
        for destination, files in filled.items():
            # an existing marker means that a commit of these files may have happened, so keep it
            with suppress(PathTaken):
                destination.store.create(_COMMITTING, uuid4().bytes)
                marked.append(destination)
            _check_there(catalog, destination, files)
        version = _commit(catalog, filled, message)
    except CommitStateUnknownException as error:
        folders = ", ".join(destination.folder for destination in filled)
        raise CommitStateUnknownException(f"{error}; the data files are kept: {folders}") from error
    except Exception:
        _unmark(marked)
        raise
    if version is None:
        _unmark(marked)
        give_up_append(catalog, written)
        return None
    for destination, files in filled.items():
        _sweep(destination, files)
    give_up_append(catalog, written.keys() - filled.keys())
    return version


def _unmark(marked: Iterable[Destination]) -> None:
    for destination in marked:
        destination.store.delete_many([_COMMITTING])


def give_up_append(catalog: OlympiaCatalog, destinations: Iterable[Destination]) -> None:
    """Empty the folders, unless a commit names their files or may do so.

    The caller may give up without knowing that the commit succeeded. On any doubt the files are kept, also if another
    table now has the name.
    """
    for destination in destinations:
        try:
            metadata = catalog.load_table(identifier_of(destination.name)).metadata
            _check_table(metadata, destination)
            if not destination.store.exists(_COMMITTING) and not _is_in(metadata, destination):
                _sweep(destination, ())
        except Exception as error:
            _log.warning("what was written stays in %s: %s", destination.folder, error)


def _sweep(destination: Destination, named: Sequence[DataFile]) -> None:
    top = parse_location(destination.folder).path + "/"
    kept = {parse_location(file.file_path).path.removeprefix(top) for file in named}
    try:
        store = destination.store
        store.delete_many([file.path for file in store.list(temporary=True) if file.path not in kept])
    except OlympiaError as error:
        _log.warning("files that no table needs may be left in %s: %s", destination.folder, error)


def _commit(catalog: OlympiaCatalog, filled: Mapping[Destination, Sequence[DataFile]], message: str) -> int | None:
    def change() -> int | None:
        together, staged = CatalogTransaction.begin(catalog), list[Table]()
        try:
            tables = {one.name: together.load_table(identifier_of(one.name)) for one in filled}
            if _all_done({one: tables[one.name].metadata for one in filled}):
                return None
            for destination, files in filled.items():
                # a second destination for the same table needs the state after the first
                table = tables.pop(destination.name, None) or together.load_table(identifier_of(destination.name))
                _check_same(table.metadata, destination)
                staged.append(_appended(table, files, destination))
            return together.commit(message).version if staged else None
        except CommitStateUnknownException:
            raise
        except Exception:
            _discard(staged)
            raise

    def is_conflict(error: Exception) -> bool:
        return isinstance(error, CommitFailedException)

    return retry(change, is_conflict=is_conflict, clock=catalog.store_catalog.clock)


def _all_done(found: Mapping[Destination, TableMetadata]) -> bool:
    done = [to for to, metadata in found.items() if _is_in(metadata, to) or was_done(metadata, to.run)]
    if done and (lacking := [to for to in found if to not in done]):
        raise partly_done(done[0].run, (to.name for to in done), (to.name for to in lacking))
    return bool(done)


def _appended(table: Table, files: Sequence[DataFile], destination: Destination) -> Table:
    summary = {APPEND: destination.id} | ({} if destination.run is None else {RUN: destination.run})
    with table.transaction() as changes, changes.update_snapshot(snapshot_properties=summary).fast_append() as append:
        for file in files:
            append.append_data_file(file)
    return table


def _check_same(metadata: TableMetadata, destination: Destination) -> None:
    """Check table and partitioning. Added or removed columns are allowed, because the files can still be read."""
    _check_table(metadata, destination)
    if metadata.default_spec_id != destination.spec_id:
        raise CommitConflict(f"the table {destination.name} is partitioned in another way than when the append began")


def _check_table(metadata: TableMetadata, destination: Destination) -> None:
    if str(metadata.table_uuid) != destination.uuid:
        raise CommitConflict(f"the table {destination.name} is another one than when the append began")


def _check_there(catalog: OlympiaCatalog, destination: Destination, files: Sequence[DataFile]) -> None:
    """Check that this process sees the files that other processes wrote."""
    io = catalog.open_files(destination.folder)

    def problem(file: DataFile) -> str | None:
        try:
            found = len(io.new_input(file.file_path))
        except FileNotFoundError:
            return f"{file.file_path} is missing"
        size = file.file_size_in_bytes
        return None if found == size else f"{file.file_path} has {found} bytes, and {size} were written"

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="append") as pool:
        for said in pool.map(problem, files):
            if said is not None:
                raise PathMissing(
                    f"a written file is missing or incomplete: {said}", hint="nothing was committed; repeat the append"
                )


def _discard(staged: Iterable[Table]) -> None:
    """Delete the manifests of appends that were not committed."""
    for table in staged:
        snapshot = table.metadata.current_snapshot()
        if snapshot is None:
            continue
        with suppress(OSError):
            own: list[Any] = [
                one for one in snapshot.manifests(table.io) if one.added_snapshot_id == snapshot.snapshot_id
            ]
            for location in (*(manifest.manifest_path for manifest in own), snapshot.manifest_list):
                table.io.delete(location)
