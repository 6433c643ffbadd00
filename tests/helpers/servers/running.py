"""An aiohttp application in a background thread."""

from __future__ import annotations

import asyncio
import threading

from aiohttp import web


class Server:
    """Answers every request with `handle`, one loop for all of them: what a handler does between two awaits,
    no other handler sees half done.
    """

    def __init__(self) -> None:
        self.port = 0
        """Any that is free, unless one is set before the start: a server that comes back is where it was."""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raise NotImplementedError

    async def opened(self) -> None:
        """Called on the loop before the first request."""

    async def closing(self) -> None:
        """Called on the loop after the last request."""

    def start(self) -> Server:
        self._thread.start()
        if not self._ready.wait(60):
            raise RuntimeError(f"{type(self).__name__} does not start")
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)

        async def open_port() -> web.ServerRunner:
            runner = web.ServerRunner(web.Server(self.handle, access_log=None), shutdown_timeout=0.1)
            await self.opened()
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", self.port, backlog=1024)
            await site.start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            return runner

        async def close_port() -> None:
            await runner.cleanup()
            await self.closing()
            # answers for clients that are gone
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

        runner = self._loop.run_until_complete(open_port())
        self._loop.run_forever()
        self._loop.run_until_complete(close_port())
        self._loop.close()


async def body_of(request: web.BaseRequest) -> bytes:
    """The whole body; a client that waits to be asked for it is asked."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return await request.content.read()
