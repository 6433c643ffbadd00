"""Preserved catalogs of IOx: what their bytes say, how often they are read, and imports that are cut off."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from pyiceberg.exceptions import CommitFailedException

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import SystemClock
from olympia_cli.errors import Damaged, OlympiaError
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.importers.footers import open_io
from olympia_cli.importers.iox.checks import CODES, check
from olympia_cli.importers.iox.columns import Conflict, columns_of, decode_footer, statistics
from olympia_cli.importers.iox.plans import Planner
from olympia_cli.importers.iox.source import Source
from olympia_cli.importers.iox.tables import IoxTables, Run, read_note
from olympia_cli.importers.iox.transactions import Comparison, Predicate, Tombstone, decode
from olympia_cli.importers.objects import Renaming
from olympia_cli.importers.wire import Garbled
from olympia_cli.names import AtTime, AtVersion, Latest
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.iox_catalog import IoxCatalog, encode, rows
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut


@pytest.fixture(scope="module")
def iox(tmp_path_factory):
    """Revisions 0 to 6 with a checkpoint at 3, an add, a remove and a delete."""
    made = IoxCatalog(tmp_path_factory.mktemp("iox") / "metrics")
    made.commit()
    files = [made.data("cpu", rows([at, at + 1], host=["a", "b"], v=[1.5, 2.5]), f"day {at}") for at in (10, 20, 30)]
    for at, file in enumerate(files, 1):
        made.commit(made.add(file))
        if at == 3:
            made.checkpoint()
    made.commit(made.remove(files[0]))
    made.commit(made.delete([files[1]], 0, 21, ("host", "=", "a")))
    made.commit(made.add(made.data("disk", rows([1], v=[7]))))
    return made


def source(iox):
    store = CountingStore(LocalStore(str(iox.folder)))
    return Source(store, str(iox.folder)), store


def read_paths(store):
    return sorted(path for method, path in store.sequence if method in ("read", "read_many", "read_range"))


def test_the_vector_of_the_facts():
    data = bytes.fromhex("08133204080a101438014210" + "00" * 16)
    assert data == encode(19, 0, UUID(int=0), None, 10 * 10**9 + 20, [], 1)
    found = decode(data)
    assert (found.version, found.revision, found.uuid, found.previous) == (19, 0, UUID(int=0), None)
    assert (found.start_nanos, found.is_full, list(found.actions())) == (10_000_000_020, False, [])


def test_deletes_as_the_versions_write_them(tmp_path):
    for older in (False, True):
        iox = IoxCatalog(tmp_path, older=older)
        file = iox.data("t", rows([1], v=[1]), chunk=3)
        where = [("b", "=", False), ("i", "!=", -3), ("d", "=", 0.0), ("s", "=", ""), ("t", "!=", "x")]
        data = encode(19, 1, UUID(int=1), UUID(int=0), 0, [iox.delete([file], -5, 2**62, *where)], 1, older)
        predicate = Predicate(-5, 2**62, tuple(Comparison(*one) for one in where))
        chunk = ("t", "2022-01-01", 3 if older else UUID(int=3).bytes)
        assert list(decode(data).actions()) == [Tombstone(predicate, (chunk,))]
        assert decode_footer(file.footer).chunk == chunk
        assert str(predicate).startswith("time from -5 until 4611686018427387904 and b = False and i != -3")


def test_each_file_is_read_once(iox):
    everything = sorted(str(path.relative_to(iox.folder)) for path in iox.folder.rglob("transactions/*/*"))
    names = {int(path.split("/")[1]): path for path in everything if path.endswith(".txn")}
    checkpoint = next(path for path in everything if path.endswith(".ckpt"))
    for reference, expected in [
        (Latest(), [checkpoint, names[4], names[5], names[6]]),
        (AtVersion(3), [checkpoint]),
        (AtVersion(2), [names[0], names[1], names[2]]),
        (AtTime(1_700_000_000_000 + 3 * 60_000), [names[0], names[1], names[2], names[3]]),
    ]:
        there, store = source(iox)
        with there:
            there.state(reference)
        assert read_paths(store) == sorted(expected)
    there, store = source(iox)
    with there:
        assert check(there).findings[0].code == "I903"
    assert read_paths(store) == everything
    there, store = source(iox)
    with there:
        assert [state.revision for state in there.walk(0, 6)] == list(range(7))
    assert read_paths(store) == sorted(names.values())


def test_a_file_that_is_too_large_is_not_read(iox):
    # the files are smaller than any limit of a LocalStore
    files = [file for file in iox.folder.rglob("*") if file.is_file()]
    store = MemoryStore(files={str(file.relative_to(iox.folder)): (file.read_bytes(), 0) for file in files})
    store.size_limit = lambda path: 100
    with Source(store, str(iox.folder)) as there:
        with pytest.raises(Damaged, match="the limit is 100 bytes") as error:
            there.state(Latest())
        assert error.value.code == "I106"
        assert {one.code for one in check(there).findings if one.is_damage} == {"I106"}


def test_every_code_is_in_the_guide():
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "adopting.md").read_text()
    assert re.findall(r"^\| (I\d{3}) \| (.*) \|$", guide, re.MULTILINE) == list(CODES.items())


def test_no_bytes_bring_it_down(iox):
    """Cut at every byte, or with one byte changed, a file is read as something or is told to be garbled. Of a footer
    that is read the statistics can be, too: Arrow's reader ends the whole program on some of these."""
    chance = random.Random(7)
    data = iox.path(5, UUID(int=1005)).read_bytes()
    for at in range(len(data)):
        for broken in (data[:at], data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]):
            with suppress(Garbled):
                list(decode(broken).actions())
    packed = next(iter(iox.live.values())).footer
    plain = iox.data("cpu", rows([1, 2], host=["a", None], v=[1.5, 2.5]), compressed=False, write=False).footer
    for footer in (packed, plain):
        for at in range(len(footer)):
            for broken in (footer[:at], footer[:at] + bytes([chance.randrange(256)]) + footer[at + 1 :]):
                with suppress(Garbled, Conflict):
                    found = decode_footer(broken)
                    types = {name: (1, type) for name, type in columns_of(found).items() if type is not None}
                    statistics(found, types)


