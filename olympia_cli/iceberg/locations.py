"""Locations of table files: the only parser of them, and the folders that a caller may use.

A location is text that an engine wrote. `parse_location` reads it literally, as Iceberg does: `%3A` is part of a file
name, and so are `?` and `#`. Other parsers disagree about such characters. So `parse_plain_location` refuses every
location that two parsers could read differently, and `Location.plain_text` writes one that all of them read alike.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from olympia_cli.errors import InvalidLocation, Refused
from olympia_cli.format.paths import OWN_FOLDERS

LOCAL = "/"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Hadoop's names for the same store
_SAME = {"s3a": "s3", "s3n": "s3"}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?")
_AUTHORITIES = {
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _CONTAINER),
    **dict.fromkeys(("hdfs", "viewfs"), _HOST),
}
# also when they are escaped twice: a program may decode twice
_ESCAPED = re.compile(r"%(?:25)*(?:2[EeFf]|5[Cc])")
_DOUBTFUL = "?#\\"
_PATTERNS = "*[]"


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder of a table: a store, as `open_store` takes it, and a path on it."""

    store: str
    path: str
    root: str = field(default="", compare=False)
    """A folder above the path. Operations on the location cannot leave it, by links or otherwise."""

    @property
    def text(self) -> str:
        """The location as a URI, or as a path on this machine."""
        return f"/{self.path}" if self.store == LOCAL else f"{self.store}/{self.path}"

    @property
    def folder(self) -> tuple[str, str]:
        """The root as `open_store` takes it, and the path below it."""
        below = self.path.removeprefix(self.root).lstrip("/") if self.root else self.path
        return Location(self.store, self.root).text.rstrip("/") or LOCAL, below

    def is_below(self, folder: Location) -> bool:
        """Whether this is the folder, or lies in it."""
        inside = not folder.path or self.path == folder.path or self.path.startswith(f"{folder.path}/")
        return self.store == folder.store and inside

    def plain_text(self) -> str:
        """Return a spelling that every parser reads as this location. Raise InvalidLocation if there is none."""
        if self.store != LOCAL:
            if found := next((one for one in self.path if one in _DOUBTFUL + _PATTERNS or _is_control(one)), None):
                raise InvalidLocation(f"its location holds {found!a}, which programs read differently")
            _check_parts(self.path)
        return self.text


