"""Read-only views of a catalog: log, differences, histories, node files, tree shape and status.

Names in `__all__` are loaded on first access, as most commands need only one view.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.ops.inspect.actions import describe_action, describe_actions
    from olympia_cli.ops.inspect.changes import (
        LogEntry,
        ObjectChange,
        alter_payload,
        changed_fields,
        changes_of,
        diff,
        follow,
        last_changes,
        log,
        log_between,
    )
    from olympia_cli.ops.inspect.describe import describe_name, describe_object, describe_properties, isolation_word
    from olympia_cli.ops.inspect.health import (
        SHOW_CLOCK,
        Reason,
        Standing,
        Status,
        fsck_due,
        prometheus,
        standing_of,
        status,
    )
    from olympia_cli.ops.inspect.node_dump import KeyTarget, NodeDump, PivotRow, compact_key, dump_node, read_target
    from olympia_cli.ops.inspect.node_target import NodeBytes, find_root
    from olympia_cli.ops.inspect.revisions import history
    from olympia_cli.ops.inspect.shape import Shape, TreeNode, Way, follow_key, tree_shape
    from olympia_cli.ops.inspect.transactions import count_staged, describe_saved, list_transactions, show_transaction

__all__ = [
    "SHOW_CLOCK",
    "KeyTarget",
    "LogEntry",
    "NodeBytes",
    "NodeDump",
    "ObjectChange",
    "PivotRow",
    "Reason",
    "Shape",
    "Standing",
    "Status",
    "TreeNode",
    "Way",
    "alter_payload",
    "changed_fields",
    "changes_of",
    "compact_key",
    "count_staged",
    "describe_action",
    "describe_actions",
    "describe_name",
    "describe_object",
    "describe_properties",
    "describe_saved",
    "diff",
    "dump_node",
    "find_root",
    "follow",
    "follow_key",
    "fsck_due",
    "history",
    "isolation_word",
    "last_changes",
    "list_transactions",
    "log",
    "log_between",
    "prometheus",
    "read_target",
    "show_transaction",
    "standing_of",
    "status",
    "tree_shape",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
