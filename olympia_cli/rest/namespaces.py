"""Endpoints for namespaces."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import Response

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import NamespaceNotFound
from olympia_cli.iceberg import TableChanges
from olympia_cli.names import Kind, NamespaceName
from olympia_cli.rest.call import Call, View, answer, check_reachable, nothing, page
from olympia_cli.rest.catalog import ServedCatalog, check_properties
from olympia_cli.rest.failures import SEPARATOR, ErrorResponse, bad_request


def list_all(call: Call) -> Response:
    parent = call.query.get("parent")
    if parent:
        # namespaces have one level, so an existing parent has no children
        _check_exists(call, call.check_namespace(parent.split(SEPARATOR), "NoSuchNamespaceException"))
        return answer({"namespaces": []})
    found, token = call.read(lambda view: page(call.query, lambda after: _names(call, view, after), lambda name: name))
    return answer({"namespaces": [[name] for name in found], "next-page-token": token})


def _names(call: Call, view: View, after: str | None) -> Iterator[str]:
    last = None if after is None else NamespaceName(after)
    if isinstance(view, Snapshot):
        names: Iterator[str] = (name.namespace for name, _ in view.entries(Kind.NAMESPACE, after=last))
    else:
        names = (name.namespace for name in view.namespaces() if after is None or name.namespace > after)
    return (name for name in names if call.caller.may_see(name))


def create(call: Call) -> Response:
    document = call.document()
    name = call.check_namespace(document.get("namespace"))
    check_reachable(name)
    properties = texts(document.get("properties"), "properties")
    check_properties(properties, ServedCatalog.of_call(call, "").reach())
    call.change(lambda changes: changes.transaction.create_namespace(NamespaceName(name), properties), f"create {name}")
    return answer({"namespace": [name], "properties": properties})


def load(call: Call) -> Response:
    name = NamespaceName(call.namespace)
    found = call.read(lambda view: view.namespace(name))
    return answer({"namespace": [found.name.namespace], "properties": found.properties})


def exists(call: Call) -> Response:
    _check_exists(call, call.namespace)
    return nothing()


def drop(call: Call) -> Response:
    name = NamespaceName(call.namespace)
    call.change(lambda changes: changes.transaction.drop_namespace(name), f"drop {name}")
    return nothing()


def update_properties(call: Call) -> Response:
    document = call.document()
    name = NamespaceName(call.namespace)
    removals, updates = document.get("removals") or [], texts(document.get("updates"), "updates")
    if not isinstance(removals, list) or not all(isinstance(key, str) for key in removals):
        raise bad_request("removals is not a list of names")
    if twice := sorted({*removals} & updates.keys()):
        raise ErrorResponse(422, "UnprocessableEntityException", f"{twice[0]!a} is both set and removed")
    check_properties(updates, ServedCatalog.of_call(call, "").reach())

    def do(changes: TableChanges) -> set[str]:
        transaction = changes.transaction
        present = set(transaction.namespace(name).properties)
        removed = sorted(present & set(removals))
        if updates or removed:
            transaction.alter_namespace(name, updates, removed)
        return present

    present = call.change(do, f"alter {name}")
    missing = [key for key in dict.fromkeys(removals) if key not in present]
    removed = [key for key in dict.fromkeys(removals) if key in present]
    return answer({"updated": list(updates), "removed": removed, "missing": missing})


def texts(value: object, what: str) -> dict[str, str]:
    """Return the properties in a request, or an empty dict."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise bad_request(f"{what} is not an object of texts")
    return value


def _check_exists(call: Call, name: str) -> None:
    if not call.exists(NamespaceName(name)):
        raise NamespaceNotFound(f"there is no namespace {name}", hint="")
