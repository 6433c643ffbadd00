"""The promises of `olympia_cli.storage.protocol`, tested on every backend.

`place` is a fresh location; each `place.open()` is a client of its own. `store` is one of these clients.
"""

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from olympia_cli.errors import FileTooLarge, OlympiaError, PathMissing, PathOutside, PathTaken
from olympia_cli.storage.protocol import FileInfo

ILLEGAL = ["", "/", "/a", "a/", "a//b", ".", "..", "./a", "../x", "a/.", "a/..", "a/../b", "a\0b"]
# what is a separator elsewhere leads nowhere either
ILLEGAL += [
    "\\",
    "\\a",
    "\\\\host\\share",
    "..\\x",
    ".\\a",
    "a\\..",
    "a\\.",
    "a\\..\\b",
    "a/..\\b",
    "a\\../b",
    "a/b\\..\\..\\c",
]

LARGE = os.urandom(6 * 1024 * 1024)
CONTENTS = {
    "vn/empty": b"",
    "vn/back\\slash": b"as the Java SDK names files",
    "vn/one byte": b"\0",
    "vn/text": b"12\r\n",
    "vn/every byte": bytes(range(256)) * 3,
    "vn/large": LARGE,
}

ODD_NAMES = [
    "a b",
    " a ",
    "100%",
    "%41",
    "%2F",
    "%25",
    "ü",
    "日本",
    "🙂",
    "~x",
    "a+b",
    "a=b&c=d",
    "a#b",
    "a?b",
    "a*b",
    "[ab]",
    "{a}",
    "'a'",
    '"a"',
    "<a>",
    "a;b,c",
    "a:b",
    "C:a",
    "C:\\a",
    "s3:a",
    "a\\b",
    "a\\b\\",
    "...\\a",
    "@a",
    "$a",
    "!a",
    "(a)",
    "..a",
    "...",
    "-a",
    "x.tmp-1",
    "n" * 255,
]


def paths(store, prefix=""):
    return sorted(info.path for info in store.list(prefix))


class TestReading:
    def test_a_created_file_reads_the_same_from_every_client(self, place, store):
        other = place.open()
        for path, content in CONTENTS.items():
            store.create(path, content)
            for client in (store, other):
                data = client.read(path)
                assert data == content
                assert type(data) is bytes

    def test_a_missing_file_is_missing(self, store):
        store.create("vn/0", b"x")
        for path in ("a", "vn/1", "vn/0x", "no/such/folder", "vn/0/below-a-file"):
            with pytest.raises(PathMissing) as raised:
                store.read(path)
            assert path in str(raised.value)
            assert raised.value.exit_code == 10

    def test_an_empty_store_has_nothing(self, store):
        assert list(store.list()) == []
        assert not store.exists("a")
        with pytest.raises(PathMissing):
            store.read("a")
        with pytest.raises(PathMissing):
            store.stat("a/b")

    def test_a_range(self, store):
        store.create("a", b"0123456789")
        expected = {
            (0, 10): b"0123456789",
            (0, 1): b"0",
            (3, 4): b"3456",
            (8, 2): b"89",
            (8, 100): b"89",
            (0, 100): b"0123456789",
            (10, 1): b"",
            (500, 1): b"",
            (4, 0): b"",
        }
        assert {asked: store.read_range("a", *asked) for asked in expected} == expected

    def test_a_range_of_a_large_file(self, store):
        data = LARGE
        store.create("a", data)
        assert store.read_range("a", 5_000_000, 700_000) == data[5_000_000:5_700_000]
        assert store.read_range("a", len(data) - 8, 8) == data[-8:]

    def test_a_range_of_an_empty_file(self, store):
        store.create("a", b"")
        assert store.read_range("a", 0, 8) == b""

    def test_a_range_of_a_missing_file_is_missing(self, store):
        for length in (0, 5):
            with pytest.raises(PathMissing):
                store.read_range("a", 0, length)


