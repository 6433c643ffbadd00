"""Fronts of packages, whose names are loaded on first access.

A front imports its names under `if TYPE_CHECKING:`, and lists them in `__all__`. These imports are also the table of
the modules to load.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: load the module of a name when the name is first used."""
    modules: dict[str, str] = {}

    def load(name: str) -> Any:
        if not name.startswith("__"):
            modules.update(modules or modules_of(package))
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def modules_of(package: str) -> dict[str, str]:
    """Return the module of each name of a front, read from its source."""
    loader: Any = getattr(find_spec(package), "loader", None)
    body = ast.parse(loader.get_source(package)).body
    checked = [node for block in body if isinstance(block, ast.If) for node in block.body]
    imports = [node for node in checked if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}
