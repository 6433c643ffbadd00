"""Spark's Java program: check that it can run here, and start it so that its output stays out of sight unless
requested."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from olympia_cli.errors import OlympiaError, SparkFailed, SparkMissing
from olympia_cli.spark.failures import explain

OLDEST_JAVA = 17
_SECRET = re.compile(r"secret|passw|token|credential|(access|account)[.-]?key", re.IGNORECASE)
"""Names of settings with secret values: Spark's own pattern, extended."""
_TAIL = 65_536
_NAMELESS = "pyspark-shell"
"""Spark's name for an application without a name."""


def need_pyspark() -> None:
    """Raise SparkMissing unless PySpark 4.0 or newer is installed."""
    try:
        import pyspark
    except ImportError:
        raise SparkMissing("PySpark is not installed", hint="install olympia-cli[spark]") from None
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise SparkMissing(f"PySpark {pyspark.__version__} is too old", hint="install olympia-cli[spark]: 4.0 or newer")


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


def submitted() -> bool:
    """Return True if spark-submit runs this process, and so Spark's Java program runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def launch(settings: Mapping[str, str], master: str | None, verbose: bool) -> Launched:
    """Start the Java program with the settings that are fixed at its start. Its output goes to stderr if `verbose`,
    else to a file that is read only if the start fails."""
    from pyspark import SparkConf, SparkContext, java_gateway

    silence()
    log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the other process writes to it until it ends
    if SparkContext._gateway is not None:
        # a process has one for all its sessions
        return Launched(SparkContext._gateway, log)
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
    SparkContext._ensure_initialized(gateway=gateway)
    return Launched(gateway, log)


def unsaid(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that neither a flag nor spark-defaults.conf sets. Java must be running."""
    from pyspark import SparkConf

    said = SparkConf()
    return {name: value for name, value in settings.items() if said.get(name) in (None, _NAMELESS)}


def silence() -> None:
    """Keep PySpark's log records off stderr in a program that configures no logging."""
    from pyspark.logger import PySparkLogger

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
