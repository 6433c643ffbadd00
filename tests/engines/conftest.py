"""`olympia serve` as a program of its own, with tables in several places, and the engines as its clients."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.engines import clients
from tests.engines.clients import CLIENT
from tests.engines.engines import ENGINES
from tests.engines.matrix import GUIDE
from tests.helpers.places import BUCKET
from tests.helpers.servers.s3 import StrictS3

PROGRAM = (sys.executable, "-m", "olympia_cli")
TOKEN = "the-secret-of-etl"


def home(name: str) -> Path:
    """The folder of an engine; the test is skipped, with the reason, if the engine cannot be had."""
    folder = Path(os.environ["OLYMPIA_TEST_ENGINES"]).absolute() / name
    if not (folder / ".installed").exists():
        missing = folder / ".missing"
        reason = missing.read_text() if missing.exists() else "`make test-engines` installs it"
        pytest.skip(f"{name} cannot be had: {reason}")
    return folder


@dataclass
class Lake:
    """A catalog and a server for it."""

    place: str
    uri: str
    url: str
    environment: Mapping[str, str]
    token: str | None = None
    before: int = 0
    """A version in which `people.known` has one row. The latest has two."""

    def olympia(self, *words: str, code: int = 0) -> str:
        """The program, on the catalog itself."""
        command = [*PROGRAM, "-c", self.uri, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        assert done.returncode == code, done.stderr
        return done.stdout

    def show(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.olympia(*words, "--json", code=code))

    @property
    def version(self) -> int:
        return int(self.show("status")["version"])

    def check(self) -> None:
        """The engines wrote tables as fsck expects them."""
        found = self.show("fsck", "--level", "data")
        assert [one for one in found["findings"] if one["severity"] != "info"] == []

    def table(self, name: str) -> Table:
        """A table as PyIceberg has it, in this process."""
        return load_catalog("checking", type="rest", uri=self.url, token=self.token).load_table(name)

    def append(self, name: str, rows: dict[int, str]) -> None:
        self.table(name).append(pyarrow.table({"id": [*rows], "name": [*rows.values()]}))

    def rows(self, name: str) -> list[tuple[int, str]]:
        return sorted((row["id"], row["name"]) for row in self.table(name).scan().to_arrow().to_pylist())

    @property
    def data(self) -> str:
        """The default location of tables."""
        return f"file://{self.uri}/data" if self.place == "file" else f"{self.uri}/data"

    def recipe(self, heading: str, language: str, number: int = 0, **other: str) -> str:
        """A block of code below the heading in the guide, with the address and the token of this server."""
        block = re.findall(rf"```{language}\n(.*?)```", self.section(heading), re.DOTALL)[number]
        for old, new in {"http://127.0.0.1:8181": self.url, "YOUR-TOKEN": self.token or "", **other}.items():
            block = block.replace(old, new)
        return str(block)

    def commands(self, heading: str, command: str) -> list[str]:
        """The words of such commands of the program below the heading."""
        return re.findall(rf"olympia ({command} [^`\n]+)", self.section(heading))

    def section(self, heading: str) -> str:
        part = rf"^### {re.escape(heading)}\n(.*?)(?=^##)"
        [found] = re.findall(part, GUIDE.read_text(), re.DOTALL | re.MULTILINE)
        return str(found.replace("http://127.0.0.1:8181", self.url).replace("YOUR-TOKEN", self.token or ""))


@contextmanager
def lake_at(
    place: str, uri: str, folder: Path, words: list[str], environment: Mapping[str, str], token: str | None
) -> Iterator[Lake]:
    lake = Lake(place, uri, "", os.environ | environment, token)
    lake.olympia("init")
    if token:
        digest = hashlib.sha256(token.encode()).hexdigest()
        tokens = folder / "tokens.toml"
        tokens.write_text(f'[[token]]\nname = "{CLIENT}"\nsha256 = "{digest}"\nscopes = ["read", "write"]\n')
        words += ["--tokens", str(tokens)]
    if place == "file":
        [alter] = lake.commands("Locations on local disk", "catalog alter")
        lake.olympia(*alter.replace("/data/lake", uri).split())
    serve = [*PROGRAM, "-c", uri, "serve", "--port", "0", "--json", *words]
    log = folder / "serve.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=errors, text=True, env=lake.environment) as server,
    ):
        try:
            line = server.stdout.readline()
            assert line, log.read_text()
            lake.url = json.loads(line)["url"]
            yield lake
        finally:
            server.terminate()
    assert server.returncode == 0, log.read_text()[-2000:]
    assert '"status": 500' not in log.read_text()


@contextmanager
def lake_in(place: str, folder: Path, *options: str, token: str | None = None) -> Iterator[Lake]:
    """A new catalog, served to the end of the block. The server tells its clients how to reach tables on S3."""
    with ExitStack() as stack:
        uri, words, environment = str(folder / "lake"), [*options], {}
        if place == "s3":
            server = stack.enter_context(StrictS3())
            uri = f"s3://{server.create_bucket(BUCKET)}/lake"
            access = {"access-key-id": "key", "secret-access-key": "secret", "region": "us-east-1"}
            environment = {f"AWS_{key.replace('-', '_').upper()}": value for key, value in access.items()}
            environment |= {"AWS_ENDPOINT_URL": server.url, "AWS_EC2_METADATA_DISABLED": "true"}
            environment |= {"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
            settings = {f"s3.{key}": value for key, value in access.items()}
            settings |= {"s3.endpoint": server.url, "s3.path-style-access": "true", "client.region": "us-east-1"}
            settings |= {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
            for setting in settings.items():
                words += ["--client-property", "=".join(setting)]
        yield stack.enter_context(lake_at(place, uri, folder, words, environment, token))


@pytest.fixture(scope="session")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lake]]:
    """A catalog for all engines in each place, which asks for a token. They are sound at the end."""
    opened: dict[str, Lake] = {}
    with ExitStack() as stack:

        def lake(place: str) -> Lake:
            if place not in opened:
                opened[place] = found = stack.enter_context(lake_in(place, tmp_path_factory.mktemp(place), token=TOKEN))
                found.olympia("ns", "create", "people")
                found.olympia("table", "create", "people.known", "--schema", "id long, name string")
                found.append("people.known", {1: "one"})
                found.before = found.version
                found.append("people.known", {2: "two"})
            return opened[place]

        yield lake
        for one in opened.values():
            one.check()


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """An engine as a client: a server of its own, or a library with the environment of a lake. One runs at a time."""
    running: dict[str, Any] = {}
    with ExitStack() as stack:

        def client(name: str, lake: Lake | None = None) -> Any:
            engine, title = home(name), ENGINES[name].title
            if name not in running or title not in clients.SERVERS:
                stack.close()
                running.clear()
                folder = tmp_path_factory.mktemp(name)
                if title in clients.SERVERS:
                    context = clients.SERVERS[title](engine, folder)
                else:
                    context = clients.worker(engine, title, folder, {}, lake.environment)
                running[name] = stack.enter_context(context)
            return running[name]

        yield client


@dataclass
class SparkLake(Lake):
    """A lake without tokens, and Spark as its client as often as there are names for it."""

    client: clients.Client | None = None

    def connect(self, name: str, warehouse: str = "olympia") -> None:
        self.client.connect(self, name, warehouse)

    def sql(self, text: str) -> clients.Rows:
        return self.client.run(text)


@pytest.fixture(scope="session", params=[name for name in ENGINES if name.startswith("spark")])
def spark_lakes(request: pytest.FixtureRequest, started: Callable[..., Any], tmp_path_factory: Any) -> Iterator[Any]:
    """Lakes on this machine's disk for one Spark, each with the options of its server. They are sound at the end."""
    with ExitStack() as stack:

        def lake(name: str, *options: str) -> SparkLake:
            client = started(request.param)
            found = stack.enter_context(lake_in("disk", tmp_path_factory.mktemp("spark"), *options))
            served = SparkLake(found.place, found.uri, found.url, found.environment, client=client)
            served.connect(name)
            stack.callback(served.check)
            return served

        yield lake


@pytest.fixture(scope="session")
def lake(spark_lakes: Callable[..., SparkLake]) -> SparkLake:
    """Each test has a namespace of its own."""
    return spark_lakes("lake")
