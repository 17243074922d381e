"""`duly keys`: who may enter by the HTTP port, and what for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from duly.domain.access.keys import ID_BYTES, SECRET_BYTES, StoredKey, new_token
from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Books, Common, Json, books
from duly.surfaces.cli.terminal.ids import whole_key_id
from duly.surfaces.cli.terminal.output import answer, answer_page, fields, table, talk
from duly.surfaces.cli.terminal.times import moment
from duly.system import SystemChance

commands = App(name="keys", help="Create, list and revoke the keys to the HTTP port.")


@commands.command
async def create(
    name: str,
    /,
    *,
    scope: Annotated[str, Parameter(help="What it may do: read, operate or admin.")] = "read",
    expires: Annotated[
        str | None, Parameter(help="When it ends: a moment, or how long from now, as in 90d.")
    ] = None,
    common: Common = COMMON,
) -> None:
    """Make a key and print it, once; a store that is missing is made.

    Parameters
    ----------
    name
        Whose it is, for people.
    """
    async with books(common, create=True) as app:
        ends_at = None if expires is None else _ends_at(app, expires)
        made = await app.keys.create(name, scope=scope, expires_at=ends_at)
    answer(common.json, {**fields(made.key), "token": made.token}, lambda: made.token)
    talk(
        f"key {made.key.id} may {made.key.scope} in namespace {made.key.namespace}; "
        "it is not shown again"
    )


@commands.command
def bootstrap(*, json: Json = False) -> None:
    """Print a new value for DULY_BOOTSTRAP_KEY, with which `duly serve` creates its first key.

    Nothing is stored, and no store is needed.
    """
    _, token = new_token(SystemChance().bytes(ID_BYTES + SECRET_BYTES))
    answer(json, {"token": token}, lambda: token)


def _ends_at(app: Books, text: str) -> datetime:
    if "-" in text or ":" in text:
        return moment("expires", text)
    try:
        return app.clock.now() + duration("expires", text)
    except OverflowError:
        raise InvalidInput("expires", f"{text!r} from now is after all time") from None


@commands.command(name="list")
async def list_(
    *,
    after: Annotated[str, Parameter(help="The last id of the page before.")] = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List the keys of a namespace, those that open nothing any more too."""
    checked_limit(limit)
    async with books(common) as app:
        found = await app.keys.list(after=after, limit=limit + 1)
        now = app.clock.now()
    page = found[:limit]
    next_id = page[-1].id if len(found) > limit else None
    records = [_record(each, now) for each in page]
    answer_page(common.json, records, next_id, lambda: _listed(page, now))


@commands.command
async def revoke(id: str, /, *, common: Common = COMMON) -> None:
    """Let a key open nothing any more, within a second.

    Parameters
    ----------
    id
        As `duly keys list` shows it, or how it begins.
    """
    async with books(common) as app:
        key = await app.keys.revoke(await whole_key_id(app, id))
        document = _record(key, app.clock.now())
    answer(common.json, document, lambda: f"{key.id} {document['state']}")


def _record(key: StoredKey, now: datetime) -> dict[str, object]:
    return fields(key, state=key.standing(now))


def _listed(page: Sequence[StoredKey], now: datetime) -> str:
    columns = ("id", "scope", "state", "created", "last used", "expires", "name")
    return table(
        columns,
        (
            (
                each.id,
                each.scope,
                each.standing(now),
                each.created_at,
                each.last_used_at,
                each.expires_at,
                each.name,
            )
            for each in page
        ),
    )
