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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 180

# half of what Spark costs on little data is Java compiling well what runs once
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java for tests."""


@dataclass
class Cluster:
    url: str
    master: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def stop_worker(self, number: int) -> None:
        """With its executors: they are there, take work, and do nothing."""
        os.killpg(self.workers[number].pid, signal.SIGSTOP)

    def kill_worker(self, number: int) -> None:
        """With its executors, at once, as a machine dies."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()


@contextmanager
def spark_cluster(folder: Path, workers: int = 2, memory: str = "1g", hidden: Sequence[Path] = ()) -> Iterator[Cluster]:
    """A running cluster, whose logs and work are below the folder; `memory` is what each worker has. The last worker
    and its executors see empty folders where the `hidden` ones are."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        log = folder / "master.log"
        # ports of their own choice, so that several clusters fit on one machine
        address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = _start("org.apache.spark.deploy.master.Master", address, log)
        started.append(master)
        url = _await(log, r"Starting Spark master at (spark://\S+)", master)
        cluster = Cluster(url, master)
        for number in range(workers):
            place = [*address, "-c", "1", "-m", memory, "-d", str(folder / f"work{number}"), url]
            log = folder / f"worker{number}.log"
            within = _without(hidden, folder / "empty") if hidden and number == workers - 1 else []
            process = _start("org.apache.spark.deploy.worker.Worker", place, log, within)
            started.append(process)
            cluster.workers.append(process)
        for number, process in enumerate(cluster.workers):
            _await(folder / f"worker{number}.log", r"Successfully registered with master (\S+)", process)
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
    (site / "installed.pth").write_text(f"{installed}\n")
    return str(folder / "bin" / "python")


def _without(hidden: Sequence[Path], empty: Path) -> list[str]:
    """The words before a command that runs it where other folders lie over some of those that are there, as where a
    mount is missing."""
    words = []
    for number, path in enumerate(hidden):
        cover = empty / str(number)
        cover.mkdir(parents=True)
        words.append(f"mount --bind {shlex.quote(str(cover))} {shlex.quote(str(path))}")
    # whoever is not root may be it in a namespace of his own
    own = ["unshare", "-m" if os.geteuid() == 0 else "-rm"]
    return [*own, "sh", "-c", " && ".join([*words, 'exec "$@"']), "sh"]


def _start(program: str, arguments: list[str], log: Path, within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    ours = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED}
    environment = {**os.environ, "SPARK_HOME": str(home), **ours}
    with log.open("wb") as out:
        return subprocess.Popen(
            [*within, str(home / "bin" / "spark-class"), program, *arguments],
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
