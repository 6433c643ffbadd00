"""Printing values: tables on a terminal, one record per line in a pipe, JSON and CSV for programs."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import dumps, is_plain, visible, visible_rows
from olympia_cli.cli.session import Changed, Session
from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.format.actions import Action

MAX_TABLE_ROWS = 2000
"""Longer lists are printed as lines, because a table needs all rows in memory."""


_ROWS_AT_ONCE = 256

FOLDED = 12
"""Minimum width of a folded column. A table that needs more room becomes lines."""
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that a spreadsheet takes for formulas."""


class Column(NamedTuple):
    """A column of a list, and the key of its values. A `wide` column is shown with `-o wide` only.

    A `place` is shortened on a narrow terminal: the folder that all rows share is left out, and UUIDs are cut.
    """

    key: str
    title: str
    wide: bool = False
    right: bool = False
    style: str = ""
    place: bool = False


def document(session: Session, value: Mapping[str, Any]) -> None:
    """Print one JSON document, with the metrics of the run if there are any."""
    if session.metrics is not None:
        value = {**value, "metrics": session.metrics()}
    with session.out() as out:
        out.write(json_text(session, value) + "\n")


def json_text(session: Session, value: Any) -> str:
    return dumps(value, sys.stdout, indent=2 if session.is_tty and session.output is Output.JSON else None)


def record(session: Session, value: Mapping[str, Any], *, name: str = "") -> None:
    """Print one object, as JSON or with one line per field."""
    if session.output in (Output.JSON, Output.JSONL):
        document(session, value)
        return
    with session.out(paged=True) as out:
        if session.output is Output.NAME:
            out.write(visible(name) + "\n")
        elif session.output is Output.CSV:
            csv_rows(session, out, list(value), [value])
        else:
            _write_fields(session, out, value)


def records(
    session: Session,
    plural: str,
    columns: Sequence[Column],
    values: Iterable[Mapping[str, Any]],
    *,
    head: Mapping[str, Any] | None = None,
    tail: Callable[[], Mapping[str, Any]] = dict,
    name: Callable[[Mapping[str, Any]], str] = lambda value: str(value["name"]),
    title: str = "",
) -> None:
    """Print a list of objects as they come. JSON has the keys of `head` before it and those of `tail` after it.

    `tail` is called after the last object.
    """
    output = session.output
    with session.out(paged=True) as out:
        if output is Output.JSON:
            json_list(out, plural, values, head or {}, tail)
        elif output is Output.JSONL:
            for value in values:
                out.write(json_text(session, value) + "\n")
        elif output is Output.CSV:
            csv_rows(session, out, [column.key for column in columns], values)
        elif output is Output.NAME:
            for value in values:
                out.write(visible(name(value)) + "\n")
        else:
            selected = [column for column in columns if not column.wide or output is Output.WIDE]
            _write_rows(session, out, selected, iter(values), title)


def json_list(
    out: TextIO,
    plural: str,
    values: Iterable[Any],
    head: Mapping[str, Any],
    tail: Callable[[], Mapping[str, Any]] = dict,
) -> None:
    """Write `{…head…, "plural": [ … ], …tail…}` with one line per value, as the values come."""
    opening = "".join(f'"{key}": {dumps(value, sys.stdout)}, ' for key, value in head.items())
    out.write(f'{{{opening}"{plural}": [')
    separator = "\n"
    for value in values:
        out.write(separator + dumps(value, sys.stdout))
        separator = ",\n"
    closing = "".join(f', "{key}": {dumps(value, sys.stdout)}' for key, value in tail().items())
    out.write(f"]{closing}}}\n")


def csv_rows(session: Session, out: TextIO, keys: Sequence[str], values: Iterable[Mapping[str, Any]]) -> None:
    """Write a header line and a row for each value."""
    csv_row(session, out, keys)
    for value in values:
        csv_row(session, out, [value.get(key) for key in keys])


