"""Changes by other processes while fsck reads: objects that they dropped need no files."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import read_exports
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.records import drop_export
from olympia_cli.ops.fsck import Report
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import FakeClock
from tests.helpers.exports import make_catalog
from tests.helpers.fsck import fsck
from tests.helpers.stores import WrappedStore


class Dropping(WrappedStore):
    """Another process drops an export after its root was read."""

    def __init__(self, catalog: Catalog, name: str, pin: str) -> None:
        super().__init__(catalog.store)
        self._drop = lambda: drop_export(catalog, name)
        self._pin: str | None = pin

    def read_many(self, paths):
        for path, data in super().read_many(paths):
            if path == self._pin:
                self._pin = None
                self._drop()
            yield path, data


@pytest.mark.parametrize("others", [[], ["a"], ["abc"], ["a", "b", "c", "d"]])
def test_an_export_dropped_during_fsck_needs_no_pin(others):
    clock = FakeClock()
    catalog = make_catalog(clock=clock)
    for name in ("ab", *others):
        create_export(catalog, MemoryStore(name), name, scope(Mode.MINIMAL))
    record = read_exports(catalog.snapshot().definition)["ab"]
    assert record is not None
    assert record.pin is not None
    catalog.store.delete_many([record.pin])
    report: Report = fsck(catalog.store, all_versions=True, clock=clock)
    assert [(finding.code, finding.held_by) for finding in report.findings if finding.is_damage] == [
        ("F503", ("the export ab",))
    ]
    report = fsck(Dropping(catalog, "ab", record.pin), all_versions=True, clock=clock)
    assert "ab" not in catalog.snapshot().definition.exported_snapshots
    assert not report.damaged
