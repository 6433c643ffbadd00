"""The findings of fsck: codes, severities, and the parts of a finding.

A code never changes its meaning. New codes are only added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from google.protobuf.message import Message

from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.masking import masked
from olympia_cli.names import ObjectName, Reference, TableName, ViewName
from olympia_cli.ops.progress import SILENT, Progress

if TYPE_CHECKING:
    from olympia_cli.catalog.clock import Clock
    from olympia_cli.ops.fsck.definitions import Verified

MAX_OBJECTS = 1000
"""The largest number of objects, and of versions, that a finding names one by one."""


REPAIR, SALVAGE = "fsck --repair", "fsck --salvage DEST"
"""The repair of the latest version and the hints; and the salvage for catalogs that it cannot fix."""


Ranges = tuple[tuple[int, int], ...]
"""Closed ranges of versions, ascending."""


class Severity(StrEnum):
    """The severity of a finding. A catalog is damaged exactly if it has an error that is not acknowledged."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding: the file, the affected versions and objects, and the next step.

    `path` is relative to the catalog, or a location for table data. `versions` are closed ranges, ascending. `objects`
    holds the first objects in key order, `objects_total` their number. `hint` is the next command. An `acknowledged`
    finding is known, and does not make the catalog damaged. `held_by` names the affected live transactions and exports.
    """

    code: str
    severity: Severity
    path: str
    message: str
    versions: Ranges = ()
    objects: tuple[ObjectName, ...] = ()
    objects_total: int = 0
    hint: str = ""
    acknowledged: bool = False
    held_by: tuple[str, ...] = ()
    mended_in: int | None = None
    """The version of the repair that answers the finding, which is then a warning."""

    @property
    def is_damage(self) -> bool:
        """True if the finding makes the catalog damaged."""
        return self.severity is Severity.ERROR and not self.acknowledged

    @property
    def versions_total(self) -> int:
        return sum(last - first + 1 for first, last in self.versions)


CODES: dict[str, str] = {
    "F101": "a version is missing between others",
    "F102": "the oldest version is later than the latest",
    "F103": "no version can be read at all",
    "F104": "a root does not name the version before it",
    "F105": "a root's sizes or the catalog's id differ from the other versions",
    "F106": "the root of a version is lost, and a file keeps its name",
    "F111": "vn/latest is missing",
    "F112": "vn/latest is not a version number",
    "F113": "vn/latest is behind the latest version",
    "F114": "vn/latest names a version without a root: commits are lost",
    "F115": "vn/oldest is not a version number",
    "F116": "a version is older than the one before it",
    "F117": "vn/oldest is ahead of the catalog's oldest version",
    "F118": "something that cannot be read stands in the place of vn/latest or vn/oldest",
    "F119": "versions are dated later than now",
    "F201": "a node file is missing",
    "F202": "a node file is empty",
    "F203": "a node file is not an Arrow file",
    "F204": "a node file is cut short",
    "F205": "a file cannot be read",
    "F206": "checksum mismatch in a node file",
    "F207": "the rows of a node file are malformed",
    "F208": "the keys of a node are out of order or not unique",
    "F209": "a node has keys outside the range that its parent gives it",
    "F210": "a node is on another level than its siblings",
    "F211": "a node has too many or too few keys",
    "F212": "a pointer leads outside the catalog",
    "F213": "a node is its own descendant",
    "F214": "two pointers in one version lead to one node",
    "F215": "a key that no object can have",
    "F301": "a definition is missing",
    "F302": "a definition is empty or has no id",
    "F303": "a definition cannot be parsed",
    "F304": "checksum mismatch in a definition",
    "F305": "two objects of a version have the same id",
    "F306": "a table or view is in a namespace that does not exist",
    "F307": "the catalog definition is missing or invalid",
    "F401": "an action row cannot be decoded",
    "F501": "a live distributed transaction cannot be read",
    "F502": "a file that a live distributed transaction needs is missing or invalid",
    "F503": "a file that an export pins is missing or invalid",
    "F504": "the record of an export is malformed",
    "F505": "the last save of a live distributed transaction is damaged, and its copy is read",
    "F601": "the metadata of a table or view is missing",
    "F602": "the metadata of a table or view cannot be read",
    "F603": "a manifest or data file of a table is missing",
    "F604": "table data could not be checked",
    "F901": "an orphan: no version reaches the file",
    "F902": "a leftover root older than the oldest version",
    "F903": "a file that does not belong to the format; it is never touched",
    "F904": "files without a digest: unverified",
    "F905": "a temporary file of an interrupted write",
    "F906": "files in quarantine",
    "F907": "a distributed transaction past its lifetime",
    "F908": "an object without its namespace, as a drop of the Java SDK leaves it",
}
"""The meaning of each code."""

_WARNINGS = frozenset({"F111", "F112", "F113", "F115", "F116", "F117", "F118", "F119", "F505", "F604"})


def severity(code: str) -> Severity:
    """Return the severity of a code. A repair that answers a finding may lower it."""
    if code.startswith("F9"):
        return Severity.INFO
    return Severity.WARNING if code in _WARNINGS else Severity.ERROR


def finding(
    code: str,
    path: str,
    message: str,
    *,
    versions: Iterable[tuple[int, int]] = (),
    objects: Iterable[ObjectName] = (),
    objects_total: int | None = None,
    hint: str = "",
    held_by: Sequence[str] = (),
) -> Finding:
    """Return a finding with the severity of its code, and with at most a thousand objects."""
    named = tuple(objects)
    total = len(named) if objects_total is None else objects_total
    return Finding(
        code, severity(code), path, message, tuple(versions), named[:MAX_OBJECTS], total, hint, held_by=tuple(held_by)
    )


def merge(spans: Iterable[tuple[int, int]]) -> Ranges:
    """Return closed ranges, which may overlap and have any order, as ascending ranges with gaps between them."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)


