"""PyIceberg's own tests of catalogs, on ours: `python -m tests.kits.pyiceberg FOLDER`, or `make test-pyiceberg-kit`.

They come with PyIceberg's source, by its name and in the version that is installed, from where pip gets packages. Where
that is not reached nothing is tested, and that is said. The catalogs that they are for are replaced by ours: the one in
this process, and PyIceberg's client of `olympia serve`. Namespaces of several levels, which they use beside those of
one, become namespaces of one level.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.helpers.archives import unpack_archive

PATIENCE = 3600
CHOSEN = "tests/catalog/test_catalog_behaviors.py"
ON_SERVERS = "tests/integration/test_catalog.py"
"""Tests for catalogs on servers; two of these catalogs are replaced by ours."""

OURS = """

# from here on: the catalogs that are tested
from tests_of_ours import *
"""

IN_PLACE = """
# from here on: the catalogs that are tested
from tests_of_ours import does_support_nested_namespaces, hive_catalog, rest_test_catalog
"""

FIXTURES = """
__all__ = [
    "another_fixed_test_table_identifier",
    "catalog",
    "catalog_with_warehouse",
    "fixed_test_table_identifier",
    "fixed_test_table_namespace",
    "hierarchical_namespace_name",
]
import contextlib, io, uuid
import pytest
from pyiceberg.catalog.rest import RestCatalog
from olympia_cli import Catalog
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.rest.server import Running
from olympia_cli.rest.settings import Settings


@contextlib.contextmanager
def _ours(kind, folder):
    uri = f"file://{folder}/olympia-{uuid.uuid4().hex[:8]}"
    opened = Catalog.create(uri)
    if kind == "direct":
        yield OlympiaCatalog("test_catalog", warehouse=uri)
        return
    with Running(opened, Settings(port=0), None, "file", io.StringIO()).in_background() as running:
        yield RestCatalog("test_catalog", uri=running.url)


@pytest.fixture(params=["direct", "rest"])
def catalog(request, tmp_path):
    with _ours(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=["direct"])
def catalog_with_warehouse(request, warehouse):
    with _ours(request.param, warehouse) as found:
        yield found


def does_support_nested_namespaces(catalog):
    return False


@pytest.fixture
def rest_test_catalog(tmp_path):
    with _ours("rest", tmp_path) as found:
        yield found


@pytest.fixture
def hive_catalog(tmp_path):
    with _ours("direct", tmp_path) as found:
        yield found


@pytest.fixture
def hierarchical_namespace_name():
    return f"one_{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def fixed_test_table_identifier():
    return "com_organization", "my_table"


@pytest.fixture(scope="session")
def another_fixed_test_table_identifier():
    return "com_organization_alt", "my_another_table"


@pytest.fixture(scope="session")
def fixed_test_table_namespace():
    return ("com_organization",)
"""

LEFT_OUT = {
    "test_list_tables_under_a_namespace": "a namespace of two levels",
    "test_create_namespaces_sharing_same_prefix": "a namespace of two levels",
    "test_namespace_exists": "a namespace of two levels",
    "test_list_namespaces": "namespaces of several levels",
    "test_list_namespaces_fuzzy_match": "namespaces of several levels",
    "test_delete_metadata_multiple": "old metadata files are deleted, which versions that are kept name here",
    "test_create_tables_idempotency": "the tables that a catalog in SQL makes",
    "test_create_namespace_with_null_properties": "an error of SQLAlchemy's; here it is a ValueError",
    "test_load_empty_namespace_properties": "what a catalog in SQL keeps of an empty namespace",
}
"""Tests of what is not promised here, with the reason."""
NOT_OVER_REST = {
    "test_create_table_without_namespace": "the client's own error",
    "test_commit_table": "asks for a method that the client lacks",
    "test_catalog_commit_table_applies_schema_updates": "adds a second schema 0, which gets the next number over REST",
    "test_concurrent_commit_table": "other words: over REST those of the library in Java",
    "test_create_namespace_with_empty_identifier": "the client sends it",
    "test_get_namespace_metadata_raises_error_when_namespace_does_not_exist": "other words",
    "test_update_namespace_metadata_raises_error_when_namespace_does_not_exist": "other words",
}
"""Tests for catalogs in the same process."""


def main(folder: str) -> int:
    place = Path(folder).absolute()
    name = f"pyiceberg-{version('pyiceberg')}"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
    source = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", place, name.replace("-", "=="))
    fetched = subprocess.run((*pip, "download", *source), timeout=PATIENCE).returncode == 0
    # the client of Hive, which wants thrift, is not tested, and imported
    plugin = ("--no-deps", "--upgrade", "--target", place / "plugins", "pytest-lazy-fixtures", "thrift", "six")
    if not fetched or subprocess.run((*pip, "install", *plugin), timeout=PATIENCE).returncode:
        print("skipped: PyIceberg's source, or a plugin that its tests need, is not reached", file=sys.stderr)
        return 0
    unpack_archive(place / f"{name}.tar.gz", place)
    tests = place / name
    # the package itself is the one that is installed
    (tests / "pyproject.toml").unlink()
    (tests / "tests_of_ours.py").write_text(FIXTURES)
    with (tests / "tests" / "conftest.py").open("a") as conftest:
        conftest.write(OURS)
    with (tests / ON_SERVERS).open("a") as served:
        served.write(IN_PLACE)
    left_out = [f"not ({one} and not {one}_)" for one in LEFT_OUT]
    left_out += [f"not ({one} and rest)" for one in NOT_OVER_REST]
    for one, reason in (LEFT_OUT | NOT_OVER_REST).items():
        print(f"left out: {one}: {reason}" + (" (over REST)" if one in NOT_OVER_REST else ""))
    path = os.pathsep.join(str(one) for one in (tests, place / "plugins", Path.cwd()))
    # the settings of this project, whose folder this one may be in, are not for them
    alone = ("-c", os.devnull, "--rootdir", tests, "-p", "no:cacheprovider")
    run = (sys.executable, "-m", "pytest", *alone, "-n", "0", "-q", "-W", "ignore", "--tb=short")
    commands = (
        (*run, "-k", " and ".join(left_out), CHOSEN),
        (*run, "-rs", "-k", "rest_test_catalog or hive_catalog", ON_SERVERS),
    )
    environment = {**os.environ, "PYTHONPATH": path}
    codes = [subprocess.run(one, cwd=tests, env=environment, timeout=PATIENCE).returncode for one in commands]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
