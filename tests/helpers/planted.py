"""Locations with secrets, staged as an older program did. No statement takes them any more."""

from __future__ import annotations

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import body
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef, ViewDef, ViewFormat
from olympia_cli.names import TableName, ViewName, new_uuid
from tests.helpers.names import ns

SECRET = "S3KRET"


def place(path: str = "x") -> str:
    """A location with a secret wherever one can be."""
    query = f"X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}&X-Amz-Security-Token={SECRET}"
    return f"s3://AKIA:{SECRET}/+@lake/{path}?{query}#{SECRET}"


def metadata_location(number: int = 0) -> str:
    return place(f"t/metadata/{number:05}.metadata.json")


def create_table(
    transaction: Transaction, name: TableName, location: str, properties: dict[str, str] | None = None
) -> None:
    """Register a table at any location."""
    made = TableDef(id=new_uuid(), iceberg_metadata_location=location, properties=properties)
    transaction.do(Action(ActionType.TABLE_CREATE, name, body(made)))


def create_view(transaction: Transaction, name: ViewName) -> None:
    """An Iceberg view whose metadata has such a location."""
    made = ViewDef(id=new_uuid(), view_format=ViewFormat.ICEBERG_VIEW, iceberg_metadata_location=metadata_location())
    transaction.do(Action(ActionType.VIEW_CREATE, name, body(made)))


def plant_more(catalog: Catalog) -> None:
    """Commit a namespace and the record of an export that have such locations, too."""
    transaction = catalog.begin()
    made = NamespaceDef(id=new_uuid(), properties={"location": place("ns")})
    transaction.do(Action(ActionType.NAMESPACE_CREATE, ns("kept"), body(made)))
    export = ExportDef(name="old", location=place("e") + "/vn/00000000000000000007", mode="full", version=7)
    transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", export.SerializeToString()))
    catalog.commit(transaction, "planted")
