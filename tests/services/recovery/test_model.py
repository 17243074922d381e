"""Random operators against a model: each dead letter is retried once a step, in order."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App, Conflict
from duly.testing import VirtualClock, run_until_idle
from tests.services.recovery.conftest import Deploy

REASONS = ("handler_exception", "dependency_failure", "timeout_exceeded")
OPERATIONS = 40
Policy = tuple[int, float, str | None]


class Letter:
    """What the model knows of one delivery; `deaths` are the reasons of its next failures."""

    def __init__(self, deaths: list[str]) -> None:
        self.deaths = deaths
        self.state = "pending"
        self.reason = ""
        self.dead_at: datetime | None = None
        self.disposition: str | None = None
        self.revive_at: datetime | None = None
        self.revivals = 0

    def retry(self, revivals: int) -> None:
        self.state, self.dead_at, self.disposition, self.revive_at = "pending", None, None, None
        self.revivals = revivals


class Model:
    """Deliveries without a stream, and one stream that its failed head blocks."""

    def __init__(self) -> None:
        self.letters: dict[str, Letter] = {}
        self.stream: list[str] = []
        self.policies: dict[str, Policy] = {}
        self.ran: list[str] = []
        """The runs of the stream."""

    def settle(self, now: datetime) -> None:
        """Everything that happens by itself at this moment."""
        while self._decide(now) or self._revive(now) or self._run(now):
            pass

    def _decide(self, now: datetime) -> bool:
        for letter in self.letters.values():
            if letter.state == "dead" and letter.disposition in (None, "recovering"):
                before = letter.disposition, letter.revive_at
                self._apply(letter)
                if before != (letter.disposition, letter.revive_at):
                    return True
        return False

    def _apply(self, letter: Letter) -> None:
        tries, after, then = self.policies.get(letter.reason, (0, 0.0, None))
        letter.disposition, letter.revive_at = None, None
        if letter.revivals < tries:
            assert letter.dead_at is not None
            letter.disposition = "recovering"
            letter.revive_at = letter.dead_at + timedelta(seconds=after)
        elif then is not None:
            letter.disposition = "held" if then == "hold" else "given_up"

    def _revive(self, now: datetime) -> bool:
        due = [
            each
            for each in self.letters.values()
            if each.revive_at is not None and each.revive_at <= now
        ]
        for each in due:
            each.retry(each.revivals + 1)
        return bool(due)

    def _run(self, now: datetime) -> bool:
        ready = [id for id in self.letters if id not in self.stream]
        if (head := self._head()) is not None:
            ready.append(head)
        ready = [id for id in ready if self.letters[id].state == "pending"]
        for id in ready:
            letter = self.letters[id]
            if id in self.stream:
                self.ran.append(id)
            if letter.deaths:
                letter.state, letter.dead_at = "dead", now
                letter.reason = letter.deaths.pop(0)
            else:
                letter.state = "completed"
        return bool(ready)

    def _head(self) -> str | None:
        for id in self.stream:
            letter = self.letters[id]
            if letter.state == "pending":
                return id
            if letter.state == "dead" and letter.disposition != "given_up":
                return None
        return None


class Play:
    """An app and the model, changed alike."""

    def __init__(self, app: App, clock: VirtualClock, chance: random.Random) -> None:
        self.app, self.clock, self.chance = app, clock, chance
        self.model = Model()
        self.deaths: dict[str, list[str]] = {}
        self.ran: list[str] = []
        app.handler("play", retry=duly.no_retry)(self._handle)

    async def _handle(self, delivery: duly.Delivery[Any]) -> None:
        if delivery.stream is not None:
            self.ran.append(delivery.id)
        if self.deaths[delivery.id]:
            raise duly.Fail("no", reason=self.deaths[delivery.id].pop(0))

    async def run(self) -> None:
        await self.advance()
        for _ in range(OPERATIONS):
            await self.chance.choice(self.operations())()
            await run_until_idle(self.app)
            self.model.settle(self.clock.now())
            await self.compare()

    def operations(self) -> list[Callable[[], Any]]:
        often = [self.deliver, self.advance, self.advance]
        return [*often, self.set_policy, self.remove_policy, self.move, self.move, self.restart]

    async def deliver(self) -> None:
        deaths = self.chance.choices(REASONS, k=self.chance.randrange(5))
        stream = self.chance.choice([None, "s"])
        id = (await self.app.deliver("play", stream=stream)).id
        self.deaths[id] = list(deaths)
        self.model.letters[id] = Letter(deaths)
        if stream is not None:
            self.model.stream.append(id)

    async def advance(self) -> None:
        self.clock.advance(timedelta(seconds=self.chance.choice([1, 30, 60, 600])))

    async def restart(self) -> None:
        """Each run is a new worker anyway; this one finds nothing new to do."""
        assert await run_until_idle(self.app) == 0

    async def set_policy(self) -> None:
        policy = (
            self.chance.randrange(4),
            self.chance.choice([0.0, 60.0, 600.0]),
            self.chance.choice(["hold", "fail"]),
        )
        reason = self.chance.choice(REASONS)
        await self.app.recovery.set(reason, tries=policy[0], after=policy[1], then=policy[2])
        self.model.policies[reason] = policy

    async def remove_policy(self) -> None:
        for reason in list(self.model.policies)[:1]:
            await self.app.recovery.remove(reason)
            del self.model.policies[reason]

    async def move(self) -> None:
        """What an operator does with some delivery; refused if its state does not allow it."""
        if not self.model.letters:
            return
        id = self.chance.choice(list(self.model.letters))
        letter, dead = self.model.letters[id], self.app.dead_letters
        verb = self.chance.choice(["hold", "release", "give_up", "retry"])
        note = [] if verb in ("release", "retry") else ["why"]
        given_up = letter.disposition == "given_up"
        if letter.state != "dead" or (given_up and verb != "give_up"):
            with pytest.raises(Conflict):
                await getattr(dead, verb)(id, *note)
            return
        await getattr(dead, verb)(id, *note)
        if verb == "retry":
            letter.retry(0)
        elif verb == "release" and letter.disposition == "held":
            letter.disposition, letter.revivals = None, 0
        elif verb != "release":
            letter.disposition = "held" if verb == "hold" else "given_up"
            letter.revive_at = None

    async def compare(self) -> None:
        for id, letter in self.model.letters.items():
            found = await self.app.get(id)
            assert (found.state, found.disposition, found.revive_at, found.revivals) == (
                letter.state,
                letter.disposition,
                letter.revive_at,
                letter.revivals,
            ), id
        assert self.ran == self.model.ran, "the stream ran in another order"


@pytest.mark.long
@pytest.mark.requirement("L1", "L2")
@pytest.mark.parametrize("seed", range(8))
async def test_dead_letters_are_as_in_the_model(
    deploy: Deploy, clock: VirtualClock, seed: int
) -> None:
    work = await deploy()
    await Play(work.app, clock, random.Random(seed)).run()
