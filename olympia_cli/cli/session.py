"""The session of a command: its options, the catalog that they name, its view of a version, and its output."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeAlias, cast

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.boundary import about, check_variable, hear_libraries, is_json, tell
from olympia_cli.cli.config import (
    CatalogLocation,
    Setting,
    how_to_name_a_catalog,
    named_options,
    options_for,
    read_profile,
)
from olympia_cli.cli.options import Output, parse_seconds
from olympia_cli.cli.output import visible
from olympia_cli.errors import InvalidLocation, InvalidName, InvalidOption, OlympiaError
from olympia_cli.masking import masked
from olympia_cli.names import Kind, NamespaceName, parse_as_found, parse_reference, parse_table, parse_view, span_text

if TYPE_CHECKING:
    from olympia_cli.catalog.catalog import Catalog
    from olympia_cli.catalog.commit import Author
    from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.format.actions import Action
    from olympia_cli.names import ObjectName, TableName, ViewName
    from olympia_cli.ops.progress import Progress
    from olympia_cli.storage.protocol import Store


class TransactionView:
    """A snapshot of a distributed transaction. Its version is the one on which the transaction is based."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.snapshot = transaction.base
        self.version = transaction.base.version
        self.namespaces = transaction.namespaces
        self.namespace = transaction.namespace
        self.table = transaction.table
        self.view = transaction.view

    def objects(self, kind: Kind, namespace: str | None) -> Iterator[CatalogObject[ObjectDefinition]]:
        # one by one, because the transaction records each read
        within: dict[str, Callable[[], Iterator[ObjectName]]] = {
            "namespace": self.namespaces,
            "table": lambda: self.tables(namespace),
            "view": lambda: self.views(namespace),
        }
        names = within[kind.word]()
        return (item for name in names if (item := self._transaction.find(name)) is not None)

    def tables(self, namespace: str | None) -> Iterator[TableName]:
        for namespace_name in self._in(namespace):
            yield from self._transaction.tables(namespace_name)

    def views(self, namespace: str | None) -> Iterator[ViewName]:
        for namespace_name in self._in(namespace):
            yield from self._transaction.views(namespace_name)

    def names_by_namespace(self, kind: Kind, namespace: str | None) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the names of tables or views."""
        within = self.tables if kind.word == "table" else self.views
        return ((name.namespace, [name.name]) for name in within(namespace))

    def _in(self, namespace: str | None) -> list[str]:
        return [name.namespace for name in self.namespaces()] if namespace is None else [namespace]


View: TypeAlias = "Snapshot | TransactionView"
"""The reads of a command: a version, or a distributed transaction from inside."""


class Changed(NamedTuple):
    """The result of a changing command: a version, or the id of a distributed transaction that was saved."""

    version: int | None
    transaction: str | None
    actions: tuple[Action, ...]


class Session:
    """A run of a command."""

    def __init__(self, ctx: typer.Context, uri: str | None = None) -> None:
        self._ctx = ctx
        self._options = {
            key.removeprefix("olympia."): value for key, value in ctx.meta.items() if key.startswith("olympia.")
        }
        if uri is not None:
            self._options["catalog"] = uri
        self.output = Output.JSON if self._options.get("json") else Output(self._options.get("output") or Output.TABLE)
        self.quiet = bool(self._options.get("quiet"))
        self.verbose = bool(self._options.get("verbose"))
        self.csv_safe = bool(self._options.get("csv_safe"))
        """True if CSV cells are escaped so that no spreadsheet takes them for formulas."""
        self.is_tty = sys.stdout.isatty()
        self.no_color = bool(self._options.get("no_color") or os.environ.get("NO_COLOR"))
        self.color = self.is_tty and not self.no_color
        about(command=getattr(ctx, "command_path", "").partition(" ")[2] or None, quiet=self.quiet)
        check_variable()
        self.metrics: Callable[[], dict[str, Any]] | None = None
        """Returns the metrics of this run for JSON documents, if the engine has any."""

    @property
    def width(self) -> int:
        return shutil.get_terminal_size((80, 24)).columns

    @property
    def name(self) -> str:
        """The name of the command: `export create`."""
        return self._ctx.command_path.partition(" ")[2]

    # The catalog

    @cached_property
    def location(self) -> CatalogLocation:
        """The location of the catalog. Flags beat the environment, which beats the config file."""
        for option in ("catalog", "profile"):
            # an unset variable in a script must not lead to another catalog
            if self._options.get(option) == "":
                raise InvalidLocation(f"--{option} is empty", hint="give it a value, or leave it out")
        catalog = self.said("catalog")
        if catalog.value and (catalog.source == "flag" or not self._options.get("profile")):
            return CatalogLocation(catalog.value, self.options_for(catalog.value))
        profile = read_profile(self._profile)
        if not profile.uri:
            raise InvalidLocation("no catalog is given", hint=how_to_name_a_catalog(self._profile))
        return CatalogLocation(profile.uri, options_for(profile.uri, profile, self.timeout))

    def options_for(self, uri: str, profile: str | None = None) -> dict[str, Any]:
        """Return the storage options for a location, from the given profile or the one in use."""
        return named_options(uri, profile, self._profile, self.timeout)

    def said(self, option: str) -> Setting:
        """Return the value of an option and its source: a flag beats the environment."""
        variable = f"OLYMPIA_{option.upper()}"
        if self._options.get(option):
            return Setting(option, str(self._options[option]), "flag", f"--{option.replace('_', '-')}")
        if value := os.environ.get(variable):
            return Setting(option, value, "environment", variable)
        return Setting(option, None, "default")

    @property
    def _profile(self) -> str | None:
        return self.said("profile").value

    @property
    def timeout(self) -> float | None:
        """The timeout in seconds of an operation on the store, if one is set."""
        text = self.said("timeout").value
        seconds = parse_seconds(text) if text else None
        if seconds == 0:
            raise InvalidOption("the timeout is 0", hint="write a duration, such as 30s")
        return seconds

    @cached_property
    def store(self) -> Store:
        from olympia_cli.format.paths import size_limit
        from olympia_cli.storage.open import open_store

        about(catalog=self.location.uri)
        if "://" in self.location.uri:
            hear_libraries()
        store = open_store(os.path.expanduser(self.location.uri), self.location.options or None, size_limit=size_limit)
        self._ctx.call_on_close(lambda: self._warn_of_lost_hints(store))
        return store

    @cached_property
    def catalog(self) -> Catalog:
        from olympia_cli.catalog.catalog import Catalog

        catalog = Catalog(self.store)
        self._ctx.call_on_close(lambda: self._warn_of_dates(catalog))
        return catalog

    def snapshot(self, at: str | None = None, *names: ObjectName) -> Snapshot:
        """Open a version. The nodes on the paths to the objects with these names are prefetched."""
        # without `Catalog`, so that reading commands do not import the modules for writing

        # report an invalid reference before the slow imports
        store, reference = self.store, parse_reference("latest" if at is None else at)
        from olympia_cli.catalog.references import open_snapshot

        snapshot = open_snapshot(store, reference, SystemClock().now_millis(), names)
        self.warn_of_lost_root(snapshot)
        return snapshot

    # Names to look up: a catalog of the Java SDK may have names that the format forbids

    def namespace_name(self, text: str) -> NamespaceName:
        return cast("NamespaceName", self._name(Kind.NAMESPACE, NamespaceName, text))

    def table_name(self, text: str) -> TableName:
        return cast("TableName", self._name(Kind.TABLE, parse_table, text))

    def view_name(self, text: str) -> ViewName:
        return cast("ViewName", self._name(Kind.VIEW, parse_view, text))

    def _name(self, kind: Kind, parse: Callable[[str], ObjectName], text: str) -> ObjectName:
        try:
            return parse(text)
        except InvalidName:
            name = parse_as_found(kind, text)
            if not self.is_java():
                raise
            return name

    def is_java(self) -> bool:
        """Return whether the Java SDK wrote the catalog; False if it cannot be opened."""
        with suppress(OlympiaError):
            return self.snapshot().file.java
        return False

    def warn_of_lost_root(self, latest: Snapshot) -> None:
        """Warn if the hint is ahead of the latest root: it is written after the root, so a root may be lost."""
        hint, problems = latest.hint, []
        if hint is not None and hint > latest.version:
            problems.append(f"vn/latest names version {hint}, but the last root is that of version {latest.version}")
        if not latest.in_place:
            problems.append(latest.out_of_place().reason)
        for problem in problems:
            self.say(f"warning: {problem}: see {self.command('fsck')}")

    def _warn_of_lost_hints(self, store: Store) -> None:
        """Warn of a commit whose hint was not written: every reader then needs more requests."""
        for path, error in store.lost_hints.items():
            why = f"{error.message}; readers do without it: see {self.command('fsck')}"
            self.say(f"warning: the hint {path} could not be written: {why}")

    def warn_of_damage(self, latest: Snapshot) -> None:
        """Warn before a commit if the last fsck found damage. Its record was read together with the base version."""
        from olympia_cli.format.paths import LAST_FSCK
        from olympia_cli.ops.last_runs import found_damage

        if (damage := found_damage(latest.file.beside.get(LAST_FSCK))) is not None:
            when = f" ({damage.finished_at.replace('T', ' ')}Z)" if damage.finished_at else ""
            self.say(f"warning: fsck found damage in this catalog{when}: see {self.command(damage.words)}")

    def _warn_of_dates(self, catalog: Catalog) -> None:
        """Warn of a commit that is dated ahead, because the clock of an earlier commit was ahead."""
        made, now = catalog.head.made, catalog.clock.now_millis()
        if made is None:
            return
        from olympia_cli.catalog.references import dated_ahead

        if (ahead := dated_ahead(made, now)) is not None:
            span = f"{span_text(ahead.ahead_millis)} ahead of this machine's clock"
            self.say(f"warning: v{made.version} is dated {span}, since {ahead.text}: see {self.command('status')}")

    def resolve(self, reference: str, latest: Snapshot) -> Snapshot:
        """Resolve a reference against a latest version read before, so that several references agree."""
        from olympia_cli.catalog.references import resolve

        return resolve(parse_reference(reference), latest, SystemClock().now_millis())

    def view(self, at: str | None = None, txn: str | None = None, *names: ObjectName) -> View:
        """Return the view for a reading command: a version, or a distributed transaction from inside."""
        if txn is None:
            return self.snapshot(at, *names)
        if at is not None:
            raise InvalidOption("--at and --txn do not go together", hint="a transaction has a version of its own")
        from olympia_cli.catalog import distributed

        open_transaction = distributed.load(self.catalog, txn)
        count = len(open_transaction.transaction.actions)

        def save_reads() -> None:
            # under SERIALIZABLE reads decide about conflicts, so they are saved with the transaction
            if len(open_transaction.transaction.actions) > count:
                open_transaction.save()

        self._ctx.call_on_close(save_reads)
        return TransactionView(open_transaction.transaction)

    def change(
        self,
        do: Callable[[Transaction], None],
        *names: ObjectName,
        txn: str | None = None,
        message: str = "",
        retry_for: str = "60s",
        again: bool = False,
        atomic: bool = False,
    ) -> Changed:
        """Run statements in a transaction of their own, or inside a distributed one.

        The objects with `names` are prefetched. `again` retries after a conflict, for statements that mean the same on
        any version, such as create if it does not exist.
        """
        seconds = parse_seconds(retry_for)
        if txn is not None:
            from olympia_cli.catalog import distributed

            open_transaction = distributed.load(self.catalog, txn)
            before = len(open_transaction.transaction.actions)
            with open_transaction.statements() as transaction:
                do(transaction)
            open_transaction.save()
            return Changed(None, txn, tuple(open_transaction.transaction.actions[before:]))
        is_first = True

        def warn_and_do(transaction: Transaction) -> None:
            nonlocal is_first
            self.warn_of_lost_root(transaction.base)
            if is_first:
                self.warn_of_damage(transaction.base)
            is_first = False
            do(transaction)

        commit = self.catalog.change(warn_and_do, names, message, retry_for=seconds, atomic=atomic, again=again)
        return Changed(commit.version, None, commit.actions)

    def author(self, message: str) -> Author:
        """Return the author of a commit that this command makes without `change`."""
        from olympia_cli.catalog.catalog import who
        from olympia_cli.catalog.commit import Author

        return Author(by=who(), message=message)

    @property
    def program(self) -> tuple[str, ...]:
        """The first words of an advised command: the program, and the location given to this command."""
        place = self._options.get("catalog")
        program, *options = self.program_elsewhere
        return (program, *(("-c", masked(place)) if place else ()), *options)

    @property
    def program_elsewhere(self) -> tuple[str, ...]:
        """The first words of an advised command that names another catalog."""
        profile = self._options.get("profile")
        return ("olympia", *(("--profile", profile) if profile else ()))

    def command(self, words: str | Sequence[str]) -> str:
        """Return an advised command as text, from quoted text or from words.

        Words for another catalog begin with `-c`.
        """
        text = words if isinstance(words, str) else shlex.join(words)
        return f"{shlex.join(self.program_elsewhere if text.startswith('-c ') else self.program)} {text}"

    def argv(self, words: Sequence[str], *, shell: bool = False) -> list[str]:
        """Return an advised command as a list of words. With `shell`, it is not a command of olympia."""
        return list(words) if shell else shlex.split(self.command(words))

    # Output

    @contextmanager
    def out(self, paged: bool = False) -> Iterator[TextIO]:
        """Open the stream for data: stdout, or a pager on a terminal, which prints short output directly."""
        if not paged or not self.is_tty or self.output is not Output.TABLE:
            yield sys.stdout
            return
        from olympia_cli.cli.output.terminal import pager

        with pager() as stream:
            yield stream

    def say(self, text: str, *, is_problem: bool = False) -> None:
        """Print a message to stderr. JSON output has none, except with --verbose or --log-format json.

        --quiet prints problems alone: warnings, and the reasons of the error that follows.
        """
        if self.output in (Output.JSON, Output.JSONL) and not self.verbose and not is_json():
            return
        if is_problem or text.startswith("warning: ") or not self.quiet:
            tell(text if is_json() else visible(text))

    def note(self, text: str) -> None:
        """Print a message with --verbose only. Clear Spark's own progress bar first."""
        if self.verbose:
            if self.metrics is not None and sys.stderr.isatty() and not is_json():
                tell("\r\x1b[K", end="")
            self.say(text)

    def progress(self) -> AbstractContextManager[Progress]:
        """Show the progress of long work on stderr. Print data after the block."""
        from olympia_cli.cli.output.terminal import shown

        return shown(self, bool(self._options.get("no_progress")))
