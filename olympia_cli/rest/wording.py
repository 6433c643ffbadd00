"""Error messages in the words of Iceberg's own catalogs, which users search for and clients' tests expect."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from olympia_cli.rest.call import SEPARATOR, Call
from olympia_cli.rest.failures import Failure

_REQUIREMENTS = (
    ("Table already exists", "Requirement failed: table already exists"),
    ("Table UUID does not match", "Requirement failed: UUID does not match"),
    ("last assigned field id has changed", "last assigned field id changed"),
    ("last assigned partition id has changed", "last assigned partition id changed"),
    ("current schema id has changed", "current schema changed"),
    ("default spec id has changed", "default partition spec changed"),
    ("default sort order id has changed", "default sort order changed"),
)
"""PyIceberg's messages for requirements that are not met, and those of the Java library."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The names in a request: the object that should exist (`missing`), and the one that should not (`taken`)."""

    namespace: str = ""
    missing: str = ""
    taken: str = ""


def worded(failure: Failure, operation: str, call: Call) -> Failure:
    """Return the failure with the message that clients expect."""
    names, kind = _names(call), "View" if "View" in operation else "Table"
    message = failure.message
    match failure.type:
        case "NoSuchNamespaceException" if names.namespace:
            message = f"Namespace does not exist: {names.namespace}"
        case "NamespaceNotEmptyException":
            message = f"Namespace {names.namespace} is not empty"
        case "NoSuchTableException" | "NoSuchViewException" if names.missing:
            message = f"{failure.type.removeprefix('NoSuch').removesuffix('Exception')} does not exist: {names.missing}"
        case "AlreadyExistsException" if not names.taken:
            message = f"Namespace already exists: {names.namespace}"
        case "AlreadyExistsException" if operation.startswith("rename"):
            there = "View" if message.startswith("View") else "Table" if message.startswith("Table") else kind
            message = f"Cannot rename {names.missing} to {names.taken}. {there} already exists"
        case "AlreadyExistsException" if not message.startswith("View with same name"):
            other = kind == "View" and message.startswith(("Table ", "the table "))
            message = f"{'Table with same name' if other else kind} already exists: {names.taken}"
        case "CommitFailedException":
            for theirs, ours in _REQUIREMENTS:
                message = message.replace(theirs, ours)
    return Failure(failure.status, failure.type, message, failure.headers)


def _names(call: Call) -> _Names:
    parts = {key: unquote(value, errors="replace").replace(SEPARATOR, ".") for key, value in call.parts.items()}
    body = _body(call)
    if "source" in body:
        old, new = (_identifier(body.get(key)) for key in ("source", "destination"))
        return _Names(new[0], ".".join(old), ".".join(new))
    if "namespace" not in parts:
        return _Names(_namespace(body.get("namespace")) or call.query.get("parent", "").replace(SEPARATOR, "."))
    named = parts.get("table") or parts.get("view") or (body.get("name") if isinstance(body.get("name"), str) else "")
    full = f"{parts['namespace']}.{named}" if named else ""
    return _Names(parts["namespace"], full, full)


def _body(call: Call) -> dict[str, Any]:
    try:
        found = json.loads(call.body) if call.body else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _identifier(value: object) -> tuple[str, str]:
    found = value if isinstance(value, dict) else {}
    return _namespace(found.get("namespace")), str(found.get("name", ""))


def _namespace(value: object) -> str:
    return ".".join(str(part) for part in value) if isinstance(value, list) else ""
