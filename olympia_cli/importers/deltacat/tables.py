"""Create or move on a DeltaCAT table as an Iceberg table. Its data files stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate
from pyiceberg.typedef import Record

from olympia_cli.iceberg import OlympiaCatalog, TableState, apply_updates, identifier_of
from olympia_cli.importers.deltacat.contents import Contents, SourceFile
from olympia_cli.importers.deltacat.metadata import PARQUET, DeltaFile, TableVersion
from olympia_cli.importers.deltacat.rewrite import DeltaFiles, MemoryShortage, Piece, PieceFile, Rewriter
from olympia_cli.importers.deltacat.schemas import (
    Rewritable,
    Unfit,
    check_file,
    former_names,
    partition_spec,
    partition_values,
    table_schema,
    with_default,
)
from olympia_cli.importers.footers import LocalFooters, SourceFolder
from olympia_cli.importers.parquet import ParquetFile
from olympia_cli.importers.parquet_tables import data_file, new_table
from olympia_cli.importers.result import Omission
from olympia_cli.names import TableName


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan for a table: its columns, its files with their footers, and what is left out. `is_torn` says that a part
    of the source, or a file that the table has, is unreadable or does not fit."""

    schema: Schema
    spec: PartitionSpec
    files: dict[str, tuple[SourceFile, pq.FileMetaData | None, Record]]
    skipped: tuple[Omission, ...]
    is_torn: bool
    version: TableVersion
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int | None:
        counts = [file.rows if footer is None else footer.num_rows for file, footer, _ in self.files.values()]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def size(self) -> int:
        return sum(file.size or 0 for file, _, _ in self.files.values())


def plan_table(
    folder: SourceFolder, contents: Contents, spec: PartitionSpec | None = None, known: frozenset[str] = frozenset()
) -> TablePlan:
    """Return the plan for a table. `known` are the files that it already has, whose footers are not read again, and
    `spec` is its partition spec. A file that Iceberg cannot have as it is becomes a piece of its own if rows may be
    rewritten. Raise Unfit if Iceberg cannot have the table."""
    version = contents.version
    schema, names, defaults = table_schema(version), former_names(version), with_default(version)
    wanted, at = partition_spec(version, schema)
    if spec is None:
        # rows of several partition schemes are found without partitions, too
        one_way = all(file.values is not None and len(file.values) == len(version.keys) for file in contents.files)
        spec = wanted if one_way else UNPARTITIONED_PARTITION_SPEC
    elif [field.source_id for field in spec.fields] != [field.source_id for field in wanted.fields]:
        at = ()
    files: dict[str, tuple[SourceFile, pq.FileMetaData | None, Record]] = {}
    skipped, is_torn, pieces = list(contents.skipped), contents.is_torn, list(contents.pieces)
    locations = {file.path: f"{folder.base}/{file.path}" for file in contents.files}
    # a missing file is already reported, and stays in a table that has it
    present = [file for file in contents.files if file.size is not None or locations[file.path] in known]
    # a new column may have a value for known files
    new = [file for file in present if file.size is not None and (defaults or locations[file.path] not in known)]
    ends = LocalFooters(folder.base, folder.io).read([ParquetFile(file.path, file.size or 0, {}) for file in new])
    footers = {file.path: end if isinstance(end, str) else end.metadata for file, end in zip(new, ends, strict=True)}
    for file in present:
        footer, is_known = footers.get(file.path), locations[file.path] in known
        values: list[object] = []
        try:
            if isinstance(footer, str):
                raise Unfit(footer)
            if not is_known:
                # the table already records the values of a known file
                values = partition_values(file.values, spec, at, schema) if at or not spec.fields else _other_way()
            if footer is not None:
                check_file(footer, schema, names, defaults)
                _check(file, footer, () if is_known else spec.fields, values)
        except Unfit as error:
            if isinstance(error, Rewritable) and contents.rewrites:
                pieces.append(_piece_of(file))
                continue
            # the source still has the file, so its rows are not removed
            is_torn = is_torn or is_known
            stays = "; its table has this file, and was not changed" if is_known else ""
            advice = contents.advice if isinstance(error, Rewritable) else None
            skipped.append(Omission(file.path, f"{error}{stays}", advice))
            continue
        files[locations[file.path]] = (file, footer, Record(*values))
    return TablePlan(schema, spec, files, tuple(skipped), is_torn, version, tuple(pieces))


def _piece_of(file: SourceFile) -> Piece:
    """Return a piece for a single file whose rows are rewritten. No delta changes them, so other files are not
    affected."""
    size = file.size or 0
    entry = DeltaFile(file.path, file.rows, size, PARQUET, "identity", "data")
    return Piece((DeltaFiles("append", (PieceFile(file.path, size, entry),)),))


def _other_way() -> list[object]:
    raise Unfit("its table now has another partitioning")


