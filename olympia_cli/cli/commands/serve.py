from __future__ import annotations

import os
from typing import Annotated

import typer

from olympia_cli.cli.options import Output, parse_properties, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.errors import ServerMissing
from olympia_cli.rest import MIB, Settings

EXAMPLES = [
    "olympia serve",
    "olympia serve --read-only --port 8080",
    "olympia serve --host 0.0.0.0 --tokens tokens.toml --tls-cert cert.pem --tls-key key.pem",
    "olympia serve --location s3://lake/tables --client-property s3.region=eu-central-1",
]


def run(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 for any free port.")] = 8181,
    tokens: Annotated[
        str | None, typer.Option("--tokens", metavar="FILE", help="File with the bearer tokens to accept.")
    ] = None,
    without_tokens: Annotated[
        bool, typer.Option("--without-tokens", help="Accept requests without a token, also from other machines.")
    ] = False,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="TLS certificate file, for HTTPS.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="TLS private key file.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse requests that change the catalog.")] = False,
    location: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI",
            help="Allowed location of tables; may be given several times. By default, where the catalog creates them.",
        ),
    ] = None,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Tell engines not to delete files that older versions of tables need.")
    ] = False,
    client_property: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Default configuration of clients; may be given several times."),
    ] = None,
    max_body: Annotated[int, typer.Option(metavar="MIB", help="Maximum size of a request.")] = 16,
    max_requests: Annotated[int, typer.Option(metavar="N", help="Maximum number of concurrent requests.")] = 64,
    request_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Timeout to receive a request, and to answer it.")
    ] = "60s",
    stop_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Time for running requests to end after a signal to stop.")
    ] = "30s",
    cache: Annotated[int, typer.Option(metavar="MIB", help="Size of the cache for metadata of tables.")] = 64,
) -> None:
    """Serve the catalog over HTTP: Iceberg's REST API, and a page.

    The page at / shows objects, versions, differences and the tree, and changes nothing. Each request is logged as one
    line of JSON on stderr. SIGTERM and Ctrl-C stop the server once running requests are answered. The extra serve must
    be installed.
    """
    session = Session(ctx)
    try:
        from olympia_cli.rest import Running
    except ImportError as missing:
        raise ServerMissing(f"{missing.name} is not installed, or too old") from None
    settings = Settings(
        host=host,
        port=port,
        tokens=tokens,
        without_tokens=without_tokens,
        tls_cert=tls_cert,
        tls_key=tls_key,
        read_only=read_only,
        locations=tuple(location or ()),
        keep_files=keep_files,
        client_properties=parse_properties(client_property),
        max_body_bytes=max_body * MIB,
        max_requests=max_requests,
        request_timeout=parse_seconds(request_timeout),
        stop_timeout=parse_seconds(stop_timeout),
        cache_bytes=cache * MIB,
    )
    settings.check()
    # report a missing catalog now, not with the first request
    version = session.snapshot().version
    running = Running(session.catalog, settings, session.location.options, session.store.uri.partition("://")[0])

    def announce() -> None:
        if session.output in (Output.JSON, Output.JSONL):
            render.document(session, {"url": running.url, "catalog": session.store.uri, "version": version})
        else:
            render.line(session, running.url)

    running.tell_all()
    if not running.run(announce):
        # do not wait for the threads of requests that did not end
        os._exit(0)
