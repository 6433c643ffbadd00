"""Both engines on a few of the damaged catalogs that every other part is asked about: finding for finding the same."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from olympia_cli.ops.fsck.fsck import FsckRequest, Level
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.fsck import spark_fsck
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.storage.local import LocalStore
from tests.agreement.catalogs import (
    DamagedCatalog,
    case_catalog,
    clock,
    lying_catalogs,
    rotten_catalogs,
    small_sample,
)
from tests.damage.cases import ALL
from tests.helpers.fsck import fsck

CASES = (
    "definitions_swapped",
    "one_id_in_versions_before_other_damage",
    "pointer_to_a_child-outside0",
    "root_of_another_catalog",
)
ROLES = ("middle root", "leaf", "table")


def chosen() -> list[DamagedCatalog]:
    small = small_sample()
    return [
        *(case_catalog(case) for case in ALL if case.name in CASES),
        *rotten_catalogs(small, 1, ROLES),
        *islice(lying_catalogs(small, 6), 2, 6, 2),
    ]


@pytest.mark.parametrize("damaged", chosen(), ids=lambda damaged: damaged.name.partition(":")[0])
def test_both_engines_find_the_same(spark, damaged: DamagedCatalog, tmp_path: Path) -> None:
    for path, data in damaged.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    local = fsck(LocalStore(str(tmp_path)), level=Level.FULL, all_versions=True, clock=clock())
    engine = SparkEngine(spark, CatalogPlace.at(str(tmp_path)), 2, alone=0)
    found = spark_fsck(engine, FsckRequest(level=Level.FULL, all_versions=True, clock=clock()))
    assert list(found.findings) == list(local.findings)
    assert (found.damaged, found.last_sound_version) == (local.damaged, local.last_sound_version)
    assert [(one.code, one.path) for one in local.findings] == [(one.code, one.path) for one in damaged.report.findings]
