from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.engine import Conf, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.iceberg_tables import iceberg_catalog, need_pyiceberg
from olympia_cli.cli.options import DryRun, Message, RetryFor
from olympia_cli.cli.output.imports import print_deltacat_checked, print_imported, print_inspected
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.names import check_name
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.open import open_store

if TYPE_CHECKING:
    from olympia_cli.importers.deltacat.source import Source
    from olympia_cli.importers.footers import SourceFolder

EXAMPLES = [
    "olympia import deltacat s3://lake/deltacat --inspect",
    "olympia import deltacat s3://lake/deltacat --check",
    "olympia import deltacat s3://lake/deltacat --dry-run",
    "olympia import deltacat ./deltacat --history",
    "olympia import deltacat ./deltacat --at 2026-11-15T20:00Z --into old",
    "olympia import deltacat s3://lake/deltacat --rewrite --master spark://host:7077",
]


def run(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A DeltaCAT catalog: the folder with txn/ in it.")],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Import the state at a time, or after the transaction with this id."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Make one commit per transaction of the source.")] = False,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NS", help="Put all tables into this namespace.")
    ] = None,
    inspect: Annotated[
        bool, typer.Option("--inspect", help="Show its tables and its transactions, and import nothing.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Report damage in it, and import nothing.")] = False,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Rewrite on Spark the data that plain Parquet files cannot represent.")
    ] = False,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Import a DeltaCAT catalog: its namespaces, and its tables as Iceberg tables.

    Objects and columns keep their ids, and Parquet files stay where they are. The latest active version of each table
    is imported. Data in other formats is left out. So are upserts and deletes, with the earlier rows that they may
    change: no row appears that DeltaCAT would not show. With --rewrite, the partitions with such data are merged on
    Spark and written as files of the new table. Everything is one commit, or with --history one per transaction.
    Running it again imports what is new; a table that was changed here since stays as it is.

    A name that the format forbids is changed. A space or control character becomes % and two hex digits. A name that is
    too long is cut, and ends in ~ and a hash. Data that is left out is reported, and the exit code is 3; with --check
    it is 50 if something is damaged.
    """
    looks = (("--inspect", inspect), ("--check", check))
    for options in (
        (*looks, ("--dry-run", dry_run)),
        (*looks, ("--rewrite", rewrite)),
        (("--history", history), ("--rewrite", rewrite)),
    ):
        flags = [option for option, value in options if value]
        if len(flags) > 1:
            raise InvalidOption(f"{flags[0]} and {flags[1]} do not go together", hint="give one of them")
    about = (("--master", master), ("--remote", remote), ("--parallelism", parallelism), ("--conf", conf))
    for option, value in about:
        if value is not None and not rewrite:
            raise InvalidOption(f"{option} needs Spark", hint="leave it out, or use --rewrite")
    if into is not None:
        check_name(into, "namespace")
    need_pyiceberg()
    from olympia_cli.importers.deltacat.imports import DeltacatImport
    from olympia_cli.importers.deltacat.source import Source
    from olympia_cli.importers.footers import SourceFolder
    from olympia_cli.importers.objects import Renaming

    session = Session(ctx)
    settings = session.options_for(source)
    store = open_store(source, settings or None)
    with session.progress() as progress:
        progress.phase("listing files")
        origin = Source(store, source, into)
    before = origin.before(at, SystemClock().now_millis())
    if check:
        _check(session, origin, before)
    folder = SourceFolder.of(source, store, settings)
    if inspect:
        _inspect(session, origin, folder, before, into)
        return
    where = EngineWord.SPARK if rewrite else EngineWord.LOCAL
    with (
        engine(session, where, master, remote, parallelism, conf) as work,
        session.progress() as progress,
        iceberg_catalog(session, message=message, retry_for=retry_for) as catalog,
    ):
        progress.phase("reading tables")
        rewriter = work.rewriter(folder.base, folder.properties, catalog.properties)
        renaming = Renaming(session.snapshot().sizes, into)
        importing = DeltacatImport(origin, folder, catalog, renaming, rewriter, dry_run)
        result, version = (importing.history if history and not dry_run else importing.run)(before, message)
    print_imported(session, result, version, dry_run, "object")


def _inspect(session: Session, origin: Source, folder: SourceFolder, before: int, into: str | None) -> None:
    """Show the result of an import into an empty catalog."""
    from olympia_cli.catalog.catalog import Catalog
    from olympia_cli.iceberg.catalog import OlympiaCatalog
    from olympia_cli.importers.deltacat.imports import DeltacatImport
    from olympia_cli.importers.objects import Renaming

    empty = Catalog.create(MemoryStore())
    renaming = Renaming(empty.snapshot().sizes, into)
    with session.progress() as progress:
        progress.phase("reading tables")
        result, log = DeltacatImport(origin, folder, OlympiaCatalog.of(empty), renaming, dry_run=True).inspect(before)
    print_inspected(session, result, log)


def _check(session: Session, origin: Source, before: int) -> NoReturn:
    from olympia_cli.importers.deltacat.checks import check

    with session.progress() as progress:
        progress.phase("reading the catalog")
        findings = list(check(origin, before))
    raise typer.Exit(print_deltacat_checked(session, origin.store.uri, origin.index.counts, findings))