class TestReadingLargeFiles:
    """A file that is larger than its path allows is not read."""

    @pytest.fixture
    def small(self, store):
        store.create_many({"small": LARGE[: 2**20], "large": LARGE[: 2**20 + 1], "huge": LARGE})
        store.size_limit = lambda path: 2**20
        return store

    def test_reading_a_too_large_file_is_an_error(self, small):
        assert small.read("small") == LARGE[: 2**20]
        for path, shown in (("large", "1,048,577 bytes"), ("huge", f"{len(LARGE):,} bytes")):
            with pytest.raises(FileTooLarge, match=rf"too large \({shown}\): the limit is 1,048,576 bytes") as raised:
                small.read(path)
            assert path in raised.value.path
            assert raised.value.exit_code == 40

    def test_it_is_a_value_among_many(self, small):
        found = dict(small.read_many(["large", "small", "huge"]))
        assert found["small"] == LARGE[: 2**20]
        assert isinstance(found["large"], FileTooLarge)
        assert isinstance(found["huge"], FileTooLarge)

    def test_parts_of_it_can_be_read(self, small):
        assert small.read_range("huge", 1_000_000, 1000) == LARGE[1_000_000:1_001_000]

    def test_its_name_is_taken(self, small):
        with pytest.raises(PathTaken):
            small.create("huge", b"x")


class TestReadingMany:
    def test_files_come_in_the_requested_order(self, store):
        files = {f"node/{n}": os.urandom(n * 97 % 5000) for n in range(150)}
        store.create_many(files)
        asked = sorted(files, key=lambda path: path[::-1])
        asked += asked[:3]
        assert list(store.read_many(iter(asked))) == [(path, files[path]) for path in asked]

    def test_reading_no_paths_gives_no_files(self, store):
        assert list(store.read_many([])) == []

    def test_an_error_is_a_value(self, store):
        store.create_many({"a": b"1", "c": b"3"})
        found = list(store.read_many(["a", "b", "../x", "c", "d/e"]))
        assert [path for path, _ in found] == ["a", "b", "../x", "c", "d/e"]
        assert found[0][1] == b"1"
        assert isinstance(found[1][1], PathMissing)
        assert isinstance(found[2][1], PathOutside)
        assert found[3][1] == b"3"
        assert isinstance(found[4][1], PathMissing)

    def test_a_bounded_number_is_under_way(self, store):
        store.create("a", b"1")
        asked = 0

        def endless():
            nonlocal asked
            for asked in itertools.count(1):  # noqa: B007
                yield "a"

        with closing(store.read_many(endless())) as found:
            for given in range(1, 100):
                assert next(found) == ("a", b"1")
                assert asked - given <= 256


