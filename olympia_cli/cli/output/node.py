"""Node files as tables, and the tree of node files as a drawing, for a terminal of any width."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from olympia_cli.cli.output import visible
from olympia_cli.cli.output.render import MAX_TABLE_ROWS, text
from olympia_cli.format.paths import parse_root_path
from olympia_cli.names import plural, quote_part, time_text
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from rich.console import Console

    from olympia_cli.format.salvage import Problem
    from olympia_cli.ops.inspect import NodeDump, PivotRow, Shape, TreeNode, Way

RAW_KEY_WIDTH = 110
"""Columns of a terminal from which keys are shown beside names."""

TABLE_WIDTH = 60
"""Columns of a terminal from which rows are tables; narrower ones get a line per value."""

MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters of drawings, which not every terminal can show."""

    ellipsis: str = "…"
    times: str = "×"
    arrow: str = "→"
    full: str = "█"
    empty: str = "░"
    fork: str = "├─ "
    corner: str = "└─ "
    trunk: str = "│  "


ASCII = Glyphs("...", "x", "->", "#", ".", "|- ", "`- ", "|  ")


def glyphs() -> Glyphs:
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    return Glyphs() if encoding == "utf8" else ASCII


class ShortPaths:
    """Shortens pointers as far as they stay distinct on the screen. Short pointers can be pasted as arguments."""

    _LEAST = 8

    def __init__(self, paths: Iterable[str | None], ellipsis: str, *, whole: bool = False) -> None:
        self._short: dict[str, str] = {}
        all_paths = sorted({path for path in paths if path is not None})
        if whole:
            return
        for at, path in enumerate(all_paths):
            folder, _, name = path.rpartition("/")
            if folder not in ("node", "def/catalog", "def/ns", "def/table", "def/view") or len(name) < 36:
                continue
            least = len(folder) + 1 + self._LEAST
            # in sorted order, only the neighbours can share a longer prefix
            for other in all_paths[max(0, at - 1) : at] + all_paths[at + 1 : at + 2]:
                least = max(least, _common(path, other) + 1)
            if least + len(ellipsis) < len(path):
                self._short[path] = path[:least] + ellipsis

    def __call__(self, path: str) -> str:
        return self._short.get(path, path)


