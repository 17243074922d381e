"""`duly endpoints`: list, show, add, change, test and remove named webhooks."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from duly.errors import Conflict
from duly.records.endpoint import Endpoint
from duly.safe_text import shown_url
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.endpoints.add import add, edit
from duly.surfaces.cli.endpoints.describe import listed, shown, state_in_words
from duly.surfaces.cli.endpoints.recover import recover
from duly.surfaces.cli.endpoints.rotation import reseal, rotate
from duly.surfaces.cli.endpoints.trial import try_out
from duly.surfaces.cli.terminal.confirmation import Yes, confirmed
from duly.surfaces.cli.terminal.flags import COMMON, After, Backend, Common, Why, backend
from duly.surfaces.cli.terminal.output import answer, answer_page, print_message

LOOK_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 90.0
"""Longer than an attempt can take."""

commands = App(
    name="endpoints", help="List, show, add, edit, pause, test, rotate and remove endpoints."
)


@commands.command(name="list")
async def list_(
    *,
    after: After = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List endpoints by name, with the number of deliveries that wait for each."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.endpoints.list(after=after, limit=limit + 1)
    page = found[:limit]
    next_name = page[-1].name if len(found) > limit else None
    answer_page(common.json, page, next_name, lambda: listed(page))


@commands.command
async def show(name: str, /, *, common: Common = COMMON) -> None:
    """Show one endpoint: its state, circuit, limits and plan, and which keys seal its secrets."""
    async with backend(common) as app:
        found = await app.endpoints.get(name)
    # No command prints the values of a URL's query: they may be credentials.
    found = msgspec.structs.replace(found, url=shown_url(found.url))
    answer(common.json, found, lambda: shown(found))


commands.command(add)
commands.command(edit)


@commands.command
async def pause(
    name: str,
    /,
    *,
    reason: Why = None,
    common: Common = COMMON,
) -> None:
    """Let its deliveries wait until it is resumed; attempts under way continue."""
    async with backend(common) as app:
        _print(await app.endpoints.pause(name, reason), common)


@commands.command
async def resume(name: str, /, *, common: Common = COMMON) -> None:
    """Send its deliveries again after it was paused or disabled, or its circuit opened."""
    async with backend(common) as app:
        _print(await app.endpoints.resume(name), common)


def _print(found: Endpoint, common: Common) -> None:
    answer(common.json, found, lambda: f"{found.name} {state_in_words(found)}")


commands.command(rotate)
commands.command(reseal)
commands.command(try_out, name="test")
commands.command(recover)


@commands.command
async def remove(
    name: str,
    /,
    *,
    cancel_waiting: Annotated[
        bool,
        Parameter(negative=(), help="Cancel deliveries that wait for it."),
    ] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> None:
    """Remove an endpoint that nothing waits for, and that no schedule sends to."""
    async with backend(common) as app:
        removed = yes or await _confirmed(app, name, cancel_waiting)
        if removed and cancel_waiting:
            await _remove_with_all(app, name)
        elif removed:
            await app.endpoints.remove(name)
    document = {"name": name, "removed": removed}
    answer(common.json, document, lambda: f"{name} {'removed' if removed else 'kept'}")


async def _confirmed(app: Backend, name: str, cancel_waiting: bool) -> bool:
    found = await app.endpoints.get(name)
    waiting = found.waiting + found.under_way
    cancelled = "; they are cancelled" if cancel_waiting and waiting else ""
    return confirmed(
        f"{name} sends to {shown_url(found.url)}, and {waiting} deliveries "
        f"wait for it{cancelled}.\nRemove it for good?"
    )


async def _remove_with_all(app: Backend, name: str) -> None:
    """Remove it with its waiting deliveries, after attempts under way have ended."""
    until = app.clock.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        try:
            await app.endpoints.remove(name, cancel_waiting=True)
            return
        except Conflict:
            under_way = (await app.endpoints.get(name)).under_way
            if not under_way or app.clock.monotonic() > until:
                raise
        print_message(
            f"it is paused, and {under_way} deliveries are under way; waiting for them to end"
        )
        while (await app.endpoints.get(name)).under_way and app.clock.monotonic() <= until:
            await app.clock.sleep(LOOK_SECONDS)
