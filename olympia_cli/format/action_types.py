"""Groups of action types."""

from __future__ import annotations

from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType, RenameDef
from olympia_cli.names import ObjectName, as_found, checked

T = ActionType

READS = frozenset(
    {
        T.CATALOG_SNOW_NAMESPACES,
        T.NAMESPACE_EXISTS,
        T.NAMESPACE_DESCRIBE,
        T.NAMESPACE_SHOW_TABLES,
        T.NAMESPACE_SHOW_VIEWS,
        T.TABLE_EXISTS,
        T.TABLE_DESCRIBE,
        T.TABLE_SELECT,
        T.VIEW_EXISTS,
        T.VIEW_DESCRIBE,
    }
)
CREATES = frozenset({T.NAMESPACE_CREATE, T.TABLE_CREATE, T.VIEW_CREATE})
RESTORES = frozenset({T.NAMESPACE_RESTORE, T.TABLE_RESTORE, T.VIEW_RESTORE})
DROPS = frozenset({T.NAMESPACE_DROP, T.TABLE_DROP, T.VIEW_DROP})
RENAMES = frozenset({T.NAMESPACE_RENAME, T.TABLE_RENAME, T.VIEW_RENAME})
ALTERS = frozenset(
    {
        T.NAMESPACE_ALTER,
        T.NAMESPACE_ALTER_SET_PROPERTIES,
        T.NAMESPACE_ALTER_UNSET_PROPERTIES,
        T.TABLE_ALTER,
        T.TABLE_ALTER_ADD_COLUMNS,
        T.TABLE_ALTER_REMOVE_COLUMNS,
        T.TABLE_INSERT,
        T.TABLE_UPDATE,
        T.TABLE_DELETE,
        T.VIEW_ALTER,
        T.VIEW_REPLACE,
    }
)
EXPIRES = frozenset({T.CATALOG_EXPIRE_MARK, T.CATALOG_EXPIRE_UNDO, T.CATALOG_EXPIRE_PURGE})


def new_name(action: Action) -> ObjectName:
    """Return the new name in a rename action, unchecked: catalogs of the Java SDK allow names that this program
    forbids.
    """
    new = action.parse_payload(RenameDef)
    return as_found(action.kind, new.new_namespace_name, new.new_name)


def renamed(action: Action) -> ObjectName:
    """Return the new name in a rename action. Raise InvalidName if the format forbids it, so that it is never
    written.
    """
    return checked(new_name(action))
