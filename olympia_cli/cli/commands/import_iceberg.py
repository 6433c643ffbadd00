from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.iceberg_tables import need_pyiceberg
from olympia_cli.cli.options import DryRun, Message, Properties, RetryFor, parse_properties
from olympia_cli.cli.output.imports import print_imported
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.names import check_name
from olympia_cli.storage.open import scheme_of

if TYPE_CHECKING:
    from olympia_cli.importers.result import ImportedTable, ImportResult, Omission

EXAMPLES = [
    "olympia import iceberg prod",
    "olympia import iceberg old --property uri=sqlite:///catalog.db --property type=sql",
    "olympia import iceberg s3://lake/warehouse",
]


def run(
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
    from olympia_cli.importers.iceberg import bring

    session, properties = Session(ctx), parse_properties(property)
    is_prefix = "/" in source or source in (".", "..")
    if into is not None:
        check_name(into, "namespace")
        if not is_prefix:
            raise InvalidOption("--into is for a prefix; a catalog has namespaces of its own", hint="leave it out")
    with session.progress() as progress:
        progress.phase("reading tables")
        tables = _below(session, source, into) if is_prefix else _from_catalog(source, properties)
    if dry_run:
        transaction = session.catalog.begin()
        print_imported(session, bring(tables, transaction), transaction.base.version, dry_run)
        return
    outcomes: list[ImportResult] = []
    changed = session.change(
        lambda transaction: outcomes.append(bring(tables, transaction)),
        message=message,
        retry_for=retry_for,
        again=True,
        atomic=True,
    )
    assert changed.version is not None
    print_imported(session, outcomes[-1], changed.version, dry_run)


def _below(session: Session, prefix: str, into: str | None) -> list[ImportedTable | Omission]:
    from olympia_cli.importers.iceberg import below

    options = session.options_for(prefix)
    files = TableFiles(options, scheme_of(prefix))
    try:
        return list(below(prefix, options or None, files, into))
    finally:
        files.close()


def _from_catalog(name: str, properties: dict[str, str]) -> list[ImportedTable | Omission]:
    from olympia_cli.importers.iceberg import from_catalog

    need_pyiceberg()
    from olympia_cli.iceberg.conversion import told_as_ours

    with told_as_ours():
        return list(from_catalog(name, properties))
