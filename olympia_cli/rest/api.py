"""The ASGI application: authenticate a request, run its operation, send the response, and log it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from olympia_cli.rest.access import Access, Caller
from olympia_cli.rest.call import SEPARATOR, Call, split_prefix
from olympia_cli.rest.failures import RETRY_AFTER, UNKNOWN, Failure, bad_request, failure_of, forbidden
from olympia_cli.rest.idempotency import Idempotency
from olympia_cli.rest.record import Record
from olympia_cli.rest.service import Service

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


DRAINED = 4
"""A body that is too large is read and discarded up to this multiple of the limit. A client that is cut off while it
sends would not see the response."""

Handler = Callable[[Call], Response]
Early = Callable[[Call], Response | None]


@dataclass(frozen=True, slots=True)
class Operation:
    """An endpoint. `run` may wait for stores, in a thread. `early` may return a cached response at once."""

    name: str
    method: str
    path: str
    run: Handler
    writes: bool = False
    early: Early | None = None
    commits: bool = False
    """True if a status of 500 means that the outcome of the commit is unknown."""
    public: bool = False
    browser: bool = False
    """True for pages for browsers, which send the token as a password. They show the whole catalog."""
    form: bool = False
    """True for the exchange of a client's secret for a token, whose request is a form."""


class Api:
    """The ASGI application."""

    def __init__(self, service: Service, operations: Sequence[Operation], access: Access, record: Record) -> None:
        self.service = service
        self.record = record
        self._access = access
        self._settings = service.settings
        self._idempotency = Idempotency(service.catalog.clock)
        self._routes = [
            (Route(operation.path, _unused, methods=[operation.method]), operation) for operation in operations
        ]
        for route, operation in self._routes:
            # Starlette adds HEAD to GET routes, but here HEAD is an operation of its own
            route.methods = {operation.method}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"no such protocol: {scope['type']}")
        began, asked = time.perf_counter(), _Asked(scope)
        told = _Told(send, lambda: self._log(asked, told, time.perf_counter() - began))
        self.record.under_way += 1
        try:
            response = await self._answered(asked, receive)
            async with asyncio.timeout(self._settings.request_timeout):
                await response(scope, receive, told.send)
        except ClientDisconnect:
            asked.error = "the client went away"
        except TimeoutError:
            self.record.event("unread", path=asked.path, client=_client(scope))
            raise
        finally:
            self.record.under_way -= 1
            told.end()

    def _log(self, asked: _Asked, told: _Told, seconds: float) -> None:
        self.record.request(
            asked.method,
            asked.path,
            asked.operation.name if asked.operation else "none",
            told.status,
            seconds,
            by=asked.caller.name if asked.caller else None,
            client=_client(asked.scope),
            bytes=told.size,
            error=asked.error,
        )

    async def _answered(self, asked: _Asked, receive: Receive) -> Response:
        try:
            return await self._answer(asked, receive)
        except ClientDisconnect:
            raise
        except Exception as error:
            failure = failure_of(error)
            asked.error = f"{failure.type}: {failure.message}"
            cause = error.__cause__ if isinstance(error, Failure) else error
            cause = None if isinstance(cause, Failure) else cause
            if failure.status >= 500 and cause is not None:
                asked.error += f" ({type(cause).__name__}: {cause})"
            return failure.response()

    async def _answer(self, asked: _Asked, receive: Receive) -> Response:
        self._refresh_tokens()
        if asked.header("content-length") is not None and asked.header("transfer-encoding") is not None:
            # an ambiguous end of the request (RFC 9112, section 6.3) allows request smuggling
            raise Failure(400, "BadRequestException", "a request has a length or is chunked, not both", _CLOSE)
        operation = self._find(asked)
        if operation.public:
            caller = Caller("")
        else:
            self._access.check_host(asked.header("host"))
            caller = asked.caller = self._access.caller(asked.header("authorization"), browser=operation.browser)
        self._check_allowed(operation, caller)
        if self.record.under_way > self._settings.max_requests:
            raise Failure(503, "SlowDownException", "too many requests at once", RETRY_AFTER)
        body = await self._body(asked, receive)
        content = (asked.header("content-type") or "").partition(";")[0].strip().lower()
        if operation.form:
            return self._access.exchange(body, asked.header("authorization"))
        if asked.method == "POST" and content != "application/json":
            # other content types can be sent by a form on another site's page
            raise bad_request("a POST must be sent as application/json")
        work = partial(self._work, operation, asked, caller, body)
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                if not operation.writes:
                    return await work()
                key = f"{asked.method} {asked.path}?".encode() + asked.scope["query_string"] + b"\n" + body
                return await self._idempotency.once(caller.name, asked.header("idempotency-key"), key, work)
        except TimeoutError:
            # the operation's thread continues until the store's time limit
            kind = UNKNOWN if operation.commits else "GatewayTimeoutException"
            raise Failure(504, kind, "the store did not answer in time") from None

    async def _work(self, operation: Operation, asked: _Asked, caller: Caller, body: bytes) -> Response:
        request, call = Request(asked.scope), None
        try:
            latest = await self.service.latest.snapshot()
            call = Call(
                self.service, asked.prefix, caller, asked.parts, request.query_params, request.headers, body, latest
            )
            known = operation.early(call) if operation.early is not None else None
            if known is not None:
                return known
            return await self.service.latest.run(partial(operation.run, call))
        except Exception as error:
            failure = failure_of(error, commits=operation.commits)
            raise failure if call is None else worded(failure, operation.name, call) from error

    def _refresh_tokens(self) -> None:
        """Reload the tokens. Log a problem with every request that meets it."""
        tokens = self._access.tokens
        if tokens is not None:
            tokens.refresh()
            if tokens.problem is not None:
                self.record.event("tokens", state=tokens.state, error=tokens.problem)

    def _find(self, asked: _Asked) -> Operation:
        others: set[str] = set()
        for route, operation in self._routes:
            match, found = route.matches(asked.scope)
            if match is Match.FULL:
                asked.operation, asked.parts = operation, found["path_params"]
                return operation
            if match is Match.PARTIAL:
                others.add(operation.method)
        if others:
            allowed = {"Allow": ", ".join(sorted(others))}
            raise Failure(405, "MethodNotAllowedException", "this method is not allowed here", allowed)
        raise Failure(404, "NoSuchEndpointException", "there is no such endpoint")

    def _check_allowed(self, operation: Operation, caller: Caller) -> None:
        if operation.writes and self._settings.read_only:
            raise forbidden("this server is read-only")
        if operation.writes and not caller.writes:
            raise forbidden("the token is read-only")
        if operation.browser and caller.namespaces is not None:
            raise forbidden("the token is not for the whole catalog")

    async def _body(self, asked: _Asked, receive: Receive) -> bytes:
        """Return the body. Raise Failure if it is too large or too slow."""
        most = self._settings.max_body_bytes
        declared = asked.header("content-length")
        if declared is not None and (not declared.isdigit() or int(declared) > DRAINED * most):
            raise _too_large(most)
        if declared in (None, "0") and asked.header("transfer-encoding") is None:
            return b""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                while size <= DRAINED * most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    size += len(message.get("body", b""))
                    if size <= most:
                        chunks.append(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Failure(408, "RequestTimeoutException", "the request came too slowly", _CLOSE) from None
        if size > most:
            raise _too_large(most)
        return b"".join(chunks)


class _Asked:
    """The facts known about a request so far."""

    def __init__(self, scope: Scope) -> None:
        # the encoded path, because a name may contain an encoded slash
        self.path = scope.get("raw_path", b"").decode("ascii", "replace") or scope["path"]
        self.prefix, path = split_prefix(self.path)
        self.scope: Scope = {**scope, "path": path, "root_path": ""}
        self.method: str = scope["method"]
        self.operation: Operation | None = None
        self.caller: Caller | None = None
        self.parts: dict[str, str] = {}
        self.error: str | None = None

    def header(self, name: str) -> str | None:
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == wanted), None)


class _Told:
    """Forwards a response, and records its status and size. The request is logged before the end of the response is
    sent.
    """

    def __init__(self, send: Send, log: Callable[[], None]) -> None:
        self._send = send
        self._log: Callable[[], None] | None = log
        self.status = 0
        self.size = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size += len(message.get("body", b""))
            if not message.get("more_body", False):
                self.end()
        await self._send(message)

    def end(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log()


def _client(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


_CLOSE = {"Connection": "close"}


def _too_large(most: int) -> Failure:
    # the rest of the body is not read
    return Failure(413, "RequestTooLargeException", f"a request has at most {most:,} bytes", _CLOSE)


async def _unused(request: Request) -> Awaitable[Response]:
    """Placeholder endpoint: the routes are only used for matching."""
    raise NotImplementedError