class TestCreating:
    def test_a_second_create_fails_and_the_first_content_stays(self, place, store):
        other = place.open()
        for path, content in CONTENTS.items():
            store.create(path, content)
            for client in (store, other):
                with pytest.raises(PathTaken) as raised:
                    client.create(path, b"other" + content)
                assert path in str(raised.value)
                assert raised.value.exit_code == 11
                assert client.read(path) == content

    def test_an_empty_file_is_no_free_name_and_takes_none(self, store):
        store.create("a", b"")
        with pytest.raises(PathTaken):
            store.create("a", b"x")
        assert store.read("a") == b""
        store.create("b", b"x")
        with pytest.raises(PathTaken):
            store.create("b", b"")
        assert store.read("b") == b"x"

    def test_creating_a_file_with_identical_content_succeeds(self, place, store):
        other = place.open()
        for path, content in CONTENTS.items():
            store.create(path, content)
            store.create(path, content)
            other.create(path, content)
            other.create_many({path: content, f"{path} again": content})
            assert store.read(path) == content

    def test_a_deleted_name_is_free(self, store):
        store.create("a", b"1")
        store.delete_many(["a"])
        store.create("a", b"2")
        assert store.read("a") == b"2"

    def test_one_winner_of_many_at_once(self, request, place):
        if "moto" in request.node.name:
            pytest.skip("moto looks and writes in two steps, so that two can win there")
        clients = [place.open(), place.open()]
        for round_ in range(8):
            path = f"vn/{round_}"
            start = threading.Barrier(16)

            def attempt(number, path=path, start=start):
                start.wait()
                try:
                    clients[number % 2].create(path, b"writer %d " % number * 500)
                except PathTaken:
                    return False
                return True

            with ThreadPoolExecutor(16) as pool:
                won = list(pool.map(attempt, range(16)))
            assert sum(won) == 1
            winner = b"writer %d " % won.index(True) * 500
            assert [client.read(path) for client in clients] == [winner, winner]

    def test_a_reader_sees_it_whole_or_not_at_all(self, place, store):
        data = LARGE
        reader = place.open()
        done = threading.Event()
        seen = []

        def watch():
            while True:
                last = done.is_set()
                with suppress(PathMissing):
                    seen.append(reader.read("a") == data)
                if last:
                    return

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            try:
                store.create("a", data)
            finally:
                done.set()
            watching.result()
        assert seen
        assert all(seen)


class TestCreatingMany:
    def test_all_files_exist_when_the_call_returns(self, place, store):
        other = place.open()
        for number in (0, 1, 2, 9, 100):
            folders = [f"{number}/{folder}" for folder in ("def/table", "node", "vn")]
            files = {f"{folders[n % 3]}/{n}": os.urandom(n * 31) for n in range(number)}
            store.create_many(files)
            assert dict(other.read_many(files)) == files
            assert paths(other, f"{number}/") == sorted(files)

    def test_taken_path_is_an_error_and_keeps_its_content(self, store):
        store.create("b", b"before")
        files = {"a": b"1", "b": b"2", "c": b"3"}
        with pytest.raises(PathTaken):
            store.create_many(files)
        assert store.read("b") == b"before"
        for path in paths(store):
            if path != "b":
                assert store.read(path) == files[path]

    def test_a_taken_path_among_many(self, store):
        files = {f"a/{n}": b"%d" % n for n in range(60)}
        store.create("a/41", b"before")
        with pytest.raises(PathTaken):
            store.create_many(files)
        assert dict(store.read_many(paths(store))) == {
            path: b"before" if path == "a/41" else files[path] for path in paths(store)
        }

    def test_an_illegal_path_among_them_and_nothing_is_touched(self, store):
        with pytest.raises(PathOutside):
            store.create_many({"a": b"1", "../b": b"2"})
        assert list(store.list()) == []


FILES = {f"node/{number}": b"%d" % number for number in range(3)}


class TestCreateAfter:
    def test_the_last_file_is_created_after_all_others(self, place, store):
        seen = []
        store.create_after(FILES, "vn/1", b"root", lambda: seen.extend(paths(place.open())))
        assert seen == sorted(FILES)
        assert paths(place.open()) == [*sorted(FILES), "vn/1"]
        assert store.read("vn/1") == b"root"

    def test_the_last_file_is_created_without_other_files(self, store):
        store.create_after({}, "vn/1", b"root", lambda: None)
        assert paths(store) == ["vn/1"]

    def test_an_error_before_the_last_file_leaves_the_others(self, store):
        def refuse():
            raise LookupError

        with pytest.raises(LookupError):
            store.create_after(FILES, "vn/1", b"root", refuse)
        assert paths(store) == sorted(FILES)
        store.create("vn/1", b"another")

    def test_it_is_taken(self, store):
        store.create("vn/1", b"theirs")
        asked = []
        with pytest.raises(PathTaken):
            store.create_after(FILES, "vn/1", b"mine", lambda: asked.append(1))
        assert asked == [1]
        assert store.read("vn/1") == b"theirs"
        assert paths(store) == [*sorted(FILES), "vn/1"]

    def test_one_of_the_others_is_taken(self, store):
        store.create("node/1", b"theirs")
        with pytest.raises(PathTaken):
            store.create_after(FILES, "vn/1", b"mine", lambda: pytest.fail("it is nobody's turn"))
        assert not store.exists("vn/1")


