"""A pool of connections to PostgreSQL, opened when they are needed and closed when they are not.

asyncpg.Pool resets a connection after every use, which is one more round trip for each statement,
and everybody who waits for one of its connections waits in the same queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import IntEnum

from duly.errors import Contended
from duly.stores.postgres.connections import (
    AWAY,
    BASE,
    BRIEF,
    Connection,
    NoSlot,
    Setup,
    Source,
    clear_errors,
    is_usable,
)

OnShort = Callable[[int, str], None]
"""Told how many are open when no more can be had, and why."""

Waiter = asyncio.Future[bool]
WAIT_SECONDS = 30.0
IDLE_SECONDS = 5.0
SHORT_SECONDS = 5.0
"""After a connection was refused, this long no other one is asked for."""


class Level(IntEnum):
    """What a connection is taken for. Who holds one may wait for one of a lower level only.

    Each level leaves one connection to those below it, so that whoever holds one and asks for
    another does not wait for others who do the same.
    """

    STATEMENT = 0
    """A statement, or a transaction in which only the store's own code runs: waits for nobody."""
    BATCH = 1
    """Deliveries accepted together, while a caller's code names them."""
    BLOCK = 2
    """A caller's transaction."""
    HANDLER = 3
    """A handler's transaction."""


class Held:
    """A connection of the pool, with the settings of its session."""

    __slots__ = ("connection", "idle_since", "setup")

    def __init__(self, connection: Connection, setup: Setup) -> None:
        self.connection = connection
        self.setup = setup
        self.idle_since = 0.0

    def suits(self, wanted: Setup | None) -> bool:
        """Whether its settings are the wanted; None is for a statement that runs by itself."""
        return self.setup == wanted if wanted else self.setup in (BASE, BRIEF)

    async def change(self, wanted: Setup | None) -> None:
        """Give it the wanted settings."""
        if not self.suits(wanted):
            setup = wanted or BASE
            await self.connection.execute(";".join(filter(None, (self.setup.undo, setup.apply))))
            self.setup = setup


