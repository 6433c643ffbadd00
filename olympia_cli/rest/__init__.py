"""The catalog over HTTP: Iceberg's REST API, and a web page. The only package that uses Starlette and uvicorn.

Names in `__all__` are loaded on first access.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.rest.server import Running
    from olympia_cli.rest.settings import MIB, Settings

__all__ = [
    "MIB",
    "Running",
    "Settings",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
