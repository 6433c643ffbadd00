"""Sources and tables in buckets are opened alike, by the SDK of the catalog's own store, however that is known."""

from __future__ import annotations

import pyarrow as pa
import pytest
from s3fs import S3FileSystem

from olympia_cli.storage.open import open_store
from tests.helpers.adopting import write_parquet
from tests.helpers.deltacat_catalog import DeltacatWriter, numbered
from tests.helpers.iox_catalog import IoxCatalog, rows
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StrictS3

URI = f"s3://{BUCKET}/lake"


def parquet(folder):
    write_parquet(folder / "t" / "a.parquet", id=[1, 2])


def iox(folder):
    made = IoxCatalog(folder)
    file = made.data("cpu", rows([1, 2, 3], host=["a", "b", "c"]))
    made.commit(made.add(file))
    made.commit(made.delete([file], 0, 10, ("host", "=", "b")))


def deltacat(folder):
    made, schema = DeltacatWriter(folder), numbered(("id", pa.int64()))
    with made.transaction() as transaction:
        stream = transaction.table(transaction.namespace("ns"), "t", schema)
        transaction.delta(transaction.partition(stream), 1, pa.table({"id": [1, 2]}, schema=schema))


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server that is configured in a settings file only, which not every SDK reads completely."""
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        settings = tmp_path / "aws"
        keys = "aws_access_key_id = key\naws_secret_access_key = secret"
        settings.write_text(f"[default]\n{keys}\nregion = us-east-1\nendpoint_url = {server.url}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(settings))
        # clients are kept by what they were told, and they were not told where that server is
        S3FileSystem.clear_instance_cache()
        yield server
    S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize(("make", "name"), [(parquet, "source.t"), (iox, "source.cpu"), (deltacat, "ns.t")])
def test_a_source_in_a_bucket(run, server, tmp_path, make, name):
    make(tmp_path / "source")
    store = open_store(f"s3://{BUCKET}/source", s3_options(server.url))
    for path in (path for path in (tmp_path / "source").rglob("*") if path.is_file()):
        store.create(str(path.relative_to(tmp_path / "source")), path.read_bytes())
    run("-c", URI, "init").ok()
    brought = run("-c", URI, "import", make.__name__, f"s3://{BUCKET}/source", "--json").ok().json
    assert [one["name"] for one in brought["tables"]] == [name]
    assert len(run("-c", URI, "table", "head", name, "--json").ok().json["rows"]) == 2
