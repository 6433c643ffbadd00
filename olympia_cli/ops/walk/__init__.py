"""Reading of trees: the walk from the roots down, and the facts about each node. All other operations walk trees with
this package.

The package reads and decodes files. It does not judge what facts mean for a version; `ops/fsck` does.

Names in `__all__` are loaded on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.ops.walk.nodes import (
        INNER_NODES,
        OBJECT_KEY,
        DefinitionName,
        DigestState,
        Flaw,
        NodeFacts,
        NodeRules,
        Remains,
        Sections,
        digest_state,
        flaw_of,
        is_action,
        look_at_definition,
        number_in,
        remains_of_node,
        system_rows,
    )
    from olympia_cli.ops.walk.reach import (
        AT_ONCE,
        FAILURES_IN_A_ROW,
        HERE,
        PATH_DIGEST_BYTES,
        Files,
        Place,
        Reach,
        StoreFailure,
        TreeReader,
        count_nodes,
        descend,
        estimated_objects,
        failures_pass,
        path_digest,
    )

__all__ = [
    "AT_ONCE",
    "FAILURES_IN_A_ROW",
    "HERE",
    "INNER_NODES",
    "OBJECT_KEY",
    "PATH_DIGEST_BYTES",
    "DefinitionName",
    "DigestState",
    "Files",
    "Flaw",
    "NodeFacts",
    "NodeRules",
    "Place",
    "Reach",
    "Remains",
    "Sections",
    "StoreFailure",
    "TreeReader",
    "count_nodes",
    "descend",
    "digest_state",
    "estimated_objects",
    "failures_pass",
    "flaw_of",
    "is_action",
    "look_at_definition",
    "number_in",
    "path_digest",
    "remains_of_node",
    "system_rows",
]

# in the order of imports: a name is looked up in the modules that need the fewest others first
_HOMES = ("nodes", "files", "reach")


if not TYPE_CHECKING:  # mypy checks the names

    def __getattr__(name: str) -> Any:
        for home in _HOMES if name in __all__ else ():
            module = import_module(f"{__name__}.{home}")
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
