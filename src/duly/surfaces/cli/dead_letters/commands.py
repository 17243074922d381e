"""`duly dead`: deliveries that will not be tried again by themselves, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter

from duly.records.dead_letter import DeadLetterGroup
from duly.records.delivery import Delivery
from duly.services.dead_letters import CrashSuspect, place
from duly.surfaces.cli.dead_letters.filters import SOUGHT, DeadLetterFlags
from duly.surfaces.cli.dead_letters.moves import discard, edit, retry
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit, record, show
from duly.surfaces.cli.server.app_loading import Path, imported_app
from duly.surfaces.cli.terminal.flags import COMMON, Common, books
from duly.surfaces.cli.terminal.output import answer, answer_page, items, table

commands = App(name="dead", help="List, group, show, retry, edit and discard dead letters.")


@commands.command(name="list")
async def list_(
    *,
    sought: DeadLetterFlags = SOUGHT,
    before: Annotated[str | None, Parameter(help="Where the page before ended.")] = None,
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List dead letters, the latest first."""
    checked_limit(limit)
    async with books(common) as app:
        wanted = sought.filter(app.clock.now())
        found = await app.dead_letters.list(wanted, before=before, limit=limit + 1)
    page = found[:limit]
    next_place = place(page[-1]) if len(found) > limit else None
    records = [record(each) for each in page]
    answer_page(common.json, records, next_place, lambda: _listed(page), flag="--before")


@commands.command
async def groups(
    *, sought: DeadLetterFlags = SOUGHT, limit: Limit = 50, common: Common = COMMON
) -> None:
    """Group dead letters by what their errors have in common, the most frequent first."""
    checked_limit(limit)
    async with books(common) as app:
        found = await app.dead_letters.groups(sought.filter(app.clock.now()), limit=limit)
    answer(common.json, items(found), lambda: _grouped(found))


commands.command(show)
commands.command(retry)
commands.command(edit)
commands.command(discard)


@commands.command
async def poison(
    handlers: Path | None = None,
    /,
    *,
    last_attempts: bool = False,
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List unfinished deliveries whose workers died while they held them.

    Parameters
    ----------
    handlers
        Where your App is, for the retry plans of its handlers; without it 10 attempts are assumed.
        Implies --last-attempts.
    last_attempts
        Also list those whose next attempt is their last.
    """
    checked_limit(limit)
    plan = None if handlers is None else imported_app(handlers, {}).plan
    async with books(common) as app:
        found = await app.dead_letters.poison_candidates(
            limit=limit, last_attempts=last_attempts or plan is not None, plan=plan
        )
    records = [record(each.delivery) | {"why": each.why} for each in found]
    answer(common.json, items(records), lambda: _suspected(found))


def _listed(page: Sequence[Delivery]) -> str:
    return table(
        ("id", "target", "stream", "died", "attempt", "reason", "fingerprint", "error"),
        (
            (
                each.id,
                each.target,
                each.stream,
                each.dead_at,
                each.attempt,
                each.reason,
                each.fingerprint,
                each.error,
            )
            for each in page
        ),
        folds=("error",),
    )


def _grouped(found: Sequence[DeadLetterGroup]) -> str:
    return table(
        ("fingerprint", "count", "reason", "first", "last", "targets", "error"),
        (
            (
                each.fingerprint,
                each.count,
                each.reason,
                each.first_at,
                each.last_at,
                each.targets,
                each.error,
            )
            for each in found
        ),
        folds=("targets", "error"),
    )


def _suspected(found: Sequence[CrashSuspect]) -> str:
    return table(
        ("id", "target", "state", "attempt", "next", "why", "error"),
        (
            (
                each.delivery.id,
                each.delivery.target,
                each.delivery.state,
                each.delivery.attempt,
                each.delivery.next_at,
                each.why,
                each.delivery.error,
            )
            for each in found
        ),
        folds=("why", "error"),
    )
