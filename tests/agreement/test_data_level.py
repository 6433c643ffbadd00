"""The versions that the data level blames: those that need the file that is gone, and no others of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.iceberg.data_checks import IcebergDataChecks
from olympia_cli.names import AtVersion
from olympia_cli.ops.fsck import Level, Report
from olympia_cli.storage.memory import MemoryStore
from tests.agreement.catalogs import errors_of
from tests.helpers.fsck import fsck
from tests.helpers.iceberg_tables import Lake, files_of
from tests.helpers.names import ns, table
from tests.helpers.places import quiet_environment


@pytest.mark.parametrize("which", ["data file", "manifest", "manifest list", "metadata"])
def test_older_version_is_sound_without_files_of_newer_appends(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2 has the table as it was before version 3 appended to it: what only the append wrote is lost."""
    quiet_environment(monkeypatch)
    lake = Lake(f"file://{tmp_path}/lake")
    appended = lake.table("t")
    catalog = Catalog.create(MemoryStore("catalog"))
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("ns"))
    with catalog.transaction() as transaction:
        transaction.create_table(table("ns.t"), appended.metadata_location)
    before = files_of(appended)
    appended.append(appended.scan().to_arrow())
    with catalog.transaction() as transaction:
        transaction.alter_table(table("ns.t"), {}, (), appended.metadata_location)
    after = files_of(appended)
    [lost] = {
        "data file": set(after.data) - set(before.data),
        "manifest": set(after.manifests) - set(before.manifests),
        "manifest list": {after.manifest_list},
        "metadata": {after.metadata},
    }[which]
    lake.delete(lost)
    assert not _look(lake, catalog, at=AtVersion(2)).damaged
    assert _look(lake, catalog, at=AtVersion(3)).damaged
    [error] = errors_of(_look(lake, catalog))
    assert (error.path, error.versions) == (lost, ((3, 3),))


def _look(lake: Lake, catalog: Catalog, at: AtVersion | None = None) -> Report:
    checks = IcebergDataChecks(lake.options, lake.scheme)
    return fsck(catalog.store, level=Level.DATA, at=at, all_versions=at is None, data=checks)
