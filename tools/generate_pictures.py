"""Make docs/pictures: the program's output in a terminal, as SVG, from a catalog made on the spot.

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
from pathlib import Path

from rich.console import Console
from rich.text import Text

from olympia_cli.cli.render import plain_svg

TOP = Path(__file__).parents[1]
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


if __name__ == "__main__":
    main()
