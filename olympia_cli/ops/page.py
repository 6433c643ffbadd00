"""Self-contained HTML pages: no script, no external resources, light and dark, every value escaped."""

from __future__ import annotations

import unicodedata
from html import escape

from olympia_cli.names import time_text

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1d2330; }
h1 { font-size: 1.4rem; margin-bottom: 0; } .where { color: #5a6275; margin-top: .2rem; overflow-wrap: anywhere; }
.verdict { border-radius: .5rem; padding: .8rem 1rem; font-weight: 600; margin: 1.2rem 0; }
.damaged { background: #fde8e8; color: #8f1d1d; } .sound { background: #e5f5e9; color: #14572a; }
.open { background: #fff3d6; color: #6b4700; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { text-align: left; padding: .15rem 1rem .15rem 0; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
article { border-left: .3rem solid #9aa3b5; padding: .2rem 0 .2rem 1rem; margin: 1.2rem 0; }
article.error { border-color: #c62828; } article.warning { border-color: #d39b00; }
article h2 { font-size: 1rem; margin: 0; } article p { margin: .3rem 0; color: #3c4353; }
code { font: .9em ui-monospace, monospace; background: #f1f3f7; padding: .1em .3em; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: 5rem 1fr; margin: .4rem 0; } dt { color: #5a6275; } dd { margin: 0; }
details { margin: .3rem 0; } footer { color: #5a6275; margin-top: 3rem; font-size: .9rem; }
@media (prefers-color-scheme: dark) {
  body { background: #14171d; color: #e4e7ee; } code { background: #232833; } article p { color: #c3c9d6; }
  .damaged { background: #4a1717; color: #ffd7d7; } .sound { background: #12391f; color: #cdf3d8; }
  .open { background: #463408; color: #ffe9b8; }
}
@media print { details { display: block; } }
"""


def head(what: str, uri: str, now_millis: int, more_style: str = "") -> str:
    """Return the start of a page about a catalog: its title, the catalog's URI, and the time of the page."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{what} of {text(uri)}</title>
<style>{STYLE}{more_style}</style>
</head>
<body>
<h1>{what}</h1>
<p class="where">{text(uri)} · {text(time_text(now_millis))}</p>"""


def text(value: str) -> str:
    """Escape a value for HTML. Show control characters, and those that change the text direction, as escapes."""
    return escape("".join(_visible(character) for character in value))


def _visible(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return f"\\u{ord(character):04x}"
    return character
