"""Staged files of a transaction do not stay in memory."""

from __future__ import annotations

import gc
import os
import resource
import sys
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from olympia_cli.errors import StorageFailed
from olympia_cli.iceberg.files import NewFile, NewFiles
from olympia_cli.iceberg.locations import ANYWHERE

SIZE, COUNT = 2**17, 64


def new_file(location, content):
    return NewFile(ANYWHERE.named(location, "it"), content)


def test_many_files_wait_on_disk():
    contents = {f"s3://b/{number}": os.urandom(64) * (SIZE // 64) for number in range(4)}
    files = NewFiles()
    tracemalloc.start()
    try:
        for number in range(COUNT):
            file = new_file(f"s3://b/{number}", contents[f"s3://b/{number % 4}"])
            files.put(f"s3://b/{number}", file)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < SIZE * COUNT // 2
    assert list(files.places) == [f"s3://b/{number}" for number in range(COUNT)]
    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(files.get, files.places)):
            file = new_file(f"s3://b/{number}", contents[f"s3://b/{number % 4}"])
            assert found == file


def test_the_last_one_at_a_location_counts():
    files = NewFiles()
    for content in (b"one", b"two"):
        files.put("s3://b/a", new_file("s3://b/a", content))
    assert files.get("s3://b/a").content == b"two"


def test_no_room_for_it(monkeypatch):
    """The error names the folder without space, and no message follows at exit."""
    lost, put = [], []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    files = NewFiles()

    def fill():
        for number in range(20):
            files.put(f"m{number}", new_file(f"/m{number}", bytes(SIZE)))
            put.append(f"m{number}")

    resource.setrlimit(resource.RLIMIT_FSIZE, (12 * SIZE, limit[1]))
    try:
        with pytest.raises(StorageFailed, match=f"cannot be kept in {tempfile.gettempdir()}"):
            fill()
        assert list(files.places) == put
        files = None
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (len(put), lost) == (11, [])