@lru_cache(maxsize=10_000)
def parse_location(text: str) -> Location:
    """Parse the location of a file, literally. Raise InvalidLocation if it names no file on any machine. The store may
    still be one that cannot be opened."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidLocation("its location is not text that a file's name can be")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    if scheme == "file":
        return _local(text[len("file:") :])
    if scheme and text.startswith("//", len(scheme) + 1):
        authority, _, path = text[len(scheme) + 3 :].partition("/")
        if not path or path.endswith("/"):
            raise InvalidLocation("its location is not that of a file")
        return Location(f"{_SAME.get(scheme, scheme)}://{authority}", path)
    return _local(text)


def _local(path: str) -> Location:
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidLocation("its location is on another machine")
        path = slash + rest
    if not path.startswith("/"):
        raise InvalidLocation("its location is relative, so it depends on where a program runs")
    if path.endswith("/"):
        raise InvalidLocation("its location is not that of a file")
    normal = os.path.normpath(path).lstrip("/")
    if not normal:
        raise InvalidLocation("its location is not that of a file")
    return Location(LOCAL, normal)


def parse_folder(text: str) -> Location:
    """Parse the location of a folder as `parse_location` does. A bucket is the folder of everything in it."""
    bare = text.rstrip("/")
    scheme, separator, rest = bare.partition("://")
    if separator and rest and "/" not in rest and scheme.lower() != "file":
        return Location(parse_location(f"{bare}/x").store, "")
    return Location(LOCAL, "") if text and not bare else parse_location(bare)


def parse_plain_location(text: str) -> Location:
    """Parse the location of a file or folder that a client names. Raise InvalidLocation, naming the character, if
    programs could read it as another place."""
    _check_characters(text)
    found = _SCHEME.match(text)
    if found is None:
        path = text
        if not path.startswith("/"):
            raise InvalidLocation("it is relative: begin it with a scheme or a slash")
    else:
        scheme, rest = found[1], text[found.end() :]
        if scheme != scheme.lower():
            raise InvalidLocation(f"its scheme {scheme!a} is not in lower case")
        if scheme == "s3n":
            raise InvalidLocation("programs no longer know s3n: write s3://")
        if scheme == "file":
            path = rest.removeprefix("//")
            if not path.startswith("/"):
                raise InvalidLocation("a file: location names no machine: write file:///folder")
        else:
            authority, slash, path = rest.removeprefix("//").partition("/")
            path = slash + path
            if not rest.startswith("//") or not _AUTHORITIES.get(scheme, _BUCKET).fullmatch(authority):
                # the text may hold a password, so it is not repeated
                raise InvalidLocation(f"a {scheme}: location begins with {scheme}:// and the name of a bucket")
            if not path:
                return parse_folder(text)
    _check_parts(path[1:])
    return parse_location(text)


def plain_folder(text: str) -> str:
    """Return a spelling of a folder that every parser reads alike: its own if that is one. InvalidLocation if there is
    none."""
    bare = text.rstrip("/")
    try:
        parse_plain_location(bare)
    except InvalidLocation:
        return parse_folder(text).plain_text()
    return bare


def _check_characters(text: str) -> None:
    for character in text:
        if character in _DOUBTFUL or _is_control(character):
            raise InvalidLocation(f"it holds {character!a}, which programs read differently")
    if found := _ESCAPED.search(text):
        raise InvalidLocation(f"it holds {found[0]!a}, which some programs decode to part of a path")


def _is_control(character: str) -> bool:
    # lone halves of a character, too: no file can have one in its name
    return unicodedata.category(character) in ("Cc", "Cs")


def _check_parts(path: str) -> None:
    """Raise InvalidLocation for a part that programs may fold away."""
    for part in path.split("/"):
        if part in ("", ".", ".."):
            shown = f"has a part {part!a}" if part else "has an empty part: '//'"
            raise InvalidLocation(f"it {shown}, which programs read differently")


@dataclass(frozen=True, slots=True)
class Reach:
    """The folders where a caller may have the files of tables."""

    folders: tuple[str, ...] | None = None
    """None stands for every place."""
    known: tuple[str, ...] = ()
    """Folders that the catalog, its operator or the table itself named. They are taken literally."""
    barred: tuple[str, ...] = ()
    """Folders with the catalog's own files. No table may be there."""

    def also(self, folders: Iterable[str]) -> Reach:
        """The same reach, and those of the folders that lie in it are taken literally."""
        return self._with(folder for folder in folders if self.folders is None or self.holds(folder))

    def of_object(self, metadata: str, folders: Iterable[str]) -> Reach:
        """The reach for an existing table or view, whose metadata file names these folders. A file in the caller's own
        folders may be of the caller's making, so it opens no folder outside of them."""
        is_own = self.folders is not None and self.holds(metadata)
        return self.also(folders) if is_own else self._with(folders)

    def _with(self, folders: Iterable[str]) -> Reach:
        known = (*self.known, *(folder for folder in folders if folder))
        return replace(self, known=tuple(dict.fromkeys(known)))

    def holds(self, text: str) -> bool:
        """Whether an existing file or folder lies in one of the folders."""
        return any(location.is_below(root) for _, location in _parsed((text,)) for _, root in self._roots)

    def named(self, text: str, what: str) -> Location:
        """Return the location that a client names. Raise InvalidLocation if programs could read it differently, and
        Refused if it is out of reach."""
        try:
            return self._named(text, what)
        except InvalidLocation as error:
            raise InvalidLocation(f"{what}: {error.message}", hint="") from None

    def _named(self, text: str, what: str) -> Location:
        if not text.strip("/"):
            raise InvalidLocation("it is empty")
        # a folder may end in one slash
        bare = text[:-1] if text.endswith("/") else text
        location = self._below_known(bare) or parse_plain_location(bare)
        if is_barred(location, self.barred):
            raise Refused(f"{what} is among the catalog's own files", hint="")
        for _, root in self._roots:
            if location.is_below(root):
                return Location(location.store, location.path, root.path)
        if self.folders is None:
            return location
        raise Refused(f"{what} is outside of what you may use here", hint="")

    def check_existing(self, text: str, what: str) -> None:
        """Raise Refused if an existing file is out of reach."""
        if self.folders is not None and not self.holds(text):
            raise Refused(f"{what} is outside of what you may use here", hint="")

    def existing(self, text: str) -> Location:
        """Return the location of a file that is there already, below one of the folders if it lies there."""
        location = parse_location(text)
        inside = (root.path for _, root in self._roots if location.is_below(root) and location != root)
        return Location(location.store, location.path, next(inside, ""))

    def _below_known(self, text: str) -> Location | None:
        """Parse a location whose text begins with a known folder: only the rest of it is the client's."""
        # the longest first: the folder of a table may have a name that programs read differently
        for folder, root in sorted(self._roots, key=lambda known: len(known[0]), reverse=True):
            if text == folder:
                return root
            if text.startswith(f"{folder}/"):
                below = text[len(folder) + 1 :]
                _check_characters(below)
                _check_parts(below)
                return Location(root.store, f"{root.path}/{below}".lstrip("/"))
        return None

    @property
    def _roots(self) -> tuple[tuple[str, Location], ...]:
        # the caller's own first: they are above the folders of tables
        return _parsed((*(self.folders or ()), *self.known))


ANYWHERE = Reach()


FOLDER_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


def folders_of(location: str, properties: Mapping[str, Any]) -> list[str]:
    """The folders that a table's or a view's metadata gives to its files."""
    return [location, *(str(properties[key]) for key in FOLDER_PROPERTIES if properties.get(key))]


def is_barred(location: Location, barred: Sequence[str]) -> bool:
    """Whether a location is in one of the barred folders."""
    return any(location.is_below(folder) for _, folder in _parsed(tuple(barred)))


def names_barred(folders: Sequence[str], barred: Sequence[str]) -> bool:
    """Whether one of the folders that metadata names is in a barred folder."""
    return any(is_barred(location, barred) for _, location in _parsed(tuple(folders)))


@lru_cache(maxsize=100)
def barred_folders(catalog: str) -> tuple[str, ...]:
    """Return the folders of a catalog's own files, given the URI of its store. A local catalog may be below a link."""
    places = (catalog,) if "://" in catalog else dict.fromkeys((catalog, os.path.realpath(catalog)))
    return tuple(f"{place.rstrip('/')}/{name}" for place in places for name in OWN_FOLDERS)


@lru_cache(maxsize=1_000)
def _parsed(folders: Sequence[str]) -> tuple[tuple[str, Location], ...]:
    """The folders as they are written, without a slash at the end, and what they are; those that are none are left
    out."""
    found = []
    for folder in folders:
        try:
            found.append((folder.rstrip("/"), parse_folder(folder)))
        except InvalidLocation:
            continue
    return tuple(found)
