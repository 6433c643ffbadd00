"""docs/architecture.md names what exists, and the rooms of `ops` in the order that the import contract gives them."""

from __future__ import annotations

import re
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
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
    contracts = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors, rooms = (re.findall(r"\w+", " ".join(contract["layers"])) for contract in contracts[:2])
    assert rows("The floors") == [name for name in floors if is_there(HERE / "olympia_cli" / name)]
    assert rows("The rooms of ops") == rooms


def is_there(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()
