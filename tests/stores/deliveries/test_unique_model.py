"""Any operations on deliveries with a unique key have the result that a small model has."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly.domain.deliveries.delivery import Claimed, PreparedDelivery
from duly.domain.deliveries.outcomes import Verdict
from duly.domain.streams.stream import NEVER
from duly.errors import Conflict
from duly.records.delivery import Accepted
from duly.stores.deliveries.maintenance import BEGINNING
from duly.testing import VirtualClock
from tests.stores.deliveries.unique_model import Item, UniqueModel
from tests.stores.store_probe import (
    START,
    StoreProbe,
    number_id,
    open_probe,
    settlement,
)

pytestmark = [pytest.mark.requirement("P7"), pytest.mark.long]

EXAMPLES = itertools.count()
IDS = map(number_id, itertools.count(1))
RETRY_SECONDS = 90.5
MANY = "many"
policies = st.sampled_from(["keep", "replace", "postpone"])
requests = st.tuples(policies, st.sampled_from([0, 5, 20]), st.sampled_from([None, 20, 30]))
operations = st.one_of(
    st.tuples(
        st.sampled_from(["plain", "plain", "transaction", "connection", MANY]),
        st.lists(requests, min_size=1, max_size=4),
    ),
    st.tuples(st.just("claim"), st.none()),
    st.tuples(
        st.just("settle"),
        st.sampled_from(["completed", "dead", "retry", "released", "deferred", "cancelled"]),
    ),
    st.tuples(st.sampled_from(["release", "die", "retry", "cancel", "wait"]), st.none()),
)


class Compared:
    """Deliveries with one key in a store, and their model."""

    def __init__(self, probe: StoreProbe, url: str) -> None:
        self._probe = probe
        self._url = url
        self._model = UniqueModel()
        self._ids: list[str] = []
        self._payloads = itertools.count()
        self._worker = 0
        self._held: Claimed | None = None

    async def begin(self) -> None:
        """Register the first worker."""
        self._worker = await self._probe.worker()
        await self._probe.target()

    async def do(self, operation: str, argument: Any) -> None:
        """Do one operation on both, and compare them."""
        match operation:
            case "plain" | "transaction" | "connection":
                for each in argument:
                    await self._accept(operation, [each])
            case "many":
                await self._accept(operation, argument)
            case "claim":
                await self._claim()
            case "settle":
                await self._settle(Verdict(argument))
            case "release":
                await self._release()
            case "die":
                await self._die()
            case "retry":
                await self._retry()
            case "cancel":
                await self._cancel()
            case "wait":
                self._advance(25.0)
        self._advance(1.0)
        await self.compare()

    def _advance(self, seconds: float) -> None:
        self._probe.clock.advance(seconds)
        self._model.now += seconds

    async def _accept(self, how: str, wanted: list[tuple[str, float, float | None]]) -> None:
        given, expected = [], []
        for policy, after, latest in wanted:
            payload = next(self._payloads)
            limit = latest if policy == "postpone" else None
            given.append(
                self._probe.request(
                    id=next(IDS),
                    payload=b"%d" % payload,
                    after=float(after),
                    unique_key="k",
                    on_duplicate=policy,
                    latest=limit,
                )
            )
            expected.append(self._model.accept(payload, policy, after, limit).n)
        answers = await getattr(self, f"_by_{how}")(given)
        for request, answer, n in zip(given, answers, expected, strict=True):
            if n == len(self._ids):
                self._ids.append(answer.id)
            assert (answer.id, answer.known) == (self._ids[n], request.id != self._ids[n])

    async def _by_plain(self, given: list[PreparedDelivery]) -> Any:
        return await self._probe.store.deliveries.accept(given)

    async def _by_many(self, given: list[PreparedDelivery]) -> list[Accepted]:
        async def chunks() -> Any:
            for each in given:
                yield [each]

        return await self._probe.store.deliveries.accept_all(chunks())

    async def _by_transaction(self, given: list[PreparedDelivery]) -> list[Accepted]:
        async with self._probe.store.transaction() as transaction:
            return [await self._probe.store.outbox.enlist(transaction, each) for each in given]

    async def _by_connection(self, given: list[PreparedDelivery]) -> list[Accepted]:
        if not self._url.startswith("postgres"):
            return await self._by_transaction(given)
        connection = await asyncpg.connect(self._url)
        try:
            outbox = self._probe.store.outbox
            return [await outbox.hand_over(connection, each, is_expected=True) for each in given]
        finally:
            await connection.close()

    async def _claim(self) -> None:
        expected = self._model.claim()
        found = await self._probe.claim(self._worker)
        assert [each.id for each in found] == ([] if expected is None else [self._id(expected)])
        if expected is not None:
            assert (found[0].unique_key, found[0].payload) == ("k", b"%d" % expected.payload)
            self._held = found[0]

    def _id(self, item: Item) -> str:
        return self._ids[item.n]

    async def _settle(self, verdict: Verdict) -> None:
        if self._held is None:
            return
        wait = 7.0 if verdict is Verdict.DEFERRED else RETRY_SECONDS
        is_kept = verdict in (Verdict.RETRY, Verdict.RELEASED, Verdict.DEFERRED)
        changes = {"wait": wait} if verdict in (Verdict.RETRY, Verdict.DEFERRED) else {}
        now = self._probe.clock.now()
        settled = settlement(self._held, verdict, now, **changes)
        if not is_kept:
            settled.attempt = self._held.attempt + 1
        assert await self._probe.settle(settled) == {self._held.lane}
        self._held = None
        if is_kept:
            self._model.put_back(wait=changes.get("wait"), spends=verdict is Verdict.RETRY)
        else:
            self._model.end(verdict.value)

    async def _release(self) -> None:
        if self._held is None:
            return
        assert await self._probe.store.agenda.release(self._held.token) == 1
        self._held = None
        self._model.put_back(wait=None, spends=False)

    async def _die(self) -> None:
        survivor = await self._probe.worker()
        assert await self._probe.store.workers.declare_dead(survivor=survivor)
        self._worker = survivor
        for each in await self._probe.store.agenda.held_by_dead(10_000):
            if each.id not in self._ids:
                continue  # of an earlier example
            now = self._probe.clock.now()
            await self._probe.settle(settlement(each, Verdict.RECLAIMED, now, started_us=None))
            self._model.put_back(wait=None, spends=False)
        self._held = None

    async def _retry(self) -> None:
        dead = [each for each in self._model.items if each.state == "dead"]
        if not dead:
            return
        item = dead[-1]
        if self._model.retry(item):
            await self._probe.store.deliveries.retry(self._id(item))
        else:
            with pytest.raises(Conflict, match="same unique key waits"):
                await self._probe.store.deliveries.retry(self._id(item))

    async def _cancel(self) -> None:
        waits = self._model.only("waiting")
        if waits is not None:
            await self._probe.store.deliveries.cancel(self._id(waits))
            waits.state = "cancelled"

    async def compare(self) -> None:
        """Each delivery and its lane are as in the model; so at most one waits and one runs."""
        runs = self._model.only("running")
        assert len(self._ids) == len(self._model.items)
        for item in self._model.items:
            found = await self._probe.ledger(self._id(item))
            lane = await self._probe.lane(self._id(item))
            is_pending = item.state in ("waiting", "running")
            assert found["state"] == ("pending" if is_pending else item.state)
            assert (found["reason"] == "superseded") is item.superseded
            assert (lane is not None) is is_pending
            facts = (int(found["payload"]), found["attempt"], found["replaced"] or 0)
            assert facts == (item.payload, item.attempt, item.replaced)
            assert found["due_at"] == self._moment(item.due)
            if lane is not None:
                assert (lane["token"] is None) is (item.state == "waiting")
                is_shut = item.state == "waiting" and runs is not None
                assert lane["due_at"] == (NEVER if is_shut else self._moment(item.lane))

    def _moment(self, seconds: float) -> Any:
        return START + timedelta(seconds=seconds)

    async def end(self) -> None:
        """The sweep changes nothing, and forgets the key if no delivery has it any more."""
        await self._probe.store.maintenance.sweep(BEGINNING, 1_000_000)
        await self.compare()
        target = await self._probe.target()
        rows = await self._probe.sql(f"select * from duly.unique_keys where target = {target}")
        is_used = self._model.only("waiting") or self._model.only("running")
        assert bool(rows) is bool(is_used)


async def follow(url: str, steps: list[tuple[str, Any]]) -> None:
    """Compare a new namespace with its model, step by step."""
    probe = await open_probe(url, VirtualClock(START), f"example{next(EXAMPLES)}")
    try:
        compared = Compared(probe, url)
        await compared.begin()
        for operation, argument in steps:
            await compared.do(operation, argument)
        await compared.end()
    finally:
        await probe.store.close()


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(operations, max_size=25))
def test_any_operations_have_the_result_of_the_model(
    database_url: str, steps: list[tuple[str, Any]]
) -> None:
    asyncio.run(follow(database_url, steps))
