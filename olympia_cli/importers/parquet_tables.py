"""Parquet files registered as Iceberg tables, in one transaction: what is new becomes part of its table."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    _pyarrow_to_schema_without_ids,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Record

from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.identifiers import identifier_of
from olympia_cli.iceberg.table_layout import partition_spec
from olympia_cli.importers.iceberg import FoundTable, Imported, LeftOut
from olympia_cli.importers.parquet import (
    Conflict,
    Footer,
    ParquetFile,
    ParquetFolder,
    name_of,
    partition_value,
    typed_partitions,
    unite,
)
from olympia_cli.importers.renaming import Renaming
from olympia_cli.names import TableName

SOURCE = "olympia.import.parquet"
"""Of a table that was made from Parquet files: the folder that they are in."""
_WORKERS = 16
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done for one table: it is made, or columns and files are added. `spec` is how it is partitioned."""

    name: TableName
    location: str
    schema: pa.Schema
    columns: tuple[str, ...]
    footers: tuple[Footer, ...]
    is_new: bool

    @property
    def found(self) -> FoundTable:
        rows = sum(footer.metadata.num_rows for footer in self.footers)
        return FoundTable(self.name, self.location, self.location, frozenset(), len(self.footers), rows)


@dataclass(slots=True)
class ParquetImport:
    """Folders of Parquet files against a catalog; None looks at the folders alone."""

    base: str
    io: FileIO
    renaming: Renaming
    catalog: OlympiaCatalog | None

    def run(self, folders: list[ParquetFolder], done: Imported, message: str, dry_run: bool) -> int:
        """Bring all of it in one transaction, or only tell what would be done; the version then."""
        assert self.catalog is not None
        plans = self.plan(folders, done)
        if dry_run or not plans:
            for plan in plans:
                (done.created if plan.is_new else done.moved_on).append(plan.found)
            return self.catalog.version
        with self.catalog.transaction(message) as staged:
            for plan in plans:
                self.bring(plan, staged, done)
        assert staged.last_version is not None
        return staged.last_version

    def plan(self, folders: list[ParquetFolder], done: Imported) -> list[Plan]:
        """What is to be done. What cannot be is noted as left out, and a table with nothing new as unchanged."""
        plans: list[Plan] = []
        names: dict[TableName, str] = {}
        for folder in folders:
            name, location = name_of(self.base, folder.folder, self.renaming), self._location(folder.folder)
            if name in names:
                done.left_out.append(LeftOut(folder.folder, f"{names[name]} has the name {name} too"))
                continue
            names[name] = folder.folder
            plan = self._plan(name, location, folder, done)
            if plan is not None:
                plans.append(plan)
        return plans

    def _plan(self, name: TableName, location: str, folder: ParquetFolder, done: Imported) -> Plan | None:
        table = self._table(name)
        if table is not None and table.properties.get(SOURCE) != location:
            done.left_out.append(LeftOut(folder.folder, f"another table has the name {name}"))
            return None
        known = {} if table is None else _known_files(table)
        new = [file for file in folder.files if self._location(file.path) not in known]
        self._compare(folder, known, location, done)
        if table is not None and not new:
            done.unchanged += 1
            return None
        before = None if table is None else schema_to_pyarrow(table.schema(), include_field_ids=False)
        footers = list(self._footers(new, done))
        partitions = list(typed_partitions(replace(folder, files=new), before, footers))
        known_columns = pa.schema([*(before or []), *(one for one in partitions if before is None)])
        schema, fitting, left_out = unite(footers, known_columns)
        done.left_out += left_out
        fitting = [footer for footer in fitting if _fits(footer, schema, folder.columns, done)]
        if table is not None and [field.name for field in table.spec().fields] != list(folder.columns):
            done.left_out.append(LeftOut(folder.folder, "the table is partitioned in another way"))
            return None
        if not fitting:
            return None
        return Plan(name, location, schema, folder.columns, tuple(fitting), table is None)

    def _compare(self, folder: ParquetFolder, known: Mapping[str, int], location: str, done: Imported) -> None:
        """Files of the table are never taken out: that they are gone, or other ones by now, is told."""
        sizes = {self._location(file.path): file.size for file in folder.files}
        for path, size in known.items():
            if path not in sizes and path.startswith(f"{location}/"):
                done.left_out.append(LeftOut(path, "it is part of the table, and not there any more"))
            elif sizes.get(path, size) != size:
                done.left_out.append(LeftOut(path, "it is part of the table, and another file by now"))

    def _footers(self, files: list[ParquetFile], done: Imported) -> Iterator[Footer]:
        with ThreadPoolExecutor(_WORKERS) as pool:
            for file, footer in zip(files, pool.map(self._footer, files), strict=True):
                if isinstance(footer, str):
                    done.left_out.append(LeftOut(file.path, footer))
                else:
                    yield footer

    def _footer(self, file: ParquetFile) -> Footer | str:
        try:
            with self.io.new_input(self._location(file.path)).open() as stream:
                metadata = pq.read_metadata(stream)
            schema = metadata.schema.to_arrow_schema()
            _pyarrow_to_schema_without_ids(schema)
            return Footer(file, metadata, schema)
        except Exception as error:
            # one file that cannot be read is no reason to leave the others
            return "it cannot be read: " + (" ".join(str(error).split()) or type(error).__name__)[:200]

    def _table(self, name: TableName) -> Table | None:
        if self.catalog is None or not self.catalog.table_exists(identifier_of(name)):
            return None
        return self.catalog.load_table(identifier_of(name))

    def _location(self, path: str) -> str:
        return f"{self.base}/{path}".rstrip("/")

    def bring(self, plan: Plan, staged: OlympiaCatalog, done: Imported) -> None:
        """Stage it in a transaction."""
        namespace = (plan.name.namespace,)
        if not staged.namespace_exists(namespace):
            staged.create_namespace(namespace)
            done.namespaces += 1
        table = self._make(plan, staged) if plan.is_new else self._widen(plan, staged)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for footer in plan.footers:
                append.append_data_file(_data_file(table, footer, self._location(footer.file.path), plan.columns))
        (done.created if plan.is_new else done.moved_on).append(plan.found)

    def _make(self, plan: Plan, staged: OlympiaCatalog) -> Table:
        schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(plan.schema))
        spec = _spec(plan.columns, schema)
        # the files have no ids for their columns, so readers go by the names
        names = schema.name_mapping.model_dump_json()
        properties = {SOURCE: plan.location, TableProperties.DEFAULT_NAME_MAPPING: names}
        return staged.create_table(identifier_of(plan.name), schema, partition_spec=spec, properties=properties)

    def _widen(self, plan: Plan, staged: OlympiaCatalog) -> Table:
        table = staged.load_table(identifier_of(plan.name))
        with table.update_schema() as update:
            update.union_by_name(_pyarrow_to_schema_without_ids(plan.schema))
        return staged.load_table(identifier_of(plan.name))


