from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.cli.options import Output, check_one
from olympia_cli.cli.output import render, visible
from olympia_cli.cli.output.node import draw_node, draw_way, pivot_lines
from olympia_cli.cli.session import Session
from olympia_cli.errors import (
    Damaged,
    InvalidName,
    InvalidOption,
    NamespaceNotFound,
    PathMissing,
    StorageDenied,
    StorageFailed,
    TableNotFound,
    Unsupported,
    ViewNotFound,
)
from olympia_cli.format.paths import JAVA_WIDTH
from olympia_cli.names import NamespaceName, TableName, ViewName, plural
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.ops.inspect import KeyTarget, NodeDump, Way

EXAMPLES = [
    "olympia dump-node",
    "olympia dump-node v12 --key sales.orders",
    "olympia dump-node node/57ee05cd…",
    "olympia dump-node latest --follow sales.orders",
    "olympia dump-node ./lost+found/00110000 --json",
    "aws s3 cp s3://bucket/catalog/node/57ee05cd.arrow - | olympia dump-node -",
]

MAX_BYTES = 2**31
"""Largest size of a node file that is read."""


def run(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="[TARGET]",
            help="A version, vn/…, node/…, 8 or more digits of a node's uuid, a file, or - for stdin.",
        ),
    ] = "latest",
    file: Annotated[bool, typer.Option("--file", help="Read the target as a local file.")] = False,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Show only the rows of this key: NS, NS.T or a raw key."),
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(metavar="NS[.T]", help="Show each node on the path to this object."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print keys in full, with their padding.")] = False,
) -> None:
    """Show one node file, even a damaged one.

    Shows the system rows, the pivot table and the action log as far as they can be read, and the place of each damage.
    A target that begins with / or ./ (or comes with --file) is a local file, and is read without a catalog. Shortened
    pointers of the output can be pasted as targets. The exit code is 40 if the node is damaged.
    """
    session = Session(ctx)
    check_one(("--key", key), ("--follow", follow))
    is_file = file or target == "-" or target.startswith(("/", "./", "../"))
    if follow is not None:
        if is_file:
            raise InvalidOption("--follow needs a catalog, not a single file", hint="give a version instead")
        _follow(session, target, inspect.KeyTarget.parse(follow))
        return
    key_target = None if key is None else inspect.KeyTarget.parse(key)
    if is_file:
        dump = inspect.dump_node(_read_file(target, stdin=target == "-" and not file))
    else:
        dump = inspect.read_target(session.catalog, target)
    all_rows = dump.pivot
    if key_target is not None:
        dump.pivot = [row for row in dump.pivot if key_target.matches(row.key, row.name)]
        dump.actions = [row for row in dump.actions if key_target.matches(row.key, _action_name(row.action))]
    _print(session, dump, raw=raw, chosen=key_target is not None)
    _end(dump, alone=is_file)
    if key_target is not None and not dump.pivot and all_rows:
        raise _not_found(
            key_target, f"{dump.path} has no row for {key_target.text[:80]}", "search the tree with --follow"
        )


def _print(session: Session, dump: NodeDump, *, raw: bool, chosen: bool) -> None:
    output = session.output
    if output is Output.JSON:
        render.document(session, dump.describe())
        return
    with session.out(paged=True) as out:
        rows = [{"at": row.at, **row.describe()} for row in dump.pivot]
        if output is Output.JSONL:
            for row in rows:
                out.write(render.json_text(session, row) + "\n")
        elif output is Output.CSV:
            render.csv_rows(session, out, ["at", "key", "value", "pnode", "object", "namespace", "name"], rows)
        elif output is Output.NAME:
            for pivot_row in dump.pivot:
                if pivot_row.name is not None:
                    out.write(visible(str(pivot_row.name)) + "\n")
        elif not session.is_tty:
            for line in pivot_lines(dump.pivot):
                out.write(line + "\n")
        else:
            draw_node(render.console(session, out), dump, raw=raw, whole=output is Output.WIDE, chosen=chosen)


def _end(dump: NodeDump, alone: bool) -> None:
    """Raise an error if the node is damaged; its readable content has been printed before."""
    if dump.problems:
        raise Damaged("", dump.path, dump.summary(), hint="" if alone else None)
    if dump.unsupported:
        raise Unsupported(f"{dump.path}: {dump.unsupported}")


def _follow(session: Session, target: str, key_target: KeyTarget) -> None:
    way = inspect.follow_key(session.catalog, target, key_target)
    _print_way(session, way)
    if way.damaged:
        (path, reason), more = way.damaged[0], len(way.damaged) - 1
        raise Damaged("", path, reason + (f"; damaged, too: {plural(more, 'more file')}" if more else ""))
    if not way.is_there:
        where = f"version {way.version}" if way.version is not None else way.steps[0].dump.path
        raise _not_found(key_target, f"there is no {key_target.text[:80]} in {where}", "")


def _print_way(session: Session, way: Way) -> None:
    output = session.output
    if output is Output.JSON:
        render.document(session, way.describe())
        return
    with session.out(paged=True) as out:
        nodes = [{"step": at, **step.describe()} for at, step in enumerate(way.steps, 1)]
        if output is Output.JSONL:
            for node in nodes:
                out.write(render.json_text(session, node) + "\n")
        elif output is Output.CSV:
            render.csv_rows(session, out, ["step", "path", "kind", "bytes", "keys", "taken", "found", "digest"], nodes)
        elif output is Output.NAME:
            for node in nodes:
                out.write(node["path"] + "\n")
        elif not session.is_tty:
            for node in nodes:
                cells = [node[key] for key in ("step", "path", "keys", "bytes", "taken", "digest")]
                out.write("\t".join(visible(str(cell)) for cell in cells) + "\n")
            out.write(f"found\t{visible(way.value or '')}\n" if way.is_there else "not found\n")
        else:
            draw_way(render.console(session, out), way, whole=output is Output.WIDE)


def _read_file(path: str, *, stdin: bool) -> inspect.NodeBytes:
    try:
        if stdin:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as opened:
                data = opened.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise PathMissing(f"there is no file {path}", hint="") from None
    except IsADirectoryError:
        raise InvalidOption(f"{path} is a folder", hint="give a file; for the catalog in it use -c") from None
    except PermissionError:
        raise StorageDenied(f"no permission to read {path}") from None
    except (OSError, ValueError) as error:
        raise StorageFailed(f"{path} cannot be read: {error}") from None
    if len(data) > MAX_BYTES:
        raise Damaged("", path, "the file is larger than 2 GiB, the limit of node files", hint="")
    name = path.rpartition("/")[2]
    return inspect.NodeBytes("-" if stdin else path, data, len(name) == JAVA_WIDTH and not name.strip("01"))


def _action_name(action: dict[str, Any]) -> Any:
    try:
        if action["object"] == "namespace":
            return NamespaceName(action["namespace"])
        kind = {"table": TableName, "view": ViewName}.get(action["object"])
        return None if kind is None else kind(action["namespace"], action["name"])
    except InvalidName:
        return None


def _not_found(key_target: KeyTarget, message: str, hint: str) -> Exception:
    if key_target.raw is None:
        return (TableNotFound if key_target.is_table else NamespaceNotFound)(message, hint=hint)
    kinds = {"B===": NamespaceNotFound, "D===": ViewNotFound}
    return kinds.get(key_target.raw[:4], TableNotFound)(message, hint=hint)
