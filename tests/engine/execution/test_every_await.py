"""Every await between claim and settle fails in every way: nothing is lost, repeated or spent."""

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
import duly.transports.webhooks.connection
import duly.transports.webhooks.connections
import duly.transports.webhooks.endpoint_cache
import duly.transports.webhooks.exchanges
import duly.transports.webhooks.resolver
import duly.transports.webhooks.sender
from duly.errors import StoreUnavailable
from duly.failpoints import arm
from tests.engine.attempts import ATTEMPTING, ATTEMPTS, SPENDING, WRITING, Scenario, open_scenario
from tests.engine.awaits import Awaits, Fault, yield_to_tasks
from tests.engine.cluster import Cluster

pytestmark = pytest.mark.long

MODULES = (
    duly.engine.execution.task_pool,
    duly.engine.execution.delivery_runner,
    duly.engine.execution.execution,
    duly.engine.execution.step_log,
    duly.stores.deliveries.inbox,
    duly.stores.deliveries.steps,
    duly.stores.deliveries.transactions,
    duly.transports.webhooks.connection,
    duly.transports.webhooks.connections,
    duly.transports.webhooks.endpoint_cache,
    duly.transports.webhooks.exchanges,
    duly.transports.webhooks.resolver,
    duly.transports.handlers.registry,
    duly.transports.combined,
    duly.transports.handlers.steps,
    duly.transports.handlers.transactions,
    duly.transports.webhooks.sender,
)
DEEPER = (duly.stores.store, duly.stores.sqlite.database, duly.stores.postgres.database)
"""Modules of which an attempt uses only a part; they fail there too."""
NOT_IN_ATTEMPTS = {
    "engine.execution.task_pool:TaskPool._work": "errors of an attempt are caught before",
    "engine.execution.delivery_runner:DeliveryRunner.let_finish": "claims",
    "engine.execution.delivery_runner:DeliveryRunner.drain": "stops",
    "engine.execution.delivery_runner:DeliveryRunner._end": "stops",
    "stores.deliveries.inbox:Inbox.prune": "maintenance",
    "stores.deliveries.steps:record_with": "settles",
    "stores.deliveries.transactions:PostgresTransaction._set_up": (
        "behind a pooler; its caller is tested"
    ),
    "stores.deliveries.transactions:block": "a transaction of the app, outside of attempts",
    "stores.deliveries.transactions:PostgresTransaction.commit": (
        "a transaction of the app, outside of attempts"
    ),
    "stores.deliveries.transactions:SqliteTransaction.commit": (
        "a transaction of the app, outside of attempts"
    ),
    "transports.webhooks.sender:Webhooks.try_out": "called by operators",
    "transports.webhooks.sender:Webhooks.prepare": "starts",
    "transports.webhooks.sender:Webhooks.close": "stops",
}
"""Functions of the same files that no attempt calls, and what calls them."""
ONLY_AFTER_A_FAULT = {
    "stores.deliveries.transactions:PostgresTransaction._commit: self.roll_back()",
    "stores.deliveries.transactions:PostgresTransaction.begin: "
    "borrowed.__aexit__(type(error), error, error.__traceback__)",
}
"""Awaits that clean up; the trials with faults reach them."""
SOMETIMES = {
    "stores.postgres.database:from_place.connect": ("opens a connection if all others are in use"),
}
"""Functions that an attempt calls or not, depending on timing."""
TRIAL_SECONDS = 60


@pytest.fixture
def awaits() -> Iterator[Awaits]:
    with Awaits(*MODULES, *DEEPER, within=ATTEMPTING.get).instrumented() as found:
        yield found


@pytest.fixture
async def scenario(any_cluster: Cluster, awaits: Awaits) -> AsyncIterator[Scenario]:
    async with open_scenario(any_cluster) as found:
        # Enables failpoints without raising any, so that code which checks for them runs too.
        arm("migrate.middle=raise")
        yield found


@pytest.mark.requirement("V1", "D9", "D13", "F5")
@pytest.mark.parametrize("kind", ATTEMPTS)
async def test_an_attempt_that_fails_between_claim_and_settle_is_handed_back(
    scenario: Scenario, awaits: Awaits, kind: str
) -> None:
    await trial(scenario, awaits, kind, None)
    # A second time, since some awaits happen only the first time, such as opening a connection.
    awaits.reached.clear()
    await trial(scenario, awaits, kind, None)
    points = list(dict.fromkeys(awaits.reached))
    assert points
    for point in points:
        for when in ("before", "after"):
            for fault in (stopped(scenario, point, when), unavailable(scenario, point, when)):
                problem = await problem_of(scenario, awaits, kind, fault)
                assert not problem, problem


