"""A table whose metadata or data is lost: fsck names what loses least first, and each command is typed as it stands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.pb.objects_pb2 import ViewDef, ViewFormat
from olympia_cli.names import Kind, ViewName
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import Ran, run_here
from tests.helpers.check import plain
from tests.helpers.iceberg_tables import Lake, files_of
from tests.helpers.names import ns, table
from tests.helpers.places import quiet_environment

OTHERS = 12


class Place:
    """Version 1 has two tables and a view, 2 moves `t` on to its second metadata, 3 to its third, 4 makes others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "catalog"
        self.lake = Lake(f"file://{folder}/lake")
        self.table = self.lake.table("t")
        other = self.lake.table("other").metadata_location
        self.states = [files_of(self.table)]
        catalog = Catalog.create(LocalStore(str(self.folder), durable=False))
        self.catalog = catalog
        with catalog.transaction() as t:
            t.create_namespace(ns("ns"))
            t.create_table(table("ns.t"), self.table.metadata_location)
            t.create_table(table("ns.u"), other)
        for _ in range(2):
            self.table.append(self.table.scan().to_arrow())
            self.states.append(files_of(self.table))
            with catalog.transaction() as t:
                t.alter_table(table("ns.t"), {}, (), self.table.metadata_location)
        with catalog.transaction() as t:
            t.alter_table(table("ns.t"), {"owner": "ann"})
            for number in range(OTHERS):
                t.create_table(table(f"ns.o{number:02}"), other)

    def fsck(self) -> Ran:
        return run_here("-c", self.folder, "fsck", "--level", "data", "--json")

    def objects(self) -> dict[Any, Any]:
        snapshot = self.catalog.snapshot()
        kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        return {found.name: plain(found.definition) for kind in kinds for found in snapshot.objects(kind)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    with pytest.MonkeyPatch.context() as patch:
        quiet_environment(patch)
        return Place(tmp_path_factory.mktemp("data"))


@pytest.fixture
def place(made: Place) -> Any:
    """Return the place, and restore its files after the test."""
    folder = made.folder.parent
    shutil.copytree(folder, folder.with_name("kept"))
    yield made
    shutil.rmtree(folder)
    folder.with_name("kept").rename(folder)


def words(told: Ran) -> list[list[str]]:
    return [each["command"][3:] for each in told.json["next"]]


def typed(place: Place, command: list[str]) -> int:
    """Run it; how many objects are other than they were, or gone."""
    before = place.objects()
    asks = ["--yes"] if "rollback" in command else []
    run_here(*command[1:], *asks).ok()
    after = place.objects()
    return sum(after.get(name) != definition for name, definition in before.items())


LOST = {
    "metadata": lambda place: place.lake.delete(place.states[2].metadata),
    "metadata cut": lambda place: place.lake.cut(place.states[2].metadata),
    "manifest list": lambda place: place.lake.delete(place.states[2].manifest_list),
    "manifest": lambda place: place.lake.delete(*(set(place.states[2].manifests) - set(place.states[1].manifests))),
    "data file": lambda place: place.lake.delete(*(set(place.states[2].data) - set(place.states[1].data))),
}


@pytest.mark.parametrize("what", LOST)
def test_the_metadata_before_it_comes_first_and_a_rollback_last(place: Place, what: str) -> None:
    LOST[what](place)
    told = place.fsck()
    assert told.exit_code == 50
    losses = [each["loses"] for each in told.json["next"]]
    assert words(told) == [
        ["table", "alter", "--metadata-location", place.states[1].metadata, "ns.t"],
        ["table", "drop", "ns.t"],
        ["rollback", "v2"],
    ]
    assert losses == [1, 1, OTHERS + 1]
    assert typed(place, told.json["next"][0]["command"]) == 1
    assert place.fsck().ok().json["next"] == []
    shown = place.catalog.snapshot().table(table("ns.t")).definition
    assert (shown.iceberg_metadata_location, dict(shown.properties)) == (place.states[1].metadata, {"owner": "ann"})


@pytest.mark.parametrize("at", range(3))
def test_each_advised_command_loses_as_many_as_stated(place: Place, at: int) -> None:
    LOST["metadata"](place)
    each = place.fsck().json["next"][at]
    assert typed(place, each["command"]) == each["loses"]
    place.fsck().ok()


def test_metadata_that_is_not_whole_either_is_passed_over(place: Place) -> None:
    place.lake.delete(place.states[2].metadata, place.states[1].manifest_list)
    told = place.fsck()
    assert words(told)[0][3] == place.states[0].metadata
    assert typed(place, told.json["next"][0]["command"]) == 1
    place.fsck().ok()


def test_rollback_is_advised_only_to_a_version_with_data(place: Place) -> None:
    place.lake.delete(place.states[2].metadata, place.states[1].metadata)
    told = place.fsck()
    assert [each[0] for each in words(told)] == ["table", "table"]
    every = run_here("-c", place.folder, "fsck", "--level", "data", "--all-versions", "--json").json["next"]
    assert [each["command"][3:] for each in every][-1] == ["rollback", "v1"]
    assert typed(place, every[-1]["command"]) == every[-1]["loses"]
    place.fsck().ok()


def test_after_expire_the_definition_names_the_previous_metadata(place: Place) -> None:
    """An expire took the versions with the metadata before it; the definition names that."""
    run_here("-c", place.folder, "expire", "--keep-last", "1", "--older-than", "0s", "--offline", "--yes").ok()
    LOST["metadata"](place)
    told = place.fsck()
    assert words(told)[:1] == [["table", "alter", "--metadata-location", place.states[1].metadata, "ns.t"]]
    typed(place, told.json["next"][0]["command"])
    place.fsck().ok()


def test_several_tables_one_after_the_other(place: Place) -> None:
    """A table without older metadata can be dropped, and no more."""
    with place.catalog.transaction() as t:
        t.create_table(table("ns.last"), place.states[2].metadata)
    LOST["metadata"](place)
    told = place.fsck()
    assert words(told)[:3] == [
        ["table", "alter", "--metadata-location", place.states[1].metadata, "ns.t"],
        ["table", "drop", "ns.last"],
        ["table", "drop", "ns.t"],
    ]
    assert typed(place, told.json["next"][0]["command"]) == 1
    told = place.fsck()
    assert words(told)[0] == ["table", "drop", "ns.last"]
    assert typed(place, told.json["next"][0]["command"]) == 1
    place.fsck().ok()


def test_a_view(place: Place) -> None:
    """An alter cannot name a view's metadata, so the view is restored from an older version."""

    def view(location: str) -> ViewDef:
        return ViewDef(view_format=ViewFormat.ICEBERG_VIEW, iceberg_metadata_location=location)

    folder = place.folder.parent / "views"
    folder.mkdir()
    locations = []
    for number in (1, 2):
        metadata = {"view-uuid": "u", "format-version": 1, "current-version-id": 1, "versions": [{"version-id": 1}]}
        (folder / f"{number}.json").write_text(json.dumps(metadata))
        locations.append(f"file://{folder}/{number}.json")
    with place.catalog.transaction() as t:
        t.create_view(ViewName("ns", "v"), view(locations[0]))
    version = place.catalog.snapshot().version
    with place.catalog.transaction() as t:
        t.replace_view(ViewName("ns", "v"), view(locations[1]))
    (folder / "2.json").unlink()
    told = place.fsck()
    assert words(told)[:2] == [["view", "restore", "--at", f"v{version}", "ns.v"], ["view", "drop", "ns.v"]]
    assert typed(place, told.json["next"][0]["command"]) == 1
    place.fsck().ok()
