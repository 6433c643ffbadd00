"""The page: every link leads somewhere, nothing of a catalog is markup, and long lists come in pages."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser

import httpx
import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.ops.fsck import note_fsck
from olympia_cli.rest.page import objects, versions
from olympia_cli.rest.page.document import REFRESH_MILLIS
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import FakeClock
from tests.helpers.fsck import fsck
from tests.helpers.serving import Served, serving

HOSTILE = '"><script>alert(1)</script>'
PAGES = ("/", "/namespace", "/table", "/files", "/view", "/versions", "/version", "/diff", "/tree", "/node", "/health")
ALLOWED = {
    *("html", "head", "meta", "title", "link", "body", "a", "nav", "ul", "ol", "li", "main", "p", "h1", "h2"),
    *("form", "input", "select", "option", "button", "div", "table", "thead", "tbody", "tr", "th", "td"),
    *("span", "strong", "time", "code", "svg", "rect", "path", "header", "footer", "section", "details", "summary"),
    *("dl", "dt", "dd", "del", "ins", "bdi", "blockquote", "br", "small"),
}


class Markup(HTMLParser):
    """The elements and links of a page. What is not closed in order is a mistake."""

    def __init__(self, page: httpx.Response) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(page.text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def words(page: httpx.Response) -> str:
    """The text of a page, without markup."""
    return " ".join(unescape(re.sub("<[^>]*>", " ", page.text.partition("<body>")[2])).split())


def check(page: httpx.Response) -> Markup:
    """A page that is well made and safe, whatever it shows."""
    found = Markup(page)
    assert found.elements <= ALLOWED, found.elements - ALLOWED
    assert not any(name.startswith("on") or name == "style" for name in found.attributes)
    assert "script" not in page.headers["content-security-policy"]
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in found.links)
    assert not re.search("[\x00-\x09\x0b-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069]", page.text)
    assert not re.search(r"\b(None|True|False|Undefined)\b", words(page))
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A catalog with odd names and a past, with a table that holds rows. Nothing leads off this machine."""
    folder = tmp_path_factory.mktemp("pages") / "catalog"
    catalog = Catalog.create(LocalStore(folder))
    with catalog.transaction("odd names") as transaction:
        transaction.create_namespace(NamespaceName("a.b"))
        transaction.create_table(TableName("a.b", 'say"hi"'), "/none/metadata.json")
        transaction.create_view(ViewName("a.b", "表"), ViewDef(substrait_read_rel=b"plan"))
    with catalog.transaction() as transaction:
        transaction.rename_table(TableName("a.b", 'say"hi"'), TableName("a.b", "t&1=#?"))
    tables = OlympiaCatalog.of(catalog)
    tables.create_namespace("page")
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "na<b>me": ["a", "b"]})
    table = tables.create_table("page.rows", rows.schema)
    table.append(rows)
    version = catalog.snapshot().version
    with catalog.transaction(HOSTILE) as transaction:
        transaction.create_table(TableName("page", HOSTILE), f"/{HOSTILE}", {HOSTILE: HOSTILE, "\u202e": "\x1b[2J"})
    undo = catalog.begin()
    undo.roll_back(version)
    catalog.commit(undo, "back")
    with catalog.transaction() as transaction:
        transaction.create_table(TableName("page", HOSTILE), f"/{HOSTILE}", {HOSTILE: HOSTILE, "\u202e": "\x1b[2J"})
    with serving(LocalStore(folder)) as found:
        yield found


def test_every_link_leads_to_a_page(served):
    """From the front page on, wherever links lead: what can be clicked is there, and safe."""
    waiting, seen = ["/", "/?kind=table", "/?kind=view"], set()
    while waiting:
        path = waiting.pop()
        if path in seen or path.startswith("#"):
            continue
        seen.add(path)
        page = served.http.get(path)
        assert page.status_code == 200, (path, page.text)
        if path == "/page.css":
            continue
        waiting += check(page).links
    assert {path.partition("?")[0] for path in seen} == {
        *("/", "/page.css", "/namespace", "/table", "/view", "/files", "/versions", "/version", "/diff"),
        *("/tree", "/node", "/health"),
    }


def test_a_table_with_its_schema_snapshots_files_and_history(served):
    text = unescape(served.http.get("/table", params={"ns": "page", "name": "rows"}).text)
    assert "na<b>me" in text
    assert "append" in text
    assert "created" in text
    files = served.http.get("/files", params={"ns": "page", "name": "rows"}).text
    assert ".parquet" in files


