"""Who a request is from, and whether it may be answered at all; the exchange of a client's secret for a token."""

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
"""A name or an address, with a port or without. `localhost.` is `localhost`: the dot ends a name of the DNS."""


class Access:
    """Without tokens everybody who reaches the server may do everything."""

    def __init__(self, settings: Settings, everybody: str, clock: Clock) -> None:
        """`everybody` is how the log names those who need no token."""
        self._settings = settings
        self._everybody = Caller(everybody)
        self.tokens = Tokens(settings.tokens, clock) if settings.tokens else None

    def caller(self, authorization: str | None, *, browser: bool = False) -> Caller:
        """Whose token it is. A browser cannot send one by itself, but asks for a password: the token is that."""
        if self.tokens is None:
            return self._everybody
        if self.tokens.state is TokensState.UNREADABLE:
            # a 401 would tell a client that its token is wrong, which is not known: the client may try again
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
        """Answer OAuth2's request for a token: a client proves its name and secret, and the secret is its token. So the
        server keeps no state, and taking back the token takes back both."""
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
        """What a check of the server's health says of the tokens. Raise a Failure if no token is admitted."""
        if self.tokens is None:
            return {}
        if self.tokens.state not in (TokensState.CURRENT, TokensState.STALE):
            raise _no_token_is_admitted(self.tokens)
        return {"tokens": self.tokens.state}

    def check_host(self, host: str | None) -> None:
        """A page from elsewhere may have a name of its own lead here: whoever needs no token must know us by ours."""
        if self.tokens is not None or not self._settings.is_loopback:
            return
        found = _HOST.fullmatch(host or "")
        if found is None or not is_loopback(found[1]):
            raise bad_request("the Host of the request is not this machine")


def _no_token_is_admitted(tokens: Tokens) -> Failure:
    # the path of the file, and what is wrong in it, are in the log alone: a check of health needs no token
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
    """An error as OAuth2 has it (RFC 6749, 5.2)."""
    status, headers = 400, dict(_UNSTORED)
    if code == "invalid_client":
        status, headers["WWW-Authenticate"] = 401, 'Basic realm="olympia"'
    body = json.dumps({"error": code, "error_description": message})
    return Response(body, status, headers, media_type="application/json")
