"""What one node file holds, and what is wrong with it in itself: a function of its bytes alone.

What depends on other nodes is not looked at here, so nodes can be looked at anywhere, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from olympia_cli.catalog.snapshot import Snapshot, check_supported
from olympia_cli.errors import Damaged, StoreError, Unsupported
from olympia_cli.format.definitions import CLASSES, Definition, examine
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec, kind_of_key
from olympia_cli.format.node import Node, Sizes
from olympia_cli.format.node_file import decode_node, decode_root
from olympia_cli.format.paths import FileKind, all_plain, check_pointer, file_kind, parse_root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, plural
from olympia_cli.ops.walk.flaws import Flaw, flaw_of
from olympia_cli.ops.walk.remains import remains_of_node
from olympia_cli.tree.edit import max_keys, min_keys

_ROOT_INSIDE = "it is the root of a version, and stands inside a tree"

DefinitionName = tuple[str, Kind, str]
"""The path of a definition, the kind of its object, and the key that names it."""

FlawedPath = tuple[str, Flaw]
"""A path, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node by itself. Of one that is not `readable` it is what could still be read of it.

    `children` has None where a pointer cannot be followed. `has` are the namespaces whose keys are in the node, `needs`
    those of its tables and views.
    """

    path: str
    readable: bool
    verified: bool = True
    is_leaf: bool = False
    keys: tuple[str, ...] = ()
    children: tuple[str | None, ...] = ()
    has: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    names: tuple[DefinitionName, ...] = ()
    marks: tuple[FlawedPath, ...] = ()

    @property
    def flaw(self) -> Flaw | None:
        """The first thing that is wrong; None when the node is whole by itself."""
        return self.marks[0][1] if self.marks else None


@dataclass(frozen=True, slots=True)
class NodeRules:
    """What the nodes of a catalog are held to. `keys` and `order` are None where nobody knows the catalog's sizes;
    `names` says whether definitions are of interest."""

    keys: KeyCodec | None
    order: int | None
    java: bool
    names: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> NodeRules:
        """Those of a version's catalog, definitions included."""
        return cls(snapshot.keys, snapshot.sizes.order, snapshot.file.java, names=True)

    @property
    def sizes(self) -> Sizes | None:
        if self.keys is None or self.order is None:
            return None
        return Sizes(self.order, self.keys.namespace_size, self.keys.table_size, self.keys.view_size)

    def look(self, path: str, data: bytes | StoreError) -> NodeFacts:
        """A file that stands inside a tree."""
        if isinstance(data, Exception):
            return self._remains(path, b"", [(path, flaw_of(data))])
        try:
            file = decode_node(data, path, self.java, self.sizes)
        except Exception as error:
            # what a decoder stumbles over is damage, whatever it says
            return self._remains(path, data, [(path, flaw_of(error))])
        is_root = parse_root_path(path) is not None
        marks = []
        if CATALOG_DEF in file.system and not is_root:
            marks.append((path, Flaw("F207", _ROOT_INSIDE)))
        return self._facts(path, file.node, is_root, file.verified, marks)

    def look_at_root(self, path: str, node: Node | bytes) -> NodeFacts:
        """The top of a tree; of one that cannot be decoded its bytes are given."""
        return self._remains(path, node, []) if isinstance(node, bytes) else self._facts(path, node, True, True, [])

    def look_at_root_file(self, path: str, data: bytes) -> tuple[NodeFacts, int | None]:
        """As `look_at_root`, from the file: the catalog definition is among what is named. And when it was made."""
        try:
            root = decode_root(data, path, self.java)
            check_pointer(root.catalog_def, path)
        except Exception as error:
            # what a decoder stumbles over is damage, whatever it says
            return NodeFacts(path, False, marks=((path, flaw_of(error)),)), None
        facts = self.look_at_root(path, root.node)
        return replace(facts, names=((root.catalog_def, Kind.CATALOG, ""), *facts.names)), root.created_at_millis

    def _facts(self, path: str, node: Node, is_root: bool, verified: bool, marks: list[FlawedPath]) -> NodeFacts:
        marks += self._check_fill(node, path, is_root)
        read = entries if node.is_leaf else entries_of_inner
        has, needs, names, flaws = read(self.keys, node.keys, node.values) if self.keys is not None else _NO_ENTRIES
        marks += [(path, flaw) for flaw in flaws]
        children: list[str | None] = []
        plain = all_plain(child for child in node.children if isinstance(child, str))
        for child in node.children:
            if not isinstance(child, str) or not (plain or _leads_inside(child, path, marks)):
                children.append(None)  # the Java SDK leaves single pointers NULL
                continue
            if parse_root_path(child) is not None:
                marks.append((child, Flaw("F207", _ROOT_INSIDE)))
            children.append(child)
        return NodeFacts(
            path,
            True,
            verified,
            node.is_leaf,
            node.keys,
            tuple(children),
            has,
            needs,
            names if self.names else (),
            tuple(marks),
        )

    def _check_fill(self, node: Node, path: str, is_root: bool) -> Iterable[FlawedPath]:
        if self.order is None or self.java:
            return
        count, most, fewest = len(node.keys), max_keys(self.order), min_keys(self.order)
        reason = ""
        if count > most:
            reason = f"it has {plural(count, 'key')}, and a node of order {self.order} at most {most}"
        elif is_root and not count and not node.is_leaf:
            reason = "it is a root with a single child"
        elif not is_root and count < fewest:
            reason = f"it has {plural(count, 'key')}, and a node of order {self.order} at least {fewest}"
        if reason:
            yield path, Flaw("F211", reason)

    def _remains(self, path: str, data: bytes, marks: list[FlawedPath]) -> NodeFacts:
        """What can still be read of a damaged node: what it leads to is not lost, and not an orphan."""
        remains = remains_of_node(data, self.keys, self.sizes)
        entries = remains.entries if self.names and self.keys is not None else ()
        names = [
            (value, kind_of_key(key, ""), key)
            for key, value in entries
            if value is not None and file_kind(value) is FileKind.DEFINITION
        ]
        return NodeFacts(path, False, children=tuple(remains.children), names=tuple(names), marks=tuple(marks))


