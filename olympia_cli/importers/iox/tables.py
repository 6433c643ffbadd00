"""Tables of a preserved catalog as Iceberg tables, their files where they are, in one commit a state.

They are of Iceberg's format version 3: the times of IOx are in nanoseconds, which older versions do not have. A table
moves on as its files do at the source, unless it was changed here: the snapshot that the last import made says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import cast
from uuid import uuid4

import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataV3, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate, TableUpdate
from pyiceberg.types import NestedField, PrimitiveType

from olympia_cli.catalog.clock import Clock
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.iceberg.catalog_transaction import CatalogTransaction
from olympia_cli.iceberg.identifiers import identifier_of
from olympia_cli.iceberg.table_changes import write_file
from olympia_cli.iceberg.v3_snapshots import NewFile, encode, with_snapshot
from olympia_cli.importers.iceberg import FoundTable, Imported, LeftOut
from olympia_cli.importers.iox.columns import Conflict, columns_of, statistics, united
from olympia_cli.importers.iox.deletions import deleted_rows, reaching, takes_all
from olympia_cli.importers.iox.footers import Footer, decode_footer
from olympia_cli.importers.iox.source import DATA, LiveFile, Source, State
from olympia_cli.importers.iox.transactions import Predicate
from olympia_cli.importers.iox.wire import Garbled
from olympia_cli.importers.renaming import FORMER_NAME, Renaming
from olympia_cli.names import Kind, TableName, as_found, time_text

SOURCE = "olympia.import.iox"
"""Of a table and of the snapshots that an import made: where it is from."""
STATE = "olympia.import.iox.state"
"""Of such a snapshot: a digest of the files and deletes that it was made from."""
_WORKERS, _AT_ONCE = 16, 256
_NO_COLUMN = 2_000_000_000
"""Columns that Iceberg has no type for need ids all the same, for readers go by names: from here on there are no other.
"""


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that becomes part of a table, and the deletes that reach it."""

    file: LiveFile
    rows: int
    deletes: tuple[Predicate, ...]


@dataclass(slots=True)
class Plan:
    """What is to be done for one table: it is made, or moves on to these files. `before` is the table as it is here,
    `former` what it was called where it is renamed."""

    name: TableName
    source: str
    columns: dict[str, PrimitiveType | None]
    files: list[WantedFile]
    skipped: list[LeftOut]
    before: TableMetadataV3 | None = None
    former: str | None = None

    @property
    def digest(self) -> str:
        told = [(one.file.path, one.file.size, [str(delete) for delete in one.deletes]) for one in self.files]
        return sha256(json.dumps(told).encode()).hexdigest()[:32]

    @property
    def found(self) -> FoundTable:
        rows = sum(one.rows for one in self.files)
        return FoundTable(self.name, self.source, "", frozenset(), len(self.files), rows, tuple(self.skipped))


