"""A standalone Spark cluster on loopback: one master and some workers, each a process of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

START_SECONDS = 180

# half of what Spark costs on little data is Java compiling well what runs once, and an eighth that it checks the code
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
# where such code has 48 MiB, Java throws it out and makes it again
SHORT_LIVED += " -XX:ReservedCodeCacheSize=240m"
"""Options of Java for tests."""

WORKERS = Path(__file__).parent / "workers"
DAEMON = {"spark.python.daemon.module": "spark_daemon"}
"""A setting of Spark whose Python finds what is in WORKERS."""

HOME = Path(str(find_spec("pyspark").origin)).parent
_MOST = ("spark-sql_", "spark-catalyst_", "spark-core_", "spark-sql-api_", "scala-library-", "hadoop-client-api-")
FIRST = ":".join(str(jar) for name in _MOST for jar in (HOME / "jars").glob(f"{name}*.jar"))
"""The Spark jars with most of the classes. Java searches nearly three hundred jars in order, so these come first."""

LITTLE_DATA = {
    **DAEMON,
    "spark.driver.extraClassPath": FIRST,
    "spark.executor.extraClassPath": FIRST,
    "spark.sql.shuffle.partitions": "2",
    # queries over some hundred rows run once each: compiling or replanning them takes longer than running them
    # than running them
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
}
"""Settings of Spark for tests."""

# ports of their own choice, so that several clusters fit on one machine
_ADDRESS = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


@dataclass
class Cluster:
    url: str
    folder: Path
    memory: str
    processes: list[subprocess.Popen[bytes]]
    """The master's first."""

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        return self.processes[1:]

    def start_worker(self, hidden: Sequence[Path] = ()) -> None:
        """Start another worker. It and its executors see empty folders in place of the `hidden` ones."""
        number = len(self.workers)
        own = ["-c", "1", "-m", self.memory, "-d", str(self.folder / f"work{number}"), self.url]
        within = _without(hidden, self.folder / "empty") if hidden else []
        log = self.folder / f"worker{number}.log"
        self.processes.append(_start("org.apache.spark.deploy.worker.Worker", [*_ADDRESS, *own], log, within))

    def await_worker(self, number: int) -> None:
        log = self.folder / f"worker{number}.log"
        _await(log, r"Successfully registered with master (\S+)", self.workers[number])

    def executor(self, number: int) -> int:
        """Return the process of a worker's executor, which Spark restarts when it dies."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    is_child = f"\nPPid:\t{self.workers[number].pid}\n" in (folder / "status").read_text()
                    if is_child and b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes():
                        return int(folder.name)
            time.sleep(0.1)
        raise RuntimeError(f"worker {number} has no executor")

    def stop_worker(self, number: int) -> None:
        """With its executors: they are there, take work, and do nothing."""
        os.killpg(self.workers[number].pid, signal.SIGSTOP)

    def kill_worker(self, number: int) -> None:
        """With its executors, at once, as a machine dies."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()


@contextmanager
def spark_cluster(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[Cluster]:
    """A running cluster, whose logs and work are below the folder; `memory` is what each worker has."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        log = folder / "master.log"
        started.append(_start("org.apache.spark.deploy.master.Master", _ADDRESS, log))
        url = _await(log, r"Starting Spark master at (spark://\S+)", started[0])
        cluster = Cluster(url, folder, memory, started)
        for _ in range(workers):
            cluster.start_worker()
        for number in range(workers):
            cluster.await_worker(number)
        yield cluster
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def python_without_this_package(folder: Path) -> str:
    """A Python that has all that is installed here, but for what is installed in place: this very package."""
    import pyarrow

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    installed = Path(pyarrow.__file__).parent.parent
    site = next((folder / "lib").glob("python*/site-packages"))
    # .pth files in a folder that a .pth file names are not followed
    (site / "installed.pth").write_text(f"{installed}\n{WORKERS}\n")
    return str(folder / "bin" / "python")


def _without(hidden: Sequence[Path], empty: Path) -> list[str]:
    """The words before a command that runs it where other folders lie over some of those that are there, as where a
    mount is missing."""
    words = []
    for number, path in enumerate(hidden):
        cover = empty / str(number)
        cover.mkdir(parents=True)
        words.append(f"mount --bind {shlex.quote(str(cover))} {shlex.quote(str(path))}")
    # a user who is not root can become root in a new user namespace
    own = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
    return [*own, "sh", "-c", " && ".join([*words, 'exec "$@"']), "sh"]


def _start(program: str, arguments: Sequence[str], log: Path, within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    ours = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_CLASSPATH": FIRST}
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED, **ours}
    with log.open("wb") as out:
        return subprocess.Popen(
            [*within, str(HOME / "bin" / "spark-class"), program, *arguments],
            stdout=out,
            stderr=out,
            env=environment,
            cwd=log.parent,
            start_new_session=True,
        )


def _await(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + START_SECONDS
    while True:
        text = log.read_text(errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"Spark did not start:\n{text[-2000:]}")
        time.sleep(0.1)
