"""Manifests in parts, as executors write them: the local engine reads them, and knows which are of no use any more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.retained import read_quarantine
from olympia_cli.errors import Damaged
from olympia_cli.format.paths import FileKind, file_kind, new_node_path, root_path, size_limit
from olympia_cli.ops.expire import (
    PART_FILES,
    Doomed,
    ExpireManifest,
    ExpirePlanner,
    Floors,
    Listed,
    ManifestPart,
    check_deletable,
    encode_manifest,
    encode_part,
    manifest_of,
    mark,
    new_manifest_path,
    new_part_path,
    purge,
    read_manifest,
    read_policy,
    undo,
)
from olympia_cli.ops.fsck import Level
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog, orphans
from tests.helpers.clock import DAY, HOUR, MINUTE, FakeClock
from tests.helpers.fsck import fsck
from tests.helpers.names import location, ns, table
from tests.helpers.stores import CuttingStore, PowerCut

FLOORS = Floors(DAY, DAY)


class InParts(Listed):
    """Files that are named in parts, as if others had listed them."""

    def __new__(cls, files, store):
        made = super().__new__(cls, files)
        made.store = store
        return made

    def manifest(self, store, path, oldest, former_oldest):
        parts = []
        for some in (self[::2], self[1::2]):
            part = ManifestPart(new_part_path(path), len(some))
            self.store.create(part.path, encode_part(path, some))
            parts.append(part)
        # what a task wrote that ran twice
        self.store.create(new_part_path(path), encode_part(path, self))
        return ExpireManifest(path, oldest, former_oldest, (), tuple(parts))


class Place:
    """A catalog whose versions but the last three may go."""

    def __init__(self, wrap=lambda store: store) -> None:
        self.clock = FakeClock()
        self.store = wrap(MemoryStore(now_millis=self.clock.now_millis))
        self.catalog = Catalog.create(self.store, order=4, clock=self.clock)
        with self.catalog.transaction() as transaction:
            transaction.create_namespace(ns("a"))
        for number in range(9):
            self.commit(number)
        self.clock.advance(20 * DAY)

    def commit(self, number: int) -> None:
        self.clock.advance(HOUR)
        with self.catalog.transaction() as transaction:
            transaction.create_table(table(f"a.t{number}"), location(number))

    def plan(self):
        planner = ExpirePlanner(self.catalog, FLOORS)
        return planner.expire(read_policy(planner.facts.definition, planner.facts.now_millis))

    def mark(self) -> str:
        """The manifest, whose files are in two parts; a third part means nothing."""
        plan = self.plan().mark
        files = InParts(plan.files, self.store)
        done = mark(self.catalog, replace(plan, files=files))
        assert done is not None
        [*_, resting] = read_quarantine(self.catalog.snapshot().definition)
        return resting.manifest

    def purge(self):
        planner = ExpirePlanner(self.catalog, FLOORS)
        plan = planner.purge()
        purge(self.catalog, plan, planner.facts.head.version, FLOORS)
        return plan

    def parts(self) -> list[str]:
        return sorted(file.path for file in self.store.list("ops/expire/") if manifest_of(file.path))

    def left(self) -> list[str]:
        return [file.path for file in self.store.list("ops/expire/")]


@pytest.fixture
def place():
    place = Place()
    yield place
    check_catalog(place.store)


def rewrite(store, path: str, change) -> None:
    document = json.loads(store.read(path))
    change(document)
    store.overwrite(path, json.dumps(document).encode())


def test_names_of_parts():
    manifest = new_manifest_path(17)
    part = new_part_path(manifest)
    assert file_kind(part) is file_kind(manifest) is FileKind.OPERATION
    assert manifest_of(part) == manifest
    assert new_part_path(manifest) != part
    assert manifest_of(manifest) is None
    assert manifest_of(part.replace("ops/expire/", "ops/other/")) is None
    assert manifest_of("ops/expire/x.y.part.json") is None


def test_a_mark_in_parts_rests_and_is_purged_like_any_other(place):
    expected = sorted(place.plan().mark.files, key=lambda file: file.path)
    manifest = place.mark()
    document = json.loads(place.store.read(manifest))
    assert document["format"] == 2
    assert "files" not in document
    assert len(document["parts"]) == 2
    assert sorted(read_manifest(place.store, manifest).files, key=lambda file: file.path) == expected
    # what rests is not found again, and what it is rests whole
    assert place.plan().mark.is_empty
    report = fsck(place.store, level=Level.FULL, all_versions=True, clock=place.clock)
    codes = {(found.code, found.severity.value) for found in report.findings}
    assert ("F906", "info") in codes
    assert not {code for code, _ in codes} & {"F901", "F902", "F903"}
    place.clock.advance(2 * DAY)
    plan = place.purge()
    assert sorted(plan.files, key=lambda file: file.path) == expected
    assert len(plan.parts) == 3
    assert place.left() == []
    assert not orphans(place.store)


class InSmallParts(Listed):
    """A manifest with three files per part, as this process writes those of very many files."""

    def manifest(self, store, path, oldest, former_oldest):
        return super().manifest(store, path, oldest, former_oldest, part_files=3)


def test_this_process_writes_many_files_in_parts(place):
    plan = place.plan().mark
    expected = list(plan.files)
    assert len(expected) > 6
    assert mark(place.catalog, replace(plan, files=InSmallParts(plan.files))) is not None
    [resting] = read_quarantine(place.catalog.snapshot().definition)
    assert len(place.parts()) == -(-len(expected) // 3)
    assert list(read_manifest(place.store, resting.manifest).files) == expected
    place.clock.advance(2 * DAY)
    assert sorted(place.purge().files, key=lambda file: file.path) == sorted(expected, key=lambda file: file.path)
    assert place.left() == []
    assert not orphans(place.store)


def test_no_file_of_a_manifest_grows_with_the_number_of_files(place):
    """A manifest that named ten million files itself would be larger than readers accept."""
    files = Listed(Doomed(f"{new_node_path()}", 2**62, "node") for _ in range(PART_FILES + 1))
    manifest = files.manifest(place.store, new_manifest_path(1), 3, 0)
    data = encode_manifest("x", manifest, "")
    assert [part.files for part in manifest.parts] == [PART_FILES, 1]
    assert len(data) < 1000
    place.store.create(manifest.path, data)
    assert read_manifest(place.store, manifest.path).files == tuple(files)
    assert max(place.store.stat(path).size for path in place.parts()) < size_limit(manifest.path) // 16
    place.store.delete_many([manifest.path, *place.parts()])


def test_manifest_parts_in_quarantine_are_never_abandoned(place):
    place.mark()
    for number in range(9, 14):
        place.commit(number)
    place.clock.advance(20 * DAY)
    planner = ExpirePlanner(place.catalog, Floors(DAY, 30 * DAY))
    assert planner.leaving.is_empty
    assert planner.leaving.abandoned == ()
    first = place.parts()
    place.mark()
    # the first leaves and the second stays, with all of its parts
    assert len(place.parts()) == 6
    plan = place.purge()
    assert sorted(plan.parts) == first
    assert plan.abandoned == ()
    assert len(place.parts()) == 3
    assert len(place.left()) == 4


@pytest.mark.parametrize("how", ["undone", "never written", "never committed"])
def test_unneeded_manifest_parts_are_purged_once_old(place, how):
    if how == "undone":
        place.mark()
        undo(place.catalog)
        orphaned = place.left()
    else:
        manifest = new_manifest_path(place.clock.now_millis())
        made = InParts(place.plan().mark.files, place.store).manifest(place.store, manifest, 3, 0)
        if how == "never committed":
            place.store.create(manifest, encode_manifest("x", made, ""))
        orphaned = place.left()
    place.clock.advance(HOUR - MINUTE)
    assert ExpirePlanner(place.catalog, FLOORS).leaving.abandoned == ()
    place.clock.advance(2 * MINUTE)
    assert sorted(ExpirePlanner(place.catalog, FLOORS).leaving.abandoned) == sorted(orphaned)
    # nothing that they name goes with them, and they go with the next purge
    place.mark()
    place.clock.advance(2 * DAY)
    plan = place.purge()
    assert sorted(plan.abandoned) == sorted(orphaned)
    assert place.left() == []
    assert not orphans(place.store)


def lose(store, part: str, manifest: str) -> None:
    store.delete_many([part])


def cut(store, part: str, manifest: str) -> None:
    store.overwrite(part, store.read(part)[:-20])


def take_away(store, part: str, manifest: str) -> None:
    rewrite(store, part, lambda document: document["files"].pop())


def of_another(store, part: str, manifest: str) -> None:
    rewrite(store, part, lambda document: document.update(manifest=new_manifest_path(1)))


def name_another(store, part: str, manifest: str) -> None:
    """The manifest names a part that is not its own."""

    def change(document):
        document["parts"][0]["path"] = new_part_path(new_manifest_path(1))

    rewrite(store, manifest, change)


def number_of_bytes(store, part: str, manifest: str) -> None:
    rewrite(store, part, lambda document: document["files"][0].update(bytes=2**70))


@pytest.mark.parametrize("harm", [lose, cut, take_away, of_another, name_another, number_of_bytes])
def test_manifest_with_a_damaged_part_purges_only_roots(place, harm):
    manifest = place.mark()
    named = {file.path for file in read_manifest(place.store, manifest).files}
    part = json.loads(place.store.read(manifest))["parts"][0]["path"]
    harm(place.store, part, manifest)
    with pytest.raises(Damaged):
        read_manifest(place.store, manifest)
    report = fsck(place.store, level=Level.FULL, all_versions=True, clock=place.clock)
    assert any(found.code == "F906" and "cannot be read" in found.message for found in report.findings)
    place.clock.advance(2 * DAY)
    plan = place.purge()
    assert "finds again" in plan.notes[0]
    # roots of purged versions are never part of history, even if a manifest names them
    assert {file.kind for file in plan.files} == {"root"}
    left = {path for path in named if file_kind(path) is not FileKind.ROOT}
    assert left
    assert all(place.store.exists(path) for path in left)
    assert place.left() == []
    place.mark()
    place.clock.advance(2 * DAY)
    assert {file.path for file in place.purge().files} >= left
    assert not orphans(place.store)


def test_a_part_cannot_lead_a_purge_astray(place):
    manifest = place.mark()
    place.clock.advance(2 * DAY)
    part = json.loads(place.store.read(manifest))["parts"][0]["path"]
    text = place.store.read(part)
    evil = [
        {"path": "vn/latest"},
        {"path": "../other"},
        {"path": root_path(place.catalog.snapshot().version)},
        {"kind": "node"},
        {"kind": "strange"},
    ]
    for change in evil:
        place.store.overwrite(part, text)
        at = next(n for n, file in enumerate(json.loads(text)["files"]) if file["kind"] == "root")
        rewrite(place.store, part, lambda document, at=at, change=change: document["files"][at].update(change))
        with pytest.raises(Damaged, match="never deletes"):
            ExpirePlanner(place.catalog, FLOORS).purge()
    place.store.overwrite(part, text)
    check_deletable([Doomed("vn/" + "0" * 32, 1, "root")], 1, "x")
    with pytest.raises(Damaged, match="never deletes"):
        check_deletable([Doomed("vn/" + "0" * 32, 1, "node")], 1, "x")


def test_a_purge_that_is_cut_off_anywhere_is_finished_by_the_next():
    def ready(cut_at=None):
        place = Place(lambda store: CuttingStore(store))
        place.mark()
        place.clock.advance(2 * DAY)
        place.store.writes, place.store.cut_at = 0, cut_at
        return place

    place = ready()
    place.purge()
    writes = place.store.writes
    # roots, parts and the manifest are among them
    assert writes > 12
    for cut_at in range(writes):
        place = ready(cut_at)
        with pytest.raises(PowerCut):
            place.purge()
        place.store = place.store.inner
        place.catalog = Catalog(place.store, place.clock)
        check_catalog(place.store)
        for _ in range(2):
            place.clock.advance(2 * DAY)
            if not place.plan().mark.is_empty:
                place.mark()
            place.clock.advance(2 * DAY)
            place.purge()
        check_catalog(place.store)
        assert not orphans(place.store)
        assert place.left() == [], cut_at
        assert oldest_version(place.catalog.snapshot()) > 0
