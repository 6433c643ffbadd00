"""The verbs that namespaces, tables and views share: a function for each, which makes its command for one kind."""

# without `from __future__ import annotations`, because the annotations of a command depend on the kind

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from olympia_cli.cli.options import (
    At,
    IfExists,
    InTxn,
    Message,
    Output,
    RetryFor,
    SetProperties,
    UnsetProperties,
    parse_properties,
)
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Changed, Session, TransactionView, View
from olympia_cli.errors import NamespaceNotFound, command_words
from olympia_cli.masking import masked
from olympia_cli.names import Kind, NamespaceName, ObjectName, full_name, parse_table, parse_view
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction

Command = Callable[..., None]


class Objects(NamedTuple):
    """A kind of objects, as the command line names them."""

    kind: Kind
    word: str
    group: str
    metavar: str
    parse: Callable[[str], ObjectName]

    def argument(self, metavar: str) -> Any:
        """Return the argument that names an existing object."""
        return typer.Argument(metavar=metavar, help=f"The {self.word}.")


NAMESPACES = Objects(Kind.NAMESPACE, "namespace", "ns", "NAME", NamespaceName)
TABLES = Objects(Kind.TABLE, "table", "table", "NS.T", parse_table)
VIEWS = Objects(Kind.VIEW, "view", "view", "NS.V", parse_view)

FromVersion = Annotated[
    str,
    typer.Option("--at", "--from", metavar="REF", help="Version to restore from."),
]


def list_command(objects: Objects, doc: str) -> Command:
    def ls(
        ctx: typer.Context,
        namespace: Annotated[str | None, typer.Argument(metavar="[NS]", help="Only this namespace.")] = None,
        at: At = None,
        txn: InTxn = None,
    ) -> None:
        session = Session(ctx)
        print_objects(session, session.view(at, txn), objects.kind, namespace)

    return documented(ls, doc)


def alter_command(objects: Objects, doc: str) -> Command:
    def alter(
        ctx: typer.Context,
        name: Annotated[str, objects.argument(objects.metavar)],
        set: SetProperties = None,
        unset: UnsetProperties = None,
        txn: InTxn = None,
        message: Message = "",
        retry_for: RetryFor = "60s",
    ) -> None:
        session, target, properties = Session(ctx), objects.parse(name), parse_properties(set)
        change = session.change(
            lambda transaction: statement(transaction, "alter", target)(target, properties, unset or ()),
            target,
            txn=txn,
            message=message,
            retry_for=retry_for,
        )
        render.changed(session, change, f"altered {objects.word} {target}")

    return documented(alter, doc)


def rename_command(objects: Objects, doc: str) -> Command:
    def rename(
        ctx: typer.Context,
        old: Annotated[str, objects.argument("OLD")],
        new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
        txn: InTxn = None,
        message: Message = "",
        retry_for: RetryFor = "60s",
    ) -> None:
        session, source, target = Session(ctx), objects.parse(old), objects.parse(new)
        change = session.change(
            lambda transaction: statement(transaction, "rename", source)(source, target),
            source,
            *with_namespace(target),
            txn=txn,
            message=message,
            retry_for=retry_for,
        )
        render.changed(session, change, f"renamed {objects.word} {source} to {target}")

    return documented(rename, doc)


def drop_command(objects: Objects, doc: str) -> Command:
    def drop(
        ctx: typer.Context,
        name: Annotated[str, objects.argument(objects.metavar)],
        if_exists: IfExists = False,
        txn: InTxn = None,
        message: Message = "",
        retry_for: RetryFor = "60s",
    ) -> None:
        session, target = Session(ctx), objects.parse(name)

        def do(transaction: "Transaction") -> None:
            if not if_exists or transaction.exists(target):
                statement(transaction, "drop", target)(target)

        change = session.change(do, target, txn=txn, message=message, retry_for=retry_for, again=if_exists)
        render.changed(session, change, f"dropped {objects.word} {target}")
        if session.is_tty:
            say_undo(session, objects, target, change)

    return documented(drop, doc)


