"""The number of requests of each operation, counted by the server."""

from __future__ import annotations

import pytest

from olympia_cli.errors import PathMissing
from tests.helpers.places import gcs_place, s3_place


class Counted:
    """A store, and the requests that its server saw since the last look."""

    def __init__(self, server, store):
        self.server = server
        self.store = store

    def __call__(self, work):
        self.server.requests.clear()
        work(self.store)
        return dict(self.server.requests)


@pytest.fixture
def s3(strict_s3):
    store = s3_place(strict_s3.url).open()
    yield Counted(strict_s3, store)
    store.close()


@pytest.fixture
def gcs(small_gcs):
    store = gcs_place(small_gcs.url).open()
    yield Counted(small_gcs, store)
    store.close()


def _missing(store):
    with pytest.raises(PathMissing):
        store.read("none")


def test_s3(s3):
    assert s3(lambda store: store.create("a", b"content")) == {"PUT": 1}
    assert s3(lambda store: store.create("empty", b"")) == {"PUT": 1}
    assert s3(lambda store: store.overwrite("a", b"content")) == {"PUT": 1}
    assert s3(lambda store: store.read("a")) == {"GET": 1}
    assert s3(_missing) == {"GET": 1}
    assert s3(lambda store: store.read_range("a", 1, 3)) == {"GET": 1}
    assert s3(lambda store: store.exists("a")) == {"HEAD": 1}
    assert s3(lambda store: store.exists("none")) == {"HEAD": 1}
    assert s3(lambda store: store.stat("a")) == {"HEAD": 1}
    assert s3(lambda store: list(store.list())) == {"LIST": 1}
    assert s3(lambda store: list(store.read_many(["a", "empty"]))) == {"GET": 2}
    # the outcome of a lost race is read, so that one's own file is not taken for another's
    assert s3(lambda store: store.create("a", b"content")) == {"PUT": 1, "GET": 1}


def test_gcs(gcs):
    assert gcs(lambda store: store.create("a", b"content")) == {"UPLOAD": 1}
    assert gcs(lambda store: store.create("empty", b"")) == {"UPLOAD": 1}
    assert gcs(lambda store: store.overwrite("a", b"content")) == {"UPLOAD": 1}
    assert gcs(lambda store: store.read("a")) == {"GET": 1}
    assert gcs(_missing) == {"GET": 1}
    assert gcs(lambda store: store.read_range("a", 1, 3)) == {"GET": 1}
    assert gcs(lambda store: store.exists("a")) == {"META": 1}
    assert gcs(lambda store: store.exists("none")) == {"META": 1}
    assert gcs(lambda store: list(store.list())) == {"LIST": 1}
    assert gcs(lambda store: store.delete_many(["a", "none"])) == {"DELETE": 2}
    assert gcs(lambda store: store.create("empty", b"")) == {"UPLOAD": 1, "GET": 1}


@pytest.mark.parametrize("backend", ["s3", "gcs"])
def test_many_files(backend, request):
    counted = request.getfixturevalue(backend)
    paths = [f"many/{number:05}" for number in range(2500)]
    counted.store.create("other", b"")
    root = counted.store._root
    objects = counted.server.buckets["catalogs"]
    kind = type(objects[f"{root}other"])
    for path in paths:
        objects[root + path] = kind(b"x") if backend == "s3" else kind(b"x", 1)

    found = []
    assert counted(lambda store: found.extend(store.list("many/"))) == {"LIST": 3}
    assert sorted(info.path for info in found) == paths
    assert {info.size for info in found} == {1}
    assert min(info.modified_at_millis for info in found) > 1_600_000_000_000

    begun = counted(lambda store: next(iter(store.list("many/"))))
    assert begun == {"LIST": 1}

    deletes = {"DELETE-MANY": 3} if backend == "s3" else {"DELETE": 2500}
    assert counted(lambda store: store.delete_many(iter(paths))) == deletes
    assert list(counted.store.list("many/")) == []
    assert counted.store.exists("other")


def test_large_file_on_s3(strict_s3):
    store = s3_place(strict_s3.url).open(part_bytes=100_000)
    counted = Counted(strict_s3, store)
    content = bytes(range(256)) * 1000
    assert counted(lambda store: store.create("large", content)) == {
        "MPU-CREATE": 1,
        "MPU-PART": 3,
        "MPU-COMPLETE": 1,
    }
    assert counted(lambda store: store.read("large")) == {"GET": 1}
    assert store.read("large") == content
    store.create("large", content)
    assert strict_s3.uploads == {}
    store.close()
