"""The tree of node files as a drawing, for a terminal of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from olympia_cli.cli.output.escape import visible
from olympia_cli.cli.output.node import RAW_KEY_WIDTH, TABLE_WIDTH, Glyphs, ShortPaths, glyphs, heading, size_text
from olympia_cli.names import plural

if TYPE_CHECKING:
    from rich.console import Console

    from olympia_cli.ops.inspect import Shape, TreeNode


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