class TestOverwriting:
    def test_it_replaces(self, place, store):
        other = place.open()
        for data in (b"first", b"a longer content than before" * 9, b"short", *CONTENTS.values(), b"last"):
            store.overwrite("vn/oldest", data)
            assert other.read("vn/oldest") == data
            assert other.stat("vn/oldest").size == len(data)
            store, other = other, store

    def test_an_overwritten_name_is_taken(self, store):
        store.overwrite("a", b"1")
        with pytest.raises(PathTaken):
            store.create("a", b"2")

    def test_a_reader_sees_one_or_the_other(self, place, store):
        contents = [b"a" * 300_000, b"b" * 200_000]
        store.create("x", contents[0])
        reader = place.open()
        done = threading.Event()

        def watch():
            seen = set()
            while not done.is_set():
                seen.add(reader.read("x"))
            return seen

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            try:
                for n in range(1, 31):
                    store.overwrite("x", contents[n % 2])
            finally:
                done.set()
            assert watching.result() <= set(contents)


class TestHints:
    def test_a_hint_is_readable_after_close(self, place, store):
        for data in (b"7", b"1234567", b"12", b""):
            store.write_hint("vn/latest", data)
            store.close()
            assert place.open().read("vn/latest") == data
            assert store.read("vn/latest") == data

    def test_the_last_one_stays(self, store):
        for n in range(20):
            store.write_hint("vn/latest", b"%d" % n)
        store.close()
        assert store.read("vn/latest") == b"19"

    def test_it_does_not_disturb_others(self, store):
        store.create("vn/1", b"root")
        store.write_hint("vn/latest", b"1")
        store.close()
        assert store.read("vn/1") == b"root"
        assert paths(store) == ["vn/1", "vn/latest"]


class TestLooking:
    def test_exists(self, place, store):
        other = place.open()
        assert not other.exists("vn/1")
        store.create("vn/1", b"")
        assert other.exists("vn/1")
        store.delete_many(["vn/1"])
        assert not other.exists("vn/1")

    def test_a_folder_is_no_file(self, store):
        store.create("def/table/x", b"1")
        for path in ("def", "def/table", "def/table/x/y", "def/tab", "d"):
            assert not store.exists(path)
        assert store.exists("def/table/x")

    def test_stat(self, store):
        before = time.time()
        store.create_many(CONTENTS)
        for path, content in CONTENTS.items():
            info = store.stat(path)
            assert info == FileInfo(path, len(content), info.modified_at_millis)
            assert type(info.modified_at_millis) is int
            assert before - 60 < info.modified_at_millis / 1000 < time.time() + 60

    def test_stat_of_a_missing_file(self, store):
        store.create("vn/1", b"")
        with pytest.raises(PathMissing):
            store.stat("vn/2")


