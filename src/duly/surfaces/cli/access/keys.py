"""`duly keys`: who may use the HTTP API, and for what."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from duly.domain.access.keys import ID_BYTES, SECRET_BYTES, new_token
from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, Json, backend
from duly.surfaces.cli.terminal.ids import whole_key_id
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, print_message
from duly.surfaces.cli.terminal.times import moment
from duly.system import SystemChance

COLUMNS = Columns("id scope state created_at last_used_at expires_at name")

commands = App(name="keys", help="Create, list and revoke keys of the HTTP API.")


@commands.command
async def create(
    name: str,
    /,
    *,
    scope: Annotated[str, Parameter(help="What it may do: read, operate or admin.")] = "read",
    expires: Annotated[
        str | None, Parameter(help="When it expires: a moment, or how long from now, as in 90d.")
    ] = None,
    common: Common = COMMON,
) -> None:
    """Create a key and print it, once; a missing store is created.

    Parameters
    ----------
    name
        Who uses it.
    """
    async with backend(common, create=True) as app:
        ends_at = None if expires is None else _ends_at(app, expires)
        made = await app.keys.create(name, scope=scope, expires_at=ends_at)
    answer(common.json, made, lambda: made.token)
    print_message(
        f"key {made.id} may {made.scope} in namespace {made.namespace}; it is not shown again"
    )


@commands.command
def bootstrap(*, json: Json = False) -> None:
    """Print a new value for DULY_BOOTSTRAP_KEY, with which `duly serve` creates its first key.

    Nothing is stored, and no store is needed.
    """
    _, token = new_token(SystemChance().bytes(ID_BYTES + SECRET_BYTES))
    answer(json, {"token": token}, lambda: token)


def _ends_at(app: Backend, text: str) -> datetime:
    if "-" in text or ":" in text:
        return moment("expires", text)
    try:
        return app.clock.now() + duration("expires", text)
    except OverflowError:
        raise InvalidInput("expires", f"{text!r} from now is too late") from None


@commands.command(name="list")
async def list_(
    *,
    after: Annotated[str, Parameter(help="The last id of the previous page.")] = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List the keys of a namespace, also expired and revoked ones."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.keys.list(after=after, limit=limit + 1)
    answer_list(common, found, COLUMNS, limit)


@commands.command
async def revoke(id: str, /, *, common: Common = COMMON) -> None:
    """Make a key invalid, within a second.

    Parameters
    ----------
    id
        As `duly keys list` shows it, or its first characters.
    """
    async with backend(common) as app:
        key = await app.keys.revoke(await whole_key_id(app, id))
    answer(common.json, key, lambda: f"{key.id} {key.state}")
