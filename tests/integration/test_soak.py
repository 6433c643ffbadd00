"""Four writers commit while others expire, check, export and use distributed transactions: no work is lost."""

from __future__ import annotations

from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.places import BUCKET, quiet_environment
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.soak import Soak, check_told

ON_S3 = {
    "write": {"commits": 2},
    "distribute": {"distributed commits": 1},
    "expire": {"marks": 1},
    "check": {"fsck runs": 2},
    "export": {"full exports": 1},
}
"""Less, where each request goes through a server in the same process."""


def test_processes_on_a_local_folder(tmp_path):
    soak = Soak(str(tmp_path / "catalog"), {}, tmp_path / "exports")
    check_told(LocalStore(soak.uri), soak.in_processes())


def test_threads_on_s3(monkeypatch, tmp_path):
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        options = {"endpoint_url": server.url, "key": "key", "secret": "secret", "region": "us-east-1"}
        soak = Soak(f"s3://{BUCKET}/soak", options, tmp_path, goals=ON_S3)
        total = soak.in_threads()
        copy = MemoryStore()
        for key, stored in server.buckets[BUCKET].items():
            copy.create(key.removeprefix("soak/"), stored.data)
    check_told(copy, total)
