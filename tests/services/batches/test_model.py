"""Batches against a model: random operations by several processes, and exactly one completion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

import duly
from duly import App, Conflict
from duly.domain.deliveries.identifiers import token
from duly.engine import batch_finisher
from duly.engine.batch_finisher import BatchFinisher
from duly.ports import ClaimRequest
from duly.testing import VirtualClock, run_until_idle

pytestmark = [pytest.mark.requirement("P8"), pytest.mark.timeout(300)]
ENDED = {"completed", "dead", "cancelled"}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class Model:
    """What was done with batches, and what must be true of them after every operation."""

    def __init__(self, app: App, clock: VirtualClock, seed: int) -> None:
        self.app, self.clock, self.chance = app, clock, Random(seed)
        self.members: dict[str, list[str]] = {}
        self.closed: set[str] = set()
        self.cancelled: set[str] = set()
        self.counts: dict[str, tuple[int, int, int]] = {}
        """Completed, dead and cancelled members of finished batches, when they finished."""
        self.is_lucky = False
        store = app.store.serving(None)
        self.finishers = [
            BatchFinisher(store, clock, app.chance, app.telemetry.emit) for _ in range(2)
        ]
        app.handler("work", retry=duly.delays(60, 60))(self._work)
        app.handler("ready")(self._ready)

    async def _work(self, _delivery: duly.Delivery[Any]) -> None:
        luck = 1.0 if self.is_lucky else self.chance.random()
        if luck < 0.2:
            raise duly.ValidationFailure("it dies")
        if luck < 0.4:
            raise RuntimeError("it is retried")

    async def _ready(self, _delivery: duly.Delivery[Any]) -> None:
        pass

    def _batch(self) -> str:
        return self.chance.choice([*self.members])

    def _member(self) -> str | None:
        found = [id for ids in self.members.values() for id in ids]
        return self.chance.choice(found) if found else None

    async def open(self) -> None:
        self.members[(await self.app.batches.open(("ready", {"n": 1}))).id] = []

    async def add(self) -> None:
        batch = self._batch()
        options = self.chance.choice([{}, {"stream": "s"}, {"after": 90}, {"key": "same"}])
        if "key" in options:
            options = {"key": f"{batch} {self.chance.randrange(3)}"}
        try:
            added = await self.app.deliver("work", 1, batch=batch, **options)
        except Conflict:
            assert batch in self.closed
            return
        if added.id not in self.members[batch]:
            assert batch not in self.closed
            self.members[batch].append(added.id)

    async def add_many(self) -> None:
        batch = self._batch()
        try:
            added = await self.app.deliver_many([("work", 1)] * 3, batch=batch)
        except Conflict:
            assert batch in self.closed
        else:
            self.members[batch] += [each.id for each in added]

    async def close(self) -> None:
        batch = self._batch()
        await self.app.batches.close(batch)
        self.closed.add(batch)

    async def cancel_batch(self) -> None:
        batch = self._batch()
        if self.chance.random() < 0.2 and batch not in self.counts:
            await self.app.batches.cancel(batch)
            self.closed.add(batch)
            self.cancelled.add(batch)

    async def cancel(self) -> None:
        await self._try(self.app.cancel)

    async def retry(self) -> None:
        await self._try(self.app.retry)

    async def discard(self) -> None:
        await self._try(lambda id: self.app.dead_letters.discard(id, "no use"))

    async def _try(self, move: Callable[[str], Awaitable[object]]) -> None:
        if (member := self._member()) is not None:
            with suppress(Conflict):
                await move(member)

    async def release(self) -> None:
        """Let the stream go on, if it is blocked."""
        for each in await self.app.streams.list("blocked"):
            await self.app.streams.release(each.name)

    async def step(self) -> None:
        engine = self.app.engine(stepped=True)
        await engine.prepare()
        await engine.worker.step()
        await engine.stop()

    async def kill(self) -> None:
        """A worker claims some lanes, and is never heard of again."""
        store = self.app.store
        worker = await store.workers.register("doomed", 12.0, 5, ["work"])
        number = (await store.targets.numbers(["work"], create=True))["work"]
        ask = ClaimRequest(5, number, LONG_AGO, 3)
        await store.agenda.claim(token(worker, 1), 3, [ask])

    async def look(self) -> None:
        finisher = self.chance.choice(self.finishers)
        await (finisher.tick() if self.chance.random() < 0.5 else finisher.catch_up())

    async def wait(self) -> None:
        self.clock.advance(self.chance.choice([0.3, 5, 61, 100]))

    async def check(self) -> None:
        """Compare the store with the model."""
        completions = Counter(
            each.payload["batch"]["id"] for each in await self.app.list(target="ready", limit=1000)
        )
        for batch, members in self.members.items():
            found = await self.app.batches.get(batch)
            if found.finished_at is None:
                assert completions[batch] == 0
                continue
            assert batch in self.closed
            if batch not in self.counts:
                states = [str((await self.app.get(id)).state) for id in members]
                assert set(states) <= ENDED, "it finished before its members"
                counted = Counter(states)
                self.counts[batch] = (counted["completed"], counted["dead"], counted["cancelled"])
            assert completions[batch] == (batch not in self.cancelled)
            assert (found.completed, found.dead, found.cancelled) == self.counts[batch]

    async def end(self) -> None:
        """Let everything end; then each batch has sent its completion."""
        self.is_lucky = True
        for batch in self.members:
            await self.app.batches.close(batch)
            self.closed.add(batch)
        for _ in range(4):
            # The leases of killed workers run out.
            self.clock.advance(60)
            await run_until_idle(self.app, within=3600)
            await self.release()
            await self.check()
        assert self.counts.keys() == self.members.keys()
        completions = await self.app.list(target="ready", limit=1000)
        assert len(completions) == len(self.members.keys() - self.cancelled)
        assert {str(each.state) for each in completions} <= {"completed"}


async def play(url: str, seed: int, rounds: int) -> None:
    clock = VirtualClock()
    async with App(url, clock=clock, concurrency=3, environment={}) as app:
        model = Model(app, clock, seed)
        await model.open()
        operations = (
            *(model.add, model.add, model.add_many, model.step, model.look, model.wait),
            *(model.close, model.cancel, model.retry, model.discard, model.release, model.kill),
            *(model.cancel_batch, model.open),
        )
        for _ in range(rounds):
            await model.chance.choice(operations)()
            await model.check()
        await model.end()


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a batch has many, and most of its members are not read again."""
    monkeypatch.setattr(batch_finisher, "FIRST_SLICE", 2)
    monkeypatch.setattr(batch_finisher, "LONGEST_SLICE", 3)


@pytest.mark.parametrize("seed", [1, 2])
async def test_exactly_one_completion_after_the_last_end(database_url: str, seed: int) -> None:
    await play(database_url, seed, 60)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 15))
async def test_exactly_one_completion_after_the_last_end_for_long(
    database_url: str, seed: int
) -> None:
    await play(database_url, seed, 200)
