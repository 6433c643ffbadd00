"""Checks of the destination of an export."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from olympia_cli.errors import InvalidLocation, LocationNotEmpty, PathTaken
from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.export.note import read_note, resume_words
from olympia_cli.storage.protocol import Store


def check_apart(source: str, dest: str) -> None:
    """Raise InvalidLocation if the catalog and the destination contain each other."""
    if "://" not in source and "://" not in dest:
        # only the system can compare paths: symbolic links, bind mounts, case-insensitive filesystems
        inside, around = path_below(dest, source) is not None, path_below(source, dest) is not None
    else:
        # no check for a catalog below the destination: `check_empty` finds its files
        inside, around = f"{dest}/".startswith(f"{source.rstrip('/')}/") and dest != source, False
    if inside or around:
        what = "lies inside the catalog" if inside else "holds the catalog"
        raise InvalidLocation(f"the destination {dest} {what} {source}", hint="choose a location outside the catalog")


def is_same_place(one: str, other: str) -> bool:
    """Return whether two URIs of stores name the same location."""
    local = "://" not in one and "://" not in other
    return one == other or (local and path_below(one, other) == ".")


def path_below(path: str, folder: str) -> str | None:
    """Return the path relative to a folder, `.` for the folder itself, or None if the path is outside."""
    real = Path(os.path.realpath(path))
    for here in (real, *real.parents):
        # a path that does not exist has no folder to compare
        with suppress(OSError):
            if os.path.samefile(here, folder):
                return str(real.relative_to(here))
    return None


def check_empty(dest: Store) -> None:
    """Raise LocationNotEmpty if the destination has files. If it holds an export, advise how to resume that."""
    for file in dest.list():
        note = read_note(dest)
        if note is not None:
            raise LocationNotEmpty(
                f"{dest.uri} holds the export {note.name!a} of version {note.version}",
                hint=f"choose an empty folder or prefix, or resume with: {resume_words(note.name, dest.uri)}",
            )
        raise LocationNotEmpty(f"{dest.uri} is not empty: it holds {file.path!a}")


def check_alone(dest: Store, version: int) -> None:
    """Raise PathTaken if the destination has versions before this one, which only another process can have written."""
    for file in dest.list("vn/"):
        earlier = parse_root_path(file.path)
        if earlier is not None and earlier < version:
            raise PathTaken(
                f"another process wrote version {earlier} to {dest.uri} meanwhile",
                hint="nothing was recorded; export to an empty location",
            )
