"""Long requests: a disconnect ends them, and the answer has what was done."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.records.dead_letter import BulkResult, DeadLetterFilter
from duly.records.recovery import WhichLetters
from duly.records.schedule import Backfilled
from duly.services import dead_letters
from duly.services.deliveries import bulk
from duly.services.schedules import backfill
from duly.services.schedules import bulk as schedule_bulk
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START

DEADLINE_SECONDS = 20.0
LETTERS = 6
SINCE = (START - timedelta(hours=1)).isoformat()
SPAN = {"start": (START - timedelta(hours=6)).isoformat(), "end": START.isoformat()}
LASTING: dict[str, dict[str, Any]] = {
    "/dead-letters/retry": {"all": True},
    "/dead-letters/discard": {"all": True, "note": "enough"},
    "/dead-letters/hold": {"all": True, "note": "wait"},
    "/dead-letters/release": {"disposition": "held"},
    "/dead-letters/give-up": {"disposition": "open", "note": "enough"},
    "/endpoints/{name}/recover": {"since": SINCE},
    "/schedules/{name}/backfill": SPAN,
    "/deliveries/cancel": {"tag": "later"},
    "/deliveries/retry": {"tag": "later"},
    "/schedules/pause": {"text": "works"},
    "/schedules/resume": {"text": "rests"},
}
"""Every route that works in batches, with a body."""
NAMES = {"endpoints": "shop", "schedules": "hourly"}


class SleepingClock(VirtualClock):
    """A clock whose sleeps set an event and never end."""

    def __init__(self) -> None:
        super().__init__(START)
        self.sleeper = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.sleeper.set()
        await asyncio.get_running_loop().create_future()


@pytest.fixture
def clock() -> SleepingClock:
    return SleepingClock()


@pytest.fixture
async def app(
    database_url: str, clock: SleepingClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    """An app with something to do for each route, and batches of two."""
    for module in (dead_letters, bulk, schedule_bulk):
        monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(backfill, "BACKFILL_SLICE", 2)
    async with App(database_url, clock=clock, egress_allow="127.0.0.1", environment={}) as opened:
        await opened.endpoints.add("shop", "http://127.0.0.1:9/", retry=duly.no_retry)
        await opened.deliver_many([(duly.endpoint("shop"), n) for n in range(LETTERS)])
        opened.expect("work")
        await opened.schedule("hourly", duly.every("1h", anchor=START), "work")
        await declare_dead(opened)
        await add_waiting(opened)
        yield opened


async def declare_dead(app: App) -> None:
    """Make dead letters of all deliveries to the endpoint, as a worker would."""
    await run_until_idle(app)
    assert await app.dead_letters.count() == LETTERS


async def add_waiting(app: App) -> None:
    """Add deliveries that are due later, and schedules, half of them paused."""
    for number in range(LETTERS):
        await app.deliver("work", number, after=3600, tags=["later"])
        await app.schedule(f"works-{number}", duly.every("1h"), "work")
        await app.schedule(f"rests-{number}", duly.every("1h"), "work")
        await app.schedules.pause(f"rests-{number}")


class Caller:
    """An ASGI client that can disconnect before the answer."""

    def __init__(self, app: App) -> None:
        self._site = site(app, ProcessHealth(app, app.engine()))
        self.leaves = asyncio.Event()

    async def post(self, route: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
        """The answer that was sent, even after a disconnect."""
        kind = route.split("/")[1]
        path = "/v1" + route.replace("{name}", NAMES.get(kind, ""))
        sent = {"host": "127.0.0.1", "content-type": "application/json", **headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 4711),
            "state": {},
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }
        messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        written: list[Any] = []

        async def receive() -> Any:
            if messages:
                return messages.pop(0)
            await self.leaves.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            written.append(message)

        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._site(scope, receive, send)
        assert written[0]["status"] == 200, written
        answer: dict[str, Any] = json.loads(written[1]["body"])
        return answer


async def left(app: App, route: str) -> int:
    """How many deliveries or occurrences are still to do."""
    if route.endswith("backfill"):
        made = await app.list(schedule="hourly", limit=50)
        return LETTERS + 1 - sum(each.due_at <= START for each in made)
    if route.startswith("/deliveries"):
        return await app.deliveries.count(tag="later", waiting=route.endswith("retry"))
    if route.startswith("/schedules"):
        return await app.schedules.count(**LASTING[route], paused=route.endswith("resume"))
    held = WhichLetters.HELD if route.endswith("release") else WhichLetters.OPEN
    return await app.dead_letters.count(DeadLetterFilter(disposition=held))


async def hold_for_release(app: App, route: str) -> None:
    """Something must be held to be released."""
    if route == "/dead-letters/release":
        async for _ in app.dead_letters.hold_all(DeadLetterFilter(), "wait"):
            pass


async def test_every_route_that_works_in_batches_is_listed_here(small_app: App) -> None:
    found = {
        route.path.removeprefix("/v1")
        for route in site(small_app, ProcessHealth(small_app, small_app.engine())).routes
        if route.answer in (BulkResult, Backfilled)
    }
    assert found == LASTING.keys()


@pytest.mark.requirement("F4", "C10", "S2")
@pytest.mark.parametrize("route", LASTING)
async def test_after_a_disconnect_no_further_batch_is_done(app: App, route: str) -> None:
    caller = Caller(app)
    await hold_for_release(app, route)
    before = await left(app, route)
    caller.leaves.set()
    answer = await caller.post(route, LASTING[route])
    done = answer.get("moved", answer.get("made"))
    assert done <= 2, "at most one batch"
    assert answer["finished"] is False
    assert await left(app, route) == before - done


@pytest.mark.requirement("F4", "C10", "S2")
@pytest.mark.parametrize("route", ["/dead-letters/retry", "/endpoints/{name}/recover"])
async def test_a_disconnect_ends_the_wait_for_the_rate(
    app: App, clock: SleepingClock, route: str
) -> None:
    caller = Caller(app)
    asking = asyncio.create_task(caller.post(route, LASTING[route] | {"rate": 2}))
    await asyncio.wait_for(clock.sleeper.wait(), DEADLINE_SECONDS)
    caller.leaves.set()
    answer = await asking
    assert (answer["moved"], answer["finished"]) == (2, False)
    assert await app.dead_letters.count() == LETTERS - 2


@pytest.mark.requirement("F4", "S2")
async def test_with_a_key_the_stored_answer_has_what_was_done(
    app: App, clock: SleepingClock
) -> None:
    body, key = {"all": True, "rate": 2}, {"idempotency-key": "once"}
    caller = Caller(app)
    asking = asyncio.create_task(caller.post("/dead-letters/retry", body, **key))
    await asyncio.wait_for(clock.sleeper.wait(), DEADLINE_SECONDS)
    caller.leaves.set()
    answer = await asking
    repeated = await Caller(app).post("/dead-letters/retry", body, **key)
    assert repeated == answer
    assert repeated["moved"] == 2
    assert await app.dead_letters.count() == LETTERS - 2
