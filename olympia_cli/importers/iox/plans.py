"""Plan an import for the tables of a preserved catalog: their files and columns, and what is left out.

A table follows its files at the source, unless it was changed here: then its current snapshot is not one of an import.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.types import PrimitiveType

from olympia_cli.catalog.properties import IOX_SOURCE, IOX_STATE
from olympia_cli.iceberg import OlympiaCatalog, identifier_of
from olympia_cli.importers.iox.columns import TIME, Conflict, Footer, columns_of, decode_footer, united
from olympia_cli.importers.iox.source import DATA, LiveFile, Source, State
from olympia_cli.importers.iox.transactions import Comparison, Predicate
from olympia_cli.importers.objects import Renaming
from olympia_cli.importers.result import ImportedTable, ImportResult, Omission
from olympia_cli.importers.wire import Garbled
from olympia_cli.names import Kind, TableName, as_found

# Apply tombstones to a file: whether they reach it, delete all of it, or which of its rows.


def reaching(footer: Footer, predicates: Iterable[Predicate]) -> list[Predicate]:
    """Return the predicates that may delete rows of a file, by the file's times."""
    times = footer.times
    return [
        one
        for one in dict.fromkeys(predicates)
        if one.start < one.end and (times is None or (one.start <= times[1] and times[0] < one.end))
    ]


def takes_all(footer: Footer, predicates: Iterable[Predicate]) -> bool:
    """Return True if one predicate deletes every row of a file, as far as the file's times alone tell."""
    times = footer.times
    return times is not None and any(
        not one.comparisons and one.start <= times[0] and times[1] < one.end for one in predicates
    )


def deleted_rows(file: pq.ParquetFile, predicates: Sequence[Predicate]) -> list[int]:
    """Return the numbers of the deleted rows. Only the compared columns are read, one row group at a time."""
    names = set(file.schema_arrow.names)
    wanted = [TIME, *{one.column for predicate in predicates for one in predicate.comparisons if one.column in names}]
    found: list[int] = []
    before = 0
    for group in range(file.metadata.num_row_groups):
        rows = file.read_row_group(group, columns=list(dict.fromkeys(wanted)))
        for predicate in predicates:
            mask = _mask(rows, predicate)
            found += [before + at for at, is_deleted in enumerate(mask.to_pylist()) if is_deleted]
        before += rows.num_rows
    return sorted(set(found))


def _mask(rows: pa.Table, predicate: Predicate) -> Any:
    times = rows[TIME].cast(pa.int64())
    mask = pc.and_(pc.greater_equal(times, predicate.start), pc.less(times, predicate.end))
    for comparison in predicate.comparisons:
        mask = pc.and_kleene(mask, _compared(rows, comparison))
    return mask


