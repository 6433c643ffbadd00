"""Measure imports: time, peak memory and files read, per number of tables of the source.

    python benchmarks/adopt.py [--tables 10000 100000] [--kinds olympia parquet deltacat iox] [--folder FOLDER]

`olympia` is one of our catalogs with a definition per table. `parquet` is a folder with one Parquet file per table, and
a thousand tables per folder. `deltacat` is a catalog of such files, with a thousand tables per transaction. `iox` is a
preserved catalog of them with a checkpoint. Sources are made once in the folder. Each import runs in its own process,
into a new catalog without syncing, and then once more without news.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.importers.result import ImportResult
from olympia_cli.storage.local import LocalStore
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.stores import WrappedStore

KINDS = ("olympia", "parquet", "deltacat", "iox")
TABLES_A_NAMESPACE = 1000


class Counted(WrappedStore):
    """Counts the reads of each definition and node, in a few bytes each."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.reads: Counter[int] = Counter()

    def _note(self, path: str) -> None:
        if file_kind(path) in (FileKind.NODE, FileKind.DEFINITION):
            self.reads[hash(path)] += 1

    def read(self, path):
        self._note(path)
        return self.inner.read(path)

    def read_many(self, paths):
        for path, data in self.inner.read_many(paths):
            self._note(path)
            yield path, data


def make(kind: str, folder: Path, tables: int) -> Path:
    source = folder / f"{kind}-{tables}"
    if source.exists():
        return source
    made = source.with_suffix(".part")
    shutil.rmtree(made, ignore_errors=True)
    namespaces = max(1, tables // TABLES_A_NAMESPACE)
    if kind == "olympia":
        make_big_catalog(LocalStore(made, durable=False), namespaces, tables // namespaces, own=True)
    elif kind == "deltacat":
        make_deltacat(made, tables)
    elif kind == "iox":
        from tests.helpers.iox_catalog import IoxCatalog, rows

        catalog, data = IoxCatalog(made), rows([1, 2], host=["a", "b"], usage=[1.5, 2.5])
        catalog.commit(*(catalog.add(catalog.data(f"table{at:06}", data, chunk=at + 1)) for at in range(tables)))
        catalog.checkpoint()
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        sample = folder / "sample.parquet"
        pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "price": [1.5, None, 2.5]}), sample)
        data = sample.read_bytes()
        for number in range(tables):
            place = made / f"ns{number // TABLES_A_NAMESPACE:06}" / f"table{number:06}"
            place.mkdir(parents=True)
            (place / "part.parquet").write_bytes(data)
    made.rename(source)
    return source


def make_deltacat(folder: Path, tables: int) -> None:
    import pyarrow as pa

    from tests.helpers.deltacat_catalog import DeltacatWriter, numbered

    catalog, schema = DeltacatWriter(folder), numbered(("id", pa.int64()), ("name", pa.string()))
    data = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]}, schema=schema)
    for first in range(0, tables, TABLES_A_NAMESPACE):
        with catalog.transaction() as transaction:
            namespace = transaction.namespace(f"ns{first // TABLES_A_NAMESPACE:06}")
            for number in range(first, min(first + TABLES_A_NAMESPACE, tables)):
                stream = transaction.table(namespace, f"table{number:06}", schema)
                transaction.delta(transaction.partition(stream), 1, data)
        catalog.numbers.clear()


def bring_olympia(source: Path, dest: Path) -> tuple[ImportResult, int, int]:
    from olympia_cli.importers.olympia import import_catalog

    store, here = Counted(LocalStore(source)), Catalog(LocalStore(dest, durable=False))
    there = Catalog(store)

    def commit(bring, about):
        transaction = here.begin()
        done = bring(transaction)
        return done, here.commit(transaction, about, atomic=True).version

    done, version = import_catalog(there, there.snapshot(), None, False, here, commit)
    return done, version, max(store.reads.values())


