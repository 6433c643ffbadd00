"""Measure growth over the tables of a catalog, its versions, and the size of a commit. A power law is
fitted to each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.catalogs import NAMESPACE, grow, history, middle, tree
from benchmarks.measuring import Bench, Figure, best, exponent, seconds_text
from benchmarks.reading import cold, look, peers_of, warm
from benchmarks.writing import alter, naturals
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import TableName
from olympia_cli.ops.inspect import log_between
from olympia_cli.storage.local import LocalStore

OURS, PEERS = "Olympia", {"sql": "SqlCatalog", "boring": "Boring Catalog"}
PEERS_UP_TO = 100_000

Series = dict[str, list[float]]
"""Milliseconds per size, by program."""


def laws(bench: Bench) -> tuple[dict[str, Any], list[Figure]]:
    """Return the panels to draw, and the fitted laws."""
    panels: dict[str, list[dict[str, Any]]] = {
        "tables": _panels("tables", bench.sizes.tables, over_tables(bench)),
        "versions": _panels("versions", bench.sizes.versions, over_versions(bench)),
        "changes": _panels("changes in one commit", bench.sizes.changes, over_changes(bench)),
    }
    figures = []
    for panel in (panel for some in panels.values() for panel in some):
        ours, *others = panel["lines"]
        beside = "; ".join(f"{line['who']} {line['law']}" for line in others)
        last = f"{seconds_text(ours['values'][-1] / 1e3)} at {panel['sizes'][-1]:,}"
        what = f"{panel['what']}, over {panel['over']}: exponent of growth"
        figures.append(Figure(what, ours["power"], detail=f"{last}; {beside}" if beside else last, unit=""))
    return panels, figures


def _panels(over: str, sizes: Sequence[int], found: dict[str, Series]) -> list[dict[str, Any]]:
    return [
        {
            "what": what,
            "over": over,
            "unit": "ms",
            "sizes": list(sizes),
            "lines": [_line(who, sizes, values) for who, values in series.items() if values],
        }
        for what, series in found.items()
    ]


def _line(who: str, sizes: Sequence[int], values: list[float]) -> dict[str, Any]:
    power = exponent(sizes[: len(values)], values)
    return {"who": who, "values": values, "power": power, "law": f"∝ n^{power:.2f}"}


def over_tables(bench: Bench) -> dict[str, Series]:
    found: dict[str, Series] = {what: {OURS: []} for what in ("a commit", "a lookup", "a list")}
    numbers = naturals()
    for tables in bench.sizes.tables:
        # commits go to a catalog of this run, not to a kept one
        folder, name = tree(bench, tables), middle(tables)
        commits = bench.scratch / f"grown-{tables}"
        grow(commits, tables)
        works: dict[str, Callable[[], object]] = {
            "a commit": alter(Catalog.open(LocalStore(commits)), name, numbers),
            "a lookup": lambda folder=folder, name=name: look(cold(folder), name),
            "a list": lambda folder=folder: list(cold(folder).snapshot().tables(NAMESPACE)),
        }
        for what, work in works.items():
            found[what][OURS] += _millis(bench, work)
        if tables > PEERS_UP_TO:
            continue
        with peers_of(bench, tables) as (ask, kinds):
            for kind in kinds:
                asked = {
                    "a commit": {"do": "register"},
                    "a lookup": {"do": "load", "name": name.name},
                    "a list": {"do": "list", "tables": tables},
                }
                for what, task in asked.items():
                    work = lambda kind=kind, task=task: ask(kind=kind, **task)  # noqa: E731
                    found[what].setdefault(PEERS[kind], []).extend(_millis(bench, work))
    return found


def over_versions(bench: Bench) -> dict[str, Series]:
    found: dict[str, Series] = {what: {OURS: []} for what in ("the whole log", "a lookup in the latest", "a commit")}
    tables, numbers = bench.sizes.tables[1], naturals()
    name = middle(tables)
    for versions in bench.sizes.versions:
        folder = history(bench, versions, tables)
        found["the whole log"][OURS] += _millis(
            bench, lambda folder=folder: sum(1 for _ in log_between(cold(folder), None, None))
        )
        found["a lookup in the latest"][OURS] += _millis(bench, lambda folder=folder: look(cold(folder), name))
    folder = bench.scratch / "versioned"
    grow(folder, tables)
    change, made = alter(warm(folder), name, numbers), 0
    for versions in bench.sizes.versions:
        while made < versions:
            change()
            made += 1
        found["a commit"][OURS] += _millis(bench, change)
    return found


def over_changes(bench: Bench) -> dict[str, Series]:
    """Measure commits of several changes. Peers commit each change by itself."""
    found: dict[str, Series] = {"a commit": {OURS: []}}
    tables = bench.sizes.tables[1]
    folder, numbers = bench.scratch / "changed", naturals()
    grow(folder, tables)
    catalog = Catalog.open(LocalStore(folder))
    with peers_of(bench, tables) as (ask, kinds):
        for changes in bench.sizes.changes:

            def commit(changes: int = changes) -> None:
                with catalog.transaction() as transaction:
                    for _ in range(changes):
                        transaction.create_table(TableName(NAMESPACE, f"new{next(numbers)}"), "s3://x")

            found["a commit"][OURS] += _millis(bench, commit)
            for kind in kinds:
                # the time for a thousand follows from a hundred
                some = min(changes, 100)
                took = ask(do="register", kind=kind, number=some) * changes
                found["a commit"].setdefault(PEERS[kind], []).append(took * 1e3)
    return found


def _millis(bench: Bench, work: Callable[[], object]) -> list[float]:
    return [best(work, rounds=max(1, bench.sizes.rounds // 3))[0] * 1e3]
