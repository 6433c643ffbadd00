"""The search for sound versions: is the copied version sound, and which one is the newest sound one for a repair?"""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.catalog.retained import purged_before
from olympia_cli.format.paths import OLDEST, WIDTH
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.actions import disproved, disproved_catalogs
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, CatalogFile, Chain
from olympia_cli.ops.fsck.definitions import BadDefinition
from olympia_cli.ops.fsck.engine import LocalEngine
from olympia_cli.ops.fsck.findings import Finding, Severity
from olympia_cli.ops.fsck.impact import Radius, inside
from olympia_cli.ops.fsck.roots import open_chain, read_hint
from olympia_cli.ops.fsck.verdict import FULL, Engine, Examined, Verdict, new_examined
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.nodes import Flaw

_DISPROVED = "has no digest, and contradicts the log"

Disproof = tuple[Kind, str, Flaw]
"""A readable definition that contradicts the log: its kind, its path, and the flaw."""


def examine_version(files: Files, chain: Chain, version: int, engine: Engine) -> tuple[Examined, Verdict]:
    """Read and judge all files of a version. The chain supplies the reference definition and the logs."""
    examined = new_examined(files, chain, FULL)
    with files:
        engine.examine(examined, [version], None, tuple)
    compare_with_log(examined)
    return examined, Verdict(examined, [version])


def errors_of(verdict: Verdict) -> list[Finding]:
    """Return the errors of a verdict, the most important first. Empty if the version is sound."""
    findings = verdict.with_hints(verdict.findings(objects=False))
    return [finding for finding in findings if finding.severity is Severity.ERROR]


class LatestVersion:
    """The verdict about the latest version with all its files, and on demand about older ones."""

    def __init__(self, files: Files, versions: Sequence[int]) -> None:
        """`versions` are all versions with a root."""
        self.chain, _ = open_chain(files, list(versions), WIDTH, read_hint(files, OLDEST))
        chain = self.chain
        self._engine = LocalEngine()
        self._examined = new_examined(files, chain, FULL)
        self._engine.examine(self._examined, chain.kept_versions, lambda root: root.version == chain.latest, tuple)
        self.disproofs = compare_with_log(self._examined)
        self._verdict = Verdict(self._examined, [chain.latest])

    def errors(self) -> list[Finding]:
        """Return the errors of the latest version."""
        findings = self._verdict.findings(objects=False)
        return [
            error
            for error in findings
            if error.severity is Severity.ERROR and inside(self.chain.latest, error.versions)
        ]

    def last_sound(self, oldest: int) -> int | None:
        """Return the newest version without an error, not older than `oldest`."""
        self.chain.oldest = oldest
        self._verdict = look_back(self._engine, self._examined, self._verdict, None)
        return self._verdict.last_sound(self._verdict.findings(objects=False))


def look_for_named(examined: Examined) -> None:
    """Find missing definitions in a listing, if definitions were not read."""
    if examined.named is not None:
        examined.named.look_for(examined.files, examined.graph)


def look_back(engine: Engine, examined: Examined, verdict: Verdict, most: int | None) -> Verdict:
    """Examine older versions step by step until one is sound, at most `most` of them. The latest is already
    examined.
    """
    chain = examined.chain
    older = [version for version in reversed(chain.kept_versions) if version < chain.latest][:most]
    at, step = 0, 8
    while verdict.last_sound(verdict.findings(objects=False)) is None and at < len(older):
        if examined.files.out_of_time:
            break
        engine.examine_more(examined, sorted(older[at : at + step]))
        compare_with_log(examined)
        look_for_named(examined)
        at += step
        step = max(ROOTS_AT_ONCE, at)
        verdict = Verdict(examined, sorted([chain.latest, *older[:at]]))
    return verdict


def compare_with_log(examined: Examined, all_versions: bool = False) -> list[Disproof]:
    """Compare definitions without a digest with the log, as they may be truncated or replaced. Return those that
    contradict it.
    """
    definitions, chain, reader = examined.definitions, examined.chain, examined.reader
    if definitions is None or chain.java or examined.files.out_of_time:
        return []
    disproofs: list[Disproof] = []
    if any(catalog.definition is not None and not catalog.verified for catalog in chain.catalogs.values()):
        for path in list(disproved_catalogs(reader, chain.kept_versions)):
            flaw = Flaw("F307", f"the catalog definition {_DISPROVED}")
            chain.catalogs[path] = CatalogFile(None, flaw)
            if path in examined.notes.catalogs:
                examined.notes.bad_catalogs[path] = examined.notes.catalogs[path]
            disproofs.append((Kind.CATALOG, path, flaw))
    unverified = {number: named for number, named in definitions.unverified.items() if number not in definitions.bad}
    if unverified and examined.keys is not None:
        first = _first_versions(examined, set(unverified)) if all_versions else {}
        for number in disproved(reader, _logged_versions(chain), unverified, first, examined.keys):
            path, kind, _ = unverified[number]
            definitions.bad[number] = BadDefinition(path, Flaw("F304", f"it {_DISPROVED}"))
            disproofs.append((kind, path, definitions.bad[number].flaw))
    return disproofs


def _logged_versions(chain: Chain) -> list[int]:
    """Return the versions with usable logs. Versions in quarantine were history, and their logs are complete until the
    purge.
    """
    purged = chain.oldest if chain.reference is None else min(purged_before(chain.reference), chain.oldest)
    return [version for version in chain.existing if version >= purged]


def _first_versions(examined: Examined, numbers: set[int]) -> dict[int, int]:
    """Return the first version that names each of these definitions."""
    naming = examined.graph.naming(numbers)
    radius = Radius(examined.graph, examined.versions, {}, {node for nodes in naming.values() for node in nodes})
    reached = {number: radius.versions(nodes) for number, nodes in naming.items()}
    return {number: versions[0][0] for number, versions in reached.items() if versions}
