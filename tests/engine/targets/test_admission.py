"""Gates in use: every probe has a result or is handed back, and every limit is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.deliveries.outcomes import (
    Completed,
    Deferred,
    Failed,
    Outcome,
    Settlement,
    Verdict,
)
from duly.domain.endpoints import gates as rules
from duly.domain.endpoints.gates import Gate, TargetLimits
from duly.errors import StoreUnavailable
from duly.ports import ClaimRequest, GateChange, SeenGate
from duly.records.endpoint import Circuit
from duly.records.reason import Reason
from duly.records.retry_plan import RetryPlan
from duly.testing import VirtualClock
from tests.engine.cluster import Cluster, WorkerProcess, admission

REST = 10
"""Seconds until the first probe."""
NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)


class Bank:
    """The handler `pay`: fails while it is away, and waits while it is closed."""

    def __init__(self, app: App, *, in_transaction: bool = False) -> None:
        self.is_away, self.served = True, list[Any]()
        self.in_transaction = in_transaction
        self.open = asyncio.Event()
        self.open.set()
        app.handler("pay", retry=duly.no_retry)(self.handle)

    async def handle(self, delivery: Delivery[Any]) -> None:
        if self.is_away:
            raise duly.DependencyFailure("away")
        await self.open.wait()
        if self.in_transaction:
            await delivery.transaction.execute("select 1")
        self.served.append(delivery.payload)


class FixedTransport:
    """A transport to every endpoint, which returns a fixed outcome."""

    def __init__(self) -> None:
        self.answer: Outcome = Failed(Reason.DEPENDENCY_FAILURE, "503")
        self.sent = 0
        self.open = asyncio.Event()
        self.open.set()

    def serves(self) -> tuple[str, ...]:
        return ()

    def reaches(self, _: str) -> bool:
        return True

    def plan(self, _: str, __: str) -> RetryPlan:
        return duly.no_retry

    async def attempt(self, _: Any) -> Outcome:
        self.sent += 1
        await self.open.wait()
        return self.answer


async def gate_of(app: App, target: str = "pay") -> Gate:
    number = (await app.store.targets.numbers([target], create=True))[target]
    found = await app.store.gates.revise(0, [number], lambda seen, _: GateChange(seen.gate))
    return found[number][0].gate


async def open_circuit(cluster: Cluster, app: App) -> WorkerProcess:
    """A worker after five failed payments, so that the circuit is open."""
    process = await cluster.start_worker(app)
    await app.deliver_many([("pay", None)] * 5)
    for _ in range(3):
        await process.engine.worker.step()
    assert (await gate_of(app)).circuit is Circuit.OPEN
    return process


async def endpoint_worker(
    cluster: Cluster, transport: FixedTransport, **limits: Any
) -> WorkerProcess:
    """A worker with the endpoint `x`."""
    app = cluster.app(egress_allow="127.0.0.1")
    await app.open()
    await app.endpoints.add("x", "http://127.0.0.1:1/", **limits)
    engine = app.engine(transport, stepped=True)
    await engine.prepare()
    return WorkerProcess(app, engine)


async def five_failures(cluster: Cluster, process: WorkerProcess) -> None:
    await process.app.deliver_many([(duly.endpoint("x"), None)] * 5)
    for _ in range(3):
        await process.engine.worker.step()
        cluster.clock.advance(1)
    assert (await process.app.endpoints.get("x")).circuit.state is Circuit.OPEN


@pytest.mark.requirement("F9")
class TestProbe:
    async def test_a_probe_that_succeeds_in_a_transaction_closes_the_circuit(
        self, any_cluster: Cluster
    ) -> None:
        app = any_cluster.app()
        bank = Bank(app, in_transaction=True)
        process = await open_circuit(any_cluster, app)
        bank.is_away = False
        await app.deliver_many([("pay", number) for number in range(3)])
        any_cluster.clock.advance(REST)
        assert await process.engine.worker.step() == 1
        assert (await gate_of(app)).circuit is Circuit.CLOSED
        assert await process.engine.worker.step() == 2

    async def test_a_probe_is_counted_when_nothing_else_waits_for_its_target(
        self, any_cluster: Cluster
    ) -> None:
        app = any_cluster.app(lease=3600)
        bank = Bank(app)
        process = await open_circuit(any_cluster, app)
        bank.is_away = False
        bank.open.clear()
        await app.deliver("pay", "the only one")
        any_cluster.clock.advance(REST)
        assert await process.tick() == 1, "also while the probe is running"
        bank.open.set()
        await process.finish()
        await process.engine.worker.admission.tick()
        gate = await gate_of(app)
        assert (gate.circuit, gate.failures) == (Circuit.CLOSED, 0)

    async def test_an_expired_probe_is_followed_by_the_next_at_once(
        self, any_cluster: Cluster
    ) -> None:
        app = any_cluster.app()
        bank = Bank(app)
        process = await open_circuit(any_cluster, app)
        bank.is_away = False
        soon = any_cluster.clock.now() + timedelta(seconds=5)
        for number in range(3):
            await app.deliver("pay", number, expires_at=soon)
        any_cluster.clock.advance(REST)
        await app.deliver("pay", "fresh")
        for _ in range(4):
            assert await process.engine.worker.step() == 1
        assert bank.served == ["fresh"]
        assert (await gate_of(app)).circuit is Circuit.CLOSED

    async def test_a_probe_without_a_free_slot_runs_soon_after(self, any_cluster: Cluster) -> None:
        app = any_cluster.app(concurrency=4)
        bank = Bank(app)

        @app.handler("busy")
        async def busy(_: Delivery[Any]) -> None:
            pass

        process = await open_circuit(any_cluster, app)
        bank.is_away = False
        await app.deliver("pay", "waiting")
        any_cluster.clock.advance(REST)
        for _ in range(2):
            await app.deliver("busy", priority=9)
        assert await process.engine.worker.step() == 2
        assert bank.served == []
        any_cluster.clock.advance(1)
        await process.engine.worker.step()
        assert bank.served == ["waiting"]

    @pytest.mark.parametrize(
        ("answer", "circuit"),
        [(Completed('{"status":204}'), Circuit.CLOSED), (Deferred(1.0), Circuit.OPEN)],
    )
    async def test_a_probe_that_does_not_fail_disables_no_endpoint(
        self, any_cluster: Cluster, answer: Outcome, circuit: Circuit
    ) -> None:
        transport = FixedTransport()
        process = await endpoint_worker(any_cluster, transport, in_flight=5)
        await five_failures(any_cluster, process)
        transport.answer = answer
        any_cluster.clock.advance(timedelta(days=6))
        await process.engine.worker.step()
        await process.app.deliver(duly.endpoint("x"))
        transport.open.clear()
        assert await process.tick() == 1
        transport.open.set()
        await process.finish()
        await process.engine.worker.admission.tick()
        endpoint = await process.app.endpoints.get("x")
        assert (endpoint.state, endpoint.state_reason) == ("active", None)
        assert endpoint.circuit.state is circuit


@pytest.mark.requirement("C8", "F9")
@pytest.mark.parametrize("limits", [{}, {"rate": 100.0}, {"in_flight": 5}])
async def test_a_resumed_endpoint_does_not_wait_for_the_earlier_probe(
    any_cluster: Cluster, limits: dict[str, Any]
) -> None:
    transport = FixedTransport()
    process = await endpoint_worker(any_cluster, transport, **limits)
    await five_failures(any_cluster, process)
    await process.app.deliver(duly.endpoint("x"))
    assert await process.engine.worker.step() == 0, "it waits for the probe"
    transport.answer = Completed()
    await process.app.endpoints.resume("x")
    assert await process.engine.worker.step() == 1


@pytest.mark.requirement("C8")
async def test_with_a_limit_of_one_the_next_is_sent_when_the_first_has_ended(
    any_cluster: Cluster,
) -> None:
    transport = FixedTransport()
    transport.answer = Completed()
    process = await endpoint_worker(any_cluster, transport, in_flight=1)
    await process.app.deliver_many([(duly.endpoint("x"), None)] * 3)
    for sent in (1, 2, 3):
        transport.open.clear()
        assert await process.tick() == 1, "no time has passed"
        await process.tick()
        assert transport.sent == sent, "one at a time"
        transport.open.set()
        await process.finish()


class Counter:
    """A store that only records the count of running deliveries, and can be slow."""

    def __init__(self, limit: int) -> None:
        self.limits = TargetLimits(in_flight=limit)
        self.recorded, self.slow = 0, ""
        self.proceed = asyncio.Event()

    async def revise(
        self, _: int, targets: Any, decide: Callable[[SeenGate, datetime], GateChange]
    ) -> dict[int, tuple[SeenGate, GateChange]]:
        (target,) = targets
        first, self.slow = self.slow, ""
        if first == "before":
            await self.proceed.wait()
        seen = SeenGate(target, "endpoint:x", "active", self.limits, Gate(), 0)
        change = decide(seen, NOW)
        self.recorded = self.recorded if change.in_flight is None else change.in_flight
        if first == "after":
            await self.proceed.wait()
        return {target: (seen, change)}


@pytest.mark.requirement("C8")
@pytest.mark.parametrize("slow", ["before", "after"])
async def test_the_recorded_count_equals_the_running_deliveries(slow: str) -> None:
    counter, x = Counter(4), 7
    gates = admission(counter, {x: "endpoint:x"}, concurrency=10)
    gates._guarded = {x}

    async def claim() -> None:
        for request in await gates.passing([ClaimRequest(5, x, NOW, 4)]):
            for _ in range(request.quota):
                gates.begin([x])
        gates.claimed()

    await claim()
    for _ in range(3):
        gates.end(x)
    counter.slow = slow
    # Slow before it is counted: the loop that records; after it: the claim.
    calls = (gates.tick, claim) if slow == "before" else (claim, gates.tick)
    tasks = []
    for call in calls:
        tasks.append(asyncio.create_task(call()))
        for _ in range(5):
            await asyncio.tasks.sleep(0)
    counter.proceed.set()
    await asyncio.gather(*tasks)
    await gates.tick()
    assert (counter.recorded, gates._here[x]) == (4, 4)


@pytest.mark.requirement("C8")
def test_a_hanging_target_keeps_an_eighth_and_an_answering_one_gets_half() -> None:
    x, y = 7, 8
    targets = {each: f"https://{each}.example.org" for each in (x, y)}
    gates = admission(Counter(0), targets, concurrency=80)
    for _ in range(10):
        gates.begin([x])
    assert (gates.room(x), gates.room(y)) == (0, 10)
    for _ in range(100):
        gates.begin([y])
        gates.begin([y])
        gates.end(y)
        if not gates.room(y):
            break
    assert gates._here[y] == 35, "half of what the hanging target leaves"
    for _ in range(35):
        gates.end(y)
    assert gates.room(y) == 35, "being idle does not reduce the share"
    failed = Settlement(1, 1, "d", Verdict.RETRY, 1, 1, 2, 5, reason=Reason.TIMEOUT_EXCEEDED)
    gates.note(y, failed)
    assert gates.room(y) == 10, "after a failure the share starts again"


@pytest.fixture
async def shared_cluster(postgres_url: str, clock: VirtualClock) -> Any:
    found = Cluster(postgres_url, clock)
    yield found
    await found.close()


WAITING = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and wait_event_type = 'Lock'"
)


async def until_a_lock_is_awaited(app: App) -> None:
    """Return once a transaction waits for another's lock."""
    database = app.store.database  # type: ignore[attr-defined]
    async with asyncio.timeout(30), database.shared() as connection:
        while not await connection.fetchval(WAITING):
            pass


