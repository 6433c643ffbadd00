"""Printing an inventory: one row per file or per table, and the tables that could not be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render, visible
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, OlympiaError, PartlyDone, PathMissing, command_words
from olympia_cli.masking import masked
from olympia_cli.names import full_name, plural

SHOWN_PROBLEMS = 20
MAX_PROBLEMS = 1000
"""Number of problems to keep; more are only counted."""

FILES = [
    Column("namespace", "NAMESPACE"),
    Column("name", "TABLE"),
    Column("content", "CONTENT"),
    Column("format", "FORMAT"),
    Column("records", "RECORDS", right=True),
    Column("bytes", "BYTES", right=True),
    Column("partition", "PARTITION"),
    Column("location", "LOCATION", place=True),
    Column("spec_id", "SPEC", wide=True, right=True),
    Column("sort_order_id", "ORDER", wide=True, right=True),
    Column("equality_ids", "EQUALITY IDS", wide=True),
    Column("referenced", "REFERENCED", wide=True),
    Column("offset", "OFFSET", wide=True, right=True),
    Column("length", "LENGTH", wide=True, right=True),
]
TABLES = [
    Column("namespace", "NAMESPACE"),
    Column("name", "TABLE"),
    Column("format_version", "FORMAT", right=True),
    Column("snapshot_id", "SNAPSHOT"),
    Column("metadata_location", "METADATA", place=True),
    Column("id", "ID", wide=True),
    Column("schema", "SCHEMA", wide=True),
    Column("partition_spec", "PARTITIONING", wide=True),
]


PLACES = ("location", "referenced")


class Problems:
    """Tables that could not be read: their number, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.rows: list[dict[str, Any]] = []

    def add(self, row: Mapping[str, Any]) -> None:
        self.count += 1
        if len(self.rows) < MAX_PROBLEMS:
            self.rows.append({key: row.get(key) for key in ("namespace", "name", "error", "reason")})

    def take(self, count: int, first: Iterable[Mapping[str, Any]]) -> None:
        """Add a number of problems, of which only the first are given."""
        for row in first:
            self.add(row)
        self.count = count

    def apart(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows without the problems among them, and keep those here."""
        for row in rows:
            if row["row"] == "problem":
                self.add(row)
            else:
                yield row

    def describe(self) -> dict[str, Any]:
        return {"problems": self.rows}

    def tell(self, session: Session) -> None:
        """Warn of the problems. Raise PartlyDone if there is one."""
        if not self.count:
            return

        for problem in self.rows[:SHOWN_PROBLEMS]:
            session.say(f"warning: table {full_name(problem['namespace'], problem['name'])}: {problem['reason']}")
        if self.count > SHOWN_PROBLEMS:
            session.say(f"warning: and {self.count - SHOWN_PROBLEMS:,} more")
        raise PartlyDone(
            f"{plural(self.count, 'table')} or parts of them could not be read",
            hint="find the damage",
            command=("fsck", "--level", "data"),
        )


def print_rows(
    session: Session, version: int, kind: str, rows: Iterable[Mapping[str, Any]], problems: Problems
) -> None:
    """Print the rows of files or of tables as they come."""
    values = (_describe(row, kind) for row in problems.apart(rows))
    render.records(
        session,
        f"{kind}s",
        FILES if kind == "file" else TABLES,
        values,
        head={"version": version},
        tail=problems.describe,
        name=lambda row: row["location"] if kind == "file" else full_name(row["namespace"], row["name"]),
        title=f"{kind}s",
    )


def print_written(session: Session, version: int, kind: str, count: int, where: str, problems: Problems) -> None:
    """Print the location and the number of the written rows."""
    value = {"version": version, "location": where, "rows": count, **problems.describe()}
    render.outcome(session, value, f"v{version}  {plural(count, kind)} written to {where}")


def _describe(row: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Convert a row for JSON: bounds to hexadecimal, schemas to objects."""
    plain: tuple[str, ...] = ("namespace", "name", "id", "metadata_location", "format_version", "snapshot_id")
    if kind == "table":
        parsed = {key: None if row.get(key) is None else json.loads(row[key]) for key in ("schema", "partition_spec")}
        values = {key: row.get(key) for key in plain}
        return {**values, "metadata_location": _masked(row.get("metadata_location")), **parsed}
    plain = tuple(column.key for column in FILES)
    columns = row.get("columns")
    return {
        **{key: _masked(row.get(key)) if key in PLACES else row.get(key) for key in plain},
        "columns": None if columns is None else [_column(column) for column in columns],
    }


def _masked(location: str | None) -> str | None:
    return None if location is None else masked(location)


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    bounds = {key: None if column[key] is None else bytes(column[key]).hex() for key in ("lower", "upper")}
    return {**column, **bounds}


# Printing an Iceberg table's metadata, below the table's entry in the catalog.


def read_description(session: Session, location: str, name: str) -> dict[str, Any]:
    """Read the table's metadata file, and describe it."""
    if not location:
        raise InvalidOption(f"the table {name} has no metadata location, so its schema is unknown", hint="")
    from olympia_cli.iceberg import TableFiles, describe_metadata
    from olympia_cli.ops.verify_metadata import parse_metadata

    with closing(TableFiles(session.location.options, session.store.uri.partition("://")[0])) as files:
        [(_, data)] = files.read([location])
    if isinstance(data, PathMissing):
        words = command_words("table", "history", names=[name])
        raise PathMissing(f"there is no metadata at {location}", hint="find older metadata", command=words)
    if isinstance(data, OlympiaError):
        raise data
    return describe_metadata(parse_metadata(data, location))


def print_table(session: Session, entry: dict[str, Any], metadata: dict[str, Any], name: str) -> None:
    """Print the table's entry and its metadata: one document, or the entry's fields and then a line for each part."""
    if session.output not in (Output.TABLE, Output.WIDE):
        render.record(session, {**entry, **metadata}, name=name)
        return
    render.record(session, {**entry, "iceberg": metadata["iceberg"]}, name=name)
    with session.out() as out:
        for title, rows in _sections(metadata):
            if session.is_tty:
                widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
                out.write(f"{title}\n" + ("" if rows else "  none\n"))
                for row in rows:
                    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                    out.write(f"  {'  '.join(cells)}".rstrip() + "\n")
            else:
                out.writelines("\t".join([title, *row]) + "\n" for row in rows)


def _sections(metadata: dict[str, Any]) -> Iterator[tuple[str, list[list[str]]]]:
    fields = metadata["schema"]["fields"]
    rows = [[row["id"], row["name"], row["type"], "required" if row["required"] else "", row["doc"]] for row in fields]
    yield "fields", _texts(rows)
    yield "partitioning", _texts([[row["name"], row["transform"], row["source"]] for row in metadata["partitioning"]])
    orders = metadata["sort_order"]
    yield (
        "sort order",
        _texts([[row["source"], row["transform"], row["direction"], row["null_order"]] for row in orders]),
    )
    snapshots = metadata["snapshots"]
    yield (
        "snapshots",
        _texts(
            [
                [
                    row["snapshot_id"],
                    row["created_at"],
                    row["operation"],
                    _rows(row["summary"]),
                    "current" if row["current"] else "",
                ]
                for row in snapshots
            ]
        ),
    )


def _rows(summary: dict[str, str]) -> str:
    """Format the added, the deleted and the total rows of a snapshot, if its summary has them."""
    rows = "of {} row" if summary.get("total-records") == "1" else "of {} rows"
    counts = (("added-records", "+{}"), ("deleted-records", "-{}"), ("total-records", rows))
    return " ".join(text.format(summary[key]) for key, text in counts if key in summary)


def _texts(rows: list[list[Any]]) -> list[list[str]]:
    return [["" if cell is None else visible(str(cell)) for cell in row] for row in rows]
