"""The catalog over HTTP: Iceberg's REST API, and a web page. The only package that uses Starlette and uvicorn.

Names in `__all__` are loaded on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.rest.server import Running
    from olympia_cli.rest.settings import MIB, Settings

__all__ = [
    "MIB",
    "Running",
    "Settings",
]

_HOMES = {
    "server": "Running",
    "settings": "MIB Settings",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
