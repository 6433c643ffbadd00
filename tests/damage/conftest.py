"""The sample on a local disk and behind an S3 server, fresh for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from olympia_cli.storage.s3 import S3Store
from tests.helpers.damage_sample import Sample, make_sample
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StoredObject, StrictS3

PROFILE = """
[s3]
catalog = "s3://{bucket}/{prefix}"
[s3.storage]
endpoint_url = "{url}"
key = "key"
secret = "secret"
region = "us-east-1"
"""


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove this machine's settings, and leave none behind."""
    quiet_environment(monkeypatch)
    for name in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "home" / name.lower()))
    for name in ("OLYMPIA_CATALOG", "OLYMPIA_PROFILE", "OLYMPIA_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def plain_sample() -> Sample:
    return make_sample()


@pytest.fixture(scope="session")
def expired_sample() -> Sample:
    return make_sample(expired=True)


@dataclass(frozen=True)
class Ground:
    """The place of a catalog to be damaged. `words` name it on the command line; `files` are its present files."""

    name: str
    store: Store
    words: tuple[str, ...]
    fill: Callable[[dict[str, bytes]], None]
    files: Callable[[], dict[str, bytes]]

    def copy(self) -> MemoryStore:
        """The catalog as it is now, where looking at it costs nothing."""
        return MemoryStore("copy", {path: (data, 0) for path, data in self.files().items()})


@pytest.fixture(scope="session")
def strict_s3() -> Iterator[StrictS3]:
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="session")
def s3_ground(strict_s3: StrictS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Use one client for all tests, because making a client takes longer than most tests."""
    prefix = f"at/{uuid.uuid4()}"
    store = S3Store(BUCKET, prefix, s3_options(strict_s3.url))

    def fill(files: dict[str, bytes]) -> None:
        bucket = strict_s3.buckets[BUCKET]
        bucket.clear()
        bucket.update({f"{prefix}/{path}": StoredObject(data) for path, data in files.items()})

    def files() -> dict[str, bytes]:
        return {path.removeprefix(f"{prefix}/"): one.data for path, one in strict_s3.buckets[BUCKET].items()}

    config = tmp_path_factory.mktemp("s3") / "config.toml"
    config.write_text(PROFILE.format(bucket=BUCKET, prefix=prefix, url=strict_s3.url))
    yield Ground("s3", store, (str(config),), fill, files)
    store.close()


@pytest.fixture(scope="session")
def local_ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """Use one folder for all tests, because only changed files are written again."""
    folder = tmp_path_factory.mktemp("local") / "catalog"

    def entries(place: str = str(folder)) -> Iterator[os.DirEntry[str]]:
        with os.scandir(place) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    yield from entries(entry.path)
                else:
                    yield entry

    def name_of(entry: os.DirEntry[str]) -> str:
        return entry.path[len(str(folder)) + 1 :]

    def fill(files: dict[str, bytes]) -> None:
        folder.mkdir(exist_ok=True)
        there = set()
        for entry in list(entries()):
            # writing into a pipe that a test left would wait for ever
            if name_of(entry) in files and entry.is_file(follow_symlinks=False):
                there.add(name_of(entry))
            else:
                os.unlink(entry.path)
        for name, data in files.items():
            path = folder / name
            if name not in there or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def files() -> dict[str, bytes]:
        return {name_of(entry): Path(entry.path).read_bytes() for entry in entries() if os.path.isfile(entry.path)}

    return Ground("local", LocalStore(str(folder), durable=False), ("-c", str(folder)), fill, files)


@pytest.fixture(params=["local", "s3"])
def ground(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ground:
    if request.param == "local":
        here: Ground = request.getfixturevalue("local_ground")
        return here
    found: Ground = request.getfixturevalue("s3_ground")
    monkeypatch.setenv("OLYMPIA_CONFIG", found.words[0])
    return replace(found, words=("--profile", "s3"))