# Imports that are cut off


def bring(iox, store, history=False, there=None):
    there = there or source(iox)[0]
    catalog = OlympiaCatalog.of(Catalog(store))
    catalog.retry_for = 0
    base = f"file://{iox.folder}"
    with there:
        snapshot = catalog.store_catalog.snapshot()
        tables = IoxTables(Planner(there, base, Renaming(snapshot.sizes)), open_io(base, {}), SystemClock())
        run = Run(tables, catalog, None, "", read_note(snapshot.definition.properties, base, there))
        return run.history(Latest()) if history else run.one(Latest(), False)


def held(store):
    """The rows of each table by their times, and the files."""
    catalog = OlympiaCatalog.of(Catalog(store))
    found = {}
    for identifier in (one for namespace in catalog.list_namespaces() for one in catalog.list_tables(namespace)):
        scan = catalog.load_table(identifier).scan()
        times = sorted(str(time) for time in scan.to_arrow()["time"].cast("int64").to_pylist())
        found[identifier] = (times, sorted(task.file.file_path for task in scan.plan_files()))
    return found


def new_store(folder):
    store = LocalStore(str(folder))
    Catalog.create(store)
    return store


def test_cut_at_every_write(iox, tmp_path):
    whole = CuttingStore(new_store(tmp_path / "whole"))
    bring(iox, whole)
    everything = held(whole.inner)
    assert everything[("metrics", "cpu")][0] == ["21", "30", "31"]
    for number in range(whole.writes):
        store = new_store(tmp_path / str(number))
        with pytest.raises((PowerCut, OlympiaError)):
            bring(iox, CuttingStore(store, number))
        assert held(store) in ({}, everything)
        check_catalog(store)
        bring(iox, store)
        assert (held(store), Catalog(store).snapshot().version) == (everything, 1)


def test_a_history_that_is_cut_goes_on_where_it_was(iox, tmp_path):
    whole = CuttingStore(new_store(tmp_path / "whole"))
    _, _, version = bring(iox, whole, history=True)
    store = new_store(tmp_path / "cut")
    with pytest.raises((PowerCut, OlympiaError)):
        bring(iox, CuttingStore(store, whole.writes // 2), history=True)
    assert 0 < Catalog(store).snapshot().version < version
    assert bring(iox, store, history=True)[2] == version
    assert held(store) == held(whole.inner)
    check_catalog(store)


def test_a_concurrent_import_is_not_undone(tmp_path):
    iox = IoxCatalog(tmp_path / "metrics")
    iox.commit(iox.add(iox.data("cpu", rows([1], v=[1]))))
    store = new_store(tmp_path / "catalog")
    bring(iox, store)
    iox.commit(iox.add(iox.data("cpu", rows([2], v=[2]), "day 2")))

    class Slow(Source):
        """While the source is read, it changes, and another process imports it."""

        is_first = True

        def footer(self, file):
            if self.is_first:
                self.is_first = False
                iox.commit(iox.add(iox.data("cpu", rows([3], v=[3]), "day 3")))
                bring(iox, store)
            return super().footer(file)

    with pytest.raises(CommitFailedException):
        bring(iox, store, there=Slow(LocalStore(str(iox.folder)), str(iox.folder)))
    assert held(store)[("metrics", "cpu")][0] == ["1", "2", "3"]
    bring(iox, store)
    assert (held(store)[("metrics", "cpu")][0], Catalog(store).snapshot().version) == (["1", "2", "3"], 2)
