"""The report of outages: what happened while nothing was attempted, told afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta
from statistics import median
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.monitoring.outages import EXAMINED
from duly.errors import InvalidInput
from duly.records.outage import Outage
from duly.services.monitoring.outages import outages
from duly.stores.monitoring import outages as store_outages
from duly.testing import RecordingTransport, VirtualClock, run_until_idle
from tests.services.conftest import START

pytestmark = pytest.mark.requirement("L7")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def targets(app: App) -> None:
    app.expect("mail", "report")


async def run(app: App, *targets: str) -> int:
    """Attempt what is due for these targets, as a worker would that has only them."""
    attempts = await run_until_idle(app, transport=RecordingTransport(*targets))
    await app.stats.overview()  # writes the counts, as a running worker does every second
    return attempts


async def test_an_outage_of_a_day_is_told_exactly(app: App, clock: VirtualClock) -> None:
    await app.schedule("hourly", duly.every("1h"), "mail", catch_up="all")
    await app.schedule("daily", duly.cron("0 6 * * *"), "mail")
    for hours in (1, 5, 20, 30):
        await app.deliver("report", hours, after=hours * 3600)
    await app.deliver("mail", "before")
    assert await run(app, "mail", "report") == 1
    assert (await app.stats.outages()).outages == []

    clock.advance(DAY)  # nothing runs; the first is due at eight
    during = (await app.stats.outages()).outages
    await app.deliver("mail", "after")  # due at the end, so never late
    await run(app, "mail")
    clock.advance(90)
    await run(app, "mail", "report")
    clock.advance(28.5 * MINUTE)
    assert await run(app, "mail", "report") == 1  # that of eight o'clock, on time
    clock.advance(HOUR / 2)

    began_at, ended_at = START + 30 * MINUTE, START + DAY
    mails = [ended_at - (began_at + hour * HOUR) for hour in range(24)] + [90 * MINUTE]
    reports = [(DAY + timedelta(seconds=90)) - hours * HOUR for hours in (1, 5, 20)]
    late = sorted(each.total_seconds() for each in mails + reports)
    (found,) = (await app.stats.outages()).outages
    assert found == Outage(
        began_at=began_at,
        ended_at=ended_at,
        seconds=(23.5 * HOUR).total_seconds(),
        late=24 + 1 + 3,
        waiting=0,
        largest_late_seconds=(23.5 * HOUR).total_seconds(),
        median_late_seconds=median(late),
        worked_off_at=ended_at + timedelta(seconds=90),
    )
    assert [(each.began_at, each.ended_at, each.worked_off_at) for each in during] == [
        (began_at, None, None)
    ]
    assert during[0].waiting == during[0].late == 5  # those that the planner had made until then
    assert during[0].largest_late_seconds == found.seconds


async def one_hour_away(app: App, clock: VirtualClock) -> tuple[datetime, datetime]:
    """An outage of an hour, between two deliveries."""
    await app.deliver("mail", 1)
    await run(app, "mail")
    began_at = clock.advance(600)
    await app.deliver("mail", 2)
    ended_at = clock.advance(HOUR)
    await run(app, "mail")
    return began_at, ended_at


async def test_only_outages_of_the_wanted_length_and_time_are_told(
    app: App, clock: VirtualClock
) -> None:
    first = await one_hour_away(app, clock)
    clock.advance(2 * DAY)  # idle, and nothing was due
    second = await one_hour_away(app, clock)
    clock.advance(DAY)

    async def spans(**wanted: Any) -> list[tuple[datetime, datetime | None]]:
        found = (await app.stats.outages(**wanted)).outages
        return [(each.began_at, each.ended_at) for each in found]

    assert await spans() == [second, first]
    assert await spans(limit=1) == [second]
    assert await spans(since=2 * DAY) == [second]
    assert await spans(since=first[1]) == [second]
    assert await spans(since=first[0]) == [second, first]
    assert await spans(at_least="1h") == [second, first]
    assert await spans(at_least=3601) == []
    assert await spans(since=HOUR) == []


async def test_an_outage_is_of_one_namespace(app: App, clock: VirtualClock) -> None:
    other = app.within("other")
    await other.deliver(duly.webhook("https://example.org/hook"), 1, after=3600)
    began_at, ended_at = await one_hour_away(app, clock)
    (elsewhere,) = (await other.stats.outages()).outages
    assert (elsewhere.began_at, elsewhere.ended_at) == (START + HOUR, None)
    (found,) = (await app.stats.outages()).outages
    assert (found.began_at, found.ended_at, found.late) == (began_at, ended_at, 1)


async def test_a_delivery_that_waits_for_another_reason_is_no_outage(
    app: App, clock: VirtualClock
) -> None:
    """While one waits for a target that no worker has, others are attempted every half hour."""
    await app.deliver("mail", 0)
    await run(app, "mail")
    clock.advance(60)
    await app.deliver("report", "waits")
    for number in range(6):
        clock.advance(1800)
        await app.deliver("mail", number)
        await run(app, "mail")
    await run(app, "report")
    clock.advance(1800)
    await app.deliver("mail", 7)
    await run(app, "mail")
    assert (await app.stats.outages()).outages == []


async def test_a_handler_that_runs_for_long_is_no_outage(app: App, clock: VirtualClock) -> None:
    @app.handler("slow")
    async def slow(delivery: Delivery[int]) -> None:
        await app.deliver("mail", "meanwhile")
        clock.advance(HOUR)

    await app.deliver("slow", 1)
    await run_until_idle(app)
    await run(app, "mail")
    assert (await app.stats.outages()).outages == []


async def test_attempts_of_pruned_deliveries_still_count(app: App, clock: VirtualClock) -> None:
    """A worker that was busy all the time was not away, also when its deliveries are pruned."""
    await app.deliver("report", "last")
    for number in range(20):
        await app.deliver("mail", number)
        await run(app, "mail")
        clock.advance(120)
        await app.store.maintenance.prune(MINUTE, DAY, "0" * 8 + "-0000-0000-0000-" + "0" * 12, 100)
    await run(app, "report")
    assert (await app.stats.outages()).outages == []


async def test_the_cost_is_bounded(
    app: App, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_outages, "SLICE", 2)
    for number in range(5):
        await app.deliver("mail", number, after=60 * number)
    began_at, ended_at = await one_hour_away(app, clock)
    whole = await app.stats.outages()
    assert (whole.capped, whole.counted_up_to) == (False, EXAMINED)
    assert [(each.began_at, each.ended_at, each.late) for each in whole.outages] == [
        (START + MINUTE, ended_at, 5)
    ]
    part = await outages(app.store, most=2)
    assert part.capped
    assert [(each.began_at, each.ended_at, each.late) for each in part.outages] == [
        (began_at, ended_at, 1)
    ]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"at_least": 59}, "at_least"),
        ({"at_least": "soon"}, "at_least"),
        ({"since": -1}, "since"),
        ({"since": START + DAY}, "since"),
        ({"limit": 0}, "limit"),
    ],
)
async def test_bad_input_is_refused(small_app: App, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await small_app.stats.outages(**given)
    assert refused.value.field == field
