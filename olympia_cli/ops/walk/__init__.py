"""Reading of trees: the walk from the roots down, and the facts about each node. All other operations walk trees with
this package.

The package reads and decodes files. It does not judge what facts mean for a version; `ops/fsck` does.

Names in `__all__` are loaded on first access.
"""

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
    LocalTreeReader,
    Place,
    ReachedFiles,
    StoreFailure,
    TreeReader,
    batches,
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
    "LocalTreeReader",
    "NodeFacts",
    "NodeRules",
    "Place",
    "ReachedFiles",
    "Remains",
    "Sections",
    "StoreFailure",
    "TreeReader",
    "batches",
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
