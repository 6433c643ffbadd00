"""Catalogs that the Java SDK itself wrote, each with what the SDK says of every version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.archives import unpack_archive

FOLDER = Path(__file__).parent.parent / "java"
EMPTY, SMALL, ODD, BULK, CHURN, TXN = NAMES = (
    "a-empty",
    "b-small",
    "b2-odd-names",
    "c4-bulk-one-commit",
    "c7-one-commit-churn-s1",
    "d-dtxn",
)


def unpack(name: str, into: Path) -> tuple[Path, dict[str, Any]]:
    """The catalog in a folder below `into`, and what the SDK says of it."""
    unpack_archive(FOLDER / f"{name}.tar.gz", into)
    told = into / name / "expected.json"
    expected: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
    told.unlink()
    return into / name, expected