def _compared(rows: pa.Table, comparison: Comparison) -> Any:
    """Compare a column with a value. A missing column compares as null, for = and for !=."""
    if comparison.column not in rows.column_names:
        return pa.scalar(None, pa.bool_())
    column = rows[comparison.column]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    value = pa.scalar(comparison.value)
    return pc.equal(column, value) if comparison.operator == "=" else pc.not_equal(column, value)


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that becomes part of a table, and the deletes that reach it."""

    file: LiveFile
    rows: int
    deletes: tuple[Predicate, ...]


@dataclass(slots=True)
class Plan:
    """The plan for one table: create it, or move it on to these files. `before` is the table as it is here. `former` is
    its original name, if the import renames it."""

    name: TableName
    source: str
    columns: dict[str, PrimitiveType | None]
    files: list[WantedFile]
    skipped: list[Omission]
    before: Table | None = None
    former: str | None = None

    @property
    def digest(self) -> str:
        told = [(one.file.path, one.file.size, [str(delete) for delete in one.deletes]) for one in self.files]
        return sha256(json.dumps(told).encode()).hexdigest()[:32]

    @property
    def found(self) -> ImportedTable:
        rows = sum(one.rows for one in self.files)
        return ImportedTable(self.name, self.source, "", frozenset(), len(self.files), rows, tuple(self.skipped))


@dataclass(slots=True)
class Planner:
    """Plan an import of a preserved catalog's tables. `base` is the location of the source."""

    source: Source
    base: str
    renaming: Renaming
    sizes: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = {file.path: file.size for file in self.source.store.list(DATA)}

    def plans(
        self, state: State, done: ImportResult, catalog: OlympiaCatalog | None, only: Iterable[str] | None = None
    ) -> Iterator[Plan]:
        """Yield the plans for all tables, or for `only` some, in a catalog; None inspects the source alone. Record
        tables that cannot be imported as left out, and tables without news as unchanged."""
        names: dict[TableName, str] = {}
        wanted = state.tables()
        if only is None:
            only = [*wanted, *self._without_files(wanted, catalog)]
        for table in sorted(only):
            name = self._name(table)
            if name in names:
                done.left_out.append(Omission(f"table {table}", f"{names[name]} has the name {name} too"))
                continue
            names[name] = table
            before = self._present(name, table, catalog)
            if isinstance(before, str):
                done.left_out.append(Omission(f"table {table}", before))
            elif (plan := self._plan(name, table, wanted.get(table, []), state, before, done)) is not None:
                yield plan

    def _without_files(self, wanted: Iterable[str], catalog: OlympiaCatalog | None) -> Iterator[str]:
        """Yield the tables that were imported here, and have no files at the source any more."""
        namespace = (self.renaming.name(self._as_found("-")).namespace,)
        if catalog is None or not catalog.namespace_exists(namespace):
            return
        known = {identifier_of(self._name(table)) for table in wanted}
        for identifier in catalog.list_tables(namespace):
            if identifier in known:
                continue
            # a table that cannot be read does not belong to this import
            with suppress(Exception):
                found = catalog.load_table(identifier).properties.get(IOX_SOURCE, "")
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

    def _present(self, name: TableName, table: str, catalog: OlympiaCatalog | None) -> Table | str | None:
        """Return the table as it is here, or the reason not to touch it."""
        if catalog is not None and catalog.view_exists(identifier_of(name)):
            return f"a view has the name {name}"
        if catalog is None or not catalog.table_exists(identifier_of(name)):
            return None
        try:
            found = catalog.load_table(identifier_of(name))
        except Exception as error:
            # an unreadable table does not stop the others
            return f"{name} cannot be read: " + (" ".join(str(error).split()) or type(error).__name__)[:200]
        if found.properties.get(IOX_SOURCE) != f"{self.base}#{table}" or not isinstance(
            found.metadata, TableMetadataV3
        ):
            return f"another table has the name {name}"
        current = found.current_snapshot()
        is_ours = current is not None and current.summary is not None and current.summary.get(IOX_STATE) is not None
        if not is_ours or current is None or current.schema_id != found.metadata.current_schema_id:
            return "it was changed here"
        return found

    def _plan(
        self,
        name: TableName,
        table: str,
        files: list[LiveFile],
        state: State,
        before: Table | None,
        done: ImportResult,
    ) -> Plan | None:
        plan = self._read(name, table, files, state, before)
        if before is None and not plan.files:
            done.left_out += _of(table, plan.skipped)
            return None
        plan.before, plan.former = before, self.renaming.former(self._as_found(table))
        current = None if before is None else before.current_snapshot()
        if current is not None and current.summary is not None and current.summary.get(IOX_STATE) == plan.digest:
            done.unchanged += 1
            done.left_out += _of(table, plan.skipped)
            return None
        return plan

    def _read(self, name: TableName, table: str, files: list[LiveFile], state: State, before: Table | None) -> Plan:
        """Collect the columns of all files, the files that fit them, and what is left out."""
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
                plan.skipped.append(Omission(file.path, str(reason)))
                continue
            deletes = reaching(footer, state.tombstones.get(footer.chunk, ()))
            if takes_all(footer, deletes):
                continue
            plan.files.append(WantedFile(file, footer.rows, tuple(deletes)))
            spans.setdefault(footer.partition, []).append(footer.times)
        for column in sorted(name for name, type in plan.columns.items() if type is None):
            plan.skipped.append(Omission(f"column {column}", "it is uint64, which Iceberg does not have"))
        if common := sum(_in_common(times) for times in spans.values()):
            why = "of rows with the same tags and time, IOx shows the last written one; here all are shown"
            plan.skipped.append(Omission(f"overwriting between {common} files whose times overlap", why))
        return plan

    def _check_there(self, file: LiveFile) -> None:
        size = self.sizes.get(file.path)
        if size is None:
            raise Conflict("it is not there")
        if file.size not in (0, size):
            raise Conflict(f"it has {size:,} bytes, and the catalog says {file.size:,}")

    def footer(self, file: LiveFile) -> Footer:
        """Decode the copy of a file's footer in the catalog. Raise Garbled if it is malformed, or belongs to another
        table."""
        found = decode_footer(self.source.footer(file))
        if found.table != file.table:
            raise Garbled(f"its footer says that it is of the table {found.table[:200]!a}")
        return found


def count(plan: Plan, done: ImportResult) -> None:
    """Record a table that is created or moves on."""
    if plan.former is not None and plan.before is None:
        done.renamed.append((plan.former, str(plan.name)))
    (done.created if plan.before is None else done.moved_on).append(plan.found)


def _of(table: str, skipped: list[Omission]) -> Iterator[Omission]:
    """Yield what is left out of a table that is not reported itself."""
    return (Omission(f"{table}: {one.part}", one.reason) for one in skipped)


def _in_common(times: list[tuple[int, int] | None]) -> int:
    """Return the number of a partition's files whose times overlap those of another. A file without times may overlap
    any."""
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
