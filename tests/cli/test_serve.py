"""`olympia serve` as a program: it says where it is, logs, and ends when it is told to."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx
import pyarrow as pa
import pytest

import olympia_cli
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.cli.app import LazyCommand
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.rest.access import Caller, Tokens
from olympia_cli.rest.server import Running
from olympia_cli.rest.settings import Settings
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import MAIN
from tests.helpers.json_schema import check
from tests.helpers.patience import wait_until
from tests.helpers.serving import serving


def test_server_finishes_open_requests_before_it_ends(tmp_path):
    Catalog.create(LocalStore(tmp_path / "c"))
    command = [sys.executable, "-c", MAIN, "-c", str(tmp_path / "c"), "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stderr is not None
            started = json.loads(program.stdout.readline())
            check(started, "serve")
            assert started["version"] == 0
            assert json.loads(program.stderr.readline())["event"] == "listening"
            answers: list[httpx.Response] = []
            asked, told = threading.Event(), threading.Event()

            def slowly():
                yield b'{"namespace": ["last"]'
                asked.set()
                told.wait(30)
                yield b"}"

            def post() -> None:
                head = {"Content-Type": "application/json"}
                answers.append(
                    httpx.post(f"{started['url']}/v1/namespaces", content=slowly(), headers=head, timeout=60)
                )

            client = threading.Thread(target=post)
            client.start()
            assert asked.wait(30)
            os.kill(program.pid, signal.SIGTERM)

            # new connections are refused; open ones are answered
            def is_closed() -> bool:
                try:
                    httpx.get(f"{started['url']}/healthz", timeout=60)
                except httpx.HTTPError:
                    return True
                return False

            wait_until(is_closed, "closed")
            told.set()
            client.join(30)
            assert answers[0].status_code == 200
            assert program.wait(30) == 0
            lines = [json.loads(line) for line in program.stderr.read().splitlines()]
            assert lines[-1]["event"] == "stopped"
        finally:
            program.kill()
    assert [name.namespace for name in Catalog(LocalStore(tmp_path / "c")).snapshot().namespaces()] == ["last"]


CONNECTING = """
import os, re, signal, socket, sys
from olympia_cli.cli.app import main
write = sys.stdout.write
def connect_and_write(text):
    found = re.search("http://([0-9.]+):([0-9]+)", text)
    socket.create_connection((found[1], int(found[2])), timeout=30).close()
    os.kill(os.getpid(), signal.SIGTERM)
    return write(text)
sys.stdout.write = connect_and_write
sys.exit(main())
"""
"""The program, with a client that connects before it has read the line to its end, and then ends it."""


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_server_prints_its_url_only_when_it_listens(tmp_path, words):
    """A script that waits for the line does not try again."""
    Catalog.create(LocalStore(tmp_path / "c"))
    command = [sys.executable, "-c", CONNECTING, "-c", str(tmp_path / "c"), "serve", "--port", "0", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch('({"url": ")?http://127.0.0.1:[0-9]+(", .*})?\n', done.stdout)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["listening", "stopped"]


def test_the_server_owns_its_port_from_the_start(tmp_path):
    """Two programs may have bound one port as long as neither listens."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        running = Running(Catalog.create(LocalStore(tmp_path)), Settings(port=port), log=io.StringIO())
        with pytest.raises(OSError, match="in use"):
            other.listen()
        with running.in_background():
            assert httpx.get(f"{running.url}/healthz").status_code == 200


