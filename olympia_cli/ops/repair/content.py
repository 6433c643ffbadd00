"""The content of the latest version, collected from all readable sources: its own tree, older versions and the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from olympia_cli.catalog.replay import catalog_after
from olympia_cli.catalog.retained import keep_protection
from olympia_cli.errors import OlympiaError
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import definition_id, sizes_of
from olympia_cli.format.keys import KeyCodec, kind_of_key
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.actions_pb2 import ActionType as T
from olympia_cli.format.pb.objects_pb2 import CatalogDef, NamespaceDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, new_uuid
from olympia_cli.ops.fsck import Finding, LatestVersion, describe_object_name
from olympia_cli.ops.repair.files import ReadRoot, RepairFiles
from olympia_cli.ops.repair.holes import Ancestry, Hole, HoleContent, Value, take_apart
from olympia_cli.ops.repair.leftovers import Leftovers, Suspect
from olympia_cli.ops.repair.lost_commits import LostCommits, lost_commits, recover
from olympia_cli.ops.walk import Flaw

# Recover the catalog's own definition from versions and logs.


@dataclass(frozen=True, slots=True)
class FormerCatalog:
    """The catalog's definition, and the version that it is from. `exact` is true if it includes all later changes."""

    definition: CatalogDef
    version: int
    exact: bool
    path: str | None
    """The path of the definition, if it is the latest version's own sound one."""


def newest_catalog(files: RepairFiles, versions: Sequence[int], latest: LatestVersion) -> FormerCatalog | None:
    """Return the newest definition with the id and the sizes that most versions share, as these never change."""
    newest = catalog = find_catalog(files, versions)
    reference = latest.chain.reference
    while catalog is not None and reference is not None and not _same_catalog(catalog.definition, reference):
        catalog = find_catalog(files, [version for version in versions if version < catalog.version])
    if newest is None or catalog is None or catalog is newest:
        return newest
    return FormerCatalog(keep_protection(catalog.definition, newest.definition), catalog.version, False, None)


def _same_catalog(definition: CatalogDef, other: CatalogDef) -> bool:
    return definition.id == other.id and sizes_of(definition) == sizes_of(other)


def find_catalog(files: RepairFiles, versions: Sequence[int]) -> FormerCatalog | None:
    """Return the newest readable definition of the catalog, with the later changes in the log."""
    since: list[tuple[int, tuple[Action, ...] | None]] = []
    exact = True
    for version in reversed(versions):
        root = files.root(version)
        definition = _definition_of(files, root)
        if definition is not None and version == max(versions):
            return FormerCatalog(definition, version, True, root.catalog_def)
        if definition is None and (logged := _logged(root.actions or ())) is not None:
            definition, rest = logged
            since.append((version, rest))
        if definition is None:
            since.append((version, root.actions or None))
            continue
        for later, actions in reversed(since):
            if actions is None:
                exact = False
                continue
            definition, whole = _catalog_after(files, definition, later, actions)
            exact = exact and whole
        return FormerCatalog(definition, version, exact, None)
    return None


def _definition_of(files: RepairFiles, root: ReadRoot) -> CatalogDef | None:
    if root.catalog_def is None:
        return None
    definition = files.definition(Kind.CATALOG, root.catalog_def)
    if not isinstance(definition, CatalogDef):
        return None
    if root.sizes is not None and root.sizes.order != definition.order:
        return None
    return definition


def _logged(actions: Sequence[Action]) -> tuple[CatalogDef, tuple[Action, ...]] | None:
    """Return the definition that a version's actions carry, and the actions after it. Creating and altering the catalog
    carry it.
    """
    for at in reversed(range(len(actions))):
        action = actions[at]
        if action.type in (T.CATALOG_ALTER, T.CATALOG_CREATE) and definition_id(Kind.CATALOG, action.definition):
            return CatalogDef.FromString(action.definition), tuple(actions[at + 1 :])
    return None


def _catalog_after(
    files: RepairFiles, definition: CatalogDef, version: int, actions: tuple[Action, ...]
) -> tuple[CatalogDef, bool]:
    """Return the definition after a version's actions, and whether all of them could be applied."""
    whole = True
    for action in actions:
        try:
            definition = catalog_after(
                definition, action, version, lambda target: _definition_of(files, files.root(target))
            )
        except OlympiaError:
            whole = False
    return definition, whole


_MISPLACED = frozenset({"F104", "F209", "F210", "F211", "F213", "F214"})
"""fsck's codes for a sound root or node at the place of another one, and for a node that lacks keys or has more."""

