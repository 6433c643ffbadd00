"""Repair: commit a sound version on top of a damaged one, or salvage a new catalog from the readable parts of an old
one.

This package commits, and writes the two hints. It deletes only stray roots, after copying them.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.ops.repair.advice import Advice, Places, advise, import_advice
    from olympia_cli.ops.repair.promote import (
        PromotePlan,
        apply_promotion,
        describe_forget,
        open_copy,
        plan_forget,
        plan_promotion,
    )
    from olympia_cli.ops.repair.repair import Prefer, RepairPlan, RepairStep, apply_repair, plan_repair
    from olympia_cli.ops.repair.salvage import (
        SalvageReport,
        check_free,
        salvage_catalog,
        salvage_source,
    )

__all__ = [
    "Advice",
    "Places",
    "Prefer",
    "PromotePlan",
    "RepairPlan",
    "RepairStep",
    "SalvageReport",
    "advise",
    "apply_promotion",
    "apply_repair",
    "check_free",
    "describe_forget",
    "import_advice",
    "open_copy",
    "plan_forget",
    "plan_promotion",
    "plan_repair",
    "salvage_catalog",
    "salvage_source",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
