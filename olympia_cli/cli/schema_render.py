"""Printing an Iceberg table's metadata, below the table's entry in the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import visible
from olympia_cli.cli.params import Output
from olympia_cli.errors import InvalidOption, OlympiaError, PathMissing, command_words
from olympia_cli.iceberg.describe import describe_metadata
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.ops.verify_metadata import parse_metadata


def read_description(session: Session, location: str, name: str) -> dict[str, Any]:
    """Read the table's metadata file, and describe it."""
    if not location:
        raise InvalidOption(f"the table {name} has no metadata location, so its schema is unknown", hint="")
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
