"""Parse locations of table files, and limit them to the folders that a caller may use.

A location is text that an engine wrote. `parse_location` reads it literally, as Iceberg does: `%3A`, `?` and `#` are
part of a file name. Other parsers read these characters differently. So `parse_plain_location` rejects every location
that two parsers could read differently, and `Location.plain_text` returns a spelling that all parsers read alike.
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
# Hadoop's schemes for S3
_SAME = {"s3a": "s3", "s3n": "s3"}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?")
_AUTHORITIES = {
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _CONTAINER),
    **dict.fromkeys(("hdfs", "viewfs"), _HOST),
}
# also matches double escapes, because a program may decode twice
_ESCAPED = re.compile(r"%(?:25)*(?:2[EeFf]|5[Cc])")
_DOUBTFUL = "?#\\"
_PATTERNS = "*[]"


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder of a table: a store, in the form for `open_store`, and a path on it."""

    store: str
    path: str
    root: str = field(default="", compare=False)
    """A folder above the path, which operations on the location cannot leave, not even through links."""

    @property
    def text(self) -> str:
        """The location as a URI, or as a local path."""
        return f"/{self.path}" if self.store == LOCAL else f"{self.store}/{self.path}"

    @property
    def folder(self) -> tuple[str, str]:
        """The root in the form for `open_store`, and the path below it."""
        below = self.path.removeprefix(self.root).lstrip("/") if self.root else self.path
        return Location(self.store, self.root).text.rstrip("/") or LOCAL, below

    def is_below(self, folder: Location) -> bool:
        """Return True if the location is the folder or inside it."""
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
    """Parse the location of a file literally. Raise InvalidLocation if it names no file on any machine.

    The store may still be one that cannot be opened.
    """
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
    """Parse the location of a folder as `parse_location` does. A bucket is the folder of all its objects."""
    bare = text.rstrip("/")
    scheme, separator, rest = bare.partition("://")
    if separator and rest and "/" not in rest and scheme.lower() != "file":
        return Location(parse_location(f"{bare}/x").store, "")
    return Location(LOCAL, "") if text and not bare else parse_location(bare)


def parse_plain_location(text: str) -> Location:
    """Parse the location of a file or folder that a client names.

    Raise InvalidLocation, naming the character, if programs could read it as another location.
    """
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
                # do not repeat the text: it may hold a password
                raise InvalidLocation(f"a {scheme}: location begins with {scheme}:// and the name of a bucket")
            if not path:
                return parse_folder(text)
    _check_parts(path[1:])
    return parse_location(text)


def plain_folder(text: str) -> str:
    """Return a spelling of a folder that every parser reads alike, its own if possible. Raise InvalidLocation if there
    is none.
    """
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
    # also unpaired surrogates, which no file name can hold
    return unicodedata.category(character) in ("Cc", "Cs")


def _check_parts(path: str) -> None:
    """Raise InvalidLocation for a part that programs may normalize away."""
    for part in path.split("/"):
        if part in ("", ".", ".."):
            shown = f"has a part {part!a}" if part else "has an empty part: '//'"
            raise InvalidLocation(f"it {shown}, which programs read differently")


@dataclass(frozen=True, slots=True)
class Reach:
    """The folders in which a caller may use files of tables."""

    folders: tuple[str, ...] | None = None
    """The caller's own folders. None means no limit."""
    known: tuple[str, ...] = ()
    """Folders that the catalog, its operator or the table itself names. They are read literally."""
    barred: tuple[str, ...] = ()
    """Folders with the catalog's own files, where no table may be."""

    def also(self, folders: Iterable[str]) -> Reach:
        """Return the same reach, with those of the folders inside it to be read literally."""
        return self._with(folder for folder in folders if self.folders is None or self.holds(folder))

    def of_object(self, metadata: str, folders: Iterable[str]) -> Reach:
        """Return the reach for an existing table or view whose metadata file names these folders.

        A file in the caller's own folders may be the caller's work, so it opens no folder outside of them.
        """
        is_own = self.folders is not None and self.holds(metadata)
        return self.also(folders) if is_own else self._with(folders)

    def _with(self, folders: Iterable[str]) -> Reach:
        known = (*self.known, *(folder for folder in folders if folder))
        return replace(self, known=tuple(dict.fromkeys(known)))

    def holds(self, text: str) -> bool:
        """Return True if an existing file or folder is in one of the folders."""
        return any(location.is_below(root) for _, location in _parsed((text,)) for _, root in self._roots)

    def named(self, text: str, what: str) -> Location:
        """Return the location that a client names. Raise InvalidLocation if programs could read it differently.

        Raise Refused if it is out of reach.
        """
        try:
            return self._named(text, what)
        except InvalidLocation as error:
            raise InvalidLocation(f"{what}: {error.message}", hint="") from None

    def _named(self, text: str, what: str) -> Location:
        if not text.strip("/"):
            raise InvalidLocation("it is empty")
        # a folder may end with one slash
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
        """Return the location of an existing file, with the folder that contains it, if any, as its root."""
        location = parse_location(text)
        inside = (root.path for _, root in self._roots if location.is_below(root) and location != root)
        return Location(location.store, location.path, next(inside, ""))

    def _below_known(self, text: str) -> Location | None:
        """Parse a location that begins with the text of a known folder. Only the rest is the client's text."""
        # longest first; the name of a table's folder may be one that programs read differently
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
        # the caller's own folders first: they contain the folders of tables
        return _parsed((*(self.folders or ()), *self.known))


ANYWHERE = Reach()


FOLDER_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


def folders_of(location: str, properties: Mapping[str, Any]) -> list[str]:
    """Return the folders that the metadata of a table or view assigns to its files."""
    return [location, *(str(properties[key]) for key in FOLDER_PROPERTIES if properties.get(key))]


def is_barred(location: Location, barred: Sequence[str]) -> bool:
    """Return True if the location is in one of the barred folders."""
    return any(location.is_below(folder) for _, folder in _parsed(tuple(barred)))


def names_barred(folders: Sequence[str], barred: Sequence[str]) -> bool:
    """Return True if one of the folders is in a barred folder."""
    return any(is_barred(location, barred) for _, location in _parsed(tuple(folders)))


@lru_cache(maxsize=100)
def barred_folders(catalog: str) -> tuple[str, ...]:
    """Return the folders of a catalog's own files, given the URI of its store. A local catalog may be below a link."""
    places = (catalog,) if "://" in catalog else dict.fromkeys((catalog, os.path.realpath(catalog)))
    return tuple(f"{place.rstrip('/')}/{name}" for place in places for name in OWN_FOLDERS)


@lru_cache(maxsize=1_000)
def _parsed(folders: Sequence[str]) -> tuple[tuple[str, Location], ...]:
    """Return the text of each folder, without a final slash, and its location. Invalid folders are skipped."""
    found = []
    for folder in folders:
        try:
            found.append((folder.rstrip("/"), parse_folder(folder)))
        except InvalidLocation:
            continue
    return tuple(found)
