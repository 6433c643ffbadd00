"""What an endpoint is called in a message, and why no connection to it came about or one broke."""

from __future__ import annotations

import socket
import ssl

from olympia_cli.errors import StorageFailed
from olympia_cli.storage.settle import Failure, Fate

_TLS_HINT = "check that the endpoint speaks TLS, or write http://, and check its certificate"


def shown(endpoint: str, otherwise: str) -> str:
    """The endpoint for the text of an error, which masks the secrets in it."""
    return endpoint if "://" in endpoint else otherwise


def unreachable(error: BaseException, endpoint: str, where: str, hint: str) -> Failure:
    """The failure that it means when no connection came about: not a byte of the request has left."""
    said = f"cannot reach {endpoint} for {where}: {why(error)}"
    # a handshake that breaks off may be that of a server that restarts; one that does not fit never will
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Failure(Fate.REFUSED, StorageFailed(said, hint=_TLS_HINT))
    return Failure(Fate.UNSENT, StorageFailed(said, hint=hint))


def silence(endpoint: str, where: str) -> Failure:
    """The failure that it means when the time is up."""
    return Failure(Fate.UNCLEAR, StorageFailed(f"{where}: no answer from {endpoint} in time"), silent=True)


def why(error: BaseException) -> str:
    """The reason in a few words."""
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
