from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.context import Session

if TYPE_CHECKING:
    from olympia_cli.ops.look.status import Status

EXAMPLES = [
    "olympia status",
    "olympia status --full --json",
    "olympia status --watch 10",
    "olympia status --prometheus > /var/lib/node_exporter/olympia.prom.new",
]


def run(
    ctx: typer.Context,
    seconds: Annotated[
        str | None,
        typer.Argument(metavar="[SECONDS]", help="With --watch: how long from one look to the next; 5 unless said."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Count objects, files and bytes too; this reads all kept nodes.")
    ] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="As text for Prometheus.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C; a record a round in a pipe.")
    ] = False,
) -> None:
    """Show how the catalog is doing.

    The first line says it in a word: SOUND, and by which fsck; NEVER CHECKED; OVERDUE or NEEDS ATTENTION; DAMAGED;
    UNREADABLE, UNREACHABLE or NOT FOUND. The reasons follow, each with the command that comes next. What a thorough
    fsck found stands until one that is at least as thorough finds it mended.

    The exit code says it too: 0 healthy, 51 needs attention, 50 fsck found damage, 40 it cannot be read; or that of
    what keeps it from being looked at. --prometheus prints something in each of these cases: olympia_up says whether
    the catalog could be opened.
    """
    from olympia_cli.errors import InvalidOption, OlympiaError

    session = Session(ctx)
    if seconds is not None and not watch:
        raise InvalidOption(f"{seconds[:60]!a} means nothing here", hint="write status --watch SECONDS")
    if watch and prometheus:
        raise InvalidOption("--watch and --prometheus do not go together", hint="let cron run it")
    if watch:
        from olympia_cli.cli.status_watch import watch as watch_status

        watch_status(session, full, seconds)
        return
    from olympia_cli.cli.status_render import print_failure, print_status
    from olympia_cli.ops.look.prometheus import prometheus as as_prometheus

    session.store  # noqa: B018  a location that makes no sense is an error of usage, and no catalog that is down
    catalog_status: Status | None = None
    try:
        catalog_status = _look(session, full)
    except OlympiaError as error:
        if not prometheus:
            print_failure(session, error)
        raise
    finally:
        if prometheus:
            with session.out() as out:
                out.write(as_prometheus(session.store.uri, catalog_status))
    if not prometheus:
        print_status(session, catalog_status)
    raise typer.Exit(catalog_status.exit_code)


def _look(session: Session, full: bool) -> Status:
    from olympia_cli.ops.look.status import status

    return status(session.catalog, full)