class TestListing:
    def test_sizes_and_times(self, store):
        before = time.time()
        store.create_many({"a": b"", "vn/1": b"123", "def/table/x": b"x" * 5000})
        found = {info.path: info for info in store.list()}
        assert {path: info.size for path, info in found.items()} == {"a": 0, "vn/1": 3, "def/table/x": 5000}
        for info in found.values():
            assert before - 60 < info.modified_at_millis / 1000 < time.time() + 60
            assert info.modified_at_millis // 1000 == store.stat(info.path).modified_at_millis // 1000

    def test_the_prefix_is_a_string(self, store):
        store.create_many(dict.fromkeys(("a/b1", "a/b2/x", "a/b2/y/z", "a/c", "ab", "b/a"), b""))
        expected = {
            "": ["a/b1", "a/b2/x", "a/b2/y/z", "a/c", "ab", "b/a"],
            "a": ["a/b1", "a/b2/x", "a/b2/y/z", "a/c", "ab"],
            "a/": ["a/b1", "a/b2/x", "a/b2/y/z", "a/c"],
            "a/b": ["a/b1", "a/b2/x", "a/b2/y/z"],
            "a/b2": ["a/b2/x", "a/b2/y/z"],
            "a/b2/": ["a/b2/x", "a/b2/y/z"],
            "a/b2/y": ["a/b2/y/z"],
            "a/b1": ["a/b1"],
            "a/b1/": [],
            "a/b11": [],
            "ab": ["ab"],
            "c": [],
            "c/d": [],
            ".": [],
        }
        assert {prefix: paths(store, prefix) for prefix in expected} == expected

    def test_others_writes_show_at_once(self, place, store):
        other = place.open()
        assert paths(other) == []
        assert not other.exists("vn/1")
        store.create("vn/1", b"1")
        assert paths(other) == paths(other, "vn/") == ["vn/1"]
        store.create("vn/2", b"2")
        assert paths(other, "vn/") == ["vn/1", "vn/2"]
        assert other.read("vn/2") == b"2"
        store.overwrite("vn/2", b"22")
        assert [info.size for info in other.list("vn/2")] == [2]
        assert other.stat("vn/2").size == 2
        store.delete_many(["vn/1"])
        assert paths(other) == paths(other, "vn/") == ["vn/2"]
        with pytest.raises(PathMissing):
            other.read("vn/1")

    def test_odd_names(self, place, store):
        files = {f"def/{name}/{name}": name.encode() for name in ODD_NAMES}
        store.create_many(files)
        other = place.open()
        assert paths(other) == paths(other, "def/") == sorted(files)
        assert dict(other.read_many(files)) == files
        for path in files:
            assert paths(other, path) == [path]
            assert other.exists(path)
            assert other.stat(path).size == len(files[path])
        for path in files:
            with pytest.raises(PathTaken):
                store.create(path, b"mine?")
        store.delete_many(files)
        assert paths(other) == []

    def test_writes_in_progress_are_not_listed(self, store):
        store.create_many({".tmp-1": b"", "vn/.tmp-2": b"", "vn/1": b"", "vn/x.tmp-3": b"", ".tmp": b""})
        assert paths(store) == [".tmp", "vn/1", "vn/x.tmp-3"]
        assert paths(store, "vn/") == ["vn/1", "vn/x.tmp-3"]
        assert paths(store, "vn/.tmp-") == []
        every = [".tmp", ".tmp-1", "vn/.tmp-2", "vn/1", "vn/x.tmp-3"]
        assert sorted(file.path for file in store.list(temporary=True)) == every

    def test_between_two_paths(self, store):
        names = ("node/-", "node/0", "node/00", "node/0f", "node/1", "node/9", "node/:", "node/a", "ops/x", "vn/1", "é")
        store.create_many(dict.fromkeys(names, b""))
        cuts = ["", "a", "node/", "node/0", "node/0f", "node/1", "node/zz", "vn/", None]
        parts = [
            sorted(file.path for file in store.list(between=(after or "", until)))
            for after, until in itertools.pairwise(cuts)
        ]
        assert [path for part in parts for path in part] == sorted(names), "each of them once, and in its part"
        assert parts[3:6] == [["node/00", "node/0f"], ["node/1"], ["node/9", "node/:", "node/a"]]
        assert sorted(file.path for file in store.list("node/", between=("node/9", "node/a"))) == ["node/:", "node/a"]
        assert list(store.list("vn/", between=("", "node/"))) == []

    def test_more_than_a_page(self, request, store):
        if any(slow in request.node.name for slow in ("moto", "gcs")):
            pytest.skip("creating so many files takes long there")
        files = {f"node/{n:04}": b"" for n in range(1005)}
        store.create_many(files)
        store.create("other", b"")
        assert paths(store, "node/") == sorted(files)
        store.delete_many(iter(files))
        assert paths(store) == ["other"]


