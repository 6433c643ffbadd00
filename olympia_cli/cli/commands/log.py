"""`olympia log`: its filter, its new versions as they are committed, and its HTML page."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.cli.options import Output, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.output.log import (
    LogLine,
    action_line,
    describe,
    fate,
    folded,
    parse_object,
    patch_lines,
    print_log,
    sign,
    stat,
)
from olympia_cli.cli.session import Session
from olympia_cli.errors import Damaged, InvalidOption, quoted
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, as_found, plural
from olympia_cli.ops import inspect
from olympia_cli.pages import template

if TYPE_CHECKING:
    from olympia_cli.cli.session import Session
    from olympia_cli.format.actions import Action
    from olympia_cli.ops.inspect import LogEntry

EXAMPLES = [
    "olympia log -n 20",
    "olympia log sales.orders --since yesterday",
    "olympia log --oneline --graph",
    "olympia log --action TABLE_DROP --by ann@laptop --json",
    "olympia log -p -n 1",
    "olympia log --follow -o jsonl",
    "olympia log --since monday --html week.html",
]


def run(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NS[.T]]", help="Show only changes of this object."),
    ] = None,
    number: Annotated[int | None, typer.Option("-n", "--number", metavar="N", help="Show at most N versions.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="REF", help="Oldest version to show."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="REF", help="Newest version to show."),
    ] = None,
    object: Annotated[
        str | None,
        typer.Option(metavar="NS[.T]", help="The same as the argument."),
    ] = None,
    action: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Show only actions of this type, such as TABLE_DROP.")
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="USER", help="Show only versions committed by this user.")] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Show counts instead of actions.")] = False,
    patch: Annotated[bool, typer.Option("--patch", "-p", help="Show the fields that changed.")] = False,
    oneline: Annotated[bool, typer.Option("--oneline", help="Print one line per version.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the versions that a rollback undid apart.")] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Show versions as they are committed, the oldest first, until Ctrl-C."),
    ] = False,
    interval: Annotated[
        str, typer.Option("--interval", metavar="DURATION", help="Time between two looks of --follow for new versions.")
    ] = "2s",
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write a page with the versions on a timeline.")
    ] = None,
) -> None:
    """Show the action log, newest first.

    Each version is shown with its actions, its author and its message. A rollback is shown as a rollback, and the
    versions that it undoes are marked. Versions that were reverted are marked too.

    With --follow, the output begins with the next commit, with the last N versions (-n), or at the version of --since.
    """
    if number is not None and number < 0:
        raise InvalidOption(f"-n {number} is negative", hint="give a number of versions")
    if name is not None and object is not None and name != object:
        raise InvalidOption("the argument and --object name different objects", hint="give one of them")
    session = Session(ctx)
    text = name if name is not None else object
    entry_filter = Filter.parse(None if text is None else parse_object(session, text), action or [], by)
    if follow:
        options = {"--until": until, "--html": html, "--graph": graph}
        entries = followed(
            session, entry_filter, number, since, interval, [name for name, value in options.items() if value]
        )
    else:
        check_known(session, entry_filter)
        # without conditions no more roots are read than are shown
        versions = inspect.log_between(session.catalog, since, until, number if entry_filter.is_empty else None)
        entries = take(entry_filter, versions, number)
    count = 0

    def counted() -> Iterator[inspect.LogEntry]:
        nonlocal count
        for entry in entries:
            count += 1
            yield entry

    now = session.catalog.clock.now_millis()
    if html is not None:
        write_timeline(session, html, counted(), now)
    else:
        print_log(
            session,
            counted(),
            now,
            oneline=oneline,
            graph=graph,
            stats=stat,
            patch=patch_lines if patch else None,
            paged=not follow,
        )
    if not count and number != 0:
        session.say("no version matches")


# The filter of the log, by object, type of action and author.


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on a version. An entry that matches keeps only the actions that match."""

    object: NamespaceName | TableName | None
    types: frozenset[str]
    by: str | None

    @classmethod
    def parse(cls, object: NamespaceName | TableName | None, types: list[str], by: str | None) -> Filter:
        from olympia_cli.format.pb.actions_pb2 import ActionType

        action_types = set(ActionType.keys())
        upper = frozenset(word.upper().replace("-", "_").replace(" ", "_") for word in types)
        if unknown := sorted(upper - action_types):
            raise InvalidOption(
                f"there is no action {quoted(unknown[0])}", hint="for example TABLE_CREATE or TABLE_DROP"
            )
        return cls(object, upper, by)

    @property
    def names(self) -> list[ObjectName]:
        """The names that the filter's object may have: a table or a view, for example. Empty without an object."""
        if self.object is None or not self.object.name:
            return [] if self.object is None else [self.object]
        return [as_found(kind, self.object.namespace, self.object.name) for kind in (Kind.TABLE, Kind.VIEW)]

    @property
    def is_empty(self) -> bool:
        return self.object is None and not self.types and self.by is None

    def apply(self, entry: LogEntry) -> LogEntry | None:
        """Return the entry with the matching actions, or None if there are none."""
        if entry.unreadable:
            return entry  # its actions are unknown, so they may match
        if self.by is not None and self.by not in (entry.by, entry.by.partition("@")[0]):
            return None
        if self.object is None and not self.types:
            return entry
        actions = tuple(action for action in entry.changes if self._matches(action))
        if not actions:
            return None
        info = tuple(action for action in entry.actions if action.type_name == "COMMIT_INFO")
        return replace(entry, actions=(*actions, *info))

    def _matches(self, action: Action) -> bool:
        if self.types and action.type_name not in self.types:
            return False
        if self.object is None:
            return True
        from olympia_cli.format.actions import RENAMES, new_name

        names = [] if action.name is None else [action.name]
        if action.type in RENAMES:
            names.append(new_name(action))
        return any(self._is_about(name) for name in names)

    def _is_about(self, name: ObjectName) -> bool:
        if self.object is None or name.namespace != self.object.namespace:
            return False
        # a change of a namespace affects all objects in it
        return not self.object.name or not name.name or name.name == self.object.name


