"""`duly dead`: deliveries that are not tried again by themselves."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.domain.dead_letters import place
from duly.surfaces.cli.dead_letters.filters import FLAGS, DeadLetterFlags
from duly.surfaces.cli.dead_letters.moves import discard, edit, give_up, hold, release, retry
from duly.surfaces.cli.dead_letters.recovery import replay
from duly.surfaces.cli.deliveries.commands import Limit, Payloads, checked_limit, show
from duly.surfaces.cli.server.app_loading import Path, imported_app
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, answer_page, items

LISTED = Columns(
    "id target stream died=dead_at attempt reason disposition fingerprint error", folds="error"
)
GROUPED = Columns("fingerprint count reason first_at last_at targets error", folds="targets error")
SUSPECTED = Columns("id target state attempt next=next_at why error", folds="why error")

commands = App(name="dead", help="List, group, show, retry, edit, discard and hold dead letters.")


@commands.command(name="list")
async def list_(
    *,
    flags: DeadLetterFlags = FLAGS,
    before: Annotated[str | None, Parameter(help="The end of the previous page.")] = None,
    limit: Limit = 50,
    payloads: Payloads = False,
    common: Common = COMMON,
) -> None:
    """List dead letters, latest first."""
    checked_limit(limit)
    async with backend(common) as app:
        wanted = flags.filter(app.clock.now())
        found = await app.dead_letters.list(
            wanted, before=before, limit=limit + 1, payloads=payloads
        )
    page = found[:limit]
    next_place = place(page[-1]) if len(found) > limit else None
    answer_page(common.json, page, next_place, lambda: LISTED.table(page), flag="--before")


@commands.command
async def groups(
    *, flags: DeadLetterFlags = FLAGS, limit: Limit = 50, common: Common = COMMON
) -> None:
    """Group dead letters by fingerprint, the largest group first."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.dead_letters.groups(flags.filter(app.clock.now()), limit=limit)
    answer_list(common, found, GROUPED)


commands.command(show)
commands.command(retry)
commands.command(edit)
commands.command(discard, name="discard")
commands.command(hold, name="hold")
commands.command(release)
commands.command(give_up, name="give-up")
commands.command(replay)


@commands.command
async def poison(
    handlers: Path | None = None,
    /,
    *,
    last_attempts: bool = False,
    limit: Limit = 50,
    payloads: Payloads = False,
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
    async with backend(common) as app:
        found = await app.dead_letters.poison_candidates(
            limit=limit,
            last_attempts=last_attempts or plan is not None,
            plan=plan,
            payloads=payloads,
        )
    answer(common.json, items(found), lambda: SUSPECTED.table(found))
