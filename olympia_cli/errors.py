"""Every error this program raises on purpose: its meaning, its exit code, and what to do about it.

One class, one meaning, one exit code. The message says what happened; the hint says what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from olympia_cli.masking import masked


class OlympiaError(Exception):
    """The base of all of them. Never raised itself."""

    exit_code = 1
    default_hint = ""

    def __init__(self, message: str, *, hint: str | None = None, command: Sequence[str] = ()) -> None:
        """`command` are the words of a command that does what the hint says; see `command_words`."""
        self.message = masked(message)
        super().__init__(self.message)
        self.advice = self.default_hint if hint is None else hint
        self.command = tuple(command)
        self.program: tuple[str, ...] = ("olympia",)
        """What the command begins with; the command line adds where its catalog is."""

    @property
    def hint(self) -> str:
        """What to do. A command in it can be pasted as it stands."""
        if not self.command:
            return masked(self.advice)
        import shlex

        return f"{masked(self.advice)}: {shlex.join((*self.program, *map(masked, self.command)))}"

    @property
    def name(self) -> str:
        """The stable name that scripts match on."""
        return type(self).__name__

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


def command_words(*words: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """The words of a command, and the names that it ends with: one may begin with a dash, and is no option."""
    return (*words, *(["--"] if any(name.startswith("-") for name in names) else []), *names)


def quoted(text: str, most: int = 60) -> str:
    """What somebody typed, as it looks, cut where it is long; what a terminal would act on is shown as escapes."""
    text = masked(text)  # before the cut: the end of a URI tells where its password ends
    shown = text if len(text) <= most else text[: most - 3] + "..."
    return "'" + "".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown) + "'"


# 2: usage


class InvalidName(OlympiaError):
    """A namespace, table or view name that the format does not allow, or that is too long for this catalog."""

    exit_code = 2


class InvalidReference(OlympiaError):
    """A version reference that cannot be read as one."""

    exit_code = 2
    default_hint = (
        "use a version (12), latest, latest~3, oldest, a time, yesterday, a duration ago (2h) or an export's name"
    )


class InvalidOption(OlympiaError):
    """A value that makes no sense for what was asked."""

    exit_code = 2


class InvalidLine(OlympiaError):
    """A line of input that is not a statement."""

    exit_code = 2


class InvalidLocation(OlympiaError):
    """A catalog URI that cannot be understood."""

    exit_code = 2


class SparkMissing(OlympiaError):
    """Spark was asked for, and this machine lacks PySpark or Java."""

    exit_code = 2
    default_hint = "install olympia-cli[spark], and Java 17 or 21"


class IcebergMissing(OlympiaError):
    """The rows or columns of a table were asked for, and PyIceberg is not installed."""

    exit_code = 2
    default_hint = "install olympia-cli[iceberg]"


class ServerMissing(OlympiaError):
    """A server was asked for, and what it is made of is not installed."""

    exit_code = 2
    default_hint = "install olympia-cli[serve]"


class ExecutorUnprepared(OlympiaError):
    """Spark's executors lack a Python package that the work needs, or see another place than the driver."""

    exit_code = 2


# 3: partly done


class PartlyDone(OlympiaError):
    """Some of it is done and some is left; running it again goes on."""

    exit_code = 3


# 10: not found


class CatalogNotFound(OlympiaError):
    """There is no catalog at the location."""

    exit_code = 10


class _Missing:
    """What was looked for, and in which version: a namespace, and the name of what is in it where that was meant."""

    version: int | None = None
    missing: tuple[str, str] = ("", "")


class NamespaceNotFound(_Missing, OlympiaError):
    """No such namespace in this version."""

    exit_code = 10
    for_new = False
    """Whether a command was to put something new in it."""


class TableNotFound(_Missing, OlympiaError):
    """No such table in this version."""

    exit_code = 10


class ViewNotFound(_Missing, OlympiaError):
    """No such view in this version."""

    exit_code = 10


class VersionNotFound(OlympiaError):
    """The version does not exist: not yet, or no longer."""

    exit_code = 10


class ExportNotFound(OlympiaError):
    """No export of that name is recorded."""

    exit_code = 10


class TransactionNotFound(OlympiaError):
    """No distributed transaction of that id."""

    exit_code = 10


class PathMissing(OlympiaError):
    """A file that was asked for is not in the store."""

    exit_code = 10
    is_dangling = False
    """Whether a link to nothing has its name."""


# 11: exists


class CatalogExists(OlympiaError):
    """There is a catalog at the location already."""

    exit_code = 11


class LocationNotEmpty(OlympiaError):
    """The location holds files that are not a catalog's."""

    exit_code = 11
    default_hint = "choose an empty folder or prefix"


class NamespaceExists(OlympiaError):
    """The namespace exists already."""

    exit_code = 11


class NamespaceNotEmpty(OlympiaError):
    """The namespace still holds tables or views."""

    exit_code = 11
    default_hint = "drop what is in it first, or all of it"


class TableExists(OlympiaError):
    """The table exists already."""

    exit_code = 11


class ViewExists(OlympiaError):
    """The view exists already."""

    exit_code = 11