def test_a_hanging_request_does_not_stop_the_shutdown(tmp_path):
    """A store that never answers holds a thread. Whatever is said meanwhile is a line of JSON, too."""
    catalog = OlympiaCatalog.of(Catalog.create(LocalStore(tmp_path / "c")))
    catalog.create_namespace("s")
    catalog.create_table("s.t", pa.schema([("id", pa.int64())]))
    command = [sys.executable, "-c", MAIN, "-c", str(tmp_path / "c"), "serve", "--port", "0", "--stop-timeout", "1s"]
    silent = socket.create_server(("127.0.0.1", 0))
    keys = {"AWS_ACCESS_KEY_ID": "some", "AWS_SECRET_ACCESS_KEY": "key", "AWS_DEFAULT_REGION": "us-east-1"}
    env = {**os.environ, **keys, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{silent.getsockname()[1]}"}
    with silent, subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=env) as program:
        try:
            assert program.stdout is not None
            url = program.stdout.readline().strip()

            def commit(number: int, location: str) -> int:
                about = {"snapshot-id": number, "sequence-number": number, "timestamp-ms": number}
                snapshot = {**about, "summary": {"operation": "append"}, "manifest-list": location}
                updates = [
                    {"action": "add-snapshot", "snapshot": snapshot},
                    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
                ]
                body = {"requirements": [], "updates": updates}
                return httpx.post(f"{url}/v1/namespaces/s/tables/t", json=body, timeout=60).status_code

            assert commit(1, str(tmp_path / "none")) == 200
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(commit, 2, "s3://bucket/list.avro")
                metrics = lambda: httpx.get(f"{url}/metrics", timeout=60).text  # noqa: E731
                wait_until(lambda: "olympia_requests_under_way 2" in metrics(), "under way")
                os.kill(program.pid, signal.SIGTERM)
                said = program.communicate(timeout=60)[1]
                assert program.returncode == 0
                assert waiting.exception() is not None or waiting.result() == 500
        finally:
            program.kill()
    lines = [json.loads(line) for line in said.splitlines()]
    assert lines[-1]["event"] == "stopped"
    assert lines[-1]["unfinished"] is True
    assert any("the log does not name the files of snapshot 1" in line.get("message", "") for line in lines)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--host", "0.0.0.0"], 2, "--tokens FILE"),
        (["--tokens", "missing.toml"], 2, "cannot be read"),
        (["--tls-cert", "missing.pem", "--tls-key", "missing.pem"], 2, "certificate"),
        (["--host", "192.0.2.1", "--without-tokens"], 2, "cannot listen on"),
        (["--request-timeout", "soon"], 2, "not a duration"),
    ],
)
def test_invalid_serve_options_print_one_error_line(olympia, options, code, words):
    ran = olympia("serve", "--port", "0", *options)
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert words in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_serving_a_missing_catalog_fails(run, tmp_path):
    assert run("-c", str(tmp_path / "none"), "serve", "--port", "0").exit_code == 10


def test_without_uvicorn_the_extra_is_named(tmp_path):
    """In a process of its own, because tests before this one have imported the server."""
    program = "import sys; sys.modules['uvicorn'] = None\nfrom olympia_cli.__main__ import main\nsys.exit(main())"
    command = [sys.executable, "-c", program, "-c", str(tmp_path / "catalog")]
    subprocess.run([*command, "init"], check=True, capture_output=True)
    ran = subprocess.run([*command, "serve", "--port", "0"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (
        2, "error: uvicorn is not installed, or too old: install olympia-cli[serve]\n"
    )  # fmt: skip


GUIDE = (Path(olympia_cli.__file__).parent.parent / "docs/guides/serve.md").read_text(encoding="utf-8")


def test_the_guide_names_only_existing_options():
    known = {
        option for param in LazyCommand("serve", "").load().params for option in (*param.opts, *param.secondary_opts)
    }
    typed = [line for line in GUIDE.splitlines() if line.startswith("olympia") and " serve" in line]
    named = {*re.findall(r"`(--[a-z-]+)", GUIDE), *re.findall(r"--[a-z-]+", " ".join(typed))}
    assert len(named) >= 8
    assert named <= known | {"--json"}


def test_the_guides_tokens_are_taken(tmp_path):
    text = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    assert text is not None
    digests = iter(hashlib.sha256(secret).hexdigest() for secret in (b"one", b"two"))
    (tmp_path / "tokens.toml").write_text(re.sub('"…"', lambda _: f'"{next(digests)}"', text[1]))
    tokens = Tokens(str(tmp_path / "tokens.toml"))
    etl, dashboards = tokens.caller("one"), tokens.caller("two")
    assert etl == Caller("etl")
    assert dashboards == Caller("dashboards", writes=False, namespaces=frozenset({"sales"}))


def test_the_guides_clients_connect(tmp_path):
    """The line for PyIceberg with a token; `make test-engines` types the others, too."""
    text = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert text is not None
    lines = [line for line in text[1].splitlines() if line.startswith(("from ", "catalog = "))]
    with serving(LocalStore(tmp_path)) as served:
        names: dict[str, Any] = {}
        exec("\n".join(lines).replace("http://127.0.0.1:8181", served.url), names)
        assert names["catalog"].list_namespaces() == []
