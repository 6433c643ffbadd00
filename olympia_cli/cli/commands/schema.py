"""`olympia schema`: JSON Schemas of the output of each command. Contract tests hold the commands to them.

The schemas are files in `cli/schemas`. Unknown keys are always allowed, because later releases may add keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from olympia_cli.cli.app import ALIASES
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.names import nearest

EXAMPLES = ["olympia schema", "olympia schema table show", "olympia schema error"]

COLUMNS = [Column("command", "COMMAND"), Column("shapes", "SHAPES")]


def run(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...",
            help="A command, such as table show, or error or log-format (for stderr); a list if not given.",
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a command's --json.

    Programs may rely on it. Later releases only add keys, so ignore unknown keys. If options change the output, the
    schema allows any of several shapes. -o jsonl prints the items of a list, one per line.
    """
    session = Session(ctx)
    if not command:
        documents = session.output in (Output.JSON, Output.JSONL)
        rows = (
            {"command": path, "schemas": list(names)} if documents else {"command": path, "shapes": ", ".join(names)}
            for path, names in SHAPES.items()
        )
        render.records(session, "commands", COLUMNS, rows, name=lambda row: str(row["command"]))
        return
    path = " ".join(ALIASES.get(word, word) for word in command)
    if path in ON_STDERR:
        names: tuple[str, ...] = (ON_STDERR[path],)
    elif path in SHAPES:
        names = SHAPES[path]
    else:
        members = [member for member in SHAPES if member.startswith(path + " ")]
        meant = nearest(path, [*SHAPES, *ON_STDERR])
        words: tuple[str, ...] = ()
        if members:
            hint = f"there are {', '.join(members)}"
        elif meant is not None:
            hint = f"did you mean {meant}?"
        else:
            hint, words = "list the schemas", ("schema",)
        raise InvalidOption(f"there is no schema for {quoted(path)}", hint=hint, command=words)
    title = path if path in ON_STDERR else f"olympia {path} --json"
    with session.out(paged=True) as out:
        out.write(render.json_text(session, whole_schema(title, names)) + "\n")


SCHEMAS = Path(__file__).parents[1] / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_CHANGED = ("changed", "staged")
SHAPES: dict[str, tuple[str, ...]] = {
    "init": ("init",),
    "ns create": _CHANGED,
    "ns ls": ("ns-ls",),
    "ns show": ("ns-show",),
    "ns alter": _CHANGED,
    "ns rename": _CHANGED,
    "ns drop": _CHANGED,
    "ns restore": ("ns-restore", "staged"),
    "table create": _CHANGED,
    "table register": _CHANGED,
    "table ls": ("table-ls",),
    "table show": ("table-show",),
    "table alter": _CHANGED,
    "table rename": _CHANGED,
    "table drop": _CHANGED,
    "table restore": _CHANGED,
    "table history": ("table-history",),
    "table files": ("table-files", "table-files-schemas", "table-files-written"),
    "table append": ("table-append", "staged"),
    "table head": ("table-head",),
    "view create": _CHANGED,
    "view replace": _CHANGED,
    "view ls": ("view-ls",),
    "view show": ("view-show",),
    "view alter": _CHANGED,
    "view rename": _CHANGED,
    "view drop": _CHANGED,
    "view restore": _CHANGED,
    "txn begin": ("txn-begin",),
    "txn ls": ("txn-ls",),
    "txn show": ("txn-show",),
    "txn commit": ("changed",),
    "txn abort": ("txn-abort",),
    "apply": ("changed",),
    "log": ("log", "log-html"),
    "diff": ("diff",),
    "time-travel": ("time-travel",),
    "rollback": ("rollback",),
    "revert": ("revert", "staged"),
    "expire": ("expire", "expire-ls", "expire-undo", "expire-purge", "expire-simulate"),
    "export create": ("export-create",),
    "export ls": ("export-ls",),
    "export verify": ("export-verify",),
    "export resume": ("export-create",),
    "export drop": ("export-drop",),
    "import olympia": ("import", "fsck"),
    "import deltacat": ("import", "deltacat-check"),
    "import iox": ("import", "import-check"),
    "import parquet": ("import",),
    "import iceberg": ("import",),
    "rebuild": ("import",),
    "promote": ("promote", "promote-forget"),
    "fsck": ("fsck",),
    "dump-node": ("dump-node", "dump-node-follow"),
    "tree": ("tree",),
    "status": ("status", "status-unseen"),
    "doctor": ("doctor",),
    "compact": ("compact",),
    "catalog show": ("catalog-show",),
    "catalog alter": ("changed",),
    "config show": ("config-show",),
    "schema": ("schema-ls", "schema"),
    "serve": ("serve",),
    "completion": ("completion",),
    "man": ("man", "man-all"),
}
"""The schemas of each command's --json. The first is the usual one; further ones belong to some of its options."""

