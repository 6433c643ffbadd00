"""Expire: retention policies, plans, the quarantine and the purge.

This package decides which files are in use. `survey` collects the facts as values, and `sweep` decides about one file.
`plan` is a function of facts and policy. `apply` marks, undoes and purges: each begins with a commit, and only a purge
deletes files.

Names in `__all__` are loaded on first access: fsck and status need only a few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.ops.expire.apply import expire_once, mark, other_expire_ran, purge, purge_once, undo
    from olympia_cli.ops.expire.manifest import (
        PART_FILES,
        ROOT,
        TRANSACTION,
        Doomed,
        Going,
        GoingTotals,
        Listed,
        Manifest,
        ManifestPart,
        check_deletable,
        decode_manifest,
        decode_part,
        delete_checked,
        encode_manifest,
        encode_part,
        frees_nothing,
        list_marks,
        manifest_of,
        named_files,
        new_manifest_path,
        new_part_path,
        read_head,
        read_manifest,
        sum_up_marks,
        unread,
    )
    from olympia_cli.ops.expire.plan import (
        ExpirePlan,
        MarkPlan,
        Planner,
        PolicyOutcome,
        PurgePlan,
        UndoPlan,
        plan_undo,
        simulate,
    )
    from olympia_cli.ops.expire.plan_file import PlanFile, decode_plan, encode_plan, recompute
    from olympia_cli.ops.expire.retention import Floors, Policy, read_policy
    from olympia_cli.ops.expire.survey import (
        LOCAL,
        SHOWN,
        CatalogFacts,
        KeptRoots,
        Survey,
        Surveyor,
        follow_kept,
        follow_resting,
    )
    from olympia_cli.ops.expire.sweep import FileFacts, FileFate, Sweep

__all__ = [
    "LOCAL",
    "PART_FILES",
    "ROOT",
    "SHOWN",
    "TRANSACTION",
    "CatalogFacts",
    "Doomed",
    "ExpirePlan",
    "FileFacts",
    "FileFate",
    "Floors",
    "Going",
    "GoingTotals",
    "KeptRoots",
    "Listed",
    "Manifest",
    "ManifestPart",
    "MarkPlan",
    "PlanFile",
    "Planner",
    "Policy",
    "PolicyOutcome",
    "PurgePlan",
    "Survey",
    "Surveyor",
    "Sweep",
    "UndoPlan",
    "check_deletable",
    "decode_manifest",
    "decode_part",
    "decode_plan",
    "delete_checked",
    "encode_manifest",
    "encode_part",
    "encode_plan",
    "expire_once",
    "follow_kept",
    "follow_resting",
    "frees_nothing",
    "list_marks",
    "manifest_of",
    "mark",
    "named_files",
    "new_manifest_path",
    "new_part_path",
    "other_expire_ran",
    "plan_undo",
    "purge",
    "purge_once",
    "read_head",
    "read_manifest",
    "read_policy",
    "recompute",
    "simulate",
    "sum_up_marks",
    "undo",
    "unread",
]

# in the order of imports: a name is looked up in the modules that need the fewest others first
_HOMES = ("sweep", "retention", "manifest", "survey", "plan", "plan_file", "apply")


def __getattr__(name: str) -> Any:
    for home in _HOMES if name in __all__ else ():
        module = import_module(f"{__name__}.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
