"""Selected deliveries released from behind a failed head, while the others stay in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from duly import Conflict, InvalidInput, NotFound
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import NAME, Work, blocked, idle, paused, retrying, running, until_set
from tests.services.work import waiting as not_due

pytestmark = pytest.mark.requirement("L4")
MINUTE = 60.0
UNKNOWN = "00000000-0000-7000-8000-000000000000"
State = Callable[[Work], Awaitable[list[str]]]


async def behind(work: Work, state: State) -> list[str]:
    """A stream with a failed head and three behind it."""
    return [*await state(work), *await work.add("d")]


async def positions(work: Work) -> dict[str, int | None]:
    return {each.payload: each.position for each in await work.app.deliveries.list(stream=NAME)}


@pytest.mark.parametrize("state", [retrying, blocked])
@pytest.mark.parametrize("field", ["only", "keep"])
async def test_the_released_run_now_and_the_kept_stay_in_order_behind_the_head(
    work: Work, state: State, field: str
) -> None:
    ids = await behind(work, state)
    before = await positions(work)
    chosen = [ids[2]] if field == "only" else [ids[1], ids[3]]
    stream = await work.app.streams.release(NAME, **{field: chosen})
    assert stream.head is not None
    assert (stream.head.id, stream.waiting) == (ids[0], 2)
    assert stream.state == ("retrying" if state is retrying else "blocked")
    assert await run_until_idle(work.app) == 1
    assert work.seen == ["a", "c"]
    await work.app.streams.retry_now(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["a", "c", "a", "b", "d"]
    assert await positions(work) == before
    assert (await work.app.streams.get(NAME)).waiting == 0


@pytest.mark.parametrize("state", [retrying, blocked])
async def test_everything_can_be_released_while_the_head_stays(work: Work, state: State) -> None:
    ids = await state(work)
    stream = await work.app.streams.release(NAME, only=ids[1:])
    assert (stream.waiting, stream.head and stream.head.id) == (0, ids[0])
    await work.add("d")
    await run_until_idle(work.app)
    assert sorted(work.seen) == ["a", "b", "c"], "what is accepted later waits for the head"
    await work.app.streams.retry_now(NAME)
    await run_until_idle(work.app)
    assert work.seen[3:] == ["a", "d"]


async def test_a_released_delivery_keeps_its_due_time(work: Work, clock: VirtualClock) -> None:
    ids = [*await blocked(work), *await work.add("d", after=MINUTE)]
    await work.app.streams.release(NAME, only=[ids[3]])
    assert (await work.app.get(ids[3])).next_at == clock.now() + timedelta(minutes=1)
    assert await run_until_idle(work.app) == 0
    clock.advance(MINUTE)
    await run_until_idle(work.app)
    assert work.seen == ["a", "d"]


async def test_a_released_delivery_that_fails_blocks_nobody_and_is_retried_by_itself(
    work: Work,
) -> None:
    ids = await behind(work, blocked)
    work.fails("c")
    await work.app.streams.release(NAME, only=[ids[2]])
    await run_until_idle(work.app)
    stream = await work.stream()
    assert (stream.state, stream.head and stream.head.id, stream.waiting) == ("blocked", ids[0], 2)
    assert (await work.app.get(ids[2])).attempt == 1
    await work.app.streams.retry_now(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["a", "c", "a", "b", "d"]
    await run_until_idle(work.app, within=2 * MINUTE)
    assert work.seen[5:] == ["c"]


async def test_a_released_delivery_that_dies_returns_to_its_position_when_retried(
    work: Work,
) -> None:
    ids = await behind(work, blocked)
    work.dies("c")
    await work.app.streams.release(NAME, only=[ids[2]])
    await run_until_idle(work.app)
    assert await work.states(ids[2]) == ["dead"]
    await work.app.retry(ids[2])
    assert (await work.stream()).waiting == 3
    await work.app.streams.retry_now(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["a", "c", "a", "b", "c", "d"]


async def test_a_released_delivery_can_be_cancelled(work: Work) -> None:
    ids = [*await blocked(work), *await work.add("d", after=MINUTE)]
    await work.app.streams.release(NAME, only=[ids[3]])
    assert (await work.app.cancel(ids[3])).state == "cancelled"
    await run_until_idle(work.app, within=2 * MINUTE)
    assert work.seen == ["a"]


async def test_deliveries_that_were_put_back_before_the_head_can_be_released(work: Work) -> None:
    work.dies("a")
    ids = await work.add("a", on_failure="release")
    await run_until_idle(work.app)
    ids += await blocked_by_b(work)
    await work.app.retry(ids[0])
    assert (await work.stream()).waiting == 2
    await work.app.streams.release(NAME, only=[ids[0]])
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "a"]
    await work.app.streams.retry_now(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "a", "b", "c"]


async def blocked_by_b(work: Work) -> list[str]:
    work.dies("b")
    ids = await work.add("b", "c")
    await run_until_idle(work.app)
    return ids


@pytest.mark.parametrize("state", [idle, not_due, paused])
@pytest.mark.parametrize("field", ["only", "keep"])
async def test_it_is_refused_while_the_head_has_not_failed(
    work: Work, state: State, field: str
) -> None:
    ids = await state(work)
    before = await work.stream()
    with pytest.raises(Conflict, match="only while its head is dead or waits for its retry"):
        await work.app.streams.release(NAME, **{field: ids[-1:]})
    assert await work.stream() == before


async def test_it_is_refused_while_the_head_runs(live: Work) -> None:
    proceed = live.waits("a")
    ids = await live.add("a", "b")
    async with running(live.app):
        await until_set(live.began["a"])
        with pytest.raises(Conflict, match="'team:7' is running"):
            await live.app.streams.release(NAME, only=[ids[1]])
        proceed.set()
        await live.until(ids[1], "completed")


async def test_a_stream_that_does_not_exist_is_not_found(work: Work) -> None:
    with pytest.raises(NotFound):
        await work.app.streams.release("unknown", only=[UNKNOWN])


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("both", {"only": ["b"], "keep": ["c"]}, "keep", "not both"),
    ("none", {"only": []}, "only", "give 1 to 1000"),
    ("none kept", {"keep": []}, "keep", "give 1 to 1000"),
    ("no list", {"only": "b"}, "only", "give a list"),
    ("no id", {"keep": ["?"]}, "keep", "no delivery id"),
    ("head", {"only": ["b", "a"]}, "only", "is the head"),
    ("head kept", {"keep": ["a"]}, "keep", "is the head"),
    ("of no stream", {"only": ["b", "unordered"]}, "only", "does not wait in stream 'team:7'"),
    ("of another stream", {"keep": ["elsewhere"]}, "keep", "does not wait in stream"),
    ("unknown", {"only": ["unknown"]}, "only", "does not wait in stream"),
    ("completed", {"only": ["done"]}, "only", "does not wait in stream"),
    ("all kept", {"keep": ["b", "c"]}, "keep", "nothing else waits"),
    ("too many", {"only": ["many"]}, "only", "it has 1001 ids"),
]


@pytest.mark.parametrize(
    ("given", "field", "why"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
async def test_a_wrong_selection_is_refused_and_changes_nothing(
    work: Work, given: dict[str, Any], field: str, why: str
) -> None:
    done = await idle(work)
    work.seen.clear()
    ids = await blocked(work)
    named = dict(zip("abc", ids, strict=True)) | {
        "done": done[0],
        "unordered": (await work.app.deliver("work", "u", after=MINUTE)).id,
        "elsewhere": (await work.add("e", stream="other", after=MINUTE))[0],
        "unknown": UNKNOWN,
        "?": "?",
    }
    many = [f"00000000-0000-7000-8000-{n:012}" for n in range(1001)]
    chosen = {
        name: many
        if value == ["many"]
        else [named[each] for each in value]
        if isinstance(value, list)
        else value
        for name, value in given.items()
    }
    with pytest.raises(InvalidInput, match=why) as refused:
        await work.app.streams.release(NAME, **chosen)
    assert refused.value.field == field
    assert (await work.stream()).waiting == 2
    assert await run_until_idle(work.app) == 0
    assert await work.app.audit.list() == []


async def test_the_audit_trail_has_the_ids(work: Work) -> None:
    ids = await behind(work, blocked)
    await work.app.streams.release(NAME, only=[ids[3]])
    await work.app.streams.release(NAME, keep=[ids[1]])
    found = [(each.actor, each.action, each.detail) for each in await work.app.audit.list()]
    assert found == [
        ("python", "stream.released", {"head": ids[0], "keep": [ids[1]], "released": 1}),
        ("python", "stream.released", {"head": ids[0], "only": [ids[3]], "released": 1}),
    ]
    with pytest.raises(InvalidInput, match="does not wait"):
        await work.app.streams.release(NAME, only=[ids[3]])


async def test_an_id_may_be_given_twice(work: Work) -> None:
    ids = await blocked(work)
    await work.app.streams.release(NAME, only=[ids[2], ids[2].upper()])
    assert await run_until_idle(work.app) == 1
