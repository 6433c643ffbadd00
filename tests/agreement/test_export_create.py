"""`export create` beside fsck: it refuses the versions that fsck blames, for the same reason, and no others.

So does a copy for the Java SDK, which is written and not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, OlympiaError, VersionNotFound
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtVersion
from olympia_cli.ops.export.export import create_export
from olympia_cli.ops.export.files import Mode, scope
from olympia_cli.ops.export.java_copy import COPY_VERSION, create_java_copy
from olympia_cli.ops.fsck import Finding, Level
from olympia_cli.storage.memory import MemoryStore
from tests.agreement.catalogs import DamagedCatalog, clock, errors_of, shown
from tests.agreement.disagreements import Disagreement, misnamed, say_the_same
from tests.helpers.fsck import fsck

DOES_NOT_COUNT = "F102"
"""By this no version is there: the oldest is beyond the latest."""
LOST = "F114"
"""By this versions after the latest are lost."""


Exporting = Callable[[Catalog, MemoryStore, int], int]
"""Copies a version; the version that it has at the destination."""


def _full_export(catalog: Catalog, dest: MemoryStore, version: int) -> int:
    create_export(catalog, dest, "copy", scope(Mode.FULL), at=AtVersion(version))
    return version


def _java_copy(catalog: Catalog, dest: MemoryStore, version: int) -> int:
    create_java_copy(catalog, dest, "copy", at=AtVersion(version))
    return COPY_VERSION


def test_export_create_refuses_damage_that_fsck_reports(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, lambda damaged: _differences(damaged, _full_export))


def test_java_copy_refuses_damage_that_fsck_reports(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, lambda damaged: _differences(damaged, _java_copy))


def _differences(damaged: DamagedCatalog, exporting: Exporting) -> Iterator[Disagreement]:
    try:
        snapshot = damaged.catalog().snapshot()
        latest = snapshot.version
        _ = snapshot.definition  # read when it is asked for
    except Damaged as error:
        yield from misnamed(error, damaged.errors, damaged.name, "opening")
        return
    except OlympiaError as error:
        if not damaged.report.damaged:
            yield Disagreement("a sound catalog does not open", damaged.name, "sound", str(error))
        return
    if exporting is _full_export and (not snapshot.in_place or LOST in damaged.error_codes):
        # an export is recorded by a commit, and none goes on from such a root, or takes the name of one that is lost
        try:
            damaged.catalog().begin()
        except Damaged as error:
            yield from misnamed(error, damaged.errors, damaged.name, "committing")
        else:
            yield Disagreement("a commit goes on from there", damaged.name, shown(damaged.errors), "begun")
        return
    for version in _versions(damaged, latest):
        yield from _export(damaged, version, exporting)


def _versions(damaged: DamagedCatalog, latest: int) -> list[int]:
    """The latest, and the newest of which fsck says the contrary."""
    blame = {
        version: bool(damaged.errors_in(version))
        for version in {*damaged.sample.versions, latest}
        if root_path(version) in damaged.files
    }
    others = [version for version in blame if blame[version] != blame[latest]]
    return [latest, *sorted(others)[-1:]]


def _export(damaged: DamagedCatalog, version: int, exporting: Exporting) -> Iterator[Disagreement]:
    case, blame = f"v{version}: {damaged.name}", damaged.errors_in(version)
    codes = "|".join(sorted({one.code for one in blame}))
    dest = MemoryStore("dest")
    try:
        copied = exporting(damaged.catalog(), dest, version)
    except Damaged as error:
        if not blame:
            yield Disagreement(
                f"{error.code} in a version that fsck does not blame", case, shown(damaged.errors), str(error)
            )
        else:
            yield from misnamed(error, blame, case, "export create")
        if exporting is _java_copy and any(dest.list()):
            yield Disagreement("something of what is refused is written", case, shown(blame), str(error))
        return
    except VersionNotFound as error:
        if DOES_NOT_COUNT not in damaged.error_codes:
            yield Disagreement("a version is not found", case, shown(damaged.errors), str(error))
        return
    if blame:
        yield Disagreement(f"an export of a version with {codes}", case, shown(blame), "exported")
    copy = _errors_of_copy(dest, copied)
    if copy:
        found = "|".join(sorted({one.code for one in copy}))
        yield Disagreement(f"an export in which fsck finds {found}", case, shown(blame), shown(copy))


def _errors_of_copy(dest: MemoryStore, version: int) -> list[Finding]:
    return errors_of(fsck(dest, level=Level.FULL, at=AtVersion(version), clock=clock()))
