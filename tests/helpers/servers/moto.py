"""moto's S3 in this process: an S3 of other people's making. Its conditions are not atomic."""

from __future__ import annotations

import logging


class MotoS3:
    def __init__(self) -> None:
        # it takes a second to load, in each process that collects tests
        from moto.server import ThreadedMotoServer

        # one line a request otherwise
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.url = ""

    def start(self) -> MotoS3:
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        return self

    def stop(self) -> None:
        self._server.stop()
