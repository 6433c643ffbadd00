"""A catalog for PyIceberg on a fresh local folder, which is sound at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from olympia_cli import Catalog
from olympia_cli.iceberg import OlympiaCatalog
from tests.helpers.check import replay


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture
def catalog(warehouse: str) -> Iterator[OlympiaCatalog]:
    Catalog.create(warehouse)
    made = OlympiaCatalog("olympia", warehouse=warehouse)
    yield made
    replay(made.store_catalog.store)
