"""Each way in which a bucket can fail has its own class, and says what to do."""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread

import pytest

from olympia_cli.errors import (
    InvalidOption,
    OutcomeUnknown,
    PathMissing,
    PathOutside,
    StorageDenied,
    StorageFailed,
)
from olympia_cli.storage.gcs import GcsStore
from olympia_cli.storage.http_bucket import wait_for
from olympia_cli.storage.objects import ObjectStore
from olympia_cli.storage.s3 import S3Store
from olympia_cli.storage.settle import Failure, Fate
from tests.helpers.places import BUCKET, gcs_options, quiet_environment, s3_options
from tests.helpers.servers.gcs import SmallGcs
from tests.helpers.servers.proxy import Fault, FaultProxy, Mode
from tests.helpers.servers.s3 import StrictS3


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    quiet_environment(monkeypatch)


@pytest.fixture(scope="module")
def server():
    with StrictS3() as running:
        running.create_bucket(BUCKET)
        yield running


@pytest.fixture(scope="module")
def gcs_server():
    with SmallGcs() as running:
        running.create_bucket(BUCKET)
        yield running


@pytest.fixture
def open_s3():
    opened = []

    def make(bucket=BUCKET, prefix="p", **options):
        time_allowed = options.pop("time_allowed", 30.0)
        opened.append(S3Store(bucket, prefix, options, time_allowed=time_allowed))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def unreachable():
    """A port without a listener. It stays bound, so that no other process gets it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def _everything(store):
    """Each operation by name."""
    return {
        "read": lambda: store.read("a"),
        "read_range": lambda: store.read_range("a", 0, 1),
        "create": lambda: store.create("a", b"1"),
        "create_many": lambda: store.create_many({"a": b"1"}),
        "overwrite": lambda: store.overwrite("a", b"1"),
        "exists": lambda: store.exists("a"),
        "stat": lambda: store.stat("a"),
        "list": lambda: list(store.list()),
        "delete_many": lambda: store.delete_many(["a"]),
    }


def test_denied(server, open_s3):
    store = open_s3(**s3_options(server.url, "nobody"))
    for name, work in _everything(store).items():
        with pytest.raises(StorageDenied) as caught:
            work()
        assert caught.value.__cause__ is not None or name == "delete_many"
        assert BUCKET in str(caught.value)
        assert "secret" not in str(caught.value)
    ((_, error),) = store.read_many(["a"])
    assert isinstance(error, StorageDenied)
    store.write_hint("a", b"1")


def test_missing_bucket(server, open_s3):
    store = open_s3("nowhere", **s3_options(server.url))
    for name, work in _everything(store).items():
        if name in ("exists", "stat"):
            continue  # the answer to a HEAD has no body to tell a bucket from a key
        with pytest.raises(StorageFailed, match="no bucket nowhere: create the bucket"):
            work()
    assert not store.exists("a")


def test_missing_bucket_on_gcs(gcs_server):
    store = GcsStore("nowhere", "p", gcs_options(gcs_server.url))
    for work in _everything(store).values():
        with pytest.raises(StorageFailed, match="no bucket nowhere: create the bucket"):
            work()
    store.close()


def test_denied_on_gcs(gcs_server):
    from google.oauth2.credentials import Credentials

    options = gcs_options(gcs_server.url) | {"token": Credentials("nobody")}
    store = GcsStore(BUCKET, "p", options)
    for work in _everything(store).values():
        with pytest.raises(StorageDenied):
            work()
    store.close()


@pytest.mark.parametrize("backend", ["s3", "gcs"])
def test_unreachable(unreachable, backend):
    """No request was sent, so the outcome is known to be a failure, also for a creation.

    No request gets less than a second, because a request that a busy machine cuts off may have been sent.
    """
    if backend == "s3":
        store = S3Store(BUCKET, "p", s3_options(unreachable), time_allowed=8.0)
    else:
        store = GcsStore(BUCKET, "p", gcs_options(unreachable), time_allowed=8.0)

    def refused(work) -> None:
        with pytest.raises(StorageFailed, match=r"cannot reach http://127.*: connection refused: check the endpoint"):
            work()

    works = _everything(store).values()
    with ThreadPoolExecutor(len(works)) as pool:
        list(pool.map(refused, works))
    store.close()


def test_no_write_is_begun_that_could_only_be_cut_off(monkeypatch):
    """A cut request would make a known failure an unknown outcome."""
    monkeypatch.setattr("olympia_cli.storage.objects.pause", lambda attempt: 0.15)
    given: list[float] = []

    class Nobody:
        uri = "s3://nobody"

        def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None:
            given.append(seconds)
            raise Failure(Fate.UNSENT, StorageFailed("cannot reach it"))

    store = ObjectStore(Nobody(), "p", time_allowed=0.8)
    for write in (store.create, store.overwrite):
        given.clear()
        with pytest.raises(StorageFailed, match="cannot reach it"):
            write("a", b"1")
        assert len(given) > 1
        assert min(given) >= 0.1


@pytest.mark.parametrize("backend", ["s3", "gcs"])
def test_tls_to_a_plain_port_fails_at_once(server, gcs_server, backend):
    """A retry cannot succeed."""
    url = (server if backend == "s3" else gcs_server).url.replace("http:", "https:")
    store = S3Store(BUCKET, "p", s3_options(url)) if backend == "s3" else GcsStore(BUCKET, "p", gcs_options(url))
    for work in _everything(store).values():
        with pytest.raises(StorageFailed, match=r"cannot reach https://127.*: TLS: wrong version number: check that"):
            work()
    store.close()


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST"])
def test_an_error_shows_the_endpoint_in_use(unreachable, monkeypatch, variable):
    monkeypatch.setenv(variable, unreachable)
    if variable.startswith("AWS"):
        store = S3Store(BUCKET, "p", {"anon": True}, time_allowed=1.0)
    else:
        store = GcsStore(BUCKET, "p", time_allowed=1.0)
    with pytest.raises(StorageFailed, match=f"cannot reach {unreachable} for"):
        store.read("a")
    store.close()


def test_closing_a_store_ends_waiting_reads(open_s3, caplog):
    """The client drops what waits for a connection. A server that takes one and never answers keeps them waiting."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        options = s3_options(f"http://127.0.0.1:{mute.getsockname()[1]}")
        store = open_s3(time_allowed=1.0, **options | {"config_kwargs": {"max_pool_connections": 1}})
        heard = []
        reader = Thread(target=lambda: heard.extend(store.read_many(["a", "b", "c"])), daemon=True)
        reader.start()
        taken, _ = mute.accept()
        with taken:
            taken.recv(1)  # the others wait by now
            store.close()
            reader.join(60)
    assert [(path, type(found)) for path, found in heard] == [(path, StorageFailed) for path in "abc"]
    assert not caplog.records


