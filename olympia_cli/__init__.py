"""Catalogs of the Olympia format: a library, and the program `olympia` over it.

    from olympia_cli import Catalog, TableName

    Catalog.open("s3://bucket/catalog").snapshot().table(TableName("sales", "orders"))

What is listed here is loaded when it is first asked for: importing the package imports nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

# the dear ones last: a name or an error is had without what reads a catalog
_HOMES = ("names", "errors", "storage.open", "catalog.snapshot", "catalog.transaction", "catalog.catalog")


def __getattr__(name: str) -> Any:
    for home in _HOMES if name in __all__ else ():
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
