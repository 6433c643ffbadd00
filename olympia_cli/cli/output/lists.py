"""Printing lists of objects. Names come from the tree; definitions are read only for `-o wide`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.log import age
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session, TransactionView, View
from olympia_cli.masking import masked
from olympia_cli.names import Kind, NamespaceName, ObjectName, full_name
from olympia_cli.ops import inspect


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
