"""A small world: processes that work, a caller that delivers, faults, and what must hold after all.

Handlers note what they did in memory, as an outside system would, or in the transaction of their
delivery. Every outside step of a handler passes its process's link, so a dead one does nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import apsw

import duly
import duly.stores.store
from duly import App, Delivery
from duly.domain.deliveries.identifiers import delivery_id
from duly.engine.supervisor import Engine
from duly.errors import StoreUnavailable
from tests.simulation.database import START, Server, SimulatedSqlite
from tests.simulation.loop import simulate
from tests.simulation.network import Link, Weather

LEASE, FAULTY_SECONDS, QUIET_SECONDS = 2.0, 20.0, 180.0
SETTINGS: dict[str, Any] = {
    "lease": LEASE,
    "poll": 1.0,
    "recovery_interval": 0.5,
    "sweep_interval": 5.0,
    "concurrency": 4,
    "drain": 0.5,
    "retry": "exponential:base=1s,cap=2s,attempts=8",
}
STREAMS = ("red", "green")
FAULTS = ("weather", "kill", "freeze", "cut_off", "stop", "step_clock")
OCCURRENCES = 12
"""How often the schedule fires, once a second."""
KINDS = ("plain", "stored", "fails", "stream", "steps", "result")


class SimulatedClock:
    """The clock of one machine: it may be wrong, and be stepped."""

    virtual = False

    def __init__(self) -> None:
        self.wrong_by = timedelta()

    def now(self) -> datetime:
        """The wall clock."""
        return START + timedelta(seconds=self.monotonic()) + self.wrong_by

    def monotonic(self) -> float:
        """Virtual time."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(seconds)


class SeededChance:
    """Randomness and ids from the seed."""

    def __init__(self, random: Random, clock: SimulatedClock) -> None:
        self._random = random
        self._clock = clock

    def fraction(self) -> float:
        """A number from 0 to 1."""
        return self._random.random()

    def bytes(self, many: int) -> bytes:
        """Random bytes."""
        return self._random.randbytes(many)

    def delivery_id(self) -> str:
        """An id with the time of the process."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        return delivery_id(milliseconds, self._random.getrandbits(73))


class Process:
    """One simulated process: an App, its engine, and its link to the database."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.clock = SimulatedClock()
        self.link = Link(world.random, world.weather, None)
        self.app = self._make_app()
        self.link._source = self.app.store.source
        self.engine: Engine | None = None
        self._register()

    def _make_app(self) -> App:
        chance = SeededChance(self.world.random, self.clock)
        with _simulated(self.world.server, self.link):
            app = App(
                f"sqlite:///{self.name}.db", clock=self.clock, chance=chance, environment={},
                program="simulation", **SETTINGS,
            )  # fmt: skip
        store: Any = app.store
        store.single_owner, store.one_loop = False, True
        return app

    def _register(self) -> None:
        world, link = self.world, self.link

        async def work() -> None:
            """Take some time: mostly a moment, sometimes longer than a lease."""
            await asyncio.sleep(world.random.choice([0.01, 0.3, 1.0, LEASE * 2]))
            await link.travel()

        @self.app.handler("plain")
        async def plain(delivery: Delivery[int]) -> None:
            await work()
            world.done(delivery)

        @self.app.handler("ticks")
        async def ticks(delivery: Delivery[Any]) -> None:
            await link.travel()

        @self.app.handler("stream")
        async def stream(delivery: Delivery[int]) -> None:
            await work()
            world.done(delivery)
            await link.travel()

        @self.app.handler("fails")
        async def fails(delivery: Delivery[int]) -> None:
            await link.travel()
            if delivery.payload % 3 or delivery.attempt < 3:
                raise ValueError("not this time")
            world.done(delivery)

        @self.app.handler("stored")
        async def stored(delivery: Delivery[int]) -> None:
            await work()
            await delivery.transaction.execute("insert into effects values (?)", delivery.id)

        @self.app.handler("steps")
        async def steps(delivery: Delivery[int]) -> None:
            for name in ("first", "second"):
                async with delivery.step(name) as step:
                    if not step.done:
                        await link.travel()
                        world.step_done(delivery.id, name)
            world.done(delivery)

        @self.app.handler("result")
        async def result(n: int) -> int:
            await work()
            return n + 1

    async def start(self) -> None:
        """Open the app and run the engine; tried again until the database answers."""
        while not self.link.is_dead:
            try:
                await self.app.open(migrate=False)
                self.engine = self.app.engine()
                await self.engine.start()
                return
            except StoreUnavailable:
                await asyncio.sleep(0.5)

    async def stop(self) -> None:
        """Stop gracefully."""
        if self.engine is not None:
            with suppress(StoreUnavailable):
                await self.engine.stop()

    def kill(self) -> None:
        """kill -9."""
        self.link.is_dead = True


