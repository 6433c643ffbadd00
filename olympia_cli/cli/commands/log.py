from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from olympia_cli.cli.output.log import parse_object, patch_lines, print_log
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.ops import inspect

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
    from olympia_cli.cli.log import Filter, check_known, followed, take, write_timeline

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
