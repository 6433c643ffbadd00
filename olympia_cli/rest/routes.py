"""All operations of the server with their paths, and the configuration for clients."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from olympia_cli.catalog import distributed
from olympia_cli.catalog.references import resolve
from olympia_cli.errors import quoted
from olympia_cli.names import parse_reference
from olympia_cli.ops.inspect import describe_saved
from olympia_cli.rest import namespaces, tables, views
from olympia_cli.rest.app import LIFETIME, Endpoint
from olympia_cli.rest.call import Call, Prefix, answer, nothing, parse_warehouse
from olympia_cli.rest.failures import bad_request, forbidden
from olympia_cli.rest.page import document, objects, tree, versions
from olympia_cli.rest.page.document import Page, with_error_page

# The configuration for clients: the server's operations, and the prefix for the requested warehouse.

NAME = "olympia"
"""A warehouse name that always means this catalog, for clients that require one."""


def _config(call: Call) -> Response:
    prefix = _prefix(call)
    writes = prefix.at is None and call.caller.writes and not call.service.settings.read_only
    endpoints = [
        f"{operation.method} {operation.path.replace('/v1/', '/v1/{prefix}/', 1)}"
        for operation in ICEBERG
        if writes or not operation.writes
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
            "endpoints": endpoints,
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


# Distributed transactions, health and metrics.


def _begin(call: Call) -> Response:
    if call.prefix != Prefix():
        raise bad_request("a transaction has no transactions inside")
    _check_whole(call)
    begun = distributed.begin(call.service.catalog)
    shown = describe_saved(begun.saved, call.service.catalog)
    return answer({**shown, "prefix": Prefix(txn=begun.id).text})


def _commit(call: Call) -> Response:
    """Commit the transaction in the prefix."""
    found = distributed.load(call.service.catalog, _transaction(call))
    message = call.document().get("message", "") if call.body else ""
    if not isinstance(message, str):
        raise bad_request("message is not text")
    return answer({"version": found.commit(message, by=call.caller.name).version})


def _abort(call: Call) -> Response:
    distributed.abort(call.service.catalog, distributed.find(call.service.catalog.store, _transaction(call)))
    return nothing()


def _transaction(call: Call) -> str:
    if call.prefix.txn is None:
        raise bad_request("the prefix names no transaction")
    _check_whole(call)
    return call.prefix.txn


def _check_whole(call: Call) -> None:
    """Raise ErrorResponse for tokens with limited namespaces: a transaction may contain changes in any namespace."""
    if call.caller.namespaces is not None:
        raise forbidden("the token is not for the whole catalog")


def _healthy(call: Call) -> Response:
    """Return 200 if the latest version can be read and, where tokens are required, some token is accepted."""
    return answer({"status": "ok", "version": call.latest.version, **call.service.access.health()})


def _metrics(call: Call) -> Response:
    service = call.service
    gauges = {
        "version": ("The latest version.", float(call.latest.version)),
        "requests_under_way": ("Requests in progress.", float(service.record.under_way)),
        "cache_bytes": ("Bytes of cached responses.", float(service.bodies.size)),
        "commits_total": ("Commits by this server.", float(service.commits.groups)),
        "committed_changes_total": ("Changes in these commits.", float(service.commits.changes)),
    }
    return PlainTextResponse(service.record.prometheus(gauges), media_type="text/plain; version=0.0.4")


# All operations of the server with their paths.

_NAMESPACE = "/v1/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"

ICEBERG = (
    # the most frequent operations first
    Endpoint("loadTable", "GET", _TABLE, tables.load, early=tables.load_known),
    Endpoint("updateTable", "POST", _TABLE, tables.commit, writes=True, commits=True),
    Endpoint("tableExists", "HEAD", _TABLE, tables.exists),
    Endpoint("dropTable", "DELETE", _TABLE, tables.drop, writes=True),
    Endpoint("loadCredentials", "GET", f"{_TABLE}/credentials", tables.credentials),
    Endpoint("reportMetrics", "POST", f"{_TABLE}/metrics", tables.report_metrics),
    Endpoint("listTables", "GET", f"{_NAMESPACE}/tables", tables.list_all),
    Endpoint("createTable", "POST", f"{_NAMESPACE}/tables", tables.create, writes=True),
    Endpoint("registerTable", "POST", f"{_NAMESPACE}/register", tables.register, writes=True),
    Endpoint("renameTable", "POST", "/v1/tables/rename", tables.rename, writes=True),
    Endpoint("commitTransaction", "POST", "/v1/transactions/commit", tables.commit_all, writes=True, commits=True),
    Endpoint("listNamespaces", "GET", "/v1/namespaces", namespaces.list_all),
    Endpoint("createNamespace", "POST", "/v1/namespaces", namespaces.create, writes=True),
    Endpoint("loadNamespaceMetadata", "GET", _NAMESPACE, namespaces.load),
    Endpoint("namespaceExists", "HEAD", _NAMESPACE, namespaces.exists),
    Endpoint("dropNamespace", "DELETE", _NAMESPACE, namespaces.drop, writes=True),
    Endpoint("updateProperties", "POST", f"{_NAMESPACE}/properties", namespaces.update_properties, writes=True),
    Endpoint("listViews", "GET", f"{_NAMESPACE}/views", views.list_all),
    Endpoint("createView", "POST", f"{_NAMESPACE}/views", views.create, writes=True),
    Endpoint("loadView", "GET", _VIEW, views.load),
    Endpoint("replaceView", "POST", _VIEW, views.replace, writes=True, commits=True),
    Endpoint("viewExists", "HEAD", _VIEW, views.exists),
    Endpoint("dropView", "DELETE", _VIEW, views.drop, writes=True),
    Endpoint("registerView", "POST", f"{_NAMESPACE}/register-view", views.register, writes=True),
    Endpoint("renameView", "POST", "/v1/views/rename", views.rename, writes=True),
)
"""The operations of the Iceberg REST definition."""


def _page(name: str, path: str, show: Page) -> Endpoint:
    return Endpoint(name, "GET", path, with_error_page(show), browser=True)


OPERATIONS = (
    *ICEBERG,
    Endpoint("getConfig", "GET", "/v1/config", _config),
    # our own operations on distributed transactions; changes inside them use a prefix
    Endpoint("beginTransaction", "POST", "/v1/transactions", _begin, writes=True),
    Endpoint("endTransaction", "POST", "/v1/commit", _commit, writes=True, commits=True),
    Endpoint("abortTransaction", "POST", "/v1/abort", _abort, writes=True),
    Endpoint("getToken", "POST", "/v1/oauth/tokens", lambda call: nothing(), public=True, form=True),
    Endpoint("healthz", "GET", "/healthz", _healthy, public=True),
    Endpoint("metrics", "GET", "/metrics", _metrics, browser=True),
    Endpoint("style", "GET", "/page.css", lambda call: document.sheet(), public=True),
    _page("objects", "/", objects.objects),
    _page("namespace", "/namespace", objects.namespace),
    _page("table", "/table", objects.table),
    _page("files", "/files", objects.files),
    _page("view", "/view", objects.view),
    _page("versions", "/versions", versions.versions),
    _page("version", "/version", versions.version),
    _page("diff", "/diff", versions.compare),
    _page("tree", "/tree", tree.tree),
    _page("node", "/node", tree.node),
    _page("health", "/health", document.health_page),
)
"""All operations of the server."""
