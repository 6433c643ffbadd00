"""Imports of existing catalogs and files: tables are registered, and data stays where it is unless a rewrite is
requested.

Names in `__all__` are loaded on first access: a command needs the import of one source.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.importers.footers import Footers, LocalFooters, SourceFolder, open_io
    from olympia_cli.importers.iceberg import stage_tables, tables_below, tables_of_catalog
    from olympia_cli.importers.objects import ObjectImport, PresentObjects, Renaming
    from olympia_cli.importers.olympia import import_catalog, inspect_source
    from olympia_cli.importers.parquet import ParquetFile, ParquetFooter, find_folders, without_catalog
    from olympia_cli.importers.parquet_tables import ParquetImport
    from olympia_cli.importers.rebuild import check_gone, check_target, newest_catalog, objects_left
    from olympia_cli.importers.result import ImportedTable, ImportResult, Omission

__all__ = [
    "Footers",
    "ImportResult",
    "ImportedTable",
    "LocalFooters",
    "ObjectImport",
    "Omission",
    "ParquetFile",
    "ParquetFooter",
    "ParquetImport",
    "PresentObjects",
    "Renaming",
    "SourceFolder",
    "check_gone",
    "check_target",
    "find_folders",
    "import_catalog",
    "inspect_source",
    "newest_catalog",
    "objects_left",
    "open_io",
    "stage_tables",
    "tables_below",
    "tables_of_catalog",
    "without_catalog",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
