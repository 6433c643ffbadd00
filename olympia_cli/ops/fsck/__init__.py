"""fsck: find damage, judge which versions and objects it affects, and advise the next step.

This package owns the codes of findings, and all rules that involve several files. `run` has the stages of a check:
versions, trees, holders, log, listing, verdict, findings. It changes a catalog only to acknowledge findings.

Names in `__all__` are loaded on first access: most commands need only a few of them.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.ops.fsck.bundle import make_bundle
    from olympia_cli.ops.fsck.definitions import (
        MAX_UNVERIFIED,
        BadDefinition,
        Definitions,
        Named,
        Verified,
        is_damage,
        listed_names,
        state_home,
    )
    from olympia_cli.ops.fsck.findings import (
        CODES,
        DATA,
        MAX_OBJECTS,
        REPAIR,
        SALVAGE,
        DataChecks,
        DataFinding,
        Finding,
        FsckRequest,
        Level,
        Report,
        Severity,
        TableData,
        WithData,
        describe_finding,
        describe_object_name,
        describe_report,
        finding,
        inside,
        merge,
        not_read,
        ranges,
        severity,
        shown,
        with_data,
    )
    from olympia_cli.ops.fsck.known_damage import acknowledge, of_the_past, recognised
    from olympia_cli.ops.fsck.last_fsck import FsckRun, fsck_runs, note_fsck
    from olympia_cli.ops.fsck.listing import Listing, Quarantine, Sorting, Tally, find_quarantine, resting_files
    from olympia_cli.ops.fsck.roots import Chain, ChainReader, ChainRoot, read_actions
    from olympia_cli.ops.fsck.run import fsck
    from olympia_cli.ops.fsck.sound_versions import LatestVersion, errors_of, examine_version, plan_whole_undo
    from olympia_cli.ops.fsck.trees import Engine, LocalEngine, Trees
    from olympia_cli.ops.fsck.verdict import MOST_FINDINGS
    from olympia_cli.ops.fsck.versions import (
        begins_as_export,
        latest_ahead,
        list_versions,
        look_at_versions,
        open_chain,
        read_hint,
        replaceable,
        stray_findings,
        true_oldest,
    )

__all__ = [
    "CODES",
    "DATA",
    "MAX_OBJECTS",
    "MAX_UNVERIFIED",
    "MOST_FINDINGS",
    "REPAIR",
    "SALVAGE",
    "BadDefinition",
    "Chain",
    "ChainReader",
    "ChainRoot",
    "DataChecks",
    "DataFinding",
    "Definitions",
    "Engine",
    "Finding",
    "FsckRequest",
    "FsckRun",
    "LatestVersion",
    "Level",
    "Listing",
    "LocalEngine",
    "Named",
    "Quarantine",
    "Report",
    "Severity",
    "Sorting",
    "TableData",
    "Tally",
    "Trees",
    "Verified",
    "WithData",
    "acknowledge",
    "begins_as_export",
    "describe_finding",
    "describe_object_name",
    "describe_report",
    "errors_of",
    "examine_version",
    "find_quarantine",
    "finding",
    "fsck",
    "fsck_runs",
    "inside",
    "is_damage",
    "latest_ahead",
    "list_versions",
    "listed_names",
    "look_at_versions",
    "make_bundle",
    "merge",
    "not_read",
    "note_fsck",
    "of_the_past",
    "open_chain",
    "plan_whole_undo",
    "ranges",
    "read_actions",
    "read_hint",
    "recognised",
    "replaceable",
    "resting_files",
    "severity",
    "shown",
    "state_home",
    "stray_findings",
    "true_oldest",
    "with_data",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
