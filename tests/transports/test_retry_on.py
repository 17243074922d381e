"""`retry_on` of a plan: final answers are retried, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import duly
from duly import App, DeliveryRecord
from duly.records.endpoint import Circuit
from duly.testing import VirtualClock, run_until_idle
from tests.transports.receiver import Talk, answer, receiver

pytestmark = pytest.mark.requirement("C5", "F2")
WHOLE = duly.delays(30, 60, retry_on="4xx")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def app(database_url: str, clock: VirtualClock) -> AsyncIterator[App]:
    async with App(database_url, clock=clock, egress_allow="127.0.0.1", environment={}) as opened:
        yield opened


def answers(*given: int | bytes) -> Talk:
    """A server that gives these answers in order, and then repeats the last."""
    left = list(given)

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        now = left.pop(0) if len(left) > 1 else left[0]
        writer.write(answer(now) if isinstance(now, int) else now)

    return talk


async def ended(app: App, id: str, within: float = 100) -> tuple[DeliveryRecord, list[str]]:
    """Run until nothing more happens; returns the delivery and the outcome of each attempt."""
    await run_until_idle(app, within=within)
    history = [
        f"{each.outcome} {each.reason} {each.error}" for each in await app.deliveries.history(id)
    ]
    return await app.get(id), history


async def test_a_404_is_final_by_default_and_its_error_has_a_remedy(app: App) -> None:
    async with receiver(answers(404)) as there:
        sent = await app.deliver(duly.webhook(there.url()))
        found, history = await ended(app, sent.id)
    assert found.state == "dead"
    advice = 'it answered 404, which ends it; with retry_on="4xx" in its retry plan it is tried'
    assert history == [f"dead validation_failure {advice} again"]


async def test_a_deploy_of_the_receiver_loses_no_delivery(app: App) -> None:
    async with receiver(answers(404, 403, 204)) as there:
        await app.endpoints.add("billing", there.url(), retry=WHOLE)
        sent = await app.deliver(duly.endpoint("billing"))
        found, history = await ended(app, sent.id)
    assert found.state == "completed"
    assert history == [
        "retry dependency_failure it answered 404",
        "retry dependency_failure it answered 403",
        "completed None None",
    ]


async def test_the_plan_of_a_delivery_overrides_that_of_its_endpoint(app: App) -> None:
    async with receiver(answers(404)) as there:
        await app.endpoints.add("billing", there.url(), retry=WHOLE)
        to = duly.endpoint("billing")
        strict = await app.deliver(to, retry=duly.delays(30))
        found, _ = await ended(app, strict.id)
        assert (found.state, len(there.taken)) == ("dead", 1)
        await app.endpoints.edit("billing", retry=None)
        patient = await app.deliver(to, retry=duly.delays(30, retry_on=[404]))
        found, history = await ended(app, patient.id)
    assert (found.state, found.reason) == ("dead", "dependency_failure")
    assert history == [
        "retry dependency_failure it answered 404",
        "dead dependency_failure it answered 404",
    ]


async def test_occurrences_have_the_plan_of_their_schedule(app: App) -> None:
    async with receiver(answers(409, 204)) as there:
        await app.schedule(
            "once",
            duly.every("1d"),
            duly.webhook(there.url()),
            retry=duly.delays(30, retry_on=[409]),
        )
        found, _ = await ended(app, await app.schedules.trigger("once"))
    assert (found.state, len(there.taken)) == ("completed", 2)


async def test_only_listed_answers_are_retried_and_410_never_is(app: App) -> None:
    plan = duly.delays(30, retry_on=[404, 302])
    for given, plan_of_it, state, taken in (
        (302, plan, "pending", 1),
        (403, plan, "dead", 1),
        (410, WHOLE, "dead", 1),
    ):
        async with receiver(answers(given)) as there:
            sent = await app.deliver(duly.webhook(there.url()), retry=plan_of_it)
            found, _ = await ended(app, sent.id, within=0)
            assert (found.state, len(there.taken)) == (state, taken), given


async def test_retry_after_is_honoured_and_the_circuit_opens(app: App, clock: VirtualClock) -> None:
    async with receiver(answers(answer(404, b"", "Retry-After: 3600"))) as there:
        await app.endpoints.add("billing", there.url(), retry=WHOLE)
        ids = [(await app.deliver(duly.endpoint("billing"))).id for _ in range(5)]
        first, _ = await ended(app, ids[0], within=0)
        assert (await app.endpoints.get("billing")).circuit.state is Circuit.OPEN
    assert first.next_at is not None
    assert (first.next_at - clock.now()).total_seconds() == 3600
