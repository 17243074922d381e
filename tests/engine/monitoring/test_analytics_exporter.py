"""Counts of schedules in a real Redis: correct while it answers, and never a cause of failures."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

import duly
from duly import App, Delivery
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.moments import microseconds
from duly.domain.monitoring.schedule_counts import Count, key_of
from duly.domain.schedules.schedule import Occasion, encode_occasion
from duly.engine.monitoring import analytics_exporter as engine_analyst
from duly.engine.monitoring.analytics_exporter import AnalyticsExporter
from duly.errors import BadSetting
from duly.ports import AnalyticsFailure
from duly.transports.redis_analytics import RedisAnalytics
from tests.engine.cluster import directory, states
from tests.support.redis import RedisServer

DEADLINE_SECONDS = 30
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer(password="pass word") as server:
        yield server


@pytest.fixture
async def client(redis: RedisServer) -> AsyncIterator[Any]:
    client: Any = Redis.from_url(redis.url.replace(" ", "%20"), decode_responses=True)
    yield client
    await client.aclose()


def app_with(database: str, url: str) -> App:
    app = App(database, environment={}, analytics=url.replace(" ", "%20"), poll=0.05)

    @app.handler("works")
    async def works(delivery: Delivery[Any]) -> None:
        if delivery.payload == "in its transaction":
            await delivery.transaction.fetch("select 1")

    @app.handler("fails", retry=duly.delays(0))
    async def fails(delivery: Delivery[Any]) -> None:
        raise ValueError("no")

    return app


async def run_schedules(app: App) -> None:
    """Run three schedules with one occurrence each; returns when all have ended."""
    at = duly.at(datetime.now(UTC) + timedelta(milliseconds=50))
    await app.schedule("good", at, "works")
    await app.schedule("in:one", at, "works", "in its transaction")
    await app.schedule("bad", at, "fails")
    await app.deliver("works", "without a schedule")
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await states(app) != {"completed": 3, "dead": 1}:
            pass


async def counts_in(client: Any) -> dict[str, dict[str, str]]:
    """The counts without their minutes: a test may end in a later minute."""
    found: dict[str, dict[str, str]] = {}
    for key in await client.keys("*"):
        name = key.rpartition(":20")[0].removesuffix(":")
        found.setdefault(name, {}).update(await client.hgetall(key))
        assert 0 < await client.ttl(key) <= 7 * 86400
    return found


@pytest.mark.requirement("C9")
async def test_outcomes_of_schedules_are_counted_by_the_minute(
    database_url: str, redis: RedisServer, client: Any
) -> None:
    app = app_with(database_url, redis.url)
    async with app:
        engine = app.engine()
        await engine.start()
        await run_schedules(app)
        await engine.stop()
        assert app.telemetry.counts["AnalyticsUnreachable"] == 0
    assert await counts_in(client) == {
        "duly:default:schedule:good": {"completed": "1"},
        "duly:default:schedule:in:one": {"completed": "1"},
        "duly:default:schedule:bad": {"retried": "1", "dead": "1"},
    }
    (key,) = await client.keys("duly:default:schedule:good:*")
    minute = datetime.strptime(key[-17:], "%Y-%m-%dT%H:%M%z")
    assert timedelta() <= datetime.now(UTC) - minute < timedelta(minutes=3)


@pytest.mark.requirement("C9")
async def test_an_unreachable_redis_is_reported_once_and_its_return_once(
    sqlite_url: str, redis: RedisServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_analyst, "WRITE_SECONDS", 0.02)
    redis.stop()
    app = app_with(sqlite_url, redis.url)
    counts = app.telemetry.counts
    async with app:
        engine = app.engine()
        await engine.start()
        await run_schedules(app)
        redis.start()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not counts["AnalyticsReachable"]:
                await asyncio.tasks.sleep(0)
        await engine.stop()
    assert (counts["AnalyticsUnreachable"], counts["AnalyticsReachable"]) == (1, 1)
    # It was unreachable from the start: no counts were sent, so none are lost.
    assert (await counts_in(client))["duly:default:schedule:good"] == {"completed": "1"}


@pytest.mark.requirement("C9")
@pytest.mark.parametrize("problem", ["halted", "wrong password", "wrong kind", "nowhere"])
async def test_a_slow_or_wrong_redis_affects_no_delivery(
    sqlite_url: str, redis: RedisServer, client: Any, problem: str
) -> None:
    url = redis.url
    if problem == "halted":
        redis.signal(signal.SIGSTOP)
    elif problem == "wrong password":
        url = url.replace("pass word", "wrong")
    elif problem == "nowhere":
        url = "redis://no.such.host.invalid:6379/0"
    else:
        minute = datetime.now(UTC).replace(second=0, microsecond=0)
        for at in (minute, minute + timedelta(minutes=1)):
            await client.set(f"duly:default:schedule:good:{at:%Y-%m-%dT%H:%MZ}", "not a hash")
    app = app_with(sqlite_url, url)
    async with app:
        engine = app.engine()
        await engine.start()
        await run_schedules(app)
        await engine.stop()
    assert app.telemetry.counts["AnalyticsUnreachable"] <= 1
    if problem == "halted":
        redis.signal(signal.SIGCONT)


@pytest.mark.requirement("C9")
async def test_a_failure_reports_whether_counts_were_sent(redis: RedisServer, client: Any) -> None:
    analytics = RedisAnalytics(redis.url.replace(" ", "%20"), "shop", timedelta(days=1))
    counts = {Count("good", LONG_AGO, "completed"): 2}
    assert await analytics.add(counts) is None
    redis.stop()
    gone = await analytics.add(counts)
    redis.start()
    await client.set(key_of("shop", Count("good", LONG_AGO, "completed")), "not a hash")
    wrong = await analytics.add(counts)
    await analytics.close()
    assert gone is not None
    assert wrong is not None
    assert (gone.unsent, wrong.unsent) == (True, False)


class Unavailable:
    """An analytics store that accepts nothing."""

    def __init__(self, unsent: bool) -> None:
        self.unsent = unsent
        self.totals: list[int] = []

    async def add(self, counts: Any) -> AnalyticsFailure | None:
        self.totals.append(counts.total())
        return AnalyticsFailure("unavailable", self.unsent)

    async def close(self) -> None: ...


def settled(n: int) -> Settlement:
    occasion = encode_occasion(Occasion(f"schedule {n}", LONG_AGO))
    return Settlement(
        n, 1, "id", Verdict.COMPLETED, 1, None, microseconds(LONG_AGO), 0, occasion=occasion
    )


@pytest.mark.requirement("C9")
async def test_unwritten_counts_take_bounded_memory() -> None:
    events: list[Any] = []
    analytics = Unavailable(unsent=True)
    exporter = AnalyticsExporter(analytics, events.append)
    exporter.note([settled(n) for n in range(engine_analyst.MOST + 500)], directory({}))
    pauses = [(await exporter.tick()).seconds for _ in range(6)]
    assert analytics.totals == [engine_analyst.MOST] * 6
    assert pauses == [2.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    assert len(events) == 1
    analytics.add = lambda counts: asyncio.sleep(0)  # type: ignore[method-assign]
    await exporter.tick()
    assert (events[1].failures, events[1].lost) == (6, 500)


@pytest.mark.requirement("C9")
async def test_counts_that_may_have_been_written_are_not_written_again() -> None:
    analytics = Unavailable(unsent=False)
    exporter = AnalyticsExporter(analytics, lambda event: None)
    exporter.note([settled(1)], directory({}))
    for _ in range(2):
        await exporter.tick()
    assert analytics.totals == [1, 0]


def test_a_minute_is_the_utc_minute_in_which_it_ended() -> None:
    at = datetime(2026, 11, 15, 16, 5, 59, 999999, tzinfo=UTC)
    assert key_of("shop", Count("a:b", at.replace(second=0), "dead")) == (
        "duly:shop:schedule:a:b:2026-11-15T16:05Z"
    )


@pytest.mark.requirement("C9", "D14")
@pytest.mark.parametrize(
    "url",
    [
        *("http://here", "banana", "redis://host:port/0"),
        "redis://:banana@host/0?clientname=me@elsewhere",
    ],
)
def test_an_invalid_redis_url_is_refused_without_showing_it(sqlite_url: str, url: str) -> None:
    with pytest.raises(BadSetting, match="analytics: ") as refused:
        App(sqlite_url, environment={}, analytics=url).engine()
    assert "banana" not in str(refused.value)
