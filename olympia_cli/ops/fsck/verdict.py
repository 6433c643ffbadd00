"""The verdict: turn flaws of files into findings with the affected versions and objects, and the next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import ObjectName
from olympia_cli.ops.fsck.definitions import NO_ID, is_damage
from olympia_cli.ops.fsck.findings import (
    NO_DATA,
    REPAIR,
    SALVAGE,
    Finding,
    Ranges,
    Severity,
    TableData,
    finding,
    inside,
    merge,
    ranges,
    without,
)
from olympia_cli.ops.fsck.impact import MOST_HOLDERS, MOST_NAMING, Hit, ObjectNames, Radius, VersionChecks
from olympia_cli.ops.fsck.trees import Trees
from olympia_cli.ops.walk import Flaw, look_at_definition


@dataclass(frozen=True, slots=True)
class Examined:
    """The input of a verdict: the trees that were followed, the findings beside them, and the data of tables.

    `findings` are those about hints, names of versions, transactions and exports.
    """

    trees: Trees
    findings: tuple[Finding, ...] = ()
    data: TableData = NO_DATA


MOST_FINDINGS = 1000
"""The largest number of findings per code. One more finding sums up the others."""

MOST_EXPLAINED = 100
"""The number of damaged files whose objects are looked up one by one."""

_HIDES_KEYS = frozenset({"F201", "F202", "F203", "F204", "F205", "F206", "F207", "F208", "F212", "F213"})
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(slots=True)
class _Group:
    """A flaw of a file, in all versions that reach these nodes."""

    reason: str
    nodes: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Clash:
    """Objects with one id: the versions, the number of objects, and the definitions of the named ones."""

    versions: list[tuple[int, int]] = field(default_factory=list)
    total: int = 0
    owners: dict[ObjectName, str] = field(default_factory=dict)


class Verdict:
    """The verdict on the trees that were followed. It changes nothing, so it can be repeated after more are."""

    def __init__(self, examined: Examined, versions: Sequence[int]) -> None:
        """`versions` are the requested ones."""
        self._examined = examined
        self._trees = trees = examined.trees
        self._requested_versions = versions
        self._graph = trees.graph
        self._groups = self._grouped()
        self._holders = self._graph.naming(trees.definitions.bad.keys() if trees.definitions is not None else ())
        bad = {node for group in self._groups.values() for node in group.nodes}
        bad.update(node for nodes in self._holders.values() for node in nodes)
        if trees.definitions is not None:
            bad.update(node for _, nodes in trees.definitions.more_bad.values() for node in nodes)
        who = {node: [holder.pin.who for holder in holders] for node, holders in trees.holders.items()}
        self._radius = Radius(self._graph, trees.versions, who, bad)
        self._by_who = {holder.pin.who: holder for holders in trees.holders.values() for holder in holders}
        self._versions = [version for version in sorted(trees.roots) if version not in trees.notes.unreadable]

    @cached_property
    def _objects(self) -> ObjectNames:
        trees = self._trees
        return ObjectNames(trees.files, self._graph, trees.keys, trees.chain.java, trees.chain.path)

    @property
    def hides_files(self) -> bool:
        """True if files cannot be read that may lead to others."""
        return bool(self._trees.notes.unreadable) or any(code in _HIDES_KEYS for code, _ in self._groups)

    @cached_property
    def bare_findings(self) -> list[Finding]:
        """All findings, without the names of affected objects."""
        return self._findings(objects=False)

    def findings(self) -> list[Finding]:
        """Return all findings. Read files again to name the affected objects, but count each file once."""
        return self._findings(objects=True) if self.bare_findings else []

    def _findings(self, objects: bool) -> list[Finding]:
        files = self._trees.files
        counted = files.bytes
        findings = [*self._examined.findings, *self._trees.notes.findings, *self._data()]
        findings += self._catalogs()
        findings += self._nodes(objects)
        findings += self._definitions(objects)
        if self._trees.depth and not files.stopped:
            findings += self._whole_versions(objects)
        findings += self._without_digest()
        files.bytes = counted
        return findings

    def last_sound(self, findings: Iterable[Finding]) -> int | None:
        """Return the newest examined version without an error."""
        if self._trees.files.stopped:
            return None
        spans = [span for finding in findings if finding.severity is Severity.ERROR for span in finding.versions]
        versions = self._versions if self._trees.depth else self._requested_versions
        if not spans:
            return versions[-1] if versions else None
        hit = merge(spans)
        return next((version for version in reversed(versions) if not inside(version, hit)), None)

    def with_hints(self, findings: Sequence[Finding], sound: int | None) -> list[Finding]:
        """Return the findings sorted by importance, each with its next step. `sound` is the last sound version."""
        oldest = self._trees.chain.oldest
        # a commit could close a gap, and join versions that do not belong together
        gap = any(error.code == "F101" and error.versions[0][0] > oldest for error in findings)
        mend, back = SALVAGE if gap else REPAIR, "" if sound is None else f"rollback v{sound}"
        return sorted((replace(each, hint=self._advice(each, mend, back)) for each in findings), key=importance)

    def _advice(self, each: Finding, mend: str, back: str) -> str:
        """Return the next step. For a read-only catalog it is `dump-node` at most."""
        hint = self._hint(each, mend, back)
        if not self._trees.chain.java or hint == _look(each):
            return hint
        return _look(each) if each.severity is Severity.ERROR else ""

    def _hint(self, error: Finding, mend: str, back: str) -> str:
        """Return the next step of an error: `mend` if a repair can fix it; else `back`, as an older version has the
        former state.
        """
        if error.severity is not Severity.ERROR or error.hint:
            return error.hint
        if inside(self._trees.chain.latest, error.versions):
            return back if error.code == "F305" or error.code.startswith("F6") else mend
        return _look(error)

    # Nodes

    def _grouped(self) -> dict[tuple[str, str], _Group]:
        groups: dict[tuple[str, str], _Group] = {}
        for mark in self._graph.marks:
            if mark.flaw.code == "F201" and mark.node in self._graph.doubtful:
                continue
            group = groups.setdefault((mark.flaw.code, mark.path), _Group(mark.flaw.reason))
            group.nodes.add(mark.node)
        return groups

    def _nodes(self, objects: bool) -> Iterator[Finding]:
        def explain(path: str, nodes: set[int], few: bool) -> Hit:
            if not objects or not few:
                return Hit()
            if path.startswith("def/"):
                return self._objects.of_definition(path, nodes)
            return self._objects.of_node(path, self._radius.versions(nodes), self._trees.chain.kept_versions)

        files = ((code, path, group.reason, group.nodes) for (code, path), group in sorted(self._groups.items()))
        return self._file_by_file(files, {}, explain)

    def _file_by_file(
        self,
        files: Iterable[tuple[str, str, str, set[int]]],
        rest: dict[str, tuple[int, set[int]]],
        explain: Callable[[str, set[int], bool], Hit],
    ) -> Iterator[Finding]:
        """Yield a finding per file, given by code, path, reason and affected nodes, and one for the `rest` of a code.

        `explain` adds the objects, in full for the first files.
        """
        counts: Counter[str] = Counter()
        for code, path, reason, nodes in files:
            counts[code] += 1
            if counts[code] > MOST_FINDINGS:
                count, rest_nodes = rest.get(code, (0, set()))
                rest[code] = (count + 1, rest_nodes | nodes)
                continue
            hit = explain(path, nodes, counts[code] <= MOST_EXPLAINED)
            yield self._finding(code, path, reason, nodes, hit)
        for code, (count, nodes) in rest.items():
            yield self._finding(code, "", f"{count:,} files more like these", nodes, Hit())

    def _finding(self, code: str, path: str, reason: str, nodes: Iterable[int], hit: Hit) -> Finding:
        """Return a finding for the affected versions, or for other holders of the nodes if there are no versions."""
        nodes = list(nodes)
        versions, who = self._radius.versions(nodes), self._radius.holders(nodes)
        message = f"{reason}; {hit.remark}" if hit.remark else reason
        hint = ""
        if who and not versions:
            code, hint = self._by_who[who[0]].pin.code, self._by_who[who[0]].hint
            message = f"{', '.join(who[:3])}: {message}"
        elif who:
            message += f"; {', '.join(who[:3])} too"
            if not inside(self._trees.chain.latest, versions):
                # only the holder keeps this finding from being one of the past
                hint = self._by_who[who[0]].hint
        return finding(code, path, message, versions=versions, objects=hit.objects, hint=hint, held_by=who)

    # Definitions

    def _definitions(self, objects: bool) -> Iterator[Finding]:
        definitions = self._trees.definitions
        if definitions is None:
            return

        def explain(path: str, nodes: set[int], few: bool) -> Hit:
            most = MOST_HOLDERS if few else 1
            return self._objects.of_definition(path, nodes, most) if objects else Hit()

        files = (
            (bad.flaw.code, bad.path, bad.flaw.reason, set(self._holders.get(number, ())))
            for number, bad in sorted(definitions.bad.items(), key=lambda item: item[1].path)
            if is_damage(bad.flaw.code, doubtful=number in definitions.doubtful)
        )
        yield from self._file_by_file(files, dict(definitions.more_bad), explain)

    def _catalogs(self) -> Iterator[Finding]:
        for path, versions in self._trees.notes.bad_catalogs.items():
            flaw = self._trees.chain.catalogs[path].flaw or Flaw("F307", "")
            yield finding(flaw.code, path, flaw.reason, versions=ranges(versions))

    def _data(self) -> Iterator[Finding]:
        """Yield findings about table data, with the versions whose metadata leads to it."""
        definitions, findings = self._trees.definitions, self._examined.data.findings
        if definitions is None or not findings:
            return
        naming = self._graph.naming({number for hit in findings for number in definitions.at_locations(hit.locations)})
        every = {node for nodes in naming.values() for node in nodes}
        radius = Radius(self._graph, self._trees.versions, {}, every)
        for hit in findings:
            nodes = {node for number in definitions.at_locations(hit.locations) for node in naming.get(number, ())}
            yield replace(hit.finding, versions=radius.versions(nodes))

    # Whole versions

    def _whole_versions(self, objects: bool) -> Iterator[Finding]:
        trees = self._trees
        catalog_id = trees.chain.reference.id if trees.chain.reference is not None else ""
        checks = VersionChecks(self._graph, trees.definitions, catalog_id)
        checks.run([trees.roots[version] for version in self._versions])
        for count, (node, spans) in enumerate(sorted(checks.twice.over.items())):
            path = self._graph.paths[node]
            hit = self._objects.of_node(path, (), ()) if objects and count < MOST_EXPLAINED else Hit()
            reason = "more than one pointer leads to it in one version"
            yield finding("F214", path, reason, versions=self._spans(spans), objects=hit.objects)
        if checks.homeless.over:
            hiding = (group.nodes for (code, _), group in self._groups.items() if code in _HIDES_KEYS)
            hidden = self._radius.versions(node for nodes in hiding for node in nodes)
            names = list(self._graph.namespaces)
            for namespace, spans in sorted(checks.homeless.over.items()):
                # the namespace may be in an unreadable part of the tree
                versions = without(self._spans(spans), self._versions, hidden)
                if versions:
                    yield self._homeless(namespace, names[namespace], versions)
        yield from self._same_ids(sorted(checks.same_id.over.items()))

    def _spans(self, spans: Iterable[tuple[int, int]]) -> Ranges:
        return ranges(version for first, end in spans for version in self._versions[first:end])

    def _homeless(self, namespace: int, name: str, versions: Ranges) -> Finding:
        nodes = self._objects.reached(self._trees.roots[versions[-1][1]])
        nodes = [node for node in nodes if namespace in self._graph.needs[node]]
        path, homeless = "", []
        for node, key, _ in self._objects.entries(nodes):
            object_name = self._objects.name(key)
            if object_name is not None and object_name.namespace == name and object_name.name:
                path = path or self._graph.paths[node]
                homeless.append(object_name)
        reason = f"the namespace {name!a} of these objects does not exist"
        # the Java SDK drops a namespace with its tables, but not its views
        code = "F908" if self._trees.chain.java else "F306"
        return finding(code, path, reason, versions=versions, objects=homeless)

    def _same_ids(self, same: Sequence[tuple[int, list[tuple[int, int]]]]) -> Iterator[Finding]:
        """Yield findings for ids that several objects have. `same` has the spans of positions of each id."""
        definitions = self._trees.definitions
        if definitions is None or not same:
            return
        ids = {id for id, _ in same[:MOST_EXPLAINED]} - {NO_ID}
        numbers: dict[int, set[int]] = {}
        for number, id in enumerate(definitions.id_of):
            if id in ids:
                numbers.setdefault(id, set()).add(number)
        for id, spans in same[:MOST_FINDINGS]:
            yield from self._same_id(self._spans(spans), numbers.get(id, set()))
        if len(same) > MOST_FINDINGS:
            versions = merge(span for _, spans in same[MOST_FINDINGS:] for span in self._spans(spans))
            yield finding("F305", "", f"{len(same) - MOST_FINDINGS:,} ids more like these", versions=versions)

    def _same_id(self, spans: Ranges, numbers: set[int]) -> Iterator[Finding]:
        """Yield findings for objects with one id, under the first of their definitions by path.

        So the path does not depend on the examined versions. Yield none for one object whose key exists twice, which
        has another code.
        """
        if not numbers:
            yield finding("F305", "", _SAME_ID, versions=spans)
            return
        clashes: dict[str, _Clash] = {}
        for at, (span, path) in enumerate(reversed(list(self._by_first_definition(spans, numbers)))):
            first, last = span
            count, owners = self._with_ids(last, numbers) if at < MOST_EXPLAINED else (2, {})
            if count < 2:
                count, owners = self._with_ids(first, numbers)
            if count > 1:
                clash = clashes.setdefault(path, _Clash())
                clash.versions.append(span)
                clash.total, clash.owners = max(clash.total, count), clash.owners or owners
        for path, clash in sorted(clashes.items()):
            names = list(clash.owners)
            owner = next((name for name, value in clash.owners.items() if value == path), None)
            id = self._id(path, owner) if owner is not None else ""
            reason = f"{clash.total:,} objects of one version have the id {id!a}" if len(names) > 1 else _SAME_ID
            total = max(clash.total, len(names))
            yield finding("F305", path, reason, versions=merge(clash.versions), objects=names, objects_total=total)

    def _by_first_definition(self, spans: Ranges, numbers: set[int]) -> Iterator[tuple[tuple[int, int], str]]:
        """Yield the spans, split where the set of these definitions changes, each with the first path."""
        definitions, naming = self._trees.definitions, self._graph.naming(numbers)
        assert definitions is not None
        paths: dict[int, str] = {}
        unreadable = self._graph.unreadable
        holders = {min(nodes, key=lambda node: (node in unreadable, node)) for nodes in naming.values()}
        for _, key, value in self._objects.entries(holders, MOST_FINDINGS):
            name = self._objects.name(key)
            if name is not None and (number := definitions.number(value, name.kind)) in numbers:
                paths[number] = value
        radius = Radius(self._graph, self._trees.versions, {}, {node for nodes in naming.values() for node in nodes})
        begins: dict[int, set[str]] = {}
        ends: dict[int, set[str]] = {}
        for number, path in paths.items():
            for first, last in radius.versions(naming[number]):
                begins.setdefault(first, set()).add(path)
                ends.setdefault(last + 1, set()).add(path)
        edges = sorted({*begins, *ends, *(edge for first, last in spans for edge in (first, last + 1))})
        there: set[str] = set()
        for first, behind in pairwise(edges):
            there = (there - ends.get(first, set())) | begins.get(first, set())
            if inside(first, spans):
                yield (first, behind - 1), min(there, default="")

    def _with_ids(self, version: int, numbers: set[int]) -> tuple[int, dict[ObjectName, str]]:
        """Return the number of objects of a version with these definitions, and their definitions by name. Sharing the
        catalog's id counts as two.
        """
        definitions = self._trees.definitions
        assert definitions is not None
        nodes = self._objects.reached(self._trees.roots[version])
        nodes = [node for node in nodes if not numbers.isdisjoint(self._graph.names[node])]
        total = sum(number in numbers for node in nodes for number in self._graph.names[node])
        owners: dict[str, tuple[ObjectName, str]] = {}
        for _, key, value in self._objects.entries(nodes):
            name = self._objects.name(key)
            if name is not None and definitions.number(value, name.kind) in numbers:
                owners.setdefault(key, (name, value))
        if len(nodes) <= MOST_NAMING:
            # an object may exist twice, but then it does not also have the catalog's id
            total = len(owners) if total > 1 else 2
        return total, dict(owners[key] for key in sorted(owners))

    def _id(self, path: str, name: ObjectName) -> str:
        data = self._trees.files.read(path)
        parsed = look_at_definition(name.kind, data, path)
        return parsed[0].id if isinstance(parsed, tuple) else ""

    def _without_digest(self) -> Iterator[Finding]:
        trees = self._trees
        count = trees.notes.without_digest + self._graph.without_digest
        count += trees.definitions.without_digest if trees.definitions is not None else 0
        catalogs = trees.chain.catalogs.values()
        count += sum(catalog.definition is not None and not catalog.verified for catalog in catalogs)
        if count:
            files = "1 file has" if count == 1 else f"{count:,} files have"
            yield finding("F904", "", f"{files} no digest, so only what they hold could be checked")


def importance(finding: Finding) -> tuple[int, str, bool, str, str]:
    """Return the sort key of findings, the worst first."""
    return _ORDER[finding.severity], finding.code, finding.path == "", finding.path, finding.message


def _look(error: Finding) -> str:
    """Return a command that shows the file. If a root is missing, the log shows the existing versions."""
    if error.code == "F101":
        return "log --oneline"
    node = file_kind(error.path) in (FileKind.NODE, FileKind.ROOT) and error.code != "F201"
    return f"dump-node {error.path}" if node else ""


_SAME_ID = "an object has the id of the catalog, or of another object"
