"""The log as an HTML page to share: a timeline of versions, with their actions and later rollbacks or reverts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.log_render import describe, fate
from olympia_cli.cli.log_text import action_line, folded, stat
from olympia_cli.cli.params import Output
from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.names import plural
from olympia_cli.ops.look.log import LogEntry
from olympia_cli.ops.page import head, text

NAMED = 200
"""Number of actions per version that are listed one by one."""

_STYLE = """
ol.timeline { list-style: none; margin: 1.5rem 0; padding: 0 0 0 1.2rem; border-left: .15rem solid #9aa3b5; }
ol.timeline li.version { position: relative; margin: 0 0 1.2rem; }
li.version::before { content: ""; position: absolute; left: -1.65rem; top: .45rem; width: .7rem; height: .7rem;
  border-radius: 50%; background: #2f6fde; }
li.undone, li.reverted { opacity: .65; } li.undone { margin-left: 1.6rem; }
li.undone::before, li.reverted::before { background: none; border: .15rem solid #9aa3b5; width: .5rem; height: .5rem; }
li.rollback::before { background: #8e44ad; } li.unreadable::before { background: #c62828; }
li.version h2 { font-size: 1rem; margin: 0; } li.version h2 span { font-weight: 400; color: #5a6275; }
li.version blockquote { margin: .2rem 0; padding-left: .7rem; border-left: .2rem solid #d7dbe4; white-space: pre-wrap; }
.note { border-radius: .3rem; padding: 0 .4rem; background: #efe6f6; color: #5b2a78; font-size: .85em; }
ul.actions { margin: .2rem 0; padding-left: 1.2rem; } summary { cursor: pointer; }
@media (prefers-color-scheme: dark) {
  .note { background: #3a2647; color: #ecd9f7; } li.version blockquote { border-color: #3c4353; }
  li.version h2 span, .where { color: #9aa3b5; }
}
"""


def write_timeline(session: Session, path: str, entries: Iterable[LogEntry], now_millis: int) -> None:
    """Write the page, and print the number of versions on it."""
    render.check_output(session, path)
    count = 0

    def counted() -> Iterator[LogEntry]:
        nonlocal count
        for entry in entries:
            count += 1
            yield entry

    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(f"{line}\n" for line in timeline_page(counted(), session.store.uri, now_millis))
    except OSError as error:
        raise InvalidOption(
            f"{quoted(path, 200)} cannot be written: {error.strerror}", hint="give another file"
        ) from None
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"html": path, "count": count})
    else:
        session.say(f"{plural(count, 'version')} in {path}")


def timeline_page(entries: Iterable[LogEntry], uri: str, now_millis: int) -> Iterator[str]:
    """Yield the page line by line, so that no log is too long for it."""
    yield head("log", uri, now_millis, _STYLE)
    yield '<ol class="timeline">'
    for entry in entries:
        yield from _version(entry)
    yield "</ol>"
    yield "<footer>Made by olympia log. Times are UTC.</footer>\n</body>\n</html>"


def _version(entry: LogEntry) -> Iterator[str]:
    values = describe(entry)
    kinds = {
        "undone": entry.undone_by is not None,
        "reverted": entry.reverted_by is not None,
        "rollback": entry.rollback_to is not None,
        "unreadable": bool(entry.unreadable),
    }
    classes = " ".join(["version", *(name for name, holds in kinds.items() if holds)])
    notes = [] if entry.rollback_to is None else [f"rollback to v{entry.rollback_to}"]
    marks = "".join(f' <span class="note">{text(note)}</span>' for note in (*notes, *fate(entry)))
    moment = (values["created_at"] or "?")[:19].replace("T", " ")
    yield f'<li class="{classes}" id="v{entry.version}">'
    yield f"<h2>v{entry.version} <span>{text(moment)} {text(entry.by)}</span>{marks}</h2>"
    if entry.message:
        yield f"<blockquote>{'<br>'.join(text(line) for line in entry.message.splitlines())}</blockquote>"
    if entry.unreadable:
        yield f"<p>cannot be read: {text(entry.unreadable)}</p>"
    yield from _actions(values["actions"])
    yield "</li>"


def _actions(actions: list[dict[str, Any]]) -> Iterator[str]:
    lines = [line.text for line in folded(actions)]
    if not lines:
        return
    yield '<ul class="actions">' + "".join(f"<li><code>{text(line)}</code></li>" for line in lines[:NAMED]) + "</ul>"
    if len(lines) < len(actions) or len(lines) > NAMED:
        first_actions = actions[:NAMED]
        yield f"<details><summary>{text(stat(actions))}, one by one</summary>"
        yield (
            "<ul>" + "".join(f"<li><code>{text(action_line(action))}</code></li>" for action in first_actions) + "</ul>"
        )
        if len(actions) > NAMED:
            yield f"<p>and {len(actions) - NAMED:,} more</p>"
        yield "</details>"
