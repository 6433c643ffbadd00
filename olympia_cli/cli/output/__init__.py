"""The output of commands: text for people, lines for pipes, JSON and CSV for programs.

This module has the escapes for values from a catalog: none of them moves the cursor, colours the screen or reverses
text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, TextIO

from olympia_cli.names import plural

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that JSON does not escape and a terminal does not show."""
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def size(count: int) -> str:
    """Format a number of bytes for people: `812 bytes`, `4.2 MiB`."""
    if count < 1024:
        return plural(count, "byte")
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1000 or unit == "TiB":
            break
    return f"{value:,.1f} {unit}"


def dumps(value: Any, stream: TextIO, indent: int | None = None) -> str:
    """Encode a value as JSON. Characters that the stream cannot encode become JSON's escapes."""
    text = _encoder(stream.encoding or "", indent)(value)
    # these characters occur only inside strings, where the escape means the same
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@lru_cache(maxsize=8)
def _encoder(encoding: str, indent: int | None) -> Callable[[Any], str]:
    """Return a cached encoder, because a list has thousands of values."""
    from json import JSONEncoder  # not at the top: help and Tab load this module

    return JSONEncoder(ensure_ascii=encoding.lower().replace("-", "") != "utf8", indent=indent).encode


def is_plain(text: str) -> bool:
    """Return whether no character of the text needs an escape."""
    return text.isprintable() and text.isascii()


def visible(text: str) -> str:
    """Replace control, format and bidirectional characters by escapes."""
    if is_plain(text):
        return text
    return "".join(_escape(character) for character in text)


def visible_rows(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Escape the cells of rows. Few cells need it, so all are tested at once."""
    if is_plain("".join(chain.from_iterable(rows))):
        return rows
    return [[visible(cell) for cell in row] for row in rows]


def _escape(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character in _BIDI or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character
