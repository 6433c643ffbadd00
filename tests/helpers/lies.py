"""Random lies in whole files: nodes, roots and definitions that say something else, with digests that are right."""

from __future__ import annotations

from dataclasses import replace

from olympia_cli.format.codec import CATALOG_DEF, CREATED_AT_MILLIS, PREVIOUS_ROOT, decode_node
from olympia_cli.format.node import Node
from olympia_cli.format.paths import parse_root_path, root_path
from olympia_cli.ops.fsck import Level, Report, Severity
from olympia_cli.storage.memory import MemoryStore
from tests.helpers import check
from tests.helpers.damage import Raw, rewrite_definition, rewrite_node, rewrite_raw
from tests.helpers.damage_sample import Sample, read_tree
from tests.helpers.fsck import fsck
from tests.helpers.rot import Draw, Rot, Verdict

HOWS = (
    "key",
    "new-key",
    "child",
    "value",
    "drop",
    "add",
    "drop-child",
    "twin",
    "whole-node",
    "previous",
    "created",
    "catalog",
    "id",
    "no-id",
)


def lie(sample: Sample, store: MemoryStore, draw: Draw) -> Rot:
    """Let one file of a version say something else; what it says now."""
    files = sorted(set().union(*(tree.files for tree in sample.trees().values())))
    nodes = [path for path in files if path.startswith(("node/", "vn/"))]
    roots = [path for path in nodes if parse_root_path(path) is not None]
    defined = [path for path in files if path.startswith("def/") and not path.startswith("def/catalog/")]
    catalogs = [path for path in files if path.startswith("def/catalog/")]
    keys = sorted({key for tree in sample.trees().values() for key in tree.entries})

    def pick(choices: list[str]) -> str:
        return choices[draw(0, len(choices) - 1)]

    how = HOWS[draw(0, len(HOWS) - 1)]
    if how in ("previous", "created", "catalog"):
        path = pick(roots)
        key, value = {
            "previous": (PREVIOUS_ROOT, pick(roots)),
            "created": (CREATED_AT_MILLIS, str(draw(0, 2**41))),
            "catalog": (CATALOG_DEF, pick(catalogs)),
        }[how]

        def change_row(raw: Raw) -> None:
            raw.set(key, value)

        rewrite_raw(store, path, change_row)
        return Rot(path, f"{key} is {value}")
    if how in ("id", "no-id"):
        path = pick(defined)
        id = "" if how == "no-id" else _id(sample, pick([*defined, *catalogs]))
        rewrite_definition(store, path, lambda found: setattr(found, "id", id))
        return Rot(path, f"the id is {id!r}")
    path = pick(nodes)
    node = decode_node(store.read(path), path).node
    at = draw(0, max(len(node.keys) - 1, 0))
    key = pick(keys) if how != "new-key" else "C===" + pick(["a", "b", "q"]).ljust(16) + f"n{draw(0, 99)}".ljust(16)
    changed = _changed(node, how, at, key, pick(nodes), pick(defined), store, draw)
    if changed is None:
        return Rot(path, f"{how} does not fit")
    rewrite_node(store, path, lambda _: changed)
    return Rot(path, f"{how} at {at}: {node} is {changed}")


def _changed(
    node: Node, how: str, at: int, key: str, other: str, definition: str, store: MemoryStore, draw: Draw
) -> Node | None:
    keys, values, children = list(node.keys), list(node.values), list(node.children)
    if how == "add":
        where = sorted([*keys, key]).index(key) if keys else 0
        keys.insert(where, key)
        values.insert(where, definition)
        if children:
            children.insert(where, other)
    elif how == "whole-node":
        if parse_root_path(other) is not None:
            return None
        return decode_node(store.read(other), other).node
    elif not keys:
        return None
    elif how in ("key", "new-key"):
        keys[at] = key
    elif how == "value":
        values[at] = definition
    elif how == "drop":
        del keys[at], values[at]
        if children:
            del children[at + draw(0, 1)]
    elif not children:
        return None
    elif how == "child":
        children[at + draw(0, 1)] = other
    elif how == "twin":
        children[at] = children[at + 1]
    else:
        inner = [one for one in children if isinstance(one, str)]
        return replace(node, keys=(), values=(), children=(inner[at],))
    return Node(tuple(keys), tuple(values), tuple(children))


def _id(sample: Sample, path: str) -> str:
    found: list[str] = []
    rewrite_definition(sample.store(), path, lambda definition: found.append(definition.id))
    return found[0]


def hold_lies(sample: Sample, store: MemoryStore, done: list[Rot]) -> Report:
    """fsck blames just the versions that the other checker finds unsound."""
    report = fsck(store, level=Level.FULL, all_versions=True)
    text = "\n".join(f"{one.code} {one.path} {one.versions} {one.message}" for one in report.findings)
    text = "; ".join(map(str, done)) + "\n" + text
    unsound, id = {}, read_id(sample)
    for version in sample.versions:
        try:
            found = check._read_version(store, version)
            if found.catalog.id != id:
                unsound[version] = "another catalog"
            if any(parse_root_path(path) is not None for path in found.nodes):
                unsound[version] = "a root inside its tree"
        except Exception as error:
            unsound[version] = str(error)
    hit: set[int] = set()
    for one in report.findings:
        if one.severity is Severity.ERROR and one.code not in ("F502", "F503"):
            hit |= {version for first, last in one.versions for version in range(first, last + 1)}
    if set(unsound) - hit:
        missed = {version: unsound[version] for version in set(unsound) - hit}
        raise Verdict(f"not blamed: {missed}: {text}")
    # a latest version that no longer knows of an expire brings back what lies below
    hit &= set(sample.versions)
    if hit - set(unsound):
        raise Verdict(f"wrongly blamed {sorted(hit - set(unsound))}: {text}")
    good = [version for version in sample.versions if version not in unsound]
    if report.last_sound_version != (good[-1] if good else None):
        raise Verdict(f"it advises {report.last_sound_version}, and {good} are sound: {text}")
    return report


def read_id(sample: Sample) -> str:
    found: list[str] = []
    path = read_tree(sample.store(), root_path(sample.latest)).root.catalog_def
    rewrite_definition(sample.store(), path, lambda definition: found.append(definition.id))
    return found[0]
