"""Options that define a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from olympia_cli.format.pb.objects_pb2 import Column, ViewDef

Plan = Annotated[str, typer.Option("--plan", metavar="FILE", help="File with the serialized Substrait ReadRel.")]
ViewSchema = Annotated[
    str, typer.Option("--schema", metavar="COLUMNS", help="Columns, such as 'id long, name string, paid decimal?'.")
]
References = Annotated[
    list[str] | None,
    typer.Option("--refers-to", metavar="NS.T", help="Table or view that the view reads; may be given several times."),
]
DefaultNamespace = Annotated[
    str, typer.Option("--default-namespace", metavar="NS", help="Namespace for names without one.")
]
SchemaBinding = Annotated[bool, typer.Option("--schema-binding", help="Bind the view to the schema it has now.")]

_WORDS = {"int": "int4", "integer": "int4", "long": "int8", "bigint": "int8", "short": "int2", "smallint": "int2"}
_WORDS |= {"float": "float4", "double": "float8", "string": "varchar", "text": "varchar", "bool": "boolean"}
_WORDS |= {"timestamp": "timestamp6", "timestamptz": "timestamptz6", "time": "time6", "bytes": "binary"}


def make_view(
    plan: str,
    schema: str,
    refers_to: list[str] | None,
    default_namespace: str,
    schema_binding: bool,
    properties: dict[str, str],
) -> ViewDef:
    """Make a view's definition. The view gets its id when it is created."""
    from olympia_cli.format.pb.objects_pb2 import NamespaceObjectFullName, Schema, ViewDef
    from olympia_cli.names import check_name, parse_table

    if default_namespace:
        check_name(default_namespace, "namespace")
    names = [parse_table(text) for text in refers_to or []]
    return ViewDef(
        schema_binding=schema_binding,
        schema=Schema(columns=_columns(schema)) if schema else None,
        default_namespace_name=default_namespace,
        referenced_object_full_names=[
            NamespaceObjectFullName(namespace_name=name.namespace, name=name.name) for name in names
        ],
        properties=properties,
        substrait_read_rel=_read_plan(plan),
    )


def _read_plan(path: str) -> bytes:
    import sys

    from olympia_cli.errors import InvalidOption, quoted

    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidOption(
            f"the plan {quoted(path, 200)} cannot be read: {error.strerror}", hint="give a file"
        ) from None


def _columns(text: str) -> list[Column]:
    """Parse `name type` pairs. A type that ends in ? is nullable."""
    from olympia_cli.errors import InvalidOption, quoted
    from olympia_cli.format.pb.objects_pb2 import Column, DataType

    columns: list[Column] = []
    for number, part in enumerate(text.split(","), 1):
        words = part.split()
        if len(words) != 2:
            raise InvalidOption(f"{quoted(part.strip())} is not a column", hint="write 'id long, name string?'")
        try:
            words[0].encode()
        except UnicodeEncodeError:
            raise InvalidOption(f"the column {quoted(words[0])} is not valid Unicode", hint="") from None
        word = words[1].lower()
        name = _WORDS.get(word.rstrip("?"), word.rstrip("?")).upper()
        if name not in list(DataType.keys()):
            raise InvalidOption(f"{quoted(words[1])} is not a type", hint="use " + ", ".join(sorted(_WORDS)))
        columns.append(Column(id=number, name=words[0], type=name, nullable=word.endswith("?")))
    return columns
