"""The last commits if their roots are lost, recovered from nodes without a pointer to them.

A commit rewrites every node on the way to its changes, and shares all other nodes with the previous version. So a
commit with a lost root leaves nodes that no other file names: the tops of the subtrees that it wrote. Each was a child
of the lost root, at the place of the previous version's children. Between two neighbours the root held one key.

The result is exact if the same changes, applied to the previous version again, write the same nodes. One case leaves no
trace in any file: the commit also renamed an object whose key is in the root to a neighbouring key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from olympia_cli.catalog.replay import tells_all
from olympia_cli.errors import OlympiaError
from olympia_cli.format.keys import kind_of_key
from olympia_cli.format.node import Child, Node
from olympia_cli.ops.repair.files import ReadNode, ReadRoot, RepairFiles
from olympia_cli.ops.repair.leftovers import LeftNode, Leftovers
from olympia_cli.tree.edit import edit
from olympia_cli.tree.load import NodeReader

NEAR = 64
"""The largest plausible lead of a hint before the last root. More roots are never lost at once."""


@dataclass(frozen=True, slots=True)
class LostCommits:
    """The versions with missing or empty roots, and the readable version before them."""

    base: ReadRoot
    versions: range

    @property
    def named(self) -> str:
        first, last = self.versions[0], self.versions[-1]
        return f"v{first}" if first == last else f"v{first} to v{last}"


@dataclass(frozen=True, slots=True)
class Recovered:
    """The content after lost commits. `exact` means that no file suggests further changes; otherwise `former` are keys
    that may have been dropped.
    """

    entries: dict[str, str]
    exact: bool
    notes: tuple[str, ...]
    former: tuple[str, ...]


def lost_commits(files: RepairFiles, versions: Sequence[int], hint: int | None) -> LostCommits | None:
    """Return the commits after the newest version with a readable root or log. `hint` is `vn/latest`."""
    existing, head = set(versions), max(versions)
    base = head
    while base in existing and _is_lost(files.root(base)):
        base -= 1
    last = hint if hint is not None and head < hint <= base + NEAR else head
    if last == base or base not in existing or files.root(base).root is None:
        return None
    return LostCommits(files.root(base), range(base + 1, last + 1))


def _is_lost(root: ReadRoot) -> bool:
    return root.root is None and not tells_all(root.actions or ())


def recover(
    files: RepairFiles, leftovers: Leftovers, lost: LostCommits, entries: Mapping[str, str]
) -> Recovered | None:
    """Return the content after the lost commits, given the content before them. None if their nodes form no tree."""
    return _Recovery(files, leftovers, lost).run(entries)


class _Span(NamedTuple):
    """The first and the last key below a child of a root."""

    first: str
    last: str


@dataclass(frozen=True, slots=True)
class _Tree:
    """A node with the subtree below it."""

    top: LeftNode
    entries: dict[str, str]
    paths: frozenset[str]
    height: int

    @property
    def span(self) -> _Span:
        return _Span(min(self.entries), max(self.entries))


@dataclass(frozen=True, slots=True)
class _Version:
    """The known facts about a version: its content, its root, and the spans of its nodes of one height."""

    entries: Mapping[str, str]
    top: Node | None
    height: int = -1
    spans: Sequence[_Span] = ()
    unknown: int = 0
    """The number of keys between the children that no file names."""


class _Recovery:
    def __init__(self, files: RepairFiles, leftovers: Leftovers, lost: LostCommits) -> None:
        self._files = files
        self._leftovers = leftovers
        self._lost = lost
        self._notes: list[str] = []
        self._exact = True
        self._named: set[str] = set()
        """The definitions that certainly belong to the lost commits."""
        self._reader = NodeReader(files.store, sizes=leftovers.sizes)

    def run(self, base: Mapping[str, str]) -> Recovered | None:
        since = self._lost.base.created_at_millis
        young = [node for node in self._leftovers.nodes if node.created_at_millis >= since]
        entries = self._copied(young)
        if entries is None and not self._leftovers.unsure:
            entries = self._grown(base, [node for node in young if node.catalog_def is None])
            if entries is not None:
                self._look_for_more(base, entries)
        if entries is None:
            return None
        changed = {key: path for key, path in entries.items() if base.get(key) != path}
        paths = [(kind_of_key(key, ""), path) for key, path in changed.items()]
        for path in [path for path, _, flaw in self._files.ids(paths) if flaw is not None]:
            self._doubt(f"{self._lost.named}: named {path}, which cannot be read")
        former = () if self._exact else tuple(key for key, path in entries.items() if base.get(key) == path)
        return Recovered(entries, self._exact, tuple(self._notes), former)

    def _look_for_more(self, base: Mapping[str, str], entries: Mapping[str, str]) -> None:
        """Note signs of further changes: older definitions, as a rollback leaves them, and definitions that no node
        names.
        """
        before = set(base.values())
        new = [path for key, path in entries.items() if base.get(key) != path and path not in before]
        if any(map(self._leftovers.is_reached, new)):
            self._doubt(f"{self._lost.named}: went back to what an older version has")
        unnamed = self._leftovers.unnamed_since(self._lost.base.created_at_millis)
        for file in [file for file in unnamed if file.path not in self._named][:1]:
            self._doubt(f"{self._lost.named}: may have named {file.path}, which nothing names")

    def _doubt(self, reason: str) -> None:
        self._exact = False
        self._notes.append(reason)

    # A copy of the root itself

    def _copied(self, young: Sequence[LeftNode]) -> dict[str, str] | None:
        """Return the content of a copy of the last root: an export pins one, and a distributed transaction
        commits one.
        """
        last = self._lost.versions[-1]
        for node in young:
            tree = self._tree(node) if node.version == last else None
            if tree is not None:
                self._notes.append(f"v{last}: {node.path} is a copy of its root")
                if node.catalog_def != self._lost.base.catalog_def:
                    self._doubt(f"v{last}: changed the definition of the catalog")
                return tree.entries
        return None

    # Tops of what each commit wrote

    def _grown(self, base: Mapping[str, str], young: Sequence[LeftNode]) -> dict[str, str] | None:
        """Return the content of the base with each commit's subtrees at their places. None if that is ambiguous.

        The creation times of nodes identify the commits. If there are more times than commits, some nodes were never
        committed, and it is unknown which.
        """
        below = {child for node in young for child in node.children}
        tops = sorted((node for node in young if node.path not in below), key=lambda node: node.created_at_millis)
        commits = [list(nodes) for _, nodes in groupby(tops, key=lambda node: node.created_at_millis)]
        if not commits or len(commits) != len(self._lost.versions):
            return None
        root = self._lost.base.root
        assert root is not None, "the base can be read"
        version = _Version(base, root.node)
        waiting = {node.path for node in young}
        for number, nodes in zip(self._lost.versions, commits, strict=True):
            trees = [self._tree(node) for node in nodes]
            whole = [tree for tree in trees if tree is not None]
            if len(whole) != len(trees) or any(_is_stale(tree, base, version.entries) for tree in whole):
                return None
            placed = self._placed(version, whole)
            if placed is None:
                return None
            self._named.update(path for tree in whole for path in tree.entries.values())
            written = {path for tree in whole for path in tree.paths if path in waiting}
            waiting -= written
            self._notes.append(f"v{number}: {', '.join(node.path for node in nodes)}, which nothing points to")
            top = None if version.top is None else self._made_again(version, placed, written)
            if top is None:
                unknown = f"{placed.unknown:,} of the objects that its root named are not known"
                what_else = "other changes of its root are unknown"
                self._doubt(f"v{number}: {unknown if placed.unknown else what_else}")
            version = replace(placed, top=top)
        return dict(version.entries)

    def _tree(self, top: LeftNode) -> _Tree | None:
        """Return the subtree of a node. None if a part is damaged or exists twice."""
        entries, paths, whole = dict(top.entries), {top.path}, top.whole

        def visit(path: str, reading: ReadNode) -> list[str]:
            nonlocal whole
            twice = path in paths or not entries.keys().isdisjoint(key for key, _ in reading.entries)
            whole = whole and reading.node is not None and not twice
            if not whole:
                return []
            paths.add(path)
            entries.update((key, value) for key, value in reading.entries if value is not None)
            return reading.pointers

        self._files.follow(top.children, visit)
        if not (whole and entries):
            return None
        return _Tree(top, entries, frozenset(paths), self._height(top.children))

    def _height(self, children: Sequence[Child]) -> int:
        """Return the number of levels below a node with these children."""
        height = 0
        while children:
            height, children = height + 1, self._reader.node(children[0]).children
        return height

    def _spans(self, version: _Version, height: int) -> Sequence[_Span] | None:
        """Return the first and the last key below each node of this height, or None if they are unknown."""
        if version.top is None:
            return version.spans if version.height == height else None
        level, separators = [version.top], []
        for _ in range(height, self._height(version.top.children)):
            separators += [key for node in level for key in node.keys]
            level = list(self._reader.nodes([child for node in level for child in node.children]))
        keys = sorted(version.entries)
        bounds = [-1, *(bisect_left(keys, separator) for separator in sorted(separators)), len(keys)]
        return [_Span(keys[low + 1], keys[high - 1]) for low, high in pairwise(bounds) if high - low > 1]

    def _placed(self, version: _Version, trees: Sequence[_Tree]) -> _Version | None:
        """Return the version with the trees at the places of the subtrees that they replace, or None if they do not
        fit.
        """
        heights = {tree.height for tree in trees}
        spans = self._spans(version, min(heights)) if len(heights) == 1 else None
        if spans is None:
            return None
        entries = version.entries
        keys = sorted(entries)
        new_spans = [tree.span for tree in trees]
        kept = [span for span in spans if not any(map(_gap(keys, span).meets, new_spans))]
        placed = sorted([*kept, *new_spans])
        if len(placed) < 2 or any(before.last >= after.first for before, after in pairwise(placed)):
            return None
        content = {key: entries[key] for span in kept for key in keys[_slice(keys, span)]}
        for tree in trees:
            content |= tree.entries
        paths, unknown = set(content.values()), 0
        for before, after in pairwise(placed):
            between = keys[bisect_right(keys, before.last) : bisect_left(keys, after.first)]
            # an object with a new name no longer exists under its old one
            between = [key for key in between if entries[key] not in paths]
            content |= {key: entries[key] for key in between}
            unknown += not between
        return _Version(dict(sorted(content.items())), None, min(heights), placed, unknown)

    def _made_again(self, before: _Version, after: _Version, written: Collection[str]) -> Node | None:
        """Return the root that the commit wrote. None unless its changes, applied again, write exactly the nodes that
        exist.
        """
        assert before.top is not None, "asked where it is known"
        changes: dict[str, str | None] = dict.fromkeys(before.entries.keys() - after.entries.keys())
        changes |= {key: path for key, path in after.entries.items() if before.entries.get(key) != path}
        try:
            made = edit(self._reader, before.top, changes, self._leftovers.sizes.order)
        except OlympiaError:
            return None
        if len(changes) > 1 and not set(made.keys) <= set(before.top.keys):
            # a key that moved up into the root may have had another name before
            return None
        nodes = zip(written, self._files.nodes(list(written)), strict=True)
        waiting = {reading.node: path for path, reading in nodes}

        def place(child: Child) -> str | None:
            if isinstance(child, str):
                return child
            children = [path for path in map(place, child.children) if path is not None]
            return waiting.pop(Node(child.keys, child.values, tuple(children)), None)

        children = [path for path in map(place, made.children) if path is not None]
        return None if waiting or len(children) < len(made.children) else replace(made, children=tuple(children))


class _Gap(NamedTuple):
    """The keys next to a child of a root, which are in the root. None for the first or the last child."""

    low: str | None
    high: str | None

    def meets(self, span: _Span) -> bool:
        """Return whether a tree with this span replaces the child too. A tree with one of the keys does."""
        return (self.low is None or span.last >= self.low) and (self.high is None or span.first <= self.high)


def _gap(keys: Sequence[str], span: _Span) -> _Gap:
    first, last = bisect_left(keys, span.first), bisect_right(keys, span.last)
    return _Gap(keys[first - 1] if first else None, keys[last] if last < len(keys) else None)


def _slice(keys: Sequence[str], span: _Span) -> slice:
    return slice(bisect_left(keys, span.first), bisect_right(keys, span.last))


def _is_stale(tree: _Tree, base: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether a tree has content from before an earlier lost commit, so that it was not made on top of that."""
    return any(base.get(key) == value != now.get(key) for key, value in tree.entries.items())
