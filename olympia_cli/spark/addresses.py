"""Spark's addresses: check the syntax of masters and Connect servers, and whether a server listens."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from olympia_cli.errors import InvalidOption, SparkUnreachable, quoted
from olympia_cli.masking import masked

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
