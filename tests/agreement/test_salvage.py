"""`fsck --salvage` beside fsck: what it cannot read is what fsck finds, and of a sound catalog nothing is missing."""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.ops.fsck import Severity
from olympia_cli.ops.repair.salvage import salvage_catalog
from olympia_cli.storage.memory import MemoryStore
from tests.agreement.catalogs import AUTHOR, DamagedCatalog, clock, shown
from tests.agreement.disagreements import Disagreement, say_the_same

UNREACHED = {"F901", "F902", "F906"}
"""fsck names these files without looking into them."""


def test_salvage_and_fsck_agree_on_unreadable_files(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, _differences)


def _differences(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    report = salvage_catalog(damaged.store(), MemoryStore("dest"), clock(), AUTHOR, dry_run=True)
    known = {one.path for one in damaged.report.findings if one.severity is Severity.ERROR or one.code in UNREACHED}
    for path, reason in report.unreadable:
        # where a garbled pointer leads there is no file: fsck names the one that holds it
        if path not in known and (path in damaged.files or not damaged.report.damaged):
            kind = "unreadable for salvage, and not for fsck"
            yield Disagreement(kind, damaged.name, shown(damaged.errors), f"{path}: {reason}")
    if not damaged.report.damaged and not report.complete:
        yield Disagreement("a sound catalog is not complete", damaged.name, "sound", str(report))
