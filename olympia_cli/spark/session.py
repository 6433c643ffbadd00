"""A Spark session for our own work: started here, or reached where it runs, or taken as the caller has it.

A session that is started here runs this very Python, keeps its talk out of stdout, and out of stderr unless it is asked
for. Each way in which it cannot be had is one line that says what to do.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from olympia_cli.errors import InvalidOption, OlympiaError, SparkFailed, SparkMissing, SparkUnreachable
from olympia_cli.spark.failures import explain, explained
from olympia_cli.spark.registration import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT = 60.0
CONNECT_PORT = 15002
LOOPBACK = ("127.0.0.1", "localhost", "::1")
OLDEST_JAVA = 17
CONNECT_PACKAGES = {"grpc": "grpcio", "grpc_status": "grpcio-status", "zstandard": "zstandard"}
MASTERS = "local[*], spark://host:port, yarn or k8s://https://host:port"

T = TypeVar("T")


@contextmanager
def spark_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    verbose: bool = False,
    wait: float = WAIT,
) -> Iterator[SparkSession]:
    """A session that knows `format("olympia")`; what Spark raises within comes out as one of our errors.

    With neither a master nor a remote, it is the session that is active already, or else a local one. One that was
    started here is stopped at the end. `settings` are Spark's own, and go over ours. A master or server that does not
    answer within `wait` seconds is given up.
    """
    if master is not None and remote is not None:
        raise InvalidOption("both a master and a remote server were given", hint="choose one of them")
    _need_pyspark()
    with explained():
        taken = _active() if master is None and remote is None else None
        if taken is not None:
            spark = taken
        elif remote is not None:
            spark = _connect(remote, settings or {}, wait)
        else:
            spark = _start(master or "local[*]", settings or {}, verbose, wait)
        try:
            register(spark)
            yield spark
        finally:
            if taken is None:
                # that it cannot be stopped must not hide what went wrong before
                with suppress(Exception):
                    spark.stop()


def _need_pyspark() -> None:
    try:
        import pyspark
    except ImportError:
        raise SparkMissing("PySpark is not installed", hint="install olympia-cli[spark]") from None
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise SparkMissing(f"PySpark {pyspark.__version__} is too old", hint="install olympia-cli[spark]: 4.0 or newer")


def _active() -> SparkSession | None:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


# Started here


def _start(master: str, settings: Mapping[str, str], verbose: bool, wait: float) -> SparkSession:
    """A driver in this process, for a master on this machine or another."""
    _check_master(master)
    need_java()
    local = master.startswith("local")
    if not local:
        _probe(master, wait)
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.sql import SparkSession

    launch_gateway: Any = java_gateway.launch_gateway
    chosen = {**_ours(master, verbose), **settings}
    conf = SparkConf().setAll(list(chosen.items())).setMaster(master)
    # Spark talks to both, from another process; what it said is looked at only when it does not start
    log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the other process writes to it until it ends
    said: Any = sys.stderr.fileno() if verbose else log
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stdout": said, "stderr": said})
        context = _within(wait, lambda: SparkContext(conf=conf, gateway=gateway), f"the master {master}")
    except OlympiaError:
        raise
    except Exception as error:
        raise _not_started(error, log) from None
    if "spark.pyspark.python" in chosen:
        # the setting alone is for spark-submit; a context takes the environment's, or whatever python3 is
        context.pythonExec = chosen["spark.pyspark.python"]
    if not local:
        _await_executor(context, master, wait)
    return SparkSession(context)


def _ours(master: str, verbose: bool) -> dict[str, str]:
    found = {
        "spark.app.name": "olympia",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true" if verbose else "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master.startswith("local") or _host(master) in LOOPBACK:
        # executors on this machine have this Python, and reach the driver without the network
        found |= {
            "spark.pyspark.python": sys.executable,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return found


def _check_master(master: str) -> None:
    if not re.fullmatch(r"local(\[.+\])?|yarn|spark://[^/\s]+:[0-9]+|k8s://\S+", master):
        raise InvalidOption(f"{master[:60]!a} is not a Spark master", hint=f"use {MASTERS}")


def need_java() -> None:
    """Raise unless there is a Java that Spark runs on, where Spark looks for it."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    where = " at JAVA_HOME" if home else ""
    said = ""
    if java is not None:
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
            said = done.stderr if done.returncode == 0 else ""
    if not said:
        raise SparkMissing(f"Spark needs Java, and there is none{where}", hint="install Java 17 or 21")
    found = re.search(r'version "(?:1\.)?([0-9]+)', said)
    if found and int(found[1]) < OLDEST_JAVA:
        raise SparkMissing(f"Java {found[1]} is too old for Spark", hint="install Java 17 or 21")


