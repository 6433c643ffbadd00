"""What the server costs, as ratios within one run.

    python benchmarks/serve.py [--quick]

Loads a second against the same framework with a constant body of the same size; memory over many requests; commits a
second of 16 clients against those of one, on a store that takes 20 ms a request. The server is a process of its own;
the clients are processes, too, so that neither waits for the other's interpreter.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx
import pyarrow as pa
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.rest.server import Running
from olympia_cli.rest.settings import Settings
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.stores import WrappedStore

LATENCY = 0.02
CLIENTS = 16
PATH = "/v1/namespaces/n/tables/t0"


class SlowStore(WrappedStore):
    """Takes its time for each request; those of a batch are sent together."""

    def read(self, path: str) -> bytes:
        time.sleep(LATENCY)
        return super().read(path)

    def read_many(self, paths: Any) -> Any:
        time.sleep(LATENCY)
        return super().read_many(paths)

    def create(self, path: str, data: bytes) -> None:
        time.sleep(LATENCY)
        super().create(path, data)

    def create_many(self, files: Any) -> None:
        time.sleep(LATENCY)
        super().create_many(files)

    def exists(self, path: str) -> bool:
        time.sleep(LATENCY)
        return super().exists(path)


class Quiet(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


def serve_catalog(pipe: Connection, folder: str, slow: bool) -> None:
    store = LocalStore(folder)
    catalog = Catalog(SlowStore(copy_to_memory(store)) if slow else store)
    running = Running(catalog, Settings(port=0, without_tokens=True, locations=(folder,)), log=Quiet())  # type: ignore[arg-type]
    if slow:
        delay_files(running)
    serve(pipe, running.url, running.run, running.stop)


def delay_files(running: Running) -> None:
    """The tables' own files take as long as the catalog's."""
    opened = running.service._opened
    load = opened._load

    def slowed(location: str) -> Any:
        found = load(location)
        inner = found.new_output

        def new_output(where: str) -> Any:
            time.sleep(LATENCY)
            return inner(where)

        found.new_output = new_output
        return found

    opened._load = slowed


def copy_to_memory(store: LocalStore) -> MemoryStore:
    copied = MemoryStore()
    for file in store.list():
        copied.create(file.path, store.read(file.path))
    return copied


def serve_constant(pipe: Connection, size: int) -> None:
    body = b"x" * size

    async def answer(request: Request) -> Response:
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/v1/namespaces/{namespace}/tables/{table}", answer)])
    server = uvicorn.Server(uvicorn.Config(app, port=0, http="h11", log_level="error", loop="asyncio"))

    def run() -> None:
        asyncio.run(server.serve())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    pipe.send(f"http://127.0.0.1:{port}")
    pipe.recv()
    server.should_exit = True
    thread.join()


def serve(pipe: Connection, url: str, run: Callable[[], None], stop: Callable[[], None]) -> None:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    pipe.send(url)
    while pipe.recv() == "memory":
        pipe.send(resident())
    stop()
    thread.join()


def resident() -> int:
    """Bytes of this process in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def process(target: Callable[..., None], *args: object) -> Iterator[tuple[str, Connection]]:
    here, there = multiprocessing.get_context("spawn").Pipe()
    started = multiprocessing.get_context("spawn").Process(target=target, args=(there, *args))
    started.start()
    try:
        yield here.recv(), here
    finally:
        here.send("stop")
        started.join()


def loads(url: str, number: int, clients: int = 8) -> float:
    """Loads a second, over as many connections. The client does as little as it can: it shares the machine."""
    host, port = url.removeprefix("http://").split(":")
    request = f"GET {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()

    async def some(count: int) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in range(count):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        writer.close()

    async def ask() -> float:
        await some(10)
        start = time.perf_counter()
        await asyncio.gather(*(some(number // clients) for _ in range(clients)))
        return number / (time.perf_counter() - start)

    return asyncio.run(ask())


def commits(url: str, clients: int, seconds: float) -> float:
    """Commits a second of clients that each change a table of their own."""
    done: list[int] = []

    def work(number: int) -> None:
        count, end = 0, time.perf_counter() + seconds
        with httpx.Client(base_url=url, timeout=60) as client:
            while time.perf_counter() < end:
                body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": str(count)}}]}
                answer = client.post(f"/v1/namespaces/n/tables/t{number}", json=body)
                assert answer.status_code == 200, answer.text
                count += 1
        done.append(count)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        tables = OlympiaCatalog.of(Catalog.create(LocalStore(folder)))
        tables.create_namespace("n")
        rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
        for number in range(CLIENTS):
            table = tables.create_table(f"n.t{number}", rows.schema)
            if number == 0:
                for _ in range(10):
                    table.append(rows)
        print("| what | bound | here |\n| --- | --- | --- |")
        measure_loads(folder, 2_000 if quick else 10_000, 5_000 if quick else 100_000)
        measure_commits(folder, 3.0 if quick else 10.0)


def measure_loads(folder: str, number: int, many: int) -> None:
    with process(serve_catalog, folder, False) as (ours, pipe):
        size = len(httpx.get(ours + PATH).content)
        with process(serve_constant, size) as (constant, _):
            # in turns, so that the machine's weather meets both
            rates = [(loads(ours, number), loads(constant, number)) for _ in range(3)]
        a, b = max(rate for rate, _ in rates), max(rate for _, rate in rates)
        shown = f"{a:,.0f} and {b:,.0f}: {b / a:.2f}×"
        print(f"| loads a second of a table of {size:,} bytes, and a constant body of that size | 2× | {shown} |")
        loads(ours, 5_000)
        pipe.send("memory")
        before = pipe.recv()
        loads(ours, many)
        pipe.send("memory")
        grown = (pipe.recv() - before) / 2**20
        print(f"| memory after {many:,} more requests | flat | {grown:+.1f} MiB of {before / 2**20:.0f} |")


def measure_commits(folder: str, seconds: float) -> None:
    with process(serve_catalog, folder, True) as (url, _):
        commits(url, 1, 1.0)
        alone = commits(url, 1, seconds)
        together = commits(url, CLIENTS, seconds)
        metrics = httpx.get(f"{url}/metrics").text
        counted = {
            line.split()[0]: float(line.split()[1]) for line in metrics.splitlines() if line.startswith("olympia_c")
        }
        size = counted["olympia_committed_changes_total"] / counted["olympia_commits_total"]
        shown = f"{alone:.1f} and {together:.1f}: {together / alone:.1f}×"
        print(f"| commits a second of one client and of {CLIENTS}, {LATENCY * 1000:.0f} ms a request | 5× | {shown} |")
        print(f"| changes a commit, over both | | {size:.1f} |")


if __name__ == "__main__":
    main()
