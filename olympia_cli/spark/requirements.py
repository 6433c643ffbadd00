"""Requirements of a Spark session: PySpark, Java, and a server that listens at its address.

This module needs no PySpark.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from contextlib import suppress
from urllib.parse import urlsplit

from olympia_cli.errors import InvalidOption, SparkMissing, SparkUnreachable, quoted
from olympia_cli.masking import masked

OLDEST_JAVA = 17


def need_spark() -> None:
    """Raise SparkMissing unless a session can be started on this machine."""
    need_pyspark()
    need_java()


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
