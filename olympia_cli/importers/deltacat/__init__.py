"""Import DeltaCAT catalogs: their metadata is read in place, and their tables become tables here.

Names in `__all__` are loaded on first access.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.importers.deltacat.checks import check
    from olympia_cli.importers.deltacat.imports import DeltacatImport
    from olympia_cli.importers.deltacat.metadata import TableVersion
    from olympia_cli.importers.deltacat.rewrite import Metadata, Outcome, Piece, Rewriter, Rewriting, Unseen
    from olympia_cli.importers.deltacat.source import DeltacatSource, SourceTransaction

__all__ = [
    "DeltacatImport",
    "DeltacatSource",
    "Metadata",
    "Outcome",
    "Piece",
    "Rewriter",
    "Rewriting",
    "SourceTransaction",
    "TableVersion",
    "Unseen",
    "check",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
