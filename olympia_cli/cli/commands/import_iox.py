from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.iceberg_tables import iceberg_catalog, need_pyiceberg
from olympia_cli.cli.options import DryRun, Message, RetryFor
from olympia_cli.cli.output.imports import print_checked, print_imported
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.iceberg.settings import io_properties
from olympia_cli.importers.result import ImportResult
from olympia_cli.names import check_name, parse_reference, settle, time_text
from olympia_cli.storage.open import open_store, scheme_of

if TYPE_CHECKING:
    from olympia_cli.importers.iox.source import Source, State

EXAMPLES = [
    "olympia import iox s3://lake/1/metrics --check",
    "olympia import iox s3://lake/1/metrics --inspect",
    "olympia import iox s3://lake/1/metrics",
    "olympia import iox ./metrics --at 2022-02-01 --into archive",
]


def run(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The folder of a database, with transactions/ and data/ in it.")
    ],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="REF", help="Revision or time to import; the latest if not given."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Make one commit per revision of the source.")] = False,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NS", help="Put all tables into this namespace.")
    ] = None,
    inspect: Annotated[bool, typer.Option("--inspect", help="Show its content, and import nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Report damage in it, and import nothing.")] = False,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Register the tables of a preserved IOx catalog; their files stay where they are.

    Reads catalogs of the versions 14 to 19: transactions and checkpoints, each file once. Each table becomes an Iceberg
    table of format version 3, which has times in nanoseconds like IOx. The folder of the source names the namespace.
    The columns of a table's files are united. Deleted rows are deleted here too, without changing the files. Everything
    is one commit, or with --history one per revision. Running it again follows the source; a table that was changed
    here since stays as it is.

    --check looks for forks, gaps and broken links between transactions, for missing files, and for files that no
    transaction names. Tables and files that are left out are reported, and the exit code is 3.
    """
    flags = [option for option, value in (("--inspect", inspect), ("--check", check), ("--dry-run", dry_run)) if value]
    if len(flags) > 1:
        raise InvalidOption(f"{flags[0]} and {flags[1]} do not go together", hint="give one of them")
    if into is not None:
        check_name(into, "namespace")
    own_reference = parse_reference("latest" if at is None else at)

    # older releases do not read tables of format version 3
    need_pyiceberg(12)
    from olympia_cli.format.node import Sizes
    from olympia_cli.importers.footers import open_io
    from olympia_cli.importers.iox.plans import Planner, count
    from olympia_cli.importers.iox.source import LARGEST, Source
    from olympia_cli.importers.iox.tables import IoxTables, Run, read_note
    from olympia_cli.importers.objects import Renaming

    session, clock = Session(ctx), SystemClock()
    options = session.options_for(source)
    store = open_store(source, options or None, size_limit=lambda path: LARGEST)
    base = f"file://{store.uri}" if scheme_of(source) == "file" else source.rstrip("/")
    reference = settle(own_reference, clock.now_millis(), tuple)
    with Source(store, source) as there:
        if check:
            _check(session, there)
        io = open_io(base, io_properties(source, options))
        with session.progress() as progress:
            progress.phase("reading the catalog")
            if inspect:
                state, outcome = there.state(reference), ImportResult()
                for plan in Planner(there, base, Renaming(Sizes(128, 100, 100, 100), into)).plans(state, outcome, None):
                    count(plan, outcome)
                version = 0
            else:
                with iceberg_catalog(session, message=message, retry_for=retry_for) as catalog:
                    snapshot = session.snapshot()
                    tables = IoxTables(Planner(there, base, Renaming(snapshot.sizes, into)), io, clock)
                    note = read_note(snapshot.definition.properties, base, there)
                    work = Run(tables, catalog, into, message, note)
                    if history and not dry_run:
                        outcome, state, version = work.history(reference)
                    else:
                        outcome, state, version = work.one(reference, dry_run)
        print_imported(session, outcome, version, inspect or dry_run, "part", **_about(there, state))


def _about(there: Source, state: State) -> dict[str, Any]:
    return {
        "source_version": state.revision,
        "source_transaction": str(state.uuid),
        "source_time": time_text(state.start_millis),
        "source_versions": {"oldest": there.oldest, "latest": there.latest},
    }


def _check(session: Session, there: Source) -> NoReturn:
    from olympia_cli.importers.iox.checks import check

    with session.progress() as progress:
        progress.phase("reading the catalog")
        result = check(there)
    raise typer.Exit(print_checked(session, result))