def csv_row(session: Session, out: TextIO, values: Iterable[Any]) -> None:
    """Write one row. Control characters are escaped on a terminal, and unchanged in a file."""
    import csv

    cells = [_cell(value) for value in values]
    if session.csv_safe:
        cells = ["'" + cell if cell.startswith(FORMULA) and not _is_number(cell) else cell for cell in cells]
    csv.writer(out, lineterminator="\n").writerow(map(visible, cells) if session.is_tty else cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def outcome(session: Session, value: Mapping[str, Any], *texts: str) -> None:
    """Print the result of a command: a document or a row of CSV for programs, else lines unless --quiet."""
    if session.output in (Output.JSON, Output.JSONL):
        document(session, value)
        return
    lines = [f"{visible(text)}\n" for text in texts]
    with session.out() as out:
        if session.output is Output.CSV:
            csv_rows(session, out, list(value), [value])
        elif not session.quiet:
            out.writelines(lines)


_ACTION = ["version", "transaction", "type", "object", "namespace", "name"]


def changed(session: Session, change: Changed, text: str, **more: Any) -> None:
    """Print the result of a changing command. `more` has further keys for JSON. CSV has a row for each action."""
    where: dict[str, Any] = {"version": change.version}
    if change.transaction is not None:
        where["transaction"] = change.transaction
    if session.output in (Output.JSON, Output.JSONL):
        document(session, {**where, "actions": inspect.describe_actions(change.actions), **more})
        return
    if session.output is Output.CSV:
        actions = inspect.describe_actions(change.actions)
        with session.out() as out:
            csv_rows(session, out, _ACTION, ({**action, **where} for action in actions))
    elif not session.quiet:
        place = f"v{change.version}" if change.transaction is None else f"transaction {change.transaction}"
        line(session, f"{place}  {text if change.actions else 'nothing to do'}")


def say_actions(session: Session, actions: Iterable[Action]) -> None:
    """Print actions to stderr, with many similar ones on one line."""
    from olympia_cli.cli.output.log import folded

    for row in folded(inspect.describe_actions(actions)):
        session.say(f"  {row.text}")


def line(session: Session, text: str) -> None:
    """Print one line of data."""
    shown = visible(text) + "\n"
    with session.out() as out:
        out.write(shown)


def wrapped(session: Session, text: str, indent: int) -> list[str]:
    """Break the text into lines that fit beside an indentation. Words are not broken, so that paths can be copied."""
    room = max(session.width - indent, 20)
    return wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def console(session: Session, out: TextIO, *, width: int | None = None) -> Any:
    """Return a rich console that prints values unchanged: no markup, no emoji, no highlighting."""
    from rich.console import Console

    return Console(
        file=out,
        # without a height, rich assumes 80 columns for dumb terminals
        width=width or session.width,
        height=25,
        force_terminal=session.is_tty,
        no_color=not session.color,
        color_system="standard" if session.color else None,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        safe_box=True,
    )


def text(value: str, style: str = "") -> Any:
    """Convert a value for a rich table."""
    from rich.text import Text

    return Text(visible(value), style=style)


def _write_rows(
    session: Session, out: TextIO, columns: Sequence[Column], values: Iterator[Mapping[str, Any]], title: str
) -> None:
    keys = [column.key for column in columns]
    if not session.is_tty:
        write_lines(out, ([_cell(value.get(key)) for key in keys] for value in values))
        return
    first = list(islice(values, MAX_TABLE_ROWS + 1))
    if not first:
        session.say(f"no {title}" if title else "nothing")
        return
    if len(first) > MAX_TABLE_ROWS:
        for value in chain(first, values):
            out.write("  ".join([visible(_cell(value.get(key))) for key in keys]) + "\n")
        return
    cells = [[visible(for_people(value.get(key))) for key in keys] for value in first]
    if session.output is not Output.WIDE:
        cells = [[_short_time(cell) for cell in row] for row in cells]
    grid = _Grid(
        columns, cells, [column.right or _is_whole(row[at] for row in cells) for at, column in enumerate(columns)]
    )
    if session.output is not Output.WIDE and not grid.fits(session.width):
        grid = grid.without_constants()
        shorter = (grid, grid.shortened(), grid.shortened(without_folders=True))
        grid = next((form for form in shorter if form.fits(session.width)), grid)
    if grid.common:
        _write_blocks(session, out, list(grid.common), [list(grid.common.values())])
        out.write("\n")
    if not grid.fits(session.width):
        _write_blocks(session, out, grid.columns, grid.rows)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, whole in zip(grid.columns, grid.rigid, strict=True):
        justify: Any = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, overflow="fold", no_wrap=whole, style=column.style)
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    console(session, out).print(table)