@dataclass(slots=True)
class IoxImport:
    """The tables of a preserved catalog, for one of ours. `base` is the location of the source, `io` the way to its
    files."""

    source: Source
    base: str
    io: FileIO
    renaming: Renaming
    clock: Clock
    sizes: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = {file.path: file.size for file in self.source.store.list(DATA)}

    # Plans

    def plans(
        self, state: State, done: Imported, catalog: OlympiaCatalog | None, only: Iterable[str] | None = None
    ) -> Iterator[Plan]:
        """What is to be done in a catalog, for all tables or some; None looks at the source alone. What cannot be is
        noted, and a table with nothing new as unchanged."""
        names: dict[TableName, str] = {}
        wanted = state.tables()
        if only is None:
            only = [*wanted, *self._without_files(wanted, catalog)]
        for table in sorted(only):
            name = self._name(table)
            if name in names:
                done.left_out.append(LeftOut(f"table {table}", f"{names[name]} has the name {name} too"))
                continue
            names[name] = table
            before = self._present(name, table, catalog)
            if isinstance(before, str):
                done.left_out.append(LeftOut(f"table {table}", before))
            elif (plan := self._plan(name, table, wanted.get(table, []), state, before, done)) is not None:
                yield plan

    def _without_files(self, wanted: Iterable[str], catalog: OlympiaCatalog | None) -> Iterator[str]:
        """Tables that are here from this source, which has no files of them any more."""
        namespace = (self.renaming.name(self._as_found("-")).namespace,)
        if catalog is None or not catalog.namespace_exists(namespace):
            return
        known = {identifier_of(self._name(table)) for table in wanted}
        for identifier in catalog.list_tables(namespace):
            if identifier in known:
                continue
            # one that cannot be read is none of this import's
            with suppress(Exception):
                found = catalog.load_table(identifier).properties.get(SOURCE, "")
                table = found.removeprefix(f"{self.base}#")
                if table != found and identifier_of(self._name(table)) == identifier:
                    yield table

    def _name(self, table: str) -> TableName:
        found = self.renaming.name(self._as_found(table))
        assert isinstance(found, TableName)
        return found

    def _as_found(self, table: str) -> TableName:
        found = as_found(Kind.TABLE, self.base.rstrip("/").rpartition("/")[2] or "iox", table)
        assert isinstance(found, TableName)
        return found

    def _present(self, name: TableName, table: str, catalog: OlympiaCatalog | None) -> TableMetadataV3 | str | None:
        """The table as it is here, or why it is not to be touched."""
        if catalog is not None and catalog.view_exists(identifier_of(name)):
            return f"a view has the name {name}"
        if catalog is None or not catalog.table_exists(identifier_of(name)):
            return None
        try:
            metadata = catalog.load_table(identifier_of(name)).metadata
        except Exception as error:
            # one table that cannot be read is no reason to leave the others
            return f"{name} cannot be read: " + (" ".join(str(error).split()) or type(error).__name__)[:200]
        if metadata.properties.get(SOURCE) != f"{self.base}#{table}" or not isinstance(metadata, TableMetadataV3):
            return f"another table has the name {name}"
        current = metadata.current_snapshot()
        is_ours = current is not None and current.summary is not None and current.summary.get(STATE) is not None
        if not is_ours or current is None or current.schema_id != metadata.current_schema_id:
            return "it was changed here"
        return metadata

    def _plan(
        self,
        name: TableName,
        table: str,
        files: list[LiveFile],
        state: State,
        before: TableMetadataV3 | None,
        done: Imported,
    ) -> Plan | None:
        plan = self._read(name, table, files, state, before)
        if before is None and not plan.files:
            done.left_out += _of(table, plan.skipped)
            return None
        plan.before, plan.former = before, self.renaming.former(self._as_found(table))
        current = None if before is None else before.current_snapshot()
        if current is not None and current.summary is not None and current.summary.get(STATE) == plan.digest:
            done.unchanged += 1
            done.left_out += _of(table, plan.skipped)
            return None
        return plan

    def _read(
        self, name: TableName, table: str, files: list[LiveFile], state: State, before: TableMetadataV3 | None
    ) -> Plan:
        """The columns of all files, the files that have them so, and what is left out."""
        plan = Plan(name, table, {}, [], [])
        if before is not None:
            plan.columns = {one.name: cast(PrimitiveType, one.field_type) for one in before.schema().fields}
        spans: dict[str, list[tuple[int, int] | None]] = {}
        for file in files:
            try:
                self._check_there(file)
                footer = self.footer(file)
                plan.columns = united(plan.columns, columns_of(footer))
            except (Garbled, Conflict) as reason:
                plan.skipped.append(LeftOut(file.path, str(reason)))
                continue
            deletes = reaching(footer, state.tombstones.get(footer.chunk, ()))
            if takes_all(footer, deletes):
                continue
            plan.files.append(WantedFile(file, footer.rows, tuple(deletes)))
            spans.setdefault(footer.partition, []).append(footer.times)
        for column in sorted(name for name, type in plan.columns.items() if type is None):
            plan.skipped.append(LeftOut(f"column {column}", "it is uint64, which Iceberg does not have"))
        if common := sum(_in_common(times) for times in spans.values()):
            why = "IOx shows the last written of rows with the same tags and time, and here all are shown"
            plan.skipped.append(LeftOut(f"overwriting between {common} files whose times overlap", why))
        return plan

    def _check_there(self, file: LiveFile) -> None:
        size = self.sizes.get(file.path)
        if size is None:
            raise Conflict("it is not there")
        if file.size not in (0, size):
            raise Conflict(f"it has {size:,} bytes, and the catalog says {file.size:,}")

    def footer(self, file: LiveFile) -> Footer:
        """What a file says of itself, by its copy in the catalog; Garbled where it is none, or of another table."""
        found = decode_footer(self.source.footer(file))
        if found.table != file.table:
            raise Garbled(f"its footer says that it is of the table {found.table[:200]!a}")
        return found

    # Commits

    def bring(self, plans: Iterable[Plan], state: State, staged: CatalogTransaction, done: Imported) -> None:
        """Stage tables in a transaction, some at a time: their files are written, and nothing names them yet."""
        io = load_file_io(dict(staged.properties), staged.properties["warehouse"])
        plans = iter(plans)
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="iox") as pool:
            while batch := list(islice(plans, _AT_ONCE)):
                for namespace in sorted({plan.name.namespace for plan in batch}):
                    if not staged.namespace_exists((namespace,)):
                        staged.create_namespace((namespace,))
                        done.namespaces += 1
                ready = [self._prepared(plan, staged) for plan in batch]
                places = pool.map(lambda plan, its: self._write(plan, its[0], its[1], state, io), batch, ready)
                for plan, location in zip(batch, places, strict=True):
                    staged.register_table(identifier_of(plan.name), location, overwrite=plan.before is not None)
                    count(plan, done)

    def _write(
        self, plan: Plan, metadata: TableMetadataV3, updates: list[TableUpdate], state: State, io: FileIO
    ) -> str:
        """Write the files of a new metadata version, which nothing names yet; where it is."""
        about = {
            SOURCE: self.base,
            STATE: plan.digest,
            "iox.revision": str(state.revision),
            "iox.transaction": str(state.uuid),
            "iox.time": time_text(state.start_millis),
        }
        schema = self._schema(plan, metadata)
        files = [self._new_file(one, schema) for one in plan.files]
        made = with_snapshot(metadata, io, files, updates, about, self.clock.now_millis())
        number = made.last_sequence_number - 1
        location = f"{metadata.location}/metadata/{number:05}-{uuid4()}.metadata.json"
        write_file(location, encode(made), io)
        return location

    def _prepared(self, plan: Plan, staged: CatalogTransaction) -> tuple[TableMetadataV3, list[TableUpdate]]:
        """The metadata to go on from, and how its schema and properties change."""
        if plan.before is not None:
            schema = self._schema(plan, plan.before)
            if schema == plan.before.schema():
                return plan.before, []
            names = {TableProperties.DEFAULT_NAME_MAPPING: _mapping(schema, plan)}
            return plan.before, [
                AddSchemaUpdate(schema=schema),
                SetCurrentSchemaUpdate.model_validate({"schema-id": -1}),
                SetPropertiesUpdate(updates=names),
            ]
        columns = ((name, type) for name, type in plan.columns.items() if type is not None)
        schema = Schema(*(NestedField(at, name, type, required=False) for at, (name, type) in enumerate(columns, 1)))
        properties = {
            TableProperties.FORMAT_VERSION: "3",
            # the files have no ids for their columns, so readers go by the names
            TableProperties.DEFAULT_NAME_MAPPING: _mapping(schema, plan),
            SOURCE: f"{self.base}#{plan.source}",
            **({} if plan.former is None else {FORMER_NAME: plan.former}),
        }
        folder = staged.new_table_folder(plan.name)
        made = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, folder, properties)
        assert isinstance(made, TableMetadataV3)
        return made, []

    def _schema(self, plan: Plan, metadata: TableMetadataV3) -> Schema:
        """The columns that a table has, and after them those that its files have new."""
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
        footer = self.footer(wanted.file)
        ids = {one.name: (one.field_id, cast(PrimitiveType, one.field_type)) for one in schema.fields}
        location = f"{self.base}/{wanted.file.path}"
        deleted: list[int] = []
        if wanted.deletes:
            with self.io.new_input(location).open() as stream:
                deleted = deleted_rows(pq.ParquetFile(stream), wanted.deletes)
        return NewFile(location, self.sizes[wanted.file.path], wanted.rows, statistics(footer, ids), deleted=deleted)