@pytest.mark.requirement("F9")
async def test_resuming_and_disabling_an_endpoint_do_not_deadlock(
    shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = shared_cluster.app()
    await app.open()
    await app.endpoints.add("x", "https://example.org/")
    target = (await app.store.endpoints.get("x")).target
    gates, began, proceed = app.store.gates, asyncio.Event(), asyncio.Event()
    disable = gates._disable  # type: ignore[attr-defined]

    async def slow(*given: Any) -> None:
        began.set()
        await proceed.wait()
        await disable(*given)

    def failing(seen: SeenGate, now: datetime) -> GateChange:
        return GateChange(rules.failed(seen.gate, 5, now))

    def given_up(seen: SeenGate, now: datetime) -> GateChange:
        return GateChange(rules.failed(seen.gate, 1, now), None, "five days")

    await gates.revise(1, [target], failing)
    monkeypatch.setattr(gates, "_disable", slow)
    disabling = asyncio.create_task(gates.revise(1, [target], given_up))
    await began.wait()
    resuming = asyncio.create_task(app.endpoints.resume("x"))
    await until_a_lock_is_awaited(app)
    proceed.set()
    await asyncio.gather(disabling, resuming)
    assert (await app.endpoints.get("x")).state == "active"


@pytest.mark.requirement("D3")
async def test_a_deadlock_is_reported_as_store_unavailable(shared_cluster: Cluster) -> None:
    app = shared_cluster.app()
    await app.open()
    numbers = []
    for name in "xy":
        await app.endpoints.add(name, "https://example.org/")
        numbers.append((await app.store.endpoints.get(name)).target)
    both = asyncio.Barrier(2)

    async def lock(*targets: int) -> str:
        try:
            async with app.store.database.together() as session:  # type: ignore[attr-defined]
                await session.fetch_batch("gates.lock", columns={"target": [targets[0]]})
                await both.wait()
                await session.fetch_batch("gates.lock", columns={"target": [targets[1]]})
        except StoreUnavailable as error:
            return str(error)
        return "done"

    ends = await asyncio.gather(lock(*numbers), lock(*reversed(numbers)))
    assert sorted(each[:16] for each in ends) == ["done", "two transactions"]
