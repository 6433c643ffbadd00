from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.cli.options import At, Output
from olympia_cli.cli.output import render, visible
from olympia_cli.cli.output.node import draw_tree, tree_line
from olympia_cli.cli.session import Session
from olympia_cli.errors import Damaged, InvalidOption, StorageFailed
from olympia_cli.names import parse_reference, plural
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.ops.inspect import Shape, TreeNode

EXAMPLES = [
    "olympia tree",
    "olympia tree --at v12 --depth 2",
    "olympia tree --svg tree.svg",
    "olympia tree --json | jq '.levels'",
]

DEPTH = 3
MAX_CHILDREN = 10


def run(
    ctx: typer.Context,
    at: At = None,
    depth: Annotated[
        int | None, typer.Option(metavar="N", help=f"Number of levels to draw; {DEPTH} if not given, 0 for all.")
    ] = None,
    max_children: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Children to draw per node; {MAX_CHILDREN} if not given, 0 for all."),
    ] = None,
    svg: Annotated[str | None, typer.Option("--svg", metavar="FILE", help="Write the drawing to an SVG file.")] = None,
) -> None:
    """Draw the tree of node files.

    Shows the levels, the sizes of the nodes and how full they are; every node is read once. Piped output has one line
    per node. A damaged node is shown in its place, and the exit code is 40.
    """
    for option, value in (("--depth", depth), ("--max-children", max_children)):
        if value is not None and value < 0:
            raise InvalidOption(f"{option} {value} is negative", hint="give a number; 0 is all")
    session = Session(ctx)
    file = inspect.find_root(session.catalog, parse_reference(at or "latest"))
    levels = _bound(depth, DEPTH)
    output = session.output
    if svg is None and (output in (Output.JSONL, Output.CSV, Output.NAME) or (_is_text(output) and not session.is_tty)):
        with session.out() as out:
            lines = _TreeLines(session, out)
            # lines are written as nodes are read, so no node is kept to be drawn
            shape = inspect.tree_shape(
                session.store, file, depth=1, max_children=0, on_node=_down_to(depth, lines.write)
            )
    else:
        # JSON has all children, for programs
        width = _bound(max_children, None if output is Output.JSON else MAX_CHILDREN)
        shape = inspect.tree_shape(session.store, file, depth=levels, max_children=width)
        _draw(session, shape, svg)
    _end(shape)


def _draw(session: Session, shape: Shape, svg: str | None) -> None:
    if svg is not None:
        try:
            render.svg(session, lambda console: draw_tree(console, shape), svg, f"{session.store.uri} v{shape.version}")
        except OSError as error:
            raise StorageFailed(f"{svg} cannot be written: {error.strerror or error}", hint="") from None
        session.say(f"wrote {svg}")
    if session.output is Output.JSON:
        render.document(session, shape.describe())
    elif svg is None:
        with session.out(paged=True) as out:
            draw_tree(render.console(session, out), shape, whole=session.output is Output.WIDE)


class _TreeLines:
    """Writes each node as a line when it is read."""

    def __init__(self, session: Session, out: Any) -> None:
        self._session = session
        self._out = out
        self._keys = ["level", "path", "keys", "bytes", "fill", "first", "last", "damaged"]
        if session.output is Output.CSV:
            self._csv(dict(zip(self._keys, self._keys, strict=True)))

    def write(self, node: TreeNode) -> None:
        value = {"level": node.level, **node.describe()}
        del value["children"]
        if self._session.output is Output.JSONL:
            self._out.write(render.json_text(self._session, value) + "\n")
        elif self._session.output is Output.CSV:
            self._csv(value)
        elif self._session.output is Output.NAME:
            self._out.write(visible(node.path) + "\n")
        else:
            self._out.write(tree_line(node) + "\n")

    def _csv(self, value: dict[str, Any]) -> None:
        render.csv_row(self._session, self._out, [value.get(key) for key in self._keys])


def _down_to(depth: int | None, write: Any) -> Any:
    return lambda node: write(node) if not depth or node.level <= depth else None


def _bound(number: int | None, default: int | None) -> int | None:
    return default if number is None else number or None


def _is_text(output: Output) -> bool:
    return output in (Output.TABLE, Output.WIDE)


def _end(shape: Shape) -> None:
    if shape.failure is not None:
        raise shape.failure
    if shape.damaged:
        first, more = shape.damaged[0], shape.damaged_count - 1
        raise Damaged("", first.path, first.reason + (f"; damaged, too: {plural(more, 'more node')}" if more else ""))
