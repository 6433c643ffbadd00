"""Measure work over a network: a catalog on S3, and clients of a server."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import s3fs

from benchmarks.catalogs import NAMESPACE, middle
from benchmarks.measuring import BIN, ROUND_TRIP, Bench, Figure, best, conversation, ratio
from benchmarks.reading import look
from benchmarks.writing import SlowStore, alter, naturals
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.iceberg.files import Delete
from olympia_cli.iceberg.locations import Location
from olympia_cli.ops.fsck import FsckRequest, Level, fsck
from olympia_cli.rest.server import Running
from olympia_cli.rest.settings import Settings
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.objects import _WORKERS
from olympia_cli.storage.s3 import S3Store, _settings
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.stores import WrappedStore

CLIENTS = 16
BUCKET = "benchmark"

# S3


@contextmanager
def s3_server(bench: Bench) -> Iterator[str]:
    """Start SeaweedFS on loopback with its kept data, or use a server that runs already."""
    if bench.s3:
        yield bench.s3
        return
    folder = bench.folder / "s3"
    folder.mkdir(exist_ok=True)
    ports = _free_ports(8)
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
    options = [f"-{name}={port}" for name, port in zip((*names, "s3.port", "s3.port.grpc"), ports, strict=True)]
    here = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-master.telemetry=false"]
    here += ["-s3", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=50"]
    words = [str(bench.peers.parent / "weed"), "-logtostderr=true", "server", *here, *options]
    with open(bench.scratch / "weed.log", "wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{ports[6]}"
            _wait_for(url, server)
            yield url
        finally:
            server.terminate()
            server.wait(30)


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if server.poll() is not None:
            raise RuntimeError("weed ended: see weed.log")
        try:
            if httpx.get(url, timeout=1).status_code < 500:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise RuntimeError("weed does not answer")


def _options(url: str) -> dict[str, object]:
    return {"endpoint_url": url, "key": "key", "secret": "secret", "region": "us-east-1"}


class Recorded(WrappedStore):
    """Records requests; those of a batch are sent together."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.batches: list[tuple[str, dict[str, bytes]]] = []

    def _note(self, what: str, files: Mapping[str, bytes]) -> None:
        self.batches.append((what, dict(files)))

    def read(self, path: str) -> bytes:
        self._note("get", {path: b""})
        return super().read(path)

    def read_many(self, paths: Any) -> Any:
        wanted = list(paths)
        self._note("get", dict.fromkeys(wanted, b""))
        return super().read_many(wanted)

    def exists(self, path: str) -> bool:
        self._note("head", {path: b""})
        return super().exists(path)

    def stat(self, path: str) -> Any:
        self._note("head", {path: b""})
        return super().stat(path)

    def create(self, path: str, data: bytes) -> None:
        self._note("put", {path: data})
        super().create(path, data)

    def create_many(self, files: Any) -> None:
        self._note("put", files)
        super().create_many(files)

    def list(self, prefix: str = "", temporary: bool = False, between: Any = ("", None)) -> Any:
        self._note("list", {prefix: b""})
        return super().list(prefix, temporary, between)


class Raw:
    """Sends requests with the store's client, and nothing else."""

    def __init__(self, url: str, prefix: str) -> None:
        self._fs = s3fs.S3FileSystem(**_settings(_options(url), 60.0))
        self._prefix = prefix

    def send(self, batches: list[tuple[str, dict[str, bytes]]]) -> Callable[[], None]:
        def run() -> None:
            asyncio.run_coroutine_threadsafe(self._send(batches), self._fs.loop).result()

        return run

    async def _send(self, batches: list[tuple[str, dict[str, bytes]]]) -> None:
        await self._fs.set_session()
        for what, files in batches:
            rest = iter(files.items())

            async def work(what: str = what, rest: Any = rest) -> None:
                for path, data in rest:
                    await self._one(what, path, data)

            await asyncio.gather(*(work() for _ in range(min(_WORKERS, len(files)))))

    async def _one(self, what: str, path: str, data: bytes) -> None:
        target = {"Bucket": BUCKET, "Key": f"{self._prefix}/{path}"}
        call: Callable[..., Awaitable[Any]] = self._fs._call_s3
        if what == "put":
            # a new key: the server keeps files of earlier runs
            key = f"raw/{uuid.uuid4()}"
            await call("put_object", Bucket=BUCKET, Key=key, Body=data, IfNoneMatch="*")
        elif what == "list":
            token: dict[str, str] = {}
            while True:
                page = await call("list_objects_v2", Bucket=BUCKET, Prefix=target["Key"], **token)
                if not page.get("IsTruncated"):
                    return
                token = {"ContinuationToken": page["NextContinuationToken"]}
        else:
            try:
                reply = await call("get_object" if what == "get" else "head_object", **target)
                if what == "get":
                    async with reply["Body"] as body:
                        await body.read()
            except FileNotFoundError:
                pass
            except Exception as error:
                if type(error).__name__ not in ("ClientError", "NoSuchKey"):
                    raise


