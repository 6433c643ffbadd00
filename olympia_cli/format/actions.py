"""Actions: what a commit did to each object. The log shows them, and a rebase applies them again."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from google.protobuf.message import DecodeError, Message

from olympia_cli.errors import Damaged, InvalidName
from olympia_cli.format.definitions import CLASSES, Definition
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec
from olympia_cli.format.pb.actions_pb2 import ActionDef, ActionType, CommitInfoDef, RenameDef
from olympia_cli.format.pb.objects_pb2 import ObjectDef, ObjectType
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, as_found, checked

# Groups of action types.

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


M = TypeVar("M", bound=Message)
MessageClass = type[M]

# cached: lookups in a protobuf enumeration are slow, and each action of a log is compared with it
_NOTE = ActionType.COMMIT_INFO


@dataclass(frozen=True, slots=True)
class Reapply:
    """Repeats a change of a table's data on top of another writer's change.

    `staged_on` is the metadata location that the change was made on. `do` applies the change to another metadata
    location, and returns the new one.
    """

    staged_on: str
    do: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Action:
    """An entry of a commit's action log: type, object (None: the catalog), resulting definition, and payload.

    The definition of a drop is the dropped one. `rest` is the parsed message, which preserves unknown fields when the
    action is written again. `merged` marks an action that another commit has already done. A merged action counts for
    conflicts with later commits, but is not applied again.
    """

    type: ActionType
    name: ObjectName | None = None
    definition: bytes = b""
    payload: bytes = b""
    rest: ActionDef | None = None
    merged: bool = False
    reapply: Reapply | None = field(default=None, compare=False)

    @property
    def type_name(self) -> str:
        """The type as the log shows it. An unknown type, of a newer program, is shown as a number."""
        return ActionType.Name(self.type) if self.type in ActionType.values() else str(int(self.type))

    @property
    def kind(self) -> Kind:
        return Kind.CATALOG if self.name is None else self.name.kind

    def parse_definition(self) -> Definition | None:
        """Return the definition, or None if there is none or it cannot be parsed."""
        if not self.definition:
            return None
        try:
            return CLASSES[self.kind].FromString(self.definition)
        except DecodeError:
            return None

    def parse_payload(self, cls: MessageClass[M]) -> M:
        """Return the payload, or an empty message if there is none or it cannot be parsed."""
        try:
            return cls.FromString(self.payload)
        except DecodeError:
            return cls()

    @property
    def id(self) -> str:
        """The id of the object, or an empty string if the definition has none."""
        definition = self.parse_definition()
        return "" if definition is None else definition.id


def encode_action(action: Action, keys: KeyCodec) -> tuple[str, str]:
    """Return the action's row: the object key, and the message in base64, because the column must be valid UTF-8."""
    message = ActionDef()
    if action.rest is not None:
        message.CopyFrom(action.rest)
    message.type = action.type
    if action.name is not None or action.rest is None:
        message.object_def.type = cast(ObjectType, int(action.kind))
    setattr(message.object_def, "def", action.definition)
    if action.name is not None:
        message.object_def.namespaceName = action.name.namespace
        message.object_def.namespaceObjectName = action.name.name
    setattr(message, "def", action.payload)
    message.merged = action.merged
    key = CATALOG_DEF if action.name is None else keys.encode(action.name)
    return key, b64encode(message.SerializeToString(deterministic=True)).decode("ascii")


def decode_action(key: str, value: str, path: str) -> Action:
    """Decode the action in a row of the file `path`."""
    try:
        message = ActionDef.FromString(b64decode(value, validate=True))
        name = _name(message.object_def)
    except (binascii.Error, DecodeError, InvalidName, ValueError):
        raise Damaged("F401", path, f"its action row for {key.strip()[:60]!a} cannot be decoded") from None
    return Action(
        type=message.type,
        name=name,
        definition=getattr(message.object_def, "def"),
        payload=getattr(message, "def"),
        rest=message,
        merged=message.merged,
    )


def action_types(rows: Iterable[tuple[str, str]], path: str) -> set[ActionType]:
    """Return the types of the actions in rows of the file `path`. Each action is decoded."""
    return {decode_action(key, value, path).type for key, value in rows}


def _name(found: ObjectDef) -> ObjectName | None:
    kind: int = found.type
    if kind == Kind.NAMESPACE:
        return NamespaceName(found.namespaceName)
    if kind == Kind.TABLE:
        return TableName(found.namespaceName, found.namespaceObjectName)
    if kind == Kind.VIEW:
        return ViewName(found.namespaceName, found.namespaceObjectName)
    return None


def changes(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return the actions without the commit info."""
    return tuple(action for action in actions if action.type != _NOTE)


def commit_info(actions: tuple[Action, ...]) -> CommitInfoDef | None:
    """Return author and message of the commit, or None for commits of other programs."""
    for action in actions:
        if action.type == _NOTE:
            return action.parse_payload(CommitInfoDef)
    return None
