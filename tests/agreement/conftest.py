"""The damaged catalogs, made once for all tests of a process."""

from __future__ import annotations

import pytest

from tests.agreement.catalogs import DamagedCatalog, catalogs


@pytest.fixture(scope="session")
def damaged_catalogs() -> tuple[DamagedCatalog, ...]:
    return catalogs()


@pytest.fixture(scope="module", autouse=True)
def _decoded_once(decoded_once: None) -> None:
    """Decode unchanged files once: only one file of a catalog is damaged."""