def restore_command(objects: Objects, doc: str) -> Command:
    def restore(
        ctx: typer.Context,
        name: Annotated[str, objects.argument(objects.metavar)],
        at: FromVersion,
        txn: InTxn = None,
        message: Message = "",
        retry_for: RetryFor = "60s",
    ) -> None:
        from olympia_cli.catalog.snapshot import not_found

        session, target = Session(ctx), objects.parse(name)
        source = session.snapshot(at)
        former = source.get(target)
        if former is None:
            raise not_found(target, source.version)
        try:
            change = session.change(
                lambda transaction: transaction.restore(former, source.version),
                txn=txn,
                message=message,
                retry_for=retry_for,
            )
        except NamespaceNotFound as error:
            within = ["--txn", txn] if txn is not None else []
            words = ("ns", "restore", "--at", f"v{source.version}", *within)
            error.version, error.advice = None, "restore it with its tables and views"
            error.command = command_words(*words, names=[target.namespace])
            raise
        render.changed(session, change, f"restored {objects.word} {target} from v{source.version}")

    return documented(restore, doc)


def documented(command: Command, doc: str) -> Command:
    command.__doc__ = doc
    return command


def statement(transaction: "Transaction", verb: str, name: ObjectName) -> Callable[..., None]:
    """Return the statement of a transaction for objects of this name's kind: `rename_table`."""
    method: Callable[..., None] = getattr(transaction, f"{verb}_{name.kind.word}")
    return method


def with_namespace(name: ObjectName) -> tuple[ObjectName, ...]:
    """Return the name of a new table or view, after its namespace: a transaction looks up both."""
    return (name,) if name.kind is Kind.NAMESPACE else (NamespaceName(name.namespace), name)


def say_undo(session: Session, objects: Objects, name: ObjectName, change: Changed) -> None:
    """Print the command that brings a dropped object back, if a commit dropped it."""
    if change.version is not None and change.actions:
        undo = command_words(objects.group, "restore", "--at", f"v{change.version - 1}", names=[str(name)])
        session.say(f"to bring it back: {session.command(undo)}")


# Lists of objects. Names come from the tree; definitions are read only for `-o wide`.


def print_objects(session: Session, view: View, kind: Kind, namespace: str | None = None) -> None:
    """Print the objects of a kind, in a namespace or everywhere."""
    if session.output is Output.TABLE and not session.is_tty:
        # a fast path, because piped lists of names may be long
        with session.out() as out:
            if kind is Kind.NAMESPACE:
                render.write_lines(out, ((name.namespace,) for name in view.namespaces()))
            else:
                render.write_pairs(out, view.names_by_namespace(kind, namespace))
        return
    plural, title = f"{kind.word}s", kind.word.upper()
    columns = [Column("namespace", "NAMESPACE"), Column("name", title)][kind is Kind.NAMESPACE :]
    rows: Iterable[Mapping[str, Any]]
    if session.output is Output.WIDE:
        columns += [Column("id", "ID"), Column("age", "AGE", right=True), Column("last_version", "VERSION", right=True)]
        columns += [Column("location", "LOCATION")] if kind is Kind.TABLE else []
        rows = _wide_rows(session, view, kind, namespace)
    else:
        rows = (_row(name) for name in _names(view, kind, namespace))
    render.records(
        session,
        plural,
        columns,
        rows,
        head={"version": view.version},
        name=lambda row: row["name"] if kind is Kind.NAMESPACE else full_name(row["namespace"], row["name"]),
        title=plural,
    )


def _row(name: ObjectName) -> dict[str, Any]:
    if isinstance(name, NamespaceName):
        return {"name": name.namespace}
    return {"namespace": name.namespace, "name": name.name}


def _names(view: View, kind: Kind, namespace: str | None) -> Iterable[ObjectName]:
    if kind is Kind.NAMESPACE:
        return view.namespaces()
    return view.tables(namespace) if kind is Kind.TABLE else view.views(namespace)


def _wide_rows(session: Session, view: View, kind: Kind, namespace: str | None) -> Iterator[dict[str, Any]]:
    from olympia_cli.cli.output.log import age
    from olympia_cli.format.pb.objects_pb2 import TableDef

    objects = list(view.objects(kind, namespace))
    snapshot = view.snapshot if isinstance(view, TransactionView) else view
    last = inspect.last_changes(snapshot, [item.name for item in objects])
    now = session.catalog.clock.now_millis()
    for item in objects:
        row = {**_row(item.name), "id": item.id}
        entry = last.get(item.name)
        if entry is not None and entry.created_at_millis is not None:
            row |= {"age": age(entry.created_at_millis, now), "last_version": f"v{entry.version}"}
        if isinstance(item.definition, TableDef):
            row["location"] = masked(item.definition.iceberg_metadata_location)
        yield row
