"""The page in a real browser: by keyboard alone, in light and dark, narrow and wide, and with a hostile catalog."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.ops.fsck import note_fsck
from olympia_cli.storage.local import LocalStore
from tests.helpers.chromium import Browser, chromium
from tests.helpers.fsck import fsck
from tests.helpers.serving import Served, serving

HOSTILE = "<img/src=x/onerror=alert(1)><script>alert(2)</script>"
TURNED = "\u05d0\u05d1\u05d2\u202eturned"
PAGES = {
    "browse": "/",
    "search": "/?kind=all&q=o",
    "nothing found": "/?q=nothing-like-this",
    "older version": "/?at=v1",
    "namespace": "/namespace?ns=sales",
    "table": "/table?ns=shop&name=rows",
    "unreadable table": "/table?ns=sales&name=orders_001",
    "files": "/files?ns=shop&name=rows",
    "view": "/view?ns=shop&name=daily",
    "versions": "/versions",
    "version": "/version?v=2",
    "compare": "/diff?from=v0&to=v2",
    "tree": "/tree",
    "node": "/node?path={root}",
    "health": "/health",
    "error": "/table?ns=none&name=none",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = LocalStore(tmp_path_factory.mktemp("browser") / "catalog")
    catalog = Catalog.create(store, order=16)
    with catalog.transaction(HOSTILE) as transaction:
        transaction.create_namespace(NamespaceName("sales"))
        transaction.create_namespace(NamespaceName(HOSTILE))
        transaction.create_table(TableName(HOSTILE, HOSTILE), f"/{HOSTILE}", {HOSTILE: HOSTILE})
        for number in range(900):
            transaction.create_table(TableName("sales", f"orders_{number:03}"), "/none/metadata.json")
    with catalog.transaction(f"{TURNED} " + "word " * 100 + "w" * 10_000) as transaction:
        transaction.drop_table(TableName("sales", "orders_000"))
        transaction.alter_table(TableName("sales", "orders_002"), {"owner": "ann", "long": "x" * 10_000})
        transaction.rename_table(TableName("sales", "orders_003"), TableName("sales", "orders_x"))
        transaction.create_namespace(NamespaceName("shop"))
        transaction.create_view(ViewName("shop", "daily"), ViewDef(substrait_read_rel=b"plan"))
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
    OlympiaCatalog.of(catalog).create_table("shop.rows", rows.schema).append(rows)
    with catalog.transaction("a mistake") as transaction:
        transaction.drop_table(TableName("sales", "orders_005"))
    undo = catalog.begin()
    undo.roll_back(catalog.snapshot().version - 1)
    catalog.commit(undo, "back")
    note_fsck(store, fsck(store), catalog.clock, all_versions=False)
    with serving(store) as found:
        yield found


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def browser(served: Served, window: Browser) -> Iterator[Browser]:
    window.asked.clear()
    window.dark(False)
    window.resize(1400)
    window.open(served.url)
    window.problems.clear()
    yield window
    # nothing from elsewhere, whatever was looked at
    assert {
        url.partition("/")[2].partition("/")[2].partition("/")[0] for url in window.asked if url.startswith("http")
    } == {served.url.removeprefix("http://")}


def address(served: Served, page: str) -> str:
    return served.url + PAGES[page].format(root=served.catalog.snapshot().file.path)


def focused(browser: Browser) -> str:
    return str(browser.ask("document.activeElement.innerText || document.activeElement.name || ''"))


def tab_to(browser: Browser, wanted: str) -> None:
    """Go there by the Tab key."""
    stops = []
    for _ in range(60):
        browser.press("Tab")
        stops.append(focused(browser))
        if wanted in stops[-1].splitlines():
            return
    raise AssertionError(f"{wanted} is not reached: {stops}")


# By keyboard


def test_a_table_is_searched_and_found_by_keyboard(served, browser):
    tab_to(browser, "q")
    browser.type("ORDERS_24")
    browser.press("Tab")
    for _ in range(2):
        browser.press("ArrowDown")
    tab_to(browser, "Search")
    browser.press("Enter", leads=True)
    assert browser.ask("document.querySelectorAll('ul.rows li').length") == 10
    assert "q=ORDERS_24&kind=table" in browser.ask("location.href")
    tab_to(browser, "sales.orders_247")
    browser.press("Enter", leads=True)
    assert browser.ask("document.querySelector('h1').innerText") == "orders_247"
    # the breadcrumbs lead up again
    tab_to(browser, "sales")
    browser.press("Enter", leads=True)
    assert browser.ask("location.pathname + location.search") == "/namespace?ns=sales"


def test_the_first_stop_skips_to_the_content(browser):
    browser.press("Tab")
    assert focused(browser) == "Skip to the content"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter")
    browser.press("Tab")
    assert browser.ask("document.querySelector('main').contains(document.activeElement)")


def test_a_change_unfolds_to_its_fields_by_keyboard(served, browser):
    browser.open(f"{served.url}/versions")
    for _ in range(80):
        browser.press("Tab")
        if "altered table sales.orders_002" in focused(browser):
            break
    assert browser.ask("document.activeElement.tagName") == "SUMMARY"
    field = "[...document.querySelectorAll('dt')].find(e => e.innerText == 'properties.owner')"
    assert not browser.ask(f"{field}?.checkVisibility()")
    browser.press("Enter")
    assert browser.ask(f"{field}.checkVisibility()")


def test_keyboard_leads_from_the_tree_down_to_a_node(served, browser):
    browser.open(f"{served.url}/tree")
    assert browser.ask("document.querySelectorAll('.node').length") > 2
    for _ in range(60):
        browser.press("Tab")
        if browser.ask("document.activeElement.closest('.tree li') !== null"):
            break
    browser.press("Enter", leads=True)
    assert "path=node" in browser.ask("location.href")
    assert "root of v" in browser.ask("document.querySelector('.crumbs').innerText")
    # how full a node is can be seen: the bars are drawn, and not wider than their boxes
    of_box = "[...a.querySelectorAll('rect')].map(r => r.width.baseVal.value)"
    widths = browser.ask(f"[...document.querySelectorAll('.node')].map(a => {of_box})")
    assert all(0 < bar <= box for box, bar in widths)


FOCUS = """(() => {
    const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect()
    return [e === document.body, style.outlineStyle, parseFloat(style.outlineWidth), box.left, box.right, innerWidth]
})()"""


@pytest.mark.parametrize("page", PAGES)
def test_each_stop_of_the_keyboard_is_visible(served, browser, page):
    browser.open(address(served, page))
    stops = 0
    for _ in range(40):
        browser.press("Tab")
        at_end, style, width, left, right, across = browser.ask(FOCUS)
        if at_end:
            break
        stops += 1
        assert style != "none"
        assert width >= 2
        assert 0 <= left < right <= across + 1
    assert stops >= 9


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_landmarks_and_one_heading(served, browser, page):
    browser.open(address(served, page))
    assert browser.ask("['header', 'main', 'footer', 'h1'].map(e => document.querySelectorAll(e).length)") == [1] * 4
    assert browser.ask("[...document.querySelectorAll('nav')].every(e => e.getAttribute('aria-label'))")
    assert browser.ask("document.querySelectorAll('input:not([aria-label]), select:not([aria-label])').length") == 0
    levels = browser.ask("[...document.querySelectorAll('h1, h2, h3')].map(e => Number(e.tagName[1]))")
    assert levels == [1] + [2] * (len(levels) - 1)
    assert browser.ask("document.documentElement.lang") == "en"


# By eye

CONTRAST = """(() => {
    document.querySelectorAll('details').forEach(e => e.open = true)
    const parse = color => {
        const numbers = color.match(/[\\d.]+/g).map(Number)
        return numbers.length < 4 ? [...numbers, 1] : numbers
    }
    const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1)
    const ground = e => e === null ? [255, 255, 255, 1] : (color => color[3] === 1 ? color
        : over(color, ground(e.parentElement)))(parse(getComputedStyle(e).backgroundColor))
    const light = color => [.2126, .7152, .0722].reduce((sum, share, i) => {
        const part = color[i] / 255
        return sum + share * (part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
    }, 0)
    const opacity = e => e === null ? 1 : getComputedStyle(e).opacity * opacity(e.parentElement)
    const found = []
    const check = (e, style, text) => {
        const below = ground(e), color = parse(style.color)
        color[3] *= opacity(e)
        const [a, b] = [light(over(color, below)), light(below)]
        const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05)
        found.push([ratio, e.tagName + '.' + e.className, text.trim().slice(0, 40)])
    }
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) {
        const e = walker.currentNode.parentElement, text = walker.currentNode.textContent
        if (text.trim() && e.getClientRects().length) check(e, getComputedStyle(e), text)
    }
    for (const e of document.body.querySelectorAll('*')) {
        for (const part of ['::before', '::after']) {
            const style = getComputedStyle(e, part)
            if (/[a-z/▸▾]/i.test(style.content) && !['none', 'normal'].includes(style.content) && e.checkVisibility())
                check(e, style, part + style.content)
        }
        if (e.placeholder) check(e, getComputedStyle(e, '::placeholder'), e.placeholder)
        if (e.value && e.tagName === 'INPUT') check(e, getComputedStyle(e), e.value)
    }
    return found
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_all_text_has_a_contrast_of_4_5(served, browser, page, dark):
    browser.dark(dark)
    for width in (1400, 400):
        browser.resize(width)
        browser.open(address(served, page))
        found = browser.ask(CONTRAST)
        assert len(found) > 15
        assert [text for text in found if text[0] < 4.5] == []


