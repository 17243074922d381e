"""Runs the moves that a user ordered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import assert_never

from duly.records.dead_letter import BulkProgress
from duly.surfaces.cli.endpoints.describe import state_in_words
from duly.surfaces.cli.streams import in_words
from duly.surfaces.cli.terminal.flags import Backend
from duly.surfaces.cli.top.content import Move, Verb
from duly.surfaces.cli.top.views import Kind

Report = Callable[[str], None]


async def perform(app: Backend, move: Move, report: Report) -> str:
    """Run a move, and describe its result; `report` gets the progress of a long one."""
    match move.verb:
        case Verb.RETRY:
            return await _retry(app, move, report)
        case Verb.PAUSE:
            return await _pause(app, move)
        case Verb.RESUME:
            return await _resume(app, move)
    assert_never(move.verb)


async def _retry(app: Backend, move: Move, report: Report) -> str:
    if move.which is not None:
        return await _retry_all(app.dead_letters.retry_all(move.which), report)
    if move.kind is Kind.STREAM:
        return f"{move.name} {in_words(await app.streams.retry_now(move.name))}"
    return f"{move.name} {(await app.deliveries.retry(move.name)).state}"


async def _retry_all(moves: AsyncIterator[BulkProgress], report: Report) -> str:
    done = 0
    async for each in moves:
        done = each.done
        report(f"retrying: {done} of {each.total}")
    return f"{done} retried"


async def _pause(app: Backend, move: Move) -> str:
    match move.kind:
        case Kind.SCHEDULE:
            state = (await app.schedules.pause(move.name)).state
        case Kind.STREAM:
            state = in_words(await app.streams.pause(move.name))
        case Kind.ENDPOINT:
            state = state_in_words(await app.endpoints.pause(move.name))
        case _:
            state = f"{(await app.workers.drain(int(move.name))).name} is draining"
    return f"{move.name} {state}"


async def _resume(app: Backend, move: Move) -> str:
    match move.kind:
        case Kind.SCHEDULE:
            state = (await app.schedules.resume(move.name)).state
        case Kind.STREAM:
            state = in_words(await app.streams.resume(move.name))
        case Kind.ENDPOINT:
            state = state_in_words(await app.endpoints.resume(move.name))
        case _:
            state = f"{(await app.workers.resume(int(move.name))).name} resumes"
    return f"{move.name} {state}"