@contextmanager
def _simulated(server: Server, link: Link) -> Iterator[None]:
    """Let the next App have a simulated database; its class is chosen where stores are made."""
    bound = type("Bound", (SimulatedSqlite,), {"server": server, "link": link})
    before = duly.stores.store.Sqlite
    duly.stores.store.Sqlite = bound  # type: ignore[misc]
    try:
        yield
    finally:
        duly.stores.store.Sqlite = before  # type: ignore[misc]


class World:
    """All of one seed."""

    def __init__(self, seed: int, masked: frozenset[str] = frozenset()) -> None:
        self.seed = seed
        self.masked = masked
        """Kinds of faults that are left out, to find the one that matters."""
        self.random = Random(seed)
        self.weather = Weather.of(self.random)
        if "weather" in masked:
            self.weather = Weather()
        self.server = Server()
        self.processes: list[Process] = []
        self.accepted: dict[str, tuple[str, int]] = {}
        self.order: dict[str, list[str]] = defaultdict(list)
        self.effects: list[tuple[float, str, int]] = []
        self.steps: Counter[tuple[str, str]] = Counter()
        self.faults: Counter[str] = Counter()
        self._background: set[asyncio.Task[None]] = set()

    def done(self, delivery: Delivery[Any]) -> None:
        """A handler had its effect outside."""
        now = asyncio.get_running_loop().time()
        self.effects.append((now, delivery.id, delivery.attempt))

    def step_done(self, id: str, name: str) -> None:
        """A step had its effect."""
        self.steps[id, name] += 1

    async def run(self) -> None:
        """Deliver under faults, then let all drain, and check."""
        self.server.connection.deserialize("main", empty_database())
        for number in range(self.random.randint(1, 3)):
            await self._start(f"p{number}")
        caller = Process(self, "caller")
        await _until_open(caller)
        async with asyncio.timeout(QUIET_SECONDS):
            await self._declare(caller)
            await asyncio.gather(self._deliver(caller), self._break())
            await self._heal()
            await self._drain(caller)
        for process in self.processes:
            await process.stop()
        await self._check(caller)

    async def _start(self, name: str) -> None:
        process = Process(self, name)
        self.processes.append(process)
        self._begin(process.start())

    def _begin(self, what: Coroutine[Any, Any, None]) -> None:
        self._background.add(asyncio.get_running_loop().create_task(what))

    async def _declare(self, caller: Process) -> None:
        """A schedule of which every occurrence has to be delivered, however late."""
        while True:
            try:
                await caller.app.schedule(
                    "tick", duly.every("1s"), "ticks", catch_up="all", max_runs=OCCURRENCES
                )
                return
            except StoreUnavailable:
                await asyncio.sleep(0.1)

    async def _deliver(self, caller: Process) -> None:
        """A caller that repeats each delivery, with the same id, until it hears yes."""
        for number in range(self.random.randint(5, 60)):
            kind = self.random.choice(KINDS)
            id = caller.app.chance.delivery_id()
            stream = self.random.choice(STREAMS) if kind == "stream" else None
            payload: Any = {"n": number} if kind == "result" else number
            while True:
                try:
                    await caller.app.deliver(kind, payload, id=id, stream=stream)
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.1)
            self.accepted[id] = (kind, number)
            if stream is not None:
                self.order[stream].append(id)
            await asyncio.sleep(self.random.expovariate(4))

    async def _break(self) -> None:
        """Faults of processes, some kinds of them in each seed."""
        breaks = [self._kill, self._freeze, self._cut_off, self._stop, self._step_clock]
        chosen = [each for each in breaks if self.random.random() < 0.5]
        chosen = [each for each in chosen if each.__name__.strip("_") not in self.masked]
        ends = asyncio.get_running_loop().time() + FAULTY_SECONDS
        while chosen and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(self.random.expovariate(0.5))
            process = self.random.choice(self.processes)
            fault = self.random.choice(chosen)
            self.faults[fault.__name__.strip("_")] += 1
            await fault(process)

    async def _kill(self, process: Process) -> None:
        process.kill()
        self.processes.remove(process)
        await self._start(f"{process.name}+")

    async def _freeze(self, process: Process) -> None:
        process.link.freeze()
        seconds = self.random.choice([0.5, LEASE * 3])
        asyncio.get_running_loop().call_later(seconds, process.link.thaw)

    async def _cut_off(self, process: Process) -> None:
        process.link.go_down()
        seconds = self.random.choice([0.5, LEASE * 3])
        asyncio.get_running_loop().call_later(seconds, process.link.come_back)

    async def _stop(self, process: Process) -> None:
        self.processes.remove(process)
        await self._start(f"{process.name}-")
        self._begin(process.stop())

    async def _step_clock(self, process: Process) -> None:
        process.clock.wrong_by += timedelta(seconds=self.random.choice([-3600, -5, 5, 3600]))

    async def _heal(self) -> None:
        for process in self.processes:
            process.link.thaw()
            process.link.come_back()
            process.link.weather = Weather()

    async def _drain(self, caller: Process) -> None:
        """Wait until all have ended; in bounded time, or the run fails."""
        caller.link.weather = Weather()
        left = "select 1 from duly_deliveries where state = 'pending'"
        while len(self._moments()) < OCCURRENCES or self._rows(left):  # noqa: ASYNC110
            await asyncio.sleep(0.5)

    def _moments(self) -> list[int]:
        """The moments for which the schedule has made a delivery."""
        made = "select due_at from duly_deliveries where schedule is not null order by 1"
        return [each for (each,) in self._rows(made)]

    def _rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return list(self.server.connection.execute(sql, parameters))

    async def _check(self, caller: Process) -> None:
        states = dict(self._rows("select id, state from duly_deliveries where schedule is null"))
        assert states.keys() >= self.accepted.keys(), "an accepted delivery is lost"
        assert states.keys() == self.accepted.keys(), "something exists that was not accepted"
        assert not self._rows("select * from duly_agenda"), "a lane is left"
        outside = Counter(id for _, id, _ in self.effects)
        inside = Counter(id for (id,) in self._rows("select id from effects"))
        for id, (kind, number) in self.accepted.items():
            detail = await caller.app.deliveries.detail(id)
            fails = kind == "fails" and number % 3
            if self._is_suspect(id) and detail.state == "dead":
                continue
            wanted = "dead" if fails else "completed"
            assert detail.state == wanted, f"{kind} {id} is {detail.state}: {detail.error}"
            assert detail.attempt <= 8, f"{kind} {id} had {detail.attempt} attempts"
            if kind == "stored":
                assert inside[id] == 1, f"{id} took effect {inside[id]} times"
            elif kind == "result":
                assert detail.result == number + 1, f"{id} returned {detail.result}"
            elif kind == "steps":
                self._check_steps(id)
            elif not fails:
                assert outside[id] >= 1, f"{kind} {id} completed without an effect"
        self._check_attempts()
        self._check_streams()
        self._check_schedule()
        await caller.app.close()

    def _check_steps(self, id: str) -> None:
        """A step is repeated only if it may have been interrupted before it was recorded."""
        for name in ("first", "second"):
            assert self.steps[id, name] >= 1, f"{id} completed without its {name} step"
            if not self.faults and self.weather == Weather():
                assert self.steps[id, name] == 1, f"{id} repeated its {name} step"

    def _check_attempts(self) -> None:
        """What faults interrupted spends no attempt, only failures of the handler do.

        Except that a delivery whose workers die again and again may be what kills them.
        """
        for id, (kind, _) in self.accepted.items():
            if kind != "fails" and not self._is_suspect(id):
                ((attempt,),) = self._rows("select attempt from duly_deliveries where id = ?", id)
                assert attempt == 1, f"{kind} {id} spent {attempt} attempts: {self._history(id)}"

    def _history(self, id: str) -> list[tuple[Any, ...]]:
        return self._rows("select outcome, error from duly_attempts where delivery = ?", id)

    def _is_suspect(self, id: str) -> bool:
        return any(error and "its worker died" in error for _, error in self._history(id))

    def _check_streams(self) -> None:
        """The first effect of each delivery comes before the first of the next one."""
        first: dict[str, float] = {}
        for at, id, _ in self.effects:
            first.setdefault(id, at)
        for name, ids in self.order.items():
            for before, after in pairwise(ids):
                assert first[before] <= first[after], f"{name}: {after} before {before}"

    def _check_schedule(self) -> None:
        """Each second has one occurrence, none is missing, and each was delivered."""
        moments = self._moments()
        assert len(moments) == OCCURRENCES, f"{len(moments)} occurrences"
        steps = {after - before for before, after in pairwise(moments)}
        assert steps == {1_000_000}, f"occurrences at {moments}"
        states = self._rows("select distinct state from duly_deliveries where schedule is not null")
        assert states == [("completed",)], states

    @property
    def trace(self) -> str:
        """A hash of all that happened: the same seed has the same."""
        written = repr((self.effects, self._rows("select * from duly_attempts order by rowid")))
        return hashlib.sha256(written.encode()).hexdigest()[:16]


_EMPTY: list[bytes] = []


def empty_database() -> bytes:
    """A database with duly's schema and the table of effects, made once."""
    if not _EMPTY:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "empty.db"

            async def make() -> None:
                async with App(f"sqlite:///{path}", environment={}):
                    pass

            _in_thread(make)
            connection = apsw.Connection(str(path))
            connection.execute("create table effects (id text not null)")
            connection.execute("pragma journal_mode=delete")
            _EMPTY.append(connection.serialize("main"))
            connection.close()
    return _EMPTY[0]


def _in_thread(make: Any) -> None:
    thread = threading.Thread(target=lambda: asyncio.run(make()))
    thread.start()
    thread.join()


async def _until_open(process: Process) -> None:
    while True:
        try:
            await process.app.open(migrate=False)
            return
        except StoreUnavailable:
            await asyncio.sleep(0.1)


def run_seed(seed: int, masked: frozenset[str] = frozenset()) -> World:
    """Run one seed; raises AssertionError if something does not hold."""
    world = World(seed, masked)
    simulate(Random(seed ^ 0x5EED), world.run)
    return world
