"""Register Parquet files as Iceberg tables in one transaction: new files are added to their tables."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableUpdate
from pyiceberg.typedef import Record

from olympia_cli.catalog.properties import PARQUET_FILES, PARQUET_FOLDER
from olympia_cli.errors import command_words
from olympia_cli.iceberg import (
    CatalogTransaction,
    OlympiaCatalog,
    TableState,
    columns_told,
    identifier_of,
    partition_spec,
    schema_without_ids,
)
from olympia_cli.importers.footers import Footers
from olympia_cli.importers.objects import Renaming
from olympia_cli.importers.parquet import (
    Conflict,
    Footer,
    KnownFiles,
    ParquetFile,
    ParquetFolder,
    name_of,
    partition_value,
    typed_partitions,
    unite,
)
from olympia_cli.importers.result import ImportAdvice, ImportedTable, ImportResult, Omission
from olympia_cli.names import TableName

# Create a table with its files as the first snapshot, during an import: this takes most of the time of importing a
# hundred thousand tables.


def new_table(
    staged: OlympiaCatalog, name: TableName, metadata: TableMetadata, files: Iterable[DataFile]
) -> TableState:
    """Return the table's metadata; its manifests are written. The table exists once a definition names the metadata."""
    location = load_location_provider(metadata.location, metadata.properties).new_table_metadata_file_location()
    kind = _Remembering if isinstance(getattr(Transaction, "table_metadata", None), property) else Transaction
    transaction = kind(staged.table_of(name, TableState(metadata, location)))
    if files := list(files):
        with transaction.update_snapshot().fast_append() as append:
            for file in files:
                append.append_data_file(file)
    return TableState(transaction.table_metadata, location)


def data_file(**values: Any) -> DataFile:
    """Return an entry for an existing file. PyIceberg 0.9 has another constructor."""
    made: DataFile = getattr(DataFile, "from_args", DataFile)(**values)
    return made


class _Remembering(Transaction):
    """A cache for the metadata: PyIceberg asks for it a dozen times per append, and would apply all updates each time.
    Version 0.9 keeps the metadata itself."""

    _done: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        if self._done is None or self._done[0] is not self._updates:
            self._done = (self._updates, super().table_metadata)
        return self._done[1]


