"""Preserved catalogs of IOx, versions 14 to 19: read, checked and imported. Nothing of them is ever written.

Names in `__all__` are loaded on first access.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.importers.iox.checks import Checked, check
    from olympia_cli.importers.iox.plans import IoxPlanner, count
    from olympia_cli.importers.iox.source import LARGEST, IoxSource, IoxState
    from olympia_cli.importers.iox.tables import ImportRun, IoxTables, read_note

__all__ = [
    "LARGEST",
    "Checked",
    "ImportRun",
    "IoxPlanner",
    "IoxSource",
    "IoxState",
    "IoxTables",
    "check",
    "count",
    "read_note",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
