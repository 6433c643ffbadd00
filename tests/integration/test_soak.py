"""Four writers commit while others expire, check, export and use distributed transactions: nobody is harmed."""

from __future__ import annotations

from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.places import BUCKET, quiet_environment
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.soak import Report, Soak, check_told

RATE = 1200
"""An hour takes three seconds."""


def _worked(total: Report) -> None:
    """All that was to happen did."""
    for what in ("commits", "distributed commits", "marks", "purges", "purged files", "fsck runs", "full exports"):
        assert total.counted[what], total.counted


def test_processes_on_a_local_folder(tmp_path):
    soak = Soak(str(tmp_path / "catalog"), {}, tmp_path / "exports", seconds=16, rate=RATE)
    total = soak.in_processes()
    check_told(LocalStore(soak.uri), total)
    _worked(total)


def test_threads_on_s3(monkeypatch, tmp_path):
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        options = {"endpoint_url": server.url, "key": "key", "secret": "secret", "region": "us-east-1"}
        soak = Soak(f"s3://{BUCKET}/soak", options, tmp_path, seconds=12, rate=RATE)
        total = soak.in_threads()
        copy = MemoryStore()
        for key, stored in server.buckets[BUCKET].items():
            copy.create(key.removeprefix("soak/"), stored.data)
    check_told(copy, total)
    assert total.counted["commits"]
    assert total.counted["fsck runs"]
