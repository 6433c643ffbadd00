"""The power of a disk fails during a commit: whatever of the calls to the operating system it has carried out."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import CommitUnknown, Damaged, StorageFailed
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import Unsound, check_catalog
from tests.helpers.disk import Recorder, after_power_cuts
from tests.helpers.stores import CountingStore

LOST = (Unsound, Damaged)


def one_table(catalog):
    with catalog.transaction() as transaction:
        transaction.create_table(TableName("a", "new"), "m")


def first_in_new_folders(catalog):
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("b"))
        for number in range(10):
            transaction.create_table(TableName("b", f"t{number}"), "m")


def some_tables(store):
    catalog = Catalog.create(store, order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("a"))
        for number in range(20):
            transaction.create_table(TableName("a", f"t{number}"), "m")
    return catalog


@pytest.fixture(params=[one_table, first_in_new_folders], ids=lambda change: change.__name__)
def commit(request, tmp_path, monkeypatch):
    """The calls of a commit, the files before it, and those after it."""
    store = LocalStore(tmp_path / "catalog")
    catalog = some_tables(store) if request.param is one_table else Catalog.create(store, order=4)
    before = files_of(store)
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, tmp_path / "catalog")
        request.param(catalog)
    return recorder.calls, before, files_of(store)


def files_of(store):
    return {file.path: store.read(file.path) for file in store.list() if file_kind(file.path) is not FileKind.HINT}


def look_after_power_cuts(calls, before, after):
    """The versions that are left: each is sound, and none but the new one after the last call."""
    versions = set()
    for is_over, files in after_power_cuts(calls, before, after):
        store = MemoryStore()
        store.create_many(files)
        latest = max(check_catalog(store))
        if is_over and latest != len([path for path in after if path.startswith("vn/")]) - 1:
            raise Unsound("a commit that has returned is gone")
        versions.add(latest)
    return versions


def test_power_cut_leaves_a_commit_complete_or_absent(commit):
    assert len(look_after_power_cuts(*commit)) == 2


def test_each_sync_is_needed(commit):
    """Left out, any of them loses something: so none is too many, and none is waited for too late."""
    calls, before, after = commit
    syncs = [at for at, call in enumerate(calls) if call[0] == "fsync"]
    assert len(syncs) >= 6
    for at in syncs:
        without = [*calls[:at], *calls[at + 1 :]]
        if calls[at] in without:
            continue  # a folder that two steps sync
        with pytest.raises(LOST):
            look_after_power_cuts(without, before, after)


@pytest.mark.parametrize("late", ["file", "folder"])
def test_a_sync_after_the_root_is_too_late(commit, late):
    calls, before, after = commit
    [root] = [at for at, call in enumerate(calls) if call[0] == "link" and str(call[2]).startswith("vn/")]
    moved = [
        call
        for call in calls[:root]
        if call[0] == "fsync" and not str(call[1]).startswith("vn") and (".tmp-" in str(call[1])) == (late == "file")
    ]
    assert moved
    kept = [call for call in calls[:root] if call not in moved]
    with pytest.raises(LOST):
        look_after_power_cuts([*kept, calls[root], *moved, *calls[root + 1 :]], before, after)


def test_no_commit_that_a_sync_failed_for_is_acknowledged(tmp_path, monkeypatch):
    """Before the root's name exists, nothing is committed; with that name the outcome is unknown."""
    catalog = some_tables(LocalStore(tmp_path))
    fsync, lock, synced, bad = os.fsync, threading.Lock(), [], 0

    def failing(file):
        with lock:
            synced.append(file)
            fails = len(synced) == bad
        if fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(file)

    monkeypatch.setattr(os, "fsync", failing)
    with catalog.transaction() as transaction:
        transaction.alter_table(TableName("a", "t7"), {"p": "0"})
    version, number = catalog.snapshot().version, len(synced)
    for bad in range(1, number + 1):
        synced.clear()
        expected = CommitUnknown if bad == number else StorageFailed
        with pytest.raises(expected), catalog.transaction() as transaction:
            transaction.alter_table(TableName("a", "t7"), {"p": str(bad)})
        assert Catalog(LocalStore(tmp_path)).snapshot().version == version + (bad == number)
    check_catalog(LocalStore(tmp_path))


def test_syncs_wait_together(tmp_path, monkeypatch):
    """However many files a commit writes, it waits three times: for their data, their folders, and that of the root."""
    catalog = some_tables(LocalStore(tmp_path))
    counting = CountingStore(MemoryStore())
    there = some_tables(counting)
    counting.reset()
    one_table(there)
    files = counting.count("create_many")
    assert files >= 3
    waits = iter([files + 1, 2, 1])
    fsync, lock, waiting, synced = os.fsync, threading.Lock(), [], []

    def wait_together(file):
        with lock:
            if not waiting:
                number = next(waits)
                waiting.extend([threading.Barrier(number, timeout=60)] * number)
            barrier = waiting.pop()
        barrier.wait()
        fsync(file)
        synced.append(file)

    monkeypatch.setattr(os, "fsync", wait_together)
    one_table(catalog)
    assert len(synced) == files + 4
