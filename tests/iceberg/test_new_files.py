"""What a transaction is to write does not wait in memory."""

from __future__ import annotations

import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

from olympia_cli.iceberg.new_files import NewFiles

SIZE, COUNT = 2**17, 64


def test_many_files_wait_on_disk():
    contents = {f"s3://b/{number}": os.urandom(64) * (SIZE // 64) for number in range(4)}
    files = NewFiles()
    tracemalloc.start()
    try:
        for number in range(COUNT):
            files.put(f"s3://b/{number}", contents[f"s3://b/{number % 4}"], {"number": str(number)})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < SIZE * COUNT // 2
    assert list(files.places) == [f"s3://b/{number}" for number in range(COUNT)]
    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(files.get, files.places)):
            assert found == (contents[f"s3://b/{number % 4}"], {"number": str(number)})


def test_the_last_one_at_a_location_counts():
    files = NewFiles()
    for content in (b"one", b"two"):
        files.put("s3://b/a", content, {})
    assert files.get("s3://b/a") == (b"two", {})
