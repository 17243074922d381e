"""The rate limit of a key that several servers on one store share."""

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
    """Three servers that share a store and a key."""

    def __init__(self, app: App, clock: VirtualClock, key: str) -> None:
        self._app = app
        self._clock = clock
        self._key = key
        self._reporting = 0
        self.is_unavailable = False
        self._limits = [RateLimit(clock, RATE, self._spend) for _ in range(3)]

    async def allows(self, server: int) -> bool:
        """Whether a request is allowed; when this returns, the store has counted it."""
        passes = not self._limits[server].wait(self._key)
        await asyncio.sleep(0)
        while self._reporting:  # noqa: ASYNC110 - the store is not ours to wait for
            await asyncio.sleep(0)
        return passes

    async def _spend(self, id: str, uses: int, rate: float) -> float:
        self._reporting += 1
        try:
            if self.is_unavailable:
                raise StoreUnavailable("away")
            return await self._app.keys.spend(id, uses, rate)
        finally:
            self._reporting -= 1


@pytest.fixture
async def servers(app: App, clock: VirtualClock) -> Servers:
    return Servers(app, clock, (await app.keys.create("ops")).id)


async def test_all_servers_together_allow_one_rate(servers: Servers, clock: VirtualClock) -> None:
    passed = 0
    for _ in range(500):
        passed += sum([await servers.allows(each) for each in range(3)])
        clock.advance(0.02)
    # Ten seconds, the burst, and the uses that were not reported yet.
    assert 10 * RATE <= passed <= (10 + 2) * RATE + 3 * 2


@pytest.mark.parametrize("at_once", [1, 5, 20])
async def test_a_key_within_the_rate_is_never_refused(
    servers: Servers, clock: VirtualClock, at_once: int
) -> None:
    chance = random.Random(7)
    for _ in range(200 // at_once):
        for _ in range(at_once):
            assert await servers.allows(chance.randrange(3))
        # A little slower than the rate: sums of floats are not exact.
        clock.advance(at_once / RATE * (1 + 1e-6))


async def test_uses_are_reported_later_if_the_store_is_unavailable(
    servers: Servers, clock: VirtualClock
) -> None:
    servers.is_unavailable = True
    for _ in range(3):
        assert sum([await servers.allows(0) for _ in range(30)]) == RATE
        assert sum([await servers.allows(1) for _ in range(30)]) == RATE
        clock.advance(1)
    servers.is_unavailable = False
    assert await servers.allows(0)
    assert await servers.allows(1)
    # Both servers owe for what they allowed; the third learns of it when it first reports.
    assert not await servers.allows(1)
    assert [await servers.allows(2) for _ in range(3)] == [True, True, False]
