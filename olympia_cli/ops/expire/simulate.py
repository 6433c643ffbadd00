"""How much each of several policies would free, from one walk over all versions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from olympia_cli.errors import Refused
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.retention import Policy, Versions, read_policy
from olympia_cli.ops.expire.survey import KnownFiles, follow_kept, follow_more
from olympia_cli.ops.expire.sweep import FileFate

KEEP_LAST = (1, 10, 100)
AGES = ("3d", "7d", "30d", "90d")
_BY_POLICY = (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION)
"""All else goes, or stays, under each of them."""


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What a policy would take out of history."""

    policy: str
    oldest: int
    versions: int
    files: int
    bytes: int


def simulate(planner: Planner, own: Policy) -> list[PolicyOutcome]:
    """What the policy that was asked for would free, and what others would, each with the catalog's other limit."""
    definition, now = planner.definition, planner.now
    policies = [("as asked", own)]
    for age in AGES:
        # one below a transaction's lifetime would be refused
        with suppress(Refused):
            policy = read_policy(definition, now, older_than=age, offline=own.offline)
            policies.append((f"--older-than {age}", policy))
    for number in KEEP_LAST:
        policy = read_policy(definition, now, keep_last=number, offline=own.offline)
        policies.append((f"--keep-last {number}", policy))
    oldest = planner.oldest_kept([policy for _, policy in policies])
    known_files = KnownFiles(planner.reach)
    known_files.read_manifests(planner, planner.sweep_at_rest(planner.oldest))
    going = [file for file in planner.store.list() if file_kind(file.path) in _BY_POLICY]
    freed: dict[int, tuple[int, int]] = {}
    # what more versions leave is part of what fewer versions leave: a file is read once, and counted until it stays
    for version in sorted(set(oldest), reverse=True):
        if freed:
            for _ in follow_more(planner, range(version, min(freed))):
                pass
        else:
            follow_kept(planner, Versions(planner.head, version).kept())
        fate = planner.sweep_at_rest(version).fate
        going = [
            file for file in going if fate(known_files.of(file.path, file.modified_at_millis)) is FileFate.QUARANTINED
        ]
        freed[version] = len(going), sum(file.size for file in going)
    return [
        PolicyOutcome(name, version, version - planner.oldest, *freed[version])
        for (name, _), version in zip(policies, oldest, strict=True)
    ]
