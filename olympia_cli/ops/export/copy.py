"""What an export has of its own: its root, and where it needs one a definition of the catalog."""

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
    """The definition of a full export where it cannot be the catalog's own; None where it can.

    A catalog of its own has no exports, no quarantine and no past: what they name is not there. Everything else stays.
    """
    own = without_protection(definition)
    return None if own == definition else own


def own_definition_file(snapshot: Snapshot, path: str) -> bytes:
    """That definition as the file at a path."""
    own = own_definition(snapshot.definition)
    assert own is not None
    return definitions.encode(definitions.body(own), path)


def exported_root(snapshot: Snapshot, note: Note) -> bytes:
    """The root as the export has it: the version's own, or one that differs in where its definition is."""
    file = snapshot.file
    if note.definition is None:
        return file.data
    root = replace(snapshot.root, catalog_def=note.definition, sizes=snapshot.sizes)
    return encode_root(root, decode_action_rows(file.data, file.path))


def same_root(ours: bytes, theirs: bytes, path: str) -> bool:
    """Whether two files hold the same root, whatever the Arrow library made of it."""
    if ours == theirs:
        return True
    try:
        rows = [decode_action_rows(data, path) for data in (ours, theirs)]
        return decode_root(ours, path) == decode_root(theirs, path) and rows[0] == rows[1]
    except Damaged:
        return False
