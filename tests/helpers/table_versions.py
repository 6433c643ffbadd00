"""A catalog whose tables have other metadata from version to version, and files are lost that some of it leads to."""

from __future__ import annotations

import json
from pathlib import Path

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from tests.helpers.iceberg_tables import Lake, files_of, rows_of

LOST = "a data file is missing"
FAR = "no store is known for hdfs://"
PARTS = 23

Hits = dict[tuple[str, str], tuple[tuple[tuple[int, int], ...], str]]
"""By the path and the message of a finding: the versions that it hits, and the names of the tables."""


def make_table_versions(folder: Path) -> Hits:
    """Writes the catalog, with tables in the versions 2 to 4. What fsck should find in it."""
    lake = Lake(f"file://{folder}/lake")
    sound = lake.table("sound").metadata_location
    added, kept, renamed = (lake.table(name) for name in ("added", "kept", "renamed"))
    removed, shared, many = lake.table("removed"), lake.table("shared"), lake.table("many", appends=0, parts=PARTS)
    before = {table.name()[-1]: table.metadata_location for table in (added, kept, renamed, removed, shared)}
    first = {table.name()[-1]: files_of(table).data[0] for table in (added, kept, renamed, removed, shared)}
    for table in (added, kept, renamed):
        table.append(rows_of(1))
    removed.overwrite(rows_of(1))
    many.append(rows_of(PARTS))
    far = _with_list(lake, sound, "hdfs://nn/w/list.avro")

    catalog = Catalog.create(LocalStore(str(folder / "catalog")), order=4)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
    with catalog.transaction() as transaction:
        for name in ("added", "kept", "removed"):
            transaction.create_table(TableName("ns", name), before[name])
        transaction.create_table(TableName("ns", "zoe"), before["renamed"])
        transaction.create_table(TableName("ns", "twin"), before["shared"])
        for name in ("far", "many", "other"):
            transaction.create_table(TableName("ns", name), sound)
    with catalog.transaction() as transaction:
        for table in (added, kept, removed, many):
            transaction.alter_table(TableName("ns", table.name()[-1]), metadata_location=table.metadata_location)
        transaction.alter_table(TableName("ns", "zoe"), metadata_location=renamed.metadata_location)
        transaction.alter_table(TableName("ns", "twin"), metadata_location=sound)
        transaction.alter_table(TableName("ns", "far"), metadata_location=far)
    with catalog.transaction() as transaction:
        transaction.rename_table(TableName("ns", "zoe"), TableName("ns", "amy"))
        transaction.alter_table(TableName("ns", "other"), metadata_location=before["shared"])
        for name in ("far", "many"):
            transaction.alter_table(TableName("ns", name), metadata_location=sound)

    [last] = set(files_of(added).data) - {first["added"]}
    [late] = set(files_of(renamed).data) - {first["renamed"]}
    of_many = sorted(files_of(many).data)
    lake.delete(last, late, first["kept"], first["removed"], first["shared"], *of_many)
    return {
        (last, LOST): (((3, 4),), "added"),
        (late, LOST): (((3, 4),), "amy zoe"),
        (first["kept"], LOST): (((2, 4),), "kept"),
        (first["removed"], LOST): (((2, 2),), "removed"),
        (first["shared"], LOST): (((2, 2), (4, 4)), "other twin"),
        **{(path, LOST): (((3, 3),), "many") for path in of_many[:20]},
        (many.metadata_location, "3 more of its files, 23 in all"): (((3, 3),), "many"),
        ("hdfs://nn/w/list.avro", FAR): (((3, 3),), "far"),
    }


def _with_list(lake: Lake, metadata: str, manifest_list: str) -> str:
    """The metadata with another manifest list, at a new location."""
    snapshots = json.loads(lake.read(metadata))["snapshots"]
    snapshots[0]["manifest-list"] = manifest_list
    return lake.edit(metadata, snapshots=snapshots)
