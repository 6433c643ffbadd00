"""A catalog in a bucket: the options of its store reach every process that reads it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import StorageDenied
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.iceberg.settings import io_properties
from olympia_cli.names import NamespaceName
from olympia_cli.spark import append
from olympia_cli.spark.failures import explained
from olympia_cli.storage.s3 import S3Store
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StrictS3


def test_storage_options_reach_the_workers(spark, monkeypatch):
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        catalog = Catalog.create(S3Store(BUCKET, "lake", s3_options(server.url)))
        with catalog.transaction() as transaction:
            for number in range(5):
                transaction.create_namespace(NamespaceName(f"n{number}"))
        reader = spark.read.format("olympia").option("catalog", f"s3://{BUCKET}/lake")
        given = {"endpoint_url": server.url, "key": "key", "secret": "hunter2", "region": "us-east-1"}
        for name, value in given.items():
            reader = reader.option(f"storage.{name}", value)
        assert {row.name for row in reader.load("objects").collect()} == {f"n{number}" for number in range(5)}
        # prefixes of a bucket are listed apart, and are all of it
        listed = [row.path for row in reader.load("files").collect()]
        assert sorted(listed) == sorted(file.path for file in catalog.store.list())
        with pytest.raises(StorageDenied) as raised, explained():
            reader.option("storage.key", "nobody").load("versions").collect()
        assert "hunter2" not in str(raised.value)
        catalog.store.close()


def test_rows_are_appended_in_a_bucket(spark, monkeypatch):
    """With one set of options for the catalog and for the files of tables."""
    quiet_environment(monkeypatch)
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        given = {"endpoint_url": server.url, "key": "key", "secret": "hunter2", "region": "us-east-1"}
        catalog = OlympiaCatalog.of(
            Catalog.create(S3Store(BUCKET, "lake", s3_options(server.url))), **io_properties("s3://x", given)
        )
        catalog.create_namespace("n")
        made = [catalog.create_table(f"n.{name}", pa.schema([("id", pa.int64())])) for name in ("a", "b")]
        frame = spark.range(5, numPartitions=2)
        frames = {"n.a": frame, "n.b": frame}
        assert append(spark, f"s3://{BUCKET}/lake", frames, storage=given) == catalog.version
        for table in made:
            assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == list(range(5))
            folder = table.location().removeprefix(f"s3://{BUCKET}/") + "/data/"
            files = [task.file.file_path for task in table.scan().plan_files()]
            assert sorted(f"s3://{BUCKET}/{key}" for key in server.buckets[BUCKET] if key.startswith(folder)) == sorted(
                files
            )
        catalog.close()
