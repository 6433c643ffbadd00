"""What PyIceberg's calls cost with this catalog and with PyIceberg's own on SQLite, in one run, as ratios.

    python benchmarks/iceberg.py [--tables 10000] [--folder /somewhere]

Both are on the same disk, with the same metadata files, and calls alternate between the two.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from olympia_cli import Catalog
from olympia_cli.iceberg import OlympiaCatalog

COLUMNS = pa.schema([(f"c{number}", pa.int64()) for number in range(20)])
TOGETHER, APART = 1_000, 100


def timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def both(times: int, ours: Callable[[int], object], theirs: Callable[[int], object]) -> tuple[float, float]:
    """The seconds of each, taken in turns: what the fastest tenth of the calls took, so that a neighbour on the same
    machine does not decide."""
    pairs = [(timed(lambda n=n: ours(n)), timed(lambda n=n: theirs(n))) for n in range(times)]
    mine, yours = (sorted(one)[len(one) // 10] for one in zip(*pairs, strict=True))
    return mine, yours


def tell(what: str, bound: str, ours: float, theirs: float) -> None:
    faster = theirs / ours
    print(f"| {what} | {bound} | {faster:.2f} | {ours * 1e3:.3f} ms | {theirs * 1e3:.3f} ms |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        Catalog.create(f"{folder}/ours")
        ours = OlympiaCatalog("ours", warehouse=f"{folder}/ours")
        theirs = SqlCatalog("theirs", uri=f"sqlite:///{folder}/theirs.db", warehouse=f"file://{folder}/theirs")
        for catalog in (ours, theirs):
            catalog.create_namespace("one")
            catalog.create_namespace("many")
        location = ours.create_table("one.t", COLUMNS).metadata_location
        theirs.register_table("one.t", location)

        print("| what | bound | times as fast | here | PyIceberg's SqlCatalog |\n| --- | --- | --- | --- | --- |")
        register = both(
            100,
            lambda n: ours.register_table(("one", f"r{n}"), location),
            lambda n: theirs.register_table(("one", f"r{n}"), location),
        )
        tell("register a table", "1", *register)
        load = both(300, lambda n: ours.load_table("one.t"), lambda n: theirs.load_table("one.t"))
        tell("load a table", "1", *load)

        def together(first: int) -> None:
            with ours.transaction() as transaction:
                names = range(first, min(first + TOGETHER, arguments.tables))
                transaction.register_tables({("many", f"t{n:06}"): location for n in names})

        def apart(first: int) -> None:
            for n in range(first, first + APART):
                theirs.register_table(("many", f"t{n:06}"), location)

        starts = range(0, arguments.tables, TOGETHER)
        rounds = [(timed(lambda n=n: together(n)), timed(lambda n=n: apart(n))) for n in starts]
        mine, yours = (min(one) for one in zip(*rounds, strict=True))
        tell(f"{TOGETHER:,} tables in one transaction, a table", "40", mine / TOGETHER, yours / APART)
        fill(theirs, location, [n for n in range(arguments.tables) if n % TOGETHER >= APART])
        listing = both(10, lambda n: ours.list_tables("many"), lambda n: theirs.list_tables("many"))
        assert len(ours.list_tables("many")) == len(theirs.list_tables("many")) == arguments.tables
        tell(f"list {arguments.tables:,} tables", "8", *listing)
        load = both(100, lambda n: ours.load_table("many.t000500"), lambda n: theirs.load_table("many.t000500"))
        tell(f"load one of {arguments.tables:,} tables", "", *load)
        theirs.close()


def fill(catalog: SqlCatalog, location: str, numbers: list[int]) -> None:
    """Many tables, past its own call: how they came is not what is measured."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import insert
    from sqlalchemy.orm import Session

    with Session(catalog.engine) as session:
        rows = [catalog._create_table_row("many", f"t{number:06}", location) for number in numbers]
        session.execute(insert(IcebergTables), rows)
        session.commit()


if __name__ == "__main__":
    main()
