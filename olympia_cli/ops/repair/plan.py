"""What a repair is going to do, to be shown before it is done, and what a salvage has found: values, and their JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from olympia_cli.catalog.repair_commit import Repair
from olympia_cli.names import ObjectName
from olympia_cli.ops.fsck.findings import describe_object_name
from olympia_cli.ops.repair.content import LostRange


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing that a repair does: `set aside`, `hint latest`, `hint oldest`, `rollback` or `rebuild`.

    `loses` are the objects that are gone afterwards, `reverts` those that are as an older version has them, and
    `lost_ranges` what is not known for sure. `details` say, line by line, what is wrong and where the rest comes from.
    """

    kind: str
    text: str
    loses: tuple[ObjectName, ...] = ()
    reverts: tuple[ObjectName, ...] = ()
    lost_ranges: tuple[LostRange, ...] = ()
    details: tuple[str, ...] = ()
    returns: tuple[ObjectName, ...] = ()
    """Those of `reverts` that are not there now."""
    doubtful: tuple[ObjectName, ...] = ()
    """Those of which only leftover files tell."""

    @property
    def cost(self) -> tuple[bool, int, int]:
        """How much it loses; what nobody can say how much it is weighs most."""
        unknown = any(lost.as_of is None for lost in self.lost_ranges)
        return unknown, len(self.loses) + len(self.reverts), len(self.lost_ranges)


NO_COST = (False, 0, 0)


@dataclass(frozen=True, slots=True)
class Aside:
    """A file that is moved: where it stands, where it is kept, and what it holds."""

    path: str
    copy_path: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair would do to the version `head`, and what it could do instead."""

    uri: str
    head: int
    steps: tuple[RepairStep, ...] = ()
    alternatives: tuple[RepairStep, ...] = ()
    unmended: tuple[str, ...] = ()
    """What stays wrong: no repair decides it."""
    repair: Repair | None = None
    hints: tuple[tuple[str, int], ...] = ()
    """The hints to be written, each with its version."""
    asides: tuple[Aside, ...] = ()

    @property
    def nothing_to_do(self) -> bool:
        return not self.steps

    @property
    def loses(self) -> tuple[ObjectName, ...]:
        return tuple(name for step in self.steps for name in step.loses)


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was found and what was not.

    `origins` counts objects by where they come from: versions, nodes that nothing pointed to, definitions alone.
    `doubtful` are objects that are there, each with why nobody can be sure of it.
    """

    source: str
    destination: str
    from_version: int | None
    objects: int
    origins: dict[str, int]
    lost: tuple[ObjectName, ...]
    lost_ranges: tuple[LostRange, ...]
    missing_versions: tuple[int, ...]
    unreadable: tuple[tuple[str, str], ...]
    doubtful: tuple[tuple[ObjectName, str], ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether all that the newest version held is there, for sure."""
        newest = -1 if self.from_version is None else self.from_version
        return not (
            self.lost or self.lost_ranges or self.doubtful or any(version > newest for version in self.missing_versions)
        )


def describe_plan(plan: RepairPlan) -> dict[str, Any]:
    return {
        "head": plan.head,
        "nothing_to_do": plan.nothing_to_do,
        "steps": [describe_step(step) for step in plan.steps],
        "alternatives": [describe_step(step) for step in plan.alternatives],
        "unmended": list(plan.unmended),
    }


def describe_step(step: RepairStep) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "text": step.text,
        "loses": [describe_object_name(name) for name in step.loses],
        "reverts": [describe_object_name(name) for name in step.reverts],
        "lost_ranges": [describe_range(lost) for lost in step.lost_ranges],
        "details": list(step.details),
        "doubtful": [describe_object_name(name) for name in step.doubtful],
    }


def describe_range(lost: LostRange) -> dict[str, Any]:
    return {
        "after": None if lost.after is None else describe_object_name(lost.after),
        "before": None if lost.before is None else describe_object_name(lost.before),
        "path": lost.path,
        "reason": lost.reason,
        "as_of": lost.as_of,
    }


def describe_salvage(report: SalvageReport) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "source": report.source,
        "destination": report.destination,
        "from_version": report.from_version,
        "objects": report.objects,
        "found": report.origins,
        "complete": report.complete,
        "lost": [describe_object_name(name) for name in report.lost],
        "lost_ranges": [describe_range(lost) for lost in report.lost_ranges],
        "missing_versions": list(report.missing_versions),
        "unreadable": [{"path": path, "reason": reason} for path, reason in report.unreadable],
        "doubtful": [{**describe_object_name(name), "reason": reason} for name, reason in report.doubtful],
        "notes": list(report.notes),
    }


def name_order(name: ObjectName) -> tuple[int, str, str]:
    return name.kind, name.namespace, name.name
