"""After damage, fsck names the full exports of the catalog: what they keep, and those that it cannot compare."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import StorageFailed
from olympia_cli.format.paths import root_path
from olympia_cli.ops.progress import SILENT
from olympia_cli.ops.repair.copies import Deadline
from olympia_cli.storage.local import LocalStore
from tests.helpers.clock import FakeClock
from tests.helpers.damage import spoil
from tests.helpers.names import location, ns, table


@pytest.fixture
def lake(run, tmp_path: Path) -> Path:
    """A full export has tables whose creation is in no log any more. Later versions have one change: a namespace."""
    folder = tmp_path / "lake"
    catalog = Catalog.create(LocalStore(folder, durable=False), order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for number in range(30):
            transaction.create_table(table(f"a.t{number}"), location(number))
    run("-c", folder, "ns", "create", "unused").ok()
    run("-c", folder, "expire", "--keep-last", "1", "--older-than", "0s", "--grace", "0s", "--offline", "--yes").ok()
    run("-c", folder, "expire", "purge", "--offline", "--yes").ok()
    run("-c", folder, "export", "create", "nightly", "--dest", tmp_path / "nightly").ok()
    run("-c", folder, "ns", "create", "later").ok()
    return folder


def lose(lake: Path, *names: str) -> None:
    store = LocalStore(lake)
    head = Catalog(store).snapshot()
    store.delete_many([str(head.find(table(name))) for name in names])


def next_of(run, lake: Path) -> list[dict]:
    return run("-c", lake, "fsck", "--level", "full", "--json").json["next"]


def test_the_loss_of_each_way_is_known_by_the_export_and_the_log(run, lake, tmp_path):
    lose(lake, "a.t3", "a.t4")
    repair, promote = next_of(run, lake)[:2]
    assert (repair["command"][3:], repair["loses"]) == (["fsck", "--repair"], 2)
    assert repair["why"].endswith(f"; then import olympia {tmp_path}/nightly brings what is missing")
    assert (promote["command"][3:], promote["loses"]) == (["promote", f"{tmp_path}/nightly"], 1), "the namespace later"


def test_a_repair_names_the_import_that_brings_the_rest(run, lake, tmp_path):
    lose(lake, "a.t3", "a.t4")
    done = run("-c", lake, "fsck", "--level", "full", "--repair", "--yes", "--json")
    [then] = done.ok().json["next"]
    assert then["command"][3:] == ["import", "olympia", f"{tmp_path}/nightly"]
    run(*then["command"][1:]).ok()
    assert len(run("-c", lake, "table", "ls", "--json").ok().json["tables"]) == 30
    assert run("-c", lake, "ns", "show", "later").ok()


def test_a_lost_tree_is_taken_from_the_export(run, lake, tmp_path):
    shutil.rmtree(lake / "node")
    shutil.rmtree(lake / "def" / "table")
    first = next_of(run, lake)[0]
    run(*first["command"][1:], "--yes").ok()
    told = run("-c", lake, "fsck").ok()
    assert "SOUND" in told.stdout
    assert first["loses"] == 30, "the log since the export is complete"


def test_an_export_that_has_gone_is_named(run, lake, tmp_path):
    lose(lake, "a.t3")
    (tmp_path / "nightly").rename(tmp_path / "moved")
    look = next_of(run, lake)[-1]
    assert look["command"][1:] == ["-c", f"{tmp_path}/nightly", "fsck"]
    assert look["why"].startswith("the full export nightly of v4 could not be compared: there is no catalog at")


def test_a_damaged_export_is_no_advice(run, lake, tmp_path):
    lose(lake, "a.t3")
    lose(tmp_path / "nightly", "a.t5")
    commands = next_of(run, lake)
    assert not any("promote" in command["command"] for command in commands)
    assert "is not sound" in commands[-1]["why"]


def test_where_nothing_is_lost_no_export_is_read(run, lake, tmp_path):
    spoil(LocalStore(lake), "vn/oldest", "empty")
    (tmp_path / "nightly").rename(tmp_path / "moved")
    assert [command["command"][3:] for command in next_of(run, lake)] == [["fsck", "--repair"]]


def test_a_comparison_ends_in_time():
    clock = FakeClock()
    deadline = Deadline(SILENT, clock, 20)
    deadline.advance()
    clock.advance(21_000)
    with pytest.raises(StorageFailed, match="not read within 20 seconds"):
        deadline.advance()


def test_a_lost_commit_makes_all_losses_unknown(run, lake, tmp_path):
    """The log cannot tell what the lost commit did, so no comparison with an export is known to be right."""
    lines = "".join(
        f'{{"do": "table create", "name": "a.u{at}", "metadata_location": "s3://x/{at}.json"}}\n' for at in range(10)
    )
    before = {path.name for path in (lake / "node").iterdir()}
    run("-c", lake, "apply", "-", input=lines.replace("table create", "table register")).ok()
    head = Catalog(LocalStore(lake)).snapshot().version
    (lake / root_path(head)).unlink()
    next(path for path in sorted((lake / "node").iterdir()) if path.name not in before).unlink()
    advice = next_of(run, lake)
    assert {each["loses"] for each in advice} == {None}
    assert advice[0]["command"][3:] == ["fsck", "--repair"]
    assert ["promote", f"{tmp_path}/nightly"] in [each["command"][3:] for each in advice]


def test_settings_that_a_promotion_reverts_are_a_loss(run, lake, tmp_path):
    lose(lake, "a.t3", "a.t4")
    run("-c", lake, "catalog", "alter", "--set", "owner=finance").ok()
    lose(lake, "a.t5")
    [promote] = [each for each in next_of(run, lake) if each["command"][3] == "promote"]
    assert promote["loses"] == 2, "the namespace later, and the settings"
    assert "with its settings: properties.owner" in promote["why"]


def test_an_export_that_is_promoted_already_is_not_offered(run, lake, tmp_path):
    lose(lake, "a.t3")
    run("-c", lake, "promote", tmp_path / "nightly", "--yes").ok()
    run("-c", lake, "ns", "create", "after").ok()
    lose(lake, "a.t3")
    assert "promote" not in [each["command"][3] for each in next_of(run, lake)]


def test_a_purge_after_a_promotion_without_roots_waits_for_its_marks(run, lake, tmp_path):
    """An old purge counted versions that are gone. The new catalog begins at 0, so its purges begin there, too."""
    shutil.rmtree(lake / "vn")
    run("-c", lake, "promote", tmp_path / "nightly", "--yes").ok()
    properties = Catalog(LocalStore(lake)).snapshot().definition.properties
    assert (properties["olympia.expire.oldest"], properties["olympia.expire.purged"]) == ("0", "0")


@pytest.mark.parametrize("hint", ["latest", "oldest"])
def test_a_hint_of_garbage_does_not_free_what_is_left(run, lake, tmp_path, hint):
    shutil.rmtree(lake / "vn")
    (lake / "vn").mkdir()
    (lake / "vn" / hint).write_text("4294967295")
    left = {path for path in lake.rglob("*") if path.is_file() and path.parent.name != "vn"}
    planned = run("-c", lake, "promote", tmp_path / "nightly", "--yes", "--json").ok().json
    assert planned["stop_writers"]
    assert planned["kept_aside"] is not None
    run("-c", lake, "expire", "--keep-last", "1", "--older-than", "0s", "--grace", "0s", "--offline", "--yes").ok()
    run("-c", lake, "expire", "purge", "--offline", "--yes").ok()
    assert all(path.exists() for path in left)
