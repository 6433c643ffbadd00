"""A preserved catalog of IOx in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from olympia_cli import Catalog
from olympia_cli.catalog.clock import SystemClock
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.importers.footers import open_io
from olympia_cli.importers.iox.checks import check
from olympia_cli.importers.iox.plans import IoxPlanner
from olympia_cli.importers.iox.source import IoxSource
from olympia_cli.importers.iox.tables import ImportRun, IoxTables
from olympia_cli.importers.objects import Renaming
from olympia_cli.names import Latest
from olympia_cli.storage.open import open_store
from tests.helpers.iox_catalog import IoxCatalog, rows
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StrictS3

URI, SOURCE = f"s3://{BUCKET}/lake", f"s3://{BUCKET}/1/metrics"


def test_it_is_imported_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iox = IoxCatalog(tmp_path / "metrics")
    file = iox.data("cpu", rows([1, 2, 3], host=["a", "b", "c"]), "day 1")
    iox.commit(iox.add(file))
    iox.commit(iox.delete([file], 0, 10, ("host", "=", "b")))
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        Catalog.create(URI, options=s3_options(server.url))
        store = open_store(SOURCE, s3_options(server.url))
        for path in (path for path in iox.folder.rglob("*") if path.is_file()):
            store.create(str(path.relative_to(iox.folder)), path.read_bytes())
        settings = {
            "warehouse": URI,
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "s3.endpoint": server.url,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
        }
        catalog = OlympiaCatalog("lake", **settings)
        with IoxSource(store, SOURCE) as there:
            assert check(there).findings == []
            planner = IoxPlanner(there, SOURCE, Renaming(catalog.store_catalog.snapshot().sizes))
            run = ImportRun(IoxTables(planner, open_io(SOURCE, settings), SystemClock()), catalog, None, "", None)
            done, _, _ = run.one(Latest(), dry_run=False)
        assert [(str(one.name), one.files, one.rows) for one in done.created] == [("metrics.cpu", 1, 3)]
        found = catalog.load_table("metrics.cpu")
        assert found.scan().to_arrow()["host"].to_pylist() == ["a", "c"]
        assert [task.file.file_path for task in found.scan().plan_files()] == [f"{SOURCE}/{file.path}"]
        assert found.metadata_location.startswith(f"{URI}/data/metrics/cpu-")