Entries = tuple[tuple[str, ...], tuple[str, ...], tuple[DefinitionName, ...], tuple[Flaw, ...]]
"""The namespaces that keys are of, those that they need, the definitions that they name, and what is wrong."""

_NO_ENTRIES: Entries = ((), (), (), ())


def entries(codec: KeyCodec, keys: tuple[str, ...], values: tuple[str | None, ...]) -> Entries:
    """What the keys and values of a node say."""
    has: list[str] = []
    needs: list[str] = []
    names: list[DefinitionName] = []
    bad: list[str] = []
    marks: list[FlawedPath] = []
    plain = all_plain(value for value in values if value is not None)
    at = 0
    for kind, namespace, count in _spans(codec, keys):
        some = zip(keys[at : at + count], values[at : at + count], strict=True)
        at += count
        if kind is None:
            bad += [key for key, _ in some]
            continue
        named = [(value, kind, key) for key, value in some if value is not None]
        if kind is Kind.NAMESPACE:
            has += [namespace] * len(named)
        elif named and (not needs or needs[-1] != namespace):
            needs.append(namespace)
        names += named if plain else [name for name in named if _leads_inside(name[0], "", marks)]
    flaws = [flaw for _, flaw in marks]
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        flaws.append(Flaw("F215", f"the key {bad[0].strip()[:60]!a} is of no object{more}"))
    return tuple(has), tuple(needs), tuple(names), tuple(flaws)


INNER_NODES = 128
"""So many inner nodes are remembered. The upper nodes of a tree are written anew by every commit, with other pointers
to nodes and the same keys and values; leaves are too many, and differ."""

entries_of_inner = lru_cache(INNER_NODES)(entries)


def _spans(codec: KeyCodec, keys: Sequence[str]) -> Sequence[tuple[Kind | None, str, int]]:
    """The kinds and namespaces of keys that follow each other, and how many there are of each; None where no object can
    have a key."""
    try:
        return codec.spans(keys, "")
    except Damaged:
        names = [codec.name(key) for key in keys]
        return [(None, "", 1) if name is None else (name.kind, name.namespace, 1) for name in names]


def _leads_inside(pointer: str, holder: str, marks: list[FlawedPath]) -> bool:
    """Whether a pointer can be followed; a mark says why not."""
    try:
        check_pointer(pointer, holder)
    except Damaged as error:
        marks.append((holder, Flaw("F212", error.reason)))
        return False
    return True


def look_at_definition(kind: Kind, data: bytes | StoreError, path: str) -> tuple[Definition, bool] | Flaw:
    """The definition in a file and whether it has a digest that says so, or what is wrong with it.

    Unsupported for that of a catalog that a newer program made.
    """
    if isinstance(data, Exception):
        return flaw_of(data, missing="F307" if kind is Kind.CATALOG else "F301")
    verified = False
    try:
        definition, verified = examine(CLASSES[kind], data, path)
        if isinstance(definition, CatalogDef):
            check_supported(definition, path)
    except Unsupported as error:
        if verified:
            raise  # nothing is wrong with it
        return Flaw("F307", error.message)
    except Damaged as error:
        return flaw_of(error)
    return definition, verified
