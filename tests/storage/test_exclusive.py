"""A store that only seems to create exclusively is found out."""

from __future__ import annotations

import pytest

from olympia_cli.errors import ExclusiveCreateUnsupported, StorageDenied
from olympia_cli.storage.gcs import GcsStore
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.probe import check_exclusive_create
from olympia_cli.storage.s3 import S3Store
from tests.helpers.places import BUCKET, gcs_options, quiet_environment, s3_options
from tests.helpers.servers.gcs import SmallGcs
from tests.helpers.servers.s3 import StrictS3


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    quiet_environment(monkeypatch)


@pytest.fixture(params=["s3", "gcs"])
def opened(request):
    """The server and a store on it, both made to order."""
    running = []

    def make(key="key", **settings):
        server = (StrictS3 if request.param == "s3" else SmallGcs)(**settings).start()
        server.create_bucket(BUCKET)
        if request.param == "s3":
            store = S3Store(BUCKET, "p", s3_options(server.url, key))
        else:
            store = GcsStore(BUCKET, "p", gcs_options(server.url))
        running.append((store, server))
        return server, store

    yield make
    for store, server in running:
        store.close()
        server.stop()


def test_stores_that_do(tmp_path):
    check_exclusive_create(MemoryStore())
    check_exclusive_create(LocalStore(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_servers_that_do(opened):
    server, store = opened()
    check_exclusive_create(store)
    assert server.buckets[BUCKET] == {}


def test_servers_that_silently_overwrite(opened):
    server, store = opened(ignore_conditions=True)
    with pytest.raises(ExclusiveCreateUnsupported, match="overwrite"):
        check_exclusive_create(store)
    assert server.buckets[BUCKET] == {}


def test_server_that_refuses_conditions():
    with StrictS3(refuse_conditions=True) as server:
        server.create_bucket(BUCKET)
        store = S3Store(BUCKET, "", s3_options(server.url))
        with pytest.raises(ExclusiveCreateUnsupported):
            check_exclusive_create(store)
        store.close()


def test_other_errors_are_passed_on():
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        store = S3Store(BUCKET, "", s3_options(server.url, "nobody"))
        with pytest.raises(StorageDenied):
            check_exclusive_create(store)
        store.close()
