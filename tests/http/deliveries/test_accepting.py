"""`POST /v1/deliveries`, the most frequent request: accepted and refused bodies."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from httpx import Response

from duly.errors import StoreUnavailable
from duly.records.delivery import Delivery
from duly.testing import VirtualClock
from tests.http.ports import Port, port
from tests.http.protocol.test_backpressure import held_back, until
from tests.http.protocol.test_problems import BAD_BODIES

pytestmark = pytest.mark.requirement("S2")
PATH = "/v1/deliveries"
PLAIN = "application/json"
SIMPLE = b'{"target": "work", "payload": {"n": [1, 2.50, "\xc3\xa4"]}}'
FULL = b"""{"target": "work", "payload": 1, "at": "2030-01-01T00:00:00Z", "stream": "s",
    "on_failure": "release", "priority": 2, "tags": ["a"], "expires_at": "2031-01-01T00:00:00Z"}"""
GOOD_BODIES = (SIMPLE, FULL, b'{"target": {"url": "https://example.org/"}}')
TWICE = b'{"target": "work", "payload": {"a": 1, "a": 2}}'
CALLERS: dict[str, tuple[int, dict[str, str]]] = {
    "another's name": (421, {"host": "rebound.example"}),
    "another's page": (403, {"origin": "https://evil.example"}),
    "by a proxy": (401, {"x-forwarded-for": "203.0.113.9"}),
    "a wrong key": (401, {"authorization": "Bearer duly_wrong"}),
    "no key at all": (401, {"authorization": "Basic abc"}),
}


async def sent(here: Port, body: bytes, headers: dict[str, str] | None = None) -> Response:
    """Send a plain request; checks the Location of a new delivery."""
    answer = await here.request(
        PATH,
        "POST",
        peer="127.0.0.1",
        content=body,
        headers={"content-type": PLAIN} | (headers or {}),
    )
    if answer.is_success:
        assert answer.headers["location"] == f"{PATH}/{answer.json()['id']}"
    return answer


async def test_every_spelling_of_the_media_type_is_accepted(
    database_url: str, clock: VirtualClock
) -> None:
    def facts(delivery: Delivery) -> dict[str, Any]:
        own = {"id": None, "position": None, "next_at": None}
        return msgspec.structs.asdict(delivery) | own | {"payload": bytes(delivery.payload_json)}

    async with port(database_url, clock) as here:
        for body in GOOD_BODIES:
            for kind in (PLAIN, "Application/JSON; charset=utf-8"):
                assert (await sent(here, body, {"content-type": kind})).status_code == 201
            one, other = [facts(each) for each in await here.app.list(limit=2)]
            assert one == other


async def test_a_known_key_is_200(database_url: str, clock: VirtualClock) -> None:
    async with port(database_url, clock) as here:
        first = await here.app.deliver("work", 1, key="once")
        known = await sent(here, b'{"target": "work", "payload": 1, "key": "once"}')
        assert (known.status_code, known.json()["known"]) == (200, True)
        assert known.json()["id"] == first.id
        other = await sent(here, b'{"target": "work", "payload": 2, "key": "once"}')
        assert other.status_code == 409
        assert len(await here.app.list()) == 1


async def test_a_bad_body_is_refused_and_not_stored(sqlite_url: str, clock: VirtualClock) -> None:
    async with port(sqlite_url, clock) as here:
        for body, status, _ in (*BAD_BODIES, (TWICE, 422, None)):
            assert (await sent(here, body)).status_code == status, body[:100]
        assert await here.app.list() == []


@pytest.mark.parametrize(("status", "headers"), CALLERS.values(), ids=CALLERS)
async def test_an_unauthenticated_caller_stores_nothing(
    sqlite_url: str, clock: VirtualClock, status: int, headers: dict[str, str]
) -> None:
    async with port(sqlite_url, clock) as here:
        assert (await sent(here, SIMPLE, headers)).status_code == status
        assert await here.app.list() == []


async def test_a_key_is_for_its_namespace_and_scope(sqlite_url: str, clock: VirtualClock) -> None:
    async with port(sqlite_url, clock, host="0.0.0.0") as here:
        apart = here.app.within("apart")
        apart.expect("work")
        await apart.store.targets.numbers(["work"], create=True)
        read, operate = await here.token("read"), await here.token("operate", "apart")
        assert (await sent(here, SIMPLE)).status_code == 401
        refused = await sent(here, SIMPLE, {"authorization": f"Bearer {read}"})
        assert (refused.status_code, await apart.list()) == (403, [])
        assert 'scope="operate"' in refused.headers["www-authenticate"]
        taken = await sent(here, SIMPLE, {"authorization": f"Bearer {operate}"})
        assert taken.status_code == 201
        assert (len(await apart.list()), await here.app.list()) == (1, [])


async def test_a_key_above_its_rate_is_429(sqlite_url: str, clock: VirtualClock) -> None:
    async with port(sqlite_url, clock, key_rate=1) as here:
        headers = {"authorization": f"Bearer {await here.token('operate')}"}
        asked = [
            await here.request(
                PATH, "POST", content=SIMPLE, headers={"content-type": PLAIN} | headers
            )
            for _ in range(30)
        ]
        refused = [each for each in asked if each.status_code == 429]
        assert refused
        assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
        assert len(await here.app.list()) == len(asked) - len(refused)


async def test_the_body_is_not_read_if_the_caller_is_refused_or_the_server_stops(
    sqlite_url: str, clock: VirtualClock
) -> None:
    async def receive() -> Any:
        raise AssertionError("the body must not be read")

    async with port(sqlite_url, clock) as here:
        assert await answered(here, scope({"host": "rebound.example"}), receive) == 421
        here.process_health.stopping = True
        assert await answered(here, scope(), receive) == 503


async def answered(here: Port, asked: Any, receive: Any) -> int:
    """Call the site; returns the status."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await here.site(asked, receive, send)
    return int(sent[0]["status"])


