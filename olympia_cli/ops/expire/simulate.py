"""How much each of several policies would free, from one walk over all versions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from olympia_cli.errors import Refused
from olympia_cli.format.paths import FileKind, file_kind, parse_root_path
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.retention import Policy, read_policy
from olympia_cli.ops.walk.reach import path_digest

KEEP_LAST = (1, 10, 100)
AGES = ("3d", "7d", "30d", "90d")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy would take out of history."""

    policy: str
    oldest: int
    versions: int
    files: int
    bytes: int

    def describe(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "oldest": self.oldest,
            "versions": self.versions,
            "files": self.files,
            "bytes": self.bytes,
        }


def simulate(planner: Planner, asked: Policy) -> list[Outcome]:
    """What the policy that was asked for would free, and what others would, each with the catalog's other limit."""
    definition, now = planner.definition, planner.now
    policies = [("as asked", asked)]
    for age in AGES:
        # one below a transaction's lifetime would be refused
        with suppress(Refused):
            policy = read_policy(definition, now, older_than=age, offline=asked.offline)
            policies.append((f"--older-than {age}", policy))
    for number in KEEP_LAST:
        policy = read_policy(definition, now, keep_last=number, offline=asked.offline)
        policies.append((f"--keep-last {number}", policy))
    oldest = planner.oldest_kept([policy for _, policy in policies])
    resting = planner.resting()
    listed = [
        (digest, file.size, parse_root_path(file.path) if kind is FileKind.ROOT else None)
        for file in planner.store.list()
        if (kind := file_kind(file.path)) in (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION)
        and planner.is_old(file)
        and (digest := path_digest(file.path)) not in resting
    ]
    found: dict[int, Outcome] = {}
    # what fewer versions reach is part of what more versions reach, so each file is read once
    walked: int | None = None
    for version in sorted(set(oldest), reverse=True):
        planner.walk_between(version, walked)
        walked = version
        freed = [size for digest, size, root in listed if _goes(planner, digest, root, version)]
        found[version] = Outcome("", version, version - planner.oldest, len(freed), sum(freed))
    return [
        Outcome(name, version, found[version].versions, found[version].files, found[version].bytes)
        for (name, _), version in zip(policies, oldest, strict=True)
    ]


def _goes(planner: Planner, digest: bytes, root: int | None, oldest: int) -> bool:
    return root < oldest if root is not None else not planner.is_reached(digest)
