"""The space that each of several policies would free, from one walk over all versions."""

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
"""Files of other kinds go, or stay, under every policy."""


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The versions and files that a policy would take out of history."""

    policy: str
    oldest: int
    versions: int
    files: int
    bytes: int


def simulate(planner: Planner, own: Policy) -> list[PolicyOutcome]:
    """Return the outcome of the given policy and of some others. Each other policy changes one of the catalog's two
    limits.
    """
    definition, now = planner.definition, planner.now
    policies = [("as asked", own)]
    for age in AGES:
        # an age below a transaction's lifetime is refused
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
    # more versions use more files: so each file is read once, and counted until a version uses it
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
