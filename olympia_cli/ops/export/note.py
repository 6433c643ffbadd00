"""The scope of an export, and the note at its destination."""

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
    """The part of a version that an export copies. The rest is shared with the catalog.

    `depth` counts levels of nodes, with the root; None means all. `definitions` is true if the definitions of the
    copied nodes are copied too.
    """

    mode: Mode
    depth: int | None
    definitions: bool

    def copies(self, level: int, *, is_node: bool) -> bool:
        """Return whether the nodes of a level, or the definitions that they name, are copied."""
        return (is_node or self.definitions) and (self.depth is None or level <= self.depth)

    @property
    def shares(self) -> bool:
        """True if files of the catalog belong to the export."""
        return self.mode is not Mode.FULL


def scope(mode: Mode, depth: int | None = None, definitions: bool = True) -> Scope:
    """Return the scope for the options. Raise InvalidOption for options that contradict each other."""
    if mode is not Mode.PARTIAL:
        if depth is not None or not definitions:
            raise InvalidOption(
                f"a {mode} export takes neither a depth nor --no-definitions", hint="use --mode partial"
            )
        return Scope(mode, 1 if mode is Mode.MINIMAL else None, mode is Mode.FULL)
    if depth is None and definitions:
        raise InvalidOption("a partial export needs a depth", hint="add --depth N or --no-definitions")
    if depth is not None and depth < 1:
        raise InvalidOption(f"a depth of {depth} is too small", hint="depth 1 copies only the root")
    return Scope(mode, depth, definitions)


@dataclass(frozen=True, slots=True)
class Note:
    """The note at the destination. The process that creates it owns the destination.

    `definition` is the path of a full export's own catalog definition, if it needs one.
    """

    catalog: str
    source: str
    name: str
    version: int
    scope: Scope
    expires_at_millis: int | None
    definition: str | None
    id: str = field(default_factory=new_uuid)
    """Distinguishes two processes that create the same export at the same location."""

    def encode(self) -> bytes:
        fields = {"format": 1, **asdict(self)}
        scope = fields.pop("scope")
        return (json.dumps({**fields, **scope}, indent=1, sort_keys=True) + "\n").encode()


def read_note(store: Store) -> Note | None:
    """Return the note at a destination, or None if there is none. Raise Damaged if it cannot be parsed."""
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
    """Return the words of the command that resumes an export."""
    dest = ("--dest", location)
    # a name may look like an option
    return ("export", "resume", *((*dest, "--", name) if name.startswith("-") else (name, *dest)))


def resume_words(name: str, location: str) -> str:
    """Return that command, quoted for a shell."""
    return shlex.join(resume_command(name, location))
