"""Convert identifiers and errors between PyIceberg and this catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyiceberg import exceptions
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from pyiceberg.typedef import Identifier

from olympia_cli.errors import (
    CommitConflict,
    CommitUnknown,
    IcebergMissing,
    InvalidName,
    InvalidOption,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    OlympiaError,
    OutcomeUnknown,
    PathMissing,
    StorageDenied,
    StorageFailed,
    TableExists,
    TableNotFound,
    ViewExists,
    ViewNotFound,
)
from olympia_cli.names import NamespaceName, TableName, ViewName

if TYPE_CHECKING:
    pass

# Convert Iceberg's identifiers to names of this catalog, which has one level of namespaces.
#
# A string is split at dots, as in PyIceberg. A tuple is literal: `("a.b", "t")` is the table `t` in the namespace
# `a.b`.

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


# Translate errors between this catalog and PyIceberg.
#
# A conflict and an unknown outcome differ: after a conflict, PyIceberg may delete the files it wrote; after an unknown
# outcome, it must not. Errors of the store, and damage, are not translated.

# PyIceberg 0.9 has no views, and not this error
ViewAlreadyExistsError: type[Exception] = getattr(exceptions, "ViewAlreadyExistsError", TableAlreadyExistsError)

_SAME: dict[type[OlympiaError], type[Exception]] = {
    CommitConflict: CommitFailedException,
    CommitUnknown: CommitStateUnknownException,
    OutcomeUnknown: CommitStateUnknownException,
    InvalidName: ValueError,
    InvalidOption: ValueError,
}

_SDKS = ("botocore", "aiobotocore", "aiohttp", "gcsfs", "google")


@contextmanager
def translated(name: NamespaceName | TableName | ViewName | None = None) -> Iterator[None]:
    """Raise PyIceberg's error instead of ours. `name` is the object of the request."""
    try:
        yield
    except OlympiaError as error:
        told = _about(error, name)
        if told is None:
            raise
        raise told from error


def _about(error: OlympiaError, name: NamespaceName | TableName | ViewName | None) -> Exception | None:
    shown = "" if name is None else dotted(name)
    namespace = "" if name is None else name.namespace
    match error:
        case NamespaceNotFound():
            return NoSuchNamespaceError(f"Namespace {namespace} does not exists: {error.message}")
        case NamespaceExists():
            return NamespaceAlreadyExistsError(f"Namespace {namespace} already exists")
        case NamespaceNotEmpty():
            return NamespaceNotEmptyError(f"Namespace {namespace} is not empty: drop its tables and views first")
        case TableNotFound():
            return NoSuchTableError(f"Table does not exist: {shown}")
        case TableExists():
            return TableAlreadyExistsError(f"Table {shown} already exists")
        case ViewNotFound():
            return NoSuchViewError(f"View does not exist: {shown}")
        case ViewExists():
            return ViewAlreadyExistsError(f"View {shown} already exists")
    same = next((theirs for ours, theirs in _SAME.items() if isinstance(error, ours)), None)
    return None if same is None else same(str(error))


@contextmanager
def told_as_ours() -> Iterator[None]:
    """Raise our error instead of PyIceberg's, for code of ours that works through PyIceberg."""
    try:
        yield
    except CommitStateUnknownException as error:
        # the message names the files that were kept
        raise CommitUnknown(_line(error), hint="check the log before repeating it") from error
    except OlympiaError:
        raise
    except Exception as error:
        ours = error.__cause__ if isinstance(error.__cause__, OlympiaError) else _ours(error)
        if ours is None:
            raise
        raise ours from error


def _ours(error: Exception) -> OlympiaError | None:
    text = _line(error)
    match error:
        case CommitFailedException():
            return CommitConflict(text)
        case NoSuchTableError():
            return TableNotFound(text, hint="list the tables to see what there is")
        case NoSuchNamespaceError():
            return NamespaceNotFound(text, hint="list the namespaces to see what there is")
        case TableAlreadyExistsError():
            return TableExists(text, hint="choose another name, or alter what is there")
        case exceptions.NotInstalledError():
            return IcebergMissing(text)
        case FileNotFoundError():
            named = re.search("'([^']+)'", text)
            what = f"a file of the table is missing: {named[1] if named else text}"
            return PathMissing(what, hint="check the data of tables", command=("fsck", "--level", "data"))
        case PermissionError():
            return StorageDenied(text)
        case OSError():
            return StorageFailed(text)
        case ValueError() | NotImplementedError() | exceptions.ValidationError():
            return InvalidOption(text, hint="")
    # the SDKs' errors for broken connections are not OSErrors
    return StorageFailed(text) if type(error).__module__.partition(".")[0] in _SDKS else None


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
