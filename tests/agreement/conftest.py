"""The damaged catalogs, made once for all tests of a process."""

from __future__ import annotations

import pytest

from tests.agreement.catalogs import DamagedCatalog, catalogs


@pytest.fixture(scope="session")
def damaged_catalogs() -> tuple[DamagedCatalog, ...]:
    return catalogs()
