"""Commands that look into tables or change them, through PyIceberg: the catalog for it, and its errors told as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from olympia_cli.cli.context import Changed, Session
from olympia_cli.errors import IcebergMissing, InvalidOption

if TYPE_CHECKING:
    from olympia_cli.iceberg.catalog import OlympiaCatalog


@contextmanager
def iceberg_catalog(
    session: Session,
    *,
    at: str | None = None,
    txn: str | None = None,
    message: str = "",
    retry_for: str = "60s",
) -> Iterator[OlympiaCatalog]:
    """The catalog for PyIceberg: the latest version, another one, or the inside of a distributed transaction."""
    from olympia_cli.cli.params import parse_seconds

    need_pyiceberg()
    from olympia_cli.iceberg.catalog import OlympiaCatalog
    from olympia_cli.iceberg.failures import told_as_ours
    from olympia_cli.iceberg.settings import io_properties

    if at is not None and txn is not None:
        raise InvalidOption("--at and --txn do not go together", hint="a transaction has a version of its own")
    location = session.location
    catalog = OlympiaCatalog.of(session.catalog, **io_properties(location.uri, location.options))
    with told_as_ours():
        if txn is not None:
            catalog = catalog.inside(txn)
        elif at is not None:
            catalog = catalog.at(at)
        catalog.message, catalog.retry_for = message, parse_seconds(retry_for)
        yield catalog


def need_pyiceberg(minor: int = 0) -> None:
    """Say which extra to install where PyIceberg is missing, or older than 0.`minor`."""
    from importlib.util import find_spec

    if find_spec("pyiceberg") is None:
        raise IcebergMissing("this needs PyIceberg, which is not installed")
    if minor:
        from importlib.metadata import version

        found = version("pyiceberg")
        if tuple(int(part) for part in found.split(".")[:2] if part.isdigit()) < (0, minor):
            raise IcebergMissing(f"this needs PyIceberg 0.{minor}, and {found} is installed")


def changed(catalog: OlympiaCatalog, txn: str | None) -> Changed:
    """The last change made through a catalog."""
    return Changed(catalog.last_version, txn, catalog.last_actions)
