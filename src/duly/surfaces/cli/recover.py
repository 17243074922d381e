"""`duly endpoints recover`: try an endpoint's dead letters again, as fast as it can take them."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.domain.durations import duration
from duly.domain.endpoints import CHECKS, why_shut
from duly.domain.errors import InvalidInput
from duly.domain.payloads import checked_moment
from duly.surfaces.cli.asking import Yes, agreed
from duly.surfaces.cli.options import COMMON, Common, client
from duly.surfaces.cli.render import answer, cell, progress, talk
from duly.surfaces.cli.times import moment

Since = Annotated[
    str, Parameter(help="Those that died since then: 2026-11-16T09:00Z, or 2h for two hours ago.")
]
Rate = Annotated[float | None, Parameter(help="At most so many a second; all at once without.")]


async def recover(
    name: str,
    /,
    *,
    since: Since,
    rate: Rate = None,
    dry_run: Annotated[bool, Parameter(negative=(), help="Count, and retry nothing.")] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> None:
    """Try an endpoint's dead letters again, with all their attempts; safe to stop and repeat."""
    CHECKS["rate"](rate)
    async with client(common) as app:
        begin = moment_since(since, app.clock.now())
        dead, retried = await app.endpoints.count_dead(name, begin), 0
        if dead and not dry_run and (yes or _agreed(name, dead, begin)):
            retried = await _retry(app, name, begin, rate, dead)
            await _say_if_they_wait(app, name)
    document = {"name": name, "since": begin, "dead": dead, "retried": retried, "dry_run": dry_run}
    told = f"{dead} dead letters" if dry_run else f"{retried} of {dead} retried"
    answer(common.json, document, lambda: told)


def moment_since(text: str, now: datetime) -> datetime:
    """A moment, or how long ago it is."""
    if "-" in text or ":" in text:
        return checked_moment("since", moment("since", text))
    try:
        return checked_moment("since", now - duration("since", text))
    except OverflowError:
        raise InvalidInput("since", f"{text!r} ago is before all time") from None


def _agreed(name: str, dead: int, begin: datetime) -> bool:
    return agreed(
        f"{name} has {dead} dead letters since {cell(begin)}.\nTry them again?",
        "--yes, or --dry-run to only count",
    )


async def _retry(app: App, name: str, begin: datetime, rate: float | None, dead: int) -> int:
    retried = 0
    try:
        with progress("retrying", dead) as advance:
            async for so_far in app.endpoints.recover(name, begin, rate=rate):
                advance(so_far - retried)
                retried = so_far
    except asyncio.CancelledError:
        talk(
            f"stopped after {retried}; for the rest: "
            f"duly endpoints recover {name} --since {begin:%Y-%m-%dT%H:%M:%SZ}"
        )
        raise
    return retried


async def _say_if_they_wait(app: App, name: str) -> None:
    why = why_shut(name, await app.endpoints.get(name))
    if why is not None:
        talk(f"they wait: {why}")
