"""The local store beyond the contract: crashes, races of processes, links, and what a disk can answer."""

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from olympia_cli.errors import (
    ExclusiveCreateUnsupported,
    OutcomeUnknown,
    PathMissing,
    PathOutside,
    PathTaken,
    StorageFailed,
    StorageFull,
)
from olympia_cli.storage.local import THREADS, LocalStore
from tests.helpers.disk import Recorder
from tests.helpers.in_place import THINGS, put

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def store(root):
    return LocalStore(root)


def start(program, *args, **options):
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", program, *map(str, args)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def run(program, *args):
    with start(program, *args) as process:
        output, _ = process.communicate(timeout=50)
    assert process.returncode == 0
    return json.loads(output)


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def temporaries(folder):
    return [path for path in files_below(folder) if os.path.basename(path).startswith(".tmp-")]


def paths(store, prefix=""):
    return sorted(info.path for info in store.list(prefix))


class TestProcesses:
    RACER = """
import os, sys
from olympia_cli.errors import PathTaken
from olympia_cli.storage.local import LocalStore
store = LocalStore(sys.argv[1])
for line in sys.stdin:
    try:
        store.create("vn/" + line.strip(), b"process %d" % os.getpid() * 1000)
        print("won", flush=True)
    except PathTaken:
        print("lost", flush=True)
"""

    def test_one_winner_a_round(self, store, root):
        racers = [start(self.RACER, root, stdin=subprocess.PIPE) for _ in range(8)]
        try:
            for round_ in range(40):
                for racer in racers:
                    racer.stdin.write(f"{round_}\n")
                for racer in racers:
                    racer.stdin.flush()
                answers = [racer.stdout.readline().strip() for racer in racers]
                assert sorted(answers) == ["lost"] * 7 + ["won"]
                winner = racers[answers.index("won")]
                assert store.read(f"vn/{round_}") == b"process %d" % winner.pid * 1000
        finally:
            for racer in racers:
                racer.stdin.close()
                racer.stdout.close()
                assert racer.wait(60) == 0
        assert temporaries(root) == []

    WATCHER = """
import json, sys, time
root, number, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
partial = 0
for n in range(number):
    while True:
        try:
            data = open(f"{root}/vn/{n}", "rb").read()
        except FileNotFoundError:
            continue
        partial += data != bytes([n]) * size
        break
print(json.dumps(partial), flush=True)
"""

    def test_a_reader_never_sees_a_part(self, store, root):
        number, size = 25, 4 * 1024 * 1024
        with start(self.WATCHER, root, number, size) as watcher:
            try:
                assert watcher.stdout.readline() == "ready\n"
                for n in range(number):
                    store.create(f"vn/{n}", bytes([n]) * size)
                assert json.loads(watcher.communicate(timeout=30)[0]) == 0
            finally:
                watcher.kill()

    WRITER = """
import signal, sys
from olympia_cli.storage.local import LocalStore
store = LocalStore(sys.argv[1])
n, at = int(sys.argv[2]), float(sys.argv[3])
store.create(f"vn/{n}", b"%8d" % n * 20_000)
# its own work wears the time out, and nothing in it notices
signal.setitimer(signal.ITIMER_PROF, at)
while True:
    store.create_many({f"node/{n}.{part}": b"%8d" % n * 3_000 for part in range(12)})
    store.overwrite("vn/oldest", b"%8d" % n * 5_000)
    n += 1
    store.create(f"vn/{n}", b"%8d" % n * 20_000)
"""

    def test_kills_leave_nothing_partial(self, store, root):
        sizes = {"vn": 20_000, "node": 3_000}
        version = 0
        for number in range(20):
            with start(self.WRITER, root, version, 0.001 + 0.002 * number) as writer:
                assert writer.wait(60) == -signal.SIGPROF
            for path in paths(store):
                data = store.read(path)
                if path == "vn/oldest":
                    assert data == data[:8] * 5_000
                else:
                    folder, name = path.split("/")
                    assert data == b"%8d" % int(name.split(".")[0]) * sizes[folder]
            assert set(files_below(root)) - set(paths(store)) == set(temporaries(root))
            while store.exists(f"vn/{version}"):
                version += 1
            # the name that the writer died on is free
            store.create(f"vn/{version}", b"%8d" % version * 20_000)
            version += 1
        assert version >= 40


