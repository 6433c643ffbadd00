"""Import DeltaCAT catalogs: their metadata is read in place, and their tables become tables here.

Names in `__all__` are loaded on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.importers.deltacat.checks import check
    from olympia_cli.importers.deltacat.imports import DeltacatImport
    from olympia_cli.importers.deltacat.metadata import TableVersion
    from olympia_cli.importers.deltacat.rewrite import Metadata, Outcome, Piece, Rewriter, Rewriting, Unseen
    from olympia_cli.importers.deltacat.source import Source, SourceTransaction

__all__ = [
    "DeltacatImport",
    "Metadata",
    "Outcome",
    "Piece",
    "Rewriter",
    "Rewriting",
    "Source",
    "SourceTransaction",
    "TableVersion",
    "Unseen",
    "check",
]

_HOMES = {
    "checks": "check",
    "imports": "DeltacatImport",
    "metadata": "TableVersion",
    "rewrite": "Metadata Outcome Piece Rewriter Rewriting Unseen",
    "source": "Source SourceTransaction",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
