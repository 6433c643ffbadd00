"""The commands that import tables from other catalogs and from files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.config import CatalogLocation
from olympia_cli.cli.engine import Conf, EngineForFiles, EngineWord, Master, Parallelism, Remote, SourceFiles, engine
from olympia_cli.cli.iceberg_tables import iceberg_catalog, need_pyiceberg
from olympia_cli.cli.options import DryRun, Message, Properties, RetryFor, check_one, parse_properties
from olympia_cli.cli.output.fsck import print_report
from olympia_cli.cli.output.imports import (
    commit_import,
    print_checked,
    print_deltacat_checked,
    print_imported,
    print_inspected,
)
from olympia_cli.cli.session import Session
from olympia_cli.errors import CatalogNotFound, InvalidLocation, InvalidOption, OlympiaError, PathMissing
from olympia_cli.importers import ImportResult
from olympia_cli.names import check_name, parse_reference, settle, time_text
from olympia_cli.ops import fsck
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.open import open_store, scheme_of

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.importers import ImportedTable, ImportResult, Omission, SourceFolder
    from olympia_cli.importers.deltacat import DeltacatSource
    from olympia_cli.importers.iox import IoxSource, IoxState

EXAMPLES = {
    "olympia": [
        "olympia import olympia s3://lake/java-catalog --inspect",
        "olympia import olympia s3://lake/java-catalog --dry-run",
        "olympia import olympia ./java-catalog --history",
        "olympia import olympia ./java-catalog --at v12 --into old",
    ],
    "deltacat": [
        "olympia import deltacat s3://lake/deltacat --inspect",
        "olympia import deltacat s3://lake/deltacat --check",
        "olympia import deltacat s3://lake/deltacat --dry-run",
        "olympia import deltacat ./deltacat --history",
        "olympia import deltacat ./deltacat --at 2026-11-15T20:00Z --into old",
        "olympia import deltacat s3://lake/deltacat --rewrite --master spark://host:7077",
    ],
    "iox": [
        "olympia import iox s3://lake/1/metrics --check",
        "olympia import iox s3://lake/1/metrics --inspect",
        "olympia import iox s3://lake/1/metrics",
        "olympia import iox ./metrics --at 2022-02-01 --into archive",
    ],
    "parquet": [
        "olympia import parquet s3://lake/raw --inspect",
        "olympia import parquet s3://lake/raw",
        "olympia import parquet ./exports --into staging",
        "olympia import parquet s3://lake/raw --engine spark --master spark://host:7077",
    ],
    "iceberg": [
        "olympia import iceberg prod",
        "olympia import iceberg old --property uri=sqlite:///catalog.db --property type=sql",
        "olympia import iceberg s3://lake/warehouse",
    ],
}


Into = Annotated[str | None, typer.Option("--into", metavar="NS", help="Put all tables into this namespace.")]


def olympia(
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
    check_one(("--inspect", inspect), ("--check", check), ("--dry-run", dry_run))
    if into is not None:
        check_name(into, "namespace")
    there, session = Session(ctx, source), Session(ctx)
    try:
        if check:
            _check_olympia(there)
        snapshot = there.snapshot(at)
    except CatalogNotFound as error:
        raise CatalogNotFound(error.message, hint="name a folder or prefix that holds one") from None
    except OlympiaError as error:
        # the advice is about the source, so the command names the source
        error.command = ("-c", source, *error.command) if error.command else ()
        raise
    if inspect:
        from olympia_cli.importers import inspect_source

        print_imported(
            there, inspect_source(snapshot, into), snapshot.version, True, "object", source_version=snapshot.version
        )
        return
    if there.store.uri == session.store.uri:
        raise InvalidLocation(f"{source} is the catalog itself", hint="name another one")
    from olympia_cli.importers import import_catalog

    def commit(bring: Callable[[Transaction], ImportResult], about: str) -> tuple[ImportResult, int]:
        return commit_import(session, bring, f"{message}\n{about}" if message else about, retry_for, dry_run)

    with session.progress() as progress:
        progress.phase("reading the catalog")
        outcome, version = import_catalog(
            there.catalog, snapshot, into, history and not dry_run, session.catalog, commit
        )
    print_imported(session, outcome, version, dry_run, "object", source_version=snapshot.version)


def _check_olympia(there: Session) -> NoReturn:
    from olympia_cli.cli.fsck_actions import exit_code, next_commands, say_next, with_commands

    with there.progress() as progress:
        report = fsck.fsck(there.store, fsck.FsckRequest(fsck.Level.FULL, all_versions=True, progress=progress))
    commands = next_commands(there, report, ("--level", "full", "--all-versions"))
    print_report(there, with_commands(there, report, commands), commands)
    say_next(there, commands)
    raise typer.Exit(exit_code(report))


def deltacat(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A DeltaCAT catalog: the folder with txn/ in it.")],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Import the state at a time, or after the transaction with this id."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Make one commit per transaction of the source.")] = False,
    into: Into = None,
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
    check_one(("--inspect", inspect), ("--check", check), ("--dry-run", dry_run))
    check_one(("--inspect", inspect), ("--check", check), ("--rewrite", rewrite))
    check_one(("--history", history), ("--rewrite", rewrite))
    about = (("--master", master), ("--remote", remote), ("--parallelism", parallelism), ("--conf", conf))
    for option, value in about:
        if value is not None and not rewrite:
            raise InvalidOption(f"{option} needs Spark", hint="leave it out, or use --rewrite")
    if into is not None:
        check_name(into, "namespace")
    need_pyiceberg()
    from olympia_cli.importers import Renaming, SourceFolder
    from olympia_cli.importers.deltacat import DeltacatImport, DeltacatSource

    session = Session(ctx)
    settings = session.options_for(source)
    store = open_store(source, settings or None)
    with session.progress() as progress:
        progress.phase("listing files")
        origin = DeltacatSource(store, source, into)
    before = origin.before(at, SystemClock().now_millis())
    if check:
        _check_deltacat(session, origin, before)
    folder = SourceFolder.of(source, store, settings)
    if inspect:
        _inspect_deltacat(session, origin, folder, before, into)
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


def _inspect_deltacat(
    session: Session, origin: DeltacatSource, folder: SourceFolder, before: int, into: str | None
) -> None:
    """Show the result of an import into an empty catalog."""
    from olympia_cli.catalog.catalog import Catalog
    from olympia_cli.iceberg import OlympiaCatalog
    from olympia_cli.importers import Renaming
    from olympia_cli.importers.deltacat import DeltacatImport

    empty = Catalog.create(MemoryStore())
    renaming = Renaming(empty.snapshot().sizes, into)
    with session.progress() as progress:
        progress.phase("reading tables")
        result, log = DeltacatImport(origin, folder, OlympiaCatalog.of(empty), renaming, dry_run=True).inspect(before)
    print_inspected(session, result, log)


def _check_deltacat(session: Session, origin: DeltacatSource, before: int) -> NoReturn:
    from olympia_cli.importers.deltacat import check

    with session.progress() as progress:
        progress.phase("reading the catalog")
        findings = list(check(origin, before))
    raise typer.Exit(print_deltacat_checked(session, origin.store.uri, origin.index.counts, findings))


def iox(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The folder of a database, with transactions/ and data/ in it.")
    ],
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="REF", help="Revision or time to import; the latest if not given."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Make one commit per revision of the source.")] = False,
    into: Into = None,
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
    check_one(("--inspect", inspect), ("--check", check), ("--dry-run", dry_run))
    if into is not None:
        check_name(into, "namespace")
    own_reference = parse_reference("latest" if at is None else at)

    # older releases do not read tables of format version 3
    need_pyiceberg(12)
    from olympia_cli.format.node import Sizes
    from olympia_cli.iceberg import io_properties
    from olympia_cli.importers import Renaming, open_io
    from olympia_cli.importers.iox import LARGEST, ImportRun, IoxPlanner, IoxSource, IoxTables, count, read_note

    session, clock = Session(ctx), SystemClock()
    options = session.options_for(source)
    store = open_store(source, options or None, size_limit=lambda path: LARGEST)
    base = f"file://{store.uri}" if scheme_of(source) == "file" else source.rstrip("/")
    reference = settle(own_reference, clock.now_millis(), tuple)
    with IoxSource(store, source) as there:
        if check:
            _check_iox(session, there)
        io = open_io(base, io_properties(source, options))
        with session.progress() as progress:
            progress.phase("reading the catalog")
            if inspect:
                state, outcome = there.state(reference), ImportResult()
                for plan in IoxPlanner(there, base, Renaming(Sizes(128, 100, 100, 100), into)).plans(
                    state, outcome, None
                ):
                    count(plan, outcome)
                version = 0
            else:
                with iceberg_catalog(session, message=message, retry_for=retry_for) as catalog:
                    snapshot = session.snapshot()
                    tables = IoxTables(IoxPlanner(there, base, Renaming(snapshot.sizes, into)), io, clock)
                    note = read_note(snapshot.definition.properties, base, there)
                    work = ImportRun(tables, catalog, into, message, note)
                    if history and not dry_run:
                        outcome, state, version = work.history(reference)
                    else:
                        outcome, state, version = work.one(reference, dry_run)
        print_imported(session, outcome, version, inspect or dry_run, "part", **_about(there, state))


def _about(there: IoxSource, state: IoxState) -> dict[str, Any]:
    return {
        "source_version": state.revision,
        "source_transaction": str(state.uuid),
        "source_time": time_text(state.start_millis),
        "source_versions": {"oldest": there.oldest, "latest": there.latest},
    }


def _check_iox(session: Session, there: IoxSource) -> NoReturn:
    from olympia_cli.importers.iox import check

    with session.progress() as progress:
        progress.phase("reading the catalog")
        result = check(there)
    raise typer.Exit(print_checked(session, result))


def parquet(
    ctx: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="A folder or prefix with Parquet files below it.")],
    into: Into = None,
    inspect: Annotated[bool, typer.Option("--inspect", help="Show the tables, and import nothing.")] = False,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
    where: EngineForFiles = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Register Parquet files as Iceberg tables; the files stay where they are.

    A folder with Parquet files is a table; its parent folder is the namespace. Folders below it with names like
    column=value are partitions. Columns are matched by name, and those of all files are united: int widens to long,
    float to double, and a missing column is empty. A file whose columns do not fit is left out. Only the footers of
    files are read, and no data is moved. Everything is one transaction. Running it again adds new files. Files that
    are left out are reported, and the exit code is 3.
    """
    from olympia_cli.format.node import Sizes
    from olympia_cli.iceberg import io_properties

    check_one(("--inspect", inspect), ("--dry-run", dry_run))
    if into is not None:
        check_name(into, "namespace")
    need_pyiceberg()
    from olympia_cli.importers import ParquetImport, Renaming, find_folders, without_catalog

    session = Session(ctx)
    options = session.options_for(prefix)
    store = open_store(prefix, options or None)
    base = f"file://{store.uri}" if scheme_of(prefix) == "file" else prefix.rstrip("/")
    outcome = ImportResult()
    with session.progress() as progress:
        progress.phase("listing files")
        files = store.list() if inspect else without_catalog(session.store.uri, store.uri, store.list())
        folders, outcome.left_out = find_folders(files)
    if not folders and not outcome.left_out:
        raise PathMissing(f"no Parquet files are below {prefix}", hint="name a folder or prefix that holds some")
    source = SourceFiles(CatalogLocation(store.uri, options), sum(len(folder.files) for folder in folders))
    with (
        engine(session, where, master, remote, parallelism, conf, source=source) as work,
        session.progress() as progress,
    ):
        progress.phase("reading columns")
        footers = work.footers(base, io_properties(prefix, options))
        if inspect:
            ParquetImport(base, footers, Renaming(Sizes(128, 100, 100, 100), into), None).inspect(folders, outcome)
            version = 0
        else:
            with iceberg_catalog(session, message=message, retry_for=retry_for) as catalog:
                importing = ParquetImport(base, footers, Renaming(session.snapshot().sizes, into), catalog)
                version = importing.run(folders, outcome, message, dry_run)
    print_imported(session, outcome, version, inspect or dry_run, "file")


