"""Short ways to name objects in tests."""

from __future__ import annotations

from olympia_cli.format.pb.objects_pb2 import ViewDef
from olympia_cli.names import NamespaceName, TableName, ViewName, parse_table, parse_view


def ns(name: str) -> NamespaceName:
    return NamespaceName(name)


def table(text: str) -> TableName:
    """`a.t`"""
    return parse_table(text)


def view(text: str) -> ViewName:
    """`a.v`"""
    return parse_view(text)


def location(number: int = 0) -> str:
    """Return the location of some metadata file, which does not exist."""
    return f"s3://bucket/table/metadata/{number:05}.metadata.json"


def select(text: str = "select 1", **properties: str) -> ViewDef:
    return ViewDef(substrait_read_rel=text.encode(), properties=properties)
