from olympia_cli.format.pb import objects_pb2 as _objects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ActionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CATALOG_SNOW_NAMESPACES: _ClassVar[ActionType]
    NAMESPACE_EXISTS: _ClassVar[ActionType]
    NAMESPACE_DESCRIBE: _ClassVar[ActionType]
    NAMESPACE_CREATE: _ClassVar[ActionType]
    NAMESPACE_ALTER: _ClassVar[ActionType]
    NAMESPACE_ALTER_SET_PROPERTIES: _ClassVar[ActionType]
    NAMESPACE_ALTER_UNSET_PROPERTIES: _ClassVar[ActionType]
    NAMESPACE_DROP: _ClassVar[ActionType]
    NAMESPACE_SHOW_TABLES: _ClassVar[ActionType]
    NAMESPACE_SHOW_VIEWS: _ClassVar[ActionType]
    TABLE_EXISTS: _ClassVar[ActionType]
    TABLE_DESCRIBE: _ClassVar[ActionType]
    TABLE_SELECT: _ClassVar[ActionType]
    TABLE_CREATE: _ClassVar[ActionType]
    TABLE_ALTER: _ClassVar[ActionType]
    TABLE_ALTER_ADD_COLUMNS: _ClassVar[ActionType]
    TABLE_ALTER_REMOVE_COLUMNS: _ClassVar[ActionType]
    TABLE_INSERT: _ClassVar[ActionType]
    TABLE_UPDATE: _ClassVar[ActionType]
    TABLE_DELETE: _ClassVar[ActionType]
    TABLE_DROP: _ClassVar[ActionType]
    VIEW_EXISTS: _ClassVar[ActionType]
    VIEW_DESCRIBE: _ClassVar[ActionType]
    VIEW_CREATE: _ClassVar[ActionType]
    VIEW_REPLACE: _ClassVar[ActionType]
    VIEW_DROP: _ClassVar[ActionType]
    CATALOG_CREATE: _ClassVar[ActionType]
    CATALOG_ALTER: _ClassVar[ActionType]
    CATALOG_ROLLBACK: _ClassVar[ActionType]
    CATALOG_EXPORT: _ClassVar[ActionType]
    CATALOG_COMPACT: _ClassVar[ActionType]
    CATALOG_REPAIR: _ClassVar[ActionType]
    COMMIT_INFO: _ClassVar[ActionType]
    NAMESPACE_RENAME: _ClassVar[ActionType]
    TABLE_RENAME: _ClassVar[ActionType]
    TABLE_RESTORE: _ClassVar[ActionType]
    VIEW_RENAME: _ClassVar[ActionType]
    CATALOG_EXPIRE_MARK: _ClassVar[ActionType]
    CATALOG_EXPIRE_UNDO: _ClassVar[ActionType]
    CATALOG_EXPIRE_PURGE: _ClassVar[ActionType]
    VIEW_ALTER: _ClassVar[ActionType]
    VIEW_RESTORE: _ClassVar[ActionType]
    NAMESPACE_RESTORE: _ClassVar[ActionType]
CATALOG_SNOW_NAMESPACES: ActionType
NAMESPACE_EXISTS: ActionType
NAMESPACE_DESCRIBE: ActionType
NAMESPACE_CREATE: ActionType
NAMESPACE_ALTER: ActionType
NAMESPACE_ALTER_SET_PROPERTIES: ActionType
NAMESPACE_ALTER_UNSET_PROPERTIES: ActionType
NAMESPACE_DROP: ActionType
NAMESPACE_SHOW_TABLES: ActionType
NAMESPACE_SHOW_VIEWS: ActionType
TABLE_EXISTS: ActionType
TABLE_DESCRIBE: ActionType
TABLE_SELECT: ActionType
TABLE_CREATE: ActionType
TABLE_ALTER: ActionType
TABLE_ALTER_ADD_COLUMNS: ActionType
TABLE_ALTER_REMOVE_COLUMNS: ActionType
TABLE_INSERT: ActionType
TABLE_UPDATE: ActionType
TABLE_DELETE: ActionType
TABLE_DROP: ActionType
VIEW_EXISTS: ActionType
VIEW_DESCRIBE: ActionType
VIEW_CREATE: ActionType
VIEW_REPLACE: ActionType
VIEW_DROP: ActionType
CATALOG_CREATE: ActionType
CATALOG_ALTER: ActionType
CATALOG_ROLLBACK: ActionType
CATALOG_EXPORT: ActionType
CATALOG_COMPACT: ActionType
CATALOG_REPAIR: ActionType
COMMIT_INFO: ActionType
NAMESPACE_RENAME: ActionType
TABLE_RENAME: ActionType
TABLE_RESTORE: ActionType
VIEW_RENAME: ActionType
CATALOG_EXPIRE_MARK: ActionType
CATALOG_EXPIRE_UNDO: ActionType
CATALOG_EXPIRE_PURGE: ActionType
VIEW_ALTER: ActionType
VIEW_RESTORE: ActionType
NAMESPACE_RESTORE: ActionType