def _check(
    file: SourceFile, footer: pq.FileMetaData, fields: Sequence[PartitionField], values: Sequence[object]
) -> None:
    """Raise Unfit for a file that does not match its manifest or its partition."""
    if file.rows is not None and footer.num_rows != file.rows:
        raise Unfit(f"it has {footer.num_rows:,} of the {file.rows:,} rows that its manifest says")
    for field, value in zip(fields, values, strict=True):
        for bound in _bounds(footer, field.name):
            if isinstance(bound, type(value)) and bound != value:
                raise Unfit(f"its column {field.name!a} has values that differ from its partition's")


def _bounds(footer: pq.FileMetaData, name: str) -> Iterator[object]:
    """Yield the least and the greatest value of a column per row group, if the file states them."""
    at = next((at for at in range(footer.num_columns) if footer.schema.column(at).path == name), None)
    for group in range(footer.num_row_groups if at is not None else 0):
        statistics = footer.row_group(group).column(at).statistics
        if statistics is not None and statistics.has_min_max:
            yield from (statistics.min, statistics.max)


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """The data files of rewritten pieces, and the pieces without files. `may_come` says that more memory would help."""

    files: tuple[DataFile, ...] = ()
    skipped: tuple[Omission, ...] = ()
    may_come: bool = False

    @classmethod
    def of(cls, plan: TablePlan, metadata: TableMetadata, rewriter: Rewriter | None) -> RewrittenFiles:
        if rewriter is None or not plan.pieces:
            return cls()
        done = rewriter.write(metadata, plan.version, plan.pieces)
        files = tuple(file for one in done if not isinstance(one, str) for file in one)
        skipped = tuple(Omission("a partition", f"it is not rewritten: {one}") for one in done if isinstance(one, str))
        return cls(files, skipped, any(isinstance(one, MemoryShortage) for one in done))


def create_table(
    staged: OlympiaCatalog, name: TableName, id: str, plan: TablePlan, rewriter: Rewriter | None
) -> tuple[TableState, RewrittenFiles]:
    """Return the metadata of a new table; its manifests are written. The table exists once a definition names the
    metadata."""
    place = staged.new_folder(name)
    metadata = TableMetadataV2.model_validate(
        {
            "location": place,
            "table-uuid": _uuid(id),
            "schemas": [plan.schema],
            "current-schema-id": plan.schema.schema_id,
            "last-column-id": plan.schema.highest_field_id,
            "partition-specs": [plan.spec],
            "default-spec-id": plan.spec.spec_id,
            "last-partition-id": plan.spec.last_assigned_field_id,
            "sort-orders": [UNSORTED_SORT_ORDER],
            "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
            "properties": {TableProperties.DEFAULT_NAME_MAPPING: plan.schema.name_mapping.model_dump_json()},
        }
    )
    written = RewrittenFiles.of(plan, metadata, rewriter)
    files = (_data_file(metadata, path, plan) for path in plan.files)
    return new_table(staged, name, metadata, [*files, *written.files]), written


def update_table(staged: OlympiaCatalog, name: TableName, plan: TablePlan, rewriter: Rewriter | None) -> RewrittenFiles:
    """Move a table on to the state of its source: new columns, added files, removed files. Earlier rewritten files are
    removed and rewritten; if that fails for a part, the table stays as it is."""
    table = staged.load_table(identifier_of(name))
    known = known_files(table)
    come = [path for path in plan.files if path not in known]
    gone = [file for path, file in known.items() if path not in plan.files]
    transaction = table.transaction()
    if plan.schema.fields != table.schema().fields:
        next_id = max(schema.schema_id for schema in table.metadata.schemas) + 1
        schema = Schema(*plan.schema.fields, schema_id=next_id)
        names = {TableProperties.DEFAULT_NAME_MAPPING: schema.name_mapping.model_dump_json()}
        current = SetCurrentSchemaUpdate.model_validate({"schema-id": -1})
        apply_updates(transaction, (AddSchemaUpdate(schema=schema), current, SetPropertiesUpdate(updates=names)))
    written = RewrittenFiles.of(plan, transaction.table_metadata, rewriter)
    if written.skipped:
        return written
    if come or gone or written.files:
        update = transaction.update_snapshot()
        with update.overwrite() if gone else update.fast_append() as change:
            for file in gone:
                change.delete_data_file(file)
            for file in (*(_data_file(table.metadata, path, plan) for path in come), *written.files):
                change.append_data_file(file)
    transaction.commit_transaction()
    return written


def known_files(table: Table) -> dict[str, DataFile]:
    """The data files of a table now."""
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    entries = (entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io))
    return {entry.data_file.file_path: entry.data_file for entry in entries}


def _data_file(table: TableMetadata, path: str, plan: TablePlan) -> DataFile:
    file, footer, values = plan.files[path]
    assert footer is not None
    assert file.size is not None
    told = {"record_count": footer.num_rows}
    with suppress(KeyError):
        # a column that the table no longer has is in no statistics, and then none are stated
        told = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer,
            stats_columns=compute_statistics_plan(plan.schema, table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(plan.schema),
        ).to_serialized_dict()
    return data_file(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=values,
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=plan.spec.spec_id,
        equality_ids=None,
        key_metadata=None,
        **told,
    )


def _uuid(id: str) -> UUID:
    try:
        return UUID(id)
    except ValueError:
        return uuid4()
