"""`from olympia_cli import …`: what the package offers, where it comes from, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import olympia_cli
from olympia_cli import (
    Catalog,
    CatalogExists,
    CatalogNotFound,
    CommitConflict,
    NamespaceName,
    OlympiaError,
    TableName,
    open_store,
    parse_reference,
)
from olympia_cli.errors import InvalidLocation, InvalidOption

SLOW = {"pyarrow", "google", "fsspec", "s3fs", "gcsfs", "typer", "rich", "pyspark", "pyiceberg"}


FRONTS = sorted(
    ".".join(path.parent.relative_to(Path(olympia_cli.__file__).parents[1]).parts)
    for path in Path(olympia_cli.__file__).parent.rglob("__init__.py")
    if "__getattr__" in path.read_text()
)
"""The packages that load their names on first access."""


def declared(package: str = "olympia_cli") -> dict[str, str]:
    """Return the package's names as a type checker sees them, with their modules."""
    tree = ast.parse(Path(str(import_module(package).__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.name: line.module for line in block.body for alias in line.names}


def imported(line: str) -> set[str]:
    program = f"{line}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split())


def test_a_type_checker_and_a_program_see_the_same_names():
    assert sorted(declared()) == sorted(olympia_cli.__all__)
    for name, module in declared().items():
        assert getattr(olympia_cli, name) is getattr(import_module(module), name)
    assert set(olympia_cli.__all__) <= set(dir(olympia_cli))


@pytest.mark.parametrize("package", FRONTS)
def test_a_type_checker_and_a_program_see_the_same_names_of_each_package(package):
    front = import_module(package)
    own = {name for name in vars(front) if callable(vars(front)[name]) and vars(front)[name].__module__ == package}
    assert sorted({*declared(package), *(own & {*front.__all__})}) == sorted(front.__all__)
    for name, module in declared(package).items():
        assert getattr(front, name) is getattr(import_module(module), name)
    with pytest.raises(AttributeError, match="has no attribute 'katalog'"):
        front.katalog  # noqa: B018


def test_unknown_names_cannot_be_imported():
    with pytest.raises(AttributeError, match="has no attribute 'Katalog'"):
        olympia_cli.Katalog  # noqa: B018
    with pytest.raises(ImportError):
        from olympia_cli import Katalog  # noqa: F401


def test_importing_the_package_imports_nothing_of_it():
    modules = imported("import olympia_cli")
    assert [name for name in modules if name.startswith("olympia_cli.")] == ["olympia_cli.fronts"]
    assert not modules & SLOW


def test_importing_names_and_errors_skips_slow_modules():
    modules = imported("from olympia_cli import CommitConflict, OlympiaError, TableName, open_store, parse_reference")
    assert "olympia_cli.names" in modules
    assert not modules & SLOW


def test_a_catalog_comes_without_the_clouds():
    assert not imported("from olympia_cli import Catalog") & (SLOW - {"pyarrow", "google"})


def test_a_catalog_at_a_folder_a_uri_or_a_store(tmp_path):
    table = TableName("sales", "orders")
    with Catalog.create(tmp_path / "a b").transaction() as transaction:
        transaction.create_namespace(NamespaceName("sales"))
        transaction.create_table(table, "s3://x")
    folder = str(tmp_path / "a b")
    for location in (folder, tmp_path / "a b", (tmp_path / "a b").as_uri(), open_store(folder)):
        catalog = Catalog.open(location)
        assert catalog.snapshot(parse_reference("latest")).table(table).name == table
        with pytest.raises(CatalogExists):
            Catalog.create(location)
    with pytest.raises(CatalogNotFound):
        Catalog.open(tmp_path / "elsewhere")
    with pytest.raises(InvalidLocation):
        Catalog.open("nfs://server/catalog")
    assert issubclass(CommitConflict, OlympiaError)


@pytest.mark.parametrize("location", ["memory://front", open_store("memory://front")], ids=["uri", "store"])
@pytest.mark.parametrize("make", [Catalog.open, Catalog.create])
def test_options_that_nothing_takes_are_refused(make, location):
    with pytest.raises(InvalidOption, match="region"):
        make(location, options={"region": "eu"})


def test_options_go_to_the_store():
    with pytest.raises(InvalidOption, match="no_such_option"):
        Catalog.open("s3://bucket/catalog", options={"no_such_option": "1"})
