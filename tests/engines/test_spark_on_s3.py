"""The same with catalog and tables in a bucket. What a client needs for the files, the server tells it."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.catalog import load_catalog

from tests.engines.conftest import lake_at
from tests.helpers.places import BUCKET
from tests.helpers.servers.s3 import StrictS3


def test_tables_in_a_bucket(spark, tmp_path: Path):
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        environment = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        settings = {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": server.url,
            "s3.path-style-access": "true",
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "client.region": "us-east-1",
        }
        words = [word for key, value in settings.items() for word in ("--client-property", f"{key}={value}")]
        uri = f"s3://{BUCKET}/lake"
        with lake_at(spark, uri, tmp_path / "serve.log", *words, environment=environment) as lake:
            lake.connect("bucket")
            lake.sql("create namespace bucket.n")
            lake.sql("create table bucket.n.t (id bigint, day date) partitioned by (day)")
            lake.sql("insert into bucket.n.t values (1, date'2026-11-15'), (2, date'2026-11-16')")
            version = lake.version
            lake.sql(
                "merge into bucket.n.t t using (select 2L id union all select 3L) u on t.id = u.id "
                "when matched then delete when not matched then insert (id, day) values (u.id, date'2026-11-17')"
            )
            assert lake.sql("select id from bucket.n.t order by id") == [(1,), (3,)]
            lake.sql("create view bucket.n.v as select max(id) as most from bucket.n.t")
            assert lake.sql("select * from bucket.n.v") == [(3,)]
            lake.connect("bucket_before", warehouse=f"at/v{version}")
            assert lake.sql("select id from bucket_before.n.t order by id") == [(1,), (2,)]
            reader = load_catalog("rest", type="rest", uri=lake.url)
            assert sorted(reader.load_table("n.t").scan().to_arrow()["id"].to_pylist()) == [1, 3]
            lake.check()
