"""The files that an export does not copy unchanged: its root, and sometimes its catalog definition."""

from __future__ import annotations

from dataclasses import replace

from olympia_cli.catalog.protection import without_protection
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged
from olympia_cli.format import definitions
from olympia_cli.format.node_file import decode_action_rows, decode_root, encode_root
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.export.note import Note


def own_definition(definition: CatalogDef) -> CatalogDef | None:
    """Return the definition for a full export, or None if the catalog's definition can be copied unchanged.

    A full export has no exports, no quarantine and no earlier versions, so the definition must not name them.
    """
    own = without_protection(definition)
    return None if own == definition else own


def own_definition_file(snapshot: Snapshot, path: str) -> bytes:
    """Return the encoded definition of `own_definition` for this path."""
    own = own_definition(snapshot.definition)
    assert own is not None
    return definitions.encode(definitions.body(own), path)


def exported_root(snapshot: Snapshot, note: Note) -> bytes:
    """Return the root of the export: the version's root, or one with a different path of the catalog definition."""
    file = snapshot.file
    if note.definition is None:
        return file.data
    root = replace(snapshot.root, catalog_def=note.definition, sizes=snapshot.sizes)
    return encode_root(root, decode_action_rows(file.data, file.path))


def same_root(ours: bytes, theirs: bytes, path: str) -> bool:
    """Return whether two files hold the same root. The files may differ in their Arrow encoding."""
    if ours == theirs:
        return True
    try:
        rows = [decode_action_rows(data, path) for data in (ours, theirs)]
        return decode_root(ours, path) == decode_root(theirs, path) and rows[0] == rows[1]
    except Damaged:
        return False