def ranges(versions: Iterable[int]) -> Ranges:
    """Return version numbers in any order as ascending closed ranges."""
    return merge((version, version) for version in versions)


def without(spans: Ranges, versions: Sequence[int], hit: Ranges) -> Ranges:
    """Return the versions of a list that are in `spans` and not in `hit`."""
    return ranges(version for version in versions if inside(version, spans) and not inside(version, hit))


def inside(version: int, spans: Ranges) -> bool:
    return any(first <= version <= last for first, last in spans)


def describe_object_name(name: ObjectName) -> dict[str, str]:
    """Return the type and the names of an object. A namespace has its own name in both fields."""
    return {"type": name.kind.word, "namespace": name.namespace, "name": name.name or name.namespace}


def shown(finding: Finding) -> Finding:
    """Return the finding for display, with masked secrets in locations of table data."""
    return replace(finding, path=masked(finding.path), message=masked(finding.message), hint=masked(finding.hint))


def describe_finding(finding: Finding) -> dict[str, Any]:
    """Return a finding in its JSON form. Of many versions only the newest are listed one by one."""
    finding = shown(finding)
    versions: list[int] = []
    for first, last in reversed(finding.versions):
        versions.extend(range(last, max(first, last - (MAX_OBJECTS - len(versions)) + 1) - 1, -1))
        if len(versions) >= MAX_OBJECTS:
            break
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "path": finding.path,
        "message": finding.message,
        "versions": sorted(versions),
        "version_ranges": [list(span) for span in finding.versions],
        "objects": [describe_object_name(name) for name in finding.objects],
        "objects_total": finding.objects_total,
        "hint": finding.hint,
        "acknowledged": finding.acknowledged,
        "mended_in": finding.mended_in,
    }


# The interface of the checks at level `data`, for readers of table and view metadata.

WithData = tuple[TableName, TableDef] | tuple[ViewName, ViewDef]
"""An object with metadata: a table, or an Iceberg view."""


