"""`duly limits`: the limits of handlers and endpoints, and how far they are used."""

from __future__ import annotations

from cyclopts import App

from duly.domain.endpoints.limits import why_limited
from duly.records.limit import Limit, PerKey
from duly.surfaces.cli.deliveries.commands import Limit as Most
from duly.surfaces.cli.deliveries.commands import checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, After, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, facts

commands = App(name="limits", help="List the limits of targets, and how far they are used.")


def per_key_in_words(per_key: PerKey | None) -> str | None:
    """The limits for each key in words."""
    if per_key is None:
        return None
    rate = None if per_key.rate is None else f"{per_key.rate:g} a second"
    in_flight = None if per_key.in_flight is None else f"{per_key.in_flight} in flight"
    return f"{per_key.name}: {', '.join(filter(None, [in_flight, rate]))}"


def _rate(limit: Limit) -> str | None:
    return None if limit.rate is None else f"{limit.rate:g} a second"


COLUMNS = Columns(
    "target rate in_flight running=in_flight_now waiting for_each_key=per_key",
    folds="target",
    rate=_rate,
    per_key=lambda each: per_key_in_words(each.per_key),
)


@commands.default
@commands.command(name="list")
async def list_(*, after: After = "", limit: Most = 50, common: Common = COMMON) -> None:
    """List the targets that have limits, with what runs and what waits for each."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.limits.list(after=after, limit=limit + 1)
    answer_list(common, found, COLUMNS, limit, "target")


@commands.command
async def show(target: str, /, *, common: Common = COMMON) -> None:
    """Show the limits of one target, and how far they are used.

    Parameters
    ----------
    target
        A handler's name, or endpoint:NAME.
    """
    async with backend(common) as app:
        found = await app.limits.get(target)
    answer(common.json, found, lambda: shown(found))


KEY_COLUMNS = Columns("key running=in_flight_now waiting next=next_at", folds="key")


@commands.command
async def keys(
    target: str, /, *, after: After = "", limit: Most = 50, common: Common = COMMON
) -> None:
    """List the keys of a target that were used lately, with what runs and waits for each.

    Parameters
    ----------
    target
        A handler's name, or endpoint:NAME.
    """
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.limits.keys(target, after=after, limit=limit + 1)
    answer_list(common, found, KEY_COLUMNS, limit, "key")


def shown(limit: Limit) -> str:
    """All of a target's limits."""
    return facts(
        {
            "target": limit.target,
            "rate": _rate(limit) or "any",
            "in_flight": limit.in_flight or "any number",
            "per_key": per_key_in_words(limit.per_key) or "no limits",
            "running": limit.in_flight_now,
            "waiting": limit.waiting,
            "next": limit.next_at or "now",
            "waits": why_limited(limit),
            "declared_at": limit.declared_at,
        }
    )
