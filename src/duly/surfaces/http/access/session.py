"""`/v1/session`: who the caller is; a browser trades a key for a session cookie."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException

from duly.records.key import Scope
from duly.services.namespace import Namespace
from duly.surfaces.http.access.session_cookie import session_cookie, session_in
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import OPEN, delete, get, post


class LogIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key to log in with."""

    EXAMPLE: ClassVar = {"key": "duly_..."}
    key: str


class CallerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls, and what they may do."""

    actor: str
    namespace: str
    scope: Scope
    expires_at: Annotated[datetime | None, Meta(description="when their key or session ends")]
    session: Annotated[bool, Meta(description="whether a session cookie authenticates them")]


@get("/session", operation_id="get_session")
async def show(request: Request) -> CallerRecord:
    """The caller, as this request was authenticated."""
    caller = request.caller
    assert caller is not None
    headers = dict(request.scope["headers"])
    return CallerRecord(
        actor=caller.actor,
        namespace=caller.namespace,
        scope=caller.scope,
        expires_at=None if caller.key is None else caller.key.expires_at,
        session=caller.key is not None and b"authorization" not in headers,
    )


@post("/session", scope=OPEN, secret=True, operation_id="log_in")
async def log_in(app: Namespace, request: Request, body: LogIn) -> Answer[CallerRecord]:
    """Trade a key for a session cookie with its rights; it ends with the key, or after 12 hours."""
    started = await app.keys.start_session(body.key.strip())
    if started is None:
        raise HTTPException(401, "this key is not valid here; it is wrong, expired or revoked")
    key = started.key
    record = CallerRecord(
        actor=key.actor,
        namespace=key.namespace,
        scope=key.scope,
        expires_at=started.expires_at,
        session=True,
    )
    cookie = session_cookie(request.scope, started.token, started.expires_at)
    return Answer(record, headers={"set-cookie": cookie, "cache-control": "no-store"})


@delete("/session", scope=OPEN, operation_id="log_out")
async def log_out(app: Namespace, request: Request) -> Answer[None]:
    """End the session of this request's cookie, and remove the cookie; safe to repeat."""
    await app.keys.end_session(session_in(dict(request.scope["headers"])))
    return Answer(None, 204, {"set-cookie": session_cookie(request.scope, "", None)})


ROUTES = [show, log_in, log_out]
