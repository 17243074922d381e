"""`/v1/keys`: who may enter, listed, made and revoked by an admin of the same namespace."""

from __future__ import annotations

from litestar import Router, get, post
from litestar.params import FromPath, JSONBody

from duly.domain.access.keys import Scope
from duly.domain.checks import checked_text
from duly.surfaces.http.access.key_bodies import (
    KeyRecord,
    MadeKey,
    NewKey,
    key_record,
    made_key,
)
from duly.surfaces.http.protocol.decoding import asked
from duly.surfaces.http.protocol.pages import Page, PageQuery, Wanted
from duly.surfaces.http.protocol.request_context import Served


@get("/", dependencies={"wanted": asked(PageQuery)}, operation_id="list_keys")
async def listed(duly_app: Served, wanted: Wanted) -> Page[KeyRecord]:
    """Keys by id, those that open nothing any more too."""
    after = "" if wanted.cursor is None else checked_text("cursor", wanted.cursor)
    found = await duly_app.keys.list(after=after, limit=wanted.limit + 1)
    page, now = found[: wanted.limit], duly_app.clock.now()
    more = len(found) > wanted.limit
    return Page([key_record(each, now) for each in page], page[-1].id if more else None)


@post("/", opt={"secret": True}, operation_id="create_key")
async def make(duly_app: Served, data: JSONBody[NewKey]) -> MadeKey:
    """Make a key of the caller's namespace; its token is told here and never again."""
    made = await duly_app.keys.create(data.name, scope=data.scope, expires_at=data.expires_at)
    return made_key(made, duly_app.clock.now())


@get("/{id:str}", operation_id="get_key")
async def show(duly_app: Served, id: FromPath[str]) -> KeyRecord:
    """One key."""
    return key_record(await duly_app.keys.get(id), duly_app.clock.now())


@post("/{id:str}/revoke", status_code=200, operation_id="revoke_key")
async def revoke(duly_app: Served, id: FromPath[str]) -> KeyRecord:
    """Let a key open nothing any more, within a second; again it changes nothing."""
    return key_record(await duly_app.keys.revoke(id), duly_app.clock.now())


ROUTES = [Router("/keys", route_handlers=[listed, make, show, revoke], opt={"scope": Scope.ADMIN})]
