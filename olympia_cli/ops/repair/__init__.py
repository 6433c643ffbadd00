"""Repair: commit a sound version on top of a damaged one, or salvage a new catalog from the readable parts of an old
one.

This package commits, and writes the two hints. It deletes only stray roots, after copying them.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.ops.repair.advice import Places, advise
    from olympia_cli.ops.repair.plan import RepairPlan, RepairStep, SalvageReport, describe_plan, describe_salvage
    from olympia_cli.ops.repair.promote import (
        PromotePlan,
        apply_promotion,
        describe_forget,
        describe_promotion,
        open_copy,
        plan_forget,
        plan_promotion,
    )
    from olympia_cli.ops.repair.repair import Prefer, apply_repair, plan_repair
    from olympia_cli.ops.repair.salvage import check_free, salvage_catalog, salvage_source

__all__ = [
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
    "describe_plan",
    "describe_promotion",
    "describe_salvage",
    "open_copy",
    "plan_forget",
    "plan_promotion",
    "plan_repair",
    "salvage_catalog",
    "salvage_source",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
