from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from olympia_cli.cli.fsck_actions import exit_code, next_commands, say_next, with_commands
from olympia_cli.cli.options import DryRun, Message, RetryFor
from olympia_cli.cli.output.fsck import print_report
from olympia_cli.cli.output.imports import print_imported
from olympia_cli.cli.session import Session
from olympia_cli.errors import CatalogNotFound, InvalidLocation, InvalidOption, OlympiaError
from olympia_cli.names import check_name
from olympia_cli.ops import fsck

if TYPE_CHECKING:
    from collections.abc import Callable

    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.importers.result import ImportResult

EXAMPLES = [
    "olympia import olympia s3://lake/java-catalog --inspect",
    "olympia import olympia s3://lake/java-catalog --dry-run",
    "olympia import olympia ./java-catalog --history",
    "olympia import olympia ./java-catalog --at v12 --into old",
]


def run(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Another Olympia catalog, for example of the Java SDK.")
    ],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="REF", help="Version to import; the latest if not given."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Make one commit per version of the source.")] = False,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NS", help="Put all tables and views into this namespace.")
    ] = None,
    inspect: Annotated[bool, typer.Option("--inspect", help="Show its content, and import nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Check it as fsck does, and import nothing.")] = False,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Import another catalog: its namespaces, tables and views.

    Objects keep their ids, and the metadata of tables stays where it is. Everything is one commit, or with --history
    one per readable version. Running it again imports what is new; an object that was changed here since stays as it
    is.

    A name that the format forbids is changed. A space or control character becomes % and two hex digits. A name that is
    too long is cut, and ends in ~ and a hash. The property olympia.import.name keeps the former name. Objects that are
    left out are reported, and the exit code is 3.
    """
    flags = [option for option, value in (("--inspect", inspect), ("--check", check), ("--dry-run", dry_run)) if value]
    if len(flags) > 1:
        raise InvalidOption(f"{flags[0]} and {flags[1]} do not go together", hint="give one of them")
    if into is not None:
        check_name(into, "namespace")
    there, session = Session(ctx, source), Session(ctx)
    try:
        if check:
            _check(there)
        snapshot = there.snapshot(at)
    except CatalogNotFound as error:
        raise CatalogNotFound(error.message, hint="name a folder or prefix that holds one") from None
    except OlympiaError as error:
        # the advice is about the source, so the command names the source
        error.command = ("-c", source, *error.command) if error.command else ()
        raise
    if inspect:
        from olympia_cli.importers.olympia import inspect as look

        print_imported(there, look(snapshot, into), snapshot.version, True, "object", source_version=snapshot.version)
        return
    if there.store.uri == session.store.uri:
        raise InvalidLocation(f"{source} is the catalog itself", hint="name another one")
    from olympia_cli.importers.olympia import import_catalog

    def commit(bring: Callable[[Transaction], ImportResult], about: str) -> tuple[ImportResult, int]:
        outcomes: list[ImportResult] = []
        if dry_run:
            transaction = session.catalog.begin()
            return bring(transaction), transaction.base.version
        changed = session.change(
            lambda transaction: outcomes.append(bring(transaction)),
            message=f"{message}\n{about}" if message else about,
            retry_for=retry_for,
            again=True,
            atomic=True,
        )
        assert changed.version is not None
        return outcomes[-1], changed.version

    with session.progress() as progress:
        progress.phase("reading the catalog")
        outcome, version = import_catalog(
            there.catalog, snapshot, into, history and not dry_run, session.catalog, commit
        )
    print_imported(session, outcome, version, dry_run, "object", source_version=snapshot.version)


def _check(there: Session) -> NoReturn:
    with there.progress() as progress:
        report = fsck.fsck(there.store, fsck.FsckRequest(fsck.Level.FULL, all_versions=True, progress=progress))
    commands = next_commands(there, report, ("--level", "full", "--all-versions"))
    print_report(there, with_commands(there, report, commands), commands)
    say_next(there, commands)
    raise typer.Exit(exit_code(report))