MOST_VERSIONS = 2000
"""The largest number of versions to read in full, to find the files that no version reaches."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """A range of keys between two objects whose content is not fully known. None means no bound.

    `as_of` is the version that the present content is from; None if no version has the keys.
    """

    after: ObjectName | None
    before: ObjectName | None
    path: str
    reason: str
    as_of: int | None

    def __str__(self) -> str:
        if self.after is None and self.before is None:
            span = "all of the catalog"
        else:
            first = "the beginning" if self.after is None else f"{self.after.kind.word} {self.after}"
            last = "the end" if self.before is None else f"{self.before.kind.word} {self.before}"
            span = f"what lies between {first} and {last}"
        if self.as_of is None:
            return f"{span}: no version has all of it"
        return f"{span}: as of v{self.as_of}, later changes there may be lost"

    def describe(self) -> dict[str, Any]:
        return {
            "after": None if self.after is None else describe_object_name(self.after),
            "before": None if self.before is None else describe_object_name(self.before),
            "path": self.path,
            "reason": self.reason,
            "as_of": self.as_of,
        }


@dataclass(slots=True)
class VersionContent:
    """The content of a version: by key, the path of a definition or a definition to write."""

    entries: dict[str, Value] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """The recovered parts, with their sources."""
    lost: list[ObjectName] = field(default_factory=list)
    lost_keys: list[str] = field(default_factory=list)
    lost_ranges: list[LostRange] = field(default_factory=list)
    recreated: list[NamespaceName] = field(default_factory=list)
    stale: list[ObjectName] = field(default_factory=list)
    """Objects with the definition of an older version."""
    unmended: list[str] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    """The ranges of `lost_ranges`."""
    doubtful: dict[ObjectName, str] = field(default_factory=dict)
    """Objects in the content, each with the reason to doubt them."""
    former: list[ObjectName] = field(default_factory=list)
    """Objects that lost commits may have dropped or renamed."""
    lost_commits: LostCommits | None = None
    brought_back: bool = False
    """True if the content is that of the last lost commit, as far as its files show."""


def put_together(
    files: RepairFiles,
    versions: Sequence[int],
    codec: KeyCodec,
    catalog: CatalogDef,
    hint: int | None = None,
    errors: Iterable[Finding] = (),
    last_sound: Callable[[], int | None] = lambda: None,
) -> VersionContent:
    """Return the content of the newest version, or of a later one that the hint `vn/latest` names.

    `errors` are fsck's errors of the newest version. `last_sound` looks for the newest version without errors.
    """
    misplaced = next((error for error in errors if error.code in _MISPLACED), None)
    return _PutTogether(files, versions, codec, catalog, hint, misplaced, last_sound).run()


class _PutTogether:
    def __init__(
        self,
        files: RepairFiles,
        versions: Sequence[int],
        codec: KeyCodec,
        catalog: CatalogDef,
        hint: int | None,
        misplaced: Finding | None,
        last_sound: Callable[[], int | None],
    ) -> None:
        self._files = files
        self._versions = versions
        self._head = max(versions)
        self._codec = codec
        self._catalog = catalog
        self._history = Ancestry(files, versions, codec)
        self._content = VersionContent(lost_commits=lost_commits(files, versions, hint))
        self._hint = hint
        self._misplaced = misplaced
        self._last_sound = last_sound

    def run(self) -> VersionContent:
        content, lost = self._content, self._content.lost_commits
        leftovers = None
        if lost is not None:
            known = [version for version in self._versions if version <= lost.base.version]
            leftovers = Leftovers(self._files, known, sizes_of(self._catalog))
        if lost is None or leftovers is None or not self._bring_back(lost, leftovers):
            self._take_newest()
        self._find_definitions()
        if lost is not None and leftovers is not None and content.lost_ranges:
            since, last = lost.base.created_at_millis, lost.base.version
            self._add_leftovers(leftovers, Suspect((("", None),), since, nameless=True, after_version=last))
        elif content.holes and len(self._versions) <= MOST_VERSIONS:
            leftovers = Leftovers(self._files, self._versions, sizes_of(self._catalog))
            self._add_leftovers(leftovers, suspect(self._files, self._codec, content))
        self._check_ids(self._catalog.id)
        self._add_namespaces()
        content.entries = dict(sorted(content.entries.items()))
        return content

    def _take_newest(self) -> None:
        """Take the tree of the newest version, and fill its holes from older versions and the log."""
        content = self._content
        tree = take_apart(self._files, self._files.root(self._head).top, self._codec)
        content.entries, content.lost_keys = dict(tree.entries), list(tree.illegal)
        for filled in self._history.fill(tree.holes):
            self._take(filled)
        if self._misplaced is not None and not content.lost_ranges:
            self._compare_with_log(self._misplaced)
        if self._hint is not None and self._hint > self._head:
            content.lost_ranges.append(self._lost_range(self._head, self._hint))

    def _compare_with_log(self, misplaced: Finding) -> None:
        """Compare the content with the log, after nodes were exchanged or copied.

        A sound node may be at a wrong place that its keys fit, in this version or in the version that filled a hole.
        Only a log from the beginning of the catalog shows that. Otherwise the last sound version and the log since are
        the best source, and the result stays uncertain.
        """
        content, told = self._content, self._history.replayed()
        if told is None or not told[1]:
            content.lost_ranges.append(LostRange(None, None, misplaced.path, misplaced.message, self._head))
            sound = self._last_sound()
            told = None if sound is None else self._history.replayed(sound)
        if told is None:
            return
        logged, _ = told
        rows = {key: value for key, value in content.entries.items() if isinstance(value, str)}
        entries = {key: self._same(key, value, rows) for key, value in logged.entries.items()}
        if entries != content.entries:
            content.entries = entries
            content.notes.append(f"all objects as v{logged.as_of} and the log have them")

    def _bring_back(self, lost: LostCommits, leftovers: Leftovers) -> bool:
        """Take the content of commits with lost roots. Return False if their nodes form no tree."""
        content, base = self._content, lost.base
        tree = take_apart(self._files, base.top, self._codec)
        recovered = None if tree.holes else recover(self._files, leftovers, lost, tree.entries)
        if recovered is None:
            return False
        content.entries, content.lost_keys = dict(recovered.entries), list(tree.illegal)
        content.notes += recovered.notes
        content.former = [self._name(key) for key in recovered.former]
        content.brought_back = True
        if not recovered.exact:
            content.lost_ranges.append(self._lost_range(base.version, lost.versions[-1]))
        return True

    def _lost_range(self, base: int, last: int) -> LostRange:
        return LostRange(None, None, root_path(last), "it is lost", base)

    def _add_leftovers(self, leftovers: Leftovers, suspect: Suspect) -> None:
        """Add objects that are known only from leftovers, if their names are known."""
        content = self._content
        there = {self._name(key): value for key, value in content.entries.items()}
        for left in leftovers.objects(there, suspect, unnamed=False):
            content.entries[self._codec.encode(left.name)] = left.path
            content.doubtful[left.name] = left.doubt
        content.lost = [name for name in content.lost if name not in content.doubtful]

    def _take(self, filled: HoleContent) -> None:
        """Add the former content of a hole."""
        content, hole = self._content, filled.hole
        rows = self._sound(hole.rows)
        if filled.exact:
            result = {key: self._same(key, value, rows) for key, value in filled.entries.items()}
            content.notes.append(f"{hole.path}: {_keys(len(result))} as v{filled.as_of} and the log have them")
        else:
            # the log is incomplete, so the readable rows are the newest information
            result = {**filled.entries, **rows}
            content.stale += [self._name(key) for key in filled.entries if key not in rows]
            content.lost += [self._name(key) for key in hole.rows if key not in result]
            content.holes.append(hole)
            content.lost_ranges.append(
                LostRange(
                    self._bound(hole.start.removesuffix("\0")),
                    self._bound(hole.end),
                    hole.path,
                    hole.reason,
                    filled.as_of,
                )
            )
            origin = "from what can be read of it" if filled.as_of is None else f"as of v{filled.as_of}"
            content.notes.append(f"{hole.path}: {_keys(len(result))} {origin}")
        content.entries.update(result)

    def _sound(self, rows: dict[str, str | None]) -> dict[str, str]:
        """Return the rows with readable definitions."""
        named = {key: value for key, value in rows.items() if value is not None}
        paths = [(kind_of_key(key, ""), value) for key, value in named.items()]
        checked = zip(named.items(), self._files.ids(paths), strict=True)
        return {key: value for (key, value), (_, _, flaw) in checked if flaw is None}

    def _same(self, key: str, value: Value, rows: dict[str, str]) -> Value:
        """Return the path of the file with this definition of the log, if a row names one, else the value itself."""
        path = rows.get(key)
        return path if path is not None and is_same(self._files, key, value, path) else value

    def _find_definitions(self) -> None:
        """Replace definitions that cannot be read. An object without any is lost."""
        content = self._content
        paths = [(key, value) for key, value in content.entries.items() if isinstance(value, str)]
        checked = self._files.ids((kind_of_key(key, ""), path) for key, path in paths)
        dangling = {}
        for (key, path), (_, _, flaw) in zip(paths, checked, strict=True):
            if flaw is None:
                continue
            name = self._name(key)
            exchanged = self._files.exchanged(name.kind, path) if flaw.code == "F304" else None
            if exchanged is None:
                dangling[key] = name
            else:
                content.entries[key] = exchanged
                content.notes.append(f"{name.kind.word} {name}: its definition, which stands in another file")
        if not dangling:
            return
        former = self._history.definitions(dangling)
        for key, name in dangling.items():
            if key not in former:
                self._give_up(key, name)
                continue
            definition = former[key]
            content.entries[key] = definition.value
            origin = f"as of v{definition.version}"
            if definition.exact:
                origin = f"its definition as the log of v{definition.version} has it"
            else:
                content.stale.append(name)
            content.notes.append(f"{name.kind.word} {name}: {origin}")

    def _give_up(self, key: str, name: ObjectName) -> None:
        """Take the readable rest of a definition that no version and no log has, or drop the object."""
        content, path = self._content, self._content.entries[key]
        remains = self._files.remains(name.kind, path) if isinstance(path, str) else None
        if remains is None:
            del content.entries[key]
            content.lost.append(name)
        else:
            content.entries[key] = remains
            content.stale.append(name)
            content.notes.append(f"{name.kind.word} {name}: as much of its definition as is left")

    def _add_namespaces(self) -> None:
        """Create namespaces that objects need and that are missing, so that the objects are not lost."""
        content = self._content
        for name, definition in missing_namespaces(map(self._name, content.entries)):
            content.entries[self._codec.encode(name)] = definition
            content.recreated.append(name)
            content.notes.append(f"namespace {name}: created again, without properties, for the tables or views in it")
            if name in content.lost:
                content.lost.remove(name)
                content.stale.append(name)
                content.doubtful[name] = "its definition is lost: it is created again, without properties"

    def _check_ids(self, catalog_id: str) -> None:
        """Report ids that two objects have. If one of the objects is from an older version, it was renamed since."""
        content = self._content
        stale = {*content.stale, *content.former}
        owners: dict[str, str] = {}
        for key, id in list(self._ids().items()):
            if id == catalog_id:
                name = self._name(key)
                content.unmended.append(
                    f"{name.kind.word} {name} has the id {id} of the catalog: drop it and register it again"
                )
            elif id not in owners:
                owners[id] = key
            else:
                first, second = self._name(owners[id]), self._name(key)
                if first in stale or second in stale:
                    former, now = (first, second) if first in stale and second not in stale else (second, first)
                    self._forget(former, now)
                    owners[id] = self._codec.encode(now)
                    continue
                content.unmended.append(
                    f"{first.kind.word} {first} and {second.kind.word} {second} have the same id {id}: "
                    "drop one of them and register it again"
                )

    def _ids(self) -> dict[str, str]:
        """Return the id of the object of each key."""
        entries = self._content.entries
        paths = [(kind_of_key(key, ""), value) for key, value in entries.items() if isinstance(value, str)]
        ids = self._files.ids(paths)
        return {
            key: next(ids)[1] if isinstance(value, str) else definition_id(kind_of_key(key, ""), value)
            for key, value in entries.items()
        }

    def _forget(self, former: ObjectName, now: ObjectName) -> None:
        content = self._content
        del content.entries[self._codec.encode(former)]
        content.stale = [name for name in content.stale if name != former]
        content.notes.append(f"{former.kind.word} {former} is {now.kind.word} {now} by now")

    def _name(self, key: str) -> ObjectName:
        return self._codec.decode(key, "")

    def _bound(self, key: str | None) -> ObjectName | None:
        return self._codec.name(key) if key else None


def suspect(files: RepairFiles, codec: KeyCodec, content: VersionContent) -> Suspect:
    """Return the ranges with possible losses: holes that could not be filled, and the keys of lost objects."""
    lost = list(map(codec.encode, content.lost))
    ranges = [(hole.start, hole.end) for hole in content.holes] + [(key, key + "\0") for key in lost]
    times = [0 if lost.as_of is None else files.root(lost.as_of).created_at_millis for lost in content.lost_ranges]
    return Suspect(tuple(ranges), 0 if lost else min(times, default=0), nameless=bool(content.holes))


def missing_namespaces(names: Iterable[ObjectName]) -> list[tuple[NamespaceName, bytes]]:
    """Return the namespaces that objects need and that are missing, with new definitions."""
    names = set(names)
    needed = {name.namespace for name in names} - {name.namespace for name in names if name.kind is Kind.NAMESPACE}
    return [(NamespaceName(name), definitions.body(NamespaceDef(id=new_uuid()))) for name in sorted(needed)]


def is_same(files: RepairFiles, key: str, value: Value | None, path: str) -> bool:
    """Return whether the value of a key is the definition at a path, or has the same content."""
    if not isinstance(value, bytes):
        return value == path
    definition = files.definition(kind_of_key(key, ""), path)
    return not isinstance(definition, Flaw) and definitions.body(definition) == value


def _keys(number: int) -> str:
    return "1 key" if number == 1 else f"{number:,} keys"


def name_order(name: ObjectName) -> tuple[int, str, str]:
    return name.kind, name.namespace, name.name
