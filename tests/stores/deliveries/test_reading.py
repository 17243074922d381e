"""Reading the ledger: one, a page, what is late, what is stuck."""

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
from tests.stores.books import START, Books, number_id, settlement

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


async def page(books: Books, **wanted: Any) -> list[str]:
    return [each.id for each in (await books.store.deliveries.page(Filter(**wanted)))[0]]


@pytest.mark.requirement("D11")
async def test_one_delivery_is_shown_with_all_its_facts(books: Books) -> None:
    worker = await books.worker()
    claimed = await books.claimed(
        worker,
        due_at=START - MINUTE,
        expires_at=START + 2 * MINUTE,
        key="k",
        tags=("a", "é"),
        payload=b"[1, 2]",
        priority=3,
    )
    written = settlement(claimed, Verdict.RETRY, START, crashes=1)
    await books.settle(written)
    found = await books.store.deliveries.get(claimed.id)
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


async def test_a_page_is_filtered_by_every_field_alone_and_together(books: Books) -> None:
    red = await books.deliver(tags=("red", "hot"), key="k1")
    blue = await books.deliver(tags=("blue",), target="sms", key="k2", due_at=START + MINUTE)
    bare = await books.deliver(due_at=START + MINUTE)
    held = await books.claim(await books.worker())
    assert [each.id for each in held] == [red]
    assert await page(books) == [bare, blue, red]
    assert await page(books, tag="red") == await page(books, tag="hot") == [red]
    assert await page(books, tag="re") == []
    assert await page(books, target="sms") == [blue]
    assert await page(books, key="k2") == [blue]
    assert await page(books, state=State.PROCESSING) == [red]
    assert await page(books, state=State.PENDING) == [bare, blue]
    assert await page(books, state=State.PENDING, tag="blue", target="sms", key="k2") == [blue]
    assert await page(books, state=State.PENDING, tag="red") == []


@pytest.mark.parametrize("verdict", [Verdict.COMPLETED, Verdict.DEAD, Verdict.EXPIRED])
async def test_a_page_finds_what_is_finished_by_its_state(books: Books, verdict: Verdict) -> None:
    await books.deliver(due_at=START + MINUTE)
    id = await books.finished(verdict)
    state = {"completed": "completed", "dead": "dead", "expired": "cancelled"}[verdict]
    assert await page(books, state=State(state)) == [id]


async def test_pages_follow_each_other_without_gap_or_repetition(books: Books) -> None:
    ids = [await books.deliver(tags=("odd",) if n % 2 else ("even",)) for n in range(11)]
    seen: list[str] = []
    before = None
    while found := await page(books, before=before, limit=4):
        assert len(found) <= 4
        seen += found
        before = found[-1]
        await books.deliver()  # newer ones do not shift the pages
    assert seen == ids[::-1]
    assert await page(books, before=ids[6], tag="odd", limit=2) == [ids[5], ids[3]]
    assert await page(books, before=number_id(0)) == []


@pytest.mark.requirement("D11")
async def test_late_is_what_nobody_holds_beyond_the_grace_oldest_first(books: Books) -> None:
    await books.claimed(due_at=START - 90 * MINUTE)
    old = await books.deliver(due_at=START - 70 * MINUTE, priority=1)
    older = await books.deliver(due_at=START - 80 * MINUTE, target="sms")
    recent = await books.deliver(due_at=START - MINUTE)
    await books.deliver(due_at=START + MINUTE)

    async def late(grace: timedelta, limit: int = 9) -> list[str]:
        return [each.id for each in await books.store.deliveries.late(grace, limit)]

    assert await late(timedelta(hours=1)) == [older, old]
    assert await late(timedelta(0)) == [older, old, recent]
    assert await late(timedelta(0), 1) == [older]
    assert await late(MINUTE) == [older, old]


async def test_a_retry_that_waits_is_not_late(books: Books) -> None:
    claimed = await books.claimed(due_at=START - 90 * MINUTE)
    await books.settle(settlement(claimed, Verdict.RETRY, START))
    assert await books.store.deliveries.late(timedelta(0), 9) == []


