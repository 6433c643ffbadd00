"""Put things in the place of a file, and act as a user whom permissions bind."""

from __future__ import annotations

import os
import pickle
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NOBODY = 65534


def _socket(path: Path) -> None:
    # the path of a socket is short
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(before)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "kept").write_bytes(b"data")


def _link_to_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")


THINGS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (_folder, "a folder stands at "),
    "a FIFO": (os.mkfifo, "a FIFO stands at "),
    "a socket": (_socket, "a socket stands at "),
    "a link to a folder": (lambda path: path.symlink_to("../def"), "a link to a folder stands at "),
    "a link to a FIFO": (_link_to_fifo, "a link to a FIFO stands at "),
    "a link to itself": (lambda path: path.symlink_to(path.name), "a link in a circle stands at "),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "is a dangling symbolic link"),
    "a link to a file outside": (lambda path: path.symlink_to("/etc/passwd"), "is a link to /etc/passwd, outside"),
    "a link to nothing outside": (lambda path: path.symlink_to("/no/such"), "is a link to /no/such, outside"),
}
"""By its name, how a thing is made, and the words of the error for it."""

if os.geteuid() == 0:
    THINGS["a device"] = (lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3)), "a device stands at ")
    THINGS["a device without a driver"] = (
        lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(240, 77)),
        "a device stands at ",
    )


def put(thing: str, path: Path) -> str:
    """Put a thing in the place of a file, if there is one; the words for it."""
    path.unlink(missing_ok=True)
    make, words = THINGS[thing]
    make(path)
    return words


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder and its subfolders read-only for users whom permissions bind."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path in folders:
            path.chmod(0o755)


def as_ordinary_user(folder: Path, do: Callable[[], T]) -> T:
    """Call a function in a child process that permissions bind; as root, become another user first. The child can
    reach the folder. Import its modules before: the program may lie where only root may read."""
    for above in (folder, *folder.parents):
        mode = above.stat().st_mode
        if not mode & 0o001:
            above.chmod(mode | 0o011)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with open(writing, "wb") as out:
                out.write(pickle.dumps(do()))
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as into:
        data = into.read()
    os.waitpid(child, 0)
    assert data, "the call raised, see above"
    result: T = pickle.loads(data)
    return result
