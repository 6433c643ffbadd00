"""The roots of versions as a chain: each names its predecessor, and all belong to one catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.codec import DIGEST_KEY, LOST, decode_action_rows, decode_root
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.node import EMPTY, Node, Root, Sizes
from olympia_cli.format.paths import JAVA_WIDTH, check_pointer, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.findings import Finding, finding, merge
from olympia_cli.ops.walk import Files, Flaw, Place, flaw_of, look_at_definition

ROOTS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ChainRoot:
    """The root of a version, as far as it can be read."""

    version: int
    path: str
    data: bytes | None
    root: Root | None
    flaw: Flaw | None


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A catalog definition, or its flaw."""

    definition: CatalogDef | None
    flaw: Flaw | None
    verified: bool = False
    size: int = 0
    sizes: Sizes | None = None


@dataclass(slots=True)
class Chain:
    """The existing versions, and the catalog definition of the newest readable one."""

    existing: list[int]
    width: int
    oldest: int = 0
    reference: CatalogDef | None = None
    reference_version: int | None = None
    sizes: Sizes | None = None
    ahead: dict[int, ChainRoot] = field(default_factory=dict)
    """Roots that were read early."""
    strays: list[ChainRoot] = field(default_factory=list)
    """Roots after the latest version that are not part of the history."""
    catalogs: dict[str, CatalogFile] = field(default_factory=dict)
    java: bool = field(init=False)
    latest: int = field(init=False)

    def __post_init__(self) -> None:
        self.java, self.latest = self.width == JAVA_WIDTH, self.existing[-1]

    def set_latest_aside(self) -> None:
        """Move the latest root to the strays."""
        self.strays.insert(0, self.ahead.pop(self.latest))
        self.existing = self.existing[:-1]
        self.latest = self.existing[-1]

    @property
    def kept_versions(self) -> list[int]:
        """The existing versions from the oldest one on."""
        return [version for version in self.existing if version >= self.oldest]

    def path(self, version: int) -> str:
        return root_path(version, self.width)


