"""Strict JSON reader for text of other programs: requests, action lines, metadata files, documents in a catalog.

Python's reader accepts more than JSON: `NaN`, and any encoding. It reads `1e999` as infinity, and writes that as
`Infinity`. Every value that is accepted here can be written as JSON again.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, NoReturn

_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_INT64 = range(-(2**63), 2**63)


def read_json(data: bytes | str) -> Any:
    """Parse a document from a file. Raise ValueError if it is not JSON, or if a number is too large for a double.

    For a duplicate key, the last value counts, as in other readers of Iceberg's files. Integers may have any size,
    because Python writes them back unchanged.
    """
    try:
        return _FILES.decode(_text(data))
    except RecursionError:
        raise _too_deep() from None


def read_request(data: bytes | str) -> Any:
    """Parse a document that requests an operation. Raise ValueError like `read_json`, and in three more cases: a
    duplicate key, an integer beyond 64 bits, and an unpaired surrogate.

    The value may be stored in metadata, where other programs could not read such a number or text.
    """
    text = _text(data)
    try:
        value = _REQUESTS.decode(text)
        if _HALF_A_PAIR.search(text) or not text.isascii():
            check_characters(value)
    except RecursionError:
        raise _too_deep() from None
    return value


def check_characters(value: Any) -> None:
    """Raise ValueError if a text in a parsed document has an unpaired surrogate, which no encoding allows."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"{half!a} is half of a character, and not valid Unicode") from None
    except RecursionError:
        raise _too_deep() from None


def _text(data: bytes | str) -> str:
    # RFC 8259 allows only UTF-8, and lets a reader ignore a byte order mark
    return data.decode("utf-8-sig") if isinstance(data, bytes) else data


def _too_deep() -> ValueError:
    return ValueError("it is nested too deeply")


def _number(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"{digits[:30]} is too large for a number")
    return number


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _whole_number(digits: str) -> int:
    number = int(digits)
    if number not in _INT64:
        raise ValueError(f"{digits[:30]} has more than 64 bits")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                raise ValueError(f"the key {key[:100]!a} is given twice")
            keys.add(key)
    return found


_FILES = json.JSONDecoder(parse_float=_number, parse_constant=_no_number)
_REQUESTS = json.JSONDecoder(
    parse_float=_number, parse_constant=_no_number, parse_int=_whole_number, object_pairs_hook=_object
)
