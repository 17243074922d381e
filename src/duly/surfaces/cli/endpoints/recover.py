"""`duly endpoints recover`: retry an endpoint's dead letters, at a given rate."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.domain.endpoints.endpoint import CHECKS, why_shut
from duly.surfaces.cli.terminal.bulk import BULK, Bulk, Rate, run_bulk, store_flags
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.output import answer, cell, print_message
from duly.surfaces.cli.terminal.times import moment_or_ago

Since = Annotated[
    str, Parameter(help="Those that died since then: 2026-11-16T09:00Z, or 2h for two hours ago.")
]
Until = Annotated[
    str | None, Parameter(help="Those that died until then; continues a stopped recovery.")
]


async def recover(
    name: str,
    /,
    *,
    since: Since,
    until: Until = None,
    rate: Rate = None,
    bulk: Bulk = BULK,
    common: Common = COMMON,
) -> None:
    """Retry an endpoint's dead letters with all their attempts; safe to stop and repeat."""
    CHECKS["rate"](rate)
    async with backend(common) as app:
        now = app.clock.now()
        begin = moment_or_ago("since", since, now)
        end = None if until is None else moment_or_ago("until", until, now)
        dead, retried = await app.endpoints.count_dead(name, begin, end), 0
        question = f"{name} has {dead} dead letters since {cell(begin)}.\nRetry them?"
        if bulk.should_run(dead, question):
            moves = app.endpoints.recover(name, begin, rate=rate, until=end)
            command = ["endpoints", "recover", name, "--since", begin.isoformat()]
            command += [] if end is None else ["--until", end.isoformat()]
            command += [] if rate is None else ["--rate", f"{rate:g}"]
            command += store_flags(common)
            retried = (await run_bulk("retrying", dead, moves, command)).moved
            await _print_why_they_wait(app, name)
    document = {
        "name": name,
        "since": begin,
        "dead": dead,
        "retried": retried,
        "dry_run": bulk.dry_run,
    }
    text = f"{dead} dead letters" if bulk.dry_run else f"{retried} of {dead} retried"
    answer(common.json, document, lambda: text)


async def _print_why_they_wait(app: Backend, name: str) -> None:
    why = why_shut(name, await app.endpoints.get(name))
    if why is not None:
        print_message(f"they wait: {why}")
