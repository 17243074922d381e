"""The batch finisher: when it reads, how much it reads, and what it stores of large batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly import App
from duly.engine import batch_finisher
from duly.engine.batch_finisher import BatchFinisher
from duly.errors import StoreUnavailable
from duly.records.batch import Batch
from duly.stores import batches as stored_batches
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("P8")
LATER = 86_400


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(database_url, clock=VirtualClock(), environment={}) as found:
        found.expect("work", "ready")
        yield found


@pytest.fixture
def finisher(app: App) -> BatchFinisher:
    return BatchFinisher(app.store.serving(None), app.clock, app.chance, app.telemetry.emit)


class Counted:
    """Counts the statements that the database runs."""

    def __init__(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        database: Any = app.store.database  # type: ignore[attr-defined]
        for method in ("fetch", "fetch_named", "fetch_batch"):
            monkeypatch.setattr(database, method, self._counting(getattr(database, method)))

    def _counting(self, run: Any) -> Any:
        async def counted(name: str, *given: Any, **parameters: Any) -> Any:
            self.names.append(name)
            return await run(name, *given, **parameters)

        return counted


async def closed(app: App, members: int, **options: Any) -> Batch:
    batch = await app.batches.open("ready")
    items = [{"target": "work", "payload": n, **options} for n in range(members)]
    await app.deliver_many(items, batch=batch.id)
    return await app.batches.close(batch.id)


async def test_at_rest_it_runs_one_statement_every_five_seconds(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(app, monkeypatch)
    pause = await finisher.tick()
    assert (counted.names, pause.seconds) == (["batches.unfinished"], 5.0)


async def test_a_batch_that_does_not_move_is_looked_at_less_often(
    app: App, finisher: BatchFinisher
) -> None:
    await closed(app, 3, after=LATER)
    pauses = []
    for _ in range(6):
        pauses.append((await finisher.tick()).seconds)
        app.clock.advance(pauses[-1])  # type: ignore[attr-defined]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    finisher.hurry()
    assert (await finisher.tick()).seconds == 0.5 * 2


async def test_each_member_is_read_about_once(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_finisher, "FIRST_SLICE", 10)
    monkeypatch.setattr(batch_finisher, "LONGEST_SLICE", 10)
    monkeypatch.setattr(batch_finisher, "COUNTED_EVERY", 1e9)
    batch = await closed(app, 100, after=LATER)
    members = sorted([each.id for each in await app.list(batch=batch.id, limit=200)])
    counted = Counted(app, monkeypatch)
    assert not await finisher.catch_up()
    # All slices once, for the progress.
    assert counted.names.count("batches.survey") == 11
    for number, id in enumerate(members):
        await app.cancel(id)
        if number % 10 == 9 and number < 99:
            del counted.names[:]
            assert not await finisher.catch_up()
            assert counted.names.count("batches.survey") <= 2, number
    del counted.names[:]
    assert await finisher.catch_up()
    assert counted.names.count("batches.survey") <= 2
    assert (await app.batches.get(batch.id)).cancelled == 100


async def test_large_batches_show_the_stored_counts(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_finisher, "LARGE", 5)
    monkeypatch.setattr(stored_batches, "COUNTED", 10)
    monkeypatch.setattr(stored_batches, "COUNTED_IN_LISTS", 5)
    batch = await closed(app, 30, after=LATER)
    found = await app.batches.get(batch.id)
    assert (found.members, found.counted_at) == (10, None), "at least so many"
    await finisher.tick()
    (listed,) = await app.batches.list()
    found = await app.batches.get(batch.id)
    assert listed == found
    assert (found.members, found.waiting, found.counted_at) == (30, 30, app.clock.now())
    id = (await app.list(batch=batch.id, limit=1))[0].id
    await app.cancel(id)
    app.clock.advance(1)  # type: ignore[attr-defined]
    await finisher.tick()
    assert (await app.batches.get(batch.id)).cancelled == 0, "counted at most every few seconds"
    app.clock.advance(2)  # type: ignore[attr-defined]
    await finisher.tick()
    assert (await app.batches.get(batch.id)).cancelled == 1


async def test_more_batches_than_one_tick_reads_are_all_finished(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_finisher, "BATCHES", 2)
    elsewhere = app.within("elsewhere")
    elsewhere.expect("ready")
    waiting = await closed(app, 1, after=LATER)
    for each in (app, elsewhere, app, elsewhere, app):
        await each.batches.close((await each.batches.open("ready")).id)
    for _ in range(6):
        await finisher.tick()
    assert [each.id for each in await app.batches.list("closed")] == [waiting.id]
    assert await elsewhere.batches.list("closed") == []
    assert len(await elsewhere.list(target="ready")) == 2


async def test_two_finishers_at_once_send_one_completion(app: App) -> None:
    batch = await closed(app, 0)
    finishers = [
        BatchFinisher(app.store.serving(None), app.clock, app.chance, app.telemetry.emit)
        for _ in range(5)
    ]
    done = await asyncio.gather(*[each.catch_up() for each in finishers])
    assert sum(done) == 1
    (completion,) = await app.list(target="ready")
    assert (await app.batches.get(batch.id)).completion == completion.id


async def test_one_failing_batch_does_not_stop_the_others(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await closed(app, 0), await closed(app, 0)
    batches: Any = finisher._store.batches
    finish = batches.finish

    async def failing(id: str, *given: Any) -> Any:
        if id == first.id:
            raise RuntimeError("no")
        return await finish(id, *given)

    monkeypatch.setattr(batches, "finish", failing)
    await finisher.tick()
    assert app.telemetry.counts["LoopFailed"] == 1
    assert (await app.batches.get(second.id)).state == "finished"


async def with_a_counted_dead_letter(app: App, finisher: BatchFinisher) -> tuple[str, str, str]:
    """The ids of a closed batch, of a dead letter that was counted, and of one that waits."""
    batch = await app.batches.open("ready")
    first = await app.deliver("work", 1, batch=batch.id, stream="s", after=LATER)
    second = await app.deliver("work", 2, batch=batch.id, after=LATER)
    await app.batches.close(batch.id)
    await app.streams.dead_letter_head("s")
    assert not await finisher.catch_up()
    return batch.id, first.id, second.id


async def test_a_dead_letter_that_was_counted_and_is_retried_is_waited_for(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_finisher, "FIRST_SLICE", 1)
    batch, first, second = await with_a_counted_dead_letter(app, finisher)
    await app.dead_letters.retry(first)
    await app.cancel(second)
    assert not await finisher.catch_up(), "it pends again, behind the members that were read"
    await app.streams.dead_letter_head("s")
    assert await finisher.catch_up()
    found = await app.batches.get(batch)
    assert (found.completed, found.dead, found.cancelled) == (0, 1, 1)


async def test_a_counted_dead_letter_that_is_discarded_counts_as_cancelled(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_finisher, "FIRST_SLICE", 1)
    batch, first, second = await with_a_counted_dead_letter(app, finisher)
    await app.dead_letters.discard(first, "no use")
    await app.cancel(second)
    assert await finisher.catch_up()
    found = await app.batches.get(batch)
    assert (found.members, found.dead, found.cancelled) == (2, 0, 2)


async def test_a_batch_that_could_not_be_finished_is_counted_correctly_the_next_time(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = await closed(app, 3, after=LATER)
    for each in await app.list(batch=batch.id):
        await app.cancel(each.id)
    batches: Any = finisher._store.batches

    async def away(*_given: Any) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(batches, "finish", away)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await finisher.catch_up()
    assert await finisher.catch_up()
    found = await app.batches.get(batch.id)
    assert (found.members, found.cancelled) == (3, 3)


async def test_batches_that_others_finished_are_forgotten(
    app: App, finisher: BatchFinisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_finisher, "BATCHES", 2)
    found = [await closed(app, 1, after=LATER) for _ in range(5)]
    for _ in range(3):
        await finisher.tick()
    assert finisher._watched.keys() == {each.id for each in found}
    for batch in found[:4]:
        await app.batches.cancel(batch.id)
    other = BatchFinisher(app.store.serving(None), app.clock, app.chance, app.telemetry.emit)
    assert await other.catch_up()
    assert (await finisher.tick()).seconds == 0.5
    assert finisher._watched.keys() == {found[4].id}
