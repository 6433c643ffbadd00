"""Iceberg tables: checks and inventories of their files, and a catalog for PyIceberg.

`OlympiaCatalog` needs the extra `iceberg`, and is imported on first access. Reading tables works without PyIceberg.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.iceberg.catalog import OlympiaCatalog

__all__ = ["OlympiaCatalog"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from olympia_cli.iceberg.catalog import OlympiaCatalog

    return OlympiaCatalog
