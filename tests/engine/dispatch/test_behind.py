"""What is claimed ahead for a host waits behind its own attempts, and takes no slot of others."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest

import duly
from duly.domain.deliveries.outcomes import Completed, Failed, Outcome
from duly.engine.execution.waiting import LONGEST_HOLD_SECONDS
from duly.records.reason import Reason
from tests.engine.cluster import Cluster, WorkerProcess, states
from tests.engine.dispatch.test_ahead import hasten, histories, settle
from tests.stores.store_probe import StoreProbe

pytestmark = [pytest.mark.requirement("D6", "C8")]
SLOTS = 8
HALF = 4
AHEAD = 10
HOST, OTHER = "https://a.example", "https://b.example"


class Hosts:
    """A transport whose attempts end as the test lets them; `work` is a handler."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, Any]] = []
        self.inside: Counter[str] = Counter()
        self.most_inside: Counter[str] = Counter()
        self._pass: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))
        self.outcome: Outcome = Completed("{}")

    def serves(self) -> list[str]:
        return ["work"]

    def reaches(self, _: str) -> bool:
        return True

    def plan(self, _target: str, _namespace: str) -> Any:
        return duly.delays(3600)

    async def attempt(self, execution: Any) -> Outcome:
        target = execution.target
        self.begun.append((target, execution.claimed.payload))
        self.inside[target] += 1
        self.most_inside[target] = max(self.most_inside[target], self.inside[target])
        try:
            await self._pass[target].acquire()
        finally:
            self.inside[target] -= 1
        return self.outcome

    def let_end(self, target: str, many: int) -> None:
        for _ in range(many):
            self._pass[target].release()


async def start(cluster: Cluster, hosts: Hosts, slots: int = SLOTS) -> WorkerProcess:
    app = cluster.app(concurrency=slots, lease=30)
    app.expect("work")
    await app.open()
    engine = app.engine(hosts, stepped=True)  # type: ignore[arg-type]
    await engine.prepare()
    return WorkerProcess(app, engine)


async def holding(cluster: Cluster, hosts: Hosts, many: int = 40) -> WorkerProcess:
    """A worker with as much ahead for a host as it may have."""
    process = await start(cluster, hosts)
    await process.app.deliver_many((duly.webhook(f"{HOST}/{n}"), n) for n in range(many))
    await process.engine.worker._work.survey()
    hasten(process, HOST)
    await process.tick()
    assert len(process.engine.worker.runner.behind) == AHEAD
    return process


