"""A real server on loopback, in a thread, for one catalog."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from pyiceberg.catalog.rest import RestCatalog

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import Clock
from olympia_cli.rest.server import Running
from olympia_cli.rest.settings import Settings
from olympia_cli.storage.protocol import Store
from tests.helpers.check import check_catalog


@dataclass(frozen=True)
class Served:
    """The server, and what a client needs of it."""

    running: Running
    catalog: Catalog
    log: io.StringIO
    http: httpx.Client

    @property
    def url(self) -> str:
        return self.running.url

    def client(self, **properties: str) -> RestCatalog:
        """PyIceberg's own client."""
        return RestCatalog("rest", uri=self.url, **properties)

    @property
    def version(self) -> int:
        return self.catalog.snapshot().version

    def lines(self) -> list[dict[str, Any]]:
        """The log so far."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        return self.http.post(path, json=body, headers=headers)


@contextmanager
def serving(
    store: Store, options: dict[str, object] | None = None, clock: Clock | None = None, **settings: Any
) -> Iterator[Served]:
    """A server for the catalog on a store, which is made if it is not there. The catalog is sound at the end."""
    catalog = Catalog(store, clock)
    if not store.exists("vn/latest"):
        catalog = Catalog.create(store, clock=clock)
    log = io.StringIO()
    running = Running(catalog, Settings(port=0, **settings), options, store.uri.partition("://")[0], log)
    with running.in_background(), httpx.Client(base_url=running.url, timeout=60, verify=False) as http:
        yield Served(running, catalog, log, http)
    check_catalog(store)
