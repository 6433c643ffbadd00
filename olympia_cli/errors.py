"""All errors that the program raises on purpose, each with its meaning, exit code and advice.

The message says what happened, the advice says what to do next. The attribute with the advice is called `hint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from olympia_cli.masking import MARKS, masked


class OlympiaError(Exception):
    """Base class of all errors of the program. Never raised itself."""

    exit_code = 1
    default_hint = ""

    def __init__(self, message: str, *, hint: str | None = None, command: Sequence[str] = ()) -> None:
        """Create an error. `command` holds the words of the command that the advice recommends; see `command_words`."""
        self.message = message if MARKS.isdisjoint(message) else masked(message)
        super().__init__(self.message)
        self.advice = self.default_hint if hint is None else hint
        self.command = tuple(command)
        self.program: tuple[str, ...] = ("olympia",)
        """First words of an advised command. The command line adds the options that locate the catalog."""

    @property
    def hint(self) -> str:
        """Return the advice. A command in it can be pasted into a shell."""
        if not self.command:
            return masked(self.advice)
        import shlex

        return f"{masked(self.advice)}: {shlex.join((*self.program, *map(masked, self.command)))}"

    @property
    def name(self) -> str:
        """The name of the error class, which scripts may match on."""
        return type(self).__name__

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


def command_words(*words: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words of a command, followed by names as arguments.

    Insert `--` before the names if one begins with a dash, so that it is not parsed as an option.
    """
    return (*words, *(["--"] if any(name.startswith("-") for name in names) else []), *names)


def quoted(text: str, most: int = 60) -> str:
    """Return user input in quotes, with secrets masked and unprintable characters escaped, in at most `most`
    characters.
    """
    text = masked(text)  # mask before cutting: the end of a URI shows where its password ends
    shown = text if len(text) <= most else text[: most - 3] + "..."
    return "'" + "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown) + "'"


# 2: usage


class InvalidUsage(OlympiaError):
    """Base class of the errors for wrong input, or for a part of the program that is not installed."""

    exit_code = 2


class InvalidName(InvalidUsage):
    """A namespace, table or view name that the format does not allow, or that is too long for this catalog."""


class InvalidReference(InvalidUsage):
    """A version reference that cannot be parsed."""

    default_hint = (
        "use a version (12), latest, latest~3, oldest, a time, yesterday, a duration ago (2h) or an export's name"
    )


class InvalidOption(InvalidUsage):
    """An option whose value is invalid for the operation."""


class InvalidLine(InvalidUsage):
    """A line of input that is not a valid action."""


class InvalidLocation(InvalidUsage):
    """A catalog location that cannot be parsed."""


class SparkMissing(InvalidUsage):
    """Spark was requested, but PySpark or Java is not installed."""

    default_hint = "install olympia-cli[spark], and Java 17 or 21"


class IcebergMissing(InvalidUsage):
    """The operation needs PyIceberg to read rows or columns of a table, and PyIceberg is not installed."""

    default_hint = "install olympia-cli[iceberg]"


class ServerMissing(InvalidUsage):
    """The server's dependencies are not installed."""

    default_hint = "install olympia-cli[serve]"


class ExecutorUnprepared(InvalidUsage):
    """Spark's executors lack a required Python package, or see other files at the location than the driver."""


# 3: partly done


class PartlyDone(OlympiaError):
    """Part of the operation succeeded. Running it again continues with the rest."""

    exit_code = 3


# 10: not found


class NotFound(OlympiaError):
    """Base class of the errors for something that does not exist."""

    exit_code = 10


class CatalogNotFound(NotFound):
    """There is no catalog at the location."""


class ObjectNotFound(NotFound):
    """Base class of the errors for a missing namespace, table or view."""

    version: int | None = None
    """The version that was searched."""
    missing: tuple[str, str] = ("", "")
    """The namespace and the name that are missing. The name is empty for a namespace."""


class NamespaceNotFound(ObjectNotFound):
    """The namespace does not exist in this version."""

    for_new = False
    """True if a command was about to create an object in the namespace."""


class TableNotFound(ObjectNotFound):
    """The table does not exist in this version."""


class ViewNotFound(ObjectNotFound):
    """The view does not exist in this version."""


class VersionNotFound(NotFound):
    """The version does not exist yet, or no longer exists."""


class ExportNotFound(NotFound):
    """No export with this name is recorded."""


class TransactionNotFound(NotFound):
    """No distributed transaction with this id exists."""


class PathMissing(NotFound):
    """A requested file does not exist in the store."""

    is_dangling = False
    """True if the path is a dangling symbolic link."""


# 11: exists


class AlreadyExists(OlympiaError):
    """Base class of the errors for something that exists already, or is not empty."""

    exit_code = 11


class ObjectExists(AlreadyExists):
    """Base class of the errors for an existing namespace, table or view."""


class CatalogExists(AlreadyExists):
    """A catalog already exists at the location."""


class LocationNotEmpty(AlreadyExists):
    """The location holds files that do not belong to a catalog."""

    default_hint = "choose an empty folder or prefix"


class NamespaceExists(ObjectExists):
    """The namespace already exists."""


class NamespaceNotEmpty(AlreadyExists):
    """The namespace still holds tables or views."""

    default_hint = "drop its tables and views first, or use --cascade"


class TableExists(ObjectExists):
    """The table already exists."""


class ViewExists(ObjectExists):
    """The view already exists."""


