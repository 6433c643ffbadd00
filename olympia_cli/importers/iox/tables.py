"""Create and move on the tables of a preserved catalog, as Iceberg tables of format version 3: IOx's times are in
nanoseconds, which older versions do not have. Data files stay where they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
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
from olympia_cli.catalog.properties import (
    FORMER_NAME,
    IMPORTED,
    IOX_REVISION,
    IOX_SOURCE,
    IOX_STATE,
    IOX_TIME,
    IOX_TRANSACTION,
)
from olympia_cli.errors import Damaged, InvalidOption
from olympia_cli.format.strict_json import read_json
from olympia_cli.iceberg import (
    LOCATION_PROVIDER,
    CatalogTransaction,
    MetadataFiles,
    NewDataFile,
    OlympiaCatalog,
    encode_v3,
    identifier_of,
    parse_location,
    with_snapshot,
)
from olympia_cli.importers.iox.columns import statistics
from olympia_cli.importers.iox.plans import Plan, Planner, WantedFile, count, deleted_rows
from olympia_cli.importers.iox.source import Source, State
from olympia_cli.importers.result import ImportResult, Omission
from olympia_cli.names import AtTime, SettledReference, time_text

# A run of an import: which states are imported, and the note about them.
#
# The commit of an import also sets a property with the imported revision; older revisions are refused afterwards. The
# note counts while the source has that revision, or has pruned it. A catalog that was wiped and created again starts
# with revision 0.


@dataclass(frozen=True, slots=True)
class RevisionNote:
    """The last imported transaction, and the namespace that everything was imported into, if one was given."""

    revision: int
    uuid: str
    into: str | None

    def encode(self) -> str:
        return json.dumps({"revision": self.revision, "transaction": self.uuid, "into": self.into}, sort_keys=True)


def note_key(base: str) -> str:
    """Return the property key of a source's note."""
    return "iox-" + sha256(base.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_note(properties: Mapping[str, str], base: str, source: Source) -> RevisionNote | None:
    """Return the note of an earlier import if it still counts; None if it is missing or unreadable."""
    try:
        fields = read_json(properties.get(IMPORTED + note_key(base), ""))
        revision, uuid, into = fields["revision"], fields["transaction"], fields["into"]
    except (ValueError, KeyError, TypeError):
        return None
    if not (isinstance(revision, int) and isinstance(uuid, str) and isinstance(into, str | None)):
        return None
    present = {str(file.uuid) for file in source.revisions.get(revision, ())}
    counts = uuid in present or (not present and revision < source.oldest)
    return RevisionNote(revision, uuid, into) if counts else None


@dataclass(slots=True)
class Run:
    """An import of states into a catalog. `message` comes first in the messages of its commits."""

    tables: IoxTables
    catalog: OlympiaCatalog
    into: str | None
    message: str
    note: RevisionNote | None

    def one(self, reference: SettledReference, dry_run: bool) -> tuple[ImportResult, State, int]:
        """Import one state, or report what would be done."""
        state = self._source.state(reference)
        return self._whole(state, ImportResult(), dry_run)

    def history(self, reference: SettledReference) -> tuple[ImportResult, State, int]:
        """Import each state that was not imported yet, one commit per state; then the final state once more,
        completely."""
        done = ImportResult()
        state: State | None = None
        for state in self._states(reference, done):
            step = ImportResult()
            self._check(state)
            self._bring(state, step, None if self.note is None or state.is_checkpoint else state.touched, False)
            done.add(step)
        return self._whole(self._source.state(reference) if state is None else state, done, False)

    def _whole(self, state: State, done: ImportResult, dry_run: bool) -> tuple[ImportResult, State, int]:
        step = ImportResult()
        self._check(state)
        version = self._bring(state, step, None, dry_run)
        step.left_out += self._forks(state)
        done.add(step, is_last=True)
        return done, state, version

    @property
    def _source(self) -> Source:
        return self.tables.planner.source

    def _states(self, reference: SettledReference, done: ImportResult) -> Iterator[State]:
        """Yield the states up to the requested one that were not imported yet. After an unreadable state, continue with
        the next checkpoint."""
        source, revision = self._source, self._source.revision_of(reference)
        last = source.latest if revision is None else revision
        until = reference.millis if isinstance(reference, AtTime) else None
        first = source.oldest if self.note is None else max(self.note.revision + 1, source.oldest)
        while first <= last:
            begun = first
            try:
                for state in source.walk(first, last, until):
                    first = state.revision + 1
                    yield state
                return
            except Damaged as error:
                # the unreadable revision may itself have a checkpoint, unless the walk began with that
                after = source.checkpoint_after(first - (first > begun))
                if after is None or after > last:
                    raise
                if after > first:
                    done.left_out.append(Omission(f"revisions {first} to {after - 1}", error.message))
                first = after

    def _bring(self, state: State, done: ImportResult, only: set[str] | None, dry_run: bool) -> int:
        if dry_run:
            for plan in self.tables.planner.plans(state, done, self.catalog, only):
                count(plan, done)
            return self.catalog.version
        note = RevisionNote(state.revision, str(state.uuid), self.into)
        key = note_key(self.tables.planner.base)
        about = f"revision {state.revision} of {self._source.name}, {time_text(state.start_millis)}"
        # planned on the transaction's own base: a concurrent import is a conflict, and is not undone
        with self.catalog.transaction(f"{self.message}\n{about}" if self.message else about) as staged:
            self.tables.bring(self.tables.planner.plans(state, done, staged, only), state, staged, done)
            if note != self.note:
                staged.change(None, lambda changes: changes.transaction.note_import(key, note.encode()))
        self.note = note
        assert staged.last_version is not None
        return staged.last_version

    def _check(self, state: State) -> None:
        note = self.note
        if note is not None and note.revision > state.revision:
            raise InvalidOption(
                f"revision {note.revision} of that catalog was imported already, and {state.revision} is older",
                hint=f"leave out --at, or name a revision from {note.revision} on",
            )
        if note is not None and note.into != self.into:
            before = "without --into" if note.into is None else f"--into {note.into}"
            raise InvalidOption(f"that catalog was imported {before} before", hint="import it in the same way again")

    def _forks(self, state: State) -> Iterator[Omission]:
        """Report forked revisions up to the imported state: two transactions share a number and only one counts."""
        for revision in sorted(self._source.revisions):
            if revision <= state.revision and self._source.is_fork(revision):
                yield Omission(
                    f"revision {revision}", "a fork: two transactions have this number, and one of them counts"
                )


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

    def bring(self, plans: Iterable[Plan], state: State, staged: CatalogTransaction, done: ImportResult) -> None:
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
            IOX_SOURCE: self.planner.base,
            IOX_STATE: plan.digest,
            IOX_REVISION: str(state.revision),
            IOX_TRANSACTION: str(state.uuid),
            IOX_TIME: time_text(state.start_millis),
        }
        schema = self._schema(plan, metadata)
        files = [self._new_file(one, schema) for one in plan.files]
        last = None if plan.before is None else plan.before.metadata_location
        made = with_snapshot(metadata, last, io, files, updates, about, self.clock.now_millis())
        number = made.last_sequence_number - 1
        location = f"{metadata.location}/metadata/{number:05}-{uuid4()}.metadata.json"
        created.create(parse_location(location), encode_v3(made))
        return location

    def _prepared(self, plan: Plan, staged: CatalogTransaction) -> tuple[TableMetadataV3, list[TableUpdate]]:
        """Return the metadata to start from, and the updates of its schema and properties."""
        if plan.before is not None:
            before = cast(TableMetadataV3, plan.before.metadata)
            if LOCATION_PROVIDER in before.properties:
                # PyIceberg received metadata with another location provider
                before = cast(TableMetadataV3, staged.state(plan.name).metadata)
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
            IOX_SOURCE: f"{self.planner.base}#{plan.source}",
            **({} if plan.former is None else {FORMER_NAME: plan.former}),
        }
        folder = staged.new_folder(plan.name)
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

    def _new_file(self, wanted: WantedFile, schema: Schema) -> NewDataFile:
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
        return NewDataFile(
            location, self.planner.sizes[wanted.file.path], wanted.rows, statistics(footer, ids), deleted=deleted
        )


def _mapping(schema: Schema, plan: Plan) -> str:
    told = [{"names": [column.name], "field-id": column.field_id} for column in schema.fields]
    others = sorted(name for name, type in plan.columns.items() if type is None)
    told += [{"names": [name], "field-id": _NO_COLUMN + at} for at, name in enumerate(others)]
    return json.dumps(told)
