"""What an export is meant to be: how much of a version it copies, and the note of it that lies at its destination."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from olympia_cli.errors import Damaged, InvalidOption, PathMissing
from olympia_cli.format.paths import EXPORT_NOTE, MAX_VERSION, check_pointer
from olympia_cli.format.strict_json import read_json
from olympia_cli.storage.protocol import Store
from olympia_cli.uuids import new_uuid


class Mode(StrEnum):
    FULL = "full"
    PARTIAL = "partial"
    MINIMAL = "minimal"


@dataclass(frozen=True, slots=True)
class Scope:
    """How much of a version is copied; the rest stays shared with the catalog.

    `depth` counts the levels of nodes, the root's included; None is all of them. The definitions that the copied nodes
    name are copied too, or none.
    """

    mode: Mode
    depth: int | None
    definitions: bool

    def copies(self, level: int, *, is_node: bool) -> bool:
        """Whether the nodes of a level are copied, or the definitions that they name."""
        return (is_node or self.definitions) and (self.depth is None or level <= self.depth)

    @property
    def shares(self) -> bool:
        """Whether files of the catalog belong to the export."""
        return self.mode is not Mode.FULL


def scope(mode: Mode, depth: int | None = None, definitions: bool = True) -> Scope:
    """What was asked for; InvalidOption when it makes no sense."""
    if mode is not Mode.PARTIAL:
        if depth is not None or not definitions:
            raise InvalidOption(
                f"a {mode} export has no depth and is never without definitions alone", hint="use --mode partial"
            )
        return Scope(mode, 1 if mode is Mode.MINIMAL else None, mode is Mode.FULL)
    if depth is None and definitions:
        raise InvalidOption("a partial export needs to know how far it goes", hint="add --depth N or --no-definitions")
    if depth is not None and depth < 1:
        raise InvalidOption(f"a depth of {depth} makes no sense", hint="the root alone is a depth of 1")
    return Scope(mode, depth, definitions)


@dataclass(frozen=True, slots=True)
class Note:
    """The file at the destination. Whoever creates it has the destination to himself.

    `definition` is where a full export has its catalog definition when it cannot be the catalog's own.
    """

    catalog: str
    source: str
    name: str
    version: int
    scope: Scope
    expires_at_millis: int | None
    definition: str | None
    id: str = field(default_factory=new_uuid)
    """Tells two processes apart that want the same export at the same place."""

    def encode(self) -> bytes:
        fields = {"format": 1, **asdict(self)}
        scope = fields.pop("scope")
        return (json.dumps({**fields, **scope}, indent=1, sort_keys=True) + "\n").encode()


def read_note(store: Store) -> Note | None:
    """The note at a destination, or None when there is none; Damaged when it cannot be read."""
    try:
        data = store.read(EXPORT_NOTE)
    except PathMissing:
        return None
    try:
        return _parse(read_json(data))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged("", EXPORT_NOTE, "it is not the note of an export", hint="") from None


def _parse(fields: dict[str, Any]) -> Note:
    def need(key: str, kind: Any) -> Any:
        value = fields[key]
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            raise ValueError
        return value

    depth = need("depth", int | None)
    note = Note(
        id=need("id", str),
        catalog=need("catalog", str),
        source=need("source", str),
        name=need("name", str),
        version=need("version", int),
        scope=Scope(Mode(need("mode", str)), depth, need("definitions", bool)),
        expires_at_millis=need("expires_at_millis", int | None),
        definition=need("definition", str | None),
    )
    if not 0 <= note.version <= MAX_VERSION or (depth is not None and depth < 1) or fields["format"] != 1:
        raise ValueError
    if note.definition is not None:
        check_pointer(note.definition, EXPORT_NOTE)
    return note


def resume_command(name: str, location: str) -> tuple[str, ...]:
    """The words of the command that goes on with an export."""
    dest = ("--dest", location)
    # a name may look like an option
    return ("export", "resume", *((*dest, "--", name) if name.startswith("-") else (name, *dest)))


def resume_words(name: str, location: str) -> str:
    """The same as a shell reads it."""
    return shlex.join(resume_command(name, location))
