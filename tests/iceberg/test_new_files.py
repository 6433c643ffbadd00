"""Metadata that waits on disk until it is written."""

from __future__ import annotations

import gc
import resource
import sys
import tempfile

import pytest

from olympia_cli.errors import StorageFailed
from olympia_cli.iceberg.new_files import NewFiles

SIZE = 200_000


def content(number):
    return bytes([number]) * SIZE


def test_more_than_memory_takes_comes_back():
    files = NewFiles()
    for number in range(12):
        files.put(f"m{number}", content(number), {"p": str(number)})
    assert [files.get(f"m{number}") for number in (11, 0, 7)] == [(content(n), {"p": str(n)}) for n in (11, 0, 7)]


def test_no_room_for_it(monkeypatch):
    """It is told where there is none, and nothing is said at the end."""
    lost, put = [], []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    files = NewFiles()

    def fill():
        for number in range(12):
            files.put(f"m{number}", content(number), {})
            put.append(f"m{number}")

    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * SIZE, limit[1]))
    try:
        with pytest.raises(StorageFailed, match=f"cannot wait in {tempfile.gettempdir()}"):
            fill()
        assert list(files.places) == put
        files = None
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (len(put), lost) == (7, [])
