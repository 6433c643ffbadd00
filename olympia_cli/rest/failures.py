"""Error responses, with the status and type of Iceberg's REST definition."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from starlette.responses import Response

from olympia_cli import errors
from olympia_cli.errors import OlympiaError
from olympia_cli.masking import masked

if TYPE_CHECKING:
    from olympia_cli.rest.call import Call

R = TypeVar("R")

SEPARATOR = "\x1f"
"""Separates the levels of a namespace in a path."""
RETRY_AFTER = {"Retry-After": "1"}
UNKNOWN = "CommitStateUnknownException"
"""The error type for an unknown outcome."""


class ErrorResponse(Exception):
    """An error response."""

    def __init__(self, status: int, type: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.message = masked(message)
        super().__init__(self.message)
        self.status = status
        self.type = type
        self.headers = dict(headers or {})

    def response(self) -> Response:
        # non-ASCII characters are escaped, because bytes from a catalog must not reach terminals or browsers as text
        body = {"error": {"message": self.message, "type": self.type, "code": self.status}}
        return Response(json.dumps(body), self.status, self.headers, media_type="application/json")


def bad_request(message: str) -> ErrorResponse:
    return ErrorResponse(400, "BadRequestException", message)


def forbidden(message: str) -> ErrorResponse:
    return ErrorResponse(403, "ForbiddenException", message)


NONSENSE = (ValueError, TypeError, LookupError, AttributeError, StopIteration, NotImplementedError, RecursionError)
"""PyIceberg's exceptions for an invalid document or table update."""


_LAYOUTS = ("schema", "spec", "partition-spec", "sort-order", "write-order")


def parsed(parse: Callable[..., R], *given: object, field: str = "") -> R:
    """Parse a part of a request with PyIceberg's models. The error names the field of the request."""
    try:
        return parse(*given)
    except NONSENSE as error:
        raise bad_request(_first_line(error, field)) from error


