"""Which retry plan applies: the one nearest to the delivery."""

from contextlib import closing
from typing import Any

import apsw
import pytest

import duly
from duly import App, Delivery
from duly.records.retry_plan import RetryPlan
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START

pytestmark = pytest.mark.requirement("F2")
NOWHERE = "http://127.0.0.1:9/"
OWN, SCHEDULES, ENDPOINTS, HANDLERS = (duly.delays(each) for each in (11, 22, 33, 44))
SERVERS = "delays:55"
CASES: dict[str, tuple[Any, int]] = {
    "own before its handler's": ({"target": "planned", "retry": OWN}, 11),
    "own before its endpoint's": ({"target": duly.endpoint("planned"), "retry": OWN}, 11),
    "own before the server's": ({"target": duly.webhook(NOWHERE), "retry": OWN}, 11),
    "its endpoint's": ({"target": duly.endpoint("planned")}, 33),
    "its handler's": ({"target": "planned"}, 44),
    "the server's for a handler": ({"target": "plain"}, 55),
    "the server's for an endpoint": ({"target": duly.endpoint("plain")}, 55),
    "the server's for a URL": ({"target": duly.webhook(NOWHERE)}, 55),
}
BUILT_IN = {"plain": (30, 36), "endpoint": (30, 30), "url": (30, 30)}
"""The shortest and the longest wait after the first failure: jitter only adds."""


async def add_targets(app: App) -> None:
    """A handler and an endpoint of each kind, which all fail."""

    async def fail(delivery: Delivery[Any]) -> None:
        raise RuntimeError("no")

    app.handler("planned", retry=HANDLERS)(fail)
    app.handler("plain")(fail)
    await app.endpoints.add("planned", NOWHERE, retry=ENDPOINTS)
    await app.endpoints.add("plain", NOWHERE)


def app_with(database_url: str, **settings: Any) -> App:
    clock = VirtualClock(START)
    return App(database_url, clock=clock, environment={}, egress_allow="127.0.0.1", **settings)


async def wait_of(app: App, id: str) -> float:
    """How long it waits after its first failure."""
    await run_until_idle(app)
    found = await app.get(id)
    assert (found.attempt, found.state) == (1, "pending")
    assert found.next_at is not None
    return (found.next_at - START).total_seconds()


@pytest.mark.parametrize("case", CASES)
async def test_the_plan_nearest_to_the_delivery_applies(database_url: str, case: str) -> None:
    given, wait = CASES[case]
    async with app_with(database_url, retry=SERVERS) as app:
        await add_targets(app)
        accepted = await app.deliver(**given)
        assert await wait_of(app, accepted.id) == wait


@pytest.mark.parametrize(("plan", "wait"), [(SCHEDULES, 22), (None, 33)])
async def test_a_schedules_plan_applies_to_its_deliveries(
    database_url: str, plan: RetryPlan | None, wait: int
) -> None:
    async with app_with(database_url, retry=SERVERS) as app:
        await add_targets(app)
        await app.schedule("once", duly.at(START), duly.endpoint("planned"), retry=plan)
        (made,) = await app.list(schedule="once")
        assert made.retry == plan
        assert await wait_of(app, made.id) == wait


@pytest.mark.parametrize("target", BUILT_IN)
async def test_without_a_plan_the_built_in_one_applies(database_url: str, target: str) -> None:
    targets = {"endpoint": duly.endpoint("plain"), "url": duly.webhook(NOWHERE)}
    async with app_with(database_url) as app:
        await add_targets(app)
        accepted = await app.deliver(targets.get(target, target))
        shortest, longest = BUILT_IN[target]
        assert shortest <= await wait_of(app, accepted.id) <= longest


async def test_an_unreadable_stored_plan_is_shown_as_none(sqlite_url: str) -> None:
    async with app_with(sqlite_url) as app:
        await add_targets(app)
        id = (await app.deliver("plain", retry=OWN)).id
    with closing(apsw.Connection(sqlite_url.removeprefix("sqlite:///"))) as file:
        file.execute("update duly_deliveries set retry = '{}'")
    async with app_with(sqlite_url) as app:
        assert (await app.get(id)).retry is None
