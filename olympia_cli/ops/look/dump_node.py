"""One node file, row by row, with all that is wrong with it. It takes any bytes and raises nothing."""

from __future__ import annotations

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.format.node import Sizes
from olympia_cli.format.node_file import decode_action_rows, decode_node, decode_root
from olympia_cli.format.salvage import Problem, salvage
from olympia_cli.ops.look.dump_rows import read_rows
from olympia_cli.ops.look.dump_values import NodeDump
from olympia_cli.ops.look.node_target import NodeBytes, catalog_sizes, find_node


def dump_node(file: NodeBytes, sizes: Sizes | None = None) -> NodeDump:
    """What the file holds. `sizes` are those of its catalog where they are known; a root has its own."""
    remains = salvage(file.data)
    dump = NodeDump(file.path, len(file.data), file.java, problems=list(remains.problems))
    dump.sizes = remains.sizes or sizes
    if remains.unknown_columns:
        names = ", ".join(remains.unknown_columns)
        dump.unsupported = f"it has columns that this program does not know: {names!a}"
    read_rows(dump, remains)
    if not dump.problems and not dump.unsupported:
        _check_strictly(dump, file)
    return dump


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
