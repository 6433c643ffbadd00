"""The stores that the contract is held against, and the servers behind them: once a session, on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers.places import BUCKET, Place, gcs_place, quiet_environment, s3_place
from tests.helpers.servers.gcs import SmallGcs
from tests.helpers.servers.moto import MotoS3
from tests.helpers.servers.proxy import FaultProxy
from tests.helpers.servers.s3 import StrictS3

BACKENDS = ("memory", "local", "s3-moto", "s3-strict", "gcs")


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        quiet_environment(patch)
        yield


@pytest.fixture(scope="session")
def strict_s3() -> Iterator[StrictS3]:
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="session")
def small_gcs() -> Iterator[SmallGcs]:
    with SmallGcs() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="session")
def moto_s3() -> Iterator[MotoS3]:
    server = MotoS3().start()
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=server.url,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    client.close()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_proxy(strict_s3: StrictS3) -> Iterator[FaultProxy]:
    with FaultProxy(strict_s3.url) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def gcs_proxy(small_gcs: SmallGcs) -> Iterator[FaultProxy]:
    with FaultProxy(small_gcs.url) as proxy:
        yield proxy


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    match request.param:
        case "memory":
            files: dict[str, tuple[bytes, int]] = {}
            made = Place("memory", lambda: MemoryStore("test", files))
        case "local":
            from olympia_cli.storage.local import LocalStore

            root = request.getfixturevalue("tmp_path") / "store"
            made = Place("local", lambda: LocalStore(root))
        case "s3-moto":
            made = s3_place(request.getfixturevalue("moto_s3").url, "s3-moto")
        case "s3-strict":
            made = s3_place(request.getfixturevalue("strict_s3").url)
        case _:
            made = gcs_place(request.getfixturevalue("small_gcs").url)
    yield made
    made.close()


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()


@pytest.fixture(params=["s3", "gcs"])
def faulty(request: pytest.FixtureRequest) -> Iterator[tuple[FaultProxy, Place]]:
    """A proxy that breaks what it is told to, and a fresh location behind it."""
    proxy: FaultProxy = request.getfixturevalue(f"{request.param}_proxy")
    proxy.break_with()
    made = (s3_place if request.param == "s3" else gcs_place)(proxy.url, behind=proxy.target)
    yield proxy, made
    proxy.break_with()
    made.close()
