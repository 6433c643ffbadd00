"""A store in a local folder, or on a file server that supports hard links.

Files are created in this order, so that a crash at any point leaves either no file or the complete file:

1. Write the content to `.tmp-<uuid4>` in the same folder.
2. fsync that file.
3. Create a hard link under the final name. It fails if the name is taken. From here on the file exists.
4. fsync the folder.
5. Delete the temporary name.

For files that are created together, each step finishes for all files before the next step begins. The fsyncs of a
step run in parallel. If one file fails, all of them fail.

A crash between 1 and 5 leaves a `.tmp-…` file, which readers ignore. There is no fallback to O_EXCL on the final name:
readers would see incomplete files, and a crashed writer would block the name for good.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from olympia_cli.errors import (
    ExclusiveCreateUnsupported,
    FileTooLarge,
    OlympiaError,
    OutcomeUnknown,
    PathMissing,
    PathOutside,
    PathTaken,
    StorageDenied,
    StorageFailed,
    StorageFull,
    StoreError,
)
from olympia_cli.names import new_uuid
from olympia_cli.storage.protocol import (
    ALL,
    LEAST_LIMIT,
    PLAIN_PATH,
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

_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_WRITE_HINT = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
# errors of a link or rename that changed nothing; after any other error the name may exist already
_REFUSED = (ABSENT | DENIED | FULL) | {
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOTEMPTY,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EINVAL,
}

T = TypeVar("T")

THREADS = 32
"""The number of threads that may wait for the disk at once. A blocked thread costs little."""

# All files of a slice are written before the first is synced, so that one journal commit covers many. Few files are a
# slice each, so that their syncs run in parallel. All threads together hold at most 128 open files.
_SLICE = 128 // THREADS
_LINK_ATTEMPTS = 10


_NO_NAMES = ("", ".", "..")


class _Write(NamedTuple):
    path: str
    folder: int
    temporary: str
    data: bytes


class LocalStore:
    """Files below a folder. The first write creates a missing root.

    No symbolic link is followed out of the root. Only regular files count as files.
    """

    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.size_limit: SizeLimit = largest
        self.lost_hints: dict[str, OlympiaError] = {}
        self._durable = durable
        self._uri = os.path.abspath(os.fspath(root))
        self._root = os.path.realpath(self._uri)
        self._base = self._root.rstrip("/") + "/"
        self._inside: set[str] = set()

    @property
    def uri(self) -> str:
        return self._uri

    # reading

    def read(self, path: str) -> bytes:
        file, size = self._open(path)
        try:
            if size > LEAST_LIMIT and size > (limit := self.size_limit(path)):
                raise FileTooLarge.of(path, size, limit)
            # request one byte more than the size, so that a single call also detects the end of the file
            data = os.read(file, size + 1)
            if len(data) == size:
                return data
            limit, parts, total = self.size_limit(path), [data], len(data)
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
                            if between != ALL and not is_between(path, between):
                                continue
                            found = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        yield FileInfo(path, found.st_size, found.st_mtime_ns // 1_000_000)
            except OSError as error:
                raise self._failed("list", folder or "/", error) from error
            finally:
                os.close(opened)

    # writing

    def create(self, path: str, data: bytes) -> None:
        self.create_many({path: data})

    def create_many(self, files: Mapping[str, bytes]) -> None:
        with self._writes(files.items()) as writes:
            self._write(writes)
            self._give_names(writes)

    def create_after(self, files: Mapping[str, bytes], path: str, data: bytes, ready: Callable[[], None]) -> None:
        # the last file is synced together with the others, which saves one wait
        with self._writes([*files.items(), (path, data)]) as writes:
            self._write(writes)
            self._give_names(writes[:-1])
            ready()
            self._give_names(writes[-1:])

    def overwrite(self, path: str, data: bytes) -> None:
        self._locate(path)
        folder = self._open_folder(path)
        write = _Write(path, folder, TEMPORARY_PREFIX + new_uuid(), data)
        try:
            self._write([write])
            try:
                os.replace(write.temporary, _name(path), src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                if _is_folder(self._base + path):
                    raise self._no_file(path, stat.S_IFDIR) from error
                if error.errno in _REFUSED:
                    raise self._failed("replace", path, error) from error
                raise self._unknown(path, error) from error
            self._sync_folder((path.rpartition("/")[0], folder))
            self.lost_hints.pop(path, None)
        except BaseException:
            _remove(write)
            raise
        finally:
            os.close(folder)

    def write_hint(self, path: str, data: bytes) -> None:
        if not PLAIN_PATH.fullmatch(path):
            check_path(path)
        try:
            self._write_in_place(path, data)
            self.lost_hints.pop(path, None)
        except OSError as error:
            self.lost_hints[path] = self._refused("write", path, self._base + path, error)
        except (PathOutside, StorageFailed, StorageDenied, OutcomeUnknown) as error:
            self.lost_hints[path] = error

    def _write_in_place(self, path: str, data: bytes) -> None:
        full = self._locate(path)
        try:
            file = os.open(full, _WRITE_HINT, 0o666)
        except FileNotFoundError:
            os.close(self._open_folder(path))
            file = os.open(full, _WRITE_HINT, 0o666)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise self._no_file(path, found.st_mode)
            if found.st_nlink > 1:
                # the file has other hard links, which a backup may hold
                self.overwrite(path, data)
                return
            # truncate last, so that a concurrent reader sees too many bytes rather than none
            written = 0
            while written < len(data):
                written += os.pwrite(file, data[written:], written)
            os.ftruncate(file, len(data))
        finally:
            os.close(file)

    def delete_many(self, paths: Iterable[str]) -> None:
        touched: set[str] = set()
        for path in paths:
            full = self._locate(path)
            try:
                os.unlink(full)
            except OSError as error:
                if error.errno in ABSENT:
                    continue
                if _is_folder(full):
                    raise self._no_file(path, stat.S_IFDIR) from error
                raise self._failed("delete", path, error) from error
            touched.add(path.rpartition("/")[0])
        for folder in touched if self._durable else ():
            try:
                opened = os.open(self._base + folder, FOLDER)
            except OSError as error:
                raise self._unknown(folder or "/", error) from error
            try:
                self._sync_folder((folder, opened))
            finally:
                os.close(opened)

    def close(self) -> None:
        pass

    # the steps of a write

    @contextlib.contextmanager
    def _writes(self, files: Iterable[tuple[str, bytes]]) -> Iterator[Sequence[_Write]]:
        """Open the folders of the files to write. On exit, delete the temporary files and close the folders."""
        files = list(files)
        for path, _ in files:
            self._locate(path)
        folders: dict[str, int] = {}
        writes: list[_Write] = []
        try:
            temporary = [TEMPORARY_PREFIX + new_uuid() for _ in files]
            for (path, data), name in zip(files, temporary, strict=True):
                folder = path.rpartition("/")[0]
                if folder not in folders:
                    folders[folder] = self._open_folder(path)
                writes.append(_Write(path, folders[folder], name, data))
            yield writes
        finally:
            for write in writes:
                _remove(write)
            for opened in folders.values():
                os.close(opened)

    def _give_names(self, writes: Sequence[_Write]) -> None:
        """Do steps 3 and 4 for all files."""
        for write in writes:
            self._link(write)
        if self._durable:
            together(self._sync_folder, list({write.path.rpartition("/")[0]: write.folder for write in writes}.items()))

    def _open_folder(self, path: str) -> int:
        """Open the folder of a path, and create it if it is missing.

        The folder is opened before any write, so that a folder that cannot be synced fails early.
        """
        full = os.path.dirname(self._base + path)
        try:
            try:
                return os.open(full, FOLDER)
            except FileNotFoundError:
                self._make_folder(full)
                return os.open(full, FOLDER)
        except OSError as error:
            raise self._failed("write", path, error) from error

    def _make_folder(self, full: str) -> None:
        missing = [full]
        tried: set[str] = set()
        while missing:
            try:
                os.mkdir(missing[-1], 0o777)
            except FileNotFoundError:
                if missing[-1] in tried:
                    raise  # the parent exists, but this filesystem does not create folders
                tried.add(missing[-1])
                missing.append(os.path.dirname(missing[-1]))
                continue
            except FileExistsError:
                pass  # another process has just created the folder, and may not have synced it yet
            made = missing.pop()
            if self._durable:
                # sync at once, before any file in the new folder counts as durable
                parent = os.open(os.path.dirname(made), FOLDER)
                try:
                    _sync(parent)
                finally:
                    os.close(parent)

    def _write(self, writes: Sequence[_Write]) -> None:
        """Do steps 1 and 2 for all files. The caller deletes the temporary files in any case."""
        if self._durable:
            size = min(_SLICE, max(1, len(writes) // 8))
            together(self._write_slice, [writes[at : at + size] for at in range(0, len(writes), size)])
        else:
            for at in range(0, len(writes), _SLICE):
                self._write_slice(writes[at : at + _SLICE])

    def _write_slice(self, writes: Sequence[_Write]) -> None:
        opened: list[int] = []
        write = writes[0]
        try:
            for write in writes:
                file = os.open(write.temporary, _WRITE_NEW, 0o666, dir_fd=write.folder)
                opened.append(file)
                rest = memoryview(write.data)
                while rest:
                    rest = rest[os.write(file, rest) :]
            while opened:
                write = writes[-len(opened)]
                if self._durable:
                    _sync(opened[0])
                # some file servers report a full disk only on close
                os.close(opened.pop(0))
        except OSError as error:
            raise self._failed("write", write.path, error) from error
        finally:
            for file in opened:
                os.close(file)

    def _link(self, write: _Write) -> None:
        """Do step 3. Return once the name holds these bytes. Raise an error if it does not."""
        for _ in range(_LINK_ATTEMPTS):
            try:
                os.link(write.temporary, _name(write.path), src_dir_fd=write.folder, dst_dir_fd=write.folder)
                return
            except FileExistsError:
                if self._stands(write):
                    return
            except OSError as error:
                if error.errno in _NO_HARD_LINKS:
                    raise ExclusiveCreateUnsupported(
                        f"the filesystem of {self.uri} has no hard links ({error.strerror})"
                    ) from error
                if error.errno in _REFUSED:
                    raise self._failed("create", write.path, error) from error
                self._settle(write, error)
                return
        raise StorageFailed(f"cannot create {write.path} in {self.uri}: it is a dangling symbolic link")

    def _settle(self, write: _Write, error: OSError) -> None:
        """Find out the result of a link request whose response was lost. Return or raise as `_link` does."""
        try:
            # once the temporary file is deleted, a pending link request can only fail, so the state of the name is
            # final
            with contextlib.suppress(FileNotFoundError):
                os.unlink(write.temporary, dir_fd=write.folder)
            stands = self._stands(write)
        except OSError as second:
            raise self._unknown(write.path, second) from error
        if not stands:
            raise self._failed("create", write.path, error) from error

    def _stands(self, write: _Write) -> bool:
        """Return True if the name holds these bytes, False if it does not exist. Raise PathTaken if it holds other
        bytes.
        """
        name = _name(write.path)
        try:
            found = os.stat(name, dir_fd=write.folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
                raise self._no_file(write.path, found.st_mode)
            # NFS answers EEXIST when a link request that succeeded is sent again
            if os.path.samestat(found, os.stat(write.temporary, dir_fd=write.folder, follow_symlinks=False)):
                return True
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._unknown(write.path, error) from error
        try:
            if self.read(write.path) == write.data:
                return True
        except PathMissing:
            return False
        except FileTooLarge:
            pass  # no writer that keeps the size limit created such a file
        except StorageFailed as error:
            unknown = OutcomeUnknown(f"cannot tell which writer created the file: {error.message}")
            unknown.is_fleeting = True
            raise unknown from error
        raise PathTaken(f"{write.path} in {self.uri} is taken")

    def _sync_folder(self, folder: tuple[str, int]) -> None:
        """Do step 4."""
        name, opened = folder
        if self._durable:
            try:
                _sync(opened)
            except OSError as error:
                # EINVAL: the filesystem does not support fsync on folders
                if error.errno != errno.EINVAL:
                    raise self._unknown(name or "/", error) from error

    # resolving paths

    def _locate(self, path: str) -> str:
        """Return the path on disk. Raise PathOutside if a folder on the way is a link out of the root."""
        folder = path[: path.rfind("/") + 1]
        name = path[len(folder) :]
        if folder not in self._inside or name in _NO_NAMES or "\\" in name or "\0" in name:
            if not PLAIN_PATH.fullmatch(path):
                check_path(path)
            real = self._resolve(folder.rstrip("/"))
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


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_folder(full: str) -> bool:
    """Return True if the path is a folder. errno cannot tell: macOS reports EPERM where Linux reports EISDIR."""
    return os.path.isdir(full) and not os.path.islink(full)


def _remove(write: _Write) -> None:
    with contextlib.suppress(OSError):  # expire removes leftovers
        os.unlink(write.temporary, dir_fd=write.folder)


def _sync(file: int) -> None:
    if sys.platform == "darwin":
        # fsync on macOS leaves the data in the drive's cache
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
            return
    os.fsync(file)


# Parallel work


def together(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Run `work` for each item in the calling thread and helper threads. Return when no thread is running it any more.

    A disk merges fsyncs that wait at the same time.

    After an error no further item is started, and the first error is raised. A single item uses no helper thread.
    Unlike `threading.Thread`, this does not wait for a thread to start: a late helper finds no item left.
    """
    if len(items) <= 1:
        for item in items:
            work(item)
        return

    todo = iter(items)
    lock = allocate_lock()
    errors: list[BaseException] = []
    at_work: list[LockType] = []
    is_over = False

    def go_on() -> None:
        try:
            while not errors:
                with lock:
                    item = next(todo, None)
                if item is None:
                    return
                work(item)
        except BaseException as error:
            errors.append(error)

    def help_out() -> None:
        me = allocate_lock()
        with lock:
            if is_over:
                return
            me.acquire()
            at_work.append(me)
        try:
            go_on()
        finally:
            me.release()

    try:
        with contextlib.suppress(RuntimeError):  # no more threads are available: the running ones do the work
            for _ in range(min(THREADS, len(items)) - 1):
                start_new_thread(help_out, ())
        go_on()
    except BaseException as error:
        errors.append(error)
    while True:
        try:
            with lock:
                is_over = True
            for helper in at_work:
                with helper:
                    pass
            break
        except BaseException as error:
            # on an interrupt, wait too: the threads use files that the caller is about to close
            errors.append(error)
    if errors:
        raise errors[0]
