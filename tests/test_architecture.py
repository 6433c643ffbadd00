"""docs/architecture.md names what exists, and the rooms of `ops` in the order that the import contract gives them."""

from __future__ import annotations

import re
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


LIBRARIES = {
    "typer": ["cli"],
    "rich": ["cli"],
    "pyarrow": ["format.codec", "format.salvage", "iceberg", "importers", "spark"],
    "pyiceberg": ["iceberg", "importers", "rest", "spark.iceberg_rows"],
    "pyspark": ["spark"],
    "starlette": ["rest"],
    "uvicorn": ["rest"],
    "fsspec": ["storage"],
    "s3fs": ["storage"],
    "gcsfs": ["storage"],
    "jinja2": ["pages"],
    "markupsafe": ["pages"],
}
"""The modules and packages that may import a library."""


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def is_source(module: str, contract: dict) -> bool:
    for source in contract["source_modules"]:
        children = source.removesuffix(".*")
        if children != source:
            source = module if module.rpartition(".")[0] == children else ""
        if module == source or (contract.get("as_packages", True) and is_in(module, source)):
            return True
    return False


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_contract_forbids_a_library_to_each_module_that_may_not_use_it(library):
    contracts = [contract for contract in CONTRACTS if library in contract.get("forbidden_modules", ())]
    allowed = [f"olympia_cli.{package}" for package in LIBRARIES[library]]
    for path in (HERE / "olympia_cli").rglob("*.py"):
        module = ".".join(path.relative_to(HERE).with_suffix("").parts).removesuffix(".__init__")
        forbidden = any(is_source(module, contract) for contract in contracts)
        assert forbidden == (not any(is_in(module, package) for package in allowed)), module


def test_no_contract_has_exceptions():
    assert not [contract["name"] for contract in CONTRACTS if "ignore_imports" in contract]
    assert not [contract["name"] for contract in CONTRACTS if "unmatched_ignore_imports_alerting" in contract]


FRONTS = {
    "cli": ["iceberg", "importers", "ops.expire", "ops.inspect", "rest", "spark"],
    "rest": ["iceberg", "ops.expire", "ops.inspect"],
    "spark": ["iceberg", "importers", "ops.expire", "ops.inspect"],
    "importers": ["iceberg", "ops.expire", "ops.inspect"],
    "iceberg": ["ops.expire", "ops.inspect"],
}
"""The packages whose fronts a package uses, and no modules inside."""
SHARED = {("spark", "iceberg.data_checks"), ("spark", "iceberg.inventory")}


def is_forbidden(module: str, contract: dict) -> bool:
    for forbidden in contract["forbidden_modules"]:
        package = forbidden.removesuffix(".*")
        if (module.startswith(f"{package}.") and package != forbidden) or is_in(module, forbidden):
            return True
    return False


@pytest.mark.parametrize("user", FRONTS)
def test_a_contract_forbids_each_module_inside_a_package_with_a_front(user):
    contracts = [contract for contract in CONTRACTS if f"olympia_cli.{user}" in contract.get("source_modules", ())]
    for package in FRONTS[user]:
        folder = HERE / "olympia_cli" / package.replace(".", "/")
        for path in folder.rglob("*.py"):
            module = ".".join(path.relative_to(HERE).with_suffix("").parts)
            if path.stem != "__init__" and (user, module.removeprefix("olympia_cli.")) not in SHARED:
                assert any(is_forbidden(module, contract) for contract in contracts), module
