"""How often a key may ask when several servers are on one store."""

import asyncio
import random

import pytest

from duly import App
from duly.errors import StoreUnavailable
from duly.surfaces.http.access.rate_limit import RateLimit
from duly.testing import VirtualClock

pytestmark = pytest.mark.requirement("S2")
RATE = 20.0


class Servers:
    """Three that share a store, and a key of theirs."""

    def __init__(self, app: App, clock: VirtualClock, key: str) -> None:
        self._app = app
        self._clock = clock
        self._key = key
        self._telling = 0
        self.is_away = False
        self._paces = [RateLimit(clock, RATE, self._spend) for _ in range(3)]

    async def ask(self, server: int) -> bool:
        """Whether it may; whoever is to know of it does when this returns."""
        passes = not self._paces[server].wait(self._key)
        await asyncio.sleep(0)
        while self._telling:  # noqa: ASYNC110 - the store is not ours to wait for
            await asyncio.sleep(0)
        return passes

    async def _spend(self, id: str, uses: int, rate: float) -> float:
        self._telling += 1
        try:
            if self.is_away:
                raise StoreUnavailable("away")
            return await self._app.keys.spend(id, uses, rate)
        finally:
            self._telling -= 1


@pytest.fixture
async def servers(app: App, clock: VirtualClock) -> Servers:
    return Servers(app, clock, (await app.keys.create("ops")).id)


async def test_a_greedy_key_gets_the_rate_from_all_servers_together(
    servers: Servers, clock: VirtualClock
) -> None:
    passed = 0
    for _ in range(500):
        passed += sum([await servers.ask(each) for each in range(3)])
        clock.advance(0.02)
    # Ten seconds, what was saved up, and what was not told yet.
    assert 10 * RATE <= passed <= (10 + 2) * RATE + 3 * 2


@pytest.mark.parametrize("at_once", [1, 5, 20])
async def test_a_key_that_keeps_to_the_rate_is_never_refused_by_any_server(
    servers: Servers, clock: VirtualClock, at_once: int
) -> None:
    chance = random.Random(7)
    for _ in range(200 // at_once):
        for _ in range(at_once):
            assert await servers.ask(chance.randrange(3))
        # A little slower than the rate: sums of steps are not exact.
        clock.advance(at_once / RATE * (1 + 1e-6))


async def test_what_cannot_be_told_is_told_later(servers: Servers, clock: VirtualClock) -> None:
    servers.is_away = True
    for _ in range(3):
        assert sum([await servers.ask(0) for _ in range(30)]) == RATE
        assert sum([await servers.ask(1) for _ in range(30)]) == RATE
        clock.advance(1)
    servers.is_away = False
    assert await servers.ask(0)
    assert await servers.ask(1)
    # They owe for what both let pass, and a third hears of it with the first that it tells of.
    assert not await servers.ask(1)
    assert [await servers.ask(2) for _ in range(3)] == [True, True, False]