def check_known(session: Session, entry_filter: Filter) -> None:
    """Raise the error of `show` if no version has the object. An unreadable version may have it."""
    from olympia_cli.catalog.references import at_version, oldest_version
    from olympia_cli.catalog.snapshot import not_found

    names = entry_filter.names
    if not names:
        return
    try:
        latest = session.snapshot()
        oldest = oldest_version(latest)
        if any(version.find(name) for version in (latest, at_version(oldest, latest)) for name in names):
            return
        if any(entry.unreadable or _is_about(entry, names) for entry in inspect.log(latest, oldest)):
            return
    except Damaged:
        return
    raise not_found(names[0], latest.version)


def _is_about(entry: LogEntry, names: list[ObjectName]) -> bool:
    from olympia_cli.catalog.replay import touched

    return any(name in touched(action) for action in entry.changes for name in names)


def take(entry_filter: Filter, entries: Iterable[LogEntry], number: int | None) -> Iterator[LogEntry]:
    """Return the first matching entries, up to a number."""
    number = None if number is None else min(number, sys.maxsize)
    if entry_filter.is_empty:
        return islice(entries, number)
    matches = (match for entry in entries if (match := entry_filter.apply(entry)) is not None)
    return islice(matches, number)


# `log --follow`: past versions, the oldest first, and then new ones as they are committed.

SHORTEST, LONGEST = 0.1, 3600.0
"""Limits of --interval, in seconds."""


def followed(
    session: Session, entry_filter: Filter, number: int | None, since: str | None, interval: str, others: Sequence[str]
) -> Iterator[LogEntry]:
    """Return the entries to show. `others` are given options that exclude --follow."""
    if others:
        raise InvalidOption(f"--follow and {others[0]} do not go together", hint="leave one of them out")
    if session.output is Output.JSON:
        raise InvalidOption("--follow has no end, so it cannot print one JSON document", hint="use -o jsonl")
    seconds = parse_seconds(interval)
    if not SHORTEST <= seconds <= LONGEST:
        raise InvalidOption(f"--interval {interval} is out of range", hint="choose 100ms to 1h")
    catalog, newest = session.catalog, session.snapshot()
    past: Iterator[LogEntry] = iter(())
    if number or since is not None:
        past = take(entry_filter, inspect.log_between(catalog, since, f"v{newest.version}"), number)
    return chain(
        reversed(list(past)), take(entry_filter, inspect.follow(newest, catalog.clock, seconds, session.say), None)
    )


# The log as an HTML page in one file: a timeline of versions with their actions.

NAMED = 200
"""Number of actions per version that are listed one by one."""
SIGNS = {"+": "created", "-": "dropped", "~": "altered", ">": "renamed"}
"""The class of an action by its sign."""


def write_timeline(session: Session, path: str, entries: Iterable[LogEntry], now_millis: int) -> None:
    """Write the page, and print the number of versions on it."""
    render.check_output(session, path)
    numbers = count()
    # the entries come first, so that the end of the log takes no number
    versions = (_version(entry) for entry, _ in zip(entries, numbers, strict=False))
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            page = template("log.html").stream(
                command="log", uri=session.store.uri, now=now_millis, entries=versions, signs=SIGNS
            )
            page.enable_buffering(50)
            file.writelines(page)
            file.write("\n")
    except OSError as error:
        raise InvalidOption(
            f"{quoted(path, 200)} cannot be written: {error.strerror}", hint="give another file"
        ) from None
    written = next(numbers)
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"html": path, "count": written})
    else:
        session.say(f"{plural(written, 'version')} in {path}")


def _version(entry: LogEntry) -> dict[str, Any]:
    described = describe(entry)
    actions = described["actions"]
    lines = list(folded(actions))
    kinds = {
        "undone": entry.undone_by is not None,
        "reverted": entry.reverted_by is not None,
        "rollback": entry.rollback_to is not None,
        "unreadable": bool(entry.unreadable),
    }
    is_cut = len(lines) < len(actions) or len(lines) > NAMED
    return {
        "version": entry.version,
        "classes": " ".join(["version", *(name for name, holds in kinds.items() if holds)]),
        "moment": (described["created_at"] or "?")[:19].replace("T", " "),
        "by": entry.by,
        "message": entry.message,
        "notes": [*([] if entry.rollback_to is None else [f"rollback to v{entry.rollback_to}"]), *fate(entry)],
        "unreadable": entry.unreadable,
        "lines": lines[:NAMED],
        "stat": stat(actions),
        "each": [LogLine(action_line(action), sign(action)) for action in actions[:NAMED]] if is_cut else [],
        "more": len(actions) - NAMED if len(actions) > NAMED else 0,
    }