def s3(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.files
    with s3_server(bench) as url:
        fs = s3fs.S3FileSystem(**_settings(_options(url), 60.0))
        if not fs.exists(BUCKET):
            fs.call_s3("create_bucket", Bucket=BUCKET)
        prefix = f"owned-{tables}"
        store = S3Store(BUCKET, prefix, _options(url))
        if not store.exists("vn/latest"):
            make_big_catalog(store, 1, tables, own=True)
        raw, name = Raw(url, prefix), middle(tables)
        raw.send([("head", {"vn/latest": b""})])()  # start the client before it is measured
        commit = alter(Catalog.open(store), name, naturals())
        works: dict[str, tuple[Callable[[], object], Callable[[Any], object]]] = {
            "a cold lookup": (lambda: look(Catalog(store), name), lambda to: look(Catalog(to), name)),
            f"list {tables:,}": (
                lambda: list(Catalog(store).snapshot().tables(NAMESPACE)),
                lambda to: list(Catalog(to).snapshot().tables(NAMESPACE)),
            ),
            "a warm commit": (commit, lambda to: alter(Catalog.open(to), name, iter([1, 2]))),
            f"fsck of {tables:,} files": (
                lambda: fsck(store, FsckRequest(Level.FULL)),
                lambda to: fsck(to, FsckRequest(Level.FULL)),
            ),
        }
        for what, (ours, recorded) in works.items():
            recording = Recorded(store)
            again = recorded(recording)
            if what == "a warm commit":
                again()  # type: ignore[operator]
                recording.batches.clear()
                again()  # type: ignore[operator]
            rounds = max(1, bench.sizes.rounds // 3) if what.startswith("fsck") else bench.sizes.rounds
            mine, theirs = best(ours, raw.send(recording.batches), rounds=rounds)
            sent = sum(len(files) for _, files in recording.batches)
            yield ratio(what, mine, theirs, most=1.3, more=f"{sent:,} requests in {len(recording.batches)} steps")
        store.close()


# The server


def commits(bench: Bench) -> Iterator[Figure]:
    """Each client changes its own table, on a slow store."""
    folder = bench.scratch / "served"
    tables = OlympiaCatalog.of(Catalog.create(LocalStore(folder, durable=False)))
    tables.create_namespace("n")
    for number in range(CLIENTS):
        tables.create_table(f"n.t{number}", pa.schema([("id", pa.int64())]))
    with conversation(BIN / "python", "-m", "benchmarks.serving", folder) as ask:
        url = ask()["url"]
        _commit(url, 1, min(1.0, bench.sizes.seconds))
        alone, together = (_commit(url, clients, bench.sizes.seconds) for clients in (1, CLIENTS))
        memory = ask()["mib"]
    detail = f"{together:.1f} and {alone:.1f} per second; the server {memory:.0f} MiB"
    what = f"{CLIENTS} clients: commits per second at {ROUND_TRIP * 1000:.0f} ms per request"
    yield Figure(what, together / alone, least=5, detail=detail)


def _commit(url: str, clients: int, seconds: float) -> float:
    done: list[int] = []

    def work(number: int) -> None:
        made, end = 0, time.perf_counter() + seconds
        with httpx.Client(base_url=url, timeout=60) as client:
            while not made or time.perf_counter() < end:
                body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": str(made)}}]}
                answer = client.post(f"/v1/namespaces/n/tables/t{number}", json=body)
                assert answer.status_code == 200, answer.text
                made += 1
        done.append(made)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start)


def main(folder: Path) -> None:
    """Run the server. Answer each line of input with its URL and its peak memory, until the input ends."""
    from benchmarks.measuring import peak_mib

    copied = MemoryStore()
    store = LocalStore(folder)
    for file in store.list():
        copied.create(file.path, store.read(file.path))
    settings = Settings(port=0, without_tokens=True, locations=(str(folder),))
    running = Running(Catalog(SlowStore(copied)), settings, log=io.StringIO())
    _slow_files(running)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    for _ in sys.stdin:
        print(json.dumps({"url": running.url, "mib": peak_mib()}), flush=True)
    running.stop()
    thread.join()


def _slow_files(running: Running) -> None:
    """Make creating a metadata file as slow as creating a file of the catalog."""
    kept = running.service.kept
    create = kept.create

    def slowed(location: Location, content: bytes) -> Delete:
        time.sleep(ROUND_TRIP)
        return create(location, content)

    kept.create = slowed  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
