"""Authenticate requests, and exchange a client's secret for a token."""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl

from starlette.responses import Response

from olympia_cli.catalog.clock import Clock, SystemClock
from olympia_cli.errors import InvalidOption
from olympia_cli.rest.failures import RETRY_AFTER, ErrorResponse, bad_request
from olympia_cli.rest.settings import Settings, is_loopback

# Bearer tokens with their permissions, identified by their SHA-256.
#
# The file is TOML, with a table for each token:
#
#     [[token]]
#     name = "etl"
#     sha256 = "…"                     # of the token's bytes, in hex
#     scopes = ["read", "write"]
#     namespaces = ["sales"]           # default: all
#     locations = ["s3://lake/sales"]  # allowed locations of its tables; default: those of the server

SCOPES = ("read", "write")
GRACE_MILLIS = 60_000
"""The time for which tokens stay valid after the last successful read of their file."""
MAX_BYTES = 2**20
_HINT = "it is TOML: [[token]] with name, sha256 and scopes, as in the guide to serve"


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller. `None` in a field means unrestricted."""

    name: str
    writes: bool = True
    namespaces: frozenset[str] | None = None
    locations: tuple[str, ...] | None = None

    def may_see(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


class TokensState(StrEnum):
    """The result of the last read of the file. Tokens are accepted only in the first two states."""

    CURRENT = "current"
    STALE = "stale"
    """The file cannot be read, but the tokens of the last successful read are still valid."""
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    MISSING = "missing"


class Tokens:
    """The tokens in a file. The file is read for each request, because its time and size may not show a change."""

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        """Read the file. Raise InvalidOption if it is invalid or has no tokens."""
        self._path = path
        self._clock = clock if clock is not None else SystemClock()
        self._content: bytes | None = None
        self._parsed: dict[str, Caller] | str = {}
        self._callers: dict[str, Caller] = {}
        self._read_at = 0
        self.state = TokensState.MISSING
        self.problem: str | None = None
        """The reason why the state is not CURRENT. It contains the file's path, so it must only go to the log."""
        self.refresh()
        if self.problem is not None:
            raise InvalidOption(self.problem, hint=_HINT)

    def caller(self, token: str) -> Caller | None:
        """Return the caller with this token. The lookup uses the digest, so its timing reveals nothing about the
        token.
        """
        return self._callers.get(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())

    def refresh(self) -> None:
        """Read the file again.

        An empty or missing file revokes all tokens at once. If the file is unreadable or invalid, the tokens of the
        last successful read stay valid for a minute after that read.
        """
        now = self._clock.elapsed_millis()
        found = self._found()
        if isinstance(found, str):
            self.problem = found
            if now - self._read_at > GRACE_MILLIS:
                self._callers = {}
            self.state = TokensState.STALE if self._callers else TokensState.UNREADABLE
            return
        self._callers, self._read_at = found or {}, now
        if found:
            self.state, self.problem = TokensState.CURRENT, None
        elif found is None:
            self.state = TokensState.MISSING
            self.problem = f"the tokens file {self._path} cannot be read: it is missing"
        else:
            self.state, self.problem = TokensState.EMPTY, f"the tokens file {self._path} has no tokens"

    def _found(self) -> dict[str, Caller] | str | None:
        """Return the tokens in the file, None if there is no file, or the reason why it cannot be read."""
        try:
            content = _content(self._path)
        except OSError as error:
            return f"the tokens file {self._path} cannot be read: {error.strerror}"
        if content is None:
            return None
        if content != self._content:
            # parse each content once, even if it is invalid
            self._content, self._parsed = content, _parsed(content, self._path)
        return self._parsed


def _content(path: str) -> bytes | None:
    """Return the content of a file, or None if it is missing."""
    try:
        # O_NONBLOCK: opening a FIFO must not block
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = b""
        while part := os.read(handle, 65_536):
            content += part
            if len(content) > MAX_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes")
        return content
    finally:
        os.close(handle)


def _parsed(content: bytes, path: str) -> dict[str, Caller] | str:
    """Return the tokens by digest, or the problem with the file."""
    try:
        return _callers(tomllib.loads(content.decode()), path)
    except InvalidOption as error:
        return error.message
    except (ValueError, RecursionError) as error:
        return f"{path} is not TOML: {error}"


def _callers(content: dict[str, Any], path: str) -> dict[str, Caller]:
    entries = content.get("token", [])
    if not isinstance(entries, list) or content.keys() - {"token"}:
        raise InvalidOption(f"{path} holds something other than a list of tokens", hint=_HINT)
    callers: dict[str, Caller] = {}
    names: set[str] = set()
    for number, entry in enumerate(entries, 1):
        digest, caller = _entry(entry, f"token {number} of {path}")
        if digest in callers or caller.name in names:
            raise InvalidOption(f"token {number} of {path} is there twice", hint=_HINT)
        callers[digest] = caller
        names.add(caller.name)
    return callers


def _entry(entry: object, where: str) -> tuple[str, Caller]:
    if not isinstance(entry, Mapping):
        raise InvalidOption(f"{where} is not a table", hint=_HINT)
    if unknown := entry.keys() - {"name", "sha256", "scopes", "namespaces", "locations"}:
        raise InvalidOption(f"{where} has an unknown key {min(unknown)!a}", hint=_HINT)
    name, digest = entry.get("name"), entry.get("sha256")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.@-]{1,100}", name):
        raise InvalidOption(f"{where} has no name of letters, digits and . @ - _", hint=_HINT)
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        raise InvalidOption(f"{where} has no SHA-256 of 64 hex digits", hint=_HINT)
    scopes = _texts(entry, "scopes", where)
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidOption(f"{where} has scopes other than {' and '.join(SCOPES)}, or none", hint=_HINT)
    namespaces, locations = _texts(entry, "namespaces", where), _texts(entry, "locations", where)
    caller = Caller(
        name,
        "write" in scopes,
        None if namespaces is None else frozenset(namespaces),
        None if locations is None else tuple(locations),
    )
    return digest.lower(), caller


