"""`olympia doctor`: the checks of a setup, and the printing of their results."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.config import Setting, settings
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render, size, visible
from olympia_cli.cli.session import Session
from olympia_cli.errors import OlympiaError, SparkMissing, StorageFull
from olympia_cli.names import plural
from olympia_cli.ops import expire, inspect
from olympia_cli.storage.open import scheme_of
from olympia_cli.storage.probe import READS, WRITES, probe

if TYPE_CHECKING:
    from olympia_cli.cli.session import Session
    from olympia_cli.ops.inspect import Reason, Status
    from olympia_cli.storage.probe import Probes
    from olympia_cli.storage.protocol import Store

EXAMPLES = ["olympia doctor", "olympia doctor --read-only", "olympia doctor -c s3://lake/catalog --json"]

PACKAGES = ["typer", "rich", "pyarrow", "protobuf", "fsspec", "s3fs", "gcsfs", "pyspark", "pandas", "pyiceberg"]
_COLORS = {"ok": "32", "note": "36", "attention": "33", "failed": "31"}
_CSV = ["check", "state", "text"]


def run(
    ctx: typer.Context,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Create no file, not even for a moment; for users who may only read.")
    ] = False,
) -> None:
    """Diagnose the local setup.

    Shows the settings and the source of each, whether credentials are set, and the versions of installed packages.
    Tests whether the store lists, reads, creates, refuses to create a file twice, and deletes. Compares its clock with
    this machine's, and shows the free space. Shows the state of the catalog and which fsck is due, and ends with the
    command to run next. The test creates one file with a random name, and deletes it. It works without a catalog too.

    Exit status: 0 all is well; 51 something needs attention; otherwise the code of the error that prevents work, such
    as 2, 10, 30, 31 or 40.
    """
    session = Session(ctx)
    checkup = check_up(session, write=not read_only)
    values = _describe(session, checkup)
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, values)
    else:
        with session.out() as out:
            _write(session, out, values)
    raise typer.Exit(checkup.exit_code)


def _describe(session: Session, checkup: Checkup) -> dict[str, Any]:
    remedy, why = checkup.next
    return {
        "catalog": checkup.uri,
        "settings": [setting.describe() for setting in checkup.settings],
        "checks": [{"check": check.check, "state": check.state, "text": check.text} for check in checkup.checks],
        "versions": _versions(),
        "verdict": None if checkup.status is None else str(checkup.status.standing),
        "needs_attention": checkup.attention,
        "next": {"command": session.argv(remedy.words, shell=remedy.shell), "why": why},
        "exit_code": checkup.exit_code,
        "left_behind": [checkup.left_behind] if checkup.left_behind is not None else [],
    }


def _versions() -> dict[str, str | None]:
    import platform

    from olympia_cli import __version__

    return {
        "olympia": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: installed(name) for name in PACKAGES},
    }


def _write(session: Session, out: TextIO, values: dict[str, Any]) -> None:
    command = shlex.join(values["next"]["command"])
    if session.output is Output.CSV:
        render.csv_rows(session, out, _CSV, values["checks"])
    elif session.output is Output.NAME:
        bad = [row["check"] for row in values["checks"] if row["state"] in ("attention", "failed")]
        out.writelines(f"{visible(check)}\n" for check in bad)
    elif session.quiet and not values["exit_code"]:
        return
    elif not session.is_tty:
        for row in values["checks"]:
            if not session.quiet or row["state"] in ("attention", "failed"):
                out.write("\t".join(map(visible, ("check", row["check"], row["state"], row["text"]))) + "\n")
        for row in () if session.quiet else values["settings"]:
            cells = ("setting", row["name"], row["value"] or "", row["source"], row["from"])
            out.write("\t".join(map(visible, cells)) + "\n")
        for name, version in () if session.quiet else values["versions"].items():
            out.write(f"version\t{name}\t{visible(version or 'not installed')}\n")
        out.write("\t".join(map(visible, ("next", command, values["next"]["why"]))) + "\n")
    else:
        _draw(session, out, values)
        out.write(f"\nnext  {visible(command)}\n")
        out.writelines(f"      {line}\n" for line in render.wrapped(session, visible(values["next"]["why"]), 6))


def _draw(session: Session, out: TextIO, values: dict[str, Any]) -> None:
    for row in values["checks"]:
        if session.quiet and row["state"] in ("ok", "note"):
            continue
        state = row["state"].ljust(9)
        label = f"\x1b[{_COLORS[row['state']]}m{state}\x1b[0m" if session.color else state
        first, *rest = render.wrapped(session, visible(row["text"]), 31)
        out.write(f"{label}  {row['check'].ljust(18)}  {first}\n")
        out.writelines(f"{' ' * 31}{line}\n" for line in rest)
    if session.quiet:
        return
    out.write("\n")
    width = max((len(row["name"]) for row in values["settings"]), default=0)
    for row in values["settings"]:
        where = row["from"] or row["source"]
        out.write(f"{visible(row['name']).ljust(width)}  {visible(row['value'] or 'not set')}  ({visible(where)})\n")
    out.write("\n")
    packages = ", ".join(f"{name} {version}" for name, version in values["versions"].items() if version is not None)
    out.writelines(f"{line}\n" for line in render.wrapped(session, visible(packages), 0))


# The checks

State = Literal["ok", "note", "attention", "failed"]
CLOCK_SKEW_MILLIS = 60_000
LITTLE_ROOM = 2**30


class Remedy(NamedTuple):
    """An advice with the words of the next command. With `shell`, it is a command of the machine, not of olympia."""

    advice: str
    words: tuple[str, ...]
    shell: bool = False


LOOK_AT_SETTINGS = Remedy("", ("config", "show"))


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check, with a remedy if something is wrong."""

    check: str
    state: State
    text: str
    remedy: Remedy | None = None