async def test_stuck_tells_what_will_not_move_and_why(books: Books) -> None:
    alive = await books.store.workers.register("a", 5000, 9, ["mail"])
    dead = await books.store.workers.register("b", 5, 9, ["mail", "gone"])
    long_held = await books.claimed(alive)
    orphan = await books.claimed(dead)
    unserved = await books.deliver(target="gone")
    crashed = await books.claimed(alive)
    await books.settle(settlement(crashed, Verdict.RECLAIMED, START, crashes=2, priority=0))
    served = await books.deliver()
    books.clock.advance(600)
    await books.store.workers.beat(alive)
    await books.claimed(alive)
    found = await books.store.deliveries.stuck(timedelta(minutes=5), 99)
    stuck = {each.id: each.why for each in found}
    assert stuck.keys() == {long_held.id, orphan.id, unserved, crashed.id}
    assert f"worker {alive} has been running it since" in stuck[long_held.id]
    assert f"worker {dead} that holds it is dead" in stuck[orphan.id]
    assert stuck[unserved] == "no worker alive has the handler 'gone'"
    assert "its worker died 2 times" in stuck[crashed.id]
    assert served not in stuck


async def test_a_backlog_does_not_hide_what_is_stuck(books: Books) -> None:
    await books.worker()
    for _ in range(6):
        await books.deliver(due_at=START - MINUTE)
    unserved = await books.deliver(target="gone", due_at=START - SECOND)
    (found,) = await books.store.deliveries.stuck(timedelta(minutes=5), 3)
    assert found.id == unserved


@pytest.mark.requirement("C8")
async def test_what_a_shut_endpoint_keeps_waiting_is_stuck_and_says_why(books: Books) -> None:
    await books.worker()
    names = ("open", "paused", "disabled", "removed")
    ids = {name: await books.deliver(target=f"endpoint:{name}") for name in names}
    for name in names[:3]:
        await add_endpoint(books, name, EndpointState.ACTIVE if name == "open" else name)
    books.clock.advance(1)
    found = await books.store.deliveries.stuck(timedelta(minutes=5), 99)
    stuck = {each.id: each.why for each in found}
    assert stuck == {
        ids["paused"]: "endpoint paused is paused since 2026-03-01 12:00:00Z (so it is); "
        "duly endpoints resume paused",
        ids["disabled"]: "endpoint disabled is disabled since 2026-03-01 12:00:00Z (so it is); "
        "duly endpoints resume disabled",
        ids["removed"]: "endpoint removed no longer exists; add it again: "
        "duly endpoints add removed URL",
    }


async def test_without_a_worker_everything_that_goes_outside_is_stuck(books: Books) -> None:
    await add_endpoint(books, "open", EndpointState.ACTIVE)
    for target in ("endpoint:open", "https://example.org"):
        await books.deliver(target=target)
    books.clock.advance(1)
    found = await books.store.deliveries.stuck(timedelta(minutes=5), 99)
    assert [each.why for each in found] == [
        "no worker that is alive works for namespace 'default'; start one: "
        "duly serve --namespaces default"
    ] * 2


async def test_what_waits_for_targets_is_counted_apart_from_what_is_under_way(books: Books) -> None:
    for target, many in (("mail", 3), ("other", 2)):
        for _ in range(many):
            await books.deliver(target=target)
    mail, other, idle = [await books.target(name) for name in ("mail", "other", "idle")]
    assert len(await books.claim(await books.worker(), 1)) == 1
    counts = await books.store.endpoints.waiting([mail, other, idle])
    assert counts == {mail: (2, 1), other: (2, 0), idle: (0, 0)}
    assert await books.store.endpoints.waiting([]) == {}


async def add_endpoint(books: Books, name: str, state: str) -> None:
    def decide(before: StoredEndpoint | None, now: datetime) -> StoredEndpoint:
        return StoredEndpoint(
            name=name,
            target=0,
            details=Details(url="https://example.org/hook"),
            state=EndpointState(state),
            state_reason="so it is",
            state_at=START,
            created_at=START,
            version=1,
        )

    await books.store.endpoints.revise(name, decide, "test", "added")
