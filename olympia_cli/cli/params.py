"""Options: those that every command takes, before or after its name, and those that several commands share."""

from __future__ import annotations

import re
from copy import copy
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

import typer


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
        typer.Option("--catalog", "-c", metavar="URI", help="The catalog: a folder, s3://…, gs://… [OLYMPIA_CATALOG]"),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="A profile of the config file. [OLYMPIA_PROFILE]")
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="How long to try each read, listing or write while a store does not answer; 30s unless said. "
            "[OLYMPIA_TIMEOUT]",
        ),
    ] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="How to print: table, wide, name, json, jsonl, csv.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Short for --output json.")] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print data and errors alone; no verdict when all is well."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say more.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours. [NO_COLOR]")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="No progress bars.")] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format", help="How to talk on stderr: text, or json, one object a line. [OLYMPIA_LOG_FORMAT]"
        ),
    ] = None,
    csv_safe: Annotated[
        bool,
        typer.Option("--csv-safe", help="In CSV, put ' before what a spreadsheet would take for a formula."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Takes the options that every command has; see `remember`."""


def shared_params() -> list[Any]:
    """Fresh copies of the shared options, which store what was given instead of passing it on."""
    return [copy(param) for param in _shared_once()]


@cache
def _shared_once() -> list[Any]:
    # made once: the program and its groups have them too, and reading annotations is what takes long
    single = typer.Typer(add_completion=False)
    single.command()(_shared)
    params = [param for param in typer.main.get_command(single).params if param.name != "help"]
    for param in params:
        param.expose_value = False
        param.callback = remember
    return params


def remember(ctx: Any, param: Any, value: Any) -> Any:
    """Keep what the command line gave. The innermost level is parsed last, so what stands after the command wins."""
    source = ctx.get_parameter_source(param.name)
    if source is not None and source.name == "COMMANDLINE":
        ctx.meta[f"olympia.{param.name}"] = value
    return value


At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="REF",
        help="Look at another version: 12, latest~1, 2h, a time, 'monday 09:00' (UTC), an export's name.",
    ),
]


def check_message(text: str) -> str:
    """Bytes that are not text cannot be stored."""
    from olympia_cli.errors import InvalidOption, quoted

    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"the message is not valid Unicode: {quoted(text)}", hint="") from None
    return text


Message = Annotated[
    str, typer.Option("--message", "-m", metavar="TEXT", help="Why; shown in the log.", callback=check_message)
]
RetryFor = Annotated[
    str, typer.Option("--retry-for", metavar="DURATION", help="How long to try again when other writers are first.")
]
InTxn = Annotated[
    str | None,
    typer.Option("--txn", metavar="ID", help="Work inside this distributed transaction instead of committing."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would happen, and do nothing.")]
Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="A property; may be given several times.")
]
SetProperties = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a property; may be given several times.")
]
UnsetProperties = Annotated[
    list[str] | None, typer.Option("--unset", metavar="KEY", help="Unset a property; may be given several times.")
]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Not being there is no error.")]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="Being there already is no error.")]


Atomic = Annotated[bool, typer.Option("--atomic", help="Lift the bound on actions for this one commit.")]


def parse_renames(pairs: list[str] | None) -> dict[str, str]:
    """OLD=NEW pairs of columns."""
    from olympia_cli.errors import InvalidOption, quoted

    renames: dict[str, str] = {}
    for pair in pairs or []:
        old, _, new = pair.partition("=")
        if not old or not new:
            raise InvalidOption(f"{quoted(pair)} is not OLD=NEW", hint="write ts=ordered_at, say")
        if old in renames:
            raise InvalidOption(f"the column {quoted(old)} is renamed twice", hint="give each column once")
        renames[old] = new
    return renames


def parse_properties(pairs: list[str] | None) -> dict[str, str]:
    """KEY=VALUE pairs; the value may hold further equal signs, and may be empty."""
    from olympia_cli.errors import InvalidOption, quoted

    properties: dict[str, str] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{quoted(name_in(pair))} is not KEY=VALUE", hint="write owner=ann, say")
        if key in properties:
            raise InvalidOption(f"the property {quoted(key)} is given twice", hint="give each property once")
        properties[key] = value
    return properties


def name_in(pair: str) -> str:
    """The name that a pair without an equal sign begins with; a secret may follow it."""
    return re.sub(r"^([\w.-]*+).+", r"\1…", pair, flags=re.DOTALL)


def parse_seconds(duration: str) -> float:
    from olympia_cli.names import parse_duration

    return parse_duration(duration) / 1000


def parse_isolation(word: str) -> Any:
    """An isolation level by its name."""
    from olympia_cli.errors import InvalidOption, quoted
    from olympia_cli.format.pb.objects_pb2 import IsolationLevel

    if word.upper() not in list(IsolationLevel.keys()):
        raise InvalidOption(f"{quoted(word)} is not an isolation level", hint="use snapshot or serializable")
    return IsolationLevel.Value(word.upper())


def check_metadata_location(location: str) -> None:
    """The location is stored unread, so only what can never be one is refused."""
    from olympia_cli.errors import InvalidOption, quoted

    if not location.strip() or any(ord(character) < 32 for character in location):
        raise InvalidOption(f"{quoted(location)} is not a location", hint="give the URI of the table's metadata file")