def test_markup_in_a_name_is_shown_escaped(served):
    page = served.http.get("/table", params={"ns": "page", "name": HOSTILE})
    check(page)
    assert "&lt;script&gt;" in page.text
    assert "Its metadata cannot be shown" in page.text
    assert "\\u202e" in page.text
    log = served.http.get("/versions")
    check(log)
    assert "undone by" in log.text


def test_search_looks_at_names_of_one_kind(served):
    found = served.http.get("/", params={"kind": "table", "q": "ROW"})
    assert "page.rows" in found.text
    assert "page.&quot;" not in found.text
    assert "Nothing." in served.http.get("/", params={"kind": "table", "q": "nowhere"}).text


def test_search_looks_at_names_of_all_kinds(served):
    found = served.http.get("/", params={"q": "A"})
    assert "All kinds" in found.text
    kinds = re.findall(r'<span class="kind \w+">(\w+)</span>', found.text)
    assert kinds == sorted(kinds)
    assert kinds[0] == "namespace"
    listed = set(re.findall(r'href="(/(?:namespace|table|view)\?[^"]*)"', served.http.get("/?kind=all").text))
    assert len(listed) == 6
    assert "a.b.表" in served.http.get("/", params={"kind": "view", "q": "表"}).text.replace("&#34;", "")


def test_a_list_of_all_kinds_continues_with_the_next_kind(monkeypatch):
    monkeypatch.setattr(objects, "PAGE", 3)
    catalog = Catalog.create(MemoryStore())
    with catalog.transaction() as transaction:
        for number in range(4):
            transaction.create_namespace(NamespaceName(f"n{number}"))
            transaction.create_table(TableName("n0", f"t{number}"), "/x")
            transaction.create_view(ViewName("n0", f"v{number}"), ViewDef(substrait_read_rel=b"plan"))
    with serving(catalog.store) as found:
        listed = [
            unescape(link)
            for page in pages(found, "/?kind=all")
            for link in re.findall(r'href="(/(?:namespace|table|view)\?[^"]*)"', page.text)
        ]
    assert listed == [
        *(f"/namespace?ns=n{number}" for number in range(4)),
        *(f"/{kind}?ns=n0&name={kind[0]}{number}" for kind in ("table", "view") for number in range(4)),
    ]


def test_the_header_names_the_catalog_its_version_and_its_health(served):
    for path in ("/", "/versions", "/tree", "/version?v=x"):
        header = served.http.get(path).text.partition("</header>")[0]
        assert ">catalog</span>" in header
        assert f">v{served.version}</a>" in header
        assert "Never checked" in header


def test_the_health_in_the_header_is_refreshed():
    clock = FakeClock()
    store = MemoryStore(now_millis=clock.now_millis)
    Catalog.create(store, clock=clock)
    with serving(store, clock=clock) as found:
        assert "Never checked" in found.http.get("/").text
        note_fsck(store, fsck(store), clock, all_versions=False)
        assert "Never checked" in found.http.get("/versions").text
        assert ">Sound<" in found.http.get("/health").text
        assert ">Sound<" in found.http.get("/versions").text
        store.delete_many(["ops/last-fsck.json"])
        assert ">Sound<" in found.http.get("/versions").text
        clock.advance(REFRESH_MILLIS)
        assert "Never checked" in found.http.get("/versions").text


def test_a_version_unfolds_to_the_fields_that_changed(served):
    with served.catalog.transaction("tidy") as transaction:
        transaction.alter_namespace(NamespaceName("page"), {"owner": "ann", "tier": "gold"})
    with served.catalog.transaction("tidy again") as transaction:
        transaction.alter_namespace(NamespaceName("page"), {"owner": "carol"})
    page = served.http.get("/versions")
    check(page)
    item = page.text.partition("tidy again")[2].partition("</details>")[0]
    opening = r'<li class="altered"><details><summary>.*altered namespace <code>page</code>.*owner.*</summary>'
    assert re.search(opening, item, re.DOTALL)
    assert "<dt>properties.owner</dt>" in item
    assert "<del>− ann</del>" in item
    assert "<ins>+ carol</ins>" in item
    assert "tier" not in item
    assert "just now" in page.text
    assert next(part for part in page.text.split("<li") if "renamed table" in part).startswith(' class="renamed"')