@dataclass(slots=True)
class Checkup:
    """All results. The command ends with the exit code of `error`, the first error that prevents work."""

    uri: str | None = None
    settings: Sequence[Setting] = ()
    checks: list[Check] = field(default_factory=list)
    error: OlympiaError | None = None
    status: Status | None = None
    due: Reason | None = None
    left_behind: str | None = None

    def add(self, check: str, state: State, text: str, remedy: Remedy | None = None) -> None:
        self.checks.append(Check(check, state, text, remedy))

    def failed(self, check: str, error: OlympiaError, remedy: Remedy | None = None) -> None:
        if remedy is None:
            words = error.command or {10: ("init",), 40: ("fsck",)}.get(error.exit_code, LOOK_AT_SETTINGS.words)
            remedy = Remedy(error.advice, words)
        self.add(check, "failed", error.message, remedy)
        self.error = self.error or error

    @property
    def attention(self) -> list[str]:
        return [check.text for check in self.checks if check.state in ("attention", "failed")]

    @property
    def next(self) -> tuple[Remedy, str]:
        """Return the next command and its reason: a failed check, else one that needs attention, else an fsck due."""
        for state in ("failed", "attention"):
            for check in self.checks:
                if check.state == state and (remedy := check.remedy) is not None:
                    return remedy, f"{check.text}: {remedy.advice}" if remedy.advice else check.text
        due = self.due
        return (Remedy("", due.words), due.text) if due is not None else (Remedy("", ("status",)), "all is well")

    @property
    def exit_code(self) -> int:
        return self.error.exit_code if self.error is not None else 51 if self.attention else 0


def check_up(session: Session, *, write: bool) -> Checkup:
    """Run all checks. With `write`, test whether the store creates and deletes a file, too."""
    checkup = Checkup()
    store = _open(session, checkup)
    if store is not None:
        _credentials(session, checkup)
        _catalog(session, checkup)
        if _can_be_tried(store, checkup):
            # a catalog of another program is never written to
            foreign = checkup.status is not None and checkup.status.values["read_only"]
            _store(session, checkup, store, write and not foreign)
        store.close()
    _spark(checkup)
    return checkup


