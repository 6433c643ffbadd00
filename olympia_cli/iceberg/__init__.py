"""Iceberg tables: what their metadata names, whether it is there, and the catalog as PyIceberg uses it.

`OlympiaCatalog` needs the extra `iceberg`, and is loaded when it is asked for; all that reads tables does without.
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