@dataclass(frozen=True, slots=True)
class _Grid:
    """A table on a terminal. Cells of `rigid` columns are not folded. Cells of `common` are printed once, first."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    rigid: Sequence[bool]
    common: Mapping[Column, str] = field(default_factory=dict)

    def fits(self, width: int) -> bool:
        widths = [
            max(len(column.title), *map(len, cells)) for column, cells in zip(self.columns, self._cells(), strict=True)
        ]
        needed = sum(width if whole else min(width, FOLDED) for width, whole in zip(widths, self.rigid, strict=True))
        return needed + 2 * (len(self.columns) - 1) <= width

    def without_constants(self) -> _Grid:
        """Move columns with the same value in all rows to `common`, and drop columns without values."""
        if len(self.rows) < 2:
            return self
        values = [set(cells) for cells in self._cells()]
        stays = [at for at, distinct in enumerate(values) if len(distinct) > 1] or [0]
        common = {
            column: cell
            for at, (column, cell) in enumerate(zip(self.columns, self.rows[0], strict=True))
            if at not in stays and cell
        }
        rows = [[row[at] for at in stays] for row in self.rows]
        return _Grid([self.columns[at] for at in stays], rows, [self.rigid[at] for at in stays], common)

    def shortened(self, *, without_folders: bool = False) -> _Grid:
        """Shorten places, and move the folder that they share to `common`. The last form has names of files alone."""
        columns, common = [], dict(self.common)
        for column, cells in zip(self.columns, self._cells(), strict=True):
            folder, short = _short_places(cells) if column.place else ("", cells)
            names = [re.sub(r".*/", "…/", cell) for cell in short] if column.place and without_folders else short
            # distinct places stay distinct
            short = names if len(set(names)) == len(set(short)) else short
            if folder:
                common[column] = f"{folder}…"
            columns.append(short)
        return _Grid(self.columns, list(zip(*columns, strict=True)), self.rigid, common)

    def _cells(self) -> Iterator[Sequence[str]]:
        """Yield the cells of each column."""
        return zip(*self.rows, strict=True)


def _short_places(cells: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the folder that all cells share, and the rest of each with cut UUIDs. Distinct cells stay distinct."""
    folders = zip(*(cell.split("/")[:-1] for cell in cells), strict=False)
    folder = "".join(f"{parts[0]}/" for parts in takewhile(lambda parts: len(set(parts)) == 1, folders))
    if folder == "/" or folder.endswith("://"):
        folder = ""
    rest = [cell.removeprefix(folder) for cell in cells]
    uuid = r"([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.metadata\.json)?"
    short = [re.sub(uuid, r"\1…", cell) for cell in rest]
    return folder, short if len(set(short)) == len(set(cells)) else rest


def write_lines(out: TextIO, rows: Iterable[Sequence[str]]) -> None:
    """Write a line for each row, for a pipe. Rows before an error are written.

    Few cells need escapes, which is why a batch of rows is tested at once.
    """
    buffer: list[Sequence[str]] = []
    try:
        for row in rows:
            buffer.append(row)
            if len(buffer) == _ROWS_AT_ONCE:
                full, buffer = buffer, []
                out.write(_lines(full))
    finally:
        out.write(_lines(buffer))


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "".join([line + "\n" for line in map("\t".join, visible_rows(rows))])


