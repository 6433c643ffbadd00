"""The ASGI application: Starlette's router, what surrounds each request, and what surrounds each operation.

A request passes through these layers, from the outside to the inside:

1. `Api.__call__` counts it, limits the time for its response, and logs it.
2. `ExceptionMiddleware` turns an error below it into a response (`Api._failed`).
3. `Api._admit` refuses a request whose end is ambiguous. The router then finds the operation by path and method.
4. `Api._answer` identifies the caller, applies the limits, reads the body, and looks up the idempotency key.
5. `Api._run` finds the latest version, and runs the operation.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Message, Receive, Scope, Send

from olympia_cli.catalog.clock import Clock
from olympia_cli.rest.access import Caller
from olympia_cli.rest.call import Call, split_prefix
from olympia_cli.rest.failures import RETRY_AFTER, UNKNOWN, ErrorResponse, bad_request, failure_of, forbidden, worded
from olympia_cli.rest.service import Service

DRAINED = 4
"""A body that is too large is read and discarded up to this multiple of the limit. A client that is cut off while it
sends would not see the response."""
_CLOSE = {"Connection": "close"}

Handler = Callable[[Call], Response]
Early = Callable[[Call], Response | None]


@dataclass(frozen=True, slots=True)
class Endpoint:
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
    """The ASGI application. `Request.state` has the facts for the log: path, operation, caller and error."""

    def __init__(self, service: Service, operations: Sequence[Endpoint]) -> None:
        self._service = service
        self._settings = service.settings
        self._idempotency = Idempotency(service.catalog.clock)
        self._routes = [Route(each.path, partial(self._answer, each), methods=[each.method]) for each in operations]
        for route, operation in zip(self._routes, operations, strict=True):
            # Starlette adds HEAD to GET routes, but here HEAD is an operation of its own
            route.methods = {operation.method}
        self._router = Router(self._routes, redirect_slashes=False)
        handlers = {HTTPException: self._failed, Exception: self._failed}
        self._app = ExceptionMiddleware(self._admit, handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = self._service.record
        # the encoded path, because a name may contain an encoded slash
        path = scope.get("raw_path", b"").decode("ascii", "replace") or scope["path"]
        prefix, below = split_prefix(path)
        state: dict[str, Any] = {"path": path, "prefix": prefix}
        # with `app`, the router raises its errors; without, it would answer them in its own words
        inner: Scope = {**scope, "path": below, "root_path": "", "state": state, "app": self}
        reply = _Reply(send, self._settings.request_timeout, lambda: self._log(inner, reply))
        record.under_way += 1
        try:
            await self._app(inner, receive, reply.send)
        except ClientDisconnect:
            state["error"] = "the client went away"
        except Exception:
            if reply.timeout is None:
                raise
            record.event("unread", path=path, client=_client(scope))
            raise reply.timeout from None
        finally:
            record.under_way -= 1
            reply.end()

    def _log(self, scope: Scope, reply: _Reply) -> None:
        state = scope["state"]
        operation, caller = state.get("operation"), state.get("caller")
        self._service.record.request(
            scope["method"],
            state["path"],
            operation.name if operation else "none",
            reply.status,
            time.perf_counter() - reply.began,
            by=caller.name if caller else None,
            client=_client(scope),
            bytes=reply.size,
            error=state.get("error"),
        )

    async def _failed(self, request: Request, error: Exception) -> Response:
        """Return the response for an error, and note it for the log, with the cause of a failure of the server."""
        match error:
            case ClientDisconnect():
                raise error
            case HTTPException(status_code=405):
                routes = [route for route in self._routes if route.matches(request.scope)[0] is not Match.NONE]
                allowed = {"Allow": ", ".join(sorted(method for route in routes for method in route.methods or ()))}
                error = ErrorResponse(405, "MethodNotAllowedException", "this method is not allowed here", allowed)
            case HTTPException():
                error = ErrorResponse(404, "NoSuchEndpointException", "there is no such endpoint")
        failure = failure_of(error)
        request.state.error = f"{failure.type}: {failure.message}"
        cause = error.__cause__ if isinstance(error, ErrorResponse) else error
        if failure.status >= 500 and cause is not None and not isinstance(cause, ErrorResponse):
            request.state.error += f" ({type(cause).__name__}: {cause})"
        return failure.response()

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        tokens = self._service.access.tokens
        if tokens is not None:
            tokens.refresh()
            if tokens.problem is not None:
                self._service.record.event("tokens", state=tokens.state, error=tokens.problem)
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            # an ambiguous end of the request (RFC 9112, section 6.3) allows request smuggling
            raise ErrorResponse(400, "BadRequestException", "a request has a length or is chunked, not both", _CLOSE)
        await self._router(scope, receive, send)

    async def _answer(self, operation: Endpoint, request: Request) -> Response:
        access, headers = self._service.access, request.headers
        request.state.operation, caller = operation, Caller("")
        if not operation.public:
            access.check_host(headers.get("host"))
            caller = request.state.caller = access.caller(headers.get("authorization"), browser=operation.browser)
        self._check_allowed(operation, caller)
        if self._service.record.under_way > self._settings.max_requests:
            raise ErrorResponse(503, "SlowDownException", "too many requests at once", RETRY_AFTER)
        body = await self._body(request)
        if operation.form:
            return access.exchange(body, headers.get("authorization"))
        content = headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and content != "application/json":
            # other content types can be sent by a form on another site's page
            raise bad_request("a POST must be sent as application/json")
        run = partial(self._run, operation, request, caller, body)
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                if not operation.writes:
                    return await run()
                told = f"{request.method} {request.state.path}?".encode() + request.scope["query_string"]
                return await self._idempotency.once(
                    caller.name, headers.get("idempotency-key"), told + b"\n" + body, run
                )
        except TimeoutError:
            # the operation's thread continues until the store's time limit
            kind = UNKNOWN if operation.commits else "GatewayTimeoutException"
            raise ErrorResponse(504, kind, "the store did not answer in time") from None

    def _check_allowed(self, operation: Endpoint, caller: Caller) -> None:
        if operation.writes and self._settings.read_only:
            raise forbidden("this server is read-only")
        if operation.writes and not caller.writes:
            raise forbidden("the token is read-only")
        if operation.browser and caller.namespaces is not None:
            raise forbidden("the token is not for the whole catalog")

    async def _body(self, request: Request) -> bytes:
        """Return the body. Raise ErrorResponse if it is too large or too slow."""
        most, declared = self._settings.max_body_bytes, request.headers.get("content-length")
        # the rest of a body that is too large is not read
        too_large = ErrorResponse(413, "RequestTooLargeException", f"a request has at most {most:,} bytes", _CLOSE)
        if declared is not None and (not declared.isdigit() or int(declared) > DRAINED * most):
            raise too_large
        if declared in (None, "0") and "transfer-encoding" not in request.headers:
            return b""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > DRAINED * most:
                        break
                    if size <= most:
                        chunks.append(chunk)
        except TimeoutError:
            raise ErrorResponse(408, "RequestTimeoutException", "the request came too slowly", _CLOSE) from None
        if size > most:
            raise too_large
        return b"".join(chunks)

    async def _run(self, operation: Endpoint, request: Request, caller: Caller, body: bytes) -> Response:
        service, call = self._service, None
        try:
            call = Call(service, request, caller, body, await service.latest.snapshot())
            known = operation.early(call) if operation.early is not None else None
            if known is not None:
                return known
            return await service.latest.run(partial(operation.run, call))
        except Exception as error:
            failure = failure_of(error, commits=operation.commits)
            raise failure if call is None else worded(failure, operation.name, call) from error


class _Reply:
    """Sends a response within its time, and records its status and size. `log` is called before its end is sent."""

    def __init__(self, send: Send, seconds: float, log: Callable[[], None]) -> None:
        self._send = send
        self._seconds = seconds
        self._deadline: float | None = None
        self._log: Callable[[], None] | None = log
        self.began = time.perf_counter()
        self.status = 0
        self.size = 0
        self.timeout: TimeoutError | None = None
        """The error if the client did not read the response in time."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        else:
            self.size += len(message.get("body", b""))
            if not message.get("more_body", False):
                self.end()
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._send(message)
        except TimeoutError as error:
            self.timeout = error
            raise

    def end(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log()


def _client(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


# Idempotency keys: a repeated request is run once, and gets the same response.
#
# The responses are kept in this process. After a restart, or on another server, a key is new. The requirements of a
# commit then still reject a repetition.

LIFETIME_MILLIS = 30 * 60 * 1000
LIFETIME = "PT30M"
KEPT = 10_000
KEPT_BYTES = 64 * 2**20
"""The maximum bytes of stored responses. The oldest ones are evicted."""


@dataclass(slots=True)
class _Kept:
    fingerprint: bytes
    made_at: int
    answer: asyncio.Future[Response]
    size: int = 0


class Idempotency:
    """Stored responses. Must only be used on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._size = 0
        self._under_way: set[asyncio.Task[None]] = set()

    async def once(
        self, caller: str, key: str | None, request: bytes, work: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Return the response of `work`, or the stored response to the same request."""
        if key is None:
            return await work()
        known, now = (caller, _checked(key)), self._clock.elapsed_millis()
        fingerprint = hashlib.sha256(request).digest()
        kept = self._kept.get(known)
        if kept is not None and now - kept.made_at <= LIFETIME_MILLIS:
            if kept.fingerprint != fingerprint:
                raise ErrorResponse(
                    422, "UnprocessableEntityException", "the idempotency key was used for another request"
                )
            return await asyncio.shield(kept.answer)
        self._forget(now)
        kept = self._kept[known] = _Kept(fingerprint, now, asyncio.get_running_loop().create_future())
        # a separate task, so that the work continues if the client gives up, and is not started again on a retry
        self._under_way.add(task := asyncio.create_task(self._do(known, kept, work)))
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(kept.answer)

    async def _do(self, known: tuple[str, str], kept: _Kept, work: Callable[[], Awaitable[Response]]) -> None:
        try:
            answer = await work()
            kept.answer.set_result(answer)
        except BaseException as error:
            kept.answer.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
            # marks the exception as retrieved, because there may be no waiter
            kept.answer.exception()
            # errors with an unknown outcome are stored, because a retry would conflict with the first attempt
            if not isinstance(error, ErrorResponse) or (error.status >= 500 and error.type != UNKNOWN):
                self._kept.pop(known, None)
                return
            answer = error.response()
        kept.size = len(answer.body)
        self._size += kept.size

    def _forget(self, now: int) -> None:
        for key, kept in list(self._kept.items()):
            few = len(self._kept) < KEPT and self._size < KEPT_BYTES
            if few and now - kept.made_at <= LIFETIME_MILLIS:
                return
            # pending requests are never evicted
            if kept.answer.done():
                del self._kept[key]
                self._size -= kept.size


def _checked(key: str) -> str:
    try:
        if len(key) == 36:
            return str(uuid.UUID(key))
    except ValueError:
        pass
    raise bad_request("the idempotency key is not a UUID")
