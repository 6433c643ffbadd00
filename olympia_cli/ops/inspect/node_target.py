"""Find a node file by what the user types, and its catalog's sizes, without decoding it, as it may be damaged."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice, pairwise

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import newest_whole, oldest_version, resolve
from olympia_cli.catalog.snapshot import Snapshot, check_supported
from olympia_cli.catalog.versions import RootFile, read_hints, read_latest, read_root
from olympia_cli.errors import Damaged, InvalidOption, OlympiaError, PathMissing, VersionNotFound
from olympia_cli.format.definitions import decode, sizes_of
from olympia_cli.format.keys import CATALOG_DEF
from olympia_cli.format.node import Sizes
from olympia_cli.format.paths import JAVA_WIDTH, FileKind, check_pointer, file_kind, parse_root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.salvage import salvage
from olympia_cli.names import AtVersion, Latest, Oldest, Reference, parse_reference
from olympia_cli.storage.protocol import Store

_UUID_START = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f-]*|[0-9a-f]*)(?:\.arrow)?")
_MAX_CANDIDATES = 5


@dataclass(frozen=True, slots=True)
class NodeBytes:
    """The bytes of a node file. `java` is true in a catalog of the Java SDK."""

    path: str
    data: bytes
    java: bool = False


def find_node(catalog: Catalog, target: str) -> NodeBytes:
    """Read the file that a target names: a path, which may be shortened, the beginning of a node's uuid, or a
    version.
    """
    short = target.strip().removesuffix("…").removesuffix("...")
    if short.startswith(("vn/", "node/")):
        return _read(catalog.store, _complete(catalog.store, short))
    if _UUID_START.fullmatch(short.lower()):
        try:
            return _read(catalog.store, _complete(catalog.store, "node/" + _dashed(short.lower())))
        except PathMissing as missing:
            # eight digits may also be a version, and a word of eight letters an export
            try:
                return _of_root(find_root(catalog, parse_reference(target)))
            except OlympiaError:
                raise missing from None
    return _of_root(find_root(catalog, parse_reference(target)))


def find_root(catalog: Catalog, reference: Reference) -> RootFile:
    """Return the root that a reference means. Only times, durations and exports need sound roots."""
    store = catalog.store
    if isinstance(reference, AtVersion):
        return _version(store, reference.version)
    if isinstance(reference, Latest):
        latest = read_latest(store)
        if reference.back == 0:
            return latest
        if reference.back > latest.version:
            raise VersionNotFound(f"there is no version {reference.back} before version {latest.version}", hint="")
        return read_root(store, latest.version - reference.back, latest.width)
    try:
        sound = _latest_sound(store)
        if isinstance(reference, Oldest):
            return read_root(store, oldest_version(sound), sound.file.width)
        return resolve(reference, sound, catalog.clock.now_millis()).file
    except Damaged:
        oldest = read_hints(store).oldest if isinstance(reference, Oldest) else None
        if oldest is None:
            raise
        return _version(store, oldest)


def _latest_sound(store: Store) -> Snapshot:
    """Return the newest version whose root can be decoded, among the last few."""
    latest = read_latest(store)
    try:
        return Snapshot(store, latest)
    except Damaged:
        return newest_whole(store, latest)


def _version(store: Store, version: int) -> RootFile:
    try:
        return read_root(store, version)
    except VersionNotFound as missing:
        try:
            return read_root(store, version, JAVA_WIDTH)
        except VersionNotFound:
            raise missing from None


def _of_root(root: RootFile) -> NodeBytes:
    if root.damage is not None:
        raise root.damage
    return NodeBytes(root.path, root.data, root.java)


def _read(store: Store, path: str) -> NodeBytes:
    data = store.read(path)
    if parse_root_path(path) is not None:
        return NodeBytes(path, data, len(path) == len("vn/") + JAVA_WIDTH)
    return NodeBytes(path, data, is_java(store))


def is_java(store: Store) -> bool:
    """Return whether the catalog is the Java SDK's. False if that is unknown."""
    try:
        return read_latest(store).java
    except OlympiaError:
        return False


def catalog_sizes(store: Store, file: NodeBytes) -> Sizes | None:
    """Return the order and name sizes of a file's catalog, from a damaged file if necessary, or None."""
    try:
        if parse_root_path(file.path) is None:
            file = _of_root(read_latest(store))
        remains = salvage(file.data)
        paths = [value for key, value, _ in remains.rows if key == CATALOG_DEF and isinstance(value, str)]
        if remains.sizes is not None or not paths:
            return remains.sizes
        data = store.read(check_pointer(paths[0], file.path))
        definition = decode(CatalogDef, data, paths[0])
        check_supported(definition, paths[0])
        return sizes_of(definition)
    except OlympiaError:
        return None


def _complete(store: Store, short: str) -> str:
    """Return the path of the only file that begins with `short`."""
    if file_kind(short) in (FileKind.NODE, FileKind.ROOT):
        return short
    paths = sorted(
        file.path
        for file in islice(store.list(short), 10_000)
        if file_kind(file.path) in (FileKind.NODE, FileKind.ROOT)
    )
    if not paths:
        raise PathMissing(f"no node file in {store.uri} begins with {short[:80]!a}", hint="check the digits")
    if len(paths) > 1:
        shown = ", ".join(paths[:_MAX_CANDIDATES]) + (", …" if len(paths) > _MAX_CANDIDATES else "")
        raise InvalidOption(
            f"{short[:80]!a} is ambiguous: {len(paths)} files begin with it", hint=f"choose one of {shown}"
        )
    return paths[0]


def _dashed(digits: str) -> str:
    """Insert the dashes of a file name into the digits of a uuid."""
    bare = digits.removesuffix(".arrow")
    if "-" in bare:
        return digits
    edges = (0, 8, 12, 16, 20, 32)
    parts = [bare[start:end] for start, end in pairwise(edges)]
    return "-".join(part for part in parts if part) + digits[len(bare) :]