class ExportExists(AlreadyExists):
    """An export with this name is already recorded."""

    default_hint = "choose another name, or drop that export first"


class TransactionExists(AlreadyExists):
    """A distributed transaction with this id already exists."""

    default_hint = "choose another id, or wait until an expire has removed that one"


class PathTaken(AlreadyExists):
    """An exclusive creation failed because the path already holds other content."""


# 12: refused


class Refused(OlympiaError):
    """A destructive operation was not confirmed."""

    exit_code = 12


class ExclusiveCreateUnsupported(OlympiaError):
    """The store does not support exclusive creation of files, so concurrent commits could overwrite each other."""

    exit_code = 12
    default_hint = "put the catalog on a store that honours conditional writes or hard links"


class TransactionTooLarge(OlympiaError):
    """The transaction has more actions than one commit may hold."""

    exit_code = 12
    default_hint = (
        "remove the limit for this commit with --atomic; an apply can be committed in steps with --commit-every N"
    )


class TransactionExpired(OlympiaError):
    """The transaction is older than the catalog allows."""

    exit_code = 12
    default_hint = "begin a new transaction and repeat the changes"


class TransactionClosed(OlympiaError):
    """The transaction has already been committed or aborted."""

    exit_code = 12
    default_hint = "begin a new transaction"


class NotRevertible(OlympiaError):
    """A version contains a change that `revert` does not undo. The advice names the command that does."""

    exit_code = 12


# 20, 21: other writers


class CommitConflict(OlympiaError):
    """A concurrent commit changed something that this transaction changed or read."""

    exit_code = 20
    default_hint = "look at the newer versions, then run the command again"


class RevertConflict(OlympiaError):
    """Something the revert would undo has been changed again since. `conflicts` lists each conflict with its reason."""

    exit_code = 20
    conflicts: Sequence[dict[str, Any]] = ()


class SavedElsewhere(OlympiaError):
    """Another process saved this distributed transaction after it was loaded."""

    exit_code = 20
    default_hint = "load the transaction again, then repeat the change"


class CommitUnknown(OlympiaError):
    """The outcome of the commit is unknown. No file was cleaned up, and none is half-written."""

    exit_code = 21


class OutcomeUnknown(OlympiaError):
    """The outcome of a write is unknown: the store did not report it."""

    exit_code = 21
    default_hint = "look at the path before writing again"
    is_fleeting = False
    """True if the content, where it was written, may not survive a power failure."""


# 30, 31: the store, or Spark


class StorageFailed(OlympiaError):
    """The store failed."""

    exit_code = 30
    default_hint = "try again; if it persists, look at the store"
    is_no_file = False
    """True if the path holds something other than a regular file; the store itself works."""
    is_folder = False
    """True if the path is a folder, which a file cannot replace."""


class StorageFull(StorageFailed):
    """The store has no space left."""

    default_hint = "free some space and run it again; nothing was left half-written"


class OutOfMemory(OlympiaError):
    """The operation needs more memory than is available."""

    exit_code = 30
    default_hint = "provide more memory, request less at once, or use --engine spark where available"


class SparkUnreachable(OlympiaError):
    """Spark's master or server does not respond, or offers no executors."""

    exit_code = 30
    default_hint = "check its address, and that it is running"


class SparkFailed(OlympiaError):
    """A Spark job failed."""

    exit_code = 30
    default_hint = "try again; if it persists, look at Spark's own log"


class StorageDenied(OlympiaError):
    """The store denied permission."""

    exit_code = 31
    default_hint = "check the credentials and the permissions"


# 40, 41: content that cannot be read


class Damaged(OlympiaError):
    """A file violates the format.

    `code` is the code of the fsck finding for this damage. It is empty for files that fsck has no code for.
    """

    exit_code = 40
    default_hint = "list the damage and its repairs"

    def __init__(
        self, code: str, path: str, reason: str, *, hint: str | None = None, command: Sequence[str] = ()
    ) -> None:
        if hint is None and not command:
            # only these levels of fsck read definitions and action logs, or the metadata of tables
            level = "full" if code.startswith(("F3", "F4")) else "data" if code.startswith("F6") else ""
            command = ("fsck", "--level", level) if level else ("fsck",)
        super().__init__(f"{path}: {reason}", hint=hint, command=command)
        self.code = code
        self.path = path
        self.reason = reason


class FileTooLarge(Damaged):
    """A file is larger than the limit for its kind, and is not read."""

    @classmethod
    def of(cls, path: str, size: int | None, limit: int) -> FileTooLarge:
        """Create the error for a file of `size` bytes (None: unknown) that exceeds `limit`."""
        shown = "" if size is None else f" ({size:,} bytes)"
        return cls("F205", path, f"file too large{shown}: the limit is {limit:,} bytes")


class PathOutside(OlympiaError):
    """A path, or the symbolic link at it, leads outside the catalog. Such a path is never followed."""

    exit_code = 40
    default_hint = "replace the link with what it points to"


class Unsupported(OlympiaError):
    """Sound content of a format version, or with a feature, that this program does not know."""

    exit_code = 41
    default_hint = "use a newer olympia"


StoreError = PathMissing | PathTaken | StorageFailed | StorageDenied | OutcomeUnknown | PathOutside | FileTooLarge

FAMILIES = (OlympiaError, InvalidUsage, NotFound, ObjectNotFound, AlreadyExists, ObjectExists)
"""The base classes. They are caught, and never raised themselves."""
