"""A scenario for every engine, with tables in every place, over a server that requires a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.engines.clients import Client, EngineError, Worker
from tests.engines.conftest import Lake, home
from tests.engines.engines import ENGINES
from tests.engines.matrix import PLACES

Rows = dict[int, str]
TRIES = 20
GUIDES = {"polars": (0, (3, "three")), "daft": (1, (4, "four"))}
"""The block of the guide that appends a row, and the row."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ENGINES)
def test_every_step(name: str, place: str, lakes: Callable[[str], Lake], started: Callable[..., Any]) -> None:
    result = home(name) / f"{place}.json"
    result.unlink(missing_ok=True)
    lake = lakes(place)
    scenario = Scenario(started(name, lake), lake, name.replace("-", "_").replace(".", "_"))
    scenario.play(GUIDES.get(name))
    if place == "disk" and name in MORE:
        MORE[name](scenario.client, lake)
    result.write_text(json.dumps(scenario.done))


class Scenario:
    """A namespace with a table `t` of the engine's own."""

    def __init__(self, client: Client | Worker, lake: Lake, ns: str):
        self.client, self.lake, self.ns = client, lake, ns
        self.c = self.connect("lake")
        self.rows: Rows = {}
        """The rows that the table must have."""
        self.done: list[str] = []

    def connect(self, purpose: str, **more: Any) -> str:
        """The name of a new catalog in the engine."""
        c = f"{purpose}_{self.lake.place}"
        self.client.connect(self.lake, c, **more)
        return c

    def do(self, step: str, **other: Any) -> list[tuple[Any, ...]]:
        return self.client.do(step, **({"c": self.c, "ns": self.ns, "t": "t"} | other))

    def create(self, c: str, ns: str) -> None:
        words = {"lake.sales": f"{c}.{ns}", "s3://lake/catalog/data/sales": f"{self.lake.data}/{ns}", ";\n": ""}
        self.do("create", c=c, ns=ns, schema=self.lake.recipe("Trino", "sql", **words))

    def append(self, rows: Rows) -> None:
        """The engine appends, or another program if it has no way to."""
        if self.client.offers("append"):
            self.do("append", rows=[*rows.items()])
        else:
            self.lake.append(f"{self.ns}.t", rows)
        self.rows |= rows

    def look(self, c: str | None = None) -> None:
        if self.client.offers("read"):
            assert sorted(self.do("read", c=c or self.c)) == sorted(self.rows.items())

    def play(self, guide: tuple[int, tuple[int, str]] | None) -> None:
        lake, offers = self.lake, self.client.offers
        self.create(self.c, self.ns)
        self.done += ["create"]
        assert any(self.ns in row for row in self.do("namespaces"))
        assert any("t" in row for row in self.do("tables"))
        self.done += ["list"]

        self.append({1: "a", 2: "b"})
        self.append({3: "c"})
        self.look()
        if guide:
            number, (id, name) = guide
            code = lake.recipe("Polars and Daft", "python", number, **{"people.known": f"{self.ns}.t"})
            self.do("guide", code=code.replace(f"[{id}]", "[10]"))
            self.rows[10] = name
            self.look()
        self.done += ["append"] if offers("append") else []

        changes: dict[str, dict[int, str | None]] = {"update": {1: "x"}, "delete": {2: None}, "merge": {3: "m", 4: "n"}}
        for step, changed in changes.items():
            if offers(step):
                self.do(step)
                self.rows = {id: name for id, name in (self.rows | changed).items() if name}
                self.look()
                self.done += [step]
        if offers("append"):
            self.race()
            self.done += ["race"]
        if offers("alter"):
            self.do("alter")
            self.do("append", rows=[(5, "e", 5)])
            self.rows[5] = "e"
            self.look()
            self.done += ["alter"]
        if offers("view"):
            assert sorted(id for (id,) in self.do("view")) == sorted(self.rows)
            self.do("drop view")
            self.done += ["view"]

        before = self.connect("before", warehouse=f"at/v{lake.before}")
        read = "read" if offers("read") else "history"
        assert [len(self.do(read, c=c, ns="people", t="known")) for c in (before, self.c)] == [1, 2]
        version = lake.version
        with pytest.raises(EngineError, match=r"an older version of a catalog|not support"):
            self.create(before, "never")
        assert lake.version == version
        self.done += ["at"]

        id = lake.olympia("txn", "begin", "-o", "name").strip()
        ns = f"{self.ns}_inside"
        inside = self.connect("inside", warehouse=f"txn/{id}")
        self.create(inside, ns)
        if offers("append"):
            self.do("append", c=inside, ns=ns, rows=[(1, "inside")])
        assert lake.version == version
        if offers("leave"):
            self.do("leave", c=inside)
        lake.olympia("txn", "commit", id)
        assert lake.version == version + 1
        assert lake.rows(f"{ns}.t") == ([(1, "inside")] if offers("append") else [])
        self.do("drop", ns=ns)
        self.done += ["txn"]

        self.look(self.connect("secret", secret=True))
        assert any("t" in row for row in self.do("tables", c=f"secret_{lake.place}"))
        self.done += ["secret"]

        if offers("upkeep"):
            self.do("upkeep")
            self.look()
            self.done += ["upkeep"]
        assert lake.rows(f"{self.ns}.t") == sorted(self.rows.items()), "as another program reads it"
        self.do("drop")
        assert self.ns not in lake.olympia("ns", "ls", "-o", "name").split()
        self.done += ["drop"]

    def race(self) -> None:
        """The engine and another program append to the table at once. All rows are there, each once."""
        mine, theirs = ({start + n: "race" for n in range(4)} for start in (20, 30))

        def other() -> None:
            for id in theirs:
                again(CommitFailedException, self.lake.append, f"{self.ns}.t", {id: "race"})

        writer = threading.Thread(target=other)
        writer.start()
        for id in mine:
            again(EngineError, self.do, "append", rows=[(id, "race")])
        writer.join()
        self.rows |= mine | theirs
        self.look()