def test_versions_page_shows_reverted_alters_and_dropped_exports(tmp_path):
    catalog = Catalog.create(LocalStore(tmp_path / "catalog"))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"), {"owner": "ann"})
    with catalog.transaction() as transaction:
        transaction.alter_namespace(NamespaceName("n"), {"owner": "bob"})

    def typed(*command: str) -> None:
        program = [sys.executable, "-m", "olympia_cli", "-c", catalog.store.uri, *command]
        subprocess.run(program, capture_output=True, check=True)

    typed("revert", "v2", "--yes")
    typed("export", "create", "friday", "--dest", str(tmp_path / "friday"))
    typed("export", "drop", "friday", "--yes")
    with serving(catalog.store) as found:
        page = found.http.get("/versions")
        check(page)
        assert "mode full, dropped v4" in words(page)
        assert "~ altered namespace n" in words(page).partition("reverts v2")[2].partition("v2")[0]
        version = found.http.get("/version?v=3")
        check(version)
        assert "~ altered namespace n from v1" in words(version)


def test_many_similar_actions_share_a_line_that_unfolds_to_their_names():
    catalog = Catalog.create(MemoryStore())
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))
        for number in range(250):
            transaction.create_table(TableName("n", f"t{number:03}"), "/x")
    with serving(catalog.store) as found:
        page = found.http.get("/versions")
    check(page)
    assert "created 250 tables n.t000 … t249 n.t000 n.t001" in words(page)
    assert "n.t099 and 150 more objects" in words(page)


def test_the_next_command_of_the_health_page_can_be_typed(tmp_path):
    store = LocalStore(tmp_path / "it's")
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))

    def next_command() -> list[str]:
        page = found.http.get("/health")
        check(page)
        return shlex.split(unescape(re.findall(r'<code class="command">(.*?)</code>', page.text)[0]))

    def typed(command: list[str]) -> int:
        assert command[0] == "olympia"
        return subprocess.run([sys.executable, "-m", "olympia_cli", *command[1:]], capture_output=True).returncode

    with serving(store) as found:
        assert next_command() == ["olympia", "-c", store.uri, "fsck"]
        assert typed(next_command()) == 0
        assert "Sound" in words(found.http.get("/health"))
        path = catalog.snapshot().find(NamespaceName("n"))
        assert path is not None
        content = store.read(path)
        store.delete_many([path])
        assert typed(["olympia", "-c", store.uri, "fsck", "--level", "full"]) == 50
        page = found.http.get("/health")
        assert "Damaged" in words(page)
        assert "Sound" not in words(page)
        store.create(path, content)
        assert typed(next_command()) == 0
        assert "Sound" in words(found.http.get("/health"))


def test_metadata_and_messages_of_any_size_and_any_characters(tmp_path):
    """A metadata file is not the catalog's: it may hold half surrogates, marks that turn text around, and much text."""
    odd = {"name": f"{HOSTILE}\ud800\u200f", "doc": "x" * 10_000, "type": {"type": "struct", "fields": []}}
    metadata = {
        "format-version": 2, "location": HOSTILE, "last-column-id": [],
        "current-schema-id": 0, "current-snapshot-id": 7,
        "schemas": [{"schema-id": 0, "fields": [{"id": 1, **odd}, {"id": None}, {"id": True, "name": ["a", None]}]}],
        "partition-specs": [{"spec-id": 0, "fields": [{"source-id": 1, "transform": HOSTILE}]}], "default-spec-id": 0,
        "snapshots": [{"snapshot-id": 7, "timestamp-ms": 10**30, "summary": {"operation": None, "total-records": "x"}}],
        "refs": {HOSTILE: {"snapshot-id": 7}},
    }  # fmt: skip
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    store = LocalStore(tmp_path / "catalog")
    catalog = Catalog.create(store)
    with catalog.transaction(f"{HOSTILE}\u200f\n" + "m" * 10_000) as transaction:
        transaction.create_namespace(NamespaceName("n"), {"text": "p" * 10_000, "\u200fturned": "\u2067"})
        transaction.create_table(TableName("n", "t"), str(tmp_path / "metadata.json"))
    with serving(store) as found:
        for path in ("/?q=%ED%A0%80%E2%80%8F", "/versions", "/version?v=1", "/diff?from=v0&to=v1", "/namespace?ns=n"):
            page = found.http.get(path)
            assert page.status_code == 200
            check(page)
        page = found.http.get("/table?ns=n&name=t")
        check(page)
        assert "\\ud800\\u200f" in page.text
        assert len(found.http.get("/versions").text) < 20_000


