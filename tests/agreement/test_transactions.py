"""`txn show` of the open transaction, beside fsck: it cannot be read exactly where fsck says so."""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.errors import CatalogNotFound, Damaged, TransactionExpired
from olympia_cli.ops.inspect import show_transaction
from tests.agreement.catalogs import DamagedCatalog, shown
from tests.agreement.disagreements import Disagreement, misnamed, say_the_same


def test_txn_show_stops_at_damage_that_fsck_reports(damaged_catalogs: tuple[DamagedCatalog, ...]) -> None:
    say_the_same([damaged for damaged in damaged_catalogs if damaged.sample.open_transaction], _differences)


def _differences(damaged: DamagedCatalog) -> Iterator[Disagreement]:
    id = damaged.sample.open_transaction
    try:
        state = show_transaction(damaged.catalog(), id)["state"]
    except Damaged as error:
        if error.code in ("F501", "F502"):
            yield from misnamed(error, damaged.errors, damaged.name, "txn show")
        elif not damaged.errors:
            yield Disagreement(f"txn show says {error.code}", damaged.name, "sound", str(error))
    except CatalogNotFound as error:
        if "F103" not in damaged.error_codes:
            yield Disagreement("the catalog is not found", damaged.name, shown(damaged.errors), str(error))
    except TransactionExpired as error:
        if not {"F101", "F502"} & damaged.error_codes:
            yield Disagreement("where it began is gone", damaged.name, shown(damaged.errors), str(error))
    else:
        if any(one.code == "F501" and id in one.path for one in damaged.errors):
            yield Disagreement(f"txn show says {state}", damaged.name, shown(damaged.errors), state)
