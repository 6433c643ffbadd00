"""Creation with unreliable answers of the store: no writer believes a false outcome."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OutcomeUnknown, PathMissing, PathOutside, PathTaken, StorageDenied, StorageFailed
from olympia_cli.names import NamespaceName
from olympia_cli.storage import objects
from tests.helpers.places import s3_place
from tests.helpers.servers.proxy import Fault, FaultProxy, Mode

WRITES = ("PUT", "POST")
# a refusal is believed, so a server that lies about one is beyond help
CREATE_MODES = [mode for mode in Mode if mode not in (Mode.DENIED_AFTER, Mode.DENIED_INSTEAD)]
READ_MODES = [
    Mode.ERROR_500_AFTER,
    Mode.ERROR_503_INSTEAD,
    Mode.DROP_AFTER,
    Mode.DROP_BEFORE,
    Mode.TRUNCATE,
    Mode.SLOW,
]
WRITERS = 6
ROUNDS = 15


@pytest.mark.parametrize("mode", CREATE_MODES)
def test_a_create_with_a_lost_first_answer_succeeds(faulty, mode):
    proxy, place = faulty
    store = place.open()
    proxy.break_with(Fault(mode, methods=WRITES, at={0}))
    store.create("a", b"mine")
    assert proxy.struck[mode] == 1
    proxy.break_with()
    assert store.read("a") == b"mine"


@pytest.mark.parametrize("mode", CREATE_MODES)
def test_an_unclear_create_never_claims_another_writers_file(faulty, mode):
    proxy, place = faulty
    store = place.open()
    store.create("a", b"theirs")
    proxy.break_with(Fault(mode, methods=WRITES, at={0, 1}))
    with pytest.raises(PathTaken):
        store.create("a", b"mine")
    proxy.break_with()
    assert store.read("a") == b"theirs"


@pytest.mark.parametrize("size", [0, 1, 200_000])
def test_own_write_reported_as_failed_with_reads_failing_too(faulty, size):
    proxy, place = faulty
    store = place.open()
    proxy.break_with(
        Fault(Mode.ERROR_503_AFTER, methods=WRITES, at={0}),
        Fault(Mode.TRUNCATE, methods=("GET",), at={0}),
        Fault(Mode.DROP_AFTER, methods=("GET",), at={0}),
    )
    store.create("a", b"x" * size)
    assert proxy.requests["PUT"] + proxy.requests["POST"] == 1


@pytest.mark.parametrize("mode", [Mode.DROP_AFTER, Mode.ERROR_500_AFTER, Mode.CONFLICT_AFTER, Mode.BARE_412])
def test_large_file_with_a_lost_completion_answer_is_created(s3_proxy, mode):
    store = s3_place(s3_proxy.url).open(part_bytes=100_000)
    content = random.Random(1).randbytes(250_000)
    s3_proxy.break_with(Fault(mode, methods=("POST",), path_contains="uploadId=", at={0}))
    store.create("large", content)
    with pytest.raises(PathTaken):
        store.create("large", content[::-1])
    s3_proxy.break_with()
    assert store.read("large") == content
    store.close()


@pytest.mark.parametrize("mode", [Mode.HANG_BEFORE, Mode.ERROR_503_INSTEAD, Mode.DROP_BEFORE, Mode.HANG_AFTER])
def test_store_that_never_answers(faulty, mode):
    proxy, place = faulty
    store = place.open(time_allowed=0.6)
    proxy.break_with(Fault(mode, seconds=60))
    begun = time.monotonic()
    with pytest.raises(OutcomeUnknown) as caught:
        store.create("a", b"mine")
    assert time.monotonic() - begun < 30
    assert caught.value.__cause__ is not None


def test_absent_until_the_time_is_up(faulty):
    proxy, place = faulty
    store = place.open(time_allowed=0.6)
    proxy.break_with(Fault(Mode.CONFLICT_INSTEAD, methods=WRITES))
    with pytest.raises(OutcomeUnknown):
        store.create("a", b"mine")
    proxy.break_with()
    with pytest.raises(PathMissing):
        store.read("a")


def test_refusal_after_an_unknown_outcome_is_settled_by_reading(faulty):
    """Once a request may have been carried out, that a later one is denied says nothing."""
    proxy, place = faulty
    store = place.open()
    lost = Fault(Mode.DROP_BEFORE, methods=WRITES, at={0})
    proxy.break_with(lost, Fault(Mode.DENIED_AFTER, methods=WRITES))
    store.create("a", b"mine")
    assert place.open_behind().read("a") == b"mine"

    lost = Fault(Mode.DROP_BEFORE, methods=WRITES, at={0})
    proxy.break_with(lost, Fault(Mode.DENIED_INSTEAD, methods=WRITES))
    with pytest.raises(OutcomeUnknown):
        store.create("b", b"mine")


def test_refusal_at_once_is_believed(faulty):
    proxy, place = faulty
    proxy.break_with(Fault(Mode.DENIED_INSTEAD, methods=WRITES))
    with pytest.raises(StorageDenied):
        place.open().create("a", b"mine")
    assert proxy.requests.total() == 1


def test_unreadable_key_after_a_failed_creation(faulty):
    """Without permission to read, the outcome is unknown at once."""
    proxy, place = faulty
    proxy.break_with(Fault(Mode.DENIED_INSTEAD, methods=("GET",)), Fault(Mode.ERROR_500_AFTER, methods=WRITES))
    with pytest.raises(OutcomeUnknown):
        place.open().create("a", b"mine")
    assert proxy.requests.total() == 2


def test_each_request_is_sent_once(faulty):
    """No client re-sends a write on its own: what fails is what was asked for, and nothing else."""
    proxy, place = faulty
    store = place.open()
    store.create("warm", b"")
    proxy.break_with(Fault(Mode.DROP_AFTER, methods=WRITES))
    store.create("a", b"mine")
    assert proxy.requests["PUT"] + proxy.requests["POST"] == 1


@pytest.mark.parametrize("mode", READ_MODES)
def test_read_is_whole_or_an_error(faulty, mode):
    proxy, place = faulty
    store = place.open()
    content = random.Random(2).randbytes(50_000)
    store.create("a", content)
    proxy.break_with(Fault(mode, methods=("GET",), at={0}))
    assert store.read("a") == content
    store = place.open(time_allowed=30 if mode is Mode.SLOW else 0.5)
    proxy.break_with(Fault(mode, methods=("GET",), seconds=0.01))
    if mode is Mode.SLOW:
        assert store.read_range("a", 10, 20) == content[10:30]
    else:
        with pytest.raises(StorageFailed):
            store.read("a")
        with pytest.raises(StorageFailed):
            store.read_range("a", 10, 20)


def test_failed_reads_among_many_files_are_retried(faulty):
    """In threads; what does not fail needs none."""
    proxy, place = faulty
    store = place.open()
    files = {f"f{number}": bytes([number]) * number for number in range(40)}
    store.create_many(files)
    fresh = place.open()
    before = threading.active_count()
    assert dict(fresh.read_many(files)) == files
    assert threading.active_count() - before <= 1, "at most the client's own"
    proxy.break_with(*(Fault(mode, methods=("GET",), at=set(range(at, 300, 7))) for at, mode in enumerate(READ_MODES)))
    found = dict(fresh.read_many([*files, "missing", "../outside"]))
    assert isinstance(found.pop("missing"), PathMissing)
    assert isinstance(found.pop("../outside"), PathOutside)
    assert found == files


def test_every_operation_outlasts_a_server_that_is_away(faulty):
    """All of them have the same time: a commit begins with reads, and ends with a creation."""
    proxy, place = faulty
    store = place.open()
    store.create("a", b"1")
    works = [
        lambda: store.read("a"),
        lambda: [data for _, data in store.read_many(["a"])],
        lambda: store.read_range("a", 0, 1),
        lambda: store.exists("a"),
        lambda: len(list(store.list("a"))),
        lambda: store.delete_many(["none"]),
        lambda: store.overwrite("b", b"1"),
        lambda: store.create("c", b"1"),
    ]
    proxy.break_with(Fault(Mode.ERROR_503_INSTEAD))
    threading.Timer(1.5, proxy.break_with).start()
    with ThreadPoolExecutor(len(works)) as pool:
        assert list(pool.map(lambda work: work(), works)) == [b"1", [b"1"], b"1", True, 1, None, None, None]


def test_a_server_that_restarts_fails_no_commit(strict_s3):
    """While the server is down, the same timeout applies as for errors of a server."""
    proxy = FaultProxy(strict_s3.url).start()
    place = s3_place(proxy.url)
    catalog = Catalog.create(place.open())
    proxy.stop()
    again = FaultProxy(strict_s3.url)
    again.port = proxy.port
    timer = threading.Timer(1.5, again.start)
    timer.start()
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("sales"))
    assert [name.namespace for name in catalog.snapshot().namespaces()] == ["sales"]
    timer.join()
    place.close()
    again.stop()


def test_an_error_gives_the_last_reason_of_the_server(faulty):
    """Our own timeout says less: half a minute of 503 is not 'no answer in time'."""
    proxy, place = faulty
    place.open().create("a", b"1")
    store = place.open(time_allowed=2.0)

    def begin() -> None:
        proxy.break_with(Fault(Mode.ERROR_503_INSTEAD, at=range(2)), Fault(Mode.HANG_BEFORE, seconds=60))

    begin()
    with pytest.raises(OutcomeUnknown, match="503 SlowDown"):
        store.create("b", b"mine")
    begin()
    with pytest.raises(StorageFailed, match="503 SlowDown"):
        store.read("a")
    proxy.break_with(Fault(Mode.ERROR_503_INSTEAD, methods=WRITES))
    with pytest.raises(OutcomeUnknown, match=r"created: (gs|s3)://\S+: .*503 SlowDown"):
        store.create("c", b"mine")


def test_a_hint_that_hangs_costs_its_own_time_and_no_more(faulty, monkeypatch):
    """Hints are best effort: later operations that have used up their time are not begun."""
    proxy, place = faulty
    store = place.open()
    store.create("warm", b"")
    assert objects._HINT_SECONDS <= 2
    # all are given at one moment, also where a machine takes its time between two of them
    here, now = threading.get_ident(), time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now if threading.get_ident() == here else time.monotonic())
    proxy.break_with(Fault(Mode.HANG_BEFORE, methods=WRITES, seconds=3.0))
    monkeypatch.setattr(objects, "time", clock)
    for number in range(5):
        store.write_hint(f"hint{number}", b"1")
    store.close()
    assert proxy.requests["PUT"] + proxy.requests["POST"] == 1


def test_overwrite_of_unknown_fate_says_so(faulty):
    proxy, place = faulty
    store = place.open(time_allowed=1.0)
    proxy.break_with(Fault(Mode.ERROR_500_AFTER, methods=WRITES))
    with pytest.raises(OutcomeUnknown):
        store.overwrite("a", b"1")


def test_hints_never_raise(faulty):
    proxy, place = faulty
    store = place.open(time_allowed=5.0)
    proxy.break_with(Fault(Mode.DROP_BEFORE))
    for number in range(20):
        store.write_hint("hint", str(number).encode())
    store.close()
    proxy.break_with()
    store.write_hint("hint", b"last")
    store.close()
    assert store.read("hint") == b"last"


def test_writers_race_while_half_of_all_requests_go_wrong(faulty):
    """Six writers, one key, again and again: exactly one believes that it won, and its bytes stand."""
    proxy, place = faulty
    stores = [place.open() for _ in range(WRITERS)]
    behind = place.open_behind()
    writing = [
        Mode.CONFLICT_INSTEAD,
        Mode.CONFLICT_AFTER,
        Mode.BARE_412,
        Mode.FALSE_412,
        Mode.ERROR_500_AFTER,
        Mode.ERROR_503_AFTER,
        Mode.DROP_AFTER,
        Mode.DROP_BEFORE,
    ]
    reading = [Mode.ERROR_500_AFTER, Mode.DROP_BEFORE, Mode.TRUNCATE]
    # each in its turn: together they hit every second request
    share = 0.5
    faults = [
        Fault(mode, methods=methods, probability=1 - (1 - share) ** (1 / len(modes)), seed=number)
        for methods, modes in ((WRITES, writing), (("GET",), reading))
        for number, mode in enumerate(modes)
    ]
    proxy.break_with(*faults)
    wrong = []
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(ROUNDS):
            start = threading.Barrier(WRITERS)
            path = f"round/{number}"

            def write(writer: int, path: str = path, start: threading.Barrier = start) -> str:
                start.wait(60)
                try:
                    stores[writer].create(path, f"writer {writer}".encode())
                except PathTaken:
                    return "lost"
                return "won"

            believed = list(pool.map(write, range(WRITERS)))
            stands = behind.read(path)
            winners = [f"writer {n}".encode() for n, belief in enumerate(believed) if belief == "won"]
            if winners != [stands]:
                wrong.append((number, believed, stands))
    assert sum(proxy.struck.values()) > ROUNDS * WRITERS / 2
    assert wrong == []
