"""What fsck found as one page, for a colleague to open: no script, nothing from elsewhere, every value escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from html import escape

from olympia_cli.names import ObjectName, time_text
from olympia_cli.ops.fsck.findings import CODES, Finding, Severity
from olympia_cli.ops.fsck.fsck import Report

NAMED = 200
"""So many objects of a finding are named on the page."""

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


def report_page(report: Report, uri: str, now_millis: int) -> str:
    """The page. What it shows of a catalog is data: characters that turn text around are shown as escapes."""
    return "\n".join(_lines(report, uri, now_millis)) + "\n"


def _lines(report: Report, uri: str, now_millis: int) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
    yield f"<title>fsck of {text(uri)}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    yield f'<h1>fsck</h1>\n<p class="where">{text(uri)} · {text(time_text(now_millis))}</p>'
    yield _verdict(report)
    yield "<table>"
    yield f"<tr><th>level</th><td>{text(report.level)}</td></tr>"
    if report.version is not None:
        yield f"<tr><th>version</th><td>v{report.version}</td></tr>"
    for what, count in report.checked.items():
        if count:
            yield f'<tr><th>{text(what.replace("_", " "))}</th><td class="number">{count:,}</td></tr>'
    yield "</table>"
    for finding in report.findings:
        yield from _finding(finding)
    if not report.findings:
        yield "<p>Nothing was found.</p>"
    yield "<footer>Made by olympia fsck.</footer>\n</body>\n</html>"


def _verdict(report: Report) -> str:
    counts = ", ".join(f"{report.count(severity):,} {severity}" for severity in Severity if report.count(severity))
    if report.damaged:
        last = "none was found" if report.last_sound_version is None else f"v{report.last_sound_version}"
        return f'<p class="verdict damaged">Damaged: {counts}. The last sound version: {last}.</p>'
    if not report.complete:
        return f'<p class="verdict open">Not complete: the time ran out. So far: {counts or "nothing found"}.</p>'
    return f'<p class="verdict sound">Sound: {counts or "nothing found"}.</p>'


def _finding(finding: Finding) -> Iterator[str]:
    yield f'<article class="{finding.severity}">'
    yield f"<h2>{finding.severity} {finding.code}: {text(CODES.get(finding.code, ''))}</h2>"
    yield f"<p>{text(finding.message)}</p>\n<dl>"
    if finding.path:
        yield f"<dt>file</dt><dd><code>{text(finding.path)}</code></dd>"
    if finding.versions:
        shown = ", ".join(f"v{a}" if a == b else f"v{a} to v{b}" for a, b in finding.versions[-20:])
        yield f"<dt>versions</dt><dd>{shown} ({finding.versions_total:,})</dd>"
    if finding.hint:
        yield f"<dt>next</dt><dd><code>{text(finding.hint)}</code></dd>"
    yield "</dl>"
    if finding.objects:
        total = finding.objects_total
        yield f"<details><summary>{total:,} object{'' if total == 1 else 's'}</summary>"
        yield "<ul>" + "".join(f"<li>{_object(name)}</li>" for name in finding.objects[:NAMED]) + "</ul>"
        if total > NAMED:
            yield f"<p>and {total - min(NAMED, len(finding.objects)):,} more</p>"
        yield "</details>"
    yield "</article>"


def _object(name: ObjectName) -> str:
    return f"{name.kind.word} <code>{text(str(name))}</code>"


def text(value: str) -> str:
    """A value as a page shows it: never markup, and nothing that turns text around or hides in it."""
    return escape("".join(_visible(character) for character in value))


def _visible(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return f"\\u{ord(character):04x}"
    return character
