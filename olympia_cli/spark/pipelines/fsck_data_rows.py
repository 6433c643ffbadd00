"""The rows in which `fsck_data` keeps its results: named files, wrong files, and numbers of checked files.

Texts from files are bytes here: they may not be text to Spark, and as bytes they sort as they do in Python.
"""

from __future__ import annotations

from typing import Any

from olympia_cli.iceberg.data_parts import UNSEEN, Below, Floor, Wrong, store_of
from olympia_cli.names import Kind
from olympia_cli.spark.batches import ddl

BELOW, WRONG, LOOKED = "below", "wrong", "looked"
"""Kinds of rows: a file that another file names; what is wrong with a file; how many files a task checked."""

VIEW = Kind.VIEW.word
"""The value of `what` for a view's metadata. For data files, `what` is the kind of file."""

# `top` is a number for a table that the file belongs to: files of one table lie together.
COLUMNS = {
    "row": "string",
    "floor": "string",
    "location": "binary",
    "above": "binary",
    "top": "long",
    "length": "long",
    "what": "string",
    "code": "string",
    "message": "binary",
    "store": "binary",
}
SCHEMA = ddl(COLUMNS)
_MOST = 2**63 - 1

Row = dict[str, Any]


def below(file: Below, above: Row) -> Row:
    """Return the row of a file that the file of the row `above` names."""
    return {
        "row": BELOW,
        "floor": file.floor.value,
        "location": as_data(file.location),
        "above": above["location"],
        "top": above["top"],
        # a foreign file may state any length, and the column has limits
        "length": max(-_MOST, min(file.length, _MOST)),
        "what": file.what,
    }


def wrong(floor: Floor, location: str, fault: Wrong, kind: Kind = Kind.TABLE) -> Row:
    """Return the row of what is wrong with a file of an object of this kind."""
    return {
        "row": WRONG,
        "floor": floor.value,
        "location": as_data(location),
        "what": kind.word,
        "code": fault.code,
        "message": as_data(fault.message),
        "store": as_data(store_of(location)) if fault.code == UNSEEN else None,
    }


def looked_at(floor: Floor, number: int) -> Row:
    return {"row": LOOKED, "floor": floor.value, "length": number}


def as_data(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