ON_STDERR = {"error": "error", "log-format": "log-line"}
"""The schemas of stderr: an error with --json, and a line with --log-format json."""


class Part(NamedTuple):
    """A value inside a document: its path, its types, and whether it is always present."""

    path: str
    types: tuple[str, ...]
    always: bool


@cache
def schema(name: str) -> dict[str, Any]:
    """Read a schema from its file; `$ref` names another file."""
    document: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def whole_schema(title: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return one schema for documents of any of these shapes, without references to other files."""
    inside: dict[str, Any] = {}
    for name in names:
        _collect(name, inside)
    head = {"$schema": DIALECT, "title": title}
    defs = {name: _local(schema(name)) for name in sorted(inside)}
    if len(names) > 1:
        return {**head, "anyOf": [{"$ref": f"#/$defs/{name}"} for name in names], "$defs": defs}
    [name] = names
    recursive = any(name in _refs(schema(other)) for other in inside)
    others = {other: rules for other, rules in defs.items() if other != name or recursive}
    return {**head, **_local(schema(name)), **({"$defs": others} if others else {})}


def parts(name: str) -> Iterator[Part]:
    """Yield every value of a document of this shape, by its path: `versions[].actions[].type`."""
    yield from _parts(schema(name), "", True, (name,))


def _parts(rules: dict[str, Any], path: str, always: bool, within: tuple[str, ...]) -> Iterator[Part]:
    if "$ref" in rules:
        name = rules["$ref"].removesuffix(".json")
        if name in within:
            # the schema is recursive: a node has child nodes
            yield Part(path, ("object",), always)
        else:
            yield from _parts(schema(name), path, always, (*within, name))
        return
    kinds = rules.get("type", "object")
    types = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if path:
        yield Part(path, types, always)
    dot = "." if path else ""
    for key, inner in rules.get("properties", {}).items():
        yield from _parts(inner, f"{path}{dot}{key}", always and key in rules.get("required", ()), within)
    if "items" in rules:
        yield from _parts(rules["items"], f"{path}[]", always, within)
    if "additionalProperties" in rules:
        yield from _parts(rules["additionalProperties"], f"{path}{dot}*", False, within)


def _collect(name: str, into: dict[str, Any]) -> None:
    if name not in into:
        into[name] = None
        for other in _refs(schema(name)):
            _collect(other, into)


def _refs(rules: Any) -> Iterator[str]:
    if isinstance(rules, dict):
        if "$ref" in rules:
            yield rules["$ref"].removesuffix(".json")
        for inner in rules.values():
            yield from _refs(inner)
    elif isinstance(rules, list):
        for inner in rules:
            yield from _refs(inner)


def _local(rules: Any) -> Any:
    if isinstance(rules, dict):
        return {
            key: f"#/$defs/{value.removesuffix('.json')}" if key == "$ref" else _local(value)
            for key, value in rules.items()
        }
    return [_local(inner) for inner in rules] if isinstance(rules, list) else rules
