"""The reading half of the local store: resolve paths, read and list files, and translate errors.

No symbolic link is followed out of the root. Only regular files count as files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator

from olympia_cli.errors import (
    FileTooLarge,
    OlympiaError,
    OutcomeUnknown,
    PathMissing,
    PathOutside,
    StorageDenied,
    StorageFailed,
    StorageFull,
    StoreError,
)
from olympia_cli.storage.protocol import (
    ALL,
    TEMPORARY_PREFIX,
    Between,
    FileInfo,
    SizeLimit,
    check_path,
    is_between,
    largest,
)

# O_NONBLOCK: opening a FIFO in place of a file must not block
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_NO_FILE = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class LocalReader:
    """Read access to the files below a folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.size_limit: SizeLimit = largest
        self._uri = os.path.abspath(os.fspath(root))
        self._root = os.path.realpath(self._uri)
        self._base = self._root.rstrip("/") + "/"
        self._inside: set[str] = set()

    @property
    def uri(self) -> str:
        return self._uri

    def read(self, path: str) -> bytes:
        file, size = self._open(path)
        limit = self.size_limit(path)
        try:
            if size > limit:
                raise FileTooLarge.of(path, size, limit)
            # request one byte more than the size, so that a single call also detects the end of the file
            data = os.read(file, size + 1)
            if len(data) == size:
                return data
            parts, total = [data], len(data)
            while data:
                data = os.read(file, 1 << 20)
                parts.append(data)
                total += len(data)
                if total > limit:  # the file grows while it is read
                    raise FileTooLarge.of(path, None, limit)
            return b"".join(parts)
        except OSError as error:
            raise self._failed("read", path, error) from error
        finally:
            os.close(file)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        # with the page cache, reading sequentially is faster than any thread pool
        for path in paths:
            found: bytes | StoreError
            try:
                found = self.read(path)
            except (PathMissing, PathOutside, FileTooLarge, StorageFailed, StorageDenied) as error:
                found = error
            yield path, found

    def read_range(self, path: str, start: int, length: int) -> bytes:
        file, _ = self._open(path)
        try:
            parts = []
            while length > 0:
                part = os.pread(file, length, start)
                if not part:
                    break
                parts.append(part)
                start += len(part)
                length -= len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        except OSError as error:
            raise self._failed("read", path, error) from error
        finally:
            os.close(file)

    def exists(self, path: str) -> bool:
        found = self._look(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def stat(self, path: str) -> FileInfo:
        found = self._look(path)
        if found is None:
            raise self._missing(path)
        if not stat.S_ISREG(found.st_mode):
            raise self._no_file(path, found.st_mode)
        return FileInfo(path, found.st_size, found.st_mtime_ns // 1_000_000)

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        check_path(prefix + "x")
        top = prefix.rpartition("/")[0]
        if top:
            self._locate(prefix + "x")
            # the content of a linked folder is listed only at the folder's real path
            if os.path.realpath(self._base + top) != self._base + top:
                return
        folders = [top + "/" if top else ""]
        while folders:
            folder = folders.pop()
            try:
                opened = os.open(self._base + folder, FOLDER | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno in ABSENT or error.errno == errno.ELOOP:
                    continue
                raise self._failed("list", folder or "/", error) from error
            try:
                with os.scandir(opened) as entries:
                    for entry in entries:
                        path = folder + entry.name
                        if not path.startswith(prefix):
                            continue
                        try:
                            if entry.is_dir(follow_symlinks=False):
                                folders.append(path + "/")
                                continue
                            if not temporary and entry.name.startswith(TEMPORARY_PREFIX):
                                continue
                            if not is_between(path, between):
                                continue
                            found = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        yield FileInfo(path, found.st_size, found.st_mtime_ns // 1_000_000)
            except OSError as error:
                raise self._failed("list", folder or "/", error) from error
            finally:
                os.close(opened)

    # resolving paths

    def _locate(self, path: str) -> str:
        """Return the path on disk. Raise PathOutside if a folder on the way is a link out of the root."""
        folder = check_path(path).rpartition("/")[0]
        if folder not in self._inside:
            real = self._resolve(folder)
            # a missing folder is not cached: it may be created later as a link
            if os.path.isdir(real):
                self._inside.add(folder)
        return self._base + path

    def _resolve(self, path: str) -> str:
        """Return the real path, with links followed. Raise PathOutside if it is not below the root."""
        real = os.path.realpath(self._base + path)
        if real != self._root and not real.startswith(self._base):
            raise PathOutside(f"{path} in {self.uri} is a link to {real}, outside the root")
        return real

    def _open(self, path: str) -> tuple[int, int]:
        """Open the file. Return its descriptor and its size."""
        full, is_link = self._locate(path), False
        try:
            try:
                file = os.open(full, _READ)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                full, is_link = self._resolve(path), True
                file = os.open(full, _READ)
            found = os.fstat(file)
        except OSError as error:
            if error.errno in ABSENT:
                raise self._missing(path, is_link) from None
            raise self._refused("read", path, full, error, is_link) from error
        if not stat.S_ISREG(found.st_mode):
            os.close(file)
            raise self._no_file(path, found.st_mode, is_link)
        return file, found.st_size

    def _look(self, path: str) -> os.stat_result | None:
        full = self._locate(path)
        try:
            found = os.lstat(full)
            return os.lstat(self._resolve(path)) if stat.S_ISLNK(found.st_mode) else found
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise self._failed("look at", path, error) from error

    # translating errors

    def _missing(self, path: str, is_link: bool = False) -> PathMissing:
        text = f"{path} in {self.uri} is a dangling symbolic link" if is_link else f"no file {path} in {self.uri}"
        missing = PathMissing(text)
        missing.is_dangling = is_link
        return missing

    def _no_file(self, path: str, mode: int, is_link: bool = False) -> StorageFailed:
        # not PathMissing: the name is taken, so the file cannot be created
        what = _NO_FILE.get(stat.S_IFMT(mode), "something that is no regular file")
        if is_link:
            what = "a link in a circle" if stat.S_ISLNK(mode) else f"a link to {what}"
        error = StorageFailed(f"{what} stands at {path} in {self.uri}", hint="move it away")
        error.is_no_file, error.is_folder = True, stat.S_ISDIR(mode) and not is_link
        return error

    def _refused(self, doing: str, path: str, full: str, error: OSError, is_link: bool = False) -> OlympiaError:
        """Return the error for a file that cannot be opened: the kind of object at the path, or the system's reason."""
        with contextlib.suppress(OSError):
            mode = os.lstat(full).st_mode
            if not stat.S_ISREG(mode):
                return self._no_file(path, mode, is_link)
        return self._failed(doing, path, error)

    def _unknown(self, path: str, error: OSError) -> OutcomeUnknown:
        unknown = OutcomeUnknown(f"the write of {path} in {self.uri} may not be durable: {error.strerror}")
        unknown.is_fleeting = True
        return unknown

    def _failed(self, doing: str, path: str, error: OSError) -> OlympiaError:
        message = f"cannot {doing} {path} in {self.uri}: {error.strerror}"
        if error.errno in DENIED:
            return StorageDenied(message)
        if error.errno in FULL:
            return StorageFull(message)
        if error.errno == errno.ENAMETOOLONG:
            return StorageFailed(message, hint="use a shorter name")
        return StorageFailed(message)