def module_of(point: str) -> str:
    """The module that a point is in."""
    return point.split(":")[0]


def function_of(point: str) -> str:
    """The function that a point is in."""
    return point.split(": ")[0]


def stopped(scenario: Scenario, point: str, when: str) -> Fault:
    """The worker stops and waits for no handler."""
    runner = scenario.process.engine.worker.runner

    async def strike() -> None:
        scenario.stopping = asyncio.get_running_loop().create_task(runner.drain(0))
        await yield_to_tasks()

    return Fault(point, when, strike, is_cancellation=True)


def unavailable(scenario: Scenario, point: str, when: str) -> Fault:
    """The store is unavailable."""

    async def strike() -> None:
        raise StoreUnavailable("unavailable", source=scenario.app.store.source)

    return Fault(point, when, strike, is_cancellation=False)


async def problem_of(scenario: Scenario, awaits: Awaits, kind: str, fault: Fault) -> str | None:
    cause = "stopped" if fault.is_cancellation else "unavailable"
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            await trial(scenario, awaits, kind, fault)
    except (AssertionError, TimeoutError) as error:
        return f"{cause} {fault.when} {fault.point}: {type(error).__name__} {error}"
    return None


async def trial(scenario: Scenario, awaits: Awaits, kind: str, fault: Fault | None) -> None:
    """Make one attempt with the fault, and then as many without as it needs."""
    scenario.trials += 1
    before = await scenario.effects()
    await scenario.forget_connections()
    ids = await ATTEMPTS[kind](scenario)
    awaits.fault = fault
    await scenario.tick()
    await finish(scenario)
    for _ in range(10):
        if {(await scenario.app.get(id)).state for id in ids} <= {"completed", "dead"}:
            break
        scenario.cluster.clock.advance(15)
        await scenario.tick()
        await finish(scenario)
    missed, awaits.fault = awaits.fault, None
    assert missed is None or function_of(missed.point) in SOMETIMES, "the await was not reached"
    await check(scenario, kind, ids)
    written = (await scenario.effects())[len(before) :]
    order = [ids.index(each) for each in scenario.executed if each in ids]
    assert order == sorted(order), "out of order"
    assert written == (ids if kind in WRITING else []), f"wrote {written} for {ids}"


async def finish(scenario: Scenario) -> None:
    """Wait for running handlers, even those of a stop, and settle them."""
    runner = scenario.process.engine.worker.runner
    await runner.drain(None)
    if scenario.stopping is not None:
        await scenario.stopping
        scenario.stopping, runner.is_draining = None, False
    await scenario.process.engine.worker.settler.flush()
    await asyncio.gather(*scenario.calls, return_exceptions=True)


async def check(scenario: Scenario, kind: str, ids: list[str]) -> None:
    for id in ids:
        delivery = await scenario.app.get(id)
        outcomes = [each.outcome for each in await scenario.app.deliveries.history(id)]
        ended = (delivery.state, delivery.attempt)
        assert ended == ("completed", SPENDING.get(kind, 1)), f"{ended} {delivery.error} {outcomes}"
        failures = outcomes.count("retry")
        assert failures == delivery.attempt - 1, outcomes
        assert set(outcomes) <= {"released", "deferred", "completed", "retry"}


@pytest.mark.requirement("V1")
async def test_every_await_between_claim_and_settle_is_reached_by_an_attempt(
    scenario: Scenario, awaits: Awaits
) -> None:
    for kind in ATTEMPTS:
        await trial(scenario, awaits, kind, None)
    reached = {*awaits.reached, *awaits.passed}
    other = ("Sqlite",) if "postgres" in scenario.cluster.url else ("Postgres", "EnclosedSession")
    missed = {
        each
        for each in awaits.found - reached
        if module_of(each) in {each.__name__.removeprefix("duly.") for each in MODULES}
        and function_of(each) not in NOT_IN_ATTEMPTS
        and not any(name in each for name in other)
        and each not in ONLY_AFTER_A_FAULT
    }
    assert not missed, "add an attempt that reaches these, or add them to NOT_IN_ATTEMPTS:\n" + (
        "\n".join(sorted(missed))
    )
    assert reached
