"""Describe endpoints and connection errors in messages."""

from __future__ import annotations

import socket
import ssl

from olympia_cli.errors import StorageFailed
from olympia_cli.storage.settle import Failure, Fate

_TLS_HINT = "check that the endpoint speaks TLS, or write http://, and check its certificate"


def shown(endpoint: str, otherwise: str) -> str:
    """Return the endpoint if it is a URI, else `otherwise`. The error's text masks secrets in it."""
    return endpoint if "://" in endpoint else otherwise


def unreachable(error: BaseException, endpoint: str, where: str, hint: str) -> Failure:
    """Return the failure for a connection that was not established, so that no byte of the request was sent."""
    said = f"cannot reach {endpoint} for {where}: {why(error)}"
    # a handshake that breaks off may come from a restarting server, so it is retried; other TLS errors are permanent
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Failure(Fate.REFUSED, StorageFailed(said, hint=_TLS_HINT))
    return Failure(Fate.UNSENT, StorageFailed(said, hint=hint))


def silence(endpoint: str, where: str) -> Failure:
    """Return the failure for a request that timed out."""
    return Failure(Fate.UNCLEAR, StorageFailed(f"{where}: {endpoint} timed out"), silent=True)


def why(error: BaseException) -> str:
    """Return the reason of a connection error in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or type(error).__name__).replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    text = error.strerror if isinstance(error, OSError) else None
    return text[0].lower() + text[1:] if text else type(error).__name__
