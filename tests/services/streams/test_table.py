"""The table of streams: the state of a head, the policy and a move decide what its followers do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from duly import Conflict
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import NAME, Work, running, until_set

pytestmark = pytest.mark.requirement("L4", "F6")
BLOCK_FOR = 30.0
"""Shorter than the first retry's wait, so that a head still waits when its block ends."""
POLICIES: dict[str, dict[str, Any]] = {
    "block": {"on_failure": "block"},
    "block for": {"on_failure": "block", "block_for": BLOCK_FOR},
    "release": {"on_failure": "release"},
}
Move = Callable[[Work, Sequence[str], VirtualClock], Awaitable[Any]]


async def nothing(work: Work, ids: Sequence[str], clock: VirtualClock) -> None:
    """No move."""


async def elapse(work: Work, ids: Sequence[str], clock: VirtualClock) -> None:
    clock.advance(BLOCK_FOR)


MOVES: dict[str, Move] = {
    "nothing": nothing,
    "time": elapse,
    "retry now": lambda work, *_: work.app.streams.retry_now(NAME),
    "release": lambda work, *_: work.app.streams.release(NAME),
    "release c": lambda work, ids, _: work.app.streams.release(NAME, only=[ids[2]]),
    "keep b": lambda work, ids, _: work.app.streams.release(NAME, keep=[ids[1]]),
    "discard": lambda work, ids, _: work.app.dead_letters.discard(ids[0], "why"),
    "cancel": lambda work, ids, _: work.app.cancel(ids[0]),
}
WAIT: list[str] = []
ALL = ["b", "c"]
TABLE = [
    # head, policy, move, those that proceed; None is a refusal
    ("retries", "block", "nothing", WAIT),
    ("retries", "block", "time", WAIT),
    ("retries", "block", "retry now", ["a", *ALL]),
    ("retries", "block", "release", ALL),
    ("retries", "block", "release c", ["c"]),
    ("retries", "block", "keep b", ["c"]),
    ("retries", "block", "cancel", ALL),
    ("retries", "block for", "nothing", WAIT),
    ("retries", "block for", "time", ALL),
    ("retries", "block for", "retry now", ["a", *ALL]),
    ("retries", "block for", "release", ALL),
    ("retries", "block for", "release c", ["c"]),
    ("retries", "block for", "keep b", ["c"]),
    ("retries", "block for", "cancel", ALL),
    ("retries", "release", "nothing", ALL),
    ("retries", "release", "release", None),
    ("retries", "release", "release c", None),
    ("dies", "block", "nothing", WAIT),
    ("dies", "block", "time", WAIT),
    ("dies", "block", "retry now", ["a", *ALL]),
    ("dies", "block", "release", ALL),
    ("dies", "block", "release c", ["c"]),
    ("dies", "block", "keep b", ["c"]),
    ("dies", "block", "discard", ALL),
    ("dies", "block for", "nothing", WAIT),
    ("dies", "block for", "time", ALL),
    ("dies", "block for", "retry now", ["a", *ALL]),
    ("dies", "block for", "release", ALL),
    ("dies", "block for", "release c", ["c"]),
    ("dies", "block for", "keep b", ["c"]),
    ("dies", "block for", "discard", ALL),
    ("dies", "release", "nothing", ALL),
    ("dies", "release", "release", None),
    ("dies", "release", "release c", None),
    ("completes", "block", "nothing", ALL),
    ("completes", "block for", "nothing", ALL),
    ("completes", "release", "nothing", ALL),
    ("completes", "block", "release c", None),
    ("completes", "block for", "release", None),
]


@pytest.mark.parametrize(("head", "policy", "move", "proceed"), TABLE)
async def test_a_row_of_the_table(
    work: Work,
    clock: VirtualClock,
    head: str,
    policy: str,
    move: str,
    proceed: list[str] | None,
) -> None:
    await work.app.streams.configure(NAME, **POLICIES[policy])
    {"retries": work.fails, "dies": work.dies, "completes": lambda _: None}[head]("a")
    ids = await work.add("a", "b", "c")
    await run_until_idle(work.app)
    if proceed is None:
        with pytest.raises(Conflict):
            await MOVES[move](work, ids, clock)
        proceed = ALL
    else:
        await MOVES[move](work, ids, clock)
        await run_until_idle(work.app)
    assert work.seen == ["a", *proceed]
    kept = [each for each in ALL if each not in proceed]
    assert (await work.stream()).waiting == len(kept)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("move", ["nothing", "retry now", "release", "release c", "keep b"])
async def test_those_behind_a_processing_head_wait(live: Work, policy: str, move: str) -> None:
    await live.app.streams.configure(NAME, **POLICIES[policy])
    proceed = live.waits("a")
    ids = await live.add("a", "b", "c")
    async with running(live.app):
        await until_set(live.began["a"])
        if move != "nothing":
            with pytest.raises(Conflict, match="'team:7' is running"):
                await MOVES[move](live, ids, VirtualClock())
        assert live.seen == ["a"]
        proceed.set()
        await live.until(ids[2], "completed")
    assert live.seen == ["a", *ALL]