class TestDeleting:
    def test_deleted_files_are_gone(self, place, store):
        store.create_many({"a": b"1", "vn/1": b"2", "vn/10": b"3"})
        store.delete_many(path for path in ("a", "vn/1"))
        other = place.open()
        assert paths(other) == ["vn/10"]
        assert other.read("vn/10") == b"3"
        assert not other.exists("vn/1")

    def test_deleting_a_missing_file_is_no_error(self, store):
        store.create_many({"a": b"", "b/c": b""})
        store.delete_many([])
        store.delete_many(["x", "a", "no/such/folder", "a", "b/d", "b/c/d"])
        assert paths(store) == ["b/c"]

    def test_more_than_a_batch(self, store):
        store.create_many({f"a/{n}": b"" for n in (0, 999, 1000, 1001, 1049, 5000)})
        store.delete_many(f"a/{n}" for n in range(1050))
        assert paths(store) == ["a/5000"]


class TestPaths:
    def test_an_illegal_one_leads_nowhere(self, store):
        store.create("a", b"1")
        for path in ILLEGAL:
            for use in (
                lambda path=path: store.read(path),
                lambda path=path: store.read_range(path, 0, 1),
                lambda path=path: store.create(path, b"2"),
                lambda path=path: store.create_many({path: b"2"}),
                lambda path=path: store.overwrite(path, b"2"),
                lambda path=path: store.write_hint(path, b"2"),
                lambda path=path: store.exists(path),
                lambda path=path: store.stat(path),
                lambda path=path: store.delete_many([path]),
            ):
                with pytest.raises(PathOutside):
                    use()
            [(asked, found)] = store.read_many([path])
            assert asked == path
            assert isinstance(found, PathOutside)
        store.close()
        assert paths(store) == ["a"]
        assert store.read("a") == b"1"

    def test_a_prefix_of_no_path_finds_nothing(self, store):
        store.create_many({"a/b": b"1", "c": b"1"})
        for prefix in ("/", "/a", "a//", "../", "a/../", "./", "a\\", "a\0", "..", "a/."):
            with suppress(PathOutside):
                assert list(store.list(prefix)) == []

    def test_deep_ones(self, store):
        path = "/".join(["vn"] * 30)
        store.create(path, b"1")
        assert paths(store) == [path]
        assert not store.exists("vn")


class TestStores:
    def test_one_place_has_one_uri(self, place, store):
        assert store.uri
        assert store.uri == place.open().uri

    def test_it_may_be_used_after_close(self, store):
        store.create("a", b"1")
        store.close()
        store.close()
        store.create("b", b"2")
        assert dict(store.read_many(["a", "b"])) == {"a": b"1", "b": b"2"}

    def test_it_may_be_used_by_several_threads(self, store):
        def use(number):
            mine = {f"t{number}/{n}": os.urandom(200) for n in range(8)}
            store.create_many(mine)
            store.overwrite(f"t{number}/0", b"new")
            store.write_hint("hint", b"%d" % number)
            assert dict(store.read_many(mine)) == {**mine, f"t{number}/0": b"new"}
            assert paths(store, f"t{number}/") == sorted(mine)
            store.delete_many(list(mine)[4:])
            return all(store.exists(path) == (at < 4) for at, path in enumerate(mine))

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(use, range(8)))
        store.close()
        assert len(paths(store)) == 8 * 4 + 1

    def test_every_error_names_its_path(self, store):
        store.create("vn/1", b"1")
        for use in (
            lambda: store.read("vn/2"),
            lambda: store.create("vn/1", b"2"),
            lambda: store.stat("vn/2"),
        ):
            with pytest.raises(OlympiaError) as raised:
                use()
            assert "vn/" in raised.value.message
