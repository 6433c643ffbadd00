"""docs/architecture.md names what exists, and the rooms of `ops` in the order that the import contract gives them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PAGE = (HERE / "docs/architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.[A-Za-z_.]+)`", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_every_name_in_the_architecture_page_exists(name):
    module, _, attributes = name.partition(".")
    reduce(getattr, attributes.split("."), import_module("olympia_cli." + module.replace("/", ".")))


def test_the_architecture_page_names_enough_modules():
    assert len(NAMED) >= 25


def rows(heading: str) -> list[str]:
    """The first column of the table below a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [
        name for cell in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE) for name in re.findall("`(.+?)`", cell)
    ]


def test_packages_and_rooms_stand_in_the_order_of_the_import_contracts():
    floors, rooms = (re.findall(r"\w+", " ".join(contract["layers"])) for contract in CONTRACTS[:2])
    assert rows("The floors") == [name for name in floors if is_there(HERE / "olympia_cli" / name)]
    assert rows("The rooms of ops") == rooms


def is_there(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


# Google's packages share one name; all other libraries that come with PyIceberg are used beside it
WITHOUT_CONTRACT = {"google", "pydantic", "pyroaring"}


def imported_libraries() -> set[str]:
    """Return the libraries that the package imports, at the top of a module or inside a function."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (HERE / "olympia_cli").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.partition(".")[0] for name in modules} - {"olympia_cli"} - sys.stdlib_module_names


def test_a_contract_names_the_importers_of_each_library():
    protected = {name for contract in CONTRACTS for name in contract.get("protected_modules", ())}
    assert imported_libraries() - protected == WITHOUT_CONTRACT


def test_no_contract_has_exceptions():
    assert not [contract["name"] for contract in CONTRACTS if "ignore_imports" in contract]
    assert not [contract["name"] for contract in CONTRACTS if "unmatched_ignore_imports_alerting" in contract]


FRONTS = sorted(
    ".".join(path.parent.relative_to(HERE).parts)
    for path in (HERE / "olympia_cli").rglob("__init__.py")
    if "= lazy(__name__)" in path.read_text(encoding="utf-8") and path.parent.name != "olympia_cli"
)
"""The packages with a front."""


@pytest.mark.parametrize("package", FRONTS)
def test_a_contract_protects_each_module_behind_a_front(package):
    protected = {name for contract in CONTRACTS for name in contract.get("protected_modules", ())}
    modules = {f"{package}.{path.stem}" for path in (HERE / package.replace(".", "/")).glob("[a-z]*.py")}
    assert f"{package}.*" in protected or modules <= protected