def test_a_request_dropped_by_a_closed_client_is_unclear():
    dropped: Future[None] = Future()
    dropped.cancel()
    with pytest.raises(Failure) as caught:
        wait_for(dropped)
    assert caught.value.fate is Fate.UNCLEAR


def test_password_in_an_endpoint_is_not_shown(unreachable, open_s3):
    endpoint = unreachable.replace("//", "//me:hush@")
    store = open_s3(endpoint_url=endpoint, anon=True, time_allowed=1.0)
    with pytest.raises(StorageFailed, match=r"cannot reach http://\*\*\*@127") as caught:
        store.read("a")
    assert "hush" not in str(caught.value)


def test_server_that_dies_after_taking_a_file_is_not_called_unreachable(server, open_s3):
    """The file may stand: a connection that is refused later does not prove the contrary."""
    proxy = FaultProxy(server.url).start()
    store = open_s3(time_allowed=3.0, **s3_options(proxy.url))
    store.create("dies/warm", b"")
    proxy.break_with(Fault(Mode.DROP_AFTER, methods=("PUT",)), Fault(Mode.DROP_BEFORE))
    with pytest.raises(OutcomeUnknown):
        store.create("dies/a", b"1")
    proxy.stop()
    assert open_s3(**s3_options(server.url)).read("dies/a") == b"1"


