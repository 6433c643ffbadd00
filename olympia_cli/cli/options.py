"""Options of every command, which stand before or after its name, and options that several commands share."""

from __future__ import annotations

import re
from copy import copy
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from olympia_cli.format.pb.objects_pb2 import Column, ViewDef


class Output(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def _shared(
    catalog: Annotated[
        str | None,
        typer.Option("--catalog", "-c", metavar="URI", help="Catalog: a folder, s3://…, gs://… [OLYMPIA_CATALOG]"),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Profile of the config file. [OLYMPIA_PROFILE]")
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="Timeout of each read, listing or write, with its retries; 30s by default. [OLYMPIA_TIMEOUT]",
        ),
    ] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="Format of the output: table, wide, name, json, jsonl, csv.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Short for --output json.")] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print only data, warnings and errors, and no verdict when all is well."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print more messages.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print no colours. [NO_COLOR]")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Show no progress bars.")] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format", help="Format of stderr: text, or json with one object per line. [OLYMPIA_LOG_FORMAT]"
        ),
    ] = None,
    csv_safe: Annotated[
        bool,
        typer.Option("--csv-safe", help="In CSV, put ' before cells that a spreadsheet would take for a formula."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Declares the options of every command; see `remember`."""


def shared_params() -> list[Any]:
    """Return new copies of the shared options. They store their values instead of passing them to the command."""
    return [copy(param) for param in _shared_once()]


@cache
def _shared_once() -> list[Any]:
    # cached, because the program and its groups have them too, and reading annotations is slow
    single = typer.Typer(add_completion=False)
    single.command()(_shared)
    params = [param for param in typer.main.get_command(single).params if param.name != "help"]
    for param in params:
        param.expose_value = False
        param.callback = remember
    return params


def remember(ctx: Any, param: Any, value: Any) -> Any:
    """Store a value from the command line. Options after the command are parsed last, so they win."""
    source = ctx.get_parameter_source(param.name)
    if source is not None and source.name == "COMMANDLINE":
        ctx.meta[f"olympia.{param.name}"] = value
    return value


At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="REF",
        help="Read another version: 12, latest~1, 2h, a time, 'monday 09:00' (UTC), or the name of an export.",
    ),
]


def check_message(text: str) -> str:
    """Raise InvalidOption if the message is not valid Unicode."""
    from olympia_cli.errors import InvalidOption, quoted

    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"the message is not valid Unicode: {quoted(text)}", hint="") from None
    return text


Message = Annotated[
    str, typer.Option("--message", "-m", metavar="TEXT", help="Message of the commit.", callback=check_message)
]
RetryFor = Annotated[
    str, typer.Option("--retry-for", metavar="DURATION", help="Retry for this long if other writers commit first.")
]
InTxn = Annotated[
    str | None,
    typer.Option("--txn", metavar="ID", help="Work inside this distributed transaction, without a commit."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show the changes without making them.")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A property; may be given several times.")
]
SetProperties = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a property; may be given several times.")
]
UnsetProperties = Annotated[
    list[str] | None, typer.Option("--unset", metavar="KEY", help="Unset a property; may be given several times.")
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing if it does not exist.")]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Do nothing if it exists already.")]


Atomic = Annotated[bool, typer.Option("--atomic", help="Lift the limit on the number of actions for this commit.")]


def parse_renames(pairs: list[str] | None) -> dict[str, str]:
    """Parse OLD=NEW pairs of columns."""
    from olympia_cli.errors import InvalidOption, quoted

    renames: dict[str, str] = {}
    for pair in pairs or []:
        old, _, new = pair.partition("=")
        if not old or not new:
            raise InvalidOption(f"{quoted(pair)} is not OLD=NEW", hint="write, for example, ts=ordered_at")
        if old in renames:
            raise InvalidOption(f"the column {quoted(old)} is renamed twice", hint="give each column once")
        renames[old] = new
    return renames


def parse_properties(pairs: list[str] | None) -> dict[str, str]:
    """Parse KEY=VALUE pairs. The value may contain further equal signs, and may be empty."""
    from olympia_cli.errors import InvalidOption, quoted

    properties: dict[str, str] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{quoted(name_in(pair))} is not KEY=VALUE", hint="write, for example, owner=ann")
        if key in properties:
            raise InvalidOption(f"the property {quoted(key)} is given twice", hint="give each property once")
        properties[key] = value
    return properties


def name_in(pair: str) -> str:
    """Return the name at the beginning of an incomplete pair, without the rest, which may be a secret."""
    return re.sub(r"^([\w.-]*+).+", r"\1…", pair, flags=re.DOTALL)


def parse_seconds(duration: str) -> float:
    from olympia_cli.names import parse_duration

    return parse_duration(duration) / 1000


def parse_isolation(word: str) -> Any:
    """Parse the name of an isolation level."""
    from olympia_cli.errors import InvalidOption, quoted
    from olympia_cli.format.pb.objects_pb2 import IsolationLevel

    if word.upper() not in list(IsolationLevel.keys()):
        raise InvalidOption(f"{quoted(word)} is not an isolation level", hint="use snapshot or serializable")
    return IsolationLevel.Value(word.upper())


def check_metadata_location(location: str) -> None:
    """Refuse an empty location or one with control characters. Others are stored without reading the file."""
    from olympia_cli.errors import InvalidOption, quoted

    if not location.strip() or any(ord(character) < 32 for character in location):
        raise InvalidOption(f"{quoted(location)} is not a location", hint="give the URI of the table's metadata file")


# Options that define a view.

Plan = Annotated[str, typer.Option("--plan", metavar="FILE", help="File with the serialized Substrait ReadRel.")]
ViewSchema = Annotated[
    str, typer.Option("--schema", metavar="COLUMNS", help="Columns, such as 'id long, name string, paid decimal?'.")
]
References = Annotated[
    list[str] | None,
    typer.Option("--refers-to", metavar="NS.T", help="Table or view that the view reads; may be given several times."),
]
DefaultNamespace = Annotated[
    str, typer.Option("--default-namespace", metavar="NS", help="Namespace for names without one.")
]
SchemaBinding = Annotated[bool, typer.Option("--schema-binding", help="Bind the view to the schema it has now.")]

_WORDS = {"int": "int4", "integer": "int4", "long": "int8", "bigint": "int8", "short": "int2", "smallint": "int2"}
_WORDS |= {"float": "float4", "double": "float8", "string": "varchar", "text": "varchar", "bool": "boolean"}
_WORDS |= {"timestamp": "timestamp6", "timestamptz": "timestamptz6", "time": "time6", "bytes": "binary"}


def make_view(
    plan: str,
    schema: str,
    refers_to: list[str] | None,
    default_namespace: str,
    schema_binding: bool,
    properties: dict[str, str],
) -> ViewDef:
    """Make a view's definition. The view gets its id when it is created."""
    from olympia_cli.format.pb.objects_pb2 import NamespaceObjectFullName, Schema, ViewDef
    from olympia_cli.names import check_name, parse_table

    if default_namespace:
        check_name(default_namespace, "namespace")
    names = [parse_table(text) for text in refers_to or []]
    return ViewDef(
        schema_binding=schema_binding,
        schema=Schema(columns=_columns(schema)) if schema else None,
        default_namespace_name=default_namespace,
        referenced_object_full_names=[
            NamespaceObjectFullName(namespace_name=name.namespace, name=name.name) for name in names
        ],
        properties=properties,
        substrait_read_rel=_read_plan(plan),
    )


def _read_plan(path: str) -> bytes:
    import sys

    from olympia_cli.errors import InvalidOption, quoted

    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidOption(
            f"the plan {quoted(path, 200)} cannot be read: {error.strerror}", hint="give a file"
        ) from None


def _columns(text: str) -> list[Column]:
    """Parse `name type` pairs. A type that ends in ? is nullable."""
    from olympia_cli.errors import InvalidOption, quoted
    from olympia_cli.format.pb.objects_pb2 import Column, DataType

    columns: list[Column] = []
    for number, part in enumerate(text.split(","), 1):
        words = part.split()
        if len(words) != 2:
            raise InvalidOption(f"{quoted(part.strip())} is not a column", hint="write 'id long, name string?'")
        try:
            words[0].encode()
        except UnicodeEncodeError:
            raise InvalidOption(f"the column {quoted(words[0])} is not valid Unicode", hint="") from None
        word = words[1].lower()
        name = _WORDS.get(word.rstrip("?"), word.rstrip("?")).upper()
        if name not in list(DataType.keys()):
            raise InvalidOption(f"{quoted(words[1])} is not a type", hint="use " + ", ".join(sorted(_WORDS)))
        columns.append(Column(id=number, name=words[0], type=name, nullable=word.endswith("?")))
    return columns
