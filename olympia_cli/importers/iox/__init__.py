"""Preserved catalogs of IOx, versions 14 to 19: read, checked and imported. Nothing of them is ever written.

Names in `__all__` are loaded on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.importers.iox.checks import Checked, check
    from olympia_cli.importers.iox.plans import Planner, count
    from olympia_cli.importers.iox.source import LARGEST, Source, State
    from olympia_cli.importers.iox.tables import IoxTables, Run, read_note

__all__ = [
    "LARGEST",
    "Checked",
    "IoxTables",
    "Planner",
    "Run",
    "Source",
    "State",
    "check",
    "count",
    "read_note",
]

_HOMES = {
    "checks": "Checked check",
    "plans": "Planner count",
    "source": "LARGEST Source State",
    "tables": "IoxTables Run read_note",
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
