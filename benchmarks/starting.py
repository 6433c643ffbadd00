"""Measure commands as processes, from start to end.

Nothing of the package is imported, so that the commands' own memory is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import BIN, Bench, Figure, Started, best, ratio, run

OLYMPIA = BIN / "olympia"
IMPORTS = (BIN / "python", "-c", "import typer, rich.table, pyarrow, google.protobuf.descriptor_pool")

WITHOUT_SYNCS = (
    "import os; os.fsync = lambda file: None; from olympia_cli.__main__ import main; raise SystemExit(main())"
)
"""The program without waiting for the disk."""


def made(bench: Bench, kind: str, tables: int) -> Path:
    """Return the folder of a catalog, which another process makes."""
    folder = bench.folder / f"{kind}-{tables}"
    if not folder.exists():
        place = ("--folder", bench.folder, "--scratch", bench.scratch, "--peers", bench.peers)
        run(BIN / "python", "-m", "benchmarks.run", "--make", kind, tables, *place)
    return folder


def show(bench: Bench, tables: int) -> Started:
    return Started(OLYMPIA, "-c", made(bench, "tree", tables), "table", "show", _middle(tables))


def _middle(tables: int) -> str:
    return f"ns000000.table{min(tables, 100_000) // 2:06}"


def _pyiceberg(bench: Bench, tables: int, *words: str) -> Started:
    database = f"sqlite:///{made(bench, 'peers', tables)}/sql.db"
    return Started(bench.peers.parent / "pyiceberg", "--uri", database, *words)


def lookup(bench: Bench) -> Iterator[Figure]:
    least, most = bench.sizes.tables[0], bench.sizes.tables[-1]
    large, small = show(bench, most), show(bench, least)
    imports, took, little = best(Started(*IMPORTS), large, small, rounds=bench.sizes.rounds * 2)
    yield ratio(f"`table show`, {most:,} tables", took, imports, most=1.25, more=f"{large.mib:.0f} MiB")
    yield ratio(f"… compared with {least:,} tables", took, little, most=1.1)


def lookup_beside_pyiceberg(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.tables[-1]
    yield from _beside(
        bench, f"`table show`, {tables:,} tables", 4, show(bench, tables), tables, "describe", _middle(tables)
    )


def change(bench: Bench) -> Iterator[Figure]:
    folder = bench.scratch / "started"
    run(OLYMPIA, "init", folder)
    numbers = iter(range(1_000_000))
    create = Started()

    def next_create(*program: object) -> float:
        create.words = (*program, "-c", folder, "ns", "create", f"n{next(numbers)}")
        return create()

    without = (BIN / "python", "-c", WITHOUT_SYNCS)
    works = (Started(*IMPORTS), lambda: next_create(OLYMPIA), lambda: next_create(*without))
    imports, took, no_disk = best(*works, rounds=bench.sizes.rounds * 2)
    yield ratio("`ns create`, durable", took, imports, most=1.3, more=f"{create.mib:.0f} MiB")
    yield ratio("… without waiting for the disk", no_disk, imports)


def lists(bench: Bench) -> Iterator[Figure]:
    sizes = [size for size in bench.sizes.tables[1:] if size <= 100_000]
    for tables, least in zip(sizes, (8, 30), strict=False):
        ours = Started(OLYMPIA, "-c", made(bench, "tree", tables), "table", "ls", "ns000000")
        assert run(*ours.words).out.count("\n") == tables
        yield from _beside(bench, f"`table ls` of {tables:,}", least, ours, tables, "list", "ns000000")


def _beside(bench: Bench, what: str, least: float, ours: Started, tables: int, *words: str) -> Iterator[Figure]:
    theirs = _pyiceberg(bench, tables, *words)
    mine, yours, imports = best(ours, theirs, Started(*IMPORTS), rounds=max(1, bench.sizes.rounds // 2))
    memory = f"{ours.mib:.0f} and {theirs.mib:.0f} MiB"
    yield ratio(f"{what}: speed-up", mine, yours, least=least, more=memory)
    yield Figure("… speed-up of Python that only imports", yours / imports)