@pytest.mark.parametrize("mode", [Mode.DROP_BEFORE, Mode.DROP_AFTER, Mode.TRUNCATE, Mode.ERROR_500_AFTER])
def test_broken_answers(server, open_s3, mode):
    open_s3(**s3_options(server.url)).overwrite("a", b"content")
    with FaultProxy(server.url) as proxy:
        store = open_s3(time_allowed=0.5, **s3_options(proxy.url))
        proxy.break_with(Fault(mode))
        for work in (lambda: store.read("a"), lambda: list(store.list()), lambda: store.delete_many(["z"])):
            with pytest.raises(StorageFailed):
                work()


class Dateless(StrictS3):
    """A server that does not say when a file was written."""

    async def handle(self, request):
        answer = await super().handle(request)
        answer.headers.pop("Last-Modified", None)
        return answer


def test_an_incomplete_answer_is_an_error_without_retry(open_s3):
    with Dateless() as server:
        server.create_bucket(BUCKET)
        store = open_s3(**s3_options(server.url))
        store.overwrite("a", b"content")
        with pytest.raises(StorageFailed, match="does not say 'LastModified'"):
            store.stat("a")
        assert server.requests["HEAD"] == 1


def test_no_credentials(server, open_s3):
    store = open_s3(endpoint_url=server.url)
    with pytest.raises(StorageDenied, match="AWS_ACCESS_KEY_ID"):
        store.create("a", b"1")


def test_anonymous(server, open_s3):
    for anon in (True, "true"):
        store = open_s3(endpoint_url=server.url, anon=anon)
        store.overwrite("anonymous", b"1")
        assert store.read("anonymous") == b"1"


def test_options_that_make_no_sense(server, open_s3):
    with pytest.raises(InvalidOption):
        open_s3(endpoint_url=server.url, key="key", secret="secret", flavour="mild").read("a")
    with pytest.raises(InvalidOption):
        open_s3(**s3_options("no endpoint")).create("a", b"1")


def test_keys_that_a_bulk_deletion_leaves_are_reported(server, open_s3):
    store = open_s3(prefix="kept", **s3_options(server.url))
    store.create_many(dict.fromkeys("abc", b"1"))
    server.kept.add("kept/b")
    with pytest.raises(StorageDenied, match="kept/b"):
        store.delete_many(["a", "b", "c", "none"])
    server.kept.clear()
    assert [info.path for info in store.list()] == ["b"]


def test_keys_that_are_no_files_are_not_listed(server, open_s3):
    store = open_s3(prefix="odd", **s3_options(server.url))
    objects = server.buckets[BUCKET]
    for key in ("odd/", "odd/folder/", "odd/a//b", "odd/../x", "odd/.tmp-1", "odd2/x", "odd/fine"):
        objects[key] = type("Stored", (), {"data": b"", "modified": 1.0, "etag": ""})()
    assert [info.path for info in store.list()] == ["fine"]
    for key in list(objects):
        if key.startswith("odd"):
            del objects[key]


def test_paths_that_lead_outside_send_nothing(server, open_s3):
    store = open_s3(**s3_options(server.url))
    server.requests.clear()
    for path in ("", "../a", "/a", "a//b", "a\\..\\b"):
        with pytest.raises(PathOutside):
            store.read(path)
        with pytest.raises(PathOutside):
            store.create_many({"fine": b"", path: b""})
    assert server.requests.total() == 0
    with pytest.raises(PathMissing):
        store.read_range("none", 0, 0)
