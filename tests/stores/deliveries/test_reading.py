"""Reading the ledger: one delivery, pages, late deliveries, stuck deliveries."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.domain.endpoints.endpoint import Details, StoredEndpoint
from duly.ports import Filter
from duly.records.delivery import Delivery
from duly.records.endpoint import EndpointState
from duly.records.state import State
from tests.stores.store_probe import START, StoreProbe, number_id, settlement

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


async def page(probe: StoreProbe, **wanted: Any) -> list[str]:
    return [each.id for each in (await probe.store.deliveries.page(Filter(**wanted)))[0]]


@pytest.mark.requirement("D11")
async def test_one_delivery_is_shown_with_all_its_fields(probe: StoreProbe) -> None:
    worker = await probe.worker()
    claimed = await probe.claimed(
        worker,
        due_at=START - MINUTE,
        expires_at=START + 2 * MINUTE,
        key="k",
        tags=("a", "é"),
        payload=b"[1, 2]",
        priority=3,
    )
    written = settlement(claimed, Verdict.RETRY, START, crashes=1)
    await probe.settle(written)
    found = await probe.store.deliveries.get(claimed.id)
    assert found == Delivery(
        id=claimed.id,
        namespace="default",
        target="mail",
        state=State.PENDING,
        priority=3,
        attempt=1,
        due_at=START - MINUTE,
        accepted_at=START,
        next_at=START + 90.5 * SECOND,
        claimed_at=None,
        started_at=written.started_at,
        late_seconds=61.000001,
        finished_at=None,
        expires_at=START + 2 * MINUTE,
        key="k",
        tags=["a", "é"],
        reason="the reason of retry",
        error="the error of retry",
        crashes=1,
        worker=worker,
        payload_json=msgspec.Raw(b"[1, 2]"),
    )
    assert found.late_by == MINUTE + SECOND + timedelta(microseconds=1)


async def test_a_page_is_filtered_by_every_field_alone_and_together(probe: StoreProbe) -> None:
    red = await probe.deliver(tags=("red", "hot"), key="k1")
    blue = await probe.deliver(tags=("blue",), target="sms", key="k2", due_at=START + MINUTE)
    bare = await probe.deliver(due_at=START + MINUTE)
    held = await probe.claim(await probe.worker())
    assert [each.id for each in held] == [red]
    assert await page(probe) == [bare, blue, red]
    assert await page(probe, tag="red") == await page(probe, tag="hot") == [red]
    assert await page(probe, tag="re") == []
    assert await page(probe, target="sms") == [blue]
    assert await page(probe, key="k2") == [blue]
    assert await page(probe, state=State.PROCESSING) == [red]
    assert await page(probe, state=State.PENDING) == [bare, blue]
    assert await page(probe, state=State.PENDING, tag="blue", target="sms", key="k2") == [blue]
    assert await page(probe, state=State.PENDING, tag="red") == []


@pytest.mark.parametrize("verdict", [Verdict.COMPLETED, Verdict.DEAD, Verdict.EXPIRED])
async def test_a_page_finds_finished_deliveries_by_state(
    probe: StoreProbe, verdict: Verdict
) -> None:
    await probe.deliver(due_at=START + MINUTE)
    id = await probe.finished(verdict)
    state = {"completed": "completed", "dead": "dead", "expired": "cancelled"}[verdict]
    assert await page(probe, state=State(state)) == [id]


async def test_pages_have_no_gaps_and_no_repetitions(probe: StoreProbe) -> None:
    ids = [await probe.deliver(tags=("odd",) if n % 2 else ("even",)) for n in range(11)]
    seen: list[str] = []
    before = None
    while found := await page(probe, before=before, limit=4):
        assert len(found) <= 4
        seen += found
        before = found[-1]
        await probe.deliver()  # newer ones do not shift the pages
    assert seen == ids[::-1]
    assert await page(probe, before=ids[6], tag="odd", limit=2) == [ids[5], ids[3]]
    assert await page(probe, before=number_id(0)) == []


async def test_a_page_is_filled_from_rows_that_are_far_down(probe: StoreProbe) -> None:
    wanted = [await probe.deliver(tags=("rare",)) for _ in range(2)]
    for _ in range(20):
        await probe.deliver()
    assert await page(probe, tag="rare", limit=2) == wanted[::-1]
    assert await page(probe, tag="rare", limit=3) == wanted[::-1]


@pytest.mark.requirement("D11")
async def test_late_are_unheld_deliveries_beyond_the_grace_oldest_first(probe: StoreProbe) -> None:
    await probe.claimed(due_at=START - 90 * MINUTE)
    old = await probe.deliver(due_at=START - 70 * MINUTE, priority=1)
    older = await probe.deliver(due_at=START - 80 * MINUTE, target="sms")
    recent = await probe.deliver(due_at=START - MINUTE)
    await probe.deliver(due_at=START + MINUTE)

    async def late(grace: timedelta, limit: int = 9) -> list[str]:
        return [each.id for each in await probe.store.deliveries.late(grace, limit)]

    assert await late(timedelta(hours=1)) == [older, old]
    assert await late(timedelta(0)) == [older, old, recent]
    assert await late(timedelta(0), 1) == [older]
    assert await late(MINUTE) == [older, old]


async def test_a_retry_that_waits_is_not_late(probe: StoreProbe) -> None:
    claimed = await probe.claimed(due_at=START - 90 * MINUTE)
    await probe.settle(settlement(claimed, Verdict.RETRY, START))
    assert await probe.store.deliveries.late(timedelta(0), 9) == []


async def test_stuck_shows_which_deliveries_cannot_proceed_and_why(probe: StoreProbe) -> None:
    alive = await probe.store.workers.register("a", 5000, 9, ["mail"])
    dead = await probe.store.workers.register("b", 5, 9, ["mail", "gone"])
    long_held = await probe.claimed(alive)
    orphan = await probe.claimed(dead)
    unserved = await probe.deliver(target="gone")
    crashed = await probe.claimed(alive)
    await probe.settle(settlement(crashed, Verdict.RECLAIMED, START, crashes=2, priority=0))
    served = await probe.deliver()
    probe.clock.advance(600)
    await probe.store.workers.beat(alive)
    await probe.claimed(alive)
    found = await probe.store.deliveries.stuck(timedelta(minutes=5), 99)
    stuck = {each.id: each.why for each in found}
    assert stuck.keys() == {long_held.id, orphan.id, unserved, crashed.id}
    assert f"worker {alive} has been running it since" in stuck[long_held.id]
    assert f"worker {dead} that holds it is dead" in stuck[orphan.id]
    assert stuck[unserved] == "no worker alive has the handler 'gone'"
    assert "its worker died 2 times" in stuck[crashed.id]
    assert served not in stuck


async def test_a_backlog_does_not_hide_what_is_stuck(probe: StoreProbe) -> None:
    await probe.worker()
    for _ in range(6):
        await probe.deliver(due_at=START - MINUTE)
    unserved = await probe.deliver(target="gone", due_at=START - SECOND)
    (found,) = await probe.store.deliveries.stuck(timedelta(minutes=5), 3)
    assert found.id == unserved


@pytest.mark.requirement("C8")
async def test_deliveries_of_a_closed_endpoint_are_stuck_with_the_reason(probe: StoreProbe) -> None:
    await probe.worker()
    names = ("open", "paused", "disabled", "removed")
    ids = {name: await probe.deliver(target=f"endpoint:{name}") for name in names}
    for name in names[:3]:
        await add_endpoint(probe, name, EndpointState.ACTIVE if name == "open" else name)
    probe.clock.advance(1)
    found = await probe.store.deliveries.stuck(timedelta(minutes=5), 99)
    stuck = {each.id: each.why for each in found}
    assert stuck == {
        ids["paused"]: "endpoint paused is paused since 2026-03-01 12:00:00Z (a test); "
        "duly endpoints resume paused",
        ids["disabled"]: "endpoint disabled is disabled since 2026-03-01 12:00:00Z (a test); "
        "duly endpoints resume disabled",
        ids["removed"]: "endpoint removed no longer exists; add it again: "
        "duly endpoints add removed URL",
    }


async def test_without_a_worker_all_outgoing_deliveries_are_stuck(probe: StoreProbe) -> None:
    await add_endpoint(probe, "open", EndpointState.ACTIVE)
    for target in ("endpoint:open", "https://example.org"):
        await probe.deliver(target=target)
    probe.clock.advance(1)
    found = await probe.store.deliveries.stuck(timedelta(minutes=5), 99)
    assert [each.why for each in found] == [
        "no worker that is alive works for namespace 'default'; start one: "
        "duly serve --namespaces default"
    ] * 2


async def test_waiting_and_processing_deliveries_are_counted_separately(probe: StoreProbe) -> None:
    for target, many in (("mail", 3), ("other", 2)):
        for _ in range(many):
            await probe.deliver(target=target)
    mail, other, idle = [await probe.target(name) for name in ("mail", "other", "idle")]
    assert len(await probe.claim(await probe.worker(), 1)) == 1
    counts = await probe.store.endpoints.waiting([mail, other, idle])
    assert counts == {mail: (2, 1), other: (2, 0), idle: (0, 0)}
    assert await probe.store.endpoints.waiting([]) == {}


async def add_endpoint(probe: StoreProbe, name: str, state: str) -> None:
    def decide(before: StoredEndpoint | None, now: datetime) -> StoredEndpoint:
        return StoredEndpoint(
            name=name,
            target=0,
            details=Details(url="https://example.org/hook"),
            state=EndpointState(state),
            state_reason="a test",
            state_at=START,
            created_at=START,
            version=1,
        )

    await probe.store.endpoints.revise(name, decide, "test", "added")
