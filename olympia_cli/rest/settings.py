"""Settings of the server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from olympia_cli.errors import InvalidOption

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the server. Durations are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8181
    tokens: str | None = None
    without_tokens: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    read_only: bool = False
    locations: tuple[str, ...] = ()
    """Allowed locations of tables. Default: the catalog's own location for tables or, without tokens, any."""
    keep_files: bool = False
    """True if clients are told to delete no files of tables."""
    client_properties: Mapping[str, str] = field(default_factory=dict)
    max_body_bytes: int = 16 * MIB
    max_requests: int = 64
    request_timeout: float = 60.0
    stop_timeout: float = 30.0
    cache_bytes: int = 64 * MIB

    def check(self) -> None:
        """Raise InvalidOption for invalid or unsafe settings."""
        if not 0 <= self.port <= 65_535:
            raise InvalidOption(f"{self.port} is not a port", hint="choose 1 to 65535, or 0 for any that is free")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InvalidOption("TLS needs a certificate and its key", hint="give --tls-cert and --tls-key")
        if self.tokens and self.without_tokens:
            raise InvalidOption("--tokens and --without-tokens exclude each other", hint="leave one out")
        if not self.is_loopback and not self.tokens and not self.without_tokens:
            raise InvalidOption(
                f"without tokens, everyone who reaches {self.host} could change the catalog",
                hint="pass --tokens FILE, or confirm with --without-tokens",
            )
        for what, value in (("body", self.max_body_bytes), ("number of requests", self.max_requests)):
            if value < 1:
                raise InvalidOption(f"a {what} of {value} is too small", hint="choose 1 or more")
        for what, seconds in (("request", self.request_timeout), ("stop", self.stop_timeout)):
            if seconds <= 0:
                raise InvalidOption(f"the {what} timeout must be above 0", hint="write 30s, for example")

    @property
    def is_loopback(self) -> bool:
        """True if only programs on this machine can reach the server."""
        return is_loopback(self.host)


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