def objects(document: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """Return a list of objects in a request, without their null fields.

    A missing or null list is empty. Iceberg's own parser takes null fields for missing ones.
    """
    value = document.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise bad_request(f"{field} is not a list of objects")
    return [without_nulls(item) for item in value]


def without_nulls(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object that are not null; of a schema, a partition spec and a sort order, too."""
    return {
        field: without_nulls(value) if field in _LAYOUTS and isinstance(value, dict) else value
        for field, value in found.items()
        if value is not None
    }


_STATUS: dict[type[OlympiaError], tuple[int, str]] = {
    errors.NamespaceNotFound: (404, "NoSuchNamespaceException"),
    errors.TableNotFound: (404, "NoSuchTableException"),
    errors.ViewNotFound: (404, "NoSuchViewException"),
    errors.VersionNotFound: (404, "NoSuchVersionException"),
    errors.ExportNotFound: (404, "NoSuchVersionException"),
    errors.TransactionNotFound: (404, "NoSuchTransactionException"),
    errors.NamespaceExists: (409, "AlreadyExistsException"),
    errors.TableExists: (409, "AlreadyExistsException"),
    errors.ViewExists: (409, "AlreadyExistsException"),
    errors.NamespaceNotEmpty: (409, "NamespaceNotEmptyException"),
    errors.CommitConflict: (409, "CommitFailedException"),
    errors.SavedElsewhere: (409, "CommitFailedException"),
    # not 409, because a retry cannot succeed
    errors.TransactionExpired: (400, "TransactionClosedException"),
    errors.TransactionClosed: (400, "TransactionClosedException"),
    errors.Refused: (403, "ForbiddenException"),
    errors.CommitUnknown: (500, UNKNOWN),
    errors.OutcomeUnknown: (500, UNKNOWN),
}

_FOREIGN = {
    "BadRequestError": (400, "BadRequestException"),
    "NoSuchNamespaceError": (404, "NoSuchNamespaceException"),
    "NoSuchTableError": (404, "NoSuchTableException"),
    "NoSuchViewError": (404, "NoSuchViewException"),
    "NamespaceAlreadyExistsError": (409, "AlreadyExistsException"),
    "TableAlreadyExistsError": (409, "AlreadyExistsException"),
    "ViewAlreadyExistsError": (409, "AlreadyExistsException"),
    "NamespaceNotEmptyError": (409, "NamespaceNotEmptyException"),
    "CommitFailedException": (409, "CommitFailedException"),
    UNKNOWN: (500, UNKNOWN),
    "ValidationError": (400, "BadRequestException"),
}
"""PyIceberg's errors by name, so that lists can be read without importing it."""


def failure_of(error: Exception, *, commits: bool = False) -> ErrorResponse:
    """Return the response for an error. With `commits`, a status of 500 tells the client that the outcome is
    unknown.
    """
    if isinstance(error, ErrorResponse):
        return error
    if isinstance(error, OlympiaError):
        return _known(error, commits)
    if isinstance(error, ValueError) and isinstance(error.__cause__, OlympiaError):
        # raised by the catalog for PyIceberg
        return _known(error.__cause__, commits)
    if type(error).__name__ in _FOREIGN and type(error).__module__.startswith(("pyiceberg", "pydantic")):
        return ErrorResponse(*_FOREIGN[type(error).__name__], str(error).partition("\n")[0][:500])
    kind = UNKNOWN if commits else "InternalServerError"
    return ErrorResponse(500, kind, f"a bug: {type(error).__name__}; see the server's log")


def _known(error: OlympiaError, commits: bool) -> ErrorResponse:
    if type(error) in _STATUS:
        return ErrorResponse(*_STATUS[type(error)], str(error))
    if error.exit_code == 2:
        return ErrorResponse(400, "BadRequestException", str(error))
    if isinstance(error, errors.StorageFailed):
        # nothing was done, so a retry is safe
        return ErrorResponse(503, "ServiceUnavailableException", str(error), RETRY_AFTER)
    if isinstance(error, errors.TransactionTooLarge):
        return ErrorResponse(400, "BadRequestException", error.message)
    # an unreadable catalog, or a store that denies the server access: clients cannot help, and nothing was committed
    return ErrorResponse(503 if commits else 500, "InternalServerError", str(error))


def _first_line(error: Exception, field: str) -> str:
    if type(error).__module__.startswith("pydantic") and hasattr(error, "errors"):
        found = error.errors()[0]
        where = ".".join(str(part) for part in (*([field] if field else []), *found.get("loc", ())))
        return f"the request is malformed: {where}: {found.get('msg', '')}"[:500]
    return f"the request is invalid: {str(error).partition(chr(10))[0][:500] or type(error).__name__}"


# Error messages in the words of Iceberg's own catalogs, which users search for and clients' tests expect.

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
class _RequestNames:
    """The names in a request: the object that should exist (`missing`), and the one that should not (`taken`)."""

    namespace: str = ""
    missing: str = ""
    taken: str = ""


def worded(failure: ErrorResponse, operation: str, call: Call) -> ErrorResponse:
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
    return ErrorResponse(failure.status, failure.type, message, failure.headers)


def _names(call: Call) -> _RequestNames:
    parts = {key: unquote(value, errors="replace").replace(SEPARATOR, ".") for key, value in call.parts.items()}
    body = _body(call)
    if "source" in body:
        old, new = (_identifier(body.get(key)) for key in ("source", "destination"))
        return _RequestNames(new[0], ".".join(old), ".".join(new))
    if "namespace" not in parts:
        return _RequestNames(_namespace(body.get("namespace")) or call.query.get("parent", "").replace(SEPARATOR, "."))
    named = parts.get("table") or parts.get("view") or (body.get("name") if isinstance(body.get("name"), str) else "")
    full = f"{parts['namespace']}.{named}" if named else ""
    return _RequestNames(parts["namespace"], full, full)


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
