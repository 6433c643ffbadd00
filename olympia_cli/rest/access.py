"""Authenticate requests, and exchange a client's secret for a token."""

from __future__ import annotations

import base64
import binascii
import json
import re
from urllib.parse import parse_qsl

from starlette.responses import Response

from olympia_cli.catalog.clock import Clock
from olympia_cli.rest.failures import RETRY_AFTER, Failure, bad_request
from olympia_cli.rest.settings import Settings, is_loopback
from olympia_cli.rest.tokens import Caller, Tokens, TokensState

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
            raise Failure(401, "NotAuthorizedException", what, {"WWW-Authenticate": challenge})
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
        """Return the state of the tokens for a health check. Raise Failure if no token is accepted."""
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


def _no_token_is_admitted(tokens: Tokens) -> Failure:
    # the file's path and problem are only in the log, because the health check needs no token
    message = f"the tokens file is {tokens.state}: no token is admitted"
    return Failure(503, "ServiceUnavailableException", message, RETRY_AFTER)


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