class ActionDef(_message.Message):
    __slots__ = ("object_def", "type", "merged")
    OBJECT_DEF_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEF_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    object_def: _objects_pb2.ObjectDef
    type: ActionType
    merged: bool
    def __init__(self, object_def: _Optional[_Union[_objects_pb2.ObjectDef, _Mapping]] = ..., type: _Optional[_Union[ActionType, str]] = ..., merged: _Optional[bool] = ..., **kwargs) -> None: ...

class NamespaceSetPropertiesDef(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class NamespaceUnsetPropertiesDef(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Iterable[str]] = ...) -> None: ...

class TableAlterAddColumnsDef(_message.Message):
    __slots__ = ("column_names",)
    COLUMN_NAMES_FIELD_NUMBER: _ClassVar[int]
    column_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, column_names: _Optional[_Iterable[str]] = ...) -> None: ...

class TableAlterRemoveColumnsDef(_message.Message):
    __slots__ = ("column_names",)
    COLUMN_NAMES_FIELD_NUMBER: _ClassVar[int]
    column_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, column_names: _Optional[_Iterable[str]] = ...) -> None: ...

class TableInsertDef(_message.Message):
    __slots__ = ("iceberg_data_files_json", "selects")
    ICEBERG_DATA_FILES_JSON_FIELD_NUMBER: _ClassVar[int]
    SELECTS_FIELD_NUMBER: _ClassVar[int]
    iceberg_data_files_json: _containers.RepeatedScalarFieldContainer[str]
    selects: _containers.RepeatedCompositeFieldContainer[TableSelectContext]
    def __init__(self, iceberg_data_files_json: _Optional[_Iterable[str]] = ..., selects: _Optional[_Iterable[_Union[TableSelectContext, _Mapping]]] = ...) -> None: ...

class TableUpdateDef(_message.Message):
    __slots__ = ("iceberg_added_data_files_json", "iceberg_removed_data_files_json", "iceberg_expression_json", "selects")
    ICEBERG_ADDED_DATA_FILES_JSON_FIELD_NUMBER: _ClassVar[int]
    ICEBERG_REMOVED_DATA_FILES_JSON_FIELD_NUMBER: _ClassVar[int]
    ICEBERG_EXPRESSION_JSON_FIELD_NUMBER: _ClassVar[int]
    SELECTS_FIELD_NUMBER: _ClassVar[int]
    iceberg_added_data_files_json: _containers.RepeatedScalarFieldContainer[str]
    iceberg_removed_data_files_json: _containers.RepeatedScalarFieldContainer[str]
    iceberg_expression_json: str
    selects: _containers.RepeatedCompositeFieldContainer[TableSelectContext]
    def __init__(self, iceberg_added_data_files_json: _Optional[_Iterable[str]] = ..., iceberg_removed_data_files_json: _Optional[_Iterable[str]] = ..., iceberg_expression_json: _Optional[str] = ..., selects: _Optional[_Iterable[_Union[TableSelectContext, _Mapping]]] = ...) -> None: ...

class TableDeleteDef(_message.Message):
    __slots__ = ("iceberg_data_files_json", "selects")
    ICEBERG_DATA_FILES_JSON_FIELD_NUMBER: _ClassVar[int]
    SELECTS_FIELD_NUMBER: _ClassVar[int]
    iceberg_data_files_json: _containers.RepeatedScalarFieldContainer[str]
    selects: _containers.RepeatedCompositeFieldContainer[TableSelectContext]
    def __init__(self, iceberg_data_files_json: _Optional[_Iterable[str]] = ..., selects: _Optional[_Iterable[_Union[TableSelectContext, _Mapping]]] = ...) -> None: ...

class TableSelectDef(_message.Message):
    __slots__ = ("column_names", "iceberg_expression_json")
    COLUMN_NAMES_FIELD_NUMBER: _ClassVar[int]
    ICEBERG_EXPRESSION_JSON_FIELD_NUMBER: _ClassVar[int]
    column_names: _containers.RepeatedScalarFieldContainer[str]
    iceberg_expression_json: str
    def __init__(self, column_names: _Optional[_Iterable[str]] = ..., iceberg_expression_json: _Optional[str] = ...) -> None: ...

class TableSelectContext(_message.Message):
    __slots__ = ("namespaceName", "tableName", "select_context")
    NAMESPACENAME_FIELD_NUMBER: _ClassVar[int]
    TABLENAME_FIELD_NUMBER: _ClassVar[int]
    SELECT_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    namespaceName: str
    tableName: str
    select_context: TableSelectDef
    def __init__(self, namespaceName: _Optional[str] = ..., tableName: _Optional[str] = ..., select_context: _Optional[_Union[TableSelectDef, _Mapping]] = ...) -> None: ...

