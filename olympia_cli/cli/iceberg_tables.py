"""Opens the catalog for commands that read or change tables through PyIceberg, and translates PyIceberg's errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from olympia_cli.cli.session import Changed, Session
from olympia_cli.cli.talk import hear_libraries
from olympia_cli.errors import IcebergMissing, InvalidOption, OlympiaError, TableNotFound, command_words

if TYPE_CHECKING:
    from olympia_cli.iceberg import OlympiaCatalog
    from olympia_cli.names import TableName


@contextmanager
def iceberg_catalog(
    session: Session,
    table: TableName | None = None,
    *,
    at: str | None = None,
    txn: str | None = None,
    message: str = "",
    retry_for: str = "60s",
) -> Iterator[OlympiaCatalog]:
    """Open the catalog for PyIceberg: the latest version, another one, or a distributed transaction from inside.

    If `table` is missing, the error is that of all other commands.
    """
    from olympia_cli.cli.options import parse_seconds

    need_pyiceberg()
    from olympia_cli.catalog.properties import ONE_SDK
    from olympia_cli.iceberg import OlympiaCatalog, io_properties, told_as_ours

    if at is not None and txn is not None:
        raise InvalidOption("--at and --txn do not go together", hint="a transaction has a version of its own")
    location = session.location
    settings = {**io_properties(location.uri, location.options), ONE_SDK: "true"}
    catalog = OlympiaCatalog.of(session.catalog, **settings)
    try:
        with told_as_ours():
            if txn is not None:
                catalog = catalog.inside(txn)
            elif at is not None:
                catalog = catalog.at(at)
            catalog.message, catalog.retry_for = message, parse_seconds(retry_for)
            yield catalog
    except TableNotFound as error:
        if table is None or error.version is not None or txn is not None:
            raise
        from olympia_cli.catalog.snapshot import not_found

        raise not_found(table, catalog.version) from error


ENGINES = ("commit.", "compatibility.", "format-version", "gc.", "history.", "read.", "schema.", "write.")
"""Prefixes of the properties that engines read from a table's metadata."""


def say_other_place(
    session: Session, table: TableName, set: Mapping[str, str], unset: Sequence[str], change: Changed, txn: str | None
) -> None:
    """Name the command for the table's own metadata, if a property that was set or unset probably belongs there."""
    iceberg_properties: Mapping[str, str] = {}
    if not change.actions and txn is None:
        from olympia_cli.cli.output.files import read_description

        # no property changed in the catalog, so look for it in the metadata; damage of that file does not matter here
        with suppress(OlympiaError):
            location = session.snapshot(None, table).table(table).definition.iceberg_metadata_location
            iceberg_properties = read_description(session, location, str(table))["iceberg"]["properties"]
    words = [
        word for key, value in set.items() if key.startswith(ENGINES) for word in ("--set-iceberg", f"{key}={value}")
    ]
    words += [word for key in unset if key in iceberg_properties for word in ("--unset-iceberg", key)]
    if words:
        command = session.command(command_words("table", "alter", *words, names=[str(table)]))
        session.say(f"note: this is about properties in the catalog; for those in the table's metadata: {command}")


def need_pyiceberg(minor: int = 0) -> None:
    """Raise IcebergMissing if PyIceberg is not installed, or older than 0.`minor`."""
    from importlib.util import find_spec

    if find_spec("pyiceberg") is None:
        raise IcebergMissing("this needs PyIceberg, which is not installed")
    hear_libraries()
    if minor:
        from importlib.metadata import version

        release = version("pyiceberg")
        if tuple(int(part) for part in release.split(".")[:2] if part.isdigit()) < (0, minor):
            raise IcebergMissing(f"this needs PyIceberg 0.{minor}, and {release} is installed")


def changed(catalog: OlympiaCatalog, txn: str | None) -> Changed:
    """Return the last change made through a catalog."""
    return Changed(catalog.last_version, txn, catalog.last_actions)
