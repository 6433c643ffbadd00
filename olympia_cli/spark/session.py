"""A Spark session for our own work: started here, connected to, or the caller's own.

A session that is started here runs this Python interpreter. Its output stays out of stdout, and out of stderr unless
requested. Each way in which no session can be had is a one-line error with advice.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from olympia_cli.errors import InvalidOption, OlympiaError, SparkFailed, SparkMissing, SparkUnreachable, quoted
from olympia_cli.masking import masked
from olympia_cli.spark import need_pyspark, submitted
from olympia_cli.spark.failures import explain, explained

# Private members of PySpark that have no public equivalent, each in one line, checked with PySpark 4.3.


def java_context(context: Any) -> Any:
    """Return the SparkContext of the Java program."""
    return context._jsc.sc()


def java_session(spark: Any) -> Any:
    """Return the SparkSession of the Java program."""
    return spark._jsparkSession


def java_classes(of: Any) -> Any:
    """Return the packages and classes of the Java program of a session or a context."""
    return of._jvm


def running_gateway() -> Any:
    """Return the connection to the Java program of this process, or None."""
    return SparkContext._gateway


def use_gateway(gateway: Any) -> None:
    """Use this connection for all contexts of the process."""
    SparkContext._ensure_initialized(gateway=gateway)


def last_call(spark: Any) -> Callable[[], object]:
    """Return the call to a Connect server that its session makes when the program ends."""
    end: Callable[[], object] = spark.client._on_exit
    return end


# Spark's addresses: check the syntax of masters and Connect servers, and whether a server listens.

CONNECT_PORT = 15002
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MASTERS = "local[*], spark://host:port, yarn or k8s://https://host:port"
_MASTER = re.compile(r"local(\[(\*|[1-9][0-9]*)(, *[1-9][0-9]*)?\])?|yarn|spark://[^/\s]+:[0-9]+|k8s://\S+")
_REMOTE = re.compile(r"local(\[(\*|[1-9][0-9]*)(, *[1-9][0-9]*)?\])?|sc://[^/\s]+(/\S*)?")


def check_master(master: str) -> None:
    if not _MASTER.fullmatch(master):
        raise InvalidOption(f"{quoted(master)} is not a Spark master", hint=f"use {MASTERS}")


def check_remote(remote: str) -> None:
    # a garbled address may hold a token, so only its beginning is repeated
    if not _REMOTE.fullmatch(remote):
        raise InvalidOption(f"{quoted(remote, 23)} is not a Spark Connect server", hint="use sc://host:port")


def probe(url: str, wait: float) -> None:
    """Raise SparkUnreachable if no address in the URL accepts a connection. Spark itself retries for minutes before it
    gives up."""
    addresses = _addresses(url)
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=min(wait, 10.0)).close()
            return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        except UnicodeError:
            raise InvalidOption(f"{host[:60]!a} is not a host", hint=f"use {MASTERS}") from None
    if addresses:
        raise SparkUnreachable(f"Spark does not answer at {'; '.join(reasons)}")


def is_here(master: str) -> bool:
    """Return True if the master's address is on this machine."""
    return master.startswith("local") or next((host for host, _ in _addresses(master)), "") in LOOPBACK


def place(remote: str) -> str:
    """Return a server's address for error messages, without parameters such as a token."""
    return remote.partition("/;")[0].partition(";")[0]


def _addresses(url: str) -> list[tuple[str, int]]:
    scheme, _, rest = url.partition("://")
    if scheme == "k8s":
        return [_host_and_port(rest if "://" in rest else f"https://{rest}", 443)]
    each = rest.partition("/")[0].split(",") if rest else ()
    return [_host_and_port(f"//{address}", CONNECT_PORT) for address in each]


