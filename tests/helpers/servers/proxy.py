"""A reverse proxy that breaks things on schedule, to put before a server."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum

import aiohttp
from aiohttp import web
from yarl import URL

from tests.helpers.servers.running import Server, body_of


class Mode(Enum):
    CONFLICT_INSTEAD = "409, and nothing is forwarded"
    CONFLICT_AFTER = "forwarded, then 409"
    BARE_412 = "forwarded; a 412 loses the element that names the condition"
    FALSE_412 = "a bare 412, and nothing is forwarded"
    ERROR_500_AFTER = "forwarded, then 500"
    ERROR_503_AFTER = "forwarded, then 503"
    ERROR_503_INSTEAD = "503, and nothing is forwarded"
    DENIED_AFTER = "forwarded, then 403"
    DENIED_INSTEAD = "403, and nothing is forwarded"
    DROP_AFTER = "forwarded, then the connection drops"
    DROP_BEFORE = "the connection drops, and nothing is forwarded"
    HANG_BEFORE = "no answer, and nothing is forwarded"
    HANG_AFTER = "forwarded, then no answer"
    TRUNCATE = "forwarded; half of the body comes, then the connection drops"
    SLOW = "forwarded after a while"


@dataclass
class Fault:
    """A fault. It hits the matching requests whose numbers (from 0) are in `at`, or without `at` each one with the
    probability, drawn from the seed.
    """

    mode: Mode
    methods: Collection[str] = ("PUT", "POST", "GET", "HEAD", "DELETE")
    path_contains: str = ""
    at: Collection[int] | None = None
    probability: float = 1.0
    seed: int = 0
    seconds: float = 0.2
    seen: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def strikes(self, method: str, path: str) -> bool:
        if method not in self.methods or self.path_contains not in path:
            return False
        number, self.seen = self.seen, self.seen + 1
        if self.at is not None:
            return number in self.at
        return self._random.random() < self.probability


class FaultProxy(Server):
    """Forwards to `target`. The first fault that strikes is the one that happens; `struck` counts them."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target
        self.struck: Counter[Mode] = Counter()
        self.requests: Counter[str] = Counter()
        self._faults: Sequence[Fault] = ()
        self._lock = threading.Lock()
        self._client: aiohttp.ClientSession | None = None
        self._closing = asyncio.Event()

    def break_with(self, *faults: Fault) -> None:
        """Replace all faults, and reset the counts."""
        with self._lock:
            self._faults = faults
            self.struck.clear()
            self.requests.clear()

    async def opened(self) -> None:
        self._client = aiohttp.ClientSession(
            auto_decompress=False, connector=aiohttp.TCPConnector(limit=0, force_close=True)
        )

    async def closing(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await body_of(request)
        with self._lock:
            self.requests[request.method] += 1
            path = request.rel_url.raw_path_qs
            mode = next(((f.mode, f.seconds) for f in self._faults if f.strikes(request.method, path)), None)
            if mode is not None:
                self.struck[mode[0]] += 1
        if mode is None:
            return await self._forward(request, body)
        return await self._break(request, body, *mode)

    async def _break(self, request: web.BaseRequest, body: bytes, mode: Mode, seconds: float) -> web.StreamResponse:
        match mode:
            case Mode.CONFLICT_INSTEAD:
                return _conflict(request)
            case Mode.FALSE_412:
                return _error(request, 412, "PreconditionFailed")
            case Mode.ERROR_503_INSTEAD:
                return _error(request, 503, "SlowDown")
            case Mode.DENIED_INSTEAD:
                return _error(request, 403, "AccessDenied")
            case Mode.DROP_BEFORE:
                return _drop(request)
            case Mode.HANG_BEFORE:
                await asyncio.sleep(seconds)
                return _drop(request)
            case Mode.SLOW:
                await asyncio.sleep(seconds)
        reply = await self._forward(request, body)
        match mode:
            case Mode.CONFLICT_AFTER:
                return _conflict(request)
            case Mode.BARE_412 if reply.status == 412:
                return _error(request, 412, "PreconditionFailed")
            case Mode.ERROR_500_AFTER:
                return _error(request, 500, "InternalError")
            case Mode.ERROR_503_AFTER:
                return _error(request, 503, "SlowDown")
            case Mode.DENIED_AFTER:
                return _error(request, 403, "AccessDenied")
            case Mode.DROP_AFTER:
                return _drop(request)
            case Mode.HANG_AFTER:
                await asyncio.sleep(seconds)
                return _drop(request)
            case Mode.TRUNCATE:
                return await _truncate(request, reply)
        return reply

    async def _forward(self, request: web.BaseRequest, body: bytes) -> web.Response:
        assert self._client is not None
        left_out = {"host", "expect", "connection", "transfer-encoding", "content-length"}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in left_out}
        url = URL(self.target + request.rel_url.raw_path_qs, encoded=True)
        async with self._client.request(
            request.method, url, headers=headers, data=body, skip_auto_headers=("Content-Type",)
        ) as reply:
            data = await reply.read()
            kept = {
                name: value.replace(self.target, self.url)
                for name, value in reply.headers.items()
                if name.lower() not in {"connection", "transfer-encoding", "date", "server", "content-length"}
            }
            if request.method == "HEAD" and "Content-Length" in reply.headers:
                kept["Content-Length"] = reply.headers["Content-Length"]
            return web.Response(status=reply.status, headers=kept, body=data)


def _conflict(request: web.BaseRequest) -> web.Response:
    return _error(request, 409, "ConditionalRequestConflict")


def _error(request: web.BaseRequest, status: int, code: str) -> web.Response:
    if request.method == "HEAD":
        return web.Response(status=status)
    if "/storage/v1/" in request.path:
        answer = {"error": {"code": status, "message": code, "errors": [{"reason": code, "message": code}]}}
        return web.Response(status=status, body=json.dumps(answer).encode(), content_type="application/json")
    text = f"<Error><Code>{code}</Code><Message>injected</Message></Error>"
    return web.Response(status=status, body=text.encode(), content_type="application/xml")


def _drop(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _truncate(request: web.BaseRequest, whole: web.StreamResponse) -> web.StreamResponse:
    data = whole.body if isinstance(whole, web.Response) and isinstance(whole.body, bytes) else b""
    if not data:
        return _drop(request)
    reply = web.StreamResponse(status=whole.status, headers=whole.headers)
    reply.content_length = len(data)
    await reply.prepare(request)
    await reply.write(data[: len(data) // 2])
    if request.transport is not None:
        request.transport.close()
    return reply
