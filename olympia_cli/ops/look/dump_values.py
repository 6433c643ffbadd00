"""The parts of the dump of a node file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from olympia_cli.format.node import Sizes
from olympia_cli.format.paths import parse_root_path
from olympia_cli.format.salvage import Problem
from olympia_cli.names import ObjectName, plural
from olympia_cli.ops.look.describe import describe_known
from olympia_cli.ops.walk.remains import DigestState


@dataclass(frozen=True, slots=True)
class PivotRow:
    """A row of the pivot table. `lost` names the columns that cannot be read, and therefore are None here."""

    at: int
    key: str | None
    value: str | None
    pnode: str | None
    name: ObjectName | None = None
    lost: tuple[str, ...] = ()

    @property
    def object(self) -> str:
        """The object of the key, for display."""
        if self.name is not None:
            return f"{self.name.kind.word} {self.name}"
        return "NULL" if self.key is None and "key" not in self.lost else "?"

    def describe(self) -> dict[str, Any]:
        row = {"key": self.key, "value": self.value, "pnode": self.pnode, **describe_known(self.name)}
        return {**row, "lost": list(self.lost)} if self.lost else row


@dataclass(frozen=True, slots=True)
class ActionRow:
    """A row of the action log: its key, and the action as the log describes it."""

    key: str
    action: dict[str, Any]


@dataclass(slots=True)
class NodeDump:
    """The dump of a node file."""

    path: str
    size: int
    java: bool = False
    kind: Literal["root", "node"] = "node"
    system: dict[str, str] = field(default_factory=dict)
    sizes: Sizes | None = None
    pivot: list[PivotRow] = field(default_factory=list)
    actions: list[ActionRow] = field(default_factory=list)
    digest: DigestState = "absent"
    actions_digest: DigestState = "absent"
    problems: list[Problem] = field(default_factory=list)
    unsupported: str = ""

    @property
    def version(self) -> int | None:
        """The version whose root this file is, by the file's name alone, in any folder."""
        return parse_root_path("vn/" + self.path.rpartition("/")[2])

    @property
    def keys(self) -> int:
        return sum(row.at > 0 for row in self.pivot)

    @property
    def children(self) -> int:
        return sum(row.pnode is not None for row in self.pivot)

    @property
    def missing_rows(self) -> int:
        """The number of rows that are NULL and not stored. The table of the Java SDK has as many rows as the order."""
        return max(0, self.sizes.order - len(self.pivot)) if self.sizes is not None and self.pivot else 0

    def describe(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kind": self.kind,
            "version": self.version,
            "bytes": self.size,
            "order": self.sizes.order if self.sizes is not None else None,
            "system": self.system,
            "pivot": [row.describe() for row in self.pivot],
            "buffer": [],
            "actions": [row.action for row in self.actions],
            "digest": self.digest,
            "actions_digest": self.actions_digest,
            "problems": [asdict(problem) for problem in self.problems],
        }

    def summary(self) -> str:
        """The first problem, and the number of the others."""
        if self.unsupported:
            return self.unsupported
        more = len(self.problems) - 1
        return f"{self.problems[0]}" + (f", and {plural(more, 'more problem')}" if more > 0 else "")
