"""What to do about an error, with what only the command line knows: where the catalog is, and what is in it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import typer

from olympia_cli.errors import Damaged, NamespaceNotFound, OlympiaError, TableNotFound, ViewNotFound, command_words

if TYPE_CHECKING:
    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.cli.context import Session
    from olympia_cli.names import ObjectName

MOST = 5000
"""So many names are looked through for the one that was meant."""

LOOKS = (("fsck",), ("fsck", "--level", "full"))
"""What an error of damage names by itself, which is about the latest version."""

SEVERAL = ("diff", "log", "revert", "table history")
"""Commands that look at more than one version."""

NotThere = NamespaceNotFound | TableNotFound | ViewNotFound


def complete(error: OlympiaError, ctx: typer.Context) -> None:
    """Make the error's advice one that can be followed by pasting it."""
    from olympia_cli.cli.context import Session

    session = Session(ctx)
    # a command for another catalog says which
    error.program = session.program_elsewhere if error.command[:1] == ("-c",) else session.program
    if isinstance(error, Damaged) and error.command in LOOKS:
        # where not even the latest version can be read, a look at that one finds it
        with suppress(OlympiaError):
            _point_to(error, ctx, session)
    if not isinstance(error, NotThere) or error.version is None:
        return
    # whatever goes wrong here, what is told is the error that there was
    with suppress(OlympiaError):
        latest = session.snapshot()
        if isinstance(error, NamespaceNotFound) and error.for_new:
            _say_how_to_create(error, latest, ctx.params.get("txn"))
        elif error.version == latest.version:
            _say_what_is_there(error, latest, [])
        else:
            _say_what_is_there(error, session.resolve(f"v{error.version}", latest), ["--at", f"v{error.version}"])


def _point_to(error: Damaged, ctx: typer.Context, session: Session) -> None:
    """Make fsck look where the damage is: at a version before the latest, or at all of them. What somebody has
    acknowledged is not looked for again."""
    from olympia_cli.catalog.known_damage import read_acknowledged
    from olympia_cli.format.paths import parse_root_path

    latest = session.snapshot()
    version, several = parse_root_path(error.path), session.name in SEVERAL
    if version is None and not several and error.path != latest.root.catalog_def:
        reference = ctx.params.get("at") or ctx.params.get("reference")
        version = None if reference is None else session.resolve(reference, latest).version
    known_spans = [
        span
        for (_, path), spans in read_acknowledged(latest.definition).items()
        if path == error.path
        for span in spans
    ]
    if known_spans and (version is None or any(first <= version <= last for first, last in known_spans)):
        error.advice, error.command = "that is known; see which other versions there are", ("log", "--oneline")
    elif version is not None and version != latest.version:
        error.command = (*error.command, "--at", f"v{version}")
    elif version is None and several:
        error.command = (*error.command, "--all-versions")


def _say_how_to_create(error: NamespaceNotFound, latest: Snapshot, txn: str | None) -> None:
    """Name the command that creates the namespace, and the namespace that was probably meant."""
    from olympia_cli.names import NamespaceName

    namespace, _ = error.missing
    within = ["--txn", txn] if txn is not None else []
    if not within and latest.find(NamespaceName(namespace)) is not None:
        # a statement of the same transaction dropped or renamed it, or another writer has just created it
        error.advice = "create it again in the same transaction"
        return
    meant = _meant(namespace, latest.namespaces())
    error.advice = "create it first" if meant is None else f"did you mean {meant}? If not, create it"
    error.command = command_words("ns", "create", *within, names=[namespace])


def _say_what_is_there(error: NotThere, snapshot: Snapshot, at: list[str]) -> None:
    from olympia_cli.names import NamespaceName, TableName, ViewName

    namespace, name = error.missing
    word, cls, other = (
        ("view", ViewName, TableName) if isinstance(error, ViewNotFound) else ("table", TableName, ViewName)
    )
    if snapshot.find(NamespaceName(namespace)) is None:
        error.advice, error.command = "see which namespaces there are", ("ns", "ls", *at)
        meant = _meant(namespace, snapshot.namespaces())
        if meant is not None and (not name or snapshot.find(cls(meant.namespace, name)) is not None):
            error.advice, error.command = f"did you mean {cls(meant.namespace, name) if name else meant}?", ()
    elif snapshot.find(other(namespace, name)) is not None:
        there = "table" if word == "view" else "view"
        error.advice = f"it is a {there}"
        error.command = command_words(there, "show", *at, names=[str(other(namespace, name))])
    else:
        error.advice, error.command = f"see which {word}s there are", command_words(word, "ls", *at, names=[namespace])
        within = snapshot.views(namespace) if word == "view" else snapshot.tables(namespace)
        if (meant := _meant(name, within)) is not None:
            error.advice, error.command = f"did you mean {meant}?", ()


def _meant(name: str, there: Iterable[ObjectName]) -> ObjectName | None:
    from olympia_cli.names import nearest

    names = {candidate.name or candidate.namespace: candidate for candidate in islice(there, MOST)}
    match = nearest(name, names)
    return None if match is None else names[match]
