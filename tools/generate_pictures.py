"""Make docs/pictures from catalogs made on the spot: the program's output in a terminal as SVG, and the pages of
`olympia serve` in Chromium as PNG.

Usage: python tools/generate_pictures.py
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.cli.output.render import plain_svg
from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.ops.fsck import FsckRequest, fsck, note_fsck
from olympia_cli.storage.memory import MemoryStore

TOP = Path(__file__).parents[1]
sys.path.insert(0, str(TOP))

from tests.helpers.chromium import chromium  # noqa: E402
from tests.helpers.clock import DAY, HOUR, FakeClock  # noqa: E402
from tests.helpers.serving import serving  # noqa: E402

PICTURES = {
    "log": ("olympia log", ["log"], 100),
    "graph": ("olympia log --oneline --graph", ["log", "--oneline", "--graph"], 100),
    "node": ("olympia dump-node", ["dump-node"], 120),
}
STORY = [
    ("ann@laptop", ["init"]),
    ("bob@ci", ["apply", "changes.jsonl", "-m", "adopt the finance warehouse"]),
    ("ann@laptop", ["ns", "create", "sales", "--property", "owner=ann"]),
    ("ann@laptop", ["table", "register", "sales.orders", "--metadata-location", "s3://lake/orders/00016.json"]),
    ("etl@node7", ["table", "register", "sales.lines", "--metadata-location", "s3://lake/lines/00016.json"]),
    ("etl@node7", ["apply", "load.jsonl", "-m", "nightly load"]),
    ("ann@laptop", ["rollback", "v4", "--yes", "-m", "bad load, back to Friday"]),
    ("ann@laptop", ["table", "rename", "finance.ledger_00", "sales.ledger"]),
]
CHANGES = [{"do": "ns create", "name": "finance"}] + [
    {"do": "table register", "name": f"finance.ledger_{number:02}", "metadata_location": f"s3://lake/fin/{number}.json"}
    for number in range(6)
]
PAGES = {
    "page-browse": ("/", 880, False),
    "page-versions": ("/versions", 960, False),
    "page-tree": ("/tree", 620, True),
}
"""The pictures of pages: the page, its height, and whether it is dark."""
LOAD = [
    {"do": "table drop", "name": "sales.orders"},
    {"do": "table alter", "name": "sales.lines", "metadata_location": "s3://lake/lines/00017.json"},
]


def main() -> None:
    """Run the commands of the story, and draw the output of some."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, lines in (("changes.jsonl", CHANGES), ("load.jsonl", LOAD)):
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        for who, words in STORY:
            run(words, folder, {"OLYMPIA_BY": who})
        for name, (title, words, width) in PICTURES.items():
            draw(name, title, screen(words, folder, width), width)
        photograph(folder)


def environment(more: dict[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OLYMPIA", "NO_COLOR"))}
    return {**kept, "OLYMPIA_CATALOG": "catalog", "OLYMPIA_PAGER": "cat", "TERM": "xterm-256color", **more}


def run(words: list[str], folder: Path, more: dict[str, str]) -> None:
    command = [sys.executable, "-m", "olympia_cli", *words]
    subprocess.run(command, cwd=folder, env=environment(more), check=True, capture_output=True)


def screen(words: list[str], folder: Path, width: int) -> str:
    """Return the output of a command in a terminal of this width."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [sys.executable, "-m", "olympia_cli", *words]
    with subprocess.Popen(command, cwd=folder, env=environment({}), stdout=inner, stderr=inner, stdin=inner):
        os.close(inner)
        written = b""
        while True:
            try:
                part = os.read(outer, 65536)
            except OSError:
                break
            if not part:
                break
            written += part
    os.close(outer)
    return written.decode().replace("\r\n", "\n")


def draw(name: str, title: str, text: str, width: int) -> None:
    console = Console(file=io.StringIO(), record=True, width=width, force_terminal=True, highlight=False)
    console.print(Text.from_ansi(text.rstrip()), soft_wrap=True)
    path = TOP / "docs" / "pictures" / f"{name}.svg"
    path.write_text(plain_svg(console.export_svg(title=title)))
    print(path.relative_to(TOP))


def photograph(profile: Path) -> None:
    """Take the pictures of pages. Chromium keeps its files in the folder `profile`."""
    clock = FakeClock(time.time_ns() // 1_000_000 - 9 * DAY)
    catalog = warehouse(clock)
    with serving(catalog.store, clock=clock) as served, chromium(profile / "chromium") as browser:
        for name, (page, height, is_dark) in PAGES.items():
            browser.dark(is_dark)
            browser.resize(1200, height)
            browser.open(served.url + page)
            browser.ask("document.querySelector('li.altered details')?.toggleAttribute('open')")
            path = TOP / "docs" / "pictures" / f"{name}.png"
            browser.picture(path)
            print(path.relative_to(TOP))


def warehouse(clock: FakeClock) -> Catalog:
    """Return a catalog with a week of history, in memory. The clock moves with it."""
    store = MemoryStore("warehouse", now_millis=clock.now_millis)
    catalog = Catalog.create(store, order=16, author=Author("ann@laptop", "a new catalog"), clock=clock)

    def commit(user: str, message: str, change: Callable[[Transaction], object], days: float = 1) -> int:
        clock.advance(round(days * DAY))
        transaction = catalog.begin()
        change(transaction)
        return catalog.commit(transaction, message, by=user).version

    def import_ledgers(transaction: Transaction) -> None:
        for name in ("finance", "marketing", "sales", "staging"):
            transaction.create_namespace(NamespaceName(name), {"owner": "ann"})
        for number in range(80):
            location = f"s3://lake/finance/ledger_{number:02}/metadata/00003.metadata.json"
            transaction.create_table(TableName("finance", f"ledger_{number:02}"), location)

    def load(transaction: Transaction) -> None:
        location = "s3://lake/finance/ledger_08/metadata/00004.metadata.json"
        transaction.alter_table(TableName("finance", "ledger_08"), {"retention": "90d"}, (), location)
        transaction.rename_table(TableName("finance", "ledger_09"), TableName("sales", "ledger"))
        transaction.drop_table(TableName("finance", "ledger_07"))

    def drop(transaction: Transaction) -> None:
        for number in range(20, 26):
            transaction.drop_table(TableName("finance", f"ledger_{number}"))

    def describe(transaction: Transaction) -> None:
        transaction.create_view(ViewName("sales", "orders_daily"), ViewDef(substrait_read_rel=b"plan"))
        transaction.alter_namespace(NamespaceName("sales"), {"owner": "carol", "tier": "gold"})

    commit("bob@ci", "import the finance warehouse", import_ledgers)
    version = commit("etl@node7", "nightly load", load, 4)
    commit("bob@ci", "drop unused ledgers", drop, 2)
    commit("ann@laptop", "the auditors need them", lambda transaction: transaction.roll_back(version), 0.5)
    commit("carol@laptop", "a daily view of orders", describe, 1.2)
    clock.advance(HOUR)
    note_fsck(catalog.store, fsck(catalog.store, FsckRequest(clock=clock)), clock, all_versions=False)
    clock.advance(2 * HOUR)
    return catalog


if __name__ == "__main__":
    main()
