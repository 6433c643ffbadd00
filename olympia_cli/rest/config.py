"""The configuration for clients: the server's operations, and the prefix for the requested warehouse."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from olympia_cli.catalog import distributed
from olympia_cli.catalog.references import resolve
from olympia_cli.errors import quoted
from olympia_cli.names import parse_reference
from olympia_cli.rest.call import Call, answer
from olympia_cli.rest.failures import bad_request
from olympia_cli.rest.idempotency import LIFETIME
from olympia_cli.rest.prefixes import Prefix, parse_warehouse

NAME = "olympia"
"""A warehouse name that always means this catalog, for clients that require one."""


def config(call: Call, endpoints: Iterable[tuple[str, str, bool]]) -> Response:
    """Return the configuration. `endpoints` are method, path, and True for operations that write."""
    prefix = _prefix(call)
    writes = prefix.at is None and call.caller.writes and not call.service.settings.read_only
    listed = [
        f"{method} {path.replace('/v1/', '/v1/{prefix}/', 1)}"
        for method, path, write in endpoints
        if writes or not write
    ]
    overrides = {"prefix": prefix.text} if prefix.text else {}
    told = {
        "olympia.version": str(call.latest.version),
        # properties that the REST definition leaves open
        "olympia.multi-table-commit": "atomic",
        "olympia.time-travel": "prefix at/<version, time or export>",
        "olympia.purge": "keeps-files",
    }
    return answer(
        {
            "defaults": {**told, **call.service.settings.client_properties},
            "overrides": overrides,
            "endpoints": listed,
            "idempotency-key-lifetime": LIFETIME,
        }
    )


def _prefix(call: Call) -> Prefix:
    """Return the prefix for the client's warehouse. A reference is resolved now, so that the client keeps this
    version.
    """
    warehouse = call.query.get("warehouse", "")
    found = parse_warehouse(warehouse)
    if found is None:
        catalog = call.service.catalog
        if warehouse.rstrip("/") in ("", NAME, catalog.store.uri.rstrip("/"), call.latest.definition.id):
            return Prefix()
        raise bad_request(
            f"there is no warehouse {quoted(warehouse, 200)}: leave it out, or name {NAME}, at/REFERENCE or txn/ID"
        )
    if found.at is not None:
        now = call.service.catalog.clock.now_millis()
        return Prefix(at=f"v{resolve(parse_reference(found.at), call.latest, now).version}")
    assert found.txn is not None
    distributed.load(call.service.catalog, found.txn)
    return found