def _await_executor(context: Any, master: str, wait: float) -> None:
    """A master may answer and have no workers; jobs would wait for ever then."""
    until = time.monotonic() + wait
    # the driver is among them
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > until:
            context.stop()
            raise SparkUnreachable(
                f"{master} answers, and gave no executor within {wait:.0f} s",
                hint="check that it has workers with room, and that they can reach this machine",
            )
        time.sleep(0.1)


def _not_started(error: Exception, log: IO[bytes]) -> OlympiaError:
    log.seek(max(0, log.seek(0, os.SEEK_END) - 65_536))
    tail = log.read().decode("utf-8", "replace")
    if "JAVA_GATEWAY_EXITED" not in str(error):
        return explain(error)
    reason = str(explain(RuntimeError(tail)).message) if tail.strip() else "Spark failed: its Java program ended"
    return SparkFailed(reason.replace("Spark failed:", "Spark did not start:", 1))


# Reached where it runs


def _connect(remote: str, settings: Mapping[str, str], wait: float) -> SparkSession:
    """A session of a Spark Connect server."""
    local = remote.startswith("local")
    if not local and not re.fullmatch(r"sc://[^/\s]+(/\S*)?", remote):
        raise InvalidOption(f"{remote[:20]!a}… is not a Spark Connect server", hint="use sc://host:port")
    for module, package in CONNECT_PACKAGES.items():
        if find_spec(module) is None:
            raise SparkMissing(f"Spark Connect needs the package {package}", hint="install pyspark[connect]")
    if local:
        need_java()
        # the server is a child of this process, and looks for its Python in the environment alone
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # nor does it know that nobody wants to see how far it is
        settings = {"spark.ui.showConsoleProgress": "false", **settings}
    else:
        _probe(remote, wait)
        _await_server(remote, wait)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote)
    for name, value in settings.items():
        builder = builder.config(name, value)
    what = f"the server {_place(remote)}"
    spark = _within(wait, builder.getOrCreate, what)
    try:
        # the first thing that it must answer; PySpark itself would go on asking for minutes
        _within(wait, lambda: spark.version, what)
    except SparkUnreachable:
        _forget(spark)
        raise
    return spark


def _await_server(remote: str, wait: float) -> None:
    """Something that takes connections need not be a server. PySpark is asked only when it is one: a session that was
    made asks at the end of the program again, for minutes."""
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=wait)
    except grpc.FutureTimeoutError:
        raise SparkUnreachable(f"the server {_place(remote)} did not answer within {wait:.0f} s") from None
    finally:
        channel.close()


def _forget(spark: Any) -> None:
    """Keep the session of a server that does not answer from asking it once more when the program ends."""
    with suppress(AttributeError):
        atexit.unregister(spark.client._on_exit)


def _probe(url: str, wait: float) -> None:
    """Whether anything listens at the address; Spark itself asks for minutes before it gives up."""
    addresses = _addresses(url)
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=min(wait, 10.0)).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    if addresses:
        raise SparkUnreachable(f"Spark does not answer at {'; '.join(reasons)}")


def _addresses(url: str) -> list[tuple[str, int]]:
    scheme, _, rest = url.partition("://")
    if scheme == "k8s":
        parts = urlsplit(rest if "://" in rest else f"https://{rest}")
        return [(parts.hostname or "", parts.port or 443)]
    found = []
    for one in rest.partition("/")[0].split(",") if rest else ():
        parts = urlsplit(f"//{one}")
        try:
            found.append((parts.hostname or "", parts.port or CONNECT_PORT))
        except ValueError:
            raise InvalidOption(f"{one[:60]!a} is not a host and a port", hint=f"use {MASTERS}") from None
    return found


def _host(url: str) -> str:
    return next((host for host, _ in _addresses(url)), "")


def _place(remote: str) -> str:
    # what follows the address may hold a token
    return remote.partition("/;")[0].partition(";")[0]


def _within(seconds: float, call: Callable[[], T], what: str) -> T:
    """The result of a call that may never return; it is left to itself then."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failures:
        raise failures[0]
    if not results:
        raise SparkUnreachable(f"{what} did not answer within {seconds:.0f} s")
    return results[0]