class TestDyingAtEveryCall:
    """A process that ends before call n to the operating system, for each n."""

    DRIVER = """
import itertools, json, os, shutil, sys
from olympia_cli.storage.local import LocalStore

root, case, half = sys.argv[1], sys.argv[2], sys.argv[3] == "half"
OLD, NEW = b"old" * 100, b"new" * 100
FILES = {f"node/{n}": b"%d" % n * 300 for n in range(3)} | {"def/table/x": b"x" * 300}
EXPECTED = {
    "create": {"vn/1": {None, NEW}},
    "create_many": {path: {None, data} for path, data in FILES.items()},
    "create_after": {path: {None, data} for path, data in (FILES | {"vn/1": NEW}).items()},
    "overwrite": {"vn/oldest": {OLD, NEW}},
    "delete_many": {path: {None, data} for path, data in FILES.items()},
}[case]

FINAL = {
    "create": {"vn/1": NEW},
    "create_many": FILES,
    "create_after": FILES | {"vn/1": NEW},
    "overwrite": {"vn/oldest": NEW},
    "delete_many": dict.fromkeys(FILES),
}[case]

def prepare(store):
    if case == "overwrite":
        store.create("vn/oldest", OLD)
    if case == "delete_many":
        store.create_many(FILES)

def act(store):
    if case == "create":
        store.create("vn/1", NEW)
    if case == "create_many":
        store.create_many(FILES)
    if case == "create_after":
        store.create_after(FILES, "vn/1", NEW, lambda: None)
    if case == "overwrite":
        store.overwrite("vn/oldest", NEW)
    if case == "delete_many":
        store.delete_many(FILES)

def content(path):
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None

def die_at(n):
    counter = itertools.count()
    def dying(name, call):
        def wrapped(*args, **options):
            if next(counter) == n:
                if half and name == "write":
                    call(args[0], args[1][: len(args[1]) // 2])
                print(name, file=calls, flush=True)
                os._exit(42)
            return call(*args, **options)
        return wrapped
    for name in ("open", "write", "fsync", "close", "link", "replace", "unlink", "mkdir", "stat", "lstat"):
        setattr(os, name, dying(name, getattr(os, name)))

problems = []
with open(root + ".calls", "w") as calls:
    for n in itertools.count():
        shutil.rmtree(root, ignore_errors=True)
        prepare(LocalStore(root))
        store = LocalStore(root)
        child = os.fork()
        if child == 0:
            die_at(n)
            act(store)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended not in (0, 42):
            problems.append(f"{n}: ended with {ended}")
        after = LocalStore(root)
        for path, allowed in EXPECTED.items():
            if content(path) not in allowed:
                problems.append(f"{n}: {path} is {content(path)!r:.50}")
        for at, _, names in os.walk(root):
            for name in names:
                path = os.path.relpath(os.path.join(at, name), root)
                if not name.startswith(".tmp-") and path not in EXPECTED:
                    problems.append(f"{n}: {path} is left over")
                if name.startswith(".tmp-") and ended == 0:
                    problems.append(f"{n}: {path} is left over by a process that ended well")
        there = [path for path in EXPECTED if content(path) is not None]
        if case == "create_after" and "vn/1" in there and len(there) < len(EXPECTED):
            problems.append(f"{n}: the last one is there, and not all of the others")
        if sorted(info.path for info in after.list()) != sorted(there):
            problems.append(f"{n}: the listing is wrong")
        act(after)
        if {path: content(path) for path in EXPECTED} != FINAL:
            problems.append(f"{n}: the second attempt did not do it")
        if ended == 0:
            break
        if n > 500:
            problems.append("no end")
            break
with open(root + ".calls") as calls:
    print(json.dumps({"problems": problems, "calls": calls.read().split()}))
"""

    @pytest.mark.parametrize("half", ["before", "half"])
    @pytest.mark.parametrize("case", ["create", "create_many", "create_after", "overwrite", "delete_many"])
    def test_it_leaves_all_or_nothing(self, root, case, half):
        found = run(self.DRIVER, root, case, half)
        assert found["problems"] == []
        expected = {
            "create": {"mkdir", "open", "write", "fsync", "link", "unlink", "close"},
            "create_many": {"mkdir", "open", "write", "fsync", "link", "unlink", "close"},
            "create_after": {"mkdir", "open", "write", "fsync", "link", "unlink", "close"},
            "overwrite": {"open", "write", "fsync", "replace", "close"},
            "delete_many": {"unlink", "open", "fsync", "close"},
        }
        assert expected[case] <= set(found["calls"])


