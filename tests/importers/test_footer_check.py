"""Footers of Parquet files before Arrow sees them: what is usual is checked in less time, and not in another way."""

from __future__ import annotations

import io
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from olympia_cli.importers import footers
from olympia_cli.importers.footers import check_footer
from olympia_cli.importers.wire import Garbled

ROWS = pa.table(
    {
        "number": pa.array([1, None, 3], pa.int64()),
        "small": pa.array([1, 2, 3], pa.int32()),
        "truth": [True, False, None],
        "text": ["a", "longer than others", None],
        "fixed": pa.array([b"abc", b"def", None], pa.binary(3)),
        "price": pa.array([Decimal("1.50"), None, Decimal("2.00")], pa.decimal128(30, 2)),
        "list": [[1, 2], None, []],
        "inside": [{"a": 1.5, "b": ["x"]}, None, {"a": None, "b": None}],
        "none": pa.nulls(3, pa.string()),
    }
)
USUAL = {"whole": {}, "plain": {"use_dictionary": False}, "older": {"version": "1.0"}}
OTHERS = {"without statistics": {"write_statistics": False}, "with a page index": {"write_page_index": True}}


def footer(**options):
    file = io.BytesIO()
    pq.write_table(ROWS, file, row_group_size=2, **options)
    data = file.getvalue()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def verdict(data, quick, monkeypatch):
    monkeypatch.setattr(footers, "_quick", quick)
    try:
        check_footer(memoryview(data))
    except Garbled as garbled:
        return str(garbled)
    return "sound"


@pytest.mark.parametrize("options", USUAL.values(), ids=USUAL)
def test_footers_written_by_arrow_take_the_fast_path(options, monkeypatch):
    """Else a wide table, which has a hundred thousand columns in its groups of rows, takes seconds."""
    known, quick = [], footers._quick
    assert (
        verdict(footer(**options), lambda data, at: known.append(quick(data, at)) or known[-1], monkeypatch) == "sound"
    )
    assert len(known) == 2 * 10
    assert None not in known


@pytest.mark.parametrize("options", [*USUAL.values(), *OTHERS.values()], ids=[*USUAL, *OTHERS])
def test_the_quick_way_and_the_other_agree(options, monkeypatch):
    sound, chance, quick = footer(**options), random.Random(7), footers._quick
    verdicts = set()
    for _ in range(600):
        data = bytearray(sound)
        for _ in range(chance.choice((0, 1, 1, 2))):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x15, 0x18, 0x7F, 0x80, chance.randrange(256)))
        told = verdict(bytes(data), quick, monkeypatch)
        assert told == verdict(bytes(data), lambda data, at: None, monkeypatch)
        verdicts.add(told)
    assert len(verdicts) > 5
