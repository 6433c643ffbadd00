"""Completes the advice of errors with the location of the catalog, and with names of objects that are in it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import typer

from olympia_cli.cli.session import Session
from olympia_cli.errors import Damaged, NamespaceNotFound, ObjectNotFound, OlympiaError, ViewNotFound, command_words
from olympia_cli.format.paths import parse_root_path
from olympia_cli.names import NamespaceName, TableName, ViewName, nearest

if TYPE_CHECKING:
    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.names import ObjectName

MOST = 5000
"""Number of names that are searched for a similar one."""

LOOKS = (("fsck",), ("fsck", "--level", "full"))
"""The commands that errors of damage advise, both for the latest version."""

SEVERAL = ("diff", "log", "revert", "table history")
"""Commands that read more than one version."""


def complete(error: OlympiaError, ctx: typer.Context) -> None:
    """Turn the error's advice into a command that can be pasted."""
    session = Session(ctx)
    # a command for another catalog names its location itself
    error.program = session.program_elsewhere if error.command[:1] == ("-c",) else session.program
    if isinstance(error, Damaged) and error.command in LOOKS:
        # if the latest version cannot be read either, the command for it finds the damage
        with suppress(OlympiaError):
            _point_to(error, ctx, session)
    if not isinstance(error, ObjectNotFound) or error.version is None:
        return
    # an error in here must not replace the error that is reported
    with suppress(OlympiaError):
        latest = session.snapshot()
        if isinstance(error, NamespaceNotFound) and error.for_new:
            _say_how_to_create(error, latest, ctx.params.get("txn"))
        elif error.version == latest.version:
            _say_what_is_there(error, latest, [])
        else:
            _say_what_is_there(error, session.resolve(f"v{error.version}", latest), ["--at", f"v{error.version}"])


def _point_to(error: Damaged, ctx: typer.Context, session: Session) -> None:
    """Point the advised fsck at the damage: at an older version, or at all versions. Acknowledged damage needs none."""
    from olympia_cli.catalog.retained import read_acknowledged

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
        error.advice, error.command = "this damage is acknowledged; list the other versions", ("log", "--oneline")
    elif version is not None and version != latest.version:
        error.command = (*error.command, "--at", f"v{version}")
    elif version is None and several:
        error.command = (*error.command, "--all-versions")


def _say_how_to_create(error: NamespaceNotFound, latest: Snapshot, txn: str | None) -> None:
    """Advise the command that creates the namespace, or a namespace with a similar name."""
    namespace, _ = error.missing
    within = ["--txn", txn] if txn is not None else []
    if not within and latest.find(NamespaceName(namespace)) is not None:
        # a statement of the same transaction dropped or renamed it, or another writer has just created it
        error.advice = "create it again in the same transaction"
        return
    meant = _meant(namespace, latest.namespaces())
    error.advice = "create it first" if meant is None else f"did you mean {meant}? If not, create it"
    error.command = command_words("ns", "create", *within, names=[namespace])


def _say_what_is_there(error: ObjectNotFound, snapshot: Snapshot, at: list[str]) -> None:
    namespace, name = error.missing
    word, cls, other = (
        ("view", ViewName, TableName) if isinstance(error, ViewNotFound) else ("table", TableName, ViewName)
    )
    if snapshot.find(NamespaceName(namespace)) is None:
        error.advice, error.command = "list the namespaces", ("ns", "ls", *at)
        meant = _meant(namespace, snapshot.namespaces())
        if meant is not None and (not name or snapshot.find(cls(meant.namespace, name)) is not None):
            error.advice, error.command = f"did you mean {cls(meant.namespace, name) if name else meant}?", ()
    elif snapshot.find(other(namespace, name)) is not None:
        other_word = "table" if word == "view" else "view"
        error.advice = f"it is a {other_word}"
        error.command = command_words(other_word, "show", *at, names=[str(other(namespace, name))])
    else:
        error.advice, error.command = f"list the {word}s", command_words(word, "ls", *at, names=[namespace])
        within = snapshot.views(namespace) if word == "view" else snapshot.tables(namespace)
        if (meant := _meant(name, within)) is not None:
            error.advice, error.command = f"did you mean {meant}?", ()


def _meant(name: str, existing: Iterable[ObjectName]) -> ObjectName | None:
    names = {candidate.name or candidate.namespace: candidate for candidate in islice(existing, MOST)}
    match = nearest(name, names)
    return None if match is None else names[match]
