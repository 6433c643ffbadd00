"""The table in the guide that says what `make test-engines` ran: `python -m tests.engines.matrix FOLDER`."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import olympia_cli
from tests.engines.engines import ENGINES, ICEBERG

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "serve.md"
MARKED = re.compile(r"(<!-- written by make test-engines -->\n).*(<!-- to here -->\n)", re.DOTALL)

STEPS = ["create", "list", "append", "update", "delete", "merge", "race", "alter"]
STEPS += ["view", "at", "txn", "secret", "upkeep", "drop"]
"""The columns. The guide says what each means."""
PLACES = {"disk": "disk", "file": "disk with `file://`", "s3": "S3"}


def table(folder: Path) -> str:
    """Return a table with one row per engine, from the results that the tests left in the folder."""
    lines = [
        f"Olympia {olympia_cli.__version__}, Iceberg {ICEBERG} in Spark and Flink, {datetime.now(UTC):%Y-%m-%d}:",
        "",
        f"| engine | {' | '.join(STEPS)} |",
        f"| --- |{' --- |' * len(STEPS)}",
    ]
    for name, engine in ENGINES.items():
        missing = folder / name / ".missing"
        if missing.exists():
            lines.append(f"| {name}: not run, {missing.read_text()} |{' |' * len(STEPS)}")
            continue
        done = {words: json.loads((folder / name / f"{place}.json").read_text()) for place, words in PLACES.items()}
        cells = []
        for step in STEPS:
            places = [words for words in done if step in done[words]]
            cells.append("yes" if len(places) == len(PLACES) else ", ".join(places) or "–")
        lines.append(f"| {engine.title} {engine.installed_version(folder / name)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    guide, marks = MARKED.subn(lambda found: found[1] + table(Path(sys.argv[1])) + found[2], GUIDE.read_text())
    assert marks == 1, f"{GUIDE} has no marks for the table"
    GUIDE.write_text(guide)