_PAST_UNKNOWN = "its table was changed here and snapshots are expired: its new files can no longer be told apart"
_ANEW = "drop the table: the next import adds all files of the folder, also those that were removed here"
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for one table: create it, or add columns and files. `columns` are its partitions, and `known` is how
    many files of the folder were ever part of it."""

    name: TableName
    location: str
    schema: pa.Schema
    columns: tuple[str, ...]
    footers: tuple[Footer, ...]
    is_new: bool
    known: int

    @property
    def found(self) -> ImportedTable:
        rows = sum(footer.metadata.num_rows for footer in self.footers)
        size = sum(footer.file.size for footer in self.footers)
        columns = tuple((field.name, _type_told(field.type)) for field in self.schema)
        return ImportedTable(
            self.name, self.location, self.location, files=len(self.footers), rows=rows, size=size, columns=columns
        )


@lru_cache(maxsize=2**12)
def _type_told(type: pa.DataType) -> str:
    # an import tells the columns of a hundred thousand tables, which have few types
    [(_, told)] = columns_told(schema_without_ids(pa.schema([("column", type)])))
    return told


@dataclass(frozen=True, slots=True)
class _Asked:
    """A folder, its new files, and the columns and partitions of its table, if it exists. `known` is the number of
    files that were ever part of it."""

    name: TableName
    location: str
    folder: ParquetFolder
    new: list[ParquetFile]
    schema: pa.Schema | None
    columns: tuple[str, ...]
    known: int


@dataclass(slots=True)
class ParquetImport:
    """An import of folders of Parquet files into a catalog; None inspects the folders alone.

    Memory holds only the footers that are read together, so it does not grow with the files of all tables.
    """

    base: str
    footers: Footers
    renaming: Renaming
    catalog: OlympiaCatalog | None

    def run(self, folders: Sequence[ParquetFolder], done: ImportResult, message: str, dry_run: bool) -> int:
        """Import all folders in one transaction, or report what would be done. Return the version."""
        assert self.catalog is not None
        if dry_run:
            self.inspect(folders, done)
            return self.catalog.version
        # planned on the transaction's own base: a concurrent import is a conflict, and adds no file twice
        with self.catalog.transaction(message) as staged:
            for plan in self._plans(folders, done, staged):
                self._bring(plan, staged, done)
        assert staged.last_version is not None
        return staged.last_version

    def inspect(self, folders: Sequence[ParquetFolder], done: ImportResult) -> None:
        """Record what an import would do."""
        for plan in self._plans(folders, done, self.catalog):
            (done.created if plan.is_new else done.moved_on).append(plan.found)

    def _plans(
        self, folders: Sequence[ParquetFolder], done: ImportResult, catalog: OlympiaCatalog | None
    ) -> Iterator[Plan]:
        """Yield the plans. Folders that cannot be imported are recorded as left out, and tables without new files as
        unchanged."""
        names: dict[TableName, str] = {}
        waiting: list[_Asked] = []
        for folder in folders:
            asked = self._ask(folder, names, done, catalog)
            if asked is not None:
                waiting.append(asked)
            if sum(len(one.new) for one in waiting) >= self.footers.at_once:
                yield from self._planned(waiting, done)
                waiting = []
        yield from self._planned(waiting, done)

    def _ask(
        self, folder: ParquetFolder, names: dict[TableName, str], done: ImportResult, catalog: OlympiaCatalog | None
    ) -> _Asked | None:
        name, location = name_of(self.base, folder.folder, self.renaming), self._location(folder.folder)
        if name in names:
            done.left_out.append(Omission(folder.folder, f"{names[name]} has the name {name} too"))
            return None
        names[name] = folder.folder
        identifier = identifier_of(name)
        if catalog is not None and catalog.view_exists(identifier):
            done.left_out.append(Omission(folder.folder, f"a view has the name {name}"))
            return None
        if catalog is None or not catalog.table_exists(identifier):
            return _Asked(name, location, folder, folder.files, None, folder.columns, 0)
        table = catalog.load_table(identifier)
        if table.properties.get(PARQUET_FOLDER) != location:
            done.left_out.append(Omission(folder.folder, f"another table has the name {name}"))
            return None
        known = KnownFiles.of(table, location)
        self._compare(folder, known, location, done)
        new = [file for file in folder.files if self._location(file.path) not in known]
        if not new:
            done.unchanged += 1
            return None
        if not known.is_all:
            remedy = ImportAdvice(_ANEW, command_words("table", "drop", names=[str(name)]))
            done.left_out.append(Omission(folder.folder, _PAST_UNKNOWN, remedy))
            return None
        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        columns = tuple(field.name for field in table.spec().fields)
        return _Asked(name, location, folder, new, schema, columns, known.count)

    def _planned(self, waiting: Sequence[_Asked], done: ImportResult) -> Iterator[Plan]:
        read = self.footers.read([file for one in waiting for file in one.new])
        for one in waiting:
            footers: list[Footer] = []
            for file, footer in zip(one.new, read, strict=False):
                if isinstance(footer, str):
                    done.left_out.append(Omission(file.path, footer))
                else:
                    footers.append(footer)
            if plan := _plan(one, footers, done):
                yield plan

    def _compare(self, folder: ParquetFolder, known: KnownFiles, location: str, done: ImportResult) -> None:
        """Report files of the table that are missing or have changed: files are never removed from the table, and are
        added once."""
        sizes = {self._location(file.path): file.size for file in folder.files}
        for path, size in known.past.items():
            if sizes.get(path, size) != size:
                done.left_out.append(Omission(path, "it was part of the table once, and is another file by now"))
        for path, size in known.present.items():
            if path not in sizes and path.startswith(f"{location}/"):
                done.left_out.append(Omission(path, "it is part of the table, and not there any more"))
            elif sizes.get(path, size) != size:
                done.left_out.append(Omission(path, "it is part of the table, and another file by now"))

    def _location(self, path: str) -> str:
        return f"{self.base}/{path}".rstrip("/")

    def _bring(self, plan: Plan, staged: CatalogTransaction, done: ImportResult) -> None:
        """Stage a plan in a transaction: one metadata file per table."""
        namespace = (plan.name.namespace,)
        if not staged.namespace_exists(namespace):
            staged.create_namespace(namespace)
            done.namespaces += 1
        (self._make if plan.is_new else self._extend)(plan, staged)
        (done.created if plan.is_new else done.moved_on).append(plan.found)

    def _make(self, plan: Plan, staged: CatalogTransaction) -> None:
        schema = assign_fresh_schema_ids(schema_without_ids(plan.schema))
        properties = {
            PARQUET_FOLDER: plan.location,
            PARQUET_FILES: str(len(plan.footers)),
            # the files have no column ids, so readers use the names
            TableProperties.DEFAULT_NAME_MAPPING: schema.name_mapping.model_dump_json(),
        }
        place, spec = staged.new_folder(plan.name), _spec(plan.columns, schema)
        metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, place, properties)
        made = new_table(staged, plan.name, metadata, self._data_files(plan, metadata))
        staged.staged.create_table(plan.name, staged.stage(made))

    def _extend(self, plan: Plan, staged: CatalogTransaction) -> None:
        """Add files to a table, and their new columns."""
        with staged.load_table(identifier_of(plan.name)).transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(schema_without_ids(plan.schema))
            metadata = transaction.table_metadata
            transaction.set_properties({PARQUET_FILES: str(plan.known + len(plan.footers))})
            with transaction.update_snapshot().fast_append() as append:
                for file in self._data_files(plan, metadata):
                    append.append_data_file(file)

    def _data_files(self, plan: Plan, metadata: TableMetadata) -> Iterator[DataFile]:
        for footer in plan.footers:
            yield _data_file(metadata, footer, self._location(footer.file.path), plan.columns)


def _plan(asked: _Asked, footers: Sequence[Footer], done: ImportResult) -> Plan | None:
    """Return the plan for these files. It does not depend on the reader of the footers."""
    folder, before = asked.folder, asked.schema
    if asked.columns != folder.columns:
        done.left_out.append(Omission(folder.folder, "the table is partitioned in another way"))
        return None
    partitions = list(typed_partitions(replace(folder, files=asked.new), before, footers))
    known = pa.schema([*(before or []), *(one for one in partitions if before is None)])
    schema, fitting, left_out = unite(footers, known)
    done.left_out += left_out
    fitting = [footer for footer in fitting if _fits(footer, schema, folder.columns, done)]
    if not fitting:
        return None
    return Plan(asked.name, asked.location, schema, folder.columns, tuple(fitting), before is None, asked.known)


def _spec(columns: tuple[str, ...], schema: Schema) -> PartitionSpec:
    return partition_spec(columns, schema) if columns else UNPARTITIONED_PARTITION_SPEC


def _fits(footer: Footer, schema: pa.Schema, columns: tuple[str, ...], done: ImportResult) -> bool:
    """Return True if the values in a file's path fit its table."""
    try:
        for name in columns:
            value = partition_value(footer.file.partition[name], schema.field(name).type)
            if name in footer.schema.names and not all(one == value for one in _bounds(footer, name)):
                raise Conflict(f"its column {name!a} has values that differ from its path")
    except Conflict as conflict:
        done.left_out.append(Omission(footer.file.path, str(conflict)))
        return False
    return True


def _bounds(footer: Footer, name: str) -> Iterator[object]:
    """Yield the least and the greatest value of a column per row group; None if the file does not state them."""
    columns = range(footer.metadata.num_columns)
    # nested columns are counted, too
    at = next((at for at in columns if footer.metadata.schema.column(at).path == name), None)
    for group in range(footer.metadata.num_row_groups):
        statistics = None if at is None else footer.metadata.row_group(group).column(at).statistics
        if statistics is None or not statistics.has_min_max:
            yield None
        else:
            yield from (statistics.min, statistics.max)


def _data_file(table: TableMetadata, footer: Footer, location: str, columns: tuple[str, ...]) -> DataFile:
    schema = table.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer.metadata,
        stats_columns=compute_statistics_plan(schema, table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    values = [_stored(partition_value(footer.file.partition[name], arrow.field(name).type)) for name in columns]
    return data_file(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=footer.file.size,
        sort_order_id=None,
        spec_id=table.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _stored(value: object) -> object:
    """Return a partition value as in manifests: a date is its number of days since 1970."""
    return (value - _EPOCH).days if isinstance(value, datetime.date) else value