@pytest.mark.parametrize("path", PAGES)
def test_a_token_for_a_namespace_sees_no_page(tmp_path, path):
    """Every page shows the whole catalog: its header, its versions and its health."""
    tokens = tmp_path / "tokens.toml"
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("all", "some")}
    entries = [
        f'[[token]]\nname = "{name}"\nsha256 = "{digest}"\nscopes = ["read"]' for name, digest in digests.items()
    ]
    tokens.write_text("\n".join(entries) + '\nnamespaces = ["n"]\n')
    with serving(MemoryStore("secret-name"), tokens=str(tokens)) as found:
        with found.catalog.transaction("secret message") as transaction:
            transaction.create_namespace(NamespaceName("hidden"))
        refused = [found.http.get(path), found.http.get(path, auth=("", "some"))]
        assert [answer.status_code for answer in refused] == [401, 403]
        assert not any(text in answer.text for answer in refused for text in ("secret", "hidden", "v1"))
        assert found.http.get(path, auth=("", "all")).status_code in (200, 400, 404)


def test_pages_of_an_older_version_link_to_that_version(served):
    page = served.http.get("/", params={"at": "v1"})
    assert "This is v1" in page.text
    inside = [link for link in check(page).links if link.startswith("/namespace")]
    assert inside
    assert all("at=v1" in link for link in inside)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/?at=v9999", 404), ("/?kind=x", 400), ("/table?ns=page&name=none", 404), ("/table?ns=a%20b&name=c", 400),
        ("/namespace?ns=none", 404), ("/view?ns=page&name=v", 404), ("/version?v=x", 400),
        ("/version?v=" + "9" * 99, 400),
        ("/diff?from=zzz", 404), ("/node?path=../../etc/passwd", 400), ("/node?path=node/none.arrow", 400),
        ("/tree?path=def/x", 400), ("/files?ns=page&name=rows&skip=x", 400), ("/?after_ns=a%20b", 400),
    ],
)  # fmt: skip
def test_missing_objects_and_invalid_parameters_get_an_error_page(served, path, status):
    page = served.http.get(path)
    assert page.status_code == status
    check(page)


def pages(served: Served, path: str) -> Iterator[httpx.Response]:
    """A list from its first page to its last."""
    while True:
        page = served.http.get(path)
        yield page
        found = re.search(r'<a href="([^"]+)" rel="next"', page.text)
        if not found:
            return
        path = unescape(found[1])


def test_long_lists_come_in_pages(monkeypatch):
    monkeypatch.setattr(objects, "LOOKED_AT", 300)
    catalog = Catalog.create(MemoryStore(), order=16)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))
        for number in range(1_000):
            transaction.create_table(TableName("n", f"t{number:04}"), "/x")
    with serving(catalog.store) as found:
        for path in ("/?kind=table", "/namespace?ns=n"):
            shown = [name for page in pages(found, path) for name in re.findall(r"name=(t\d+)\"", page.text)]
            assert shown == [f"t{number:04}" for number in range(1_000)]
        # a search goes on where it stopped looking, whether it found something or not
        several = list(pages(found, "/?kind=table&q=t0999"))
        assert len(several) == 4
        assert "name=t0999" in several[-1].text
        # the drawing has a bound, however large the tree is
        tree = found.http.get("/tree")
        assert tree.text.count("<rect") <= 2 * (1 + 128)


def test_versions_undone_by_rollback_are_marked_on_later_pages(monkeypatch):
    monkeypatch.setattr(versions, "PAGE", 3)
    catalog = Catalog.create(MemoryStore())
    for number in range(8):
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName(f"n{number}"))
    undo = catalog.begin()
    undo.roll_back(2)
    catalog.commit(undo, "back")
    with serving(catalog.store) as found:
        items = [item for page in pages(found, "/versions") for item in page.text.split("<li")]
    undone = {int(re.search(r"v=(\d+)", item)[1]) for item in items if "undone by" in item}  # type: ignore[index]
    assert undone == set(range(3, 9))
    assert all(">v9</a>" in item for item in items if "undone by" in item)


def test_readable_parts_of_a_damaged_catalog_are_shown(tmp_path):
    store = LocalStore(tmp_path / "catalog")
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        for number in range(300):
            transaction.create_namespace(NamespaceName(f"n{number:03}"))
    lost = next(child for child in catalog.snapshot().root.node.children if isinstance(child, str))
    content = store.read(lost)
    with serving(store) as found:
        store.overwrite(lost, content[: len(content) // 2])
        tree = found.http.get("/tree")
        assert "it cannot be read" in tree.text
        node = found.http.get("/node", params={"path": lost})
        assert "damaged" in node.text
        assert found.http.get("/").status_code == 500
        assert found.http.get("/versions").status_code == 200
        store.overwrite(lost, content)