async def test_a_cancelled_request_frees_its_place(
    sqlite_url: str, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with port(sqlite_url, clock, accept_queue=1) as here:
        goes_on = held_back(here.app, monkeypatch)

        def ask() -> asyncio.Task[int]:
            asked = here.status(
                PATH, "POST", peer="127.0.0.1", content=SIMPLE, headers={"content-type": PLAIN}
            )
            return asyncio.create_task(asked)

        first = ask()
        queue = here.site.shared.queue
        await until(lambda: queue.refuses("POST", PATH))
        first.cancel()
        await until(first.done)
        second = ask()
        await until(lambda: queue.refuses("POST", PATH))
        goes_on.set()
        assert await second == 201


async def test_failures_of_the_store_and_internal_errors_are_answered(
    sqlite_url: str,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with port(sqlite_url, clock) as here:
        for error, status in ((StoreUnavailable("away"), 503), (RuntimeError("oops"), 500)):

            async def fail(*_: object, error: Exception = error) -> None:
                raise error

            monkeypatch.setattr(here.app.store.deliveries, "accept", fail)
            with caplog.at_level(logging.ERROR, "duly.http"):
                answer = await sent(here, SIMPLE)
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"
        assert [each.getMessage() for each in caplog.records] == [f"POST {PATH} failed"]


async def test_a_body_cut_off_by_a_disconnect_is_not_accepted(
    sqlite_url: str, clock: VirtualClock
) -> None:
    messages = [
        {"type": "http.request", "body": SIMPLE[:9], "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(_message: Any) -> None:
        raise AssertionError("the client has disconnected")

    async with port(sqlite_url, clock) as here:
        await here.site(scope(), receive, send)
        assert messages == []
        assert await here.app.list() == []


async def test_a_body_may_come_in_pieces(sqlite_url: str, clock: VirtualClock) -> None:
    async def pieces() -> Any:
        for place in range(0, len(SIMPLE), 7):
            yield SIMPLE[place : place + 7]

    async with port(sqlite_url, clock) as here:
        answer = await here.request(
            PATH,
            "POST",
            peer="127.0.0.1",
            content=pieces(),
            headers={"content-type": PLAIN, "content-length": str(len(SIMPLE))},
        )
        assert answer.status_code == 201
        (found,) = await here.app.list()
        assert found.payload_json == msgspec.Raw(b'{"n": [1, 2.50, "\xc3\xa4"]}')


Headers = list[tuple[str, str]]


def scope(headers: dict[str, str] | None = None, more: Headers | None = None, **other: Any) -> Any:
    """The ASGI scope of a request."""
    given = {"host": "127.0.0.1", "content-type": PLAIN, "content-length": "9"} | (headers or {})
    every = [*given.items(), *(more or [])]
    return {
        "type": "http",
        "path": PATH,
        "raw_path": PATH.encode(),
        "method": "POST",
        "query_string": b"",
        "client": ("127.0.0.1", 4711),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in every],
    } | other
