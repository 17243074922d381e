"""A pool of connections to PostgreSQL, opened when they are needed and closed when idle.

asyncpg.Pool is not used: it resets a connection after every use, which costs one more round trip
for each statement, and it has one queue for all who wait, without levels.
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
"""Called with the number of open connections, and why no more can be opened."""

Waiter = asyncio.Future[bool]
WAIT_SECONDS = 30.0
IDLE_SECONDS = 5.0
SHORT_SECONDS = 5.0
"""No new connection is tried for this long after one was refused."""


class Level(IntEnum):
    """What a connection is used for. A task that holds one may wait only for one of a lower level.

    Each level leaves one connection to the levels below it, so that tasks that hold one and wait
    for a second cannot deadlock.
    """

    STATEMENT = 0
    """A statement, or a transaction of only the store's own code: needs no other connection."""
    BATCH = 1
    """Deliveries accepted in one transaction, while a caller's code generates them."""
    BLOCK = 2
    """A caller's transaction."""
    HANDLER = 3
    """A handler's transaction."""


class Held:
    """A connection of the pool, with its current session settings."""

    __slots__ = ("connection", "idle_since", "setup")

    def __init__(self, connection: Connection, setup: Setup) -> None:
        self.connection = connection
        self.setup = setup
        self.idle_since = 0.0

    def suits(self, wanted: Setup | None) -> bool:
        """Whether it has the wanted settings; None means those of a single statement."""
        return self.setup == wanted if wanted else self.setup in (BASE, BRIEF)

    async def change(self, wanted: Setup | None) -> None:
        """Change the session to the wanted settings."""
        if not self.suits(wanted):
            setup = wanted or BASE
            await self.connection.execute(";".join(filter(None, (self.setup.undo, setup.apply))))
            self.setup = setup


class Pool:
    """Shared connections, opened when they are needed and closed when idle."""

    def __init__(self, source: Source, size: int, on_short: OnShort) -> None:
        self.size = size
        self.fallback: Callable[[], AbstractAsyncContextManager[Connection]] | None = None
        """The connection for statements while transactions hold all connections of the pool."""
        self._source = source
        self._on_short = on_short
        self._idle: list[Held] = []
        self._in_use: set[Held] = set()
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
        held = await self._acquire(level, setup, may_fall_back=fallback is not None)
        if held is not None:
            async with self._lend(held, level) as connection:
                yield connection
        else:
            assert fallback is not None
            async with fallback() as connection:
                yield connection

    @asynccontextmanager
    async def _lend(self, held: Held, level: Level) -> AsyncIterator[Connection]:
        try:
            with clear_errors(self._source.connect):
                try:
                    yield held.connection
                except (*AWAY, asyncio.CancelledError):
                    await self._drop(held)
                    raise
        finally:
            self._release(held, level)

    async def _acquire(
        self, level: Level, setup: Setup | None, *, may_fall_back: bool
    ) -> Held | None:
        """A connection; None if the caller may use the fallback and should."""
        while await self._wait_for_turn(level, may_fall_back):
            try:
                held = self._take_idle(setup) or await self._open_new(setup)
                self._in_use.add(held)
                await self._change(held, setup)
                return held
            except NoSlot:
                self._free(level)
                if not self._open and not may_fall_back:
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

    def _take_idle(self, setup: Setup | None) -> Held | None:
        for held in [each for each in self._idle if not is_usable(each.connection)]:
            self._idle.remove(held)
            self._close_later(held)
        # The last one used, so that the others become idle long enough to be closed.
        found = next((each for each in reversed(self._idle) if each.suits(setup)), None)
        if found is None:
            return self._idle.pop() if self._idle else None
        self._idle.remove(found)
        return found

    async def _open_new(self, setup: Setup | None) -> Held:
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
        """Open no more connections for `SHORT_SECONDS`, and report it."""
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
            self._timers[call] = loop.call_later(seconds, self._fire, call)

    def _fire(self, call: Callable[[], None]) -> None:
        self._timers.pop(call, None)
        call()

    def _admits(self, level: Level) -> bool:
        most = self.size
        if self._is_short:
            most = min(most, max(1, self._open))
        # With a fallback for statements, the other levels may use all connections.
        reserved = level - (self.fallback is not None) if level else 0
        return sum(self._used) < most and sum(self._used[level:]) < max(1, most - reserved)

    async def _wait_for_turn(self, level: Level, may_fall_back: bool) -> bool:
        """Wait for a connection to be free; False if the caller has to use the fallback."""
        if self._admits(level):
            self._used[level] += 1
            return True
        if may_fall_back and self._all_in_transactions:
            return False
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((level, may_fall_back, waiter))
        try:
            # A handler has its own timeout.
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
    def _all_in_transactions(self) -> bool:
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
        if self._all_in_transactions:
            for _, may_fall_back, waiter in self._waiting:
                if may_fall_back and not waiter.done():
                    waiter.set_result(False)
        self._waiting = [each for each in self._waiting if not each[2].done()]

    def _release(self, held: Held, level: Level) -> None:
        if held in self._in_use:
            self._in_use.remove(held)
            if is_usable(held.connection) and self._open <= self.size:
                held.idle_since = asyncio.get_running_loop().time()
                self._idle.append(held)
                self._after(IDLE_SECONDS, self._close_idle)
            else:
                self._close_later(held)
        self._free(level)

    def _close_idle(self) -> None:
        """Close connections that were idle for `IDLE_SECONDS`, except the last one."""
        since = asyncio.get_running_loop().time() - IDLE_SECONDS
        for held in [each for each in self._idle if each.idle_since <= since]:
            if self._open > 1:
                self._idle.remove(held)
                self._close_later(held)
        if self._idle and self._open > 1:
            self._after(IDLE_SECONDS, self._close_idle)

    def _close_later(self, held: Held) -> None:
        self._open -= 1
        closing = asyncio.get_running_loop().create_task(self._source.close(held.connection))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _drop(self, held: Held) -> None:
        if held in self._in_use:
            self._in_use.remove(held)
            self._open -= 1
            await self._source.drop(held.connection)

    async def give_back(self) -> None:
        """Close all idle connections, because their slots are needed."""
        while self._idle:
            self._close_later(self._idle.pop())
        await asyncio.gather(*self._closing)

    async def close(self) -> None:
        """Close all connections, including those in use."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for held in list(self._in_use):
            self._in_use.remove(held)
            self._close_later(held)
        await self.give_back()
