"""The page in a real browser: what a person does with it, by keyboard alone, and what a hostile catalog cannot do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from tests.helpers.chromium import Browser, chromium
from tests.helpers.serving import Served, serving

HOSTILE = "<img/src=x/onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = LocalStore(tmp_path_factory.mktemp("browser") / "catalog")
    catalog = Catalog.create(store, order=16)
    with catalog.transaction(HOSTILE) as transaction:
        transaction.create_namespace(NamespaceName("sales"))
        transaction.create_namespace(NamespaceName(HOSTILE))
        transaction.create_table(TableName(HOSTILE, HOSTILE), f"/{HOSTILE}", {HOSTILE: HOSTILE})
        for number in range(250):
            transaction.create_table(TableName("sales", f"orders_{number:03}"), "/none/metadata.json")
    with serving(store) as found:
        yield found


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def browser(served: Served, window: Browser) -> Iterator[Browser]:
    window.asked.clear()
    window.problems.clear()
    window.open(served.url)
    yield window
    # nothing from elsewhere, whatever was looked at
    assert {
        url.partition("/")[2].partition("/")[2].partition("/")[0] for url in window.asked if url.startswith("http")
    } == {served.url.removeprefix("http://")}


def focused(browser: Browser) -> str:
    return str(browser.ask("document.activeElement.innerText || document.activeElement.name || ''"))


def tab_to(browser: Browser, wanted: str) -> None:
    """Go there by the Tab key."""
    seen = []
    for _ in range(60):
        browser.press("Tab")
        seen.append(focused(browser))
        if seen[-1] == wanted:
            return
    raise AssertionError(f"{wanted} is not reached: {seen}")


def test_a_table_is_searched_and_found_by_keyboard(served, browser):
    tab_to(browser, "q")
    browser.type("ORDERS_24")
    browser.ask("document.querySelector('select').value = 'table'")
    browser.press("Enter", leads=True)
    assert browser.ask("document.querySelectorAll('tbody tr').length") == 10
    assert "q=ORDERS_24" in browser.ask("location.href")
    tab_to(browser, "sales.orders_247")
    browser.press("Enter", leads=True)
    assert browser.ask("document.querySelector('h1').innerText") == "Table sales.orders_247"
    # the URL is the state: opened again it shows the same
    here = browser.ask("location.href")
    browser.open(here)
    assert browser.ask("document.querySelector('h1').innerText") == "Table sales.orders_247"


def test_the_first_stop_skips_to_the_content(browser):
    browser.press("Tab")
    assert focused(browser) == "Skip to the content"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0


def test_the_tree_is_gone_down_by_keyboard(served, browser):
    browser.open(f"{served.url}/tree")
    boxes = browser.ask("document.querySelectorAll('svg a').length")
    assert boxes > 2
    browser.ask("document.querySelectorAll('svg a')[1].focus()")
    browser.press("Enter", leads=True)
    assert "path=node" in browser.ask("location.href")
    # how full a node is can be seen: the bars are drawn, and not wider than their boxes
    of_box = "[...a.querySelectorAll('rect')].map(r => r.width.baseVal.value)"
    widths = browser.ask(f"[...document.querySelectorAll('svg a')].map(a => {of_box})")
    assert all(0 < bar <= box for box, bar in widths)


@pytest.mark.parametrize(
    "path", ["/?kind=table", "/versions", "/version?v=1", "/diff?from=v0&to=v1", "/tree", "/health"]
)
def test_what_a_catalog_holds_is_text(served, browser, path):
    browser.open(served.url + path)
    assert browser.problems == []
    assert browser.ask("document.querySelectorAll('img, script, iframe').length") == 0
    # the style is there, so the policy lets through what it should
    assert browser.ask("getComputedStyle(document.querySelector('nav ul')).display") == "flex"


def test_a_script_would_not_run_even_if_it_got_in(served, browser):
    browser.ask("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 1\">')")
    browser.ask("const s = document.createElement('script'); s.textContent = 'window.hit = 2'; document.body.append(s)")
    assert browser.ask("window.hit") is None
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_light_and_dark(served, browser):
    colours = {}
    for dark in (False, True):
        browser.dark(dark)
        browser.open(f"{served.url}/versions")
        text = browser.ask("getComputedStyle(document.body).color")
        ground = browser.ask("getComputedStyle(document.body).backgroundColor")
        colours[dark] = (text, ground)
    browser.dark(False)
    assert colours[False] != colours[True]
    assert colours[True][1] == "rgb(20, 23, 29)"


def test_a_narrow_window_shows_it_all(served, browser):
    browser.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=True)
    for path in ("/?kind=table", "/versions", "/tree", "/health"):
        browser.open(served.url + path)
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth"), path
    browser.call("Emulation.clearDeviceMetricsOverride")