def test_light_and_dark(served, browser):
    colours = {}
    for dark in (False, True):
        browser.dark(dark)
        browser.open(f"{served.url}/versions")
        text = browser.ask("getComputedStyle(document.body).color")
        ground = browser.ask("getComputedStyle(document.body).backgroundColor")
        colours[dark] = (text, ground)
    assert colours[False] != colours[True]
    assert colours[True][1] == "rgb(13, 19, 29)"


@pytest.mark.parametrize("width", [320, 400, 700, 1400])
@pytest.mark.parametrize("page", PAGES)
def test_no_page_scrolls_sideways(served, browser, page, width):
    browser.resize(width)
    browser.open(address(served, page))
    browser.ask("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    # nor is text cut off: what has too little room is wrapped, or ends in an ellipsis
    outside = """[...document.querySelectorAll('main *')].filter(e => e.children.length == 0 && e.innerText
        && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.innerText.slice(0, 40))"""
    assert browser.ask(outside) == []
    assert browser.ask("parseFloat(getComputedStyle(document.body).fontSize)") >= 15


@pytest.mark.parametrize("width", [320, 400, 1400])
@pytest.mark.parametrize("page", ["health", "table", "view", "version"])
def test_a_name_keeps_its_distance_from_its_value(served, browser, page, width):
    browser.resize(width)
    browser.open(address(served, page))
    touching = """[...document.querySelectorAll('dl.facts dt')].filter(name => {
        const range = document.createRange()
        range.selectNodeContents(name)
        const [text, value] = [range.getBoundingClientRect(), name.nextElementSibling.getBoundingClientRect()]
        return value.top < text.bottom - 1 && value.left < text.right + 8
    }).map(name => name.innerText)"""
    assert browser.ask(touching) == []


BOXES = """(selector => [...document.querySelectorAll(selector)].map(e => {
    const box = e.getBoundingClientRect()
    return [box.left, box.top, box.right, box.bottom]
}))"""


@pytest.mark.parametrize("width", [400, 700])
def test_each_node_of_the_tree_has_a_line_to_its_parent(served, browser, width):
    browser.resize(width)
    browser.open(f"{served.url}/tree")
    children, top = (browser.ask(f"{BOXES}('{selector}')")[0] for selector in (".tree ul", ".node.top"))
    assert browser.ask("getComputedStyle(document.querySelector('.tree ul')).overflow") == "clip"
    assert top[0] < children[0] < top[2]
    assert abs(children[1] - top[3]) <= 1
    nodes, branches, trunks = (browser.ask(f"{BOXES}('.tree li {kind}')") for kind in (".node", ".branch", ".trunk"))
    assert len({node[1] for node in nodes}) > 1, "the nodes wrap"
    for node, branch, trunk in zip(nodes, branches, trunks, strict=True):
        # from the middle of the node's upper edge, over to the trunk, and up to the parent
        assert abs(branch[2] - (node[0] + node[2]) / 2) <= 2
        assert abs(branch[3] - node[1]) <= 1.5
        assert branch[0] <= children[0]
        assert trunk[0] == children[0]
        assert trunk[1] <= children[1]
        assert branch[1] < trunk[3] <= branch[3]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("words", ["log --html", "fsck --all-versions --report"])
def test_the_pages_that_commands_write_look_the_same(served, browser, tmp_path, words, dark):
    file = tmp_path / "page.html"
    command = [sys.executable, "-m", "olympia_cli", "-c", served.catalog.store.uri, *words.split(), str(file)]
    subprocess.run(command, check=True, capture_output=True)
    browser.dark(dark)
    for width in (1400, 400):
        browser.resize(width)
        browser.open(file.as_uri())
        assert browser.problems == []
        assert [text for text in browser.ask(CONTRAST) if text[0] < 4.5] == []
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask("getComputedStyle(document.querySelector('.bar')).display") == "flex"


# What a catalog holds


@pytest.mark.parametrize("page", PAGES)
def test_a_hostile_catalog_adds_no_elements_to_a_page(served, browser, page):
    browser.open(address(served, page))
    # a page that is not there is a message, but not of the page's policy
    assert [problem for problem in browser.problems if "404" not in problem] == []
    assert browser.ask("document.querySelectorAll('img, script, iframe').length") == 0
    # the style is there, so the policy lets through what it should
    assert browser.ask("getComputedStyle(document.querySelector('nav ul')).display") == "flex"


def test_text_from_right_to_left_moves_no_neighbour(served, browser):
    browser.open(f"{served.url}/versions")
    item = "[...document.querySelectorAll('ol.log > li')].find(e => e.innerText.includes('turned'))"
    parts = "['.head strong', '.message', '.by']"
    left = browser.ask(f"{parts}.map(part => {item}.querySelector(part).getBoundingClientRect().left)")
    assert left == sorted(left)
    assert "\\u202e" in browser.ask(f"{item}.innerText")


def test_a_script_would_not_run_even_if_it_got_in(served, browser):
    browser.ask("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 1\">')")
    browser.ask("const s = document.createElement('script'); s.textContent = 'window.hit = 2'; document.body.append(s)")
    assert browser.ask("window.hit") is None
    assert any("Content Security Policy" in problem for problem in browser.problems)
