"""Translate errors between this catalog and PyIceberg.

A conflict and an unknown outcome differ: after a conflict, PyIceberg may delete the files it wrote; after an unknown
outcome, it must not. Errors of the store, and damage, are not translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

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
from olympia_cli.iceberg.identifiers import dotted
from olympia_cli.names import NamespaceName, TableName, ViewName

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
