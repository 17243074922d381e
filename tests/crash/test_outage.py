"""A day of outage, on the real clock: missed occurrences are caught up once, by their policy."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly.testing import VirtualClock
from tests.crash.fleet import Fleet, StoreUnderTest

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Plan:
    """Schedules that were declared a day ago, by a process that stopped right after."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.began = now - DAY
        # Like */15, but minutes away from now, so that none becomes due while the test runs.
        minute = (now.minute + 8) % 15
        expression = f"{minute},{minute + 15},{minute + 30},{minute + 45} * * * *"
        self.quarters = duly.cron(expression)
        self.just_due = duly.every("15m", anchor=now - timedelta(seconds=5))
        self.once = duly.at(now - 6 * HOUR)
        noon = now - 12 * HOUR
        self.rules: dict[str, tuple[Any, str]] = {
            "all": (self.quarters, "all"),
            "latest": (self.quarters, "latest"),
            "skip": (self.quarters, "skip"),
            "just due": (self.just_due, "skip"),
            "yearly": (duly.yearly(noon.month, noon.day, noon.strftime("%H:%M:%S")), "skip"),
            "at": (self.once, "latest"),
        }

    async def declare(self, database: str) -> None:
        async with duly.App(database, clock=VirtualClock(self.began), environment={}) as app:
            app.expect("effect")
            for name, (rule, catch_up) in self.rules.items():
                await app.schedule(name, rule, "effect", catch_up=catch_up)

    def missed(self) -> list[str]:
        found = self.quarters.preview(96, after=self.began)
        assert found[-1] <= self.now < self.quarters.preview(97, after=self.began)[-1]
        return [f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in found]


async def delivered(store: StoreUnderTest) -> dict[str, list[tuple[str, int]]]:
    """The effects of each schedule: occurrences, and how many were merged into each."""
    rows = await store.run(
        "select s.name, d.occurrence, d.occasion from effects e"
        " join duly.deliveries d on cast(d.id as text) = e.delivery"
        " join duly.schedules s on s.id = d.schedule"
    )
    found: dict[str, list[tuple[str, int]]] = {}
    for name, occurrence, occasion in sorted(rows):
        found.setdefault(name, []).append((occurrence, json.loads(occasion)["merged"]))
    return found


async def counted(store: StoreUnderTest) -> dict[str, tuple[int, int]]:
    rows = await store.run(
        "select s.name, p.merged, p.skipped from duly.schedules s"
        " join duly.progress p on p.schedule = s.id"
    )
    return {name: (merged, skipped) for name, merged, skipped in rows}


@pytest.mark.requirement("C1", "C3", "D4")
async def test_a_day_of_outage_is_caught_up_once_even_if_killed_meanwhile(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    plan = Plan(datetime.now(UTC))
    await plan.declare(store.database)
    for place in ("plan.middle=kill@1", "complete.middle=kill@30", "complete.after=kill@30"):
        killed = fleet.start(DULY_FAILPOINTS=place, DULY_CONCURRENCY="8")
        assert killed.popen.wait(30) == -9, f"{place} was never reached"
    fleet.start()
    await store.until("select count(*) from effects", 100)
    found = await delivered(store)
    assert found == {
        "all": [(each, 0) for each in plan.missed()],
        "latest": [(plan.missed()[-1], 95)],
        "just due": [(plan.just_due.last(plan.began, plan.now).identity, 0)],
        "yearly": [(str((plan.now - 12 * HOUR).year), 0)],
        "at": [(plan.once.occurrence().identity, 0)],
    }
    assert await counted(store) == {
        "all": (0, 0),
        "latest": (95, 0),
        "skip": (0, 96),
        "just due": (0, 95),
        "yearly": (0, 0),
        "at": (0, 0),
    }
    await assert_nothing_more(fleet, store, found)


async def assert_nothing_more(fleet: Fleet, store: StoreUnderTest, found: dict[str, Any]) -> None:
    """A restart after another kill repeats nothing, and every schedule has its next occurrence."""
    fleet.processes[-1].kill()
    fleet.processes[-1].popen.wait(10)
    await store.deliver("effect", 1)
    fleet.start()
    # It is claimed only after the start has caught up.
    await store.until("select count(*) from effects", 101)
    assert await delivered(store) == found
    rows = await store.run(
        "select s.name, count(d.id) from duly.schedules s left join duly.deliveries d"
        " on d.schedule = s.id and d.state = 'pending' group by s.name"
    )
    assert dict(rows) == {name: name != "at" for name in (*found, "skip")}