class Pool:
    """Connections that are nobody's, opened when they are needed and closed when they are not."""

    def __init__(self, source: Source, size: int, on_short: OnShort) -> None:
        self.size = size
        self.fallback: Callable[[], AbstractAsyncContextManager[Connection]] | None = None
        """Where statements run when all connections of the pool are held for long."""
        self._source = source
        self._on_short = on_short
        self._idle: list[Held] = []
        self._using: set[Held] = set()
        self._open = 0
        self._used = [0] * len(Level)
        self._waiting: list[tuple[Level, bool, Waiter]] = []
        self._short_until = float("-inf")
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(
        self, level: Level, setup: Setup | None = None, *, may_fall_back: bool = True
    ) -> AsyncIterator[Connection]:
        """A connection for one caller; Contended if none comes free in time."""
        fallback = self.fallback if may_fall_back and level is Level.STATEMENT else None
        held = await self._acquire(level, setup, elsewhere=fallback is not None)
        if held is not None:
            async with self._lent(held, level) as connection:
                yield connection
        else:
            assert fallback is not None
            async with fallback() as connection:
                yield connection

    @asynccontextmanager
    async def _lent(self, held: Held, level: Level) -> AsyncIterator[Connection]:
        try:
            with clear_errors(self._source.connect):
                try:
                    yield held.connection
                except (*AWAY, asyncio.CancelledError):
                    await self._drop(held)
                    raise
        finally:
            self._release(held, level)

    async def _acquire(self, level: Level, setup: Setup | None, *, elsewhere: bool) -> Held | None:
        """A connection; None for who may go elsewhere and had to wait long, or in vain."""
        while await self._turn(level, elsewhere):
            try:
                held = self._picked(setup) or await self._opened(setup)
                self._using.add(held)
                await self._change(held, setup)
                return held
            except NoSlot:
                self._free(level)
                if not self._open and not elsewhere:
                    raise
                if not self._open:
                    return None
            except BaseException:
                self._free(level)
                raise
        return None

    async def _change(self, held: Held, setup: Setup | None) -> None:
        try:
            with clear_errors(self._source.connect):
                await held.change(setup)
        except BaseException:
            await self._drop(held)
            raise

    def _picked(self, setup: Setup | None) -> Held | None:
        for held in [each for each in self._idle if not is_usable(each.connection)]:
            self._idle.remove(held)
            self._let_go(held)
        # The last one that was used, so that the others become old enough to be closed.
        found = next((each for each in reversed(self._idle) if each.suits(setup)), None)
        if found is None:
            return self._idle.pop() if self._idle else None
        self._idle.remove(found)
        return found

    async def _opened(self, setup: Setup | None) -> Held:
        self._open += 1
        try:
            extra = self._open > 1
            return Held(await self._source.open(setup or BASE, extra=extra), setup or BASE)
        except BaseException as error:
            self._open -= 1
            if isinstance(error, NoSlot):
                self.run_short(str(error))
            raise

    def run_short(self, problem: str) -> None:
        """Make do with those that are open for a while."""
        self._short_until = asyncio.get_running_loop().time() + SHORT_SECONDS
        self._after(SHORT_SECONDS, self._open_again)
        self._on_short(self._open, problem)

    @property
    def _is_short(self) -> bool:
        return self._short_until > asyncio.get_running_loop().time()

    def _open_again(self) -> None:
        if self._is_short:
            self._after(SHORT_SECONDS, self._open_again)
        else:
            self._wake()

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        if call not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[call] = loop.call_later(seconds, self._ring, call)

    def _ring(self, call: Callable[[], None]) -> None:
        self._timers.pop(call, None)
        call()

    def _admits(self, level: Level) -> bool:
        most = self.size
        if self._is_short:
            most = min(most, max(1, self._open))
        # Statements have the fallback besides, so the others may take all.
        apart = level - (self.fallback is not None) if level else 0
        return sum(self._used) < most and sum(self._used[level:]) < max(1, most - apart)

    async def _turn(self, level: Level, elsewhere: bool) -> bool:
        """Wait for one's turn; False if all are held for long and one may go elsewhere."""
        if self._admits(level):
            self._used[level] += 1
            return True
        if elsewhere and self._is_held_for_long:
            return False
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((level, elsewhere, waiter))
        try:
            # A handler has a deadline of its own.
            async with asyncio.timeout(None if level is Level.HANDLER else WAIT_SECONDS):
                try:
                    return await waiter
                except BaseException:
                    self._give_up(level, waiter)
                    raise
        except TimeoutError:
            raise Contended(
                f"no connection came free within {WAIT_SECONDS:g} s: long transactions hold all of "
                f"them; end them sooner, or raise the setting `connections` (the pool has "
                f"{self.size})"
            ) from None

    @property
    def _is_held_for_long(self) -> bool:
        return not self._used[Level.STATEMENT]

    def _give_up(self, level: Level, waiter: Waiter) -> None:
        if waiter.cancelled() or not waiter.done():
            self._waiting = [each for each in self._waiting if each[2] is not waiter]
        elif waiter.result():
            self._free(level)

    def _free(self, level: Level) -> None:
        self._used[level] -= 1
        self._wake()

    def _wake(self) -> None:
        for level, _, waiter in self._waiting:
            if not waiter.done() and self._admits(level):
                self._used[level] += 1
                waiter.set_result(True)
        if self._is_held_for_long:
            for _, elsewhere, waiter in self._waiting:
                if elsewhere and not waiter.done():
                    waiter.set_result(False)
        self._waiting = [each for each in self._waiting if not each[2].done()]

    def _release(self, held: Held, level: Level) -> None:
        if held in self._using:
            self._using.remove(held)
            if is_usable(held.connection) and self._open <= self.size:
                held.idle_since = asyncio.get_running_loop().time()
                self._idle.append(held)
                self._after(IDLE_SECONDS, self._close_idle)
            else:
                self._let_go(held)
        self._free(level)

    def _close_idle(self) -> None:
        """Close what nobody used for a while, but not the last one."""
        old = asyncio.get_running_loop().time() - IDLE_SECONDS
        for held in [each for each in self._idle if each.idle_since <= old]:
            if self._open > 1:
                self._idle.remove(held)
                self._let_go(held)
        if self._idle and self._open > 1:
            self._after(IDLE_SECONDS, self._close_idle)

    def _let_go(self, held: Held) -> None:
        self._open -= 1
        closing = asyncio.get_running_loop().create_task(self._source.close(held.connection))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _drop(self, held: Held) -> None:
        if held in self._using:
            self._using.remove(held)
            self._open -= 1
            await self._source.drop(held.connection)

    async def give_back(self) -> None:
        """Close all that nobody uses: the slots are needed."""
        while self._idle:
            self._let_go(self._idle.pop())
        await asyncio.gather(*self._closing)

    async def close(self) -> None:
        """Close all, also those that are in use."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for held in list(self._using):
            self._using.remove(held)
            self._let_go(held)
        await self.give_back()
