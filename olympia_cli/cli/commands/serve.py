from __future__ import annotations

import os
from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import Output

EXAMPLES = [
    "olympia serve",
    "olympia serve --read-only --port 8080",
    "olympia serve --host 0.0.0.0 --tokens tokens.toml --tls-cert cert.pem --tls-key key.pem",
    "olympia serve --location s3://lake/tables --client-property s3.region=eu-central-1",
]


def run(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port; 0 is any that is free.")] = 8181,
    tokens: Annotated[
        str | None, typer.Option("--tokens", metavar="FILE", help="Whose requests are answered: a file of tokens.")
    ] = None,
    without_tokens: Annotated[
        bool, typer.Option("--without-tokens", help="Answer everybody, also other machines.")
    ] = False,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="A certificate, for HTTPS.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Change nothing.")] = False,
    location: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URI",
            help="Where tables may be; may be given several times. Otherwise where the catalog makes them by itself.",
        ),
    ] = None,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Tell engines to delete no files: older versions of tables need them.")
    ] = False,
    client_property: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What clients are told to use unless they know better."),
    ] = None,
    max_body: Annotated[int, typer.Option(metavar="MIB", help="The largest request.")] = 16,
    max_requests: Annotated[int, typer.Option(metavar="N", help="How many requests are answered at once.")] = 64,
    request_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a request may take to come, and to be answered.")
    ] = "60s",
    stop_timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long requests may go on after a signal to stop.")
    ] = "30s",
    cache: Annotated[int, typer.Option(metavar="MIB", help="How much of tables' metadata is kept in memory.")] = 64,
) -> None:
    """Serve the catalog over HTTP: Iceberg's REST API, and a page.

    The page at / shows objects, versions, differences and the tree, and changes nothing. Each request leaves a line of
    JSON on stderr. SIGTERM and Ctrl-C end the server when what is under way is answered. It needs the extra serve.
    """
    from olympia_cli.cli.params import parse_properties, parse_seconds

    session = Session(ctx)
    try:
        from olympia_cli.rest.server import Running
        from olympia_cli.rest.settings import MIB, Settings
    except ImportError as missing:
        from olympia_cli.errors import ServerMissing

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
    # a catalog that is not there is told before anybody waits for an answer
    version = session.snapshot().version
    running = Running(session.catalog, settings, session.location.options, session.store.uri.partition("://")[0])

    def announce() -> None:
        if session.output in (Output.JSON, Output.JSONL):
            render.document(session, {"url": running.url, "catalog": session.store.uri, "version": version})
        else:
            render.line(session, running.url)

    running.tell_all()
    if not running.run(announce):
        # its threads would be waited for
        os._exit(0)
