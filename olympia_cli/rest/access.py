"""Who a request is from, and whether it may be answered at all."""

from __future__ import annotations

import base64
import binascii
import re

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
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return None
