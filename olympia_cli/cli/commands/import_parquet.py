from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.config import Location
from olympia_cli.cli.engine import Conf, EngineForFiles, EngineWord, Master, Parallelism, Remote, Source, engine
from olympia_cli.cli.iceberg_tables import iceberg_catalog, need_pyiceberg
from olympia_cli.cli.options import DryRun, Message, RetryFor
from olympia_cli.cli.output.imports import print_imported
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, PathMissing
from olympia_cli.iceberg.settings import io_properties
from olympia_cli.importers.result import ImportResult
from olympia_cli.names import check_name
from olympia_cli.storage.open import open_store, scheme_of

EXAMPLES = [
    "olympia import parquet s3://lake/raw --inspect",
    "olympia import parquet s3://lake/raw",
    "olympia import parquet ./exports --into staging",
    "olympia import parquet s3://lake/raw --engine spark --master spark://host:7077",
]


def run(
    ctx: typer.Context,
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="A folder or prefix with Parquet files below it.")],
    into: Annotated[
        str | None, typer.Option("--into", metavar="NS", help="Put all tables into this namespace.")
    ] = None,
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

    if inspect and dry_run:
        raise InvalidOption("--inspect and --dry-run do not go together", hint="give one of them")
    if into is not None:
        check_name(into, "namespace")
    need_pyiceberg()
    from olympia_cli.importers.objects import Renaming
    from olympia_cli.importers.parquet import find_folders, not_of
    from olympia_cli.importers.parquet_tables import ParquetImport

    session = Session(ctx)
    options = session.options_for(prefix)
    store = open_store(prefix, options or None)
    base = f"file://{store.uri}" if scheme_of(prefix) == "file" else prefix.rstrip("/")
    outcome = ImportResult()
    with session.progress() as progress:
        progress.phase("listing files")
        files = store.list() if inspect else not_of(session.store.uri, store.uri, store.list())
        folders, outcome.left_out = find_folders(files)
    if not folders and not outcome.left_out:
        raise PathMissing(f"no Parquet files are below {prefix}", hint="name a folder or prefix that holds some")
    source = Source(Location(store.uri, options), sum(len(folder.files) for folder in folders))
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
