"""The benchmark measures what it says, and fails when it does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.catalogs import owned, tree
from benchmarks.measuring import SIZES, Bench, Figure, count, exponent
from benchmarks.run import BEGIN, END, GROWTH, ROWS, Measured, failures, main, measure, write_docs
from benchmarks.serving import BUCKET
from tests.helpers.servers.s3 import StrictS3

SPARK = 18
"""Spark takes longer to start than all others together: `make bench-quick` measures it."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "run-1").mkdir()
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        bench = Bench(folder, folder / "run-1", Path(sys.executable), SIZES["tiny"], server.url)
        for tables in bench.sizes.tables:
            tree(bench, tables)
        yield bench


@pytest.mark.parametrize("number", [number for number in (*ROWS, GROWTH) if number != SPARK])
def test_every_row_is_measured_beside_its_peer(number, bench):
    measured = measure(number, bench)
    assert measured.figures
    assert all(figure.value == figure.value for figure in measured.figures)
    if number == GROWTH:
        assert {line["who"] for line in measured.laws["tables"][0]["lines"]} >= {"Olympia", "SqlCatalog"}
    else:
        assert any(figure.bound for figure in measured.figures)


def test_a_bound_on_counts_that_is_broken_fails_the_run_and_one_on_times_does_not():
    slow = Measured(1, [Figure("slow", 2.0, most=1.0), Figure("not fast", 2.0, least=4.0)])
    assert failures([slow], [1]) == []
    assert [figure.verdict for figure in slow.figures] == ["missed by 100%", "missed by 50%"]
    broken = Measured(8, [count("round trips", 3, 2)])
    assert len(failures([slow, broken], [1, 8])) == 1
    assert "round trips: 3, bound ≤ 2" in failures([slow, broken], [1, 8])[0]


def test_a_missing_measurement_fails_the_run(tmp_path, capsys):
    assert failures([], []) == ["nothing was measured"]
    assert "not measured" in failures([Measured(1, [], why="it died")], [1])[0]
    # the peers are not there
    assert main(["--size", "tiny", "--only", "5", "--folder", str(tmp_path / "kept"), "--peers", "/bin/false"]) == 1
    said = capsys.readouterr()
    assert "**not measured**" in said.out
    assert "not measured" in said.err
    assert not list((tmp_path / "kept").glob("run-*"))


def test_a_row_that_fails_stops_no_other_and_the_run_says_where_it_is(tmp_path, capsys):
    words = ["--size", "tiny", "--only", "5,8", "--folder", str(tmp_path / "kept"), "--peers", "/bin/false"]
    assert main([*words, "--memory", str(tmp_path / "memory")]) == 1
    said = capsys.readouterr()
    assert said.out.count("**not measured**") == 1
    assert "| 8 | round trips" in said.out
    assert said.out.count("where every file is read (15, 18)") == 1
    assert [line.split()[1] for line in said.err.splitlines() if line[2:3] == ":"] == ["5", "8", "The"]


def test_catalogs_of_which_every_file_is_read_may_lie_in_memory(tmp_path):
    kept, memory = tmp_path / "kept", tmp_path / "memory"
    kept.mkdir()
    memory.mkdir()
    there = Bench(kept, kept / "run-1", Path(sys.executable), SIZES["tiny"], memory=memory)
    assert owned(there, 40) == memory / "40"
    assert {path.name for path in memory.iterdir()} == {"40", "run-1"}
    assert not list(kept.iterdir())
    # made once
    assert owned(there, 40) == memory / "40"
    assert owned(Bench(kept, kept / "run-1", Path(sys.executable), SIZES["tiny"]), 40) == kept / "40"


def test_the_page_is_written_between_its_marks(tmp_path, bench):
    page = tmp_path / "benchmark.md"
    page.write_text(f"# Before\n{BEGIN}\nold\n{END}\nafter\n")
    (tmp_path / "pictures").mkdir()
    write_docs(tmp_path, "| new |", {}, bench)
    assert page.read_text() == f"# Before\n{BEGIN}\n\n| new |\n\n{END}\nafter\n"


def test_a_law_is_the_power_that_something_grows_with():
    assert exponent([1, 10, 100], [5, 50, 500]) == pytest.approx(1)
    assert exponent([1, 10, 100], [5, 5, 5]) == pytest.approx(0)