def bring_parquet(source: Path, dest: Path) -> tuple[ImportResult, int, int]:
    from olympia_cli.iceberg import OlympiaCatalog
    from olympia_cli.importers.footers import LocalFooters, open_io
    from olympia_cli.importers.objects import Renaming
    from olympia_cli.importers.parquet import find_folders
    from olympia_cli.importers.parquet_tables import ParquetImport

    opened: Counter[int] = Counter()

    class Opened(LocalFooters):
        def read(self, files):
            opened.update(hash(file.path) for file in files)
            return super().read(files)

    base, done, here = f"file://{source}", ImportResult(), Catalog(LocalStore(dest, durable=False))
    catalog = OlympiaCatalog.of(here)
    folders, done.left_out = find_folders(LocalStore(source).list())
    importing = ParquetImport(base, Opened(base, open_io(base, {})), Renaming(here.snapshot().sizes), catalog)
    version = importing.run(folders, done, "", dry_run=False)
    return done, version, max(opened.values(), default=0)


def bring_iox(source: Path, dest: Path) -> tuple[ImportResult, int, int]:
    from olympia_cli.catalog.clock import SystemClock
    from olympia_cli.iceberg import OlympiaCatalog
    from olympia_cli.importers.footers import open_io
    from olympia_cli.importers.iox.plans import IoxPlanner
    from olympia_cli.importers.iox.source import IoxSource
    from olympia_cli.importers.iox.tables import ImportRun, IoxTables, read_note
    from olympia_cli.importers.objects import Renaming
    from olympia_cli.names import Latest
    from tests.helpers.stores import CountingStore

    base, store, here = f"file://{source}", CountingStore(LocalStore(source)), Catalog(LocalStore(dest, durable=False))
    snapshot = here.snapshot()
    with IoxSource(store, str(source)) as there:
        tables = IoxTables(IoxPlanner(there, base, Renaming(snapshot.sizes)), open_io(base, {}), SystemClock())
        note = read_note(snapshot.definition.properties, base, there)
        done, _, version = ImportRun(tables, OlympiaCatalog.of(here), None, "", note).one(Latest(), dry_run=False)
    reads = Counter(path for method, path in store.sequence if method.startswith("read"))
    return done, version, max(reads.values())


def bring_deltacat(source: Path, dest: Path) -> tuple[ImportResult, int, int]:
    from olympia_cli.iceberg import OlympiaCatalog
    from olympia_cli.importers.deltacat.imports import DeltacatImport
    from olympia_cli.importers.deltacat.index import FOREVER
    from olympia_cli.importers.deltacat.source import IoxSource
    from olympia_cli.importers.footers import SourceFolder
    from olympia_cli.importers.objects import Renaming

    reads: Counter[int] = Counter()

    class Read(WrappedStore):
        def read_many(self, paths):
            for path, data in self.inner.read_many(paths):
                reads[hash(path)] += 1
                yield path, data

    base, store, here = f"file://{source}", Read(LocalStore(source)), Catalog(LocalStore(dest, durable=False))
    catalog, renaming = OlympiaCatalog.of(here), Renaming(here.snapshot().sizes)
    done, version = DeltacatImport(IoxSource(store), SourceFolder(base), catalog, renaming).run(FOREVER, "")
    return done, version, max(reads.values())


BRING = {"olympia": bring_olympia, "parquet": bring_parquet, "deltacat": bring_deltacat, "iox": bring_iox}


def measure(kind: str, source: Path, dest: Path) -> None:
    start = time.perf_counter()
    done, version, most = BRING[kind](source, dest)
    print(
        json.dumps(
            {
                "seconds": round(time.perf_counter() - start, 1),
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "created": len(done.created),
                "unchanged": done.unchanged,
                "left_out": len(done.left_out),
                "version": version,
                "a_file_read_at_most": most,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        kind, source, dest = given.measure
        measure(kind, Path(source), Path(dest))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for kind in given.kinds:
            for tables in given.tables:
                source, dest = make(kind, folder, tables), folder / "here"
                shutil.rmtree(dest, ignore_errors=True)
                Catalog.create(LocalStore(dest, durable=False))
                for again in (False, True):
                    words = [sys.executable, __file__, "--measure", kind, str(source), str(dest)]
                    done = subprocess.run(words, check=True, capture_output=True, text=True)
                    print(json.dumps({"kind": kind, "tables": tables, "again": again, **json.loads(done.stdout)}))
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
