"""The server over a bucket: catalog and tables there, with one set of options for both."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from olympia_cli.format.paths import size_limit
from olympia_cli.storage.open import open_store
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.serving import serving

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def test_two_writers_with_tables_of_their_own_and_one_that_they_share():
    with StrictS3() as server, pytest.MonkeyPatch.context() as patch:
        quiet_environment(patch)
        server.create_bucket(BUCKET)
        options = s3_options(server.url)
        store = open_store(f"s3://{BUCKET}/lake", options, size_limit=size_limit)
        settings = {
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "s3.endpoint": server.url,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
        }
        with serving(store, options, client_properties=settings) as found:
            # whatever a client needs for the files, the server tells it
            catalog = found.client()
            catalog.create_namespace("n")
            shared = catalog.create_table("n.shared", ROWS.schema)
            assert shared.location().startswith(f"s3://{BUCKET}/lake/data/n/")

            def write(own: str) -> None:
                mine = found.client()
                mine.create_table(f"n.{own}", ROWS.schema).append(ROWS)
                while True:
                    try:
                        mine.load_table("n.shared").append(ROWS)
                        return
                    except CommitFailedException:
                        continue

            writers = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            names = ("one", "two", "shared")
            rows = [catalog.load_table(f"n.{name}").scan().to_arrow().num_rows for name in names]
            assert rows == [3, 3, 6]
            assert "parquet" in found.http.get("/files", params={"ns": "n", "name": "shared"}).text
