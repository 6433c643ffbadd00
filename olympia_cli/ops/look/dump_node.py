"""One node file, row by row, with all that is wrong with it. It takes any bytes and raises nothing."""

from __future__ import annotations

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.versions import read_latest
from olympia_cli.errors import Damaged, OlympiaError, Unsupported
from olympia_cli.format import definitions
from olympia_cli.format.keys import CATALOG_DEF
from olympia_cli.format.node import Sizes
from olympia_cli.format.node_file import decode_action_rows, decode_node, decode_root
from olympia_cli.format.paths import check_pointer, parse_root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.salvage import Problem, salvage
from olympia_cli.ops.look.node_dump import NodeDump
from olympia_cli.ops.look.node_rows import read_rows
from olympia_cli.ops.look.node_target import NodeBytes, find_node
from olympia_cli.storage.protocol import Store


def dump_node(file: NodeBytes, sizes: Sizes | None = None) -> NodeDump:
    """What the file holds. `sizes` are those of its catalog where they are known; a root has its own."""
    found = salvage(file.data)
    dump = NodeDump(file.path, len(file.data), file.java, problems=list(found.problems))
    dump.sizes = found.sizes or sizes
    if found.unknown_columns:
        names = ", ".join(found.unknown_columns)
        dump.unsupported = f"it has columns that this program does not know: {names!a}"
    read_rows(dump, found)
    if not dump.problems and not dump.unsupported:
        _check_strictly(dump, file)
    return dump


def catalog_sizes(store: Store, file: NodeBytes) -> Sizes | None:
    """Order and name sizes of the catalog that a file is in, from wherever they can still be had."""
    try:
        if parse_root_path(file.path) is None:
            latest = read_latest(store)
            file = NodeBytes(latest.path, latest.data, latest.java)
        found = salvage(file.data)
        if found.sizes is not None:
            return found.sizes
        paths = [value for key, value, _ in found.rows if key == CATALOG_DEF and isinstance(value, str)]
        if not paths:
            return None
        data = store.read(check_pointer(paths[0], file.path))
        definition = definitions.decode(CatalogDef, data, paths[0])
    except OlympiaError:
        return None
    return Sizes(
        definition.order,
        definition.namespace_name_max_size_bytes,
        definition.table_name_max_size_bytes,
        definition.view_name_max_size_bytes,
    )


def read_target(catalog: Catalog, target: str) -> NodeDump:
    """The file of a catalog that a target names."""
    file = find_node(catalog, target)
    return dump_node(file, catalog_sizes(catalog.store, file))


def _check_strictly(dump: NodeDump, file: NodeBytes) -> None:
    """Ask the reader that every other command uses: what it refuses is damaged, whatever was seen here."""
    try:
        if dump.kind == "root":
            decode_root(file.data, file.path, file.java)
            if not file.java:
                decode_action_rows(file.data, file.path)
        else:
            decode_node(file.data, file.path, file.java)
    except Damaged as error:
        dump.problems.append(Problem(error.reason))
    except Unsupported as error:
        dump.unsupported = error.message
