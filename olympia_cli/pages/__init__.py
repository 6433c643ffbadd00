"""HTML from Jinja templates: one base, one style, and every value escaped.

The base, the style and the pages that commands write to files are in `templates`. The server has more templates of its
own. Pages need no script and load nothing from another address.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from olympia_cli.names import plural, span_text, time_text

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_TEMPLATES = Path(__file__).with_name("templates")
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def template(name: str, folder: Path = _TEMPLATES) -> Template:
    """Return a template of this package or of `folder`."""
    return _environment(folder).get_template(name)


@cache
def _environment(folder: Path) -> Environment:
    # most commands and clients need no page
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader((folder, _TEMPLATES)),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": ago,
        "cut": cut,
        "moment": moment,
        "plural": plural,
        "size": size_text,
        "time": time_text,
    }
    return environment


def shown(value: Any) -> Any:
    """Return a value as a page shows it. Escape control characters and those that change the text direction.

    Jinja calls this for each value, and then escapes the result for HTML.
    """
    if hasattr(value, "__html__"):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return shown([f"{key}: {shown(item)}" for key, item in value.items()])
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value)
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(character):04x}" if unicodedata.category(character) in _INVISIBLE else character for character in text
    )


def cut(value: Any, most: int = 300) -> str:
    """Return the start of a long value."""
    text = str(shown(value))
    return text if len(text) <= most else f"{text[:most]}…"


def ago(millis: int, now: int) -> str:
    """Return the age of a moment in its largest unit."""
    if abs(now - millis) < 60_000:
        return "just now"
    return f"{span_text(now - millis)} ago" if millis < now else f"in {span_text(millis - now)}"


def moment(millis: int) -> str:
    """Return a time in UTC for reading, to the second."""
    return time_text(millis)[:19].replace("T", " ")


def size_text(size: int) -> str:
    """Format a number of bytes."""
    value, unit = float(size), "B"
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{size:,} B" if unit == "B" else f"{value:,.1f} {unit}"
