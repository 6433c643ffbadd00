"""Expire: retention policies, plans, the quarantine and the purge.

This package decides which files are in use. `facts` and `survey` collect the facts as values, and the sweep of `survey`
decides about one file. `plan` is a function of facts and policy. `apply` marks, undoes and purges: each begins with a
commit, and only a purge deletes files.

Names in `__all__` are loaded on first access: fsck and status need only a few of them.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.ops.expire.apply import expire_once, mark, other_expire_ran, purge, purge_once, undo
    from olympia_cli.ops.expire.facts import CatalogFacts
    from olympia_cli.ops.expire.manifest import (
        PART_FILES,
        ROOT,
        TRANSACTION,
        Doomed,
        ExpireManifest,
        Going,
        GoingTotals,
        Listed,
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
        ExpirePlanner,
        MarkPlan,
        PlanFile,
        PolicyOutcome,
        PurgePlan,
        UndoPlan,
        decode_plan,
        encode_plan,
        plan_undo,
        recompute,
        simulate,
    )
    from olympia_cli.ops.expire.retention import Floors, Policy, read_policy
    from olympia_cli.ops.expire.survey import (
        LOCAL,
        SHOWN,
        FileFacts,
        FileFate,
        KeptRoots,
        Survey,
        Surveyor,
        Sweep,
        follow_kept,
        follow_resting,
    )

__all__ = [
    "LOCAL",
    "PART_FILES",
    "ROOT",
    "SHOWN",
    "TRANSACTION",
    "CatalogFacts",
    "Doomed",
    "ExpireManifest",
    "ExpirePlan",
    "ExpirePlanner",
    "FileFacts",
    "FileFate",
    "Floors",
    "Going",
    "GoingTotals",
    "KeptRoots",
    "Listed",
    "ManifestPart",
    "MarkPlan",
    "PlanFile",
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

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
