"""`/v1/keys`: listed, created and revoked by an admin of the same namespace."""

from __future__ import annotations

from duly.domain.checks import checked_text
from duly.records.key import Key, KeyWithToken, NewKey, Scope
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.pages import Page, PageQuery, page_of
from duly.surfaces.http.protocol.routing import below, get, post


@get("", operation_id="list_keys")
async def listed(app: Namespace, query: PageQuery) -> Page[Key]:
    """Keys by id, also expired and revoked ones."""
    after = "" if query.cursor is None else checked_text("cursor", query.cursor)
    return page_of(await app.keys.list(after=after, limit=query.limit + 1), query.limit, "id")


@post("", secret=True, operation_id="create_key")
async def make(app: Namespace, body: NewKey) -> KeyWithToken:
    """Create a key of the caller's namespace; its token is only in this answer."""
    return await app.keys.create(body.name, scope=body.scope, expires_at=body.expires_at)


@get("/{id}", operation_id="get_key")
async def show(app: Namespace, id: str) -> Key:
    """One key."""
    return await app.keys.get(id)


@post("/{id}/revoke", status=200, operation_id="revoke_key")
async def revoke(app: Namespace, id: str) -> Key:
    """Make a key invalid within a second; safe to repeat."""
    return await app.keys.revoke(id)


ROUTES = below("/keys", [listed, make, show, revoke], scope=Scope.ADMIN)