def write_pairs(out: TextIO, groups: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Write a line for each cell of a group, with the group's first cell before it. Faster than `write_lines`."""
    for first, cells in groups:
        if not is_plain(first + "".join(cells)):
            first, cells = visible(first), [visible(cell) for cell in cells]
        out.write(f"{first}\t" + f"\n{first}\t".join(cells) + "\n")


def _write_blocks(session: Session, out: TextIO, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Write a line for each field, for tables that would break values which have to be copied in one piece."""
    label = max(len(column.title) for column in columns)
    for number, row in enumerate(rows):
        out.write("\n" if number else "")
        for column, cell in zip(columns, row, strict=True):
            if cell and label + 2 + len(cell) <= session.width:
                out.write(f"{column.title.ljust(label)}  {cell}\n")
            elif cell:
                room = max(session.width - 2, 1)
                parts = [cell[at : at + room] for at in range(0, len(cell), room)]
                out.write("".join(f"{line}\n" for line in (column.title, *(f"  {part}" for part in parts))))


def _is_whole(cells: Iterable[str]) -> bool:
    """Return whether a column has values that are copied in one piece: times, ids, versions, locations."""
    whole = re.compile(rf"{_TIME}|[0-9a-f]{{8}}-[0-9a-f-]{{27}}|v?[0-9]*|\S*/\S*|\S+\.metadata\.json")
    return all(whole.fullmatch(cell) for cell in cells)


def _short_time(cell: str) -> str:
    """Cut a time to seconds, as in the log."""
    return f"{cell[:10]} {cell[11:19]}Z" if re.fullmatch(_TIME, cell) else cell


def _write_fields(session: Session, out: TextIO, value: Mapping[str, Any]) -> None:
    rows = visible_rows([line for key, field in value.items() for line in _flat(key, field)])
    width = max((len(key) for key, _ in rows), default=0)
    out.writelines(f"{key.ljust(width)}  {cell}\n" if session.is_tty else f"{key}\t{cell}\n" for key, cell in rows)


def _flat(key: str, value: Any, *, inside: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the fields of a value. Inner fields are named `outer.inner`; empty outer fields are left out."""
    if isinstance(value, Mapping):
        for inner, item in value.items():
            yield from _flat(f"{key}.{inner}", item, inside=True)
    elif inside or (value is not None and value != []):
        yield key, _cell(value)


def for_people(value: Any) -> str:
    """Format a cell for a terminal: the items of a small map or list, without JSON's brackets and quotes."""
    if isinstance(value, Mapping) and not any(isinstance(item, Mapping | list) for item in value.values()):
        return ", ".join(f"{key}={_cell(item)}" for key, item in value.items())
    if isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in value):
        return ", ".join(map(_cell, value))
    return _cell(value)


def _cell(value: Any) -> str:
    # first, because most cells of long lists are strings
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def check_output(session: Session, path: str) -> None:
    """Raise InvalidOption for an output file or folder among the files of the catalog."""
    from olympia_cli.format.paths import OWN_FOLDERS
    from olympia_cli.ops.export import path_below

    catalog = session.store.uri
    inside = None if "://" in catalog else path_below(path.removeprefix("file://"), catalog)
    # some file systems ignore case
    if inside is not None and inside.partition("/")[0].lower() in OWN_FOLDERS:
        raise InvalidOption(f"{quoted(path, 200)} is among the files of the catalog", hint="choose another place")


def svg(session: Session, draw: Callable[[Any], None], path: str, title: str, width: int = 110) -> None:
    """Draw on a recording console, and write the picture."""
    check_output(session, path)
    from rich.console import Console

    recording = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, markup=False, emoji=False, highlight=False
    )
    draw(recording)
    with open(path, "w", encoding="utf-8") as file:
        file.write(plain_svg(recording.export_svg(title=title)))


def plain_svg(picture: str) -> str:
    """Make a picture look the same everywhere: without web fonts, and without ligatures, which would change C===."""
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL).replace(
        "Fira Code, monospace", "monospace"
    )
    return picture.replace("<style>", "<style>\n    text { font-variant-ligatures: none; }", 1) + "\n"