def _spec(columns: tuple[str, ...], schema: Schema) -> PartitionSpec:
    return partition_spec(columns, schema) if columns else UNPARTITIONED_PARTITION_SPEC


def _fits(footer: Footer, schema: pa.Schema, columns: tuple[str, ...], done: Imported) -> bool:
    """Whether the path of a file says values that its table can have."""
    try:
        for name in columns:
            value = partition_value(footer.file.partition[name], schema.field(name).type)
            if name in footer.schema.names and not all(one == value for one in _bounds(footer, name)):
                raise Conflict(f"its column {name!a} does not hold what its path says throughout")
    except Conflict as conflict:
        done.left_out.append(LeftOut(footer.file.path, str(conflict)))
        return False
    return True


def _bounds(footer: Footer, name: str) -> Iterator[object]:
    """The least and the greatest value of a column, group by group; None where the file does not say."""
    columns = range(footer.metadata.num_columns)
    # columns that lie in others are counted too
    at = next((at for at in columns if footer.metadata.schema.column(at).path == name), None)
    for group in range(footer.metadata.num_row_groups):
        statistics = None if at is None else footer.metadata.row_group(group).column(at).statistics
        if statistics is None or not statistics.has_min_max:
            yield None
        else:
            yield from (statistics.min, statistics.max)


def _known_files(table: Table) -> dict[str, int]:
    """The data files of the table now, and their sizes."""
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io))
    return {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in entries}


def _data_file(table: Table, footer: Footer, location: str, columns: tuple[str, ...]) -> DataFile:
    schema = table.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer.metadata,
        stats_columns=compute_statistics_plan(schema, table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    values = [_stored(partition_value(footer.file.partition[name], arrow.field(name).type)) for name in columns]
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=footer.file.size,
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _stored(value: object) -> object:
    """A partition value as manifests hold it: a date is the days since 1970."""
    return (value - _EPOCH).days if isinstance(value, datetime.date) else value


def open_io(location: str, properties: Mapping[str, str]) -> FileIO:
    """PyIceberg's way to the files."""
    return load_file_io(dict(properties), location)
