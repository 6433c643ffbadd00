"""A disk whose power may fail: what a store asks of the operating system, and what of it is there afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

Call = tuple[object, ...]
Files = dict[str, bytes]


class Recorder:
    """Writes down what the store asks of the operating system below a folder, in order."""

    def __init__(self, monkeypatch, folder):
        self.folder = os.path.realpath(folder)
        self.calls = []
        self.names = {}
        for name in ("open", "write", "pwrite", "ftruncate", "fsync", "link", "replace", "unlink", "mkdir"):
            monkeypatch.setattr(os, name, self.recorded(name, getattr(os, name)))

    def name_of(self, file, dir_fd=None):
        if isinstance(file, int):
            return self.names.get(file, "")
        full = os.path.join(self.names.get(dir_fd, ""), file) if dir_fd is not None else os.fspath(file)
        return os.path.normpath(full)

    def recorded(self, name, call):
        def wrapped(*args, **options):
            result = call(*args, **options)
            if name in ("link", "replace"):
                target = self.name_of(args[1], options["dst_dir_fd"])
                self.note(name, self.name_of(args[0], options["src_dir_fd"]), os.path.relpath(target, self.folder))
            elif name == "open":
                self.names[result] = self.name_of(args[0], options.get("dir_fd"))
                self.note(name, self.names[result], args[1])
            else:
                self.note(name, self.name_of(args[0], options.get("dir_fd")))
            return result

        return wrapped

    def note(self, name, path, *more):
        if path.startswith(self.folder):
            self.calls.append((name, os.path.relpath(path, self.folder), *more))

    def named(self, *names):
        return [call for call in self.calls if call[0] in names]


def after_power_cuts(
    calls: Sequence[Call], before: Mapping[str, bytes], content: Mapping[str, bytes]
) -> Iterator[tuple[bool, Files]]:
    """Yield the files that may exist after a power failure after each call, and whether it was the last call.

    Data that was synced is certain, under a name whose folder was synced after the link; so is a new folder whose own
    folder was synced. Everything else may exist or not. In the worst case an uncertain root exists and no other
    uncertain file does, and data that was not synced is torn.
    """
    folders = {"."}.union(*(_folders_of(path) for path in before))
    seen: list[Files] = []
    for end in range(1, len(calls) + 1):
        done = calls[:end]
        links = {str(call[2]): (at, str(call[1])) for at, call in enumerate(done) if call[0] == "link"}
        links = {path: link for path, link in links.items() if path in content and path not in before}
        whole = {path: content[path] if ("fsync", links[path][1]) in done else b"" for path in links}
        sure = {path for path, (at, _) in links.items() if _name_is_sure(path, at, done, folders)}
        roots = {path for path in links if path.startswith("vn/")}
        for there in (sure, sure | roots):
            files = {**before, **{path: whole[path] for path in there}}
            if files not in seen or end == len(calls):
                seen.append(files)
                yield end == len(calls), files


def _folders_of(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:number]) for number in range(1, len(parts))}


def _name_is_sure(path: str, linked: int, done: Sequence[Call], folders: set[str]) -> bool:
    folder = os.path.dirname(path) or "."
    if ("fsync", folder) not in done[linked:]:
        return False
    made = [at for at, call in enumerate(done) if call == ("mkdir", folder)]
    return folder in folders or any(_name_is_sure(folder, at, done, folders) for at in made)