def _texts(entry: Mapping[str, Any], key: str, where: str) -> list[str] | None:
    value = entry.get(key)
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) and item for item in value)):
        raise InvalidOption(f"{where}: {key} is not a list of texts", hint=_HINT)
    return value


_HOST = re.compile(r"(\[[^]]*]|[^:]*[^:.])\.?(?::[0-9]*)?")
"""A host name or address with an optional port. A final dot, as in `localhost.`, is ignored, as in DNS."""


class Access:
    """Authentication. Without tokens, everyone who reaches the server has full access."""

    def __init__(self, settings: Settings, everybody: str, clock: Clock) -> None:
        """Read the tokens. `everybody` is the name in the log for callers without a token."""
        self._settings = settings
        self._everybody = Caller(everybody)
        self.tokens = Tokens(settings.tokens, clock) if settings.tokens else None

    def caller(self, authorization: str | None, *, browser: bool = False) -> Caller:
        """Return the caller with this token. A browser sends the token as the password of basic authentication."""
        if self.tokens is None:
            return self._everybody
        if self.tokens.state is TokensState.UNREADABLE:
            # not 401: a client would then discard its token, which may be valid
            raise _no_token_is_admitted(self.tokens)
        kind, _, credentials = (authorization or "").partition(" ")
        token = None
        if kind.lower() == "bearer":
            token = credentials.strip()
        elif kind.lower() == "basic" and browser:
            token = _password(credentials)
        found = self.tokens.caller(token) if token else None
        if found is None:
            what = "the token is not known" if token else "a token is needed"
            challenge = 'Basic realm="olympia", charset="UTF-8"' if browser else 'Bearer realm="olympia"'
            raise ErrorResponse(401, "NotAuthorizedException", what, {"WWW-Authenticate": challenge})
        return found

    def exchange(self, form: bytes, authorization: str | None) -> Response:
        """Answer an OAuth2 token request: check the client's name and secret, and return the secret as the token.

        The server keeps no state, and revoking the token revokes both.
        """
        try:
            pairs = parse_qsl(form.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=20)
        except ValueError:
            return _refusal("invalid_request", "the request is not a form")
        fields = dict(pairs)
        if len(fields) < len(pairs) or "grant_type" not in fields:
            return _refusal("invalid_request", "grant_type is missing, or a field is there twice")
        if self.tokens is None:
            return _refusal("invalid_request", "this server needs no token: leave out the credential")
        if self.tokens.state is TokensState.UNREADABLE:
            raise _no_token_is_admitted(self.tokens)
        name, secret = fields.get("client_id"), fields.get("client_secret")
        match fields.get("grant_type"):
            case "client_credentials":
                kind, _, credentials = (authorization or "").partition(" ")
                if kind.lower() == "basic":
                    name, secret = _user(credentials), _password(credentials)
            case "urn:ietf:params:oauth:grant-type:token-exchange":
                name, secret = None, fields.get("subject_token")
            case _:
                return _refusal("unsupported_grant_type", "the grant is client_credentials, or token-exchange")
        caller = self.tokens.caller(secret) if secret else None
        if caller is None or name not in (None, "", caller.name):
            hint = "a client's id is the name of a token in the tokens file, and its secret the token"
            return _refusal("invalid_client", f"the client or its secret is not known: {hint}")
        token = {"access_token": secret, "token_type": "bearer", "issued_token_type": _ACCESS_TOKEN}
        return Response(json.dumps(token), headers=_UNSTORED, media_type="application/json")

    def health(self) -> dict[str, str]:
        """Return the state of the tokens for a health check. Raise ErrorResponse if no token is accepted."""
        if self.tokens is None:
            return {}
        if self.tokens.state not in (TokensState.CURRENT, TokensState.STALE):
            raise _no_token_is_admitted(self.tokens)
        return {"tokens": self.tokens.state}

    def check_host(self, host: str | None) -> None:
        """Reject requests with a foreign Host header, against DNS rebinding.

        Only servers without tokens on a loopback address need this check: another site's page could otherwise reach
        them under its own name.
        """
        if self.tokens is not None or not self._settings.is_loopback:
            return
        found = _HOST.fullmatch(host or "")
        if found is None or not is_loopback(found[1]):
            raise bad_request("the Host of the request is not this machine")


def _no_token_is_admitted(tokens: Tokens) -> ErrorResponse:
    # the file's path and problem are only in the log, because the health check needs no token
    message = f"the tokens file is {tokens.state}: no token is admitted"
    return ErrorResponse(503, "ServiceUnavailableException", message, RETRY_AFTER)


def _password(credentials: str) -> str | None:
    return _decoded(credentials)[2]


def _user(credentials: str) -> str | None:
    return _decoded(credentials)[0]


def _decoded(credentials: str) -> tuple[str, str, str] | tuple[None, None, None]:
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None, None, None


_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_UNSTORED = {"Cache-Control": "no-store"}


def _refusal(code: str, message: str) -> Response:
    """Return an OAuth2 error response (RFC 6749, section 5.2)."""
    status, headers = 400, dict(_UNSTORED)
    if code == "invalid_client":
        status, headers["WWW-Authenticate"] = 401, 'Basic realm="olympia"'
    body = json.dumps({"error": code, "error_description": message})
    return Response(body, status, headers, media_type="application/json")
