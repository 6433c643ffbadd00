"""Convert Iceberg's identifiers to names of this catalog, which has one level of namespaces.

A string is split at dots, as in PyIceberg. A tuple is literal: `("a.b", "t")` is the table `t` in the namespace `a.b`.
"""

from __future__ import annotations

from typing import TypeVar

from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.typedef import Identifier

from olympia_cli.errors import InvalidName
from olympia_cli.names import NamespaceName, TableName, ViewName

N = TypeVar("N", TableName, ViewName)

Missing = type[Exception]
"""The error for an invalid identifier: ValueError if the object is to be created, else PyIceberg's not-found error."""


def namespace_name(identifier: str | Identifier, error: Missing = ValueError) -> NamespaceName:
    """Return the namespace. Raise `error` if it has several levels or its name is not legal."""
    parts = _parts(identifier)
    if not "".join(parts).strip():
        raise NoSuchNamespaceError("Empty namespace identifier")
    return NamespaceName(_namespace(parts, error))


def table_name(identifier: str | Identifier, error: Missing = ValueError) -> TableName:
    """Return the table. Raise `error` if its namespace has several levels or a name is not legal."""
    return _object(TableName, identifier, error)


def view_name(identifier: str | Identifier, error: Missing = ValueError) -> ViewName:
    """Return the view. Raise `error` if its namespace has several levels or a name is not legal."""
    return _object(ViewName, identifier, error)


def identifier_of(name: NamespaceName | TableName | ViewName) -> Identifier:
    return (name.namespace, name.name) if name.name else (name.namespace,)


def dotted(name: NamespaceName | TableName | ViewName) -> str:
    """Return the name as PyIceberg shows it in messages."""
    return ".".join(identifier_of(name))


def _parts(identifier: str | Identifier) -> Identifier:
    return tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)


def _object(kind: type[N], identifier: str | Identifier, error: Missing) -> N:
    parts = _parts(identifier)
    if len(parts) < 2:
        raise NoSuchNamespaceError(f"Missing namespace or invalid identifier: {'.'.join(parts)}")
    namespace = _namespace(parts[:-1], error)
    try:
        return kind(namespace, parts[-1])
    except InvalidName as invalid:
        raise error(str(invalid)) from None


def _namespace(parts: Identifier, error: Missing) -> str:
    if len(parts) != 1:
        raise error(
            f"Namespaces have one level in this catalog, and {'.'.join(parts)} has {len(parts)}: "
            "for a name with a dot in it give a tuple"
        )
    try:
        return NamespaceName(parts[0]).namespace
    except InvalidName as invalid:
        raise error(str(invalid)) from None
