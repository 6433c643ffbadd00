"""Options and functions that the export commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.completion import complete_profile
from olympia_cli.cli.engine import EngineWord, engine
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

if TYPE_CHECKING:
    from olympia_cli.names import Reference
    from olympia_cli.ops.export.export import Exported
    from olympia_cli.ops.export.files import Scope
    from olympia_cli.ops.export.verify import ExportEngine
    from olympia_cli.storage.protocol import Store

DestProfile = Annotated[
    str | None,
    typer.Option(
        "--dest-profile",
        metavar="NAME",
        help="Profile with the storage options of the destination, if they differ from the catalog's.",
        autocompletion=complete_profile,
    ),
]


def open_dest(session: Session, uri: str, profile: str | None) -> Store:
    """Open the store of an export."""
    from olympia_cli.errors import InvalidLocation
    from olympia_cli.format.paths import size_limit
    from olympia_cli.storage.open import open_store

    if not uri.strip():
        # an unset variable in a script must not choose a place
        raise InvalidLocation("--dest is empty", hint="give it a value")
    return open_store(uri, session.options_for(uri, profile), size_limit=size_limit)


@contextmanager
def export_engine(
    session: Session,
    dest: Store,
    profile: str | None,
    word: EngineWord,
    master: str | None,
    remote: str | None,
    parallelism: int | None,
    conf: list[str] | None,
) -> Iterator[ExportEngine]:
    """Open the engine that reads and copies the files, until the end of the block."""
    with (
        engine(session, word, master, remote, parallelism, conf) as work,
        work.export_engine(dest, session.options_for(dest.uri, profile)) as copier,
    ):
        yield copier


def parse_expires(text: str | None, now_millis: int) -> int | None:
    """Parse the time when an export expires: a duration from now, or a time."""
    from olympia_cli.errors import InvalidOption, InvalidReference, quoted
    from olympia_cli.names import parse_duration, parse_time

    if text is None:
        return None
    try:
        return now_millis + parse_duration(text)
    except InvalidReference:
        pass
    try:
        return parse_time(text)
    except InvalidReference:
        raise InvalidOption(f"{quoted(text)} is neither a duration nor a time", hint="write 30d") from None


def whole_command(session: Session, text: str, dest_profile: str | None) -> str:
    """Complete an `export resume` at the end of a text with the location and the profile given to this command."""
    import shlex

    words = "export resume " if dest_profile is None else f"export resume --dest-profile {shlex.quote(dest_profile)} "
    before, separator, after = text.partition("export resume ")
    return before + session.command(words) + after if separator else text


@contextmanager
def whole_commands(session: Session, dest_profile: str | None) -> Iterator[None]:
    """Complete the advice of errors in this block, so that its command can be pasted."""
    from olympia_cli.errors import OlympiaError

    try:
        yield
    except OlympiaError as error:
        error.advice = whole_command(session, error.advice, dest_profile)
        raise


def check_java(reader: str, scope: Scope, expires: str | None, word: EngineWord) -> None:
    """Refuse options that do not apply to a copy for another program."""
    from olympia_cli.errors import InvalidOption

    if reader != "java-sdk":
        raise InvalidOption(f"there are no copies for {reader[:60]!a}", hint="use --for java-sdk")
    if scope.shares:
        raise InvalidOption("a copy for the Java SDK shares nothing with the catalog", hint="leave out --mode")
    if expires is not None:
        raise InvalidOption("a copy for the Java SDK is not recorded, and does not expire", hint="leave out --expires")
    if word is EngineWord.SPARK:
        raise InvalidOption("a copy for the Java SDK is always made locally", hint="leave out --engine")


def copy_for_java(session: Session, dest: Store, name: str, reference: Reference | None) -> None:
    from olympia_cli.names import plural
    from olympia_cli.ops.export.java_copy import create_java_copy, describe_java_copy

    with session.progress() as progress:
        copy = create_java_copy(session.catalog, dest, name, at=reference, progress=progress)
    size = f"{plural(copy.count.files, 'file')}, {plural(copy.count.bytes, 'byte')}"
    text = f"v{copy.version}  copied v{copy.at_version} to {copy.location} for the Java SDK: {size}"
    render.outcome(session, describe_java_copy(copy), text)


def render_exported(session: Session, export: Exported) -> None:
    from olympia_cli.names import plural
    from olympia_cli.ops.export.export import describe_exported

    note = export.note
    size = f"{plural(export.count.files, 'file')}, {plural(export.count.bytes, 'byte')}"
    text = f"v{export.version}  exported v{note.version} as {note.name} to {export.location}: {size}"
    render.outcome(session, describe_exported(export), text)
