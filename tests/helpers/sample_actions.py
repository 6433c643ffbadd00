"""Actions of every type, in the variants that the conflict rules tell apart. Names are short, for tables."""

from __future__ import annotations

from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import (
    ActionType as T,
)
from olympia_cli.format.pb.actions_pb2 import (
    AlterDef,
    ExportDef,
    NamespaceDropDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RenameDef,
)
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef, ViewDef
from olympia_cli.names import NamespaceName, TableName, ViewName

A = NamespaceName("a")
T1 = TableName("a", "t")
V1 = ViewName("a", "v")
DEFINITIONS = {NamespaceName: NamespaceDef, TableName: TableDef, ViewName: ViewDef}


def action(type, name=None, payload=None, id="1"):
    definition = b"" if name is None else definitions.body(DEFINITIONS[name.__class__](id=id))
    return Action(type, name, definition, b"" if payload is None else payload.SerializeToString())


def rename(type, old, namespace, name=""):
    return action(type, old, RenameDef(new_namespace_name=namespace, new_name=name))


SAMPLES: dict[str, Action] = {
    # writes of namespace a
    "ns create a": action(T.NAMESPACE_CREATE, A, id="new"),
    "ns restore a": action(T.NAMESPACE_RESTORE, A),
    "ns set p": action(T.NAMESPACE_ALTER_SET_PROPERTIES, A, NamespaceSetPropertiesDef(keys=["p"])),
    "ns unset p": action(T.NAMESPACE_ALTER_UNSET_PROPERTIES, A, NamespaceUnsetPropertiesDef(keys=["p"])),
    "ns set q": action(T.NAMESPACE_ALTER_SET_PROPERTIES, A, NamespaceSetPropertiesDef(keys=["q"])),
    "ns alter": action(T.NAMESPACE_ALTER, A),
    "ns drop": action(T.NAMESPACE_DROP, A),
    "ns drop cascade": action(T.NAMESPACE_DROP, A, NamespaceDropDef(cascade=True)),
    "ns rename a z": rename(T.NAMESPACE_RENAME, A, "z"),
    "ns rename y a": rename(T.NAMESPACE_RENAME, NamespaceName("y"), "a"),
    # writes of table a.t
    "table create": action(T.TABLE_CREATE, T1, id="new"),
    "table restore": action(T.TABLE_RESTORE, T1),
    "table set p": action(T.TABLE_ALTER, T1, AlterDef(set_properties=["p"])),
    "table unset q": action(T.TABLE_ALTER, T1, AlterDef(unset_properties=["q"])),
    "table relocate": action(T.TABLE_ALTER, T1, AlterDef(fields=["iceberg_metadata_location"])),
    "table alter": action(T.TABLE_ALTER, T1),
    "table add cols": action(T.TABLE_ALTER_ADD_COLUMNS, T1, AlterDef(fields=["iceberg_metadata_location"])),
    "table rm cols": action(T.TABLE_ALTER_REMOVE_COLUMNS, T1, AlterDef(fields=["iceberg_metadata_location"])),
    "table insert": action(T.TABLE_INSERT, T1, AlterDef(fields=["iceberg_metadata_location"])),
    "table update": action(T.TABLE_UPDATE, T1, AlterDef(fields=["iceberg_metadata_location"])),
    "table delete": action(T.TABLE_DELETE, T1, AlterDef(fields=["iceberg_metadata_location"])),
    "table drop": action(T.TABLE_DROP, T1),
    "table rename in a": rename(T.TABLE_RENAME, T1, "a", "s"),
    "table rename out": rename(T.TABLE_RENAME, T1, "b", "t"),
    "table rename into": rename(T.TABLE_RENAME, TableName("b", "u"), "a", "u"),
    # writes of view a.v
    "view create": action(T.VIEW_CREATE, V1, id="new"),
    "view restore": action(T.VIEW_RESTORE, V1),
    "view set p": action(T.VIEW_ALTER, V1, AlterDef(set_properties=["p"])),
    "view replace": action(T.VIEW_REPLACE, V1),
    "view drop": action(T.VIEW_DROP, V1),
    "view rename": rename(T.VIEW_RENAME, V1, "a", "w"),
    # elsewhere
    "table create b.x": action(T.TABLE_CREATE, TableName("b", "x"), id="other"),
    "table same id": action(T.TABLE_CREATE, TableName("b", "y"), id="new"),
    "ns create c": action(T.NAMESPACE_CREATE, NamespaceName("c"), id="other"),
    # the catalog
    "catalog create": action(T.CATALOG_CREATE),
    "catalog set p": action(T.CATALOG_ALTER, None, AlterDef(set_properties=["p"])),
    "catalog set q": action(T.CATALOG_ALTER, None, AlterDef(set_properties=["q"])),
    "catalog alter": action(T.CATALOG_ALTER),
    "export e": action(T.CATALOG_EXPORT, None, ExportDef(name="e")),
    "export f": action(T.CATALOG_EXPORT, None, ExportDef(name="f")),
    "rollback": action(T.CATALOG_ROLLBACK),
    "repair": action(T.CATALOG_REPAIR),
    "compact": action(T.CATALOG_COMPACT),
    "expire mark": action(T.CATALOG_EXPIRE_MARK),
    "expire undo": action(T.CATALOG_EXPIRE_UNDO),
    "expire purge": action(T.CATALOG_EXPIRE_PURGE),
    "commit info": action(T.COMMIT_INFO),
    # of a newer program
    "unknown of a.t": action(5000, T1),
    "unknown of a": action(5000, A),
    "unknown of all": action(5000),
    # reads
    "show namespaces": Action(T.CATALOG_SNOW_NAMESPACES),
    "ns exists": Action(T.NAMESPACE_EXISTS, A),
    "ns describe": Action(T.NAMESPACE_DESCRIBE, A),
    "show tables": Action(T.NAMESPACE_SHOW_TABLES, A),
    "show views": Action(T.NAMESPACE_SHOW_VIEWS, A),
    "table exists": Action(T.TABLE_EXISTS, T1),
    "table describe": Action(T.TABLE_DESCRIBE, T1),
    "table select": Action(T.TABLE_SELECT, T1),
    "view exists": Action(T.VIEW_EXISTS, V1),
    "view describe": Action(T.VIEW_DESCRIBE, V1),
}