class ChainReader:
    """Reads roots and catalog definitions, each once."""

    def __init__(self, files: Files, chain: Chain) -> None:
        self.files = files
        self.chain = chain

    def roots(self, versions: Sequence[int]) -> Iterator[list[ChainRoot]]:
        """Yield the roots of versions in that order, in batches that are read together."""
        ahead, width = self.chain.ahead, self.chain.width
        for start in range(0, len(versions), ROOTS_AT_ONCE):
            batch = versions[start : start + ROOTS_AT_ONCE]
            paths = {root_path(version, width): version for version in batch if version not in ahead}
            contents = list(self.files.read_many(paths)) if paths else []
            roots = {paths[path]: self._decode(paths[path], path, data) for path, data in contents}
            yield [roots[version] if version in roots else ahead.pop(version) for version in batch]
            if self.files.out_of_time:
                return

    def _decode(self, version: int, path: str, data: bytes | StoreError) -> ChainRoot:
        if isinstance(data, Exception):
            return ChainRoot(version, path, None, None, flaw_of(data))
        try:
            root = decode_root(data, path, self.chain.java)
        except Exception as error:
            # any exception of a decoder means damage
            return ChainRoot(version, path, data, None, flaw_of(error))
        return ChainRoot(version, path, data, root, None)

    def catalog(self, path: str) -> CatalogFile:
        """Return the catalog definition at a path. Most versions share one."""
        catalog = self.chain.catalogs.get(path)
        if catalog is None:
            catalog = self.chain.catalogs[path] = self._read_catalog(path)
        return catalog

    def _read_catalog(self, path: str) -> CatalogFile:
        try:
            check_pointer(path, path)
        except Damaged as error:
            return CatalogFile(None, Flaw("F212", error.reason))
        [(place, data)] = self.files.definitions([Place(path, 1)])
        catalog = self._look_at_catalog(path, data)
        self.files.looked_at(place, data, catalog.flaw, is_node=False)
        return replace(catalog, size=len(data)) if isinstance(data, bytes) else catalog

    def _look_at_catalog(self, path: str, data: bytes | StoreError) -> CatalogFile:
        if isinstance(data, PathMissing):
            return CatalogFile(None, Flaw("F307", "the catalog definition is missing"))
        if isinstance(data, Exception):
            return CatalogFile(None, Flaw("F307", f"the catalog definition cannot be read: {data}"))
        facts = look_at_definition(Kind.CATALOG, data, path)
        if isinstance(facts, Flaw):
            return CatalogFile(None, Flaw("F307", f"the catalog definition is damaged: {facts.reason}"))
        definition, verified = facts
        assert isinstance(definition, CatalogDef)
        return CatalogFile(definition, None, verified, sizes=sizes_of(definition))

    def find_reference(self) -> None:
        """Find the reference definition: the newest readable version's, unless most of a sample of versions have
        another one.
        """
        chain = self.chain
        newest = self._newest_readable()
        if newest is None:
            return
        spread = len(chain.existing) - 1
        sample = {chain.existing[spread * part // 4] for part in range(5)} | {newest.version}
        agreeing: dict[tuple[str, Sizes | None], list[tuple[int, CatalogDef]]] = {}
        for root in self.ahead(sorted(sample)):
            catalog = self._consistent(root)
            if catalog is not None and catalog.definition is not None:
                same = agreeing.setdefault((catalog.definition.id, catalog.sizes), [])
                same.append((root.version, catalog.definition))
        (_, chain.sizes), most = max(agreeing.items(), key=lambda same: (len(same[1]), same[1][-1][0]))
        chain.reference_version, chain.reference = most[-1]

    def _newest_readable(self) -> ChainRoot | None:
        versions = list(reversed(self.chain.existing[-1000:]))
        for at in (0, *range(1, len(versions), ROOTS_AT_ONCE)):
            for root in self.ahead(versions[at : at + ROOTS_AT_ONCE] if at else versions[:1]):
                if self._consistent(root) is not None:
                    return root
                if root.root is not None and self.chain.sizes is None:
                    self.chain.sizes = root.root.sizes
            if self.files.out_of_time:
                break
        return None

    def ahead(self, versions: Sequence[int]) -> list[ChainRoot]:
        """Read roots early. They are not read again."""
        roots = [root for batch in self.roots(versions) for root in batch]
        self.chain.ahead |= {root.version: root for root in roots}
        return roots

    def _consistent(self, root: ChainRoot) -> CatalogFile | None:
        """Return the catalog definition of a version, unless it is damaged or the root contradicts it."""
        if root.root is None:
            return None
        catalog = self.catalog(root.root.catalog_def)
        if catalog.definition is None or (root.root.sizes is not None and root.root.sizes != catalog.sizes):
            return None
        return catalog


def check_root(root: ChainRoot, predecessor: str | None, java: bool) -> Iterator[Finding]:
    """Check a root by itself, and its pointer to its predecessor, whose path is given."""
    version, here = root.version, [(root.version, root.version)]
    if root.root is None:
        assert root.flaw is not None
        yield finding(root.flaw.code, root.path, f"the root of version {version}: {root.flaw.reason}", versions=here)
        return
    before, rollback = root.root.previous_root, root.root.rollback_from_root
    lenient = java and (before is None or parse_root_path(before) is None)
    if before != predecessor and not lenient:
        predecessor = f"version {version - 1}" if version else "no version"
        reason = (
            f"the root of version {version} names {predecessor_text(before)} as the one before it, not {predecessor}"
        )
        yield finding("F104", root.path, reason, versions=here)
    if rollback is not None and parse_root_path(rollback) is None:
        reason = f"the root of version {version} says that it rolled back from {rollback[:100]!a}"
        yield finding("F104", root.path, reason, versions=here)


def predecessor_text(path: str | None) -> str:
    """Describe the predecessor that a root names."""
    if path is None:
        return "none"
    version = parse_root_path(path)
    return f"{path[:100]!a}" if version is None else f"version {version}"


def check_times(root: ChainRoot, before: ChainRoot | None) -> Iterator[Finding]:
    if root.root is not None and before is not None and before.root is not None:
        back = before.root.created_at_millis - root.root.created_at_millis
        if back > 0:
            reason = f"version {root.version} is {back:,} ms older than version {before.version}"
            yield finding("F116", root.path, reason, versions=[(root.version, root.version)])


def check_catalog(chain: Chain, root: ChainRoot, catalog: CatalogFile) -> Iterator[Finding]:
    """Check that a root and its catalog definition belong to this catalog."""
    if root.root is None or catalog.definition is None:
        return
    here = [(root.version, root.version)]
    if chain.reference is not None and catalog.definition.id != chain.reference.id:
        reason = f"version {root.version} has the catalog id {catalog.definition.id[:60]!a}, not {chain.reference.id!a}"
        yield finding("F105", root.path, reason, versions=here)
    if root.root.sizes is not None and root.root.sizes != catalog.sizes:
        reason = f"its sizes are not those of the catalog definition {root.root.catalog_def}"
        yield finding("F105", root.path, reason, versions=here)
    elif chain.sizes is not None and catalog.sizes != chain.sizes:
        reason = f"version {root.version} has other sizes than version {chain.reference_version}"
        yield finding("F105", root.path, reason, versions=here)


@dataclass(slots=True)
class RootNotes:
    """The results about roots: unreadable ones, flaws of their catalog definitions, and counts."""

    findings: list[Finding] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)
    bad_catalogs: dict[str, list[int]] = field(default_factory=dict)
    catalogs: dict[str, list[int]] = field(default_factory=dict)
    """Catalog definitions without a digest."""
    newest: ChainRoot | None = None
    """The last readable root, without its bytes and its tree."""
    read_count: int = 0
    readable: int = 0
    without_digest: int = 0
    actions: int = 0


class RootChecks:
    """Checks roots in the order of their versions."""

    def __init__(self, reader: ChainReader, notes: RootNotes, *, actions: bool) -> None:
        """`actions` is true if logs are checked."""
        self._reader = reader
        self._actions = actions
        self.notes = notes
        self.before: ChainRoot | None = None
        """The last readable root."""

    def note(self, batch: Sequence[ChainRoot]) -> None:
        """Check each root by itself, and against its predecessor."""
        chain = self._reader.chain
        predecessors = [root_path(root.version - 1, chain.width) if root.version else None for root in batch]
        for root, predecessor in zip(batch, predecessors, strict=True):
            self._note(root, predecessor, chain.java)

    def _note(self, root: ChainRoot, predecessor: str | None, java: bool) -> None:
        notes = self.notes
        notes.read_count += 1
        for found in check_root(root, predecessor, java):
            before = notes.findings[-1] if notes.findings else found
            if found.code == before.code == LOST and before.versions[-1][1] == root.version - 1:
                # a promotion may leave thousands of them in a row
                versions = merge([*before.versions, *found.versions])
                notes.findings[-1] = replace(before, message=_lost(*versions[0]), versions=versions)
            else:
                notes.findings.append(found)
        notes.findings += check_times(root, self.before)
        if root.root is not None:
            notes.readable += 1
            self.before = root
            notes.newest = replace(root, data=None, root=replace(root.root, node=EMPTY))
            if root.data is not None and DIGEST_KEY not in root.data:
                notes.without_digest += 1

    def follow(self, batch: Sequence[ChainRoot]) -> list[tuple[str, Node | bytes]]:
        """Check the files that roots name. Return the top nodes of their trees, or the bytes of damaged roots."""
        self.check_catalogs(batch)
        tops: list[tuple[str, Node | bytes]] = []
        for root in batch:
            if root.root is None:
                self.notes.unreadable.add(root.version)
                tops.append((root.path, root.data or b""))
                continue
            tops.append((root.path, root.root.node))
            if self._actions and root.data is not None and not self._reader.chain.java:
                self._check_actions(root.data, root.path, root.version)
        return tops

    def check_catalogs(self, batch: Sequence[ChainRoot]) -> None:
        notes = self.notes
        for root in batch:
            if root.root is None:
                continue
            catalog = self._reader.catalog(root.root.catalog_def)
            if catalog.flaw is not None and catalog.flaw.code == "F212":
                here = [(root.version, root.version)]
                notes.findings.append(finding("F212", root.path, catalog.flaw.reason, versions=here))
            elif catalog.flaw is not None:
                notes.bad_catalogs.setdefault(root.root.catalog_def, []).append(root.version)
            elif not catalog.verified:
                notes.catalogs.setdefault(root.root.catalog_def, []).append(root.version)
            notes.findings += check_catalog(self._reader.chain, root, catalog)

    def _check_actions(self, data: bytes, path: str, version: int) -> None:
        actions = read_actions(data, path)
        if isinstance(actions, Flaw):
            message = f"the log of version {version}: {actions.reason}"
            self.notes.findings.append(finding("F401", path, message, versions=[(version, version)]))
        else:
            self.notes.actions += len(actions)


def _lost(first: int, last: int) -> str:
    return f"the roots of versions {first} to {last} are lost, and files keep their names"


def read_actions(data: bytes, path: str) -> tuple[Action, ...] | Flaw:
    """Return the actions of a root, or the flaw of the first damaged one."""
    try:
        return tuple(decode_action(key, value, path) for key, value in decode_action_rows(data, path))
    except Damaged as error:
        return Flaw("F401", error.reason)
    except Exception as error:
        # any exception of a decoder means damage
        return Flaw("F401", f"its action rows cannot be read: {type(error).__name__}")
