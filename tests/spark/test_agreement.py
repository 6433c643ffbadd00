"""Both engines on damaged catalogs that every other part is asked about: the same reports, plans and refusals."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OlympiaError
from olympia_cli.ops.expire import LOCAL, ExpirePlanner, Policy, Surveyor
from olympia_cli.ops.export.export import create_export, local_engine
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.fsck import FsckRequest, Level
from olympia_cli.spark.engine import SparkEngine, place_for
from olympia_cli.spark.pipelines.expire import spark_surveyor
from olympia_cli.spark.pipelines.export import SparkExport
from olympia_cli.spark.pipelines.fsck import spark_fsck
from olympia_cli.storage.local import LocalStore
from tests.agreement.catalogs import (
    DamagedCatalog,
    case_catalog,
    catalogs,
    clock,
    lying_catalogs,
    rotten_catalogs,
    small_sample,
)
from tests.agreement.test_expire import FLOORS
from tests.damage.cases import ALL
from tests.helpers.exports import files
from tests.helpers.fsck import fsck
from tests.spark.test_expire import shown

CASES = (
    "cycle_that_several_versions_run_into",
    "definitions_swapped",
    "one_id_in_versions_before_other_damage",
    "pointer_to_a_child-outside0",
    "root_of_another_catalog",
)
ROLES = ("middle root", "leaf", "table")
SEED, SAMPLE_SIZE = 24, 4
"""A report is some jobs, however small the catalog is: so a few of more than a thousand."""
COPIED = ("node/", "def/ns/", "def/table/", "def/view/")
"""Files that an export has from its catalog; its root and its catalog definition are its own."""

CHOSEN = (
    *(case_catalog(case) for case in ALL if case.name in CASES),
    *rotten_catalogs(small_sample(), 1, ROLES),
    *islice(lying_catalogs(small_sample(), 6), 2, 6, 2),
)


@cache
def seeded_sample() -> list[DamagedCatalog]:
    return random.Random(SEED).sample(catalogs(), SAMPLE_SIZE)


def name(damaged: DamagedCatalog) -> str:
    return damaged.name.partition(":")[0]


def write(damaged: DamagedCatalog, folder: Path) -> LocalStore:
    for path, data in damaged.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return LocalStore(str(folder))


def engine_at(spark, store: LocalStore) -> SparkEngine:
    """Tasks read all that they can."""
    return SparkEngine(spark, place_for(store.uri), 2, alone=0)


def outcome(action: Callable[[], object]) -> object:
    """Return the result, or the error with all its parts."""
    try:
        return action()
    except OlympiaError as error:
        return type(error), vars(error)


@pytest.mark.parametrize("level", [Level.FULL, Level.STRUCTURE])
@pytest.mark.parametrize("damaged", CHOSEN, ids=name)
def test_both_engines_find_the_same(spark, damaged: DamagedCatalog, level: Level, tmp_path: Path) -> None:
    store = write(damaged, tmp_path)
    local = fsck(store, level=level, all_versions=True, clock=clock())
    found = spark_fsck(engine_at(spark, store), FsckRequest(level=level, all_versions=True, clock=clock()))
    assert list(found.findings) == list(local.findings)
    assert found == local
    if level is Level.FULL:
        blamed = [(one.code, one.path) for one in damaged.report.findings]
        assert [(one.code, one.path) for one in local.findings] == blamed


@pytest.mark.parametrize("number", range(SAMPLE_SIZE))
def test_both_engines_find_the_same_in_any_catalog(spark, number: int, tmp_path: Path) -> None:
    damaged = seeded_sample()[number]
    store = write(damaged, tmp_path)
    for level in (Level.FULL, Level.STRUCTURE):
        local = fsck(store, level=level, all_versions=number % 2 == 0, clock=clock())
        request = FsckRequest(level=level, all_versions=number % 2 == 0, clock=clock())
        assert spark_fsck(engine_at(spark, store), request) == local, damaged.name


@pytest.mark.parametrize("damaged", CHOSEN[::2], ids=name)
def test_both_engines_plan_the_same_expire_or_stop_at_the_same_file(spark, damaged, tmp_path: Path) -> None:
    store = write(damaged, tmp_path)
    policy = Policy(keep_last=2, cutoff_millis=clock().now_millis(), since="now")

    def plan(surveyor: Surveyor) -> object:
        return shown(ExpirePlanner(Catalog(store, clock()), FLOORS, surveyor, probe=False).expire(policy))

    with spark_surveyor(engine_at(spark, store)) as surveyor:
        assert outcome(lambda: plan(surveyor)) == outcome(lambda: plan(LOCAL))


@pytest.mark.parametrize("damaged", CHOSEN[::2], ids=name)
def test_both_engines_export_the_same_or_refuse_for_the_same_file(spark, damaged, tmp_path: Path) -> None:
    def export(where: Path, *, on_spark: bool) -> object:
        # an export is recorded in its catalog
        store, dest = write(damaged, where / "catalog"), LocalStore(str(where / "dest"), durable=False)
        engine = SparkExport(engine_at(spark, store), place_for(dest.uri)) if on_spark else local_engine
        create_export(Catalog(store, clock()), dest, "copy", scope(Mode.FULL), engine=engine)
        return {path: data for path, data in files(dest).items() if path.startswith(COPIED)}

    local = outcome(lambda: export(tmp_path / "local", on_spark=False))
    assert outcome(lambda: export(tmp_path / "spark", on_spark=True)) == local
