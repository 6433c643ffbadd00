"""A case: how a catalog is damaged, and what fsck must say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from olympia_cli.names import ObjectName
from olympia_cli.storage.protocol import Store
from tests.helpers.damage_sample import Sample

Hit = frozenset[str]


@dataclass(frozen=True)
class Wanted:
    """A finding that must be there: one of the codes, at one of the paths (none: wherever).

    `versions` and `objects` are what it must hit at least; None leaves that open. `damaged` is the verdict.
    """

    codes: Hit
    paths: Hit = frozenset()
    versions: set[int] | None = None
    objects: set[ObjectName] | None = None
    damaged: bool | None = True
    sound: bool = True
    """True if the independent checker judges the versions as fsck must."""


@dataclass(frozen=True)
class Case:
    name: str
    do: Callable[[Sample, Store], Wanted]
    expired: bool = False
    local: bool = False
    """A variant of a case before it: the local disk is enough."""


CASES: list[Case] = []


def case(do: Callable[[Sample, Store], Wanted]) -> Callable[[Sample, Store], Wanted]:
    CASES.append(Case(do.__name__, do))
    return do


def expired_case(do: Callable[[Sample, Store], Wanted]) -> Callable[[Sample, Store], Wanted]:
    CASES.append(Case(do.__name__, do, expired=True))
    return do


def many(make: Callable[..., Callable[[Sample, Store], Wanted]], *arguments: tuple[str, Any]) -> None:
    """Register one case for each named argument. The first two are tested on every store."""
    for at, (name, argument) in enumerate(arguments):
        CASES.append(Case(f"{make.__name__}-{name}", make(argument), local=at > 1))


def wanted(code: str, *paths: str, **more: Any) -> Wanted:
    """Codes with a bar between them are alternatives."""
    return Wanted(frozenset(code.split("|")), frozenset(paths), **more)


# Where things are in the latest version of the sample: three levels, the root on top


def inner(s: Sample, at: int = 0) -> str:
    return s.tree().inner[at]


def leaf(s: Sample, at: int = 0) -> str:
    return s.tree().leaves[at]


def leaf_of_tables(s: Sample) -> str:
    """A leaf with several tables and nothing else."""
    tree = s.tree()
    return next(
        path
        for path in tree.leaves
        if len(node := tree.nodes[path].keys) > 1 and all(k.startswith("C===") for k in node)
    )


def children(s: Sample, path: str) -> list[str]:
    return [str(child) for child in s.tree().nodes[path].children]


def definition(s: Sample, folder: str) -> str:
    """The definition of some object of the latest version."""
    return next(value for value, _ in s.tree().entries.values() if value.startswith(f"def/{folder}/"))


def catalog_def(s: Sample, version: int | None = None) -> str:
    return s.tree(version).root.catalog_def


def names(s: Sample, keys: Any) -> set[ObjectName]:
    return {s.name(key) for key in keys}
