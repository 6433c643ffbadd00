"""The reads of an expire before it marks, compared with fsck: it stops at each file that is damaged in itself."""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.errors import CatalogNotFound, Damaged, OlympiaError, Refused
from olympia_cli.format.codec import decode_node
from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.expire import ExpirePlanner, Floors, Policy
from olympia_cli.ops.fsck import Finding
from tests.agreement.catalogs import DamagedCatalog, shown
from tests.agreement.disagreements import Disagreement, misnamed, say_the_same
from tests.helpers.clock import DAY
from tests.helpers.rot import unverified

ALL_VERSIONS = Policy(keep_last=1000, cutoff_millis=0, since="the beginning")
FLOORS = Floors(grace_millis=DAY, quarantine_millis=1000 * DAY)
SEEN_IN_ONE_FILE = {f"F2{at:02}" for at in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15)} | {
    *("F301", "F302", "F303", "F304", "F307"),
    *("F501", "F502", "F503", "F504"),
}
"""Findings that need no other file.

An expire must notice them, because an unreadable node hides files that would seem dead.
"""


def test_expire_stops_at_damage_that_fsck_reports(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, _differences)


def _differences(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    try:
        ExpirePlanner(damaged.catalog(), FLOORS, probe=False).expire(ALL_VERSIONS)
    except Damaged as error:
        yield from misnamed(error, damaged.errors, damaged.name, "expire")
    except CatalogNotFound as error:
        if "F103" not in damaged.error_codes:
            yield Disagreement("the catalog is not found", damaged.name, shown(damaged.errors), str(error))
    except Refused:
        return  # hints that do not fit the roots, or a record that cannot be read: nothing goes
    else:
        if missed := [one for one in damaged.errors if _is_seen_in_one_file(damaged, one)]:
            codes = "|".join(sorted({one.code for one in missed}))
            yield Disagreement(f"expire goes on with {codes}", damaged.name, shown(damaged.errors), "a plan")


def _is_seen_in_one_file(damaged: DamagedCatalog, finding: Finding) -> bool:
    """Return whether the file is damaged in itself, not only at its place or by the log."""
    path, changes = finding.path, damaged.changes()
    if finding.code in ("F503", "F504") and parse_root_path(path) is not None:
        return True  # the record itself, which every expire reads
    if finding.code not in SEEN_IN_ONE_FILE or path not in changes:
        return False
    if path.startswith("dtxn/"):
        return True
    data = changes[path]
    if data is None:
        return True
    if finding.code in ("F304", "F307"):
        return not unverified(path, data)
    return finding.code not in ("F207", "F502", "F503") or path.startswith("def/") or not _decodes(path, data)


def _decodes(path: str, data: bytes) -> bool:
    """Return whether the tree of a node file is sound, even if it is a misplaced root or has damaged actions."""
    try:
        decode_node(data, path)
    except OlympiaError:
        return False
    return True