def _open(session: Session, checkup: Checkup) -> Store | None:
    """Return the store that the settings name. An unreadable config file is an error only if the store needs it."""
    problem = None
    try:
        checkup.settings = settings(session)
    except OlympiaError as error:
        problem = error
    try:
        store = session.store
    except OlympiaError as error:
        checkup.failed("settings", error)
        return None
    checkup.uri = store.uri
    if problem is None:
        checkup.add("settings", "ok", "valid")
    else:
        checkup.add("settings", "attention", problem.message, Remedy(problem.hint, LOOK_AT_SETTINGS.words))
    return store


def _credentials(session: Session, checkup: Checkup) -> None:
    """Check whether credentials are set where the SDKs look for them. Their values are never shown."""
    scheme, options = scheme_of(session.location.uri), session.location.options
    if scheme not in ("s3", "gs"):
        checkup.add("credentials", "ok", "none are needed")
        return
    credentials = list(_s3_credentials(options) if scheme == "s3" else _gs_credentials(options))
    if credentials:
        checkup.add("credentials", "ok", f"found: {', '.join(credentials)}")
    else:
        checkup.add("credentials", "note", "none are set here; the machine may have a role of its own")


def _s3_credentials(options: dict[str, object]) -> Iterator[str]:
    yield from _options(options, "anon", "key", "profile")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        if os.environ.get(name):
            yield name
    if any(name.startswith("AWS_CONTAINER_CREDENTIALS_") for name in os.environ):
        yield "a container's role"
    yield from _file("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")


def _gs_credentials(options: dict[str, object]) -> Iterator[str]:
    yield from _options(options, "token")
    yield from _file("GOOGLE_APPLICATION_CREDENTIALS", "~/.config/gcloud/application_default_credentials.json")


def _options(options: dict[str, object], *names: str) -> Iterator[str]:
    yield from (f"the storage option {name}" for name in names if options.get(name))


def _file(variable: str, default: str) -> Iterator[str]:
    path = os.path.expanduser(os.environ.get(variable) or default)
    if os.path.isfile(path):
        yield f"the file {path}"


def _can_be_tried(store: Store, checkup: Checkup) -> bool:
    """Return whether the store can be tested: it answers, and a local folder exists. A test creates no folder."""
    if checkup.error is not None and checkup.error.exit_code == 30:
        checkup.add("store", "note", "not tested, because it does not answer")
        return False
    if "://" not in store.uri and not os.path.isdir(store.uri):
        checkup.add("store", "note", f"not tested, because there is no folder {store.uri}")
        return False
    return True


def _store(session: Session, checkup: Checkup, store: Store, write: bool) -> None:
    before = session.catalog.clock.now_millis()
    probes = probe(store, write=write)
    for operation in (*READS, *WRITES):
        if operation not in probes.tried:
            checkup.add(operation, "note", "not tested" if not write else "cannot be tested")
        elif (error := probes.tried[operation]) is None:
            checkup.add(operation, "ok", "it works")
        elif isinstance(error, StorageFull):
            checkup.failed(operation, error, _more_room(checkup, store))
        elif error.exit_code != 31:
            checkup.failed(operation, error)
        elif operation in READS:
            checkup.failed(operation, error, _permission(store, error.advice))
        else:
            # readers do not need to write, so this is not a failure
            text = f"{error.message}: {'an expire' if operation == 'delete' else 'commits'} will fail here"
            advice = "make it writable, or check it for reading only with --read-only"
            checkup.add(operation, "attention", text, _permission(store, advice, os.W_OK | os.X_OK))
    if probes.left_behind is not None:
        checkup.left_behind = probes.left_behind
        text = f"{probes.left_behind} could not be deleted: an expire takes it later"
        checkup.add("left behind", "attention", text, Remedy("", ("expire", "--dry-run")))
    _clock(checkup, probes, before, session.catalog.clock.now_millis())
    _room(checkup, store)


def _permission(store: Store, advice: str, mode: int = os.R_OK | os.X_OK) -> Remedy:
    """Return the remedy for a missing permission: show the folder that lacks it, or the settings of a bucket."""
    if "://" in store.uri:
        return Remedy(advice, LOOK_AT_SETTINGS.words)
    with suppress(OSError):
        if mode & os.W_OK and os.statvfs(store.uri).f_flag & os.ST_RDONLY:
            return Remedy(f"the file system is mounted read-only: {advice}", ("df", store.uri), shell=True)
    folders = [store.uri, *(os.path.join(store.uri, name) for name in ("vn", "def", "node"))]
    denied = (folder for folder in folders if os.path.isdir(folder) and not os.access(folder, mode))
    return Remedy(advice, ("ls", "-ld", next(denied, store.uri)), shell=True)