class ExportExists(OlympiaError):
    """An export of that name is recorded already."""

    exit_code = 11
    default_hint = "choose another name, or drop that export first"


class TransactionExists(OlympiaError):
    """A distributed transaction of that id has begun already."""

    exit_code = 11
    default_hint = "choose another id, or wait until an expire has removed that one"


class PathTaken(OlympiaError):
    """An exclusive creation lost: the path holds somebody else's content."""

    exit_code = 11


# 12: refused


class Refused(OlympiaError):
    """Something that destroys was not confirmed."""

    exit_code = 12


class ExclusiveCreateUnsupported(OlympiaError):
    """The store does not create files exclusively, so commits on it could overwrite each other."""

    exit_code = 12
    default_hint = "put the catalog on a store that honours conditional writes or hard links"


class TransactionTooLarge(OlympiaError):
    """More actions than one commit may hold."""

    exit_code = 12
    default_hint = (
        "lift the bound for this one commit with --atomic; an apply can be committed in steps with --commit-every N"
    )


class TransactionExpired(OlympiaError):
    """The transaction lived longer than the catalog allows."""

    exit_code = 12
    default_hint = "begin a new transaction, and do it again there"


class TransactionClosed(OlympiaError):
    """The transaction was committed or aborted already."""

    exit_code = 12
    default_hint = "begin a new transaction"


class NotRevertible(OlympiaError):
    """A version did what a revert does not take back; another command does."""

    exit_code = 12


# 20, 21: other writers


class CommitConflict(OlympiaError):
    """Another writer changed what this transaction changed or relied on."""

    exit_code = 20
    default_hint = "look at the newer versions, then run it again"


class RevertConflict(OlympiaError):
    """What was to be taken back has been changed again since. `conflicts` tells what, and why, as plain values."""

    exit_code = 20
    conflicts: Sequence[dict[str, Any]] = ()


class SavedElsewhere(OlympiaError):
    """Another process saved this distributed transaction in the meantime."""

    exit_code = 20
    default_hint = "load it again and go on from there"


class CommitUnknown(OlympiaError):
    """The commit may or may not have happened; nothing was cleaned up, nothing is half-written."""

    exit_code = 21


class OutcomeUnknown(OlympiaError):
    """A write may or may not have happened, and the store does not say."""

    exit_code = 21
    default_hint = "look at the path before writing again"
    is_fleeting = False
    """Whether what stands, if it does, may be gone after a power cut."""


# 30, 31: the store, or Spark


class StorageFailed(OlympiaError):
    """The store failed."""

    exit_code = 30
    default_hint = "try again; if it persists, look at the store"
    is_no_file = False
    """Whether something other than a file stands at the path: the store is well."""
    is_folder = False
    """Whether a folder stands there, which no file can replace."""


class StorageFull(StorageFailed):
    """No space left."""

    exit_code = 30
    default_hint = "free some space and run it again; nothing was left half-written"


class OutOfMemory(OlympiaError):
    """The work needs more memory than there is."""

    exit_code = 30
    default_hint = "give it more, ask for less at once, or use --engine spark where there is one"


class SparkUnreachable(OlympiaError):
    """Spark's master or server does not answer, or offers no executors."""

    exit_code = 30
    default_hint = "check its address, and that it is running"


class SparkFailed(OlympiaError):
    """Spark failed in the middle of the work."""

    exit_code = 30
    default_hint = "try again; if it persists, look at Spark's own log"


class StorageDenied(OlympiaError):
    """No permission."""

    exit_code = 31
    default_hint = "check the credentials and the permissions"


# 40, 41: what is there cannot be read


class Damaged(OlympiaError):
    """A file does not hold what the format says it must.

    `code` is fsck's for this kind of damage, set where it is found; empty for files that fsck has no code for.
    """

    exit_code = 40
    default_hint = "see what is damaged and what to do about it"

    def __init__(
        self, code: str, path: str, reason: str, *, hint: str | None = None, command: Sequence[str] = ()
    ) -> None:
        if hint is None and not command:
            # definitions and logs are read at that level, and not before
            command = ("fsck", "--level", "full") if code.startswith(("F3", "F4")) else ("fsck",)
        super().__init__(f"{path}: {reason}", hint=hint, command=command)
        self.code = code
        self.path = path
        self.reason = reason


class FileTooLarge(Damaged):
    """A file is larger than any of its kind; it is not read."""

    exit_code = 40

    @classmethod
    def of(cls, path: str, size: int | None, limit: int) -> FileTooLarge:
        """A file of so many bytes, where that is known, and how many it may have."""
        shown = "even more" if size is None else f"{size:,} bytes"
        return cls("F205", path, f"no file of its kind has more than {limit:,} bytes, and it has {shown}")


class PathOutside(OlympiaError):
    """A path, or the link that it names, leads outside the catalog; it is never followed."""

    exit_code = 40
    default_hint = "replace the link with what it points to"


class Unsupported(OlympiaError):
    """Sound, but of a version or with a feature that this program does not know."""

    exit_code = 41
    default_hint = "use a newer olympia"


StoreError = PathMissing | PathTaken | StorageFailed | StorageDenied | OutcomeUnknown | PathOutside | FileTooLarge