async def test_as_an_attempt_ends_the_next_of_its_host_begins(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(any_cluster, hosts)
    runner = process.engine.worker.runner
    assert (runner.running, runner.held) == (HALF, 0)
    assert await states(process.app) == {"processing": HALF + AHEAD, "pending": 26}
    hosts.let_end(HOST, 3)
    await settle(process)
    assert (len(hosts.begun), len(runner.behind)) == (HALF + 3, AHEAD - 3)
    assert await states(process.app) == {"completed": 3, "processing": 11, "pending": 26}
    hosts.let_end(HOST, 99)
    for _ in range(20):
        await process.engine.worker.step()
    assert await states(process.app) == {"completed": 40}
    assert hosts.most_inside[HOST] == HALF
    assert len({payload for _, payload in hosts.begun}) == len(hosts.begun) == 40


async def test_it_claims_again_when_less_than_half_is_left(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(cluster, hosts)
    runner = process.engine.worker.runner
    for left in (9, 8, 7, 6, AHEAD):
        hosts.let_end(HOST, 1)
        await settle(process)
        await process.tick()
        assert len(runner.behind) == left
    assert hosts.most_inside[HOST] == HALF


async def test_others_find_free_slots_however_much_is_held(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(any_cluster, hosts)
    await process.app.deliver_many([("work", "h"), (duly.webhook(f"{OTHER}/"), "o")])
    await process.tick()
    assert hosts.inside == {HOST: HALF, OTHER: 1, "work": 1}


async def test_while_others_run_a_host_keeps_to_its_smaller_share(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(cluster, hosts)
    await process.app.deliver_many([(duly.webhook(f"{OTHER}/"), n) for n in range(4)])
    await process.tick()
    assert hosts.inside[OTHER] == 2
    hosts.let_end(HOST, 3)
    await settle(process)
    assert hosts.inside[HOST] == 3  # half of what the other leaves


async def test_what_waits_for_a_host_that_hangs_is_handed_back(any_cluster: Cluster) -> None:
    process = await holding(any_cluster, Hosts())
    worker = process.engine.worker
    any_cluster.clock.advance(LONGEST_HOLD_SECONDS - 0.01)
    await process.tick()
    assert len(worker.runner.behind) == AHEAD
    any_cluster.clock.advance(0.01)
    await worker.dispatcher.tick()
    assert not worker.runner.behind
    assert not worker.runner.behind.queues
    for _ in range(4):
        any_cluster.clock.advance(0.5)
        await process.tick()
        await worker.settler.flush()
    assert not worker.runner.behind
    assert await states(process.app) == {"processing": HALF, "pending": 36}
    assert await histories(process) == []
    admission = worker.admission
    assert list(admission._here.values()) == [admission._outgoing] == [HALF]
    assert admission._waiting.total() == admission._ended.total() == 0


async def test_a_failure_hands_back_what_waits_behind_it(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(any_cluster, hosts)
    hosts.outcome = Failed(Reason.DEPENDENCY_FAILURE, "it answered 503")
    hosts.let_end(HOST, 1)
    await settle(process)
    runner = process.engine.worker.runner
    assert not runner.behind
    assert len(hosts.begun) == HALF
    for _ in range(3):
        await process.tick()
        assert not runner.behind
    assert len(await histories(process)) == 1


async def test_a_refusal_that_says_nothing_about_the_host_leaves_the_rest(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(cluster, hosts)
    hosts.outcome = Failed(Reason.VALIDATION_FAILURE, "it answered 404", again=False, answer="{}")
    hosts.let_end(HOST, 1)
    await settle(process)
    assert len(process.engine.worker.runner.behind) == AHEAD - 1


async def test_an_urgent_one_goes_before_the_others_of_its_host(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(cluster, hosts)
    urgent = duly.webhook(f"{HOST}/now")
    await process.app.deliver(urgent, "urgent", priority=9)
    hosts.let_end(HOST, 5)
    await settle(process)
    await process.tick()
    hosts.let_end(HOST, 1)
    await settle(process)
    assert hosts.begun[-1] == (HOST, b'"urgent"')


async def test_priorities_of_one_host_share_what_is_ahead(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await start(any_cluster, hosts)
    for priority in (1, 2, 3):
        await process.app.deliver_many(
            {"target": duly.webhook(f"{HOST}/"), "payload": n, "priority": priority}
            for n in range(20)
        )
    await process.engine.worker._work.survey()
    hasten(process, HOST)
    for _ in range(3):
        await process.tick()
    assert 0 < len(process.engine.worker.runner.behind) <= AHEAD + HALF
    assert hosts.most_inside[HOST] == HALF


@pytest.mark.parametrize("kind", ["in_flight", "keys"])
async def test_nothing_waits_behind_a_host_with_limits(any_cluster: Cluster, kind: str) -> None:
    hosts = Hosts()
    process = await start(any_cluster, hosts)
    limits: dict[str, Any] = {
        "in_flight": {"in_flight": 99},
        "keys": {"limits": duly.per("customer", in_flight=99)},
    }[kind]
    await process.app.endpoints.add("billing", f"{HOST}/", **limits)
    key = {"limit_key": "k"} if kind == "keys" else {}
    await process.app.deliver_many(
        {"target": duly.endpoint("billing"), "payload": n, **key} for n in range(40)
    )
    await process.engine.worker._work.survey()
    hasten(process, "endpoint:billing")
    for _ in range(3):
        await process.tick()
        assert not process.engine.worker.runner.behind
    assert 0 < process.engine.worker.runner.running <= HALF


@pytest.mark.requirement("D7")
async def test_nothing_behind_starts_after_the_lease_ran_out(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(any_cluster, hosts)
    runner = process.engine.worker.runner
    any_cluster.clock.advance(30)
    hosts.let_end(HOST, 99)
    await process.yield_to_tasks()
    assert len(hosts.begun) == HALF
    assert len(runner.behind) == runner.running == 0


@pytest.mark.requirement("D13")
async def test_a_stop_hands_back_what_waits_before_it_waits_itself(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(any_cluster, hosts)
    worker = process.engine.worker
    stopping = asyncio.create_task(process.engine.stop())
    await process.yield_to_tasks()
    assert (len(worker.runner.behind), worker.runner.running) == (0, HALF)
    hosts.let_end(HOST, HALF)
    await stopping
    assert len(hosts.begun) == HALF
    assert await states(process.app) == {"completed": HALF, "pending": 36}


@pytest.mark.requirement("P5")
async def test_what_waits_behind_can_be_cancelled(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await holding(any_cluster, hosts)
    held = next(each for each in await process.app.list(limit=100) if each.payload == 11)
    await process.app.cancel(held.id)
    await process.engine.worker.running_monitor.tick()
    await process.engine.worker.settler.flush()
    assert (await process.app.get(held.id)).state == "cancelled"
    assert len(process.engine.worker.runner.behind) == AHEAD - 1
    hosts.let_end(HOST, 99)
    for _ in range(20):
        await process.engine.worker.step()
    assert b"11" not in {payload for _, payload in hosts.begun}


@pytest.mark.requirement("F3")
async def test_what_a_dead_worker_held_does_not_wait_behind_others(any_cluster: Cluster) -> None:
    hosts = Hosts()
    process = await start(any_cluster, hosts)
    await process.app.deliver_many((duly.webhook(f"{HOST}/"), n) for n in range(40))
    probe = StoreProbe(process.app.store, any_cluster.clock)  # type: ignore[arg-type]
    await probe.sql("update duly.agenda set crashes = 1")
    await process.engine.worker._work.survey()
    hasten(process, HOST)
    await process.tick()
    await process.tick()
    assert not process.engine.worker.runner.behind
    assert process.engine.worker.runner.running == HALF


async def test_all_that_a_larger_share_lets_start_begins_at_once(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await start(cluster, hosts)
    await process.app.deliver_many((duly.webhook(f"{OTHER}/"), n) for n in range(4))
    await process.tick()
    await process.app.deliver_many((duly.webhook(f"{HOST}/"), n) for n in range(9))
    await process.engine.worker._work.survey()
    hasten(process, HOST)
    await process.tick()
    assert hosts.inside == {OTHER: 4, HOST: 2}
    hosts.let_end(OTHER, 4)
    hosts.let_end(HOST, 1)
    await settle(process)
    assert hosts.inside[HOST] == HALF
    assert process.engine.worker.runner.running == HALF


async def test_fast_hosts_of_one_claim_share_the_slots(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await start(cluster, hosts, 32)
    names = [f"https://h{n}.example" for n in range(6)]
    for name in names:
        await process.app.deliver_many((duly.webhook(f"{name}/"), n) for n in range(40))
    await process.engine.worker._work.survey()
    hasten(process, *names, per_second=400)
    await process.engine.worker.dispatcher.tick()
    await process.yield_to_tasks()
    assert len(hosts.inside) == 6
    assert 16 <= hosts.inside.total() <= 32
    assert max(hosts.inside.values()) <= 5
    assert process.engine.worker.runner.behind


async def test_what_is_ahead_of_a_host_is_no_room_for_others(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await start(cluster, hosts)
    await process.app.deliver(duly.webhook(f"{HOST}/"), 1)
    for priority in range(1, 10):
        await process.app.deliver_many(
            {"target": "work", "payload": n, "priority": priority} for n in range(9)
        )
    worker = process.engine.worker
    await worker._work.survey()
    hasten(process, HOST, per_second=1000)
    await worker.dispatcher.tick()
    await process.yield_to_tasks()
    assert worker.runner.running == HALF
    for _ in range(3):
        await worker.dispatcher.tick()
        assert worker.runner.held == 0


async def test_a_slow_host_has_nothing_ahead(cluster: Cluster) -> None:
    hosts = Hosts()
    process = await start(cluster, hosts)
    await process.app.deliver_many((duly.webhook(f"{HOST}/"), n) for n in range(20))
    await process.tick()
    hasten(process, HOST, per_second=20)  # four at once: each takes 0.2 s
    await process.tick()
    assert not process.engine.worker.runner.behind


@pytest.mark.requirement("D6", "P6")
async def test_no_delivery_is_claimed_twice_in_one_claim(any_cluster: Cluster) -> None:
    """Lanes with and without keys are claimed by several statements, in any order."""
    hosts = Hosts()
    process = await start(any_cluster, hosts, 32)
    app = process.app
    await app.endpoints.add("billing", f"{HOST}/", limits=duly.per("customer", in_flight=99))
    for n in (0, 1, 2, 3, 4):
        if n == 2:
            await app.deliver_many(
                {"target": duly.endpoint("billing"), "payload": n, "limit_key": "k"}
                for n in range(5)
            )
        await app.deliver_many((duly.webhook(f"https://h{n}.example/"), n) for n in range(5))
    for _ in range(3):
        await process.tick()
    assert hosts.inside.total() == len(process.engine.worker.runner._running)
    hosts.outcome = Completed("{}")
    for target in list(hosts.inside):
        hosts.let_end(target, 99)
    for _ in range(10):
        await process.engine.worker.step()
    assert await states(app) == {"completed": 30}
    assert len(hosts.begun) == 30