def _more_room(checkup: Checkup, store: Store) -> Remedy:
    """Return the remedy for a full store: a purge if there are marks (it works on a full disk), else an expire."""
    from olympia_cli.catalog.catalog import Catalog

    values = None if checkup.status is None else checkup.status.values
    elsewhere = (("df", store.uri), True) if "://" not in store.uri else (("status",), False)
    if values is None or values["read_only"]:
        return Remedy("free some space", *elsewhere)
    if values["quarantine"]["marks"] and expire.frees_nothing(Catalog(store).snapshot(), SystemClock().now_millis()):
        return Remedy("free some space: no file is in quarantine, so a purge frees nothing", *elsewhere)
    if values["quarantine"]["marks"]:
        return Remedy("stop all writers, and purge the quarantine", ("expire", "purge", "--offline"))
    return Remedy("free some space; an expire frees more", ("expire", "--dry-run"))


def _clock(checkup: Checkup, probes: Probes, before: int, after: int) -> None:
    from socket import gethostname

    stored = probes.stored_at_millis
    if stored is None:
        checkup.add("clock", "note", "not compared, because no file was created")
        return
    # stores round to seconds
    ahead = before - stored if stored < before - 1000 else after - stored if stored > after + 1000 else 0
    if abs(ahead) < CLOCK_SKEW_MILLIS:
        checkup.add("clock", "ok", "it agrees with the store's")
    else:
        way = "ahead of" if ahead > 0 else "behind"
        text = f"it is {plural(abs(ahead) // 1000, 'second')} {way} the store's"
        checkup.add(
            "clock", "attention", text, Remedy(f"set the clock of {gethostname()}", inspect.SHOW_CLOCK, shell=True)
        )


def _room(checkup: Checkup, store: Store) -> None:
    if "://" in store.uri:
        return

    with suppress(OSError):
        disk = shutil.disk_usage(store.uri)
        little = disk.free < min(LITTLE_ROOM, disk.total // 20)
        text = f"{size(disk.free)} of {size(disk.total)} are free"
        checkup.add("room", "attention" if little else "ok", text, _more_room(checkup, store) if little else None)


def _catalog(session: Session, checkup: Checkup) -> None:
    try:
        catalog_status = inspect.status(session.catalog)
    except OlympiaError as error:
        checkup.failed("catalog", error, _permission(session.store, error.advice) if error.exit_code == 31 else None)
        return
    checkup.status = catalog_status
    values = catalog_status.values
    # damage and attention get a line of their own each
    well = not (catalog_status.damage or catalog_status.attention)
    summary = f"version {values['version']}{f', {catalog_status.standing}' if well else ''}"
    java = "; of the Java SDK, so it is read only" if values["read_only"] else ""
    checkup.add("catalog", "ok", f"{summary}{java}")
    for reason in (*catalog_status.damage, *catalog_status.attention):
        checkup.add("catalog", "attention", reason.text, Remedy("", reason.words, reason.shell))
    checkup.due = inspect.fsck_due(catalog_status.runs, session.catalog.clock.now_millis())
    state: State = "ok" if checkup.due is None else "note"
    checkup.add("fsck", state, "none is due" if checkup.due is None else checkup.due.text)


def _spark(checkup: Checkup) -> None:
    """Check Spark if it is installed. A catalog of a common size does not need it."""
    if installed("pyspark") is None:
        checkup.add("spark", "note", "PySpark is not installed; only --engine spark needs it")
        return
    try:
        # imported here, because the import fails if PySpark cannot be imported
        from olympia_cli.spark import need_java

        checkup.add("spark", "ok", f"PySpark {installed('pyspark')}, Java {need_java()}")
    except SparkMissing as error:
        checkup.add("spark", "note", f"{error.message}; only --engine spark needs it")


def installed(name: str) -> str | None:
    """Return the version of a package without importing it, or None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
