"""All errors that the program raises on purpose, each with its meaning, exit code and advice.

The message says what happened, the advice says what to do next. The attribute with the advice is called `hint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from olympia_cli.masking import masked


class OlympiaError(Exception):
    """Base class of all errors of the program. Never raised itself."""

    exit_code = 1
    default_hint = ""

    def __init__(self, message: str, *, hint: str | None = None, command: Sequence[str] = ()) -> None:
        """Create an error. `command` holds the words of the command that the advice recommends; see `command_words`."""
        self.message = masked(message)
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


class InvalidName(OlympiaError):
    """A namespace, table or view name that the format does not allow, or that is too long for this catalog."""

    exit_code = 2


class InvalidReference(OlympiaError):
    """A version reference that cannot be parsed."""

    exit_code = 2
    default_hint = (
        "use a version (12), latest, latest~3, oldest, a time, yesterday, a duration ago (2h) or an export's name"
    )


class InvalidOption(OlympiaError):
    """An option whose value is invalid for the operation."""

    exit_code = 2


class InvalidLine(OlympiaError):
    """A line of input that is not a valid action."""

    exit_code = 2


class InvalidLocation(OlympiaError):
    """A catalog location that cannot be parsed."""

    exit_code = 2


class SparkMissing(OlympiaError):
    """Spark was requested, but PySpark or Java is not installed."""

    exit_code = 2
    default_hint = "install olympia-cli[spark], and Java 17 or 21"


class IcebergMissing(OlympiaError):
    """The operation needs PyIceberg to read rows or columns of a table, and PyIceberg is not installed."""

    exit_code = 2
    default_hint = "install olympia-cli[iceberg]"


class ServerMissing(OlympiaError):
    """The server's dependencies are not installed."""

    exit_code = 2
    default_hint = "install olympia-cli[serve]"


class ExecutorUnprepared(OlympiaError):
    """Spark's executors lack a required Python package, or see other files at the location than the driver."""

    exit_code = 2


# 3: partly done


class PartlyDone(OlympiaError):
    """Part of the operation succeeded. Running it again continues with the rest."""

    exit_code = 3


# 10: not found


class CatalogNotFound(OlympiaError):
    """There is no catalog at the location."""

    exit_code = 10


class _Missing:
    """The version that was searched, and the namespace and name that are missing. The name is empty for a namespace."""

    version: int | None = None
    missing: tuple[str, str] = ("", "")


class NamespaceNotFound(_Missing, OlympiaError):
    """The namespace does not exist in this version."""

    exit_code = 10
    for_new = False
    """True if a command was about to create an object in the namespace."""


class TableNotFound(_Missing, OlympiaError):
    """The table does not exist in this version."""

    exit_code = 10


class ViewNotFound(_Missing, OlympiaError):
    """The view does not exist in this version."""

    exit_code = 10


class VersionNotFound(OlympiaError):
    """The version does not exist yet, or no longer exists."""

    exit_code = 10


class ExportNotFound(OlympiaError):
    """No export with this name is recorded."""

    exit_code = 10


class TransactionNotFound(OlympiaError):
    """No distributed transaction with this id exists."""

    exit_code = 10


class PathMissing(OlympiaError):
    """A requested file does not exist in the store."""

    exit_code = 10
    is_dangling = False
    """True if the path is a dangling symbolic link."""


# 11: exists


class CatalogExists(OlympiaError):
    """A catalog already exists at the location."""

    exit_code = 11


class LocationNotEmpty(OlympiaError):
    """The location holds files that do not belong to a catalog."""

    exit_code = 11
    default_hint = "choose an empty folder or prefix"


class NamespaceExists(OlympiaError):
    """The namespace already exists."""

    exit_code = 11


class NamespaceNotEmpty(OlympiaError):
    """The namespace still holds tables or views."""

    exit_code = 11
    default_hint = "drop its tables and views first, or use --cascade"


class TableExists(OlympiaError):
    """The table already exists."""

    exit_code = 11


class ViewExists(OlympiaError):
    """The view already exists."""

    exit_code = 11


class ExportExists(OlympiaError):
    """An export with this name is already recorded."""

    exit_code = 11
    default_hint = "choose another name, or drop that export first"


class TransactionExists(OlympiaError):
    """A distributed transaction with this id already exists."""

    exit_code = 11
    default_hint = "choose another id, or wait until an expire has removed that one"


class PathTaken(OlympiaError):
    """An exclusive creation failed because the path already holds other content."""

    exit_code = 11


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

    exit_code = 30
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
            # only these levels of fsck read definitions and action logs
            command = ("fsck", "--level", "full") if code.startswith(("F3", "F4")) else ("fsck",)
        super().__init__(f"{path}: {reason}", hint=hint, command=command)
        self.code = code
        self.path = path
        self.reason = reason


class FileTooLarge(Damaged):
    """A file is larger than the limit for its kind, and is not read."""

    exit_code = 40

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
