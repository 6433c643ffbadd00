"""Fronts of packages whose names are loaded on first access."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(front: dict[str, Any]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, given its `globals()`.

    `_HOMES` lists the modules that define the names in `__all__`, those that need the fewest others first. Once a
    module is loaded, the front holds all its names.
    """
    package, names = front["__name__"], front["__all__"]

    def load(name: str) -> Any:
        for home in front["_HOMES"] if name in names else ():
            module = vars(import_module(f"{package}.{home}"))
            if name in module:
                front.update({other: module[other] for other in names if other in module})
                return module[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
