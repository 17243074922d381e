"""What lies between a simulated process and its database: delays, faults, death and sleep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import msgspec

from duly.errors import StoreUnavailable

Result = TypeVar("Result")


class Weather(msgspec.Struct, frozen=True):
    """How often calls fail; most seeds have only a few kinds of faults."""

    lost_requests: float = 0.0
    lost_answers: float = 0.0
    slow: float = 0.0
    longest_delay: float = 0.002

    @staticmethod
    def of(random: Random) -> Weather:
        """The weather of a seed."""

        def often(most: float) -> float:
            return random.random() * most if random.random() < 0.4 else 0.0

        return Weather(often(0.05), often(0.05), often(0.02), random.choice([0.0005, 0.002, 0.05]))


class Link:
    """The connection of one process; everything that it does outside of itself passes here."""

    def __init__(self, random: Random, weather: Weather, source: object) -> None:
        self.is_dead = False
        """After kill -9: no call returns, and none has an effect."""
        self.weather = weather
        self.faults = 0
        self._random = random
        self._source = source
        self._awake = asyncio.Event()
        self._awake.set()
        self._parked: list[asyncio.Future[Any]] = []
        self._is_down = False

    async def call(self, work: Callable[[], Result]) -> Result:
        """Have the database do some work, at one moment between the request and the answer."""
        await self.ask()
        result = work()
        await self.hear()
        return result

    async def ask(self) -> None:
        """Send a request; from here on the database works on it, even if the process dies."""
        await self.travel()
        if self._is_lost(self.weather.lost_requests):
            raise self._unavailable("the request was lost")

    async def hear(self) -> None:
        """Receive the answer."""
        await self.travel()
        if self._is_lost(self.weather.lost_answers):
            raise self._unavailable("the answer was lost")

    async def travel(self) -> None:
        """Take some time, in which the process may die or freeze."""
        await self.survive()
        weather = self.weather
        seconds = self._random.random() * weather.longest_delay
        if self._random.random() < weather.slow:
            seconds += self._random.random() * 4
        await asyncio.sleep(seconds)
        await self.survive()

    async def survive(self) -> None:
        """Wait while the process is frozen; for ever if it is dead."""
        if not self._awake.is_set():
            await self._awake.wait()
        if self.is_dead:
            # Not cancelled: that would run `finally`, which kill -9 does not.
            parked = asyncio.get_running_loop().create_future()
            self._parked.append(parked)
            await parked

    def _is_lost(self, chance: float) -> bool:
        return self._is_down or self._random.random() < chance

    def _unavailable(self, problem: str) -> StoreUnavailable:
        self.faults += 1
        return StoreUnavailable(problem, source=self._source)

    def freeze(self) -> None:
        """SIGSTOP."""
        self._awake.clear()

    def thaw(self) -> None:
        """SIGCONT."""
        self._awake.set()

    def go_down(self) -> None:
        """The database is away for this process."""
        self._is_down = True

    def come_back(self) -> None:
        """It is there again."""
        self._is_down = False
