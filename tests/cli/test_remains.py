"""A place without a root that holds the remains of a catalog: no command makes a catalog there, and each says what to
do. Every command is typed as it is printed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import CatalogNotFound, LocationNotEmpty
from olympia_cli.names import Kind
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.repair.salvage import salvage_catalog
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.cli.conftest import run_here
from tests.cli.test_hints import suggested
from tests.helpers.check import check_catalog
from tests.helpers.names import location, ns, table
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut

TABLES = 12


def fill(catalog: Catalog) -> None:
    with catalog.transaction() as t:
        t.create_namespace(ns("a"))
        for number in range(TABLES):
            t.create_table(table(f"a.t{number:02}"), location(number))
    with catalog.transaction() as t:
        t.alter_table(table("a.t03"), {"k": "v"}, (), location(99))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    fill(Catalog.create(LocalStore(str(tmp_path / "source"), durable=False), order=4))
    return tmp_path / "source"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tables(folder: Path) -> list[str]:
    return run_here("-c", folder, "table", "ls", "-o", "name").ok().lines


LEFT = {
    "nodes": ("node",),
    "definitions": ("def",),
    "transactions": ("dtxn",),
    "notes": ("ops",),
    "all": ("node", "def", "dtxn", "ops"),
}


@pytest.mark.parametrize("left", LEFT)
def test_without_a_root_no_command_makes_a_catalog(source: Path, left: str) -> None:
    run_here("-c", source, "txn", "begin").ok()
    run_here("-c", source, "fsck").ok()
    for folder in source.iterdir():
        if folder.name not in LEFT[left]:
            shutil.rmtree(folder)
    before = files(source)
    assert before
    for words in (["table", "ls"], ["status"], ["expire", "--yes"], ["ns", "create", "b"], ["log"], ["serve"]):
        failed = run_here("-c", source, *words).failed(10, "it has no root, but")
        assert suggested(failed.stderr) == ["-c", str(source), "fsck"]
    assert run_here("-c", source, "doctor", "--json").json["next"]["command"][-1] == "fsck"
    for words in ([], ["--if-not-exists"]):
        refused = run_here("init", source, *words).failed(11, "has no root, but")
        assert suggested(refused.stderr) == ["-c", str(source), "fsck"]
    (source.parent / "other").mkdir()
    for words in (["--dry-run"], []):
        run_here("-c", source, "rebuild", source.parent / "other", *words).failed(10)
    found = run_here(*suggested(refused.stderr), "--json")
    assert (found.exit_code, [one["code"] for one in found.json["findings"]]) == (50, ["F103"])
    assert files(source) == before


def test_a_hint_alone_tells_of_a_catalog(source: Path) -> None:
    for folder in ("node", "def", "ops"):
        shutil.rmtree(source / folder, ignore_errors=True)
    for root in [path for path in (source / "vn").iterdir() if path.name != "latest"]:
        root.unlink()
    run_here("init", source).failed(11, "vn/latest, which names version 2")
    (source / "vn" / "latest").write_text("garbage")
    run_here("init", source).ok()


def test_remains_of_an_interrupted_init_do_not_stop_another() -> None:
    store = MemoryStore()
    counting = CountingStore(store)
    Catalog.create(counting)
    for number in range(counting.writes):
        store = MemoryStore()
        with pytest.raises(PowerCut):
            Catalog.create(CuttingStore(store, number))
        if not store.exists("vn/" + "0" * 32):
            Catalog.create(store)
        check_catalog(store)


def test_first_advice_without_any_root_keeps_all_names(source: Path) -> None:
    """The definitions of a small tree stand in its root: their paths tell the names."""
    shutil.rmtree(source / "vn")
    shutil.rmtree(source / "node")
    found = run_here("-c", source, "fsck", "--json")
    best = found.json["next"][0]
    assert (best["command"][3:5], best["loses"]) == (["fsck", "--salvage"], None)
    assert run_here(*best["command"][1:]).exit_code == 3
    assert tables(Path(best["command"][5])) == [f"a.t{number:02}" for number in range(TABLES)]
    shown = run_here("-c", best["command"][5], "table", "show", "a.t03", "--json").json
    assert (shown["metadata_location"], shown["properties"]) == (location(99), {"k": "v"})
    copied = (path for path in Path(best["command"][5]).glob("def/*/*") if path.parent.name != "catalog")
    sizes = [path.stat().st_size for path in copied]
    planned = run_here("-c", source, "promote", best["command"][5], "--dry-run", "--json").ok().json
    assert (planned["definitions"], planned["bytes"]) == (TABLES + 1, sum(sizes))


# Copies that did not come to their end


def half_an_export(source: Path, out: Path, at: int) -> None:
    store = CuttingStore(LocalStore(str(out), durable=False), at)
    with pytest.raises(PowerCut):
        create_export(Catalog(LocalStore(str(source))), store, "copy", scope(Mode.FULL))


@pytest.mark.parametrize("at", [4, 9, -1])
def test_a_part_of_an_export_is_finished_by_the_first_advice(source: Path, tmp_path: Path, at: int) -> None:
    """Killed after its note, among its nodes, and before its root."""
    counting = CountingStore(MemoryStore())
    create_export(Catalog(LocalStore(str(source))), counting, "measured", scope(Mode.FULL))
    out = tmp_path / "my copy"
    half_an_export(source, out, at if at > 0 else counting.writes + at)
    before = files(out)
    failed = run_here("-c", out, "table", "ls").failed(10, "an export that did not finish")
    run_here("init", out).failed(11, "an export that did not finish")
    with pytest.raises(LocationNotEmpty):
        Catalog.create(LocalStore(str(out)))
    assert files(out) == before
    found = run_here(*suggested(failed.stderr), "--json")
    best = found.json["next"][0]
    assert best["command"][:3] == ["olympia", "-c", str(source)]
    assert best["loses"] == 0
    assert found.json["findings"][0]["hint"].endswith("'")
    run_here(*best["command"][1:]).ok()
    run_here("-c", out, "fsck", "--level", "full", "--all-versions").ok()
    assert tables(out) == tables(source)


def half_a_salvage(source: Path, dest: Store) -> None:
    with pytest.raises(PowerCut):
        salvage_catalog(LocalStore(str(source)), CuttingStore(dest, 9), Catalog(dest).clock, Author(by="me@test"))


def test_a_part_of_a_salvage_is_finished_by_the_first_advice(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "rescued"
    half_a_salvage(source, LocalStore(str(out), durable=False))
    failed = run_here("-c", out, "table", "ls").failed(10, "a salvage that did not finish")
    run_here("init", out).failed(11, "a salvage that did not finish")
    best = run_here(*suggested(failed.stderr), "--json").json["next"][0]
    assert best["command"] == ["olympia", "-c", str(source), "fsck", "--salvage", str(out)]
    run_here(*best["command"][1:]).ok()
    assert tables(out) == tables(source)


def test_no_salvage_is_written_over_the_remains_of_another_catalog(source: Path, tmp_path: Path) -> None:
    other = LocalStore(str(tmp_path / "other"), durable=False)
    fill(Catalog.create(other, order=4))
    shutil.rmtree(tmp_path / "other" / "vn")
    refused = run_here("-c", source, "fsck", "--salvage", tmp_path / "other")
    refused.failed(11, "is not empty")
    half = LocalStore(str(tmp_path / "half"), durable=False)
    half_a_salvage(tmp_path / "source", half)
    third = Catalog.create(LocalStore(str(tmp_path / "third"), durable=False))
    fill(third)
    run_here("-c", tmp_path / "third", "fsck", "--salvage", tmp_path / "half").failed(11, "is not empty")
    with pytest.raises(CatalogNotFound):
        Catalog.open(half)
    assert [name for name, _ in third.snapshot().scan(Kind.NAMESPACE)] == [ns("a")]


# Definitions of the catalog alone


def definitions_alone(source: Path, *, most: int) -> None:
    """Leave up to this many definitions of the catalog, and no other file."""
    for folder in ("vn", "node", "def/ns", "def/table", "ops", "dtxn"):
        shutil.rmtree(source / folder, ignore_errors=True)
    for path in sorted((source / "def" / "catalog").iterdir())[most:]:
        path.unlink()


def test_several_definitions_of_one_catalog_are_remains(source):
    run_here("-c", source, "catalog", "alter", "--set", "k=v").ok()
    definitions_alone(source, most=2)
    run_here("init", source).failed(11, "has no root, but definitions of a catalog, such as def/catalog/")
    run_here("-c", source, "table", "ls").failed(10, "definitions of a catalog", f"olympia -c {source} fsck")


def test_the_definition_of_an_old_interrupted_init_is_no_obstacle(source):
    definitions_alone(source, most=1)
    [path] = (source / "def" / "catalog").iterdir()
    two_days_ago = time.time() - 2 * 86_400
    os.utime(path, (two_days_ago, two_days_ago))
    run_here("init", source).ok()


def test_what_interrupted_inits_left_is_not_in_the_way(tmp_path):
    """Each leaves a young definition with an id of its own."""
    place = tmp_path / "place"
    for _ in range(3):
        other = tmp_path / "other"
        run_here("init", other).ok()
        definitions_alone(other, most=1)
        (place / "def" / "catalog").mkdir(parents=True, exist_ok=True)
        [path] = (other / "def" / "catalog").iterdir()
        path.rename(place / "def" / "catalog" / path.name)
        shutil.rmtree(other)
    run_here("init", place).ok()
    check_catalog(LocalStore(place))


def test_one_definition_that_cannot_be_read_is_not_in_the_way_and_two_are(source):
    run_here("-c", source, "catalog", "alter", "--set", "k=v").ok()
    definitions_alone(source, most=2)
    first, second = (source / "def" / "catalog").iterdir()
    first.write_bytes(b"")
    run_here("init", source).failed(11, "definitions of a catalog")
    second.unlink()
    run_here("init", source).ok()
