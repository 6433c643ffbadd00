"""Expire plans as files: written, reviewed, and applied later if the catalog still permits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from olympia_cli.errors import InvalidOption, Refused, quoted
from olympia_cli.format.strict_json import read_request
from olympia_cli.names import time_text
from olympia_cli.ops.expire.manifest import Doomed, Listed, manifest_of
from olympia_cli.ops.expire.plan import ExpirePlan, Planner, PurgePlan
from olympia_cli.ops.expire.retention import Floors, Policy
from olympia_cli.ops.expire.survey import CatalogFacts

FORMAT = 1
MOVED = "make a new plan and review it"


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The content of a plan file: the policy with its limits as points in time, and the files to mark and delete."""

    catalog: str
    policy: Policy
    floors: Floors
    oldest: int
    former_oldest: int
    marked: tuple[str, ...]
    purged: int
    manifests: tuple[str, ...]
    unfinished: tuple[str, ...]
    deleted: tuple[str, ...]


def encode_plan(facts: CatalogFacts, policy: Policy, plan: ExpirePlan) -> str:
    document = {
        "format": FORMAT,
        "catalog": facts.store.uri,
        "catalog_id": facts.definition.id,
        "version": plan.head,
        "created_at": time_text(facts.now_millis),
        "policy": asdict(policy),
        "floors": asdict(facts.floors),
        "mark": {
            "oldest": plan.mark.oldest,
            "former_oldest": plan.mark.former_oldest,
            "files": [asdict(file) for file in plan.mark.files],
        },
        "purge": {
            "purged": plan.purge.purged,
            "manifests": list(plan.purge.manifests),
            "unfinished": list(plan.purge.unfinished),
            "files": [asdict(file) for file in plan.purge.files],
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def decode_plan(text: str, name: str) -> PlanFile:
    try:
        document: Any = read_request(text)
        if document["format"] != FORMAT or int(document["policy"]["keep_last"]) < 1:
            raise ValueError
        policy, floors, mark, purge = document["policy"], document["floors"], document["mark"], document["purge"]
        offline = bool(policy["offline"]) and bool(floors["offline"])
        return PlanFile(
            catalog=str(document["catalog_id"]),
            policy=Policy(int(policy["keep_last"]), int(policy["cutoff_millis"]), str(policy["since"]), offline),
            floors=Floors(int(floors["grace_millis"]), int(floors["quarantine_millis"]), offline),
            oldest=int(mark["oldest"]),
            former_oldest=int(mark["former_oldest"]),
            marked=tuple(str(file["path"]) for file in mark["files"]),
            purged=int(purge["purged"]),
            manifests=tuple(str(path) for path in purge["manifests"]),
            unfinished=tuple(str(path) for path in purge["unfinished"]),
            deleted=tuple(str(file["path"]) for file in purge["files"]),
        )
    except (ValueError, KeyError, TypeError):
        raise InvalidOption(
            f"{quoted(name)} is not a plan of expire", hint="make one with expire --plan FILE"
        ) from None


def recompute(planner: Planner, planned: PlanFile) -> ExpirePlan:
    """Return the plan for the present state, limited to the planned versions and files.

    Raise Refused if a planned version or file would now be kept. New commits alone are no obstacle.
    """
    if planned.catalog != planner.facts.definition.id:
        raise Refused("the plan is of another catalog", hint="check the location")
    if not planned.former_oldest <= planner.facts.oldest <= planned.oldest:
        raise Refused(f"the oldest version is now {planner.facts.oldest}", hint=MOVED)
    today = planner.expire(planned.policy, not_beyond=planned.oldest)
    if today.mark.oldest != planned.oldest:
        first = today.mark.kept_versions[0]
        raise Refused(f"version {first.version} would now be kept: {first.detail}", hint=MOVED)
    purge = today.purge
    if not set(planned.manifests) <= set(purge.manifests) or planned.purged > purge.purged:
        raise Refused("files to be purged are no longer in quarantine", hint=MOVED)
    unfinished = tuple(path for path in purge.unfinished if path in planned.unfinished)
    leaving = {*planned.manifests, *unfinished}
    return ExpirePlan(
        today.head,
        replace(today.mark, files=_still(planner, planned.marked, today.mark.files)),
        PurgePlan(
            purged=max(planned.purged, purge.former_purged),
            former_purged=purge.former_purged,
            # marks that have become old enough since the plan are left to the next run
            manifests=planned.manifests,
            unfinished=unfinished,
            parts=tuple(path for path in purge.parts if manifest_of(path) in leaving),
            files=_still(planner, planned.deleted, purge.files),
            rescued=purge.rescued,
            notes=purge.notes,
        ),
    )


def _still(planner: Planner, planned: Sequence[str], today: Iterable[Doomed]) -> Listed:
    planned_paths, today = set(planned), list(today)
    needed_path = next(planner.needed(planned_paths.difference(file.path for file in today)), None)
    if needed_path is not None:
        raise Refused(f"{needed_path} was to be deleted and would now be kept", hint=MOVED)
    return Listed(file for file in today if file.path in planned_paths)