class AlterDef(_message.Message):
    __slots__ = ("set_properties", "unset_properties", "fields", "expected_metadata_location", "unnamed_files", "renamed_columns")
    SET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    UNSET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_METADATA_LOCATION_FIELD_NUMBER: _ClassVar[int]
    UNNAMED_FILES_FIELD_NUMBER: _ClassVar[int]
    RENAMED_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    set_properties: _containers.RepeatedScalarFieldContainer[str]
    unset_properties: _containers.RepeatedScalarFieldContainer[str]
    fields: _containers.RepeatedScalarFieldContainer[str]
    expected_metadata_location: str
    unnamed_files: int
    renamed_columns: _containers.RepeatedCompositeFieldContainer[RenamedColumn]
    def __init__(self, set_properties: _Optional[_Iterable[str]] = ..., unset_properties: _Optional[_Iterable[str]] = ..., fields: _Optional[_Iterable[str]] = ..., expected_metadata_location: _Optional[str] = ..., unnamed_files: _Optional[int] = ..., renamed_columns: _Optional[_Iterable[_Union[RenamedColumn, _Mapping]]] = ...) -> None: ...

class RenamedColumn(_message.Message):
    __slots__ = ("from_name", "to_name")
    FROM_NAME_FIELD_NUMBER: _ClassVar[int]
    TO_NAME_FIELD_NUMBER: _ClassVar[int]
    from_name: str
    to_name: str
    def __init__(self, from_name: _Optional[str] = ..., to_name: _Optional[str] = ...) -> None: ...

class RenameDef(_message.Message):
    __slots__ = ("new_namespace_name", "new_name")
    NEW_NAMESPACE_NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    new_namespace_name: str
    new_name: str
    def __init__(self, new_namespace_name: _Optional[str] = ..., new_name: _Optional[str] = ...) -> None: ...

class NamespaceDropDef(_message.Message):
    __slots__ = ("cascade",)
    CASCADE_FIELD_NUMBER: _ClassVar[int]
    cascade: bool
    def __init__(self, cascade: _Optional[bool] = ...) -> None: ...

class CommitInfoDef(_message.Message):
    __slots__ = ("transaction_id", "by", "program", "program_version", "message", "began_at_version", "reverts")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_VERSION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_VERSION_FIELD_NUMBER: _ClassVar[int]
    REVERTS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    by: str
    program: str
    program_version: str
    message: str
    began_at_version: int
    reverts: _containers.RepeatedCompositeFieldContainer[VersionRange]
    def __init__(self, transaction_id: _Optional[str] = ..., by: _Optional[str] = ..., program: _Optional[str] = ..., program_version: _Optional[str] = ..., message: _Optional[str] = ..., began_at_version: _Optional[int] = ..., reverts: _Optional[_Iterable[_Union[VersionRange, _Mapping]]] = ...) -> None: ...

class VersionRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class RollbackDef(_message.Message):
    __slots__ = ("from_version", "to_version")
    FROM_VERSION_FIELD_NUMBER: _ClassVar[int]
    TO_VERSION_FIELD_NUMBER: _ClassVar[int]
    from_version: int
    to_version: int
    def __init__(self, from_version: _Optional[int] = ..., to_version: _Optional[int] = ...) -> None: ...

class RestoreDef(_message.Message):
    __slots__ = ("from_version", "replaces")
    FROM_VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    from_version: int
    replaces: bool
    def __init__(self, from_version: _Optional[int] = ..., replaces: _Optional[bool] = ...) -> None: ...

class ExportDef(_message.Message):
    __slots__ = ("name", "location", "mode", "version", "dropped", "expires_at_millis", "pin")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    location: str
    mode: str
    version: int
    dropped: bool
    expires_at_millis: int
    pin: str
    def __init__(self, name: _Optional[str] = ..., location: _Optional[str] = ..., mode: _Optional[str] = ..., version: _Optional[int] = ..., dropped: _Optional[bool] = ..., expires_at_millis: _Optional[int] = ..., pin: _Optional[str] = ...) -> None: ...

class ExpireDef(_message.Message):
    __slots__ = ("oldest", "former_oldest", "manifest", "purged", "manifests", "unfinished")
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    FORMER_OLDEST_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    oldest: int
    former_oldest: int
    manifest: str
    purged: int
    manifests: _containers.RepeatedScalarFieldContainer[str]
    unfinished: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, oldest: _Optional[int] = ..., former_oldest: _Optional[int] = ..., manifest: _Optional[str] = ..., purged: _Optional[int] = ..., manifests: _Optional[_Iterable[str]] = ..., unfinished: _Optional[_Iterable[str]] = ...) -> None: ...

class CompactDef(_message.Message):
    __slots__ = ("fill_percent",)
    FILL_PERCENT_FIELD_NUMBER: _ClassVar[int]
    fill_percent: int
    def __init__(self, fill_percent: _Optional[int] = ...) -> None: ...

class RepairDef(_message.Message):
    __slots__ = ("description", "lost_keys", "named_latest", "source", "source_version", "source_root", "answers")
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    LOST_KEYS_FIELD_NUMBER: _ClassVar[int]
    NAMED_LATEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ROOT_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    description: str
    lost_keys: _containers.RepeatedScalarFieldContainer[str]
    named_latest: int
    source: str
    source_version: int
    source_root: str
    answers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, description: _Optional[str] = ..., lost_keys: _Optional[_Iterable[str]] = ..., named_latest: _Optional[int] = ..., source: _Optional[str] = ..., source_version: _Optional[int] = ..., source_root: _Optional[str] = ..., answers: _Optional[_Iterable[str]] = ...) -> None: ...