class TestOrder:
    """Files that survive a power failure: data that is synced, and a name whose folder is synced."""

    @pytest.fixture
    def calls(self, monkeypatch, root):
        root.mkdir()
        return Recorder(monkeypatch, root)

    def assert_durable(self, calls, made):
        """Every name in `made` was linked after its data was synced, and its folder was synced afterwards."""
        links = {call[2]: (at, call[1]) for at, call in enumerate(calls.calls) if call[0] in ("link", "replace")}
        assert sorted(links) == sorted(made)
        for path, (linked, temporary) in links.items():
            folder = os.path.dirname(path) or "."
            assert os.path.dirname(temporary) == os.path.dirname(path)
            written = [at for at, call in enumerate(calls.calls) if call[:2] == ("write", temporary)]
            synced = calls.calls.index(("fsync", temporary))
            assert max(written) < synced < linked
            assert ("fsync", folder) in calls.calls[linked:]
            unlinked = [at for at, call in enumerate(calls.calls) if call == ("unlink", temporary)]
            assert all(calls.calls.index(("fsync", folder), linked) < at for at in unlinked)
        for at, call in enumerate(calls.calls):
            if call[0] == "mkdir":
                parent = os.path.dirname(call[1]) or "."
                assert calls.calls.index(("fsync", parent), at) < min(linked for linked, _ in links.values())

    def test_create(self, store, calls):
        store.create("def/table/x", b"1")
        self.assert_durable(calls, ["def/table/x"])
        assert [call[1] for call in calls.named("mkdir")] == ["def", "def/table"]
        flags = [call[2] for call in calls.named("open") if ".tmp-" in call[1]]
        assert flags
        assert all(used & os.O_EXCL and used & os.O_NOFOLLOW and used & os.O_CLOEXEC for used in flags)

    @pytest.mark.parametrize("number", [3, 100])
    def test_create_many_syncs_each_folder_once(self, store, calls, number):
        store.create("node/first", b"1")
        store.create("vn/first", b"1")
        calls.calls.clear()
        files = {f"{('node', 'vn')[n % 2]}/{n}": b"%d" % n for n in range(number)}
        store.create_many(files)
        self.assert_durable(calls, list(files))
        folders = [call[1] for call in calls.named("fsync") if ".tmp-" not in call[1]]
        assert sorted(folders) == ["node", "vn"]

    def test_create_after(self, store, calls):
        files = {f"{('node', 'def/table')[n % 2]}/{n}": b"%d" % n for n in range(5)}
        asked = []
        store.create_after(files, "vn/1", b"root", lambda: asked.append(len(calls.calls)))
        self.assert_durable(calls, [*files, "vn/1"])
        [ready] = asked
        syncs = [at for at, call in enumerate(calls.calls) if call[0] == "fsync" and call[1] != "vn"]
        [linked] = [at for at, call in enumerate(calls.calls) if call[0] == "link" and call[2] == "vn/1"]
        assert max(syncs) < ready <= linked

    def test_overwrite(self, store, calls):
        for content in (b"1", b"2"):
            calls.calls.clear()
            store.overwrite("vn/oldest", content)
            self.assert_durable(calls, ["vn/oldest"])

    def test_delete_many_syncs_each_folder_once(self, store, calls):
        files = {f"{('node', 'vn')[n % 2]}/{n}": b"" for n in range(10)}
        store.create_many(files)
        calls.calls.clear()
        store.delete_many([*files, "node/missing", "other/missing"])
        assert sorted(call[1] for call in calls.calls[:10]) == sorted(files)
        assert sorted(calls.named("fsync")) == [("fsync", "node"), ("fsync", "vn")]
        assert calls.calls.index(("fsync", "vn")) > calls.calls.index(("unlink", "vn/9"))

    def test_a_hint_is_written_in_place_and_not_synced(self, store, calls):
        for content in (b"1000", b"99"):
            calls.calls.clear()
            store.write_hint("latest", content)
            assert [call[:2] for call in calls.calls] == [
                ("open", "latest"),
                ("pwrite", "latest"),
                ("ftruncate", "latest"),
            ]
            assert not calls.calls[0][2] & os.O_TRUNC

    def test_not_durable_means_no_sync(self, root, calls):
        store = LocalStore(root, durable=False)
        store.create_many({f"a/{n}": b"1" for n in range(30)})
        store.create("b/c", b"1")
        store.overwrite("b/c", b"2")
        store.delete_many(["b/c"])
        assert calls.named("fsync") == []
        assert len(calls.named("link")) == 31
        assert temporaries(root) == []


@pytest.fixture
def fail(monkeypatch):
    """Make calls of one function of `os` fail; `done` carries the call out first."""

    def arrange(name, number, *, done=False, when=lambda *args: True, before=lambda: None):
        call = getattr(os, name)

        def failing(*args, **options):
            if not when(*args):
                return call(*args, **options)
            before()
            if done:
                call(*args, **options)
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, name, failing)

    return arrange


def is_folder(file, *_):
    return stat.S_ISDIR(os.fstat(file).st_mode)


def is_file(file, *_):
    return stat.S_ISREG(os.fstat(file).st_mode)