def _common(first: str, second: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


# One node file


def draw_node(
    console: Console, dump: NodeDump, *, raw: bool = False, whole: bool = False, chosen: bool = False
) -> None:
    """Draw the system rows, the pivot table, the action log and the problems; with `chosen`, only selected rows."""
    marks = glyphs()
    pointers = [pointer for row in dump.pivot for pointer in (row.value, row.pnode)]
    short = ShortPaths(pointers, marks.ellipsis, whole=whole)
    version = f" v{dump.version}" if dump.version is not None else ""
    heading(console, f"{dump.kind.upper()}{version}", f"{dump.path}  {size_text(dump.size)}")
    _digest(console, "digest", dump.digest)
    if dump.kind == "root" and dump.actions:
        _digest(console, "actions", dump.actions_digest)
    if dump.system and not chosen:
        heading(console, "SYSTEM")
        _fields(console, [(key, value, _note(key, value)) for key, value in dump.system.items()])
    keys, children = plural(dump.keys, "key"), plural(dump.children, "child", "children")
    facts = f"{keys}, {children}" if dump.children else f"{keys}, a leaf" if dump.pivot else "none"
    heading(console, "PIVOT", f"{len(dump.pivot)} chosen" if chosen else facts)
    _pivot(console, dump.pivot, short, raw)
    if dump.missing_rows and dump.sizes is not None and not (chosen or dump.problems):
        first, last = len(dump.pivot), dump.sizes.order - 1
        rows = f"{first}{marks.ellipsis}{last}" if last > first else str(first)
        _line(console, f"{rows:>5}  NULL {marks.times} {dump.missing_rows}, not stored", "dim")
    if dump.actions:
        heading(console, "ACTIONS", plural(len(dump.actions), "row"))
        _actions(console, [row.action for row in dump.actions])
    _problems(console, dump.problems, dump.unsupported)


def _problems(console: Console, problems: Sequence[Problem], unsupported: str = "") -> None:
    if not problems and not unsupported:
        return
    heading(console, "PROBLEMS", str(len(problems) + bool(unsupported)), "bold red")
    for line in [str(problem) for problem in problems[:MAX_PROBLEMS]] + [unsupported] * bool(unsupported):
        console.print(text(f"  {line}"), overflow="fold")
    if len(problems) > MAX_PROBLEMS:
        _line(console, f"  and {len(problems) - MAX_PROBLEMS} more; see them all with --json", "dim")


def pivot_lines(rows: Iterable[PivotRow]) -> Iterable[str]:
    """Yield one line per row, for a pipe, with full pointers."""
    for row in rows:
        cells = [_cell(row, name) for name in ("key", "value", "pnode")]
        yield "\t".join(visible(cell) for cell in (str(row.at), row.object, *cells))


def _pivot(console: Console, rows: Sequence[PivotRow], short: ShortPaths, raw: bool) -> None:
    if not rows:
        return
    cells_of_rows = [
        [
            str(row.at),
            row.object,
            _cell(row, "key") if raw or row.key is None else inspect.compact_key(row.key),
            short(_cell(row, "value")),
            short(_cell(row, "pnode")),
        ]
        for row in rows
    ]
    titles = ["#", "object", "key", "value", "pnode"]
    if not raw and console.width < RAW_KEY_WIDTH:
        titles, cells_of_rows = _without(titles, 2), [_without(cells, 2) for cells in cells_of_rows]
    _table(console, titles, cells_of_rows, right={0}, least={0: 5})


def _cell(row: PivotRow, name: str) -> str:
    if name in row.lost:
        return "(lost)"
    value: str | None = getattr(row, name)
    return "NULL" if value is None else value


def _actions(console: Console, actions: Sequence[dict[str, Any]]) -> None:
    rows = [
        [str(at), action["type"], _action_object(action), _details(action["detail"])]
        for at, action in enumerate(actions)
    ]
    _table(console, ["#", "action", "object", "detail"], rows, right={0}, least={0: 5})


def _action_object(action: dict[str, Any]) -> str:
    kind, namespace, name = action["object"], action["namespace"], action["name"]
    if kind in ("table", "view"):
        return f"{kind} {quote_part(namespace)}.{quote_part(name)}"
    return f"namespace {namespace}" if kind == "namespace" else kind or "?"


def _details(detail: dict[str, Any]) -> str:
    return "  ".join(
        f"{key} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in detail.items()
        if value not in (None, "", []) and key != "key"
    )


def _note(key: str, value: str) -> str:
    """Return the meaning of a system value, if it is not obvious: a time, or the version of a root."""
    if key == "created_at_millis" and value.isascii() and value.isdigit() and len(value) <= 18:
        return time_text(int(value))
    version = parse_root_path(value)
    return f"v{version}" if version is not None else ""


# The path to a key


def draw_way(console: Console, way: Way, *, whole: bool = False) -> None:
    marks = glyphs()
    rows = [row for step in way.steps for row in (step.row, step.behind) if row is not None]
    pointers = [way.value, *(step.dump.path for step in way.steps), *(row.pnode for row in rows)]
    short = ShortPaths(pointers, marks.ellipsis, whole=whole)
    label = f"{way.name.kind.word} {way.name}" if way.name is not None else "key"
    heading(console, "FOLLOW", f"{label}  {inspect.compact_key(way.key)}")
    for number, step in enumerate(way.steps, 1):
        facts = f"{plural(step.dump.keys, 'key')}  {size_text(step.dump.size)}  digest {step.dump.digest}"
        style = "red" if step.dump.problems else ""
        _line(console, f"{number:>3}  {short(step.dump.path)}  {facts}", style)
        _line(console, "     " + _turn(way, number - 1, short, marks))
        for problem in step.dump.problems[:MAX_PROBLEMS]:
            _line(console, f"     {problem}", "red")
    if way.is_there:
        heading(console, "FOUND", way.value or "")
        if way.definition is not None:
            flat = [(key, _flat(value), "") for key, value in way.definition.items() if value not in (None, [], {})]
            _fields(console, flat)
    else:
        heading(console, "NOT FOUND", way.stopped, "bold red")
    if way.broken:
        heading(console, "PROBLEMS", str(len(way.broken)), "bold red")
        for path, reason in way.broken:
            _line(console, f"  {path}: {reason}")


def _turn(way: Way, at: int, short: ShortPaths, marks: Glyphs) -> str:
    """Describe the position of the key in the node at this step, and the child that follows."""
    step = way.steps[at]
    if step.row is None:
        return "nothing can be read here"
    if step.is_key:
        deleted = step.row.value is None and "value" not in step.row.lost
        return f"row {step.row.at} is the key" + (", and it is deleted" if deleted else "")
    after = f"after {step.row.object}" if step.row.at else "before the first key"
    before = f", before {step.behind.object}" if step.behind is not None and step.row.at else ""
    if step.behind is not None and not step.row.at:
        after, before = f"before {step.behind.object}", ""
    child = step.row.pnode
    goes = f"{marks.arrow} {short(child)}" if child is not None else "and there is nothing below"
    return f"row {step.row.at}: {after}{before} {goes}"


# Pieces


def heading(console: Console, title: str, rest: str = "", style: str = "bold") -> None:
    from rich.text import Text

    line = Text(title, style=style)
    if rest:
        line.append("  " + visible(rest), "not bold" if style == "bold" else "")
    console.print(line, soft_wrap=True)


def _line(console: Console, line: str, style: str = "") -> None:
    console.print(text(line, style), soft_wrap=True)


def _digest(console: Console, what: str, digest: str) -> None:
    style = {"verified": "green", "mismatch": "red"}.get(digest, "")
    meaning = {"mismatch": " (the rows have changed since they were written)", "absent": " (no checksum is stored)"}
    _line(console, f"  {what:<8} {digest}{meaning.get(digest, '')}", style)


def _fields(console: Console, fields: Sequence[tuple[str, str, str]]) -> None:
    width = max((len(visible(key)) for key, _, _ in fields), default=0)
    for key, value, note in fields:
        line = f"  {visible(key).ljust(width)}  {visible(value)}"
        _line(console, f"{line}  ({note})" if note else line)


def _table(
    console: Console,
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: set[int],
    least: dict[int, int] | None = None,
) -> None:
    """Print a table, or lines if there are too many rows or the terminal is too narrow."""
    if len(rows) > MAX_TABLE_ROWS:
        for row in rows:
            _line(console, "  ".join(row))
        return
    if console.width < TABLE_WIDTH:
        for row in rows:
            _line(console, f"  {row[0]}  {row[1]}")
            for title, cell in list(zip(titles, row, strict=True))[2:]:
                if cell not in ("", "NULL"):
                    console.print(text(f"     {title} {cell}"), overflow="fold")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for at, title in enumerate(titles):
        justify: Any = "right" if at in right else "left"
        table.add_column(title, justify=justify, overflow="fold", min_width=(least or {}).get(at))
    for row in rows:
        table.add_row(*(text(cell, _style(cell)) for cell in row))
    console.print(table)


def _style(cell: str) -> str:
    return {"NULL": "dim", "(lost)": "red", "unreadable": "red", "?": "red"}.get(cell, "")


def _without(cells: Sequence[str], at: int) -> list[str]:
    return [*cells[:at], *cells[at + 1 :]]


def size_text(number: int) -> str:
    return plural(number, "byte")


def _flat(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# The tree of node files


def draw_tree(console: Console, shape: Shape, *, whole: bool = False) -> None:
    from rich.text import Text

    marks = glyphs()
    depth = plural(len(shape.levels), "level")
    order = f"order {shape.order}, " if shape.order is not None else ""
    nodes, keys = plural(shape.nodes, "node"), plural(shape.keys, "key")
    heading(console, f"TREE v{shape.version}", f"{order}{depth}, {nodes}, {keys}, {size_text(shape.size)}")
    _levels(console, shape)
    console.print()
    lines: list[tuple[str, TreeNode | None]] = []
    _outline(shape.root, "", "", lines, marks)
    paths = [node.path for _, node in lines if node is not None]
    short = ShortPaths(paths, marks.ellipsis, whole=whole)
    heads = [
        prefix + (f"v{shape.version}" if node is shape.root else short(node.path) if node else "")
        for prefix, node in lines
    ]
    head_width = max(len(head) for head, (_, node) in zip(heads, lines, strict=True) if node is not None)
    counts = max(len(f"{node.keys:,}") for _, node in lines if node is not None)
    sizes = max(len(f"{node.size:,}") for _, node in lines if node is not None)
    for head, (_, node) in zip(heads, lines, strict=True):
        line = Text(visible(head).ljust(head_width if node is not None else 0))
        if node is None:
            line.stylize("dim")
        elif node.reason:
            line.append(f"  DAMAGED  {visible(node.reason)}", "red")
        else:
            line.append(f"  {node.keys:>{counts},} key" + ("s" if node.keys != 1 else " "))
            _append_fill(line, node, console.width, marks)
            line.append(f"  {node.size:>{sizes},} B")
            line.append(f"  {visible(_range(node, marks))}", "dim")
        if whole or (node is not None and node.reason):
            console.print(line, soft_wrap=True)
        else:
            console.print(_cropped(line, console.width, marks))


def _range(node: TreeNode, marks: Glyphs) -> str:
    """Format the first and the last key. The kind of the last object is left out if it is that of the first."""
    if node.first is None or node.last is None or node.first == node.last:
        return node.first or ""
    kind = node.first.partition(" ")[0] + " "
    return f"{node.first} {marks.ellipsis} {node.last.removeprefix(kind)}"


def _append_fill(line: Any, node: TreeNode, width: int, marks: Glyphs) -> None:
    if node.fill is None or width < TABLE_WIDTH:
        return
    cells = 10 if width >= RAW_KEY_WIDTH else 5
    full = min(cells, max(round(node.fill * cells), 1 if node.keys else 0))
    line.append("  " + marks.full * full, "green")
    line.append(marks.empty * (cells - full), "dim")
    line.append(f" {node.fill:>4.0%}")


def _cropped(line: Any, width: int, marks: Glyphs) -> Any:
    from rich.cells import cell_len

    if cell_len(line.plain) > width:
        line.truncate(max(1, width - len(marks.ellipsis)))
        line.append(marks.ellipsis, "dim")
    return line


def _outline(node: TreeNode, prefix: str, below: str, lines: list[tuple[str, TreeNode | None]], marks: Glyphs) -> None:
    """Collect the lines of the drawing, each node with its prefix."""
    lines.append((prefix, node))
    for at, child in enumerate(node.children, 1):
        is_last = at == len(node.children) and not node.left_out
        _outline(
            child,
            below + (marks.corner if is_last else marks.fork),
            below + (" " * len(marks.trunk) if is_last else marks.trunk),
            lines,
            marks,
        )
    if node.left_out:
        number = f"{node.left_out:,} more" if node.children else plural(node.left_out, "child", "children") + " below"
        lines.append((f"{below}{marks.corner}{marks.ellipsis} {number}", None))


def _levels(console: Console, shape: Shape) -> None:
    from rich.table import Table

    wide = console.width >= TABLE_WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2 if wide else 1, 0, 0))
    for title in ["level", "nodes", "keys", *(["fill min", "avg", "max", "bytes"] if wide else ["fill"])]:
        table.add_column(title, justify="right")
    table.add_column("", style="red")
    for level in shape.levels:
        least, average, most = (f"{fill:.0%}" if fill is not None else "" for fill in shape.fills(level))
        fills = [least, average, most, f"{level.size:,}"] if wide else [average]
        damaged = f"{level.damaged:,} damaged" if level.damaged else ""
        table.add_row(str(level.level), f"{level.nodes:,}", f"{level.keys:,}", *fills, damaged)
    console.print(table)


def tree_line(node: TreeNode) -> str:
    """Format a node as a line for a pipe."""
    cells = [
        str(node.level),
        node.path,
        str(node.keys),
        str(node.size),
        "" if node.fill is None else f"{node.fill:.4f}",
        node.first or "",
        node.last or "",
        f"damaged: {node.reason}" if node.reason else "",
    ]
    return "\t".join(visible(cell) for cell in cells).rstrip("\t")
