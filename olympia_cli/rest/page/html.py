"""Build HTML. All text that is not built here is escaped, so that content of a catalog can never be markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from starlette.responses import Response

from olympia_cli.ops.page import STYLE, text

SHEET = STYLE + Path(__file__).with_name("page.css").read_text(encoding="utf-8")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


Content = Html | str | int | None | Iterable["Content"]


def tag(name: str, /, *content: Content, **attributes: str | int | bool | None) -> Html:
    """Return an element. In attribute names, underscores become dashes, and a final underscore is dropped."""
    shown = "".join(
        f" {key.strip('_').replace('_', '-')}" + ("" if value is True else f'="{text(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in ("input", "meta", "link", "br", "rect", "path"):
        return Html(f"<{name}{shown}/>" if name in ("rect", "path") else f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{join(content)}</{name}>")


def join(content: Content) -> Html:
    if content is None:
        return Html("")
    if isinstance(content, Html):
        return content
    if isinstance(content, str | int):
        return Html(text(str(content)))
    return Html("".join(join(part) for part in content))


def link(label: Content, path: str, query: Mapping[str, object] | None = None, **attributes: str | None) -> Html:
    return tag("a", label, href=url(path, query), **attributes)


def url(path: str, query: Mapping[str, object] | None = None) -> str:
    given = {key: str(value) for key, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path


def table(headings: Sequence[str], rows: Iterable[Sequence[Content]], numbers: Sequence[str] = ()) -> Html:
    """Return a table. The columns in `numbers` are right-aligned."""
    head = tag("tr", [tag("th", heading, scope="col") for heading in headings])
    body = [
        tag(
            "tr",
            [
                tag("td", cell, class_="number" if at in numbers else None)
                for at, cell in zip(headings, row, strict=True)
            ],
        )
        for row in rows
    ]
    if not body:
        return tag("p", "Nothing.", class_="quiet")
    return tag("div", tag("table", tag("thead", head), tag("tbody", body), class_="list"), class_="scroll", tabindex=0)


def facts(values: Iterable[tuple[str, Content]]) -> Html:
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in values if value is not None]
    return tag("table", rows)


def code(value: str) -> Html:
    return tag("code", value)


def document(title: str, *content: Content, at: str = "", status: int = 200, here: str = "") -> Response:
    """Return a page. With `at`, its links keep that version."""
    links = [("/", "Objects"), ("/versions", "Versions"), ("/diff", "Diff"), ("/tree", "Tree"), ("/health", "Health")]
    items = [
        tag(
            "li",
            link(
                label,
                path,
                {"at": at} if path in ("/", "/tree") else None,
                aria_current="page" if path == here else None,
            ),
        )
        for path, label in links
    ]
    banner = None
    if at:
        banner = tag("p", f"This is {at}. ", link("Show the latest version", here or "/"), class_="verdict open")
    body = [
        link("Skip to the content", "#content", class_="skip"),
        tag("nav", tag("ul", tag("li", "olympia", class_="name"), items), aria_label="Pages"),
        tag("main", banner, tag("h1", title), *content, id="content"),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · olympia"),
        tag("link", rel="stylesheet", href="/page.css"),
    ]
    page = tag("html", tag("head", head), tag("body", body), lang="en")
    return Response("<!DOCTYPE html>\n" + page + "\n", status, HEADERS, media_type="text/html")


def sheet() -> Response:
    return Response(SHEET, headers={"X-Content-Type-Options": "nosniff"}, media_type="text/css")
