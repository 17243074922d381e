"""The inbox: a message is handled once per consumer, and a duplicate gets the first result."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.engine.maintenance import BETWEEN_SLICES, RetentionPruner
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START, record_payloads

pytestmark = pytest.mark.requirement("F10")
WITHIN = 20.0


@pytest.fixture
async def app(app: App) -> App:
    async with app.transaction() as tx:
        await tx.execute("create table payments (message text)")
    return app


async def payments(app: App) -> list[str]:
    async with app.transaction() as tx:
        return [row[0] for row in await tx.fetch("select message from payments order by message")]


async def pay(app: App, message_id: str, consumer: str = "billing", **options: Any) -> Any:
    async with app.receive(message_id, consumer, **options) as message:
        if message.is_new:
            await message.execute(f"insert into payments values ('{message_id}')")
            await message.keep({"paid": message_id})
        return message.is_new, message.result


async def test_a_duplicate_is_answered_with_the_first_result(app: App, clock: VirtualClock) -> None:
    assert await pay(app, "m1") == (True, {"paid": "m1"})
    clock.advance(5)
    assert await pay(app, "m1") == (False, {"paid": "m1"})
    assert await pay(app, "m2") == (True, {"paid": "m2"})
    assert await payments(app) == ["m1", "m2"]
    async with app.receive("m1", "billing") as message:
        assert (message.id, message.consumer, message.received_at) == ("m1", "billing", START)
        with pytest.raises(duly.Conflict, match="'m1' was handled by 'billing' already"):
            await message.keep(2)


async def test_each_consumer_and_namespace_handles_its_own_message(
    app: App, database_url: str, clock: VirtualClock
) -> None:
    assert (await pay(app, "m", "billing"))[0]
    assert (await pay(app, "m", "mail"))[0]
    async with App(database_url, clock=clock, environment={}, namespace="other") as other:
        assert (await pay(other, "m", "mail"))[0]
    assert await payments(app) == ["m"] * 3


async def test_without_a_result_a_duplicate_has_none(app: App) -> None:
    for is_new in (True, False):
        async with app.receive("m", "billing") as message:
            assert (message.is_new, message.result) == (is_new, None)


async def test_a_failed_block_has_not_handled_the_message(app: App) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with app.receive("m", "billing") as message:
            await message.execute("insert into payments values ('m')")
            await message.keep("lost")
            raise ZeroDivisionError
    assert await payments(app) == []
    assert await pay(app, "m") == (True, {"paid": "m"})


@pytest.mark.parametrize("first_commits", [True, False])
async def test_a_duplicate_waits_for_the_first(app: App, first_commits: bool) -> None:
    inside, proceed = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with app.receive("m", "billing") as message:
            await message.execute("insert into payments values ('first')")
            await message.keep("first")
            inside.set()
            await proceed.wait()
            if not first_commits:
                raise ZeroDivisionError

    one = asyncio.create_task(first())
    await asyncio.wait_for(inside.wait(), WITHIN)
    two = asyncio.create_task(pay(app, "m"))
    await asyncio.wait([two], timeout=0.1)
    assert not two.done()
    proceed.set()
    await asyncio.wait([one], timeout=WITHIN)
    assert isinstance(one.exception(), ZeroDivisionError) is not first_commits
    expected = (False, "first") if first_commits else (True, {"paid": "m"})
    assert await asyncio.wait_for(two, WITHIN) == expected
    assert await payments(app) == (["first"] if first_commits else ["m"])


async def test_redeliveries_from_many_tasks_have_one_effect(app: App) -> None:
    answers = await asyncio.gather(*(pay(app, f"m{number % 5}") for number in range(100)))
    assert sum(is_new for is_new, _ in answers) == 5
    assert all(result == {"paid": f"m{number % 5}"} for number, (_, result) in enumerate(answers))
    assert await payments(app) == ["m0", "m1", "m2", "m3", "m4"]


async def test_a_delivery_caused_by_a_message_is_accepted_with_it(app: App) -> None:
    seen = record_payloads(app)
    for attempt in range(2):
        async with app.receive("m", "billing") as message:
            if message.is_new:
                await app.deliver("work", attempt, connection=message)
    assert await run_until_idle(app) == 1
    assert seen == [0]


async def test_a_message_can_be_received_in_an_existing_transaction(app: App) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with app.transaction() as tx:
            assert (await pay(app, "m", connection=tx))[0]
            assert not (await pay(app, "m", connection=tx))[0]
            raise ZeroDivisionError
    async with app.transaction() as tx:
        assert (await pay(app, "m", connection=tx))[0]
    assert not (await pay(app, "m"))[0]
    with pytest.raises(duly.InvalidInput, match=r"^connection: this is done in duly's own"):
        await pay(app, "m", connection=object())


async def test_a_handler_handles_a_message_once_however_often_it_is_sent(app: App) -> None:
    answers: list[Any] = []

    @app.handler("work", retry=duly.delays(1))
    async def work(delivery: Delivery[dict[str, Any]]) -> None:
        message = await delivery.once("billing", delivery.payload["id"])
        if message.is_new:
            await message.execute("insert into payments values ('m')")
            await message.keep(delivery.payload["n"])
        answers.append((message.is_new, message.result))
        if delivery.payload["n"] == 1 and delivery.attempt == 1:
            raise ValueError("not yet")

    for number in (1, 2, 3):
        await app.deliver("work", {"id": "m", "n": number}, after=number)
    await run_until_idle(app, within=3600)
    assert [is_new for is_new, _ in answers].count(True) == 2  # the first was rolled back
    assert await payments(app) == ["m"]
    assert len({result for _, result in answers[-2:]}) == 1


async def test_the_default_message_id_is_the_deliverys_key_or_id(app: App) -> None:
    seen: list[str] = []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        seen.append((await delivery.once("billing")).id)

    await app.deliver("work", key="k")
    await run_until_idle(app)
    accepted = await app.deliver("work")
    await run_until_idle(app)
    assert seen == ["k", accepted.id]


@pytest.mark.parametrize("message_id", ["", 0])
async def test_an_empty_message_id_is_refused(small_app: App, message_id: Any) -> None:
    @small_app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.once("billing", delivery.payload)

    accepted = await small_app.deliver("work", message_id, key="k")
    await run_until_idle(small_app)
    assert "message_id: " in str((await small_app.get(accepted.id)).error)


async def test_old_messages_are_deleted_in_batches(app: App, clock: VirtualClock) -> None:
    assert app.settings.inbox_retention == timedelta(days=7).total_seconds()
    for number in range(5):
        await pay(app, f"m{number}")
    clock.advance(timedelta(days=6))
    await pay(app, "late")
    pruner = RetentionPruner([(app.store.inbox.prune, timedelta(days=7))], interval=9.0, batch=2)
    assert (await pruner.tick()).seconds == 9.0
    clock.advance(timedelta(days=1, seconds=1))
    for pause in (BETWEEN_SLICES.seconds, BETWEEN_SLICES.seconds, 9.0):
        assert (await pruner.tick()).seconds == pause
    assert (await pay(app, "m0"))[0]
    assert not (await pay(app, "late"))[0]


@pytest.mark.parametrize(
    ("message_id", "consumer", "problem"),
    [
        ("", "billing", "^message_id: it has 0 bytes; give 1 to 255"),
        ("x" * 256, "billing", "^message_id: it has 256 bytes; give 1 to 255"),
        ("ø" * 128, "billing", "^message_id: it has 256 bytes"),
        ("a\nb", "billing", "^message_id: it holds characters that cannot be printed; remove them"),
        ("\ud800", "billing", "^message_id: it holds a lone surrogate"),
        (7, "billing", "^message_id: 7 is not text"),
        (None, "billing", "^message_id: None is not text"),
        ("m", "", "^consumer: '' is not a name; take letters"),
        ("m", "a b", "^consumer: 'a b' is not a name"),
        ("m", 7, "^consumer: 7 is not a name"),
    ],
)
async def test_bad_names_are_refused(
    small_app: App, message_id: Any, consumer: Any, problem: str
) -> None:
    with pytest.raises(duly.InvalidInput, match=problem):
        await pay(small_app, message_id, consumer)


async def test_a_result_that_is_no_json_is_refused_and_another_can_be_kept(app: App) -> None:
    async with app.receive("m", "billing") as message:
        with pytest.raises(duly.InvalidInput, match=r"^result: it cannot be written as JSON"):
            await message.keep(object())
        await message.keep("better")
    assert (await pay(app, "m"))[1] == "better"
