"""Between claim and settle every await fails in every way: nothing is lost, doubled or spent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import duly.engine.execution.delivery_runner
import duly.engine.execution.execution
import duly.engine.execution.step_log
import duly.engine.execution.task_pool
import duly.stores.deliveries.inbox
import duly.stores.deliveries.steps
import duly.stores.deliveries.transactions
import duly.stores.postgres.database
import duly.stores.sqlite.database
import duly.stores.store
import duly.transports.combined
import duly.transports.handlers.registry
import duly.transports.handlers.steps
import duly.transports.handlers.transactions
import duly.transports.webhooks.endpoint_cache
import duly.transports.webhooks.exchanges
import duly.transports.webhooks.sender
from duly.errors import StoreUnavailable
from duly.failpoints import arm
from tests.engine.attempts import ATTEMPTING, ATTEMPTS, SPENDING, WRITING, Stage, staged
from tests.engine.awaits import Awaits, Fault, breathe
from tests.engine.house import House

pytestmark = pytest.mark.long

MODULES = (
    duly.engine.execution.task_pool,
    duly.engine.execution.delivery_runner,
    duly.engine.execution.execution,
    duly.engine.execution.step_log,
    duly.stores.deliveries.inbox,
    duly.stores.deliveries.steps,
    duly.stores.deliveries.transactions,
    duly.transports.webhooks.endpoint_cache,
    duly.transports.webhooks.exchanges,
    duly.transports.handlers.registry,
    duly.transports.combined,
    duly.transports.handlers.steps,
    duly.transports.handlers.transactions,
    duly.transports.webhooks.sender,
)
DEEPER = (duly.stores.store, duly.stores.sqlite.database, duly.stores.postgres.database)
"""Failing too where an attempt goes through them, which by far not all of them is for."""
ELSEWHERE = {
    "engine.execution.task_pool:TaskPool._work": "what fails in an attempt was caught there",
    "engine.execution.delivery_runner:DeliveryRunner.let_finish": "claims",
    "engine.execution.delivery_runner:DeliveryRunner.drain": "stops",
    "engine.execution.delivery_runner:DeliveryRunner._end": "stops",
    "stores.deliveries.inbox:Inbox.prune": "upkeep",
    "stores.deliveries.steps:record_with": "settles",
    "stores.deliveries.transactions:PostgresTransaction._set_up": (
        "behind a pooler; who awaits it is walked"
    ),
    "stores.deliveries.transactions:block": "a transaction of the app's, in no attempt",
    "stores.deliveries.transactions:PostgresTransaction.commit": (
        "a transaction of the app's, in no attempt"
    ),
    "stores.deliveries.transactions:SqliteTransaction.commit": (
        "a transaction of the app's, in no attempt"
    ),
    "transports.webhooks.exchanges:Exchanges.close": "stops",
    "transports.webhooks.sender:Webhooks.try_out": "asked for by people",
    "transports.webhooks.sender:Webhooks.prepare": "starts",
    "transports.webhooks.sender:Webhooks.close": "stops",
}
"""Functions of the same files that no attempt goes through, and what they are for."""
ONLY_AFTER_A_FAULT = {
    "stores.deliveries.transactions:PostgresTransaction._commit: self.roll_back()",
    "stores.deliveries.transactions:PostgresTransaction.begin: "
    "borrowed.__aexit__(type(error), error, error.__traceback__)",
}
"""Awaits that clean up; the trials with faults go through them."""
SOMETIMES = {
    "stores.postgres.database:from_place.connect": (
        "opens a connection if all others are in use just then"
    ),
}
"""Functions that an attempt goes through or not, as its timing will have it."""
TRIAL_SECONDS = 10


@pytest.fixture
def awaits() -> Iterator[Awaits]:
    with Awaits(*MODULES, *DEEPER, within=ATTEMPTING.get).instrumented() as found:
        yield found


@pytest.fixture
async def stage(any_house: House, awaits: Awaits) -> AsyncIterator[Stage]:
    async with staged(any_house) as found:
        # Armed for nothing that is passed here, so that whatever looks for failpoints goes there.
        arm("migrate.middle=raise")
        yield found


@pytest.mark.requirement("V1", "D9", "D13", "F5")
@pytest.mark.parametrize("kind", ATTEMPTS)
async def test_whatever_fails_between_claim_and_settle_is_handed_back(
    stage: Stage, awaits: Awaits, kind: str
) -> None:
    await trial(stage, awaits, kind, None)
    # Again, since some of it happens only the first time, as when a connection is opened.
    awaits.reached.clear()
    await trial(stage, awaits, kind, None)
    points = list(dict.fromkeys(awaits.reached))
    assert points
    for point in points:
        for when in ("before", "after"):
            for fault in (stopped(stage, point, when), away(stage, point, when)):
                problem = await problem_of(stage, awaits, kind, fault)
                assert not problem, problem


def module_of(point: str) -> str:
    """The module that a point is in."""
    return point.split(":")[0]


def function_of(point: str) -> str:
    """The function that a point is in."""
    return point.split(": ")[0]


def stopped(stage: Stage, point: str, when: str) -> Fault:
    """The worker is told to stop and waits for nobody."""
    runner = stage.life.engine.worker.runner

    async def strike() -> None:
        stage.stopping = asyncio.get_running_loop().create_task(runner.drain(0))
        await breathe()

    return Fault(point, when, strike, is_cancellation=True)


def away(stage: Stage, point: str, when: str) -> Fault:
    """The store goes away."""

    async def strike() -> None:
        raise StoreUnavailable("away", source=stage.app.store.source)

    return Fault(point, when, strike, is_cancellation=False)


async def problem_of(stage: Stage, awaits: Awaits, kind: str, fault: Fault) -> str | None:
    cause = "stopped" if fault.is_cancellation else "away"
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            await trial(stage, awaits, kind, fault)
    except (AssertionError, TimeoutError) as error:
        return f"{cause} {fault.when} {fault.point}: {type(error).__name__} {error}"
    return None


async def trial(stage: Stage, awaits: Awaits, kind: str, fault: Fault | None) -> None:
    """Make one attempt with the fault, and then as many without as it takes."""
    stage.trials += 1
    before = await stage.effects()
    await stage.forget_connections()
    ids = await ATTEMPTS[kind](stage)
    awaits.fault = fault
    await stage.tick()
    await finish(stage)
    for _ in range(10):
        if {(await stage.app.get(id)).state for id in ids} <= {"completed", "dead"}:
            break
        stage.house.clock.advance(15)
        await stage.tick()
        await finish(stage)
    missed, awaits.fault = awaits.fault, None
    assert missed is None or function_of(missed.point) in SOMETIMES, "it was not reached"
    await check(stage, kind, ids)
    written = (await stage.effects())[len(before) :]
    order = [ids.index(each) for each in stage.ran if each in ids]
    assert order == sorted(order), "out of order"
    assert written == (ids if kind in WRITING else []), f"wrote {written} for {ids}"


async def finish(stage: Stage) -> None:
    """Let what runs end, be it because of a stop, and settle it."""
    runner = stage.life.engine.worker.runner
    await runner.drain(None)
    if stage.stopping is not None:
        await stage.stopping
        stage.stopping, runner.is_draining = None, False
    await stage.life.engine.worker.settler.flush()
    await asyncio.gather(*stage.asked, return_exceptions=True)


async def check(stage: Stage, kind: str, ids: list[str]) -> None:
    for id in ids:
        booked = await stage.app.get(id)
        outcomes = [each.outcome for each in await stage.app.deliveries.history(id)]
        ended = (booked.state, booked.attempt)
        assert ended == ("completed", SPENDING.get(kind, 1)), f"{ended} {booked.error} {outcomes}"
        failures = outcomes.count("retry")
        assert failures == booked.attempt - 1, outcomes
        assert set(outcomes) <= {"released", "deferred", "completed", "retry"}


@pytest.mark.requirement("V1")
async def test_every_await_between_claim_and_settle_is_reached_by_an_attempt(
    stage: Stage, awaits: Awaits
) -> None:
    for kind in ATTEMPTS:
        await trial(stage, awaits, kind, None)
    reached = {*awaits.reached, *awaits.passed}
    other = ("Sqlite",) if "postgres" in stage.house.url else ("Postgres", "EnclosedSession")
    missed = {
        each
        for each in awaits.found - reached
        if module_of(each) in {each.__name__.removeprefix("duly.") for each in MODULES}
        and function_of(each) not in ELSEWHERE
        and not any(name in each for name in other)
        and each not in ONLY_AFTER_A_FAULT
    }
    assert not missed, "add an attempt that goes through these, or say what they are for:\n" + (
        "\n".join(sorted(missed))
    )
    assert reached
