"""Errors on their way between this catalog and PyIceberg: each keeps its meaning."""

from __future__ import annotations

import pytest
from aiohttp import ServerDisconnectedError
from botocore.exceptions import EndpointConnectionError
from gcsfs.retry import HttpError
from pyiceberg import exceptions as theirs

from olympia_cli import errors as ours
from olympia_cli.iceberg.conversion import ViewAlreadyExistsError, told_as_ours, translated
from olympia_cli.names import TableName

NAME = TableName("ns", "t")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ours.NamespaceNotFound("x"), theirs.NoSuchNamespaceError),
        (ours.NamespaceExists("x"), theirs.NamespaceAlreadyExistsError),
        (ours.NamespaceNotEmpty("x"), theirs.NamespaceNotEmptyError),
        (ours.TableNotFound("x"), theirs.NoSuchTableError),
        (ours.TableExists("x"), theirs.TableAlreadyExistsError),
        (ours.ViewNotFound("x"), theirs.NoSuchViewError),
        (ours.ViewExists("x"), ViewAlreadyExistsError),
        (ours.CommitConflict("x"), theirs.CommitFailedException),
        (ours.CommitUnknown("x"), theirs.CommitStateUnknownException),
        (ours.OutcomeUnknown("x"), theirs.CommitStateUnknownException),
        (ours.InvalidName("x"), ValueError),
        (ours.InvalidOption("x"), ValueError),
        # not about names or other writers: as it is
        (ours.StorageFailed("x"), ours.StorageFailed),
        (ours.StorageDenied("x"), ours.StorageDenied),
        (ours.Damaged("F201", "p", "x"), ours.Damaged),
    ],
    ids=lambda value: type(value).__name__,
)
def test_ours_become_theirs_and_ours_again(error: ours.OlympiaError, expected: type[Exception]) -> None:
    with pytest.raises(expected), translated(NAME):
        raise error
    unknown = isinstance(error, ours.CommitUnknown | ours.OutcomeUnknown)
    with pytest.raises(ours.CommitUnknown if unknown else type(error)), told_as_ours(), translated(NAME):
        raise error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (theirs.CommitFailedException("Requirement failed"), 20),
        (theirs.CommitStateUnknownException("lost; if the log does not have it, nothing needs these files: /m"), 21),
        (theirs.NoSuchTableError("x"), 10),
        (theirs.NoSuchNamespaceError("x"), 10),
        (theirs.TableAlreadyExistsError("x"), 11),
        (theirs.NotInstalledError("x"), 2),
        (theirs.ValidationError("x"), 2),
        (ValueError("several\nlines"), 2),
        (NotImplementedError(), 2),
        (FileNotFoundError("x"), 10),
        (PermissionError("x"), 31),
        (OSError("x"), 30),
        # of SDKs, for connections that break
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), 30),
        (ServerDisconnectedError(), 30),
        (HttpError({"code": 502}), 30),
    ],
    ids=lambda value: type(value).__name__,
)
def test_their_own_errors_have_exit_codes(error: Exception, code: int) -> None:
    with pytest.raises(ours.OlympiaError) as told, told_as_ours():
        raise error
    assert told.value.exit_code == code
    said = " ".join(str(error).split()) or type(error).__name__
    missing = "a file of the table is missing: " if isinstance(error, FileNotFoundError) else ""
    assert told.value.message == missing + said


def test_a_mistake_of_ours_stays_one() -> None:
    with pytest.raises(KeyError), told_as_ours():
        raise KeyError("x")