def iceberg(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A catalog configured in PyIceberg, or a prefix with tables in it.")
    ],
    property: Properties = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NS", help="For a prefix: put all tables into this namespace.")
    ] = None,
    dry_run: DryRun = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Register the tables of another Iceberg catalog, or below a prefix.

    A source with a slash is a prefix: each table below it is registered with its newest metadata file, and its folders
    name it. Any other source is a catalog in PyIceberg's configuration; --property adds to that configuration or
    replaces it. Everything is one transaction, and no data is moved. Running it again imports what is new; a table that
    was changed here since stays as it is. Tables that are left out are reported, and the exit code is 3.
    """
    from olympia_cli.importers import stage_tables

    session, properties = Session(ctx), parse_properties(property)
    is_prefix = "/" in source or source in (".", "..")
    if into is not None:
        check_name(into, "namespace")
        if not is_prefix:
            raise InvalidOption("--into is for a prefix; a catalog has namespaces of its own", hint="leave it out")
    with session.progress() as progress:
        progress.phase("reading tables")
        tables = _below(session, source, into) if is_prefix else _from_catalog(source, properties)
    result, version = commit_import(
        session, lambda transaction: stage_tables(tables, transaction), message, retry_for, dry_run
    )
    print_imported(session, result, version, dry_run)


def _below(session: Session, prefix: str, into: str | None) -> list[ImportedTable | Omission]:
    from olympia_cli.iceberg import TableFiles
    from olympia_cli.importers import tables_below

    options = session.options_for(prefix)
    with closing(TableFiles(options, scheme_of(prefix))) as files:
        return list(tables_below(prefix, options or None, files, into))


def _from_catalog(name: str, properties: dict[str, str]) -> list[ImportedTable | Omission]:
    from olympia_cli.importers import tables_of_catalog

    need_pyiceberg()
    from olympia_cli.iceberg import told_as_ours

    with told_as_ours():
        return list(tables_of_catalog(name, properties))
