"""`/v1/keys`: who may enter, listed, made and revoked by an admin of the same namespace."""

from __future__ import annotations

from duly.domain.checks import checked_text
from duly.records.key import Scope
from duly.services.namespace import Namespace
from duly.surfaces.http.access.key_bodies import (
    KeyRecord,
    MadeKey,
    NewKey,
    key_record,
    made_key,
)
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.routing import below, get, post


@get("", operation_id="list_keys")
async def listed(app: Namespace, query: PageQuery) -> Page[KeyRecord]:
    """Keys by id, those that open nothing any more too."""
    after = "" if query.cursor is None else checked_text("cursor", query.cursor)
    found = await app.keys.list(after=after, limit=query.limit + 1)
    page, now = found[: query.limit], app.clock.now()
    more = len(found) > query.limit
    return Page([key_record(each, now) for each in page], page[-1].id if more else None)


@post("", secret=True, operation_id="create_key")
async def make(app: Namespace, body: NewKey) -> MadeKey:
    """Make a key of the caller's namespace; its token is told here and never again."""
    made = await app.keys.create(body.name, scope=body.scope, expires_at=body.expires_at)
    return made_key(made, app.clock.now())


@get("/{id}", operation_id="get_key")
async def show(app: Namespace, id: str) -> KeyRecord:
    """One key."""
    return key_record(await app.keys.get(id), app.clock.now())


@post("/{id}/revoke", status=200, operation_id="revoke_key")
async def revoke(app: Namespace, id: str) -> KeyRecord:
    """Let a key open nothing any more, within a second; again it changes nothing."""
    return key_record(await app.keys.revoke(id), app.clock.now())


ROUTES = below("/keys", [listed, make, show, revoke], scope=Scope.ADMIN)
