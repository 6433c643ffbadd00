"""Collects the disagreements of fsck and another part, and reports them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pytest

from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.ops.fsck import Finding
from tests.agreement.catalogs import shown

EXAMPLES = 3
"""Number of examples of each kind to report."""


@dataclass(frozen=True)
class Disagreement:
    """`kind` sums it up; `case` is the damage, `fsck` and `other` are what the two say."""

    kind: str
    case: str
    fsck: str
    other: str

    def __str__(self) -> str:
        return f"    {self.case}\n      fsck: {self.fsck}\n      here: {self.other}"


class Judged(Protocol):
    """Something damaged, and the errors that fsck finds in it."""

    @property
    def name(self) -> str: ...

    @property
    def errors(self) -> list[Finding]: ...


Damage = TypeVar("Damage", bound=Judged)


def say_the_same(damages: Sequence[Damage], differences: Callable[[Damage], Iterable[Disagreement]]) -> None:
    """Ask about each, and fail with a list of what fsck says differently."""
    disagreements: list[Disagreement] = []
    for damage in damages:
        try:
            disagreements += differences(damage)
        except Unsupported as error:
            # what only a newer program can read has an exit code of its own, and is an error to fsck
            if not damage.errors:
                disagreements.append(Disagreement("a sound one is called newer", damage.name, "sound", str(error)))
        except Exception as error:
            kind = f"{type(error).__name__} comes out"
            disagreements.append(Disagreement(kind, damage.name, shown(damage.errors), str(error)))
    cases = len({one.case for one in disagreements})
    lines = [f"{cases:,} of {len(damages):,} cases are told differently"]
    for kind, count in Counter(one.kind for one in disagreements).most_common():
        lines.append(f"  {count:,} times: {kind}")
        lines += map(str, [one for one in disagreements if one.kind == kind][:EXAMPLES])
    if disagreements:
        pytest.fail("\n".join(lines), pytrace=False)


def misnamed(error: Damaged, findings: Iterable[Finding], case: str, who: str) -> list[Disagreement]:
    """The code and the file that an error names are those of a finding."""
    findings = list(findings)
    if (error.code, error.path) in {(one.code, one.path) for one in findings}:
        return []
    # a reader on its way down knows the pointer that it does not follow, and not who holds it; nor why there is no end
    # to a tree
    if error.code == "F212" and any(one.code == "F212" and ascii(error.path) in one.message for one in findings):
        return []
    if error.code == "F210" and any(one.code in ("F210", "F213") for one in findings):
        return []
    there = sorted({one.code for one in findings if one.path == error.path})
    wanted = "|".join(there) if there else f"another file ({'|'.join(sorted({one.code for one in findings}))})"
    kind = f"{who} says {error.code or 'no code'}, fsck {wanted if findings else 'nothing'}"
    return [Disagreement(kind, case, shown(findings), f"{error.code} {error.path}: {error.reason}")]
