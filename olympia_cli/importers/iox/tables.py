"""Create and move on the tables of a preserved catalog, as Iceberg tables of format version 3: IOx's times are in
nanoseconds, which older versions do not have. Data files stay where they are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataV3, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate, TableUpdate
from pyiceberg.types import NestedField, PrimitiveType

from olympia_cli.catalog.clock import Clock
from olympia_cli.errors import Damaged
from olympia_cli.iceberg.catalog_transaction import CatalogTransaction
from olympia_cli.iceberg.identifiers import identifier_of
from olympia_cli.iceberg.locations import parse_location
from olympia_cli.iceberg.metadata_files import MetadataFiles
from olympia_cli.iceberg.settings import LOCATION_PROVIDER
from olympia_cli.iceberg.v3_snapshots import NewFile, encode, with_snapshot
from olympia_cli.importers.iceberg import Imported
from olympia_cli.importers.iox.columns import statistics
from olympia_cli.importers.iox.deletions import deleted_rows
from olympia_cli.importers.iox.plans import SOURCE, STATE, Plan, Planner, WantedFile, count
from olympia_cli.importers.iox.source import State
from olympia_cli.importers.renaming import FORMER_NAME
from olympia_cli.names import time_text

_WORKERS, _AT_ONCE = 16, 256
_NO_COLUMN = 2_000_000_000
"""First id of columns whose type Iceberg does not have. Readers map columns by name, so these columns need ids, too; no
other column has such a high id."""


@dataclass(frozen=True, slots=True)
class IoxTables:
    """Stage tables in a transaction. `io` opens the files of the source."""

    planner: Planner
    io: FileIO
    clock: Clock

    def bring(self, plans: Iterable[Plan], state: State, staged: CatalogTransaction, done: Imported) -> None:
        """Stage tables in a transaction, a batch at a time: their files are written, and no metadata names them yet."""
        files, io = staged.metadata_files, staged.open_files(staged.properties["warehouse"])
        plans = iter(plans)
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="iox") as pool:
            while batch := list(islice(plans, _AT_ONCE)):
                for namespace in sorted({plan.name.namespace for plan in batch}):
                    if not staged.namespace_exists((namespace,)):
                        staged.create_namespace((namespace,))
                        done.namespaces += 1
                ready = [self._prepared(plan, staged) for plan in batch]
                places = pool.map(lambda plan, its: self._write(plan, its[0], its[1], state, io, files), batch, ready)
                for plan, location in zip(batch, places, strict=True):
                    staged.register_table(identifier_of(plan.name), location, overwrite=plan.before is not None)
                    count(plan, done)

    def _write(
        self,
        plan: Plan,
        metadata: TableMetadataV3,
        updates: list[TableUpdate],
        state: State,
        io: FileIO,
        created: MetadataFiles,
    ) -> str:
        """Write the files of a new metadata version, which no definition names yet. Return its location."""
        about = {
            SOURCE: self.planner.base,
            STATE: plan.digest,
            "iox.revision": str(state.revision),
            "iox.transaction": str(state.uuid),
            "iox.time": time_text(state.start_millis),
        }
        schema = self._schema(plan, metadata)
        files = [self._new_file(one, schema) for one in plan.files]
        last = None if plan.before is None else plan.before.metadata_location
        made = with_snapshot(metadata, last, io, files, updates, about, self.clock.now_millis())
        number = made.last_sequence_number - 1
        location = f"{metadata.location}/metadata/{number:05}-{uuid4()}.metadata.json"
        created.create(parse_location(location), encode(made))
        return location

    def _prepared(self, plan: Plan, staged: CatalogTransaction) -> tuple[TableMetadataV3, list[TableUpdate]]:
        """Return the metadata to start from, and the updates of its schema and properties."""
        if plan.before is not None:
            before = cast(TableMetadataV3, plan.before.metadata)
            if LOCATION_PROVIDER in before.properties:
                # PyIceberg received metadata with another location provider
                before = cast(TableMetadataV3, staged._state(plan.name).metadata)
            schema = self._schema(plan, before)
            updates: list[TableUpdate] = []
            if schema != before.schema():
                current = SetCurrentSchemaUpdate.model_validate({"schema-id": -1})
                updates += [AddSchemaUpdate(schema=schema), current]
            names = {TableProperties.DEFAULT_NAME_MAPPING: _mapping(schema, plan)}
            if not names.items() <= before.properties.items():
                updates.append(SetPropertiesUpdate(updates=names))
            return before, updates
        columns = ((name, type) for name, type in plan.columns.items() if type is not None)
        schema = Schema(*(NestedField(at, name, type, required=False) for at, (name, type) in enumerate(columns, 1)))
        properties = {
            TableProperties.FORMAT_VERSION: "3",
            # the files have no column ids, so readers use the names
            TableProperties.DEFAULT_NAME_MAPPING: _mapping(schema, plan),
            SOURCE: f"{self.planner.base}#{plan.source}",
            **({} if plan.former is None else {FORMER_NAME: plan.former}),
        }
        folder = staged.new_table_folder(plan.name)
        made = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, folder, properties)
        assert isinstance(made, TableMetadataV3)
        return made, []

    def _schema(self, plan: Plan, metadata: TableMetadataV3) -> Schema:
        """Return the columns that a table has, followed by the new ones of its files."""
        present = metadata.schema()
        known = {column.name for column in present.fields}
        new = [(name, type) for name, type in plan.columns.items() if type is not None and name not in known]
        first = metadata.last_column_id + 1
        added = (NestedField(at, name, type, required=False) for at, (name, type) in enumerate(new, first))
        return (
            Schema(*present.fields, *added, schema_id=max(one.schema_id for one in metadata.schemas) + 1)
            if new
            else present
        )

    def _new_file(self, wanted: WantedFile, schema: Schema) -> NewFile:
        footer = self.planner.footer(wanted.file)
        ids = {one.name: (one.field_id, cast(PrimitiveType, one.field_type)) for one in schema.fields}
        location = f"{self.planner.base}/{wanted.file.path}"
        deleted: list[int] = []
        if wanted.deletes:
            try:
                with self.io.new_input(parse_location(location).plain_text()).open() as stream:
                    deleted = deleted_rows(pq.ParquetFile(stream), wanted.deletes)
            except (pa.ArrowException, OSError, KeyError) as error:
                why = "some of its rows are deleted, and it cannot be read: " + " ".join(str(error).split())[:200]
                raise Damaged("", location, why, hint="repair it at the source, or import an earlier state") from None
        return NewFile(
            location, self.planner.sizes[wanted.file.path], wanted.rows, statistics(footer, ids), deleted=deleted
        )


def _mapping(schema: Schema, plan: Plan) -> str:
    told = [{"names": [column.name], "field-id": column.field_id} for column in schema.fields]
    others = sorted(name for name, type in plan.columns.items() if type is None)
    told += [{"names": [name], "field-id": _NO_COLUMN + at} for at, name in enumerate(others)]
    return json.dumps(told)
