"""`status` after a run of fsck: it says what that found, or why the catalog cannot be opened."""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import CatalogNotFound, Damaged
from olympia_cli.ops.fsck import note_fsck
from olympia_cli.ops.inspect import status
from tests.agreement.catalogs import DamagedCatalog, clock, shown
from tests.agreement.disagreements import Disagreement, misnamed, say_the_same


def test_status_and_fsck_agree_about_damage(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same(damaged_catalogs, _differences)


def _differences(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    store = damaged.store()
    note_fsck(store, damaged.report, clock(), all_versions=True)
    try:
        said = status(Catalog(store, clock=clock())).damaged
    except Damaged as error:
        yield from misnamed(error, damaged.errors, damaged.name, "status")
        return
    except CatalogNotFound as error:
        if "F103" not in damaged.error_codes:
            yield Disagreement("the catalog is not found", damaged.name, shown(damaged.errors), str(error))
        return
    if said != damaged.report.damaged:
        yield Disagreement(f"status says damaged: {said}", damaged.name, shown(damaged.errors), str(said))
