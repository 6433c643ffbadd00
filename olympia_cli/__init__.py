"""The public library of `olympia_cli`: read and write catalogs of the Olympia format.

    from olympia_cli import Catalog, TableName
    Catalog.open("s3://bucket/catalog").snapshot().table(TableName("sales", "orders"))

Names in `__all__` are loaded on first access, so importing the package imports nothing else.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.catalog.catalog import Catalog
    from olympia_cli.catalog.snapshot import CatalogObject, Snapshot
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.errors import (
        CatalogExists,
        CatalogNotFound,
        CommitConflict,
        CommitUnknown,
        Damaged,
        NamespaceExists,
        NamespaceNotEmpty,
        NamespaceNotFound,
        OlympiaError,
        StorageDenied,
        StorageFailed,
        TableExists,
        TableNotFound,
        VersionNotFound,
        ViewExists,
        ViewNotFound,
    )
    from olympia_cli.names import (
        Ago,
        AtExport,
        AtTime,
        AtVersion,
        Latest,
        NamespaceName,
        Oldest,
        Reference,
        TableName,
        ViewName,
        parse_reference,
        parse_table,
        parse_view,
    )
    from olympia_cli.storage.open import open_store

__version__ = "0.1.0"

__all__ = [
    "Ago",
    "AtExport",
    "AtTime",
    "AtVersion",
    "Catalog",
    "CatalogExists",
    "CatalogNotFound",
    "CatalogObject",
    "CommitConflict",
    "CommitUnknown",
    "Damaged",
    "Latest",
    "NamespaceExists",
    "NamespaceName",
    "NamespaceNotEmpty",
    "NamespaceNotFound",
    "Oldest",
    "OlympiaError",
    "Reference",
    "Snapshot",
    "StorageDenied",
    "StorageFailed",
    "TableExists",
    "TableName",
    "TableNotFound",
    "Transaction",
    "VersionNotFound",
    "ViewExists",
    "ViewName",
    "ViewNotFound",
    "open_store",
    "parse_reference",
    "parse_table",
    "parse_view",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
