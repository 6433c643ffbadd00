"""Iceberg tables: checks and inventories of their files, and a catalog for PyIceberg.

Names in `__all__` are loaded on first access. `OlympiaCatalog` and all changes of tables need the extra `iceberg`;
reading tables works without PyIceberg.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.iceberg.appends import (
        Destination,
        commit_append,
        destination,
        folder_store,
        give_up_append,
        partly_done,
        was_done,
        write_rows,
    )
    from olympia_cli.iceberg.avro import AvroRecords
    from olympia_cli.iceberg.catalog import OlympiaCatalog, check_no_table, folder_of, view_definition
    from olympia_cli.iceberg.changes import (
        PlannedUpdate,
        TableChanges,
        TableState,
        check_no_view,
        check_property_locations,
        decode_metadata,
        encode_metadata,
        outcome_unknown,
        plan_update,
        read_document,
    )
    from olympia_cli.iceberg.columns import (
        Alteration,
        alter,
        columns_told,
        parse_column,
        parse_schema,
        partition_spec,
        read_schema_text,
        sort_order,
    )
    from olympia_cli.iceberg.conversion import identifier_of, told_as_ours, translated
    from olympia_cli.iceberg.data_checks import IcebergDataChecks
    from olympia_cli.iceberg.files import Delete, MetadataFiles, TableFiles, create_in
    from olympia_cli.iceberg.format_v3 import V3, NewDataFile, encode_v3, to_json, with_snapshot
    from olympia_cli.iceberg.internals import apply_updates, change_file_properties, schema_without_ids
    from olympia_cli.iceberg.inventory import OF_FILES, OF_TABLES, TABLE, take_inventory
    from olympia_cli.iceberg.locations import (
        ANYWHERE,
        LOCAL,
        Location,
        Reach,
        barred_folders,
        folders_of,
        parse_location,
    )
    from olympia_cli.iceberg.manifests import files_of, verify_metadata
    from olympia_cli.iceberg.metadata import describe_metadata
    from olympia_cli.iceberg.rows import check_folder, first_rows, read_files, write_folder
    from olympia_cli.iceberg.settings import (
        LOADS_CODE,
        LOCATION_PROVIDER,
        io_properties,
        same_sdk,
        trusted,
        without_code,
    )
    from olympia_cli.iceberg.transaction import CatalogTransaction

__all__ = [
    "ANYWHERE",
    "LOADS_CODE",
    "LOCAL",
    "LOCATION_PROVIDER",
    "OF_FILES",
    "OF_TABLES",
    "TABLE",
    "V3",
    "Alteration",
    "AvroRecords",
    "CatalogTransaction",
    "Delete",
    "Destination",
    "IcebergDataChecks",
    "Location",
    "MetadataFiles",
    "NewDataFile",
    "OlympiaCatalog",
    "PlannedUpdate",
    "Reach",
    "TableChanges",
    "TableFiles",
    "TableState",
    "alter",
    "apply_updates",
    "barred_folders",
    "change_file_properties",
    "check_folder",
    "check_no_table",
    "check_no_view",
    "check_property_locations",
    "columns_told",
    "commit_append",
    "create_in",
    "decode_metadata",
    "describe_metadata",
    "destination",
    "encode_metadata",
    "encode_v3",
    "files_of",
    "first_rows",
    "folder_of",
    "folder_store",
    "folders_of",
    "give_up_append",
    "identifier_of",
    "io_properties",
    "outcome_unknown",
    "parse_column",
    "parse_location",
    "parse_schema",
    "partition_spec",
    "partly_done",
    "plan_update",
    "read_document",
    "read_files",
    "read_schema_text",
    "same_sdk",
    "schema_without_ids",
    "sort_order",
    "take_inventory",
    "to_json",
    "told_as_ours",
    "translated",
    "trusted",
    "verify_metadata",
    "view_definition",
    "was_done",
    "with_snapshot",
    "without_code",
    "write_folder",
    "write_rows",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
