"""Pagination. The token of a page is the last name of the previous page.

So changes between requests never repeat or skip names that exist throughout.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from starlette.datastructures import QueryParams

from olympia_cli.rest.failures import bad_request

PAGE = 1000
LARGEST_PAGE = 10_000

N = TypeVar("N")


def page(
    query: QueryParams, names: Callable[[str | None], Iterator[N]], token_of: Callable[[N], str]
) -> tuple[list[N], str | None]:
    """Return the requested names, and the token of the next page. `names` returns the names after a given one.

    Without pagination parameters, return all names, as the REST definition requires.
    """
    token, size = query.get("pageToken"), query.get("pageSize")
    if token is None and size is None:
        return list(names(None)), None
    number = PAGE if size is None else _number(size)
    found = list(islice(names(_name(token) if token else None), number + 1))
    more = len(found) > number
    return found[:number], _token(token_of(found[number - 1])) if more else None


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise bad_request("pageSize is not a positive number")
    return min(int(text), LARGEST_PAGE)


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def _name(token: str) -> str:
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise bad_request("pageToken is not a token of this server") from None
