"""Pages for the tree of node files: a drawing of a node and its children with their fill factors, and a node's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged
from olympia_cli.format.node import Node
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import plural, time_text
from olympia_cli.ops.look.dump_node import read_target
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import bad_request
from olympia_cli.rest.page import look
from olympia_cli.rest.page.html import Content, Html, document, facts, link, table, tag, url
from olympia_cli.rest.page.look import page

DRAWN = 128
"""The maximum number of children that are read and drawn, so that a page's cost does not grow with the catalog."""
ROWS = 1000
_ACROSS, _WIDE, _HIGH, _GAP = 8, 132, 44, 12


@dataclass(frozen=True, slots=True)
class _Drawn:
    path: str
    keys: int | None
    fill: float
    label: str


@page
def tree(call: Call) -> Response:
    """Show a node, by default the root, and its children."""
    at, snapshot = look.at(call), look.snapshot(call)
    path = call.query.get("path", "")
    if path and file_kind(path) is not FileKind.NODE:
        raise bad_request("path is not that of a node")
    top = snapshot.reader.node(path) if path else snapshot.root.node
    drawn = _children(snapshot, top)
    left_out = len([child for child in top.children if isinstance(child, str)]) - len(drawn)
    order = snapshot.sizes.order
    here = _Drawn(
        path or snapshot.file.path,
        len(top.keys),
        _fill(top, order),
        "this node" if path else f"root of v{snapshot.version}",
    )
    content: list[Content] = [
        tag("p", f"version {snapshot.version} · order {order:,}: at most {order - 1:,} keys a node", class_="where"),
        tag("p", link("To the root", "/tree", {"at": at})) if path else None,
        tag("div", _drawing(here, drawn, at), class_="scroll", tabindex=0),
        tag("p", f"and {plural(left_out, 'more child', 'more children')}") if left_out > 0 else None,
        tag("h2", "As a table"),
        table(
            ["node", "keys", "fill", "first key"],
            [
                [link(_short(one.path), "/node", {"path": one.path}), _keys(one), f"{one.fill:.0%}", one.label]
                for one in (here, *drawn)
            ],
            ("keys", "fill"),
        ),
    ]
    return document("Tree", *content, at=at, here="/tree")


def _children(snapshot: Snapshot, top: Node) -> list[_Drawn]:
    paths = [child for child in top.children if isinstance(child, str)][:DRAWN]
    nodes = snapshot.reader.ahead(paths)
    drawn = []
    for path in paths:
        node = nodes.get(path)
        if node is None:
            drawn.append(_Drawn(path, None, 0.0, "it cannot be read"))
        else:
            drawn.append(_Drawn(path, len(node.keys), _fill(node, snapshot.sizes.order), _first(snapshot, node)))
    return drawn


def _first(snapshot: Snapshot, node: Node) -> str:
    if not node.keys:
        return ""
    try:
        name = snapshot.keys.decode(node.keys[0], snapshot.file.path)
        return f"{name.kind.word} {name}"
    except Damaged:
        return node.keys[0]


def _fill(node: Node, order: int) -> float:
    return min(1.0, len(node.keys) / max(1, order - 1))


def _keys(one: _Drawn) -> str:
    return "?" if one.keys is None else f"{one.keys:,}"


def _short(path: str) -> str:
    return path if path.startswith("vn/") else f"{path[:13]}…"


def _drawing(top: _Drawn, below: Sequence[_Drawn], at: str) -> Html:
    across = max(1, min(_ACROSS, len(below)))
    rows = -(-len(below) // across)
    width = across * (_WIDE + _GAP) + _GAP
    height = (rows + 1) * (_HIGH + 3 * _GAP)
    left = (width - _WIDE) // 2
    edges, boxes = [], [_box(top, left, _GAP, at, leads=False)]
    for number, one in enumerate(below):
        x = _GAP + (number % across) * (_WIDE + _GAP)
        y = _GAP + _HIGH + 4 * _GAP + (number // across) * (_HIGH + 2 * _GAP)
        if number < across:
            middle, end = left + _WIDE // 2, x + _WIDE // 2
            edges.append(
                tag(
                    "path",
                    d=f"M{middle} {_GAP + _HIGH} C{middle} {y - _GAP} {end} {_GAP + _HIGH} {end} {y}",
                    class_="edge",
                )
            )
        boxes.append(_box(one, x, y, at, leads=True))
    label = f"A node with {plural(len(below), 'child', 'children')} and how full each is"
    return tag("svg", edges, boxes, viewBox=f"0 0 {width} {height}", width=width, role="group", aria_label=label)


def _box(one: _Drawn, x: int, y: int, at: str, *, leads: bool) -> Html:
    text = f"{_keys(one)} {'key' if one.keys == 1 else 'keys'} · {one.fill:.0%}"
    parts = [
        tag("rect", x=x, y=y, width=_WIDE, height=_HIGH, rx=5, class_="box bad" if one.keys is None else "box"),
        tag("rect", x=x, y=y + _HIGH - 8, width=max(1, round(_WIDE * one.fill)), height=8, rx=3, class_="fill"),
        tag("text", text, x=x + 8, y=y + 22),
        tag("title", f"{one.path}: {one.label}"),
    ]
    target = url("/tree", {"path": one.path, "at": at}) if leads else url("/node", {"path": one.path})
    return tag("a", parts, href=target, aria_label=f"{text}, {one.label}")


@page
def node(call: Call) -> Response:
    """Show one node file row by row, even if it is damaged."""
    path = call.query.get("path", "")
    if file_kind(path) not in (FileKind.NODE, FileKind.ROOT):
        raise bad_request("path is not that of a node")
    dump = read_target(call.service.catalog, path)
    values: list[tuple[str, Content]] = [
        ("kind", dump.kind),
        ("size", look.bytes_text(dump.size)),
        ("keys", f"{dump.keys:,}"),
        ("children", f"{dump.children:,}"),
        ("digest", dump.digest),
        *((key, _system(key, value)) for key, value in dump.system.items()),
    ]
    problems = [tag("p", str(problem), class_="verdict damaged") for problem in dump.problems[:20]]
    rows = [
        [
            str(row.at),
            row.object,
            row.value or "",
            link(_short(row.pnode), "/node", {"path": row.pnode}) if row.pnode else "",
        ]
        for row in dump.pivot[:ROWS]
    ]
    more = tag("p", f"and {plural(len(dump.pivot) - ROWS, 'more row')}") if len(dump.pivot) > ROWS else None
    pivot = [tag("h2", "Pivot table"), table(["#", "object", "value", "pnode"], rows, ("#",)), more]
    return document(f"Node {_short(path)}", problems, facts(values), *pivot, here="/tree")


def _system(key: str, value: str) -> Content:
    if key in ("previous_root", "rollback_from_root"):
        return link(value, "/node", {"path": value})
    if key == "created_at_millis" and value.isascii() and value.isdigit() and len(value) < 16:
        return f"{value} ({time_text(int(value))})"
    return value
