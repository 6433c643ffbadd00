"""A catalog over real Iceberg tables: with partitions, with delete files, empty, and some that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyiceberg.manifest import DataFileContent

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.s3 import S3Store
from tests.helpers.iceberg_tables import Lake, files_of, with_deletes
from tests.helpers.places import BUCKET, s3_options
from tests.helpers.servers.s3 import StrictS3

APPENDS = 6


@dataclass(frozen=True)
class Shelf:
    """`locations` are those of the metadata by the tables' names; the namespace `sound` holds no table that is not."""

    catalog: Catalog
    locations: dict[str, str]

    @property
    def uri(self) -> str:
        return self.catalog.store.uri


def make_shelf(folder: Path) -> Shelf:
    lake = Lake(f"file://{folder}/lake")
    parted = lake.table("parted", appends=2, parts=3)
    plain = lake.table("plain", version=1)
    empty = lake.table("empty", appends=0)
    long = lake.table("long", appends=APPENDS)
    wanting = lake.table("wanting", appends=3)
    deletes = [DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES]
    deleting, _, _ = with_deletes(lake, lake.table("deleting"), deletes)
    locations = {
        "parted": parted.metadata_location,
        "plain": plain.metadata_location,
        "empty": empty.metadata_location,
        "deleting": deleting,
        "wanting": wanting.metadata_location,
        "gone": f"{folder}/nowhere.metadata.json",
        "long": long.metadata_location,
    }
    lake.delete(files_of(wanting).manifests[-1])
    catalog = Catalog.create(LocalStore(str(folder / "catalog")), order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        transaction.create_namespace(NamespaceName("sound"))
        transaction.create_table(TableName("ns", "parted"), files_of(plain).metadata)
    with catalog.transaction() as transaction:
        transaction.alter_table(TableName("ns", "parted"), metadata_location=locations["parted"])
        for name in list(locations)[1:-1]:
            transaction.create_table(TableName("ns", name), locations[name])
        transaction.create_table(TableName("ns", "undefined"), locations["plain"])
        transaction.create_table(TableName("sound", "long"), locations["long"])
        transaction.create_table(TableName("sound", "again"), locations["parted"])
    lost = catalog.snapshot().table(TableName("ns", "undefined")).path
    (folder / "catalog" / lost).write_bytes(b"\xff\xff\xff")
    return Shelf(catalog, locations)


def make_bucket_shelf(server: StrictS3) -> tuple[list[str], str]:
    """A catalog and a table in a bucket: where the table's files are, and the profile `lake` of a config file."""
    server.create_bucket(BUCKET)
    properties = {
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.endpoint": server.url,
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    table = Lake(f"s3://{BUCKET}/tables", properties, s3_options(server.url)).table("t", appends=2)
    catalog = Catalog.create(S3Store(BUCKET, "lake", s3_options(server.url)))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        transaction.create_table(TableName("ns", "t"), table.metadata_location)
    catalog.store.close()
    profile = (
        f'[lake]\ncatalog = "s3://{BUCKET}/lake"\n[lake.storage]\nendpoint_url = "{server.url}"\n'
        'key = "key"\nsecret = "secret"\nregion = "us-east-1"\nanon = false\n'
    )
    return sorted(files_of(table).data), profile
