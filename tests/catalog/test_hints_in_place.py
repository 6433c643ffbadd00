"""Something else stands in the place of vn/latest or vn/oldest: readers and commits do without the hint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.versions import Hints, read_hints, read_latest
from olympia_cli.errors import CommitUnknown, OlympiaError, PartlyDone, StorageDenied
from olympia_cli.format.paths import LATEST, OLDEST, root_path
from olympia_cli.names import AtVersion, Oldest
from olympia_cli.ops.fsck import Level
from olympia_cli.ops.repair.repair import apply_repair, plan_repair
from olympia_cli.storage.local import LocalStore
from tests.catalog.test_versions import make
from tests.helpers.check import check_catalog
from tests.helpers.clock import MINUTE, FakeClock
from tests.helpers.fsck import fsck
from tests.helpers.in_place import THINGS, as_ordinary_user, put
from tests.helpers.names import ns
from tests.helpers.stores import CountingStore

HINTS = (LATEST, OLDEST)
AUTHOR = Author(by="mender@test")


@pytest.fixture
def folder(tmp_path):
    """Versions 0 to 4."""
    folder = tmp_path / "catalog"
    folder.mkdir()
    for path, (data, _) in make(5).store._files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def commit(catalog: Catalog, name: str) -> int:
    transaction = catalog.begin()
    transaction.create_namespace(ns(name))
    return catalog.commit(transaction).version


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("thing", THINGS)
def test_readers_do_without_it(folder, hint, thing):
    words = put(thing, folder / hint)
    store = CountingStore(LocalStore(folder))
    said = read_hints(store)
    assert said == Hints(None if hint == LATEST else 4, None)
    assert list(said.unread) == [hint]
    assert words in said.unread[hint].message
    assert hint in said.unread[hint].message
    assert read_latest(store).version == 4
    assert store.lists == 0, "it is found as without a hint, by probes"
    for reference, version in ((None, 4), (Oldest(), 0), (AtVersion(2), 2)):
        assert Catalog(store).snapshot(reference).version == version


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("thing", THINGS)
def test_commits_succeed_and_report_a_blocked_hint(folder, hint, thing):
    words = put(thing, folder / hint)
    before = os.lstat(folder / hint)
    store = LocalStore(folder)
    for remembers in (False, True):
        catalog = Catalog(store, remembers=remembers)
        for number in range(2):
            commit(catalog, f"{remembers}{number}")
    assert Catalog(LocalStore(folder)).snapshot().version == 8
    assert os.lstat(folder / hint)[:3] == before[:3], "it is left alone"
    assert list(store.lost_hints) == [LATEST] * (hint == LATEST)
    # nothing is written through a link, wherever it leads
    assert all((words if "link" not in thing else "a link") in lost.message for lost in store.lost_hints.values())


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("thing", THINGS)
def test_fsck_tells_it_and_repair_puts_it_right(folder, hint, thing):
    words = put(thing, folder / hint)
    store = LocalStore(folder)
    for level in Level:
        [found] = [finding for finding in fsck(store, level=level).findings if finding.code.startswith("F1")]
        assert (found.code, found.severity, found.path) == ("F118", "warning", hint)
        assert words in found.message
    plan = plan_repair(store)
    if thing == "a folder":
        assert (plan.steps, plan.hints) == ((), ())
        [stays] = plan.unmended
        assert stays == f"a folder stands at {hint} in {folder}: move it away"
        assert found.hint == ""
        assert (folder / hint / "kept").read_bytes() == b"data"
        (folder / hint).rename(folder.parent / "moved away")
        plan = plan_repair(store)
    else:
        assert found.hint == "fsck --repair"
        [step] = plan.steps
        assert words in step.text
    apply_repair(store, FakeClock(), plan, AUTHOR)
    assert read_hints(store) == Hints(4, None if thing == "a folder" or hint == LATEST else 0)
    assert [finding.code for finding in fsck(store, level=Level.FULL).findings if finding.code != "F904"] == []
    if thing == "a link to a FIFO":
        (folder / "vn" / "fifo").unlink()
    check_catalog(store)


@pytest.mark.parametrize("thing", ["a folder", "a FIFO"])
def test_a_repair_succeeds_although_a_hint_is_blocked(folder, thing):
    put(thing, folder / LATEST)
    (folder / root_path(4)).write_bytes(b"x")
    store = LocalStore(folder)
    plan = plan_repair(store)
    assert [text for text in plan.unmended if LATEST in text] == plan_stays(folder, thing)
    assert apply_repair(store, FakeClock(), plan, AUTHOR) == 5
    assert Catalog(store).snapshot().version == 5
    assert list(store.lost_hints) == [LATEST] * (thing == "a folder")
    assert read_hints(store).latest == (None if thing == "a folder" else 5)


def plan_stays(folder: Path, thing: str) -> list[str]:
    return [f"a folder stands at {LATEST} in {folder}: move it away"] * (thing == "a folder")


def test_repair_reports_an_unwritable_hint_after_all_other_steps(folder):
    """The repair was planned before the folder existed."""
    (folder / root_path(4)).write_bytes(b"x")
    (folder / LATEST).unlink()
    (folder / OLDEST).write_bytes(b"garbage")
    store = LocalStore(folder)
    plan = plan_repair(store)
    put("a folder", folder / LATEST)
    with pytest.raises(PartlyDone, match=f"v5 is the repaired version, but .* a folder stands at {LATEST}"):
        apply_repair(store, FakeClock(), plan, AUTHOR)
    assert read_hints(store).oldest == 0, "the other hint is written"
    assert fsck(store).last_sound_version == 5


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_without_permission(folder, hint):
    """Roots tell the latest version."""
    (folder / hint).write_bytes(b"3")
    (folder / hint).chmod(0)

    def look() -> tuple[int, list[str], list[tuple[str, str]], list[str]]:
        store = LocalStore(folder)
        found = fsck(store, level=Level.FULL).findings
        hints = [(finding.code, finding.path) for finding in found if finding.code.startswith("F1")]
        steps = [step.kind for step in plan_repair(store).steps]
        return Catalog(store).snapshot().version, list(read_hints(store).unread), hints, steps

    look()
    (folder / hint).chmod(0)
    seen = as_ordinary_user(folder, look)
    assert seen == (4, [hint], [("F118", hint)], [f"hint {hint.removeprefix('vn/')}"])


def test_a_hint_that_may_be_read_and_not_written(folder):
    (folder / LATEST).chmod(0o444)
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o777)

    def work() -> tuple[int, list[str]]:
        store = LocalStore(folder)
        version = commit(Catalog(store), "mine")
        return version, [error.message for error in store.lost_hints.values()]

    version, lost = as_ordinary_user(folder, work)
    assert version == 5
    assert lost == [f"cannot write {LATEST} in {folder}: Permission denied"]
    assert Catalog(LocalStore(folder)).snapshot().version == 5


def test_no_permission_for_anything_is_an_error_as_ever(folder):
    (folder / "vn").chmod(0)

    def look() -> str:
        try:
            return str(Catalog(LocalStore(folder)).snapshot().version)
        except OlympiaError as error:
            return error.name

    try:
        assert as_ordinary_user(folder, look) == StorageDenied.__name__
    finally:
        (folder / "vn").chmod(0o755)


@pytest.mark.parametrize("thing", THINGS)
def test_late_commit_is_unknown_while_vn_oldest_is_blocked(folder, thing):
    """vn/oldest tells whether an expire has freed the name. Without it the outcome is unknown."""
    clock = FakeClock()
    for blocked in (False, True):
        store = LocalStore(folder)
        transaction = Catalog(store, clock).begin()
        transaction.create_namespace(ns(f"late{blocked}"))
        clock.advance(40 * MINUTE)
        if blocked:
            put(thing, folder / OLDEST)
            with pytest.raises(CommitUnknown):
                Catalog(store, clock).commit(transaction)
        else:
            Catalog(store, clock).commit(transaction)
