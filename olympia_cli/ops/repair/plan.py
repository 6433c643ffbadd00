"""The plan of a repair and the report of a salvage, as values with their JSON forms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from olympia_cli.catalog.repair_commit import Repair
from olympia_cli.names import ObjectName
from olympia_cli.ops.fsck import describe_object_name
from olympia_cli.ops.repair.content import LostRange


@dataclass(frozen=True, slots=True)
class RepairStep:
    """A step of a repair: `set aside`, `hint latest`, `hint oldest`, `rollback` or `rebuild`.

    `loses` are the objects that are missing afterwards, `reverts` those that return to an older state. `lost_ranges`
    are ranges of keys with possible losses. `details` describe the damage, and the sources of the rest, line by line.
    """

    kind: str
    text: str
    loses: tuple[ObjectName, ...] = ()
    reverts: tuple[ObjectName, ...] = ()
    lost_ranges: tuple[LostRange, ...] = ()
    details: tuple[str, ...] = ()
    returns: tuple[ObjectName, ...] = ()
    """The objects of `reverts` that do not exist now."""
    doubtful: tuple[ObjectName, ...] = ()
    """The objects that are known only from leftover files."""
    objects: int = 0
    """The number of objects afterwards. A `rollback` counts no object that it returns to an older state."""
    leaves_versions: int = 0
    """The number of versions that nothing can bring back afterwards: lost ones, and those that leave quarantine."""

    @property
    def cost(self) -> tuple[bool, int, int]:
        """The loss, for comparisons. A range of unknown content weighs most."""
        unknown = any(lost.as_of is None for lost in self.lost_ranges)
        return unknown, len(self.loses) + len(self.reverts), len(self.lost_ranges)


NO_COST = (False, 0, 0)


@dataclass(frozen=True, slots=True)
class Aside:
    """A file to be moved: its path, the path of its copy, and its content."""

    path: str
    copy_path: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The steps of a repair of the version `head`, and the alternatives."""

    uri: str
    head: int
    steps: tuple[RepairStep, ...] = ()
    alternatives: tuple[RepairStep, ...] = ()
    unmended: tuple[str, ...] = ()
    """Damage that no repair can fix."""
    repair: Repair | None = None
    hints: tuple[tuple[str, int], ...] = ()
    """The hints to write, each with its version."""
    asides: tuple[Aside, ...] = ()

    @property
    def leaves_versions(self) -> int:
        return sum(step.leaves_versions for step in self.steps)

    @property
    def nothing_to_do(self) -> bool:
        return not self.steps

    @property
    def loses(self) -> tuple[ObjectName, ...]:
        return tuple(name for step in self.steps for name in step.loses)


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """The result of a salvage.

    `origins` counts objects by their source: versions, nodes without a pointer to them, definitions alone. `doubtful`
    objects are present, each with the reason of the doubt.
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
        """True if everything that the newest version held has certainly been recovered."""
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
        "leaves_versions": step.leaves_versions,
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