def count(plan: Plan, done: Imported) -> None:
    """Note a table that comes or moves on."""
    if plan.former is not None and plan.before is None:
        done.renamed.append((plan.former, str(plan.name)))
    (done.created if plan.before is None else done.moved_on).append(plan.found)


def _of(table: str, skipped: list[LeftOut]) -> Iterator[LeftOut]:
    """What is left out of a table that is not told of itself."""
    return (LeftOut(f"{table}: {one.what}", one.why) for one in skipped)


def _in_common(times: list[tuple[int, int] | None]) -> int:
    """How many files of a partition have times that another has too; one that does not say may have any."""
    known = sorted(one for one in times if one is not None)
    if len(known) < len(times):
        return len(times) if len(times) > 1 else 0
    overlapping: set[int] = set()
    last, holder = None, 0
    for at, (first, end) in enumerate(known):
        if last is not None and first <= last:
            overlapping |= {holder, at}
        if last is None or end > last:
            last, holder = end, at
    return len(overlapping)


def _mapping(schema: Schema, plan: Plan) -> str:
    told = [{"names": [column.name], "field-id": column.field_id} for column in schema.fields]
    others = sorted(name for name, type in plan.columns.items() if type is None)
    told += [{"names": [name], "field-id": _NO_COLUMN + at} for at, name in enumerate(others)]
    return json.dumps(told)