def again(refused: type[Exception], write: Callable[..., Any], *words: Any, **more: Any) -> None:
    """A program whose commit came second does it again, unless the engine does so by itself."""
    for _ in range(TRIES):
        try:
            return write(*words, **more)
        except refused as error:
            last = error
    raise last


def trino_locations(trino: Client, lake: Lake) -> None:
    """The errors that the guide names, and the command that it advises."""
    trino.run("create schema lake_disk.sales")
    with pytest.raises(EngineError, match="Cannot create a table on a non-empty location"):
        trino.run("create table lake_disk.sales.t (id bigint)")
    [alter] = lake.commands("Trino", "ns alter")
    lake.olympia(*alter.replace("s3://lake/catalog/data", lake.data).split())
    trino.run("create table lake_disk.sales.u as select 1 as id")
    assert trino.run("select id from lake_disk.sales.u") == [(1,)]
    # the table that it left behind
    trino.run("drop table lake_disk.sales.t")
    trino.connect(replace(lake, place="file"), "native")
    with pytest.raises(EngineError, match="file"):
        trino.run("select * from native.people.known")


def flink_upserts(flink: Client, lake: Lake) -> None:
    flink.run("create database lake_disk.up")
    flink.run(
        "create table lake_disk.up.t (id bigint, name string, primary key (id) not enforced) "
        "with ('format-version' = '2', 'write.upsert.enabled' = 'true')"
    )
    flink.run("insert into lake_disk.up.t values (1, 'a'), (2, 'b')")
    flink.run("insert into lake_disk.up.t values (2, 'x'), (3, 'c')")
    assert sorted(flink.run("select * from lake_disk.up.t")) == [(1, "a"), (2, "x"), (3, "c")]


def duckdb_transaction(duckdb: Client, lake: Lake) -> None:
    """A transaction over several tables is one version."""
    duckdb.run("create schema lake_disk.both")
    for t in ("a", "b"):
        duckdb.run(f"create table lake_disk.both.{t} (id bigint)")
    version = lake.version
    for text in ("begin", *(f"insert into lake_disk.both.{t} values (1)" for t in ("a", "b")), "commit"):
        duckdb.run(text)
    assert lake.version == version + 1
    assert [duckdb.run(f"select * from lake_disk.both.{t}") for t in ("a", "b")] == [[(1,)], [(1,)]]
    with pytest.raises(EngineError, match="No such file or directory"):
        duckdb.run("create table lake_disk.both.c as select 1 as id")


MORE = {"trino": trino_locations, "flink": flink_upserts, "duckdb": duckdb_transaction}
"""Claims of the guide about one engine."""