def with_data(name: ObjectName | None, definition: Message) -> WithData | None:
    """Return the object if it has metadata, else None."""
    if isinstance(name, TableName) and isinstance(definition, TableDef) and definition.iceberg_metadata_location:
        return name, definition
    if isinstance(name, ViewName) and isinstance(definition, ViewDef) and definition.iceberg_metadata_location:
        return name, definition
    return None


@dataclass(frozen=True, slots=True)
class DataFinding:
    """A finding about data, with the metadata locations that lead to the file. It concerns all versions with one of
    these locations.
    """

    finding: Finding
    locations: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TableData:
    """The findings about the data of tables, and the number of data files checked."""

    findings: tuple[DataFinding, ...] = ()
    files: int = 0


NO_DATA = TableData()


class DataChecks(Protocol):
    """Check that the metadata of tables and views exists, and the data files that it names."""

    @property
    def data_files(self) -> int:
        """The number of data files checked."""
        ...

    def check(self, objects: Iterable[WithData], progress: Progress) -> Iterator[DataFinding]:
        """Yield findings about the data of these objects. Damage raises no error."""
        ...


# The request of a check, and its report.


HowRead = Literal["read", "listed", "no"]


class Level(StrEnum):
    """The depth of the check. Each level includes the ones before it."""

    HINTS = "hints"
    STRUCTURE = "structure"
    FULL = "full"
    DATA = "data"


HINTS, STRUCTURE, FULL, DATA = range(len(Level))
"""The depth of each level."""


@dataclass(frozen=True, slots=True)
class FsckRequest:
    """The depth of the check, and its subject: the latest version, the version that `at` means, or all versions.

    `verified` and `max_duration`, in seconds, only apply to the engine of this process. `data` checks table data for
    that engine.
    """

    level: Level = Level.STRUCTURE
    at: Reference | None = None
    all_versions: bool = False
    clock: Clock | None = None
    verified: Verified | None = None
    max_duration: float | None = None
    data: DataChecks | None = None
    progress: Progress = SILENT


@dataclass(frozen=True, slots=True)
class Report:
    """The extent and the findings of a check. `complete` is False if the time ran out.

    `last_sound_version` is the newest checked version without an error, `version` the newest requested one. `latest`
    and `oldest` are the latest and the oldest version of the catalog. `definitions` tells how definitions of objects
    were checked: all `read`, only `listed` to find missing ones, or not at all. `read_only` means a catalog of the Java
    SDK, which this program never writes to.
    """

    level: Level
    checked: dict[str, int]
    findings: tuple[Finding, ...]
    last_sound_version: int | None
    complete: bool
    version: int | None = None
    read_only: bool = False
    latest: int | None = None
    definitions: HowRead = "no"
    oldest: int | None = None

    @property
    def damaged(self) -> bool:
        return any(finding.is_damage for finding in self.findings)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def not_read(report: Report) -> list[tuple[str, str]]:
    """Return the parts of the catalog that were not checked, with the option that checks them."""
    depth = list(Level).index(report.level)
    kept = 0 if report.latest is None or report.oldest is None else report.latest - report.oldest + 1
    parts = [
        ("nodes", "--level structure", depth < STRUCTURE),
        ("definitions", "--level full", report.definitions != "read"),
        ("table data", "--level data", report.level is not Level.DATA),
        ("other versions", "--all-versions", depth >= STRUCTURE and report.checked["versions"] < kept),
    ]
    return [(what, option) for what, option, is_left in parts if is_left]


def describe_report(report: Report) -> dict[str, Any]:
    """Return the report in its JSON form."""
    return {
        "level": str(report.level),
        "version": report.version,
        "checked": report.checked,
        "findings": [describe_finding(finding) for finding in report.findings],
        "damaged": report.damaged,
        "complete": report.complete,
        "last_sound_version": report.last_sound_version,
        "definitions": report.definitions,
        "not_read": [{"what": what, "option": option} for what, option in not_read(report)],
    }
