"""Records of requests with an idempotency key: performed once, answered alike, and limited in number."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from starlette.responses import Response

from olympia_cli.rest import app
from olympia_cli.rest.app import LIFETIME_MILLIS, Idempotency
from olympia_cli.rest.failures import ErrorResponse
from tests.helpers.clock import FakeClock


class Work:
    """Counts how often it is done."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.answers = list(answers)
        self.done = 0

    async def __call__(self) -> Response:
        self.done += 1
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def key() -> str:
    return str(uuid.uuid4())


def test_concurrent_requests_with_the_same_key_run_once():
    async def main() -> None:
        kept, work, one = Idempotency(FakeClock()), Work(Response(b"a")), key()
        answers = await asyncio.gather(*(kept.once("ann", one, b"r", work) for _ in range(5)))
        assert {bytes(answer.body) for answer in answers} == {b"a"}
        assert work.done == 1

    asyncio.run(main())


def test_a_temporary_failure_is_retried_under_its_key():
    async def main() -> None:
        kept, one = Idempotency(FakeClock()), key()
        work = Work(ErrorResponse(503, "ServiceUnavailableException", "no"), Response(b"a"))
        with pytest.raises(ErrorResponse):
            await kept.once("ann", one, b"r", work)
        assert (await kept.once("ann", one, b"r", work)).body == b"a"

    asyncio.run(main())


def test_an_unknown_outcome_is_not_retried_under_its_key():
    """A commit that stands would find itself in its way, and the client would delete what it wrote."""

    async def main() -> None:
        kept, one = Idempotency(FakeClock()), key()
        work = Work(ErrorResponse(500, "CommitStateUnknownException", "who knows"), Response(b"a"))
        for _ in range(2):
            with pytest.raises(ErrorResponse, match="who knows"):
                await kept.once("ann", one, b"r", work)
        assert work.done == 1

    asyncio.run(main())


def test_a_retry_after_a_timeout_gets_the_first_answer():
    async def main() -> None:
        kept, one, go, done = Idempotency(FakeClock()), key(), asyncio.Event(), []

        async def work() -> Response:
            done.append(1)
            await go.wait()
            return Response(b"a")

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await kept.once("ann", one, b"r", work)
        go.set()
        assert (await kept.once("ann", one, b"r", work)).body == b"a"
        assert done == [1]

    asyncio.run(main())


def test_a_key_is_the_callers_own_and_has_an_end():
    async def main() -> None:
        clock = FakeClock()
        kept, work, one = Idempotency(clock), Work(*(Response(b"%d" % number) for number in range(3))), key()
        assert (await kept.once("ann", one, b"r", work)).body == b"0"
        assert (await kept.once("bob", one, b"other", work)).body == b"1"
        clock.advance(LIFETIME_MILLIS + 1)
        assert (await kept.once("ann", one, b"another", work)).body == b"2"

    asyncio.run(main())


def test_memory_has_a_bound(monkeypatch):
    monkeypatch.setattr(app, "KEPT", 10)
    monkeypatch.setattr(app, "KEPT_BYTES", 1000)

    async def main() -> None:
        kept = Idempotency(FakeClock())
        for _ in range(50):
            await kept.once("ann", key(), b"r", Work(Response(b"x" * 300)))
            with pytest.raises(ErrorResponse):
                await kept.once("ann", key(), b"r", Work(ErrorResponse(409, "AlreadyExistsException", "x")))
            assert len(kept._kept) <= 10
            assert kept._size == sum(one.size for one in kept._kept.values()) <= 1700

    asyncio.run(main())
