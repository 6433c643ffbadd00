"""What a place must be like that a copy of a catalog goes to."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from olympia_cli.errors import InvalidLocation, LocationNotEmpty, PathTaken
from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.export.note import read_note, resume_words
from olympia_cli.storage.protocol import Store


def check_apart(source: str, dest: str) -> None:
    """Raise unless a catalog and the place that a copy of it goes to lie outside each other."""
    if "://" not in source and "://" not in dest:
        # links, bind mounts and filesystems that do not care about case: only the system knows what is the same
        inside, around = path_below(dest, source) is not None, path_below(source, dest) is not None
    else:
        # a catalog below the destination shows in its listing
        inside, around = f"{dest}/".startswith(f"{source.rstrip('/')}/") and dest != source, False
    if inside or around:
        what = "lies inside the catalog" if inside else "holds the catalog"
        raise InvalidLocation(f"the destination {dest} {what} {source}", hint="choose a place of its own")


def is_same_place(one: str, other: str) -> bool:
    """Whether two URIs of stores name one place."""
    local = "://" not in one and "://" not in other
    return one == other or (local and path_below(one, other) == ".")


def path_below(path: str, folder: str) -> str | None:
    """The path from a folder on, `.` for the folder itself; None if the path does not lead there."""
    real = Path(os.path.realpath(path))
    for here in (real, *real.parents):
        # one that is not there yet is no folder's
        with suppress(OSError):
            if os.path.samefile(here, folder):
                return str(real.relative_to(here))
    return None


def check_empty(dest: Store) -> None:
    """Raise LocationNotEmpty if anything is there; of another export, how to go on with it."""
    for file in dest.list():
        note = read_note(dest)
        if note is not None:
            raise LocationNotEmpty(
                f"{dest.uri} holds the export {note.name!a} of version {note.version}",
                hint=f"choose an empty folder or prefix, or go on with: {resume_words(note.name, dest.uri)}",
            )
        raise LocationNotEmpty(f"{dest.uri} is not empty: it holds {file.path!a}")


def check_alone(dest: Store, version: int) -> None:
    """Raise unless the destination has no versions before this one: another process would have made them."""
    for file in dest.list("vn/"):
        earlier = parse_root_path(file.path)
        if earlier is not None and earlier < version:
            raise PathTaken(
                f"another process wrote version {earlier} to {dest.uri} meanwhile",
                hint="nothing was recorded; export to a place of its own",
            )