class TestWhatADiskAnswers:
    @pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS])
    def test_no_hard_links(self, store, root, fail, number):
        fail("link", number)
        with pytest.raises(ExclusiveCreateUnsupported):
            store.create("a", b"1")
        assert files_below(root) == []

    def test_a_link_request_that_is_sent_twice(self, store, root, fail):
        fail("link", errno.EEXIST, done=True)
        store.create("a", b"1")
        assert store.read("a") == b"1"
        assert temporaries(root) == []

    @pytest.mark.parametrize("number", [errno.EIO, errno.ETIMEDOUT, errno.ESTALE])
    def test_link_made_without_an_answer_counts_as_created(self, store, root, fail, number):
        fail("link", number, done=True)
        store.create_many({"a": b"1", "b": b"2"})
        assert (store.read("a"), store.read("b")) == (b"1", b"2")
        assert temporaries(root) == []

    def test_link_that_fails_without_an_answer_is_an_error(self, store, root, fail):
        fail("link", errno.EIO)
        with pytest.raises(StorageFailed, match="Input/output error"):
            store.create("a", b"1")
        assert files_below(root) == []

    def test_a_lost_answer_and_others_were_faster(self, store, root, fail):
        root.mkdir()
        fail("link", errno.EIO, before=lambda: (root / "a").write_bytes(b"theirs"))
        with pytest.raises(PathTaken):
            store.create("a", b"mine")
        assert store.read("a") == b"theirs"
        assert temporaries(root) == []

    def test_a_lost_answer_and_no_way_to_look(self, store, fail):
        fail("link", errno.EIO, done=True)
        fail("unlink", errno.EIO)
        with pytest.raises(OutcomeUnknown):
            store.create("a", b"1")
        assert store.read("a") == b"1"

    def test_taken_and_the_content_cannot_be_read(self, store, fail):
        store.create("a", b"1")
        fail("read", errno.EIO, when=lambda file, size: size > 1)
        with pytest.raises(OutcomeUnknown):
            store.create("a", b"2")

    def test_a_name_that_is_freed_in_between(self, store, root, monkeypatch):
        store.create("a", b"theirs")
        call = os.link

        def link(*args, **options):
            try:
                call(*args, **options)
            except FileExistsError:
                os.unlink(root / "a")
                raise

        monkeypatch.setattr(os, "link", link)
        store.create("a", b"mine")
        assert store.read("a") == b"mine"

    def test_the_data_cannot_be_synced(self, store, root, fail):
        store.create("old", b"1")
        fail("fsync", errno.EIO, when=is_file)
        for use in (
            lambda: store.create("a", b"1"),
            lambda: store.create_many({f"b/{n}": b"1" for n in range(100)}),
            lambda: store.create_after({"b/1": b"1"}, "a", b"1", lambda: pytest.fail("it is nobody's turn")),
            lambda: store.overwrite("old", b"2"),
        ):
            with pytest.raises(StorageFailed):
                use()
        assert files_below(root) == ["old"]
        assert store.read("old") == b"1"

    @pytest.mark.parametrize("number", [3, 100])
    @pytest.mark.parametrize("failing", ["first", "last"])
    def test_one_sync_of_many_fails(self, store, root, fail, number, failing):
        """In whatever thread, and however the others go: none of the files gets its name."""
        fail("fsync", errno.EIO, when=lambda file: is_file(file) and os.fstat(file).st_size == 5)
        files = [*((f"b/{n}", b"sound file") for n in range(number - 1)), ("b/bad", b"wrong")]
        with pytest.raises(StorageFailed):
            store.create_many(dict(files if failing == "last" else reversed(files)))
        assert files_below(root) == []

    def test_one_folder_of_many_cannot_be_synced(self, store, root, fail):
        store.create_many({f"{name}/0": b"" for name in "abc"})
        folder = os.stat(root / "b").st_ino
        fail("fsync", errno.EIO, when=lambda file: os.fstat(file).st_ino == folder)
        with pytest.raises(OutcomeUnknown):
            store.create_many({f"{name}/1": b"" for name in "abc"})
        assert temporaries(root) == []

    def test_the_folder_cannot_be_synced(self, store, root, fail):
        store.create("vn/0", b"0")
        fail("fsync", errno.EIO, when=is_folder)
        for use in (
            lambda: store.create("vn/1", b"1"),
            lambda: store.create_many({"vn/2": b"2", "vn/3": b"3"}),
            lambda: store.overwrite("vn/0", b"00"),
            lambda: store.delete_many(["vn/3"]),
        ):
            with pytest.raises(OutcomeUnknown):
                use()
        assert temporaries(root) == []
        assert paths(store) == ["vn/0", "vn/1", "vn/2"]

    def test_a_new_folder_cannot_be_synced(self, store, root, fail):
        root.mkdir()
        fail("fsync", errno.EIO, when=is_folder)
        with pytest.raises(StorageFailed):
            store.create("vn/1", b"1")
        assert files_below(root) == []

    def test_folders_that_need_no_sync(self, store, fail):
        store.create("vn/0", b"0")
        fail("fsync", errno.EINVAL, when=is_folder)
        store.create("vn/1", b"1")
        assert store.read("vn/1") == b"1"

    def test_a_quota_error_on_close_is_storage_full(self, store, root, fail):
        root.mkdir()
        fail("close", errno.EDQUOT, done=True, when=is_file)
        with pytest.raises(StorageFull):
            store.create("a", b"1")
        assert files_below(root) == []

    def test_a_replacement_with_a_lost_answer(self, store, root, fail):
        store.create("a", b"1")
        fail("replace", errno.EIO, done=True)
        with pytest.raises(OutcomeUnknown):
            store.overwrite("a", b"2")
        assert temporaries(root) == []

    def test_writes_and_reads_that_come_in_pieces(self, store, monkeypatch):
        write, read, pread, pwrite = os.write, os.read, os.pread, os.pwrite
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
        monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:7], at))
        monkeypatch.setattr(os, "read", lambda file, size: read(file, min(size, 5)))
        monkeypatch.setattr(os, "pread", lambda file, size, at: pread(file, min(size, 5), at))
        data = bytes(range(256))
        store.create("a", data)
        store.overwrite("b", data)
        store.write_hint("c", data)
        assert [store.read(path) for path in "abc"] == [data] * 3
        assert store.read_range("a", 3, 100) == data[3:103]
        assert store.read_range("a", 250, 100) == data[250:]

    def test_no_threads_to_be_had(self, store, monkeypatch):
        def refuse(work, words):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr("olympia_cli.storage.local.start_new_thread", refuse)
        files = {f"a/{n}": b"%d" % n for n in range(100)}
        store.create_many(files)
        assert dict(store.read_many(files)) == files

    def test_calls_do_not_wait_for_late_threads(self, store, root, monkeypatch):
        late = []
        monkeypatch.setattr("olympia_cli.storage.local.start_new_thread", lambda work, words: late.append(work))
        files = {f"a/{n}": b"%d" % n for n in range(100)}
        store.create_many(files)
        before = files_below(root)
        for work in late:
            work()
        assert late
        assert files_below(root) == before
        assert dict(store.read_many(files)) == files

    @pytest.mark.parametrize("number", [1, 100])
    def test_an_interrupt_leaves_nothing(self, store, root, monkeypatch, number):
        root.mkdir()
        write = os.write
        left = iter(range(number // 2))

        def interrupted(file, data):
            if is_file(file) and next(left, None) is None:
                raise KeyboardInterrupt
            return write(file, data)

        monkeypatch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.create_many({f"{n}": b"1" for n in range(number)})
        assert files_below(root) == []

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
    def test_few_files_are_open_at_once(self, store, root, monkeypatch):
        root.mkdir()
        fsync, open_files, first = os.fsync, [], iter(range(THREADS))
        before = len(os.listdir("/proc/self/fd"))
        count = threading.Barrier(THREADS, lambda: open_files.append(len(os.listdir("/proc/self/fd"))), timeout=60)

        def wait_for_all(file):
            if is_file(file) and next(first, None) is not None:
                count.wait()
            fsync(file)

        monkeypatch.setattr(os, "fsync", wait_for_all)
        store.create_many({f"{n}": b"1" for n in range(1000)})
        assert open_files[0] - before < 140

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
    def test_no_descriptor_is_left_open(self, store, root):
        def use_everything():
            files = {f"a/{n}": b"%d" % n for n in range(40)}
            store.create_many(files)
            store.overwrite("a/1", b"")
            store.write_hint("a/hint", b"1")
            for use in (
                lambda: store.read("a"),
                lambda: store.read("b"),
                lambda: store.read_range("a", 0, 1),
                lambda: store.create("a/2", b"other"),
                lambda: store.create("a", b"other"),
                lambda: store.overwrite("a", b"other"),
                lambda: store.create_many({"a/3": b"other", "b/c": b"1"}),
                lambda: store.create("n" * 300, b""),
                lambda: store.create("a/2/below", b"other"),
            ):
                with pytest.raises((PathTaken, PathMissing, StorageFailed)):
                    use()
            next(store.list())
            list(store.list("a/"))
            dict(store.read_many(files))
            store.delete_many([*files, "a/hint", "b/c"])

        use_everything()
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(3):
            use_everything()
        assert set(os.listdir("/proc/self/fd")) <= before


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a filesystem of a few pages, where that is allowed."""
    mounted = []

    def mount(options):
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        if not shutil.which("mount"):
            pytest.skip("no mount command here")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount a small filesystem: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        # at once for all processes, even if a failed test still has a file open
        subprocess.run(["umount", "-l", folder], check=True)


class TestAFullDisk:
    def test_no_space(self, small_disk):
        root = small_disk("size=256k")
        store = LocalStore(root)
        store.create("vn/0", b"0" * 1000)
        store.write_hint("vn/latest", b"0")
        for use in (
            lambda: store.create("vn/1", b"1" * 1_000_000),
            lambda: store.create_many({f"node/{n}": b"1" * 10_000 for n in range(60)}),
            lambda: store.overwrite("vn/0", b"1" * 1_000_000),
        ):
            with pytest.raises(StorageFull) as raised:
                use()
            assert raised.value.exit_code == 30
            assert temporaries(root) == []
            assert paths(store) == ["vn/0", "vn/latest"]
        store.write_hint("vn/hint", b"1" * 1_000_000)
        store.delete_many(["vn/hint"])
        assert store.read("vn/0") == b"0" * 1000
        store.create("vn/1", b"1" * 1000)

    def test_no_room_for_another_name(self, small_disk):
        # on tmpfs each link counts: there is room for the temporary file, but not for its name
        root = small_disk("size=256k,nr_inodes=3")
        store = LocalStore(root)
        store.create("a", b"1")
        with pytest.raises(StorageFull):
            store.create("b", b"2")
        assert temporaries(root) == []
        assert paths(store) == ["a"]


class TestNoPermission:
    PROGRAM = """
import json, os, sys
from olympia_cli.errors import OlympiaError
from olympia_cli.storage.local import LocalStore
import encodings.idna, threading

if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

store = LocalStore(sys.argv[1])

def ask(use):
    try:
        return repr(use())
    except OlympiaError as error:
        return f"{error.name} {error.exit_code}"

print(json.dumps({
    "read": ask(lambda: store.read("vn/1")),
    "exists": ask(lambda: store.exists("vn/1")),
    "list": ask(lambda: [info.path for info in store.list("vn/")]),
    "secret": ask(lambda: store.read("vn/secret")),
    "secret among many": ask(lambda: [found if isinstance(found, bytes) else found.name
                                      for _, found in store.read_many(["vn/secret", "vn/1"])]),
    "create": ask(lambda: store.create("vn/2", b"")),
    "create in a new folder": ask(lambda: store.create("node/2", b"")),
    "create_many": ask(lambda: store.create_many({"vn/2": b"", "vn/3": b""})),
    "overwrite": ask(lambda: store.overwrite("vn/1", b"")),
    "hint": ask(lambda: store.write_hint("vn/1", b"9")),
    "delete": ask(lambda: store.delete_many(["vn/1"])),
    "closed read": ask(lambda: store.read("closed/1")),
    "closed exists": ask(lambda: store.exists("closed/1")),
    "closed stat": ask(lambda: store.stat("closed/1")),
    "closed list": ask(lambda: list(store.list())),
    "closed create": ask(lambda: store.create("closed/2", b"")),
}))
"""

    def test_each_operation_is_denied(self):
        # not in pytest's own folder, which is closed to other users
        with tempfile.TemporaryDirectory() as folder:
            store = LocalStore(folder)
            store.create_many({"vn/1": b"1", "vn/secret": b"2", "closed/1": b"3"})
            os.chmod(f"{folder}/vn/secret", 0)
            os.chmod(f"{folder}/vn", 0o555)
            os.chmod(f"{folder}/closed", 0)
            os.chmod(folder, 0o555)
            try:
                found = run(self.PROGRAM, folder)
                assert {path.name for path in Path(folder).iterdir()} == {"vn", "closed"}
            finally:
                os.chmod(folder, 0o755)
                os.chmod(f"{folder}/vn", 0o755)
                os.chmod(f"{folder}/closed", 0o755)
            assert paths(store) == ["closed/1", "vn/1", "vn/secret"]
        denied = "StorageDenied 31"
        allowed = {
            "read": "b'1'",
            "exists": "True",
            "list": "['vn/1', 'vn/secret']",
            "secret among many": "['StorageDenied', b'1']",
            "hint": "None",
        }
        if found["list"] == "['vn/secret', 'vn/1']":
            found["list"] = allowed["list"]
        assert found == {**dict.fromkeys(found, denied), **allowed}


class TestLinks:
    @pytest.fixture
    def outside(self, tmp_path):
        folder = tmp_path / "root-of-others"
        (folder / "sub").mkdir(parents=True)
        (folder / "secret").write_bytes(b"theirs")
        (folder / "sub" / "secret").write_bytes(b"theirs")
        yield folder
        assert files_below(folder) == ["secret", "sub/secret"]
        assert (folder / "secret").read_bytes() == (folder / "sub/secret").read_bytes() == b"theirs"

    @pytest.fixture(params=["absolute", "relative"])
    def link(self, request, root):
        (root / "vn").mkdir(parents=True)

        def make(name, target):
            at = root / name
            at.symlink_to(target if request.param == "absolute" else os.path.relpath(target, at.parent))

        return make

    def test_a_file_that_leads_outside(self, store, root, outside, link):
        link("vn/1", outside / "secret")
        for use in (
            lambda: store.read("vn/1"),
            lambda: store.read_range("vn/1", 0, 1),
            lambda: store.stat("vn/1"),
            lambda: store.exists("vn/1"),
            lambda: store.create("vn/1", b"mine"),
            lambda: store.create("vn/1", b"theirs"),
        ):
            with pytest.raises(PathOutside) as raised:
                use()
            assert raised.value.exit_code == 40
            assert "vn/1" in raised.value.message
        [(_, found)] = store.read_many(["vn/1"])
        assert isinstance(found, PathOutside)
        store.write_hint("vn/1", b"mine")
        [info] = store.list()
        assert (info.path, info.size) == ("vn/1", os.lstat(root / "vn/1").st_size)
        assert temporaries(root) == []

    @pytest.mark.parametrize("path", ["", "/1", "vn/", "vn/.", "vn/..", "vn//1", "vn/1/../1", "vn/..\\1", "vn/\0"])
    def test_a_folder_in_use_does_not_make_a_path_valid(self, store, path):
        """A store remembers the folders that it has checked, and checks the last part of a path each time."""
        store.create("vn/1", b"1")
        store.create("1", b"1")
        assert (store.read("vn/1"), store.read("1")) == (b"1", b"1")
        for use in (store.read, store.exists, store.stat, lambda path: store.create(path, b"")):
            with pytest.raises(PathOutside):
                use(path)

    def test_deleting_and_overwriting_concern_the_link(self, store, root, outside, link):
        link("vn/1", outside / "secret")
        link("vn/2", outside / "secret")
        store.overwrite("vn/1", b"mine")
        store.delete_many(["vn/2"])
        assert not (root / "vn/1").is_symlink()
        assert store.read("vn/1") == b"mine"
        assert files_below(root) == ["vn/1"]

    @pytest.mark.parametrize("way", ["node", "node/sub"])
    def test_a_folder_that_leads_outside(self, store, root, outside, link, way):
        link("node", outside)
        for use in (
            lambda: store.read(f"{way}/secret"),
            lambda: store.read_range(f"{way}/secret", 0, 1),
            lambda: store.stat(f"{way}/secret"),
            lambda: store.exists(f"{way}/secret"),
            lambda: store.exists(f"{way}/missing"),
            lambda: store.create(f"{way}/new", b""),
            lambda: store.create(f"{way}/new-folder/new", b""),
            lambda: store.create_many({"vn/1": b"", f"{way}/new": b""}),
            lambda: store.overwrite(f"{way}/secret", b"mine"),
            lambda: store.delete_many([f"{way}/secret"]),
            lambda: list(store.list(f"{way}/")),
            lambda: list(store.list(f"{way}/sec")),
        ):
            with pytest.raises(PathOutside):
                use()
        store.write_hint(f"{way}/secret", b"mine")
        store.write_hint(f"{way}/new", b"mine")
        assert paths(store) == paths(store, "no") == ["node"]
        assert files_below(root) == []
        store.delete_many(["node"])
        assert paths(store) == []

    def test_a_folder_that_becomes_a_link(self, store, outside, link):
        assert not store.exists("node/secret")
        link("node", outside)
        with pytest.raises(PathOutside):
            store.read("node/secret")

    def test_a_link_to_a_folder_above(self, store, root, link):
        link("vn/up", root.parent)
        with pytest.raises(PathOutside):
            store.read("vn/up/root/vn/up")
        assert paths(store) == ["vn/up"]

    def test_links_that_stay_inside(self, store, root, link):
        store.create("node/1", b"1")
        link("vn/1", root / "node/1")
        link("linked", root / "node")
        link("self", root)
        assert store.read("vn/1") == store.read("linked/1") == store.read("self/linked/1") == b"1"
        assert store.read_range("vn/1", 0, 5) == b"1"
        assert store.exists("vn/1")
        assert store.exists("linked/1")
        assert not store.exists("linked")
        assert store.stat("vn/1").size == 1
        with pytest.raises(PathTaken):
            store.create("vn/1", b"2")
        store.create("linked/2", b"2")
        assert store.read("node/2") == b"2"
        # a file is listed once, where it really is
        assert paths(store) == ["linked", "node/1", "node/2", "self", "vn/1"]
        assert paths(store, "linked/") == []

    def test_links_to_nothing(self, store, root, outside, link):
        link("vn/inside", root / "missing")
        link("vn/outside", outside / "missing")
        assert not store.exists("vn/inside")
        with pytest.raises(PathMissing):
            store.read("vn/inside")
        with pytest.raises(StorageFailed):
            store.create("vn/inside", b"1")
        for use in (store.read, store.exists, store.stat, lambda path: store.create(path, b"")):
            with pytest.raises(PathOutside):
                use("vn/outside")
        store.write_hint("vn/outside", b"1")
        assert paths(store) == ["vn/inside", "vn/outside"]

    def test_a_hint_with_another_name_outside(self, store, root, tmp_path):
        """A backup may be made of hard links. Hints are written in place; all other files are replaced."""
        for path, write in (("vn/latest", store.write_hint), ("vn/oldest", store.overwrite)):
            store.overwrite(path, b"1")
            name = tmp_path / path.replace("/", "-")
            os.link(root / path, name)
            write(path, b"22")
            assert (store.read(path), name.read_bytes(), store.lost_hints) == (b"22", b"1", {})
            write(path, b"3")
            assert (store.read(path), name.read_bytes()) == (b"3", b"1")
        assert paths(store) == ["vn/latest", "vn/oldest"]

    def test_links_in_a_circle(self, store, root):
        root.mkdir()
        (root / "a").symlink_to("b")
        (root / "b").symlink_to("a")
        for use in (store.read, store.stat, lambda path: store.create(path, b"")):
            with pytest.raises((StorageFailed, PathMissing, OutcomeUnknown)):
                use("a")
        with contextlib.suppress(StorageFailed):
            assert not store.exists("a")
        assert paths(store) == ["a", "b"]

    def test_a_root_that_is_a_link(self, tmp_path, root):
        root.mkdir()
        (tmp_path / "link").symlink_to(root)
        store = LocalStore(tmp_path / "link")
        store.create("vn/1", b"1")
        store.overwrite("vn/1", b"2")
        assert store.uri == str(tmp_path / "link")
        assert LocalStore(root).read("vn/1") == store.read("vn/1") == b"2"
        assert paths(store) == ["vn/1"]
        store.delete_many(["vn/1"])
        assert files_below(root) == []

    def test_a_link_to_where_the_root_is(self, tmp_path, root):
        root.mkdir()
        (tmp_path / "link").symlink_to(root)
        store = LocalStore(tmp_path / "link")
        store.create("node/1", b"1")
        (root / "again").symlink_to(tmp_path / "link" / "node")
        assert store.read("again/1") == b"1"


NOT_THERE = ("a link to nothing", "a link to a file outside", "a link to nothing outside")


class TestOtherThings:
    def test_a_folder_in_place_of_a_file(self, store):
        store.create("vn/1/x", b"1")
        for use in (
            lambda: store.read("vn/1"),
            lambda: store.read_range("vn/1", 0, 1),
            lambda: store.stat("vn/1"),
            lambda: store.create("vn/1", b"1"),
            lambda: store.overwrite("vn/1", b"1"),
            lambda: store.delete_many(["vn/1"]),
        ):
            with pytest.raises(StorageFailed) as raised:
                use()
            assert "vn/1" in raised.value.message
        store.write_hint("vn/1", b"1")
        assert not store.exists("vn/1")
        assert paths(store) == ["vn/1/x"]

    def test_a_file_in_place_of_a_folder(self, store, root):
        store.create("vn", b"1")
        assert not store.exists("vn/1")
        with pytest.raises(PathMissing):
            store.read("vn/1")
        for use in (store.create, store.overwrite):
            with pytest.raises(StorageFailed, match="Not a directory"):
                use("vn/1", b"1")
        store.write_hint("vn/1", b"1")
        store.delete_many(["vn/1"])
        assert files_below(root) == ["vn"]

    def test_a_pipe_or_a_socket_does_not_hang_anybody(self, store, root, monkeypatch):
        root.mkdir()
        os.mkfifo(root / "pipe")
        # the path of a socket is short
        monkeypatch.chdir(root)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
        answers = []

        def use_all():
            for path in ("pipe", "socket"):
                for use in (
                    lambda path=path: store.read(path),
                    lambda path=path: store.read_range(path, 0, 1),
                    lambda path=path: store.stat(path),
                    lambda path=path: store.create(path, b"1"),
                ):
                    with pytest.raises(StorageFailed):
                        use()
                store.write_hint(path, b"1")
                answers.append(store.exists(path))
            answers.append(paths(store))

        thread = threading.Thread(target=use_all, daemon=True)
        thread.start()
        thread.join(60)
        assert answers == [False, False, ["pipe", "socket"]]

    @pytest.mark.parametrize("thing", THINGS)
    def test_errors_name_the_kind_of_thing_at_the_path(self, store, root, thing):
        for folder in ("vn", "def"):
            (root / folder).mkdir(parents=True)
        words = put(thing, root / "vn" / "1")
        with pytest.raises((StorageFailed, PathMissing, PathOutside)) as raised:
            store.read("vn/1")
        assert words in raised.value.message
        assert getattr(raised.value, "is_no_file", False) is (thing not in NOT_THERE)
        assert getattr(raised.value, "is_folder", False) is (thing == "a folder")
        assert getattr(raised.value, "is_dangling", False) is (thing == "a link to nothing")
        store.write_hint("vn/1", b"1")
        assert ("a link stands at " if "link" in thing else words) in store.lost_hints["vn/1"].message
        if thing == "a folder":
            with pytest.raises(StorageFailed, match="a folder stands at vn/1") as raised:
                store.overwrite("vn/1", b"2")
            assert raised.value.is_folder
            assert list(store.lost_hints) == ["vn/1"]
        else:
            store.overwrite("vn/1", b"2")
            assert store.read("vn/1") == b"2"
            assert store.lost_hints == {}

    def test_a_hint_is_lost_until_it_is_written(self, store, root):
        (root / "vn" / "1").mkdir(parents=True)
        store.write_hint("vn/1", b"1")
        store.write_hint("vn/2", b"1")
        assert list(store.lost_hints) == ["vn/1"]
        (root / "vn" / "1").rmdir()
        store.write_hint("vn/1", b"1")
        assert store.lost_hints == {}

    def test_a_name_that_is_too_long(self, store, root):
        for use in (store.create, store.overwrite):
            with pytest.raises(StorageFailed, match="File name too long") as raised:
                use("n" * 256, b"1")
            assert raised.value.hint == "use a shorter name"
        with pytest.raises(StorageFailed, match="File name too long"):
            store.read("n" * 256)
        store.write_hint("n" * 256, b"1")
        assert files_below(root) == []

    def test_the_umask_decides(self, store, root):
        before = os.umask(0o027)
        try:
            store.create("def/table/x", b"1")
            store.overwrite("def/y", b"1")
            store.write_hint("vn/latest", b"1")
        finally:
            os.umask(before)
        modes = {
            path: stat.S_IMODE(os.stat(root / path).st_mode)
            for path in ("", "def", "def/table", "vn", "def/table/x", "def/y", "vn/latest")
        }
        assert modes == {
            **dict.fromkeys(("", "def", "def/table", "vn"), 0o750),
            **dict.fromkeys(("def/table/x", "def/y", "vn/latest"), 0o640),
        }

    def test_a_hint_is_never_empty_in_between(self, store):
        store.write_hint("latest", b"1000000")
        done = threading.Event()
        seen = set()

        def watch():
            while not seen or not done.is_set():
                seen.add(store.read("latest"))

        thread = threading.Thread(target=watch)
        thread.start()
        for n in range(2000):
            store.write_hint("latest", (b"99", b"1000000")[n % 2])
        done.set()
        thread.join()
        # it may be torn, but there are always at least as many bytes as in the shorter one
        assert min(map(len, seen)) >= 2

    def test_files_that_vanish_during_a_listing(self, store, root):
        store.create_many({f"{folder}/{n}": b"" for folder in "abc" for n in range(50)})
        listing = store.list()
        first = next(listing)
        for folder in "abc":
            shutil.rmtree(root / folder)
        assert first.path not in [info.path for info in listing]

    def test_foreign_things_left_by_others(self, store, root):
        (root / "vn" / ".tmp-folder").mkdir(parents=True)
        (root / "vn" / ".tmp-folder" / "x").write_bytes(b"1")
        (root / "vn" / ".tmp-0").write_bytes(b"half of it")
        assert paths(store) == ["vn/.tmp-folder/x"]

    def test_a_root_that_is_missing(self, root):
        store = LocalStore(root / "deep" / "down")
        assert paths(store) == []
        assert not store.exists("a")
        store.delete_many(["a"])
        assert not root.exists()
        store.create("a", b"1")
        assert files_below(root) == ["deep/down/a"]

    def test_a_root_that_is_a_file(self, root):
        root.write_bytes(b"")
        store = LocalStore(root)
        assert paths(store) == []
        with pytest.raises(PathMissing):
            store.read("a")
        with pytest.raises(StorageFailed):
            store.create("a", b"1")

    def test_the_uri_is_an_absolute_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for given in ("root", "./root/", "other/../root", tmp_path / "root"):
            assert LocalStore(given).uri == str(tmp_path / "root")
        LocalStore("root").create("a", b"1")
        assert LocalStore(tmp_path / "root").read("a") == b"1"

    def test_it_starts_light(self, tmp_path):
        program = """
import json, sys
from olympia_cli.storage.local import LocalStore
store = LocalStore(sys.argv[1])
store.create("vn/1", b"1")
store.write_hint("vn/latest", b"1")
store.read("vn/1"), list(store.list()), store.exists("vn/2")
print(json.dumps(sorted(sys.modules)))
"""
        loaded = run(program, tmp_path)
        heavy = {"fsspec", "s3fs", "gcsfs", "asyncio", "concurrent.futures", "uuid", "tempfile", "subprocess"}
        assert not heavy & set(loaded)
        assert "threading" not in loaded
