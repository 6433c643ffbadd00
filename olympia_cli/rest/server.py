"""Run the application in uvicorn, with limits and a graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import InvalidOption
from olympia_cli.rest.app import Api
from olympia_cli.rest.routes import OPERATIONS
from olympia_cli.rest.service import Record, Service
from olympia_cli.rest.settings import Settings

KEEP_ALIVE = 75
CONNECTIONS_A_REQUEST = 16
"""The number of open connections per allowed request. Most connections are idle."""


class Running:
    """A server for one catalog. `run` returns after `stop` or a signal."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        options: Mapping[str, object] | None = None,
        scheme: str = "",
        log: TextIO | None = None,
    ) -> None:
        settings.check()
        self.settings = settings
        self.record = Record(catalog.clock.now_millis, log)
        self.service = Service(catalog, settings, self.record, options, scheme)
        self.api = Api(self.service, OPERATIONS)
        self._socket = _listen(settings)
        self._server = _Server(self._config())

    @property
    def url(self) -> str:
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        scheme = "https" if self.settings.tls_cert else "http"
        return f"{scheme}://{host}:{self._socket.getsockname()[1]}"

    def run(self, announce: Callable[[], None] = lambda: None) -> bool:
        """Run the server. Return True if all requests have finished at the end.

        An unfinished request still has a thread, which keeps the process alive. `announce` is called once connections
        are accepted.
        """

        def listening() -> None:
            self.record.event("listening", url=self.url, catalog=self.service.catalog.store.uri)
            announce()

        self._server.on_listening = listening
        finished = False
        try:
            asyncio.run(self._server.serve([self._socket]))
        finally:
            self._socket.close()
            finished = self.service.close(self._server.time_left())
            self.record.event("stopped", **({} if finished else {"unfinished": True}))
        return finished

    def tell_all(self) -> None:
        """Write all warnings of this process to the log."""
        logging.getLogger().addHandler(_LogLines(self.record))
        logging.captureWarnings(True)

    def stop(self) -> None:
        """Finish the requests in progress, then stop. May be called from other threads."""
        self._server.should_exit = True

    @contextmanager
    def in_background(self) -> Iterator[Running]:
        """Run the server in a thread for the duration of the block."""
        thread = threading.Thread(target=self.run, name="olympia serve", daemon=True)
        thread.start()
        try:
            if not self._server.ready.wait(30):
                raise RuntimeError("the server does not start")
            yield self
        finally:
            self.stop()
            thread.join(self.settings.stop_timeout + 10)

    def _config(self) -> uvicorn.Config:
        # only warnings of uvicorn, as lines of our log
        logger = logging.getLogger("uvicorn.error")
        logger.handlers = [_LogLines(self.record)]
        logger.propagate = False
        slow = self.settings.request_timeout
        try:
            config = uvicorn.Config(
                self.api,
                http=_protocol(slow),
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS_A_REQUEST * self.settings.max_requests,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=max(1, round(self.settings.stop_timeout)),
                ssl_certfile=self.settings.tls_cert,
                ssl_keyfile=self.settings.tls_key,
            )
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise InvalidOption(f"the certificate or its key cannot be used: {error}", hint="give PEM files") from None
        return config


class _Server(uvicorn.Server):
    """A uvicorn server that stops on a signal without raising it again."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self.on_listening: Callable[[], None] = lambda: None
        self._stop_by: float | None = None

    def time_left(self) -> float:
        """Return the seconds that requests in progress may still take."""
        return 0.0 if self.force_exit else max(0.0, (self._stop_by or 0.0) - time.monotonic())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_listening()
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop_by = time.monotonic() + (self.config.timeout_graceful_shutdown or 0)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            # a second signal stops without waiting
            self.force_exit = self.should_exit
            self.should_exit = True

        former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def _protocol(seconds: float) -> type[H11Protocol]:
    """Return a protocol that closes connections whose request headers do not arrive within `seconds`."""

    class Patient(H11Protocol):
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._patience = self.loop.call_later(seconds, transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._lose_no_patience()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            former = self.cycle
            if self._patience is None and (former is None or former.response_complete):
                # a new request on an idle connection
                self._patience = self.loop.call_later(seconds, self.transport.close)
            super().data_received(data)
            if self.cycle is not former:
                # the headers are complete; the application limits the time for the body
                self._lose_no_patience()

        def _lose_no_patience(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return Patient


class _LogLines(logging.Handler):
    def __init__(self, record: Record) -> None:
        super().__init__(logging.WARNING)
        self._record = record

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._record.event(
            "server", message=record.getMessage()[:500], error=None if error is None else repr(error)[:500]
        )


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the socket names its protocol
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        # listen now, so that a port in use is reported as an error and not by a traceback later
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InvalidOption(
            f"cannot listen on {settings.host} port {settings.port}: {reason}",
            hint="choose another --port or --host",
        ) from None
    return listening
