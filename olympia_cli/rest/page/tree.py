"""Pages for the tree of node files: a drawing of a node and its children with their fill factors, and a node's rows."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged
from olympia_cli.format.node import Node
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import time_text
from olympia_cli.ops.inspect import read_target
from olympia_cli.pages import size_text
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import bad_request
from olympia_cli.rest.page import document as pages
from olympia_cli.rest.page.document import Link, document, url
from olympia_cli.tree.load import MAX_DEPTH

DRAWN = 128
"""The maximum number of children that are read and drawn, so that a page's cost does not grow with the catalog."""
ROWS = 1000


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the drawing. `keys` is None if it cannot be read."""

    path: str
    keys: int | None
    fill: float
    label: str
    url: str

    @property
    def short(self) -> str:
        return _short(self.path)


def tree(call: Call) -> Response:
    """Show a node, by default the root, and its children."""
    at, snapshot = pages.at(call), pages.snapshot(call)
    path = call.query.get("path", "")
    if path and file_kind(path) is not FileKind.NODE:
        raise bad_request("path is not that of a node")
    top = snapshot.reader.node(path) if path else snapshot.root.node
    children = [child for child in top.children if isinstance(child, str)]
    nodes = snapshot.reader.ahead(children[:DRAWN])
    return document(
        call,
        "tree.html",
        here="/tree",
        at=at,
        snapshot=snapshot,
        order=snapshot.sizes.order,
        top=_box(snapshot, path or snapshot.file.path, top, at),
        boxes=[_box(snapshot, child, nodes.get(child), at) for child in children[:DRAWN]],
        left_out=len(children) - DRAWN,
        ancestors=_ancestors(snapshot, path, top, at) if path else [],
    )


def _ancestors(snapshot: Snapshot, path: str, node: Node, at: str) -> list[Link | str]:
    """Return the way from the root to a node. A node outside of this version's tree has only the root above it."""
    way: list[Link | str] = [Link(f"root of v{snapshot.version}", url("/tree", at=at))]
    current = snapshot.root.node
    for _ in range(MAX_DEPTH if node.keys else 0):
        index, is_found = current.find(node.keys[0])
        child = None if is_found or current.is_leaf else current.children[index]
        if child == path:
            return [*way, _short(path)]
        if not isinstance(child, str):
            break
        way.append(Link(_short(child), url("/tree", path=child, at=at)))
        current = snapshot.reader.node(child)
    return [way[0], _short(path)]


def _box(snapshot: Snapshot, path: str, node: Node | None, at: str) -> Box:
    if node is None:
        return Box(path, None, 0.0, "it cannot be read", url("/node", path=path))
    target = url("/node", path=path) if node.is_leaf else url("/tree", path=path, at=at)
    return Box(
        path,
        len(node.keys),
        min(1.0, len(node.keys) / max(1, snapshot.sizes.order - 1)),
        _first(snapshot, node),
        target,
    )


def _first(snapshot: Snapshot, node: Node) -> str:
    if not node.keys:
        return "empty"
    try:
        name = snapshot.keys.decode(node.keys[0], snapshot.file.path)
        return f"{name.kind.word} {name}"
    except Damaged:
        return node.keys[0]


def _short(path: str) -> str:
    return path if path.startswith("vn/") else f"{path[:13]}…"


def node(call: Call) -> Response:
    """Show one node file row by row, even if it is damaged."""
    path = call.query.get("path", "")
    if file_kind(path) not in (FileKind.NODE, FileKind.ROOT):
        raise bad_request("path is not that of a node")
    dump = read_target(call.service.catalog, path)
    facts = {
        "file": path,
        "kind": dump.kind,
        "size": size_text(dump.size),
        "keys": f"{dump.keys:,}",
        "children": f"{dump.children:,}",
        "digest": dump.digest,
        **{key: _system(key, value) for key, value in dump.system.items()},
    }
    rows = [
        [row.at, row.object, row.value, Link(_short(row.pnode), url("/node", path=row.pnode)) if row.pnode else ""]
        for row in dump.pivot[:ROWS]
    ]
    return document(
        call,
        "node.html",
        here="/tree",
        short=_short(path),
        problems=dump.problems[:20],
        facts=facts,
        links={key: url("/node", path=facts[key]) for key in ("previous_root", "rollback_from_root") if key in facts},
        rows=rows,
        left_out=len(dump.pivot) - ROWS,
    )


def _system(key: str, value: str) -> str:
    if key == "created_at_millis" and value.isascii() and value.isdigit() and len(value) < 16:
        return f"{value} ({time_text(int(value))})"
    return value
