from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.output.status import print_failure, print_status
from olympia_cli.cli.output.status import watch as watch_status
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, OlympiaError
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.ops.inspect import Status

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
        typer.Argument(metavar="[SECONDS]", help="With --watch: seconds between two refreshes; 5 if not given."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also count objects, files and bytes; this reads all kept nodes.")
    ] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print metrics for Prometheus.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C; when piped, print one record per refresh.")
    ] = False,
) -> None:
    """Show the health of the catalog.

    The first line is the verdict: SOUND, with the fsck that found it so; NEVER CHECKED; OVERDUE or NEEDS ATTENTION;
    DAMAGED; UNREADABLE, UNREACHABLE or NOT FOUND. The reasons follow, each with the next command. Damage that a
    thorough fsck found is shown until an equally thorough one finds it repaired.

    The exit code follows the verdict: 0 healthy, 51 needs attention, 50 fsck found damage, 40 unreadable; otherwise the
    code of the error. --prometheus prints metrics in all these cases: olympia_up tells whether the catalog could be
    opened.
    """
    session = Session(ctx)
    if seconds is not None and not watch:
        raise InvalidOption(f"{seconds[:60]!a} needs --watch", hint="write status --watch SECONDS")
    if watch and prometheus:
        raise InvalidOption("--watch and --prometheus do not go together", hint="run status --prometheus from cron")
    if watch:
        watch_status(session, full, seconds)
        return

    session.store  # noqa: B018  an invalid location is an error of usage, not an unreachable catalog
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
                out.write(inspect.prometheus(session.store.uri, catalog_status))
    if not prometheus:
        print_status(session, catalog_status)
    raise typer.Exit(catalog_status.exit_code)


def _look(session: Session, full: bool) -> Status:
    return inspect.status(session.catalog, full)