def _host_and_port(url: str, port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or port
    except ValueError:
        raise InvalidOption(
            f"{quoted(masked(url).lstrip('/'))} is not a host and a port", hint=f"use {MASTERS}"
        ) from None


# Spark's Java program: check that it can run here, and start it so that its output stays out of sight unless requested.

OLDEST_JAVA = 17
_SECRET = re.compile(r"secret|passw|token|credential|(access|account)[.-]?key", re.IGNORECASE)
"""Names of settings with secret values: Spark's own pattern, extended."""
_TAIL = 65_536
_NAMELESS = "pyspark-shell"
"""Spark's name for an application without a name."""


def need_java() -> str:
    """Return the version of the Java that Spark would use. Raise SparkMissing if there is none, or if it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    where = " at JAVA_HOME" if home else ""
    said = ""
    if java is not None:
        with suppress(OSError, subprocess.SubprocessError):
            process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
            said = process.stderr if process.returncode == 0 else ""
    if not said:
        raise SparkMissing(f"Spark needs Java, which was not found{where}", hint="install Java 17 or 21")
    match = re.search(r'version "(?:1\.)?([0-9]+)', said)
    if match and int(match[1]) < OLDEST_JAVA:
        raise SparkMissing(f"Java {match[1]} is too old for Spark", hint="install Java 17 or 21")
    return match[1] if match else "of an unknown version"


@dataclass(frozen=True, slots=True)
class Launched:
    """The Java program that PySpark talks to, and its output."""

    gateway: Any
    log: IO[bytes]

    def why_not(self, error: Exception) -> OlympiaError:
        """Return why the start failed, from an error and the program's output."""
        return _why_not(error, self.log)


def launch(settings: Mapping[str, str], master: str | None, verbose: bool) -> Launched:
    """Start the Java program with the settings that are fixed at its start. Its output goes to stderr if `verbose`,
    else to a file that is read only if the start fails."""
    silence()
    log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the other process writes to it until it ends
    gateway = running_gateway()
    if gateway is not None:
        # a process has one for all its sessions
        return Launched(gateway, log)
    # every user of the machine can read a command line, so a secret is set in the session alone
    conf = SparkConf().setAll([(name, value) for name, value in settings.items() if not _SECRET.search(name)])
    if master is not None and not master.startswith(("local", "spark:")):
        # other masters (YARN, Kubernetes) must be known when Java starts; local and standalone ones belong to a
        # session, and the next session may have another
        conf.setMaster(master)
    said: Any = sys.stderr.fileno() if verbose else log
    start: Any = java_gateway.launch_gateway
    try:
        gateway = start(conf, popen_kwargs={"stdout": said, "stderr": said})
    except Exception as error:
        raise _why_not(error, log) from None
    # from now on a SparkConf has what spark-defaults.conf says
    use_gateway(gateway)
    return Launched(gateway, log)


def unsaid(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that neither a flag nor spark-defaults.conf sets. Java must be running."""
    said = SparkConf()
    return {name: value for name, value in settings.items() if said.get(name) in (None, _NAMELESS)}


def silence() -> None:
    """Keep PySpark's log records off stderr in a program that configures no logging."""
    for name in ("pyspark", "py4j"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # these loggers print by themselves, and PySpark expects loggers of its own class
        PySparkLogger.getLogger(name).handlers = [logging.NullHandler()]
    # the same for gRPC, which reads this when it is imported
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _why_not(error: Exception, log: IO[bytes]) -> OlympiaError:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
    tail = log.read().decode("utf-8", "replace")
    if "JAVA_GATEWAY_EXITED" not in str(error):
        return explain(error)
    reason = str(explain(RuntimeError(tail)).message) if tail.strip() else "Spark failed: its Java program ended"
    return SparkFailed(reason.replace("Spark failed:", "Spark did not start:", 1))


WAIT = 60.0
START_WAIT = 300.0
"""Longest wait for a start on this machine, which may be busy."""
CONNECT_PACKAGES = {"grpc": "grpcio", "grpc_status": "grpcio-status", "zstandard": "zstandard"}

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
    """Provide a session that knows `format("olympia")`, and translate Spark's errors within the block into ours.

    Without a master and a remote, take the active session as it is, or the one for which spark-submit runs this
    process. Otherwise start one, with the master of `spark-defaults.conf` or else locally, and stop it at the end.
    `settings` are Spark's own, and override all others. Raise SparkUnreachable if a master or server does not answer
    within `wait` seconds.
    """
    if master is not None and remote is not None:
        raise InvalidOption("both a master and a remote server were given", hint="choose one of them")
    need_pyspark()
    setup = Setup(settings or {}, verbose, wait)
    with explained():
        active_session = _active() if master is None and remote is None else None
        if active_session is not None:
            spark = active_session
        elif submitted():
            spark = _submitted(master, remote, setup)
        elif remote is not None:
            spark = _connect(remote, setup)
        else:
            # an empty master, from an unset variable in a script, is refused
            spark = _start(master, setup)
        try:
            with nullcontext() if active_session is None else _set(active_session, setup.settings):
                # needs PySpark, and this module tells whether it is there
                from olympia_cli.spark.source import register

                register(spark)
                yield spark
        finally:
            if active_session is None:
                # a failure to stop must not hide an earlier error
                with suppress(Exception):
                    spark.stop()


@dataclass(frozen=True, slots=True)
class Setup:
    """The arguments of `spark_session` for a new session."""

    settings: Mapping[str, str]
    verbose: bool
    wait: float


def need_spark() -> None:
    """Raise SparkMissing unless a session can be started on this machine."""
    need_pyspark()
    need_java()


def _active() -> SparkSession | None:
    try:
        # this thread's session, or else one that another thread has made; a Connect session is active in its own thread
        # only
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session we did not create, and restore them afterwards."""
    for name in settings:
        if not spark.conf.isModifiable(name):
            hint = "give it to whatever starts the session"
            raise InvalidOption(f"{name[:60]!a} cannot be set in a session that is running", hint=hint)
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, former in before.items():
            with suppress(Exception):
                spark.conf.unset(name) if former is None else spark.conf.set(name, former)


# Started here


def _submitted(master: str | None, remote: str | None, setup: Setup) -> SparkSession:
    """Start the session of a submitted job: the master, the name and other settings are spark-submit's."""
    if master is not None or remote is not None:
        address = "a master" if master is not None else "a server"
        raise InvalidOption(f"{address} was given, but spark-submit has one", hint="give it to spark-submit alone")
    launched = launch({}, None, setup.verbose)
    conf = SparkConf().setAll(list(setup.settings.items()))
    where = conf.get("spark.master") or "local"
    context = _started(launched, lambda: SparkContext(conf=conf), f"the master {where}", max(setup.wait, START_WAIT))
    if not where.startswith("local"):
        _await_executor(context, where, setup.wait)
    return SparkSession(context)


def _start(master: str | None, setup: Setup) -> SparkSession:
    """A driver in this process, for a master on this machine or another."""
    if master is not None:
        check_master(master)
    need_java()
    if master is not None and not master.startswith("local"):
        # checked first: Java takes seconds to start
        probe(master, setup.wait)
    launched = launch(setup.settings, master, setup.verbose)
    conf = SparkConf().setAll(list(setup.settings.items()))
    # local[*] is Spark's own default
    where = master or conf.get("spark.master") or "local[*]"
    local = where.startswith("local")
    if master is None and not local:
        probe(where, setup.wait)
    conf.setMaster(where).setAll(list(unsaid(_ours(where)).items()))
    conf.setAll(list(setup.settings.items()))
    context = _started(
        launched,
        lambda: SparkContext(conf=conf, gateway=launched.gateway),
        f"the master {where}",
        max(setup.wait, START_WAIT) if local else setup.wait,
    )
    if python := conf.get("spark.pyspark.python"):
        # only spark-submit applies this setting; a context takes the environment's Python, or python3
        context.pythonExec = python
    if not local:
        _await_executor(context, where, setup.wait)
    return SparkSession(context)


def _started(launched: Launched, start: Callable[[], T], what: str, wait: float) -> T:
    try:
        return _within(wait, start, what)
    except OlympiaError:
        raise
    except Exception as error:
        raise launched.why_not(error) from None


def _ours(master: str) -> dict[str, str]:
    """Return the default settings of a session that is started here."""
    settings = {
        "spark.app.name": "olympia",
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if is_here(master):
        # executors on this machine run this Python, and reach the driver without the network
        settings |= {
            "spark.pyspark.python": sys.executable,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return settings


def _await_executor(context: Any, master: str, wait: float) -> None:
    """Wait for an executor. A master may answer without having workers; jobs would then wait for ever."""
    until = time.monotonic() + wait
    # the driver is counted too
    while java_context(context).getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > until:
            context.stop()
            raise SparkUnreachable(
                f"{master} answers, and gave no executor within {wait:.0f} s",
                hint="check that it has workers with room, and that they can reach this machine",
            )
        time.sleep(0.1)


# Reached where it runs


def _connect(remote: str, setup: Setup) -> SparkSession:
    """Return a session of a Spark Connect server; a local server is started here."""
    check_remote(remote)
    for module, package in CONNECT_PACKAGES.items():
        if find_spec(module) is None:
            raise SparkMissing(f"Spark Connect needs the package {package}", hint="install pyspark[connect]")
    silence()
    if remote.startswith("local"):
        return _start_server(remote, setup)
    wait = setup.wait
    probe(remote, wait)
    _await_server(remote, wait)
    builder = SparkSession.builder.remote(remote)
    for name, value in setup.settings.items():
        builder = builder.config(name, value)
    what = f"the server {place(remote)}"
    spark = _within(wait, builder.getOrCreate, what)
    try:
        # the first call to the server; PySpark itself would retry for minutes
        _within(wait, lambda: spark.version, what)
    except SparkUnreachable:
        _forget(spark)
        raise
    return spark


def _start_server(master: str, setup: Setup) -> SparkSession:
    need_java()
    # the server is a child process, and takes its Python from the environment only
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # PySpark would start a Java program itself, whose output goes to stderr
    launched = launch(setup.settings, master, setup.verbose)
    builder = SparkSession.builder.remote(master)
    for name, value in {**unsaid(_ours(master)), **setup.settings}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # the server starts with all settings, and PySpark then sets them again, which fails for fixed ones
        warnings.filterwarnings("ignore", message="Failed to set", category=UserWarning)
        return _started(launched, builder.getOrCreate, "the local server", max(setup.wait, START_WAIT))


def _await_server(remote: str, wait: float) -> None:
    """Wait until a Connect server answers: something else may accept connections at the address. PySpark is called only
    then, because a session that it has made retries for minutes when the program ends."""
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=wait)
    except grpc.FutureTimeoutError:
        raise SparkUnreachable(f"the server {place(remote)} did not answer within {wait:.0f} s") from None
    finally:
        channel.close()


def _forget(spark: Any) -> None:
    """Keep the session of a server that does not answer from calling it again when the program ends."""
    with suppress(AttributeError):
        atexit.unregister(last_call(spark))


def _within(seconds: float, call: Callable[[], T], what: str) -> T:
    """Return the result of a call. Raise SparkUnreachable after `seconds`; the call keeps running in its thread."""
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
