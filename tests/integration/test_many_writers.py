"""Many writers commit at once. What they were told is what the log says: nothing is lost and nothing is there twice."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import CatalogExists, OlympiaError
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import Store
from tests.helpers.check import Version, check_versions, replay
from tests.helpers.places import BUCKET, quiet_environment
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.stores import CountingStore
from tests.helpers.writer import CHANGES, HOT, PATIENCE, SHARED, Outcome, begin_with, prepare, take_part, work

WRITERS = 8


def run_processes(uri: str, options: dict[str, object], commits: int, writers: int = WRITERS) -> list[Outcome]:
    """Start a number of processes, and let them begin at the same moment."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["tests.helpers.writer", "s3fs"])
    ready = (dict(os.environ), forks.Barrier(writers))
    with ProcessPoolExecutor(writers, forks, begin_with, ready) as pool:
        # none is done before all have begun, so each has a process to itself
        work = [pool.submit(take_part, uri, options, number, commits) for number in range(writers)]
        return [outcome for done in work for outcome in done.result(PATIENCE)]


def check_told(store: Store, outcomes: list[Outcome]) -> list[Version]:
    """The log holds the commits that were acknowledged, each at its version, and no other."""
    ends = Counter(outcome.end for outcome in outcomes)
    strange = [outcome for outcome in outcomes if outcome.end not in ("committed", "unneeded", "conflict", "refused")]
    assert not strange, f"on a store that works, a commit ends well or in a conflict: {strange[:3]}"
    replay(store)
    versions = check_versions(store)
    log = {version.info.transaction_id: version.number for version in versions[2:]}
    told = {outcome.id: outcome.version for outcome in outcomes if outcome.end == "committed"}
    lost = [outcome for outcome in outcomes if outcome.id in told.keys() - log.keys()]
    assert not lost, f"acknowledged, but not in the log: {lost[:3]}"
    uninvited = [outcome for outcome in outcomes if outcome.id in log.keys() - told.keys()]
    assert not uninvited, f"in the log, although its writer was told otherwise: {uninvited[:3]}"
    assert log == told, "a commit is at another version than its writer was told"
    assert [version.number for version in versions] == list(range(len(told) + 2))
    assert ends["committed"] >= len(outcomes) * 0.5, f"most get through: {ends}"
    assert ends["conflict"], f"they do get in each other's way: {ends}"
    return versions


def check_last_values(versions: list[Version]) -> None:
    """Check that keys of only one writer have its last acknowledged value."""
    latest = versions[-1]
    for number in range(WRITERS):
        mine = [v for v in versions if v.info.message == f"set own key by writer {number}"]
        for name in (HOT, SHARED):
            if not mine or name not in latest.contents or name not in mine[-1].contents:
                continue
            assert latest.contents[name].id == mine[-1].contents[name].id
            key = f"writer{number}"
            assert latest.contents[name].properties[key] == mine[-1].contents[name].properties[key]


def test_processes_on_a_local_folder(tmp_path):
    store = LocalStore(tmp_path / "catalog")
    prepare(store, WRITERS)
    outcomes = run_processes(store.uri, {}, commits=24)
    versions = check_told(store, outcomes)
    check_last_values(versions)
    assert len(versions) > 100


def test_processes_on_s3(monkeypatch):
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        options: dict[str, object] = {
            "endpoint_url": server.url,
            "key": "key",
            "secret": "secret",
            "region": "us-east-1",
        }
        uri = f"s3://{BUCKET}/many/writers"
        store = open_store(uri, options)
        prepare(store, WRITERS)
        # half of the writers: most of what this costs is eight times a client of S3
        outcomes = run_processes(uri, options, commits=14, writers=WRITERS // 2)
        # the objects as the server has them: what a client would read, without the requests
        found = server.buckets[BUCKET].items()
        copy = MemoryStore()
        for key, stored in found:
            copy.create(key.removeprefix("many/writers/"), stored.data)
        store.close()
    check_last_values(check_told(copy, outcomes))


@pytest.mark.parametrize("shared_store", [True, False], ids=["one-store", "a-store-each"])
def test_threads(tmp_path, shared_store):
    one = LocalStore(tmp_path / "catalog", durable=False)
    prepare(one, WRITERS)

    def run(number: int) -> list[Outcome]:
        return work(one if shared_store else LocalStore(one.uri, durable=False), number, 9)

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = [outcome for found in pool.map(run, range(WRITERS)) for outcome in found]
    check_last_values(check_told(one, outcomes))


def test_threads_that_create_one_catalog(tmp_path):

    def create(number: int) -> int | None:
        try:
            Catalog.create(LocalStore(tmp_path / "catalog"), properties={"by": str(number)})
        except CatalogExists:
            return None
        return number

    with ThreadPoolExecutor(WRITERS) as pool:
        [winner] = [number for number in pool.map(create, range(WRITERS)) if number is not None]
    store = LocalStore(tmp_path / "catalog")
    [version] = check_versions(store)
    assert dict(version.catalog.properties) == {"by": str(winner)}


def test_a_catalog_that_appears_during_the_check_of_its_location_is_no_remains():
    """Another writer creates the root between the check for roots and the check for remains."""
    inner = MemoryStore()

    class Late(CountingStore):
        def list(self, prefix=""):
            found = list(super().list(prefix))
            if self.calls["list"] == 1:
                Catalog.create(inner)
            return iter(found)

    store = Late(inner)
    with pytest.raises(CatalogExists):
        Catalog.create(store)
    check_versions(inner)


@pytest.mark.parametrize("statement", dict(CHANGES).values(), ids=dict(CHANGES))
def test_a_writer_bears_that_the_others_took_everything(statement):
    catalog = Catalog.create(MemoryStore())
    with catalog.transaction() as transaction:
        transaction.create_namespace(SHARED)
        transaction.create_table(HOT, "s3://hot")
    chosen = random.Random(1)
    with contextlib.suppress(OlympiaError):
        statement(catalog.begin(), 0, 1, chosen)
