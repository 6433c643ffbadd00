"""Imports of existing catalogs and files: tables are registered, and data stays where it is unless a rewrite is
requested.

Names in `__all__` are loaded on first access: a command needs the import of one source.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.importers.footers import Footers, LocalFooters, SourceFolder, open_io
    from olympia_cli.importers.iceberg import stage_tables, tables_below, tables_of_catalog
    from olympia_cli.importers.objects import ObjectImport, PresentObjects, Renaming
    from olympia_cli.importers.olympia import import_catalog, inspect_source
    from olympia_cli.importers.parquet import Footer, ParquetFile, find_folders, without_catalog
    from olympia_cli.importers.parquet_tables import ParquetImport
    from olympia_cli.importers.rebuild import check_gone, check_target, newest_catalog, objects_left
    from olympia_cli.importers.result import ImportedTable, ImportResult, Omission

__all__ = [
    "Footer",
    "Footers",
    "ImportResult",
    "ImportedTable",
    "LocalFooters",
    "ObjectImport",
    "Omission",
    "ParquetFile",
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

_HOMES = {
    "footers": "Footers LocalFooters SourceFolder open_io",
    "iceberg": "stage_tables tables_below tables_of_catalog",
    "objects": "ObjectImport PresentObjects Renaming",
    "olympia": "import_catalog inspect_source",
    "parquet": "Footer ParquetFile find_folders without_catalog",
    "parquet_tables": "ParquetImport",
    "rebuild": "check_gone check_target newest_catalog objects_left",
    "result": "ImportResult ImportedTable Omission",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
