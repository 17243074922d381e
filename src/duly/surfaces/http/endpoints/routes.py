"""`/v1/endpoints`: named webhooks; added, edited, paused, rotated, tested and recovered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.records.dead_letter import BulkResult
from duly.records.key import Scope
from duly.services.endpoints import Added
from duly.services.namespace import Namespace
from duly.surfaces.http.dead_letters.bodies import carried_out
from duly.surfaces.http.endpoints.bodies import (
    EndpointChange,
    EndpointRecord,
    EndpointWithSecret,
    NewEndpoint,
    Recover,
    RemoveQuery,
    Rotate,
    Trial,
    Tried,
)
from duly.surfaces.http.protocol.bodies import Why
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.etags import etag
from duly.surfaces.http.protocol.hangups import while_heard
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import delete, get, patch, post
from duly.surfaces.standing import record, tried

NAME = "/endpoints/{name}"
Kind = TypeVar("Kind", bound=EndpointRecord)


@get("/endpoints", operation_id="list_endpoints")
async def list_(app: Namespace, query: PageQuery) -> Page[EndpointRecord]:
    """List endpoints by name, with what waits for each."""
    found = await app.endpoints.list(after=query.cursor or "", limit=query.limit + 1)
    items = [await _record(app, each, EndpointRecord) for each in found[: query.limit]]
    return Page(items, items[-1].name if len(found) > query.limit else None)


@post("/endpoints", secret=True, operation_id="add_endpoint", is_versioned=True)
async def add(app: Namespace, body: NewEndpoint) -> Answer[EndpointWithSecret]:
    """Add an endpoint; its secret is in the answer, and never again."""
    added = await app.endpoints.add(body.name, **body.details())
    answer = await _told_once(app, added)
    answer.headers["location"] = f"/v1/endpoints/{quote(body.name, safe='')}"
    return answer


@get(NAME, operation_id="get_endpoint", is_versioned=True)
async def show(app: Namespace, request: Request, name: str) -> Answer[EndpointRecord]:
    """One endpoint: its state, circuit, limits and plan, and which keys seal its secrets.

    Its URL has the values of its query only for a key with scope admin.
    """
    endpoint = await app.endpoints.get(name)
    may_see = request.caller is not None and request.caller.scope is Scope.ADMIN
    return await _shown(app, endpoint, url=endpoint.details.url if may_see else None)


@patch(NAME, operation_id="update_endpoint", is_versioned=True)
async def change(
    app: Namespace, name: str, version: int | None, body: EndpointChange
) -> Answer[EndpointRecord]:
    """Change what is given; it counts from the next attempt of each delivery."""
    edited = await app.endpoints.edit(name, version=version, **body.details())
    return await _shown(app, edited)


@delete(NAME, operation_id="remove_endpoint")
async def remove(
    app: Namespace,
    name: str,
    version: int | None,
    query: RemoveQuery,
) -> None:
    """Remove an endpoint that nothing waits for, and that no schedule sends to."""
    await app.endpoints.remove(name, cancel_waiting=query.cancel_waiting, version=version)


@post(f"{NAME}/pause", status=200, operation_id="pause_endpoint", is_versioned=True)
async def pause(app: Namespace, name: str, body: Why | None = None) -> Answer[EndpointRecord]:
    """Let its deliveries wait until it is resumed; what is under way goes on."""
    reason = None if body is None else body.reason
    return await _shown(app, await app.endpoints.pause(name, reason))


@post(f"{NAME}/resume", status=200, operation_id="resume_endpoint", is_versioned=True)
async def resume(app: Namespace, name: str) -> Answer[EndpointRecord]:
    """Let its deliveries go, whether it was paused, disabled or its circuit was open."""
    return await _shown(app, await app.endpoints.resume(name))


@post(
    f"{NAME}/rotate",
    status=200,
    secret=True,
    operation_id="rotate_endpoint_secret",
    is_versioned=True,
)
async def rotate(
    app: Namespace, name: str, body: Rotate | None = None
) -> Answer[EndpointWithSecret]:
    """Give it a new secret, which is in the answer; the old one signs too for a while."""
    given = body or Rotate()
    overlap = timedelta(seconds=given.overlap_seconds)
    rotated = await app.endpoints.rotate(name, secret=given.secret, overlap=overlap)
    return await _told_once(app, rotated)


@post(f"{NAME}/test", status=200, operation_id="test_endpoint")
async def try_out(app: Namespace, name: str, body: Trial | None = None) -> Tried:
    """Send something there at once, whatever its state; it leaves no trace on the books."""
    endpoint = await app.endpoints.get(name)
    given = None if body is None else checked(body.payload)
    payload = None if given is None or given.data == b"null" else given
    outcome = await app.endpoints.test(name, payload)
    return msgspec.convert(tried(endpoint, outcome), Tried)


@post(f"{NAME}/recover", status=200, repeatable=True, operation_id="recover_endpoint")
async def recover(app: Namespace, request: Request, name: str, body: Recover) -> BulkResult:
    """Try its dead letters again, with all their attempts."""
    matching = await app.endpoints.count_dead(name, body.since, body.until)
    if body.dry_run:
        return BulkResult(matching=matching)
    moves = app.endpoints.recover(name, body.since, rate=body.rate, until=body.until)
    work = carried_out(matching, moves, app.clock, body.seconds, body.rate)
    return await while_heard(request.receive, work)


async def _record(app: Namespace, endpoint: StoredEndpoint, kind: type[Kind], **more: Any) -> Kind:
    found = record(await app.endpoints.standing(endpoint)) | more
    known = {name: found[name] for name in kind.__struct_fields__}
    known["retry"] = msgspec.json.decode(known["retry"])
    return msgspec.convert(known, kind)


async def _shown(
    app: Namespace, endpoint: StoredEndpoint, url: str | None = None
) -> Answer[EndpointRecord]:
    """The endpoint; a `url` is shown in place of the masked one."""
    found = await _record(app, endpoint, EndpointRecord, **({} if url is None else {"url": url}))
    return Answer(found, headers=etag(endpoint.version))


async def _told_once(app: Namespace, added: Added) -> Answer[EndpointWithSecret]:
    found = await _record(app, added.endpoint, EndpointWithSecret, secret=added.secret)
    return Answer(found, headers=etag(added.endpoint.version) | {"cache-control": "no-store"})


ROUTES = [list_, add, show, change, remove, pause, resume, rotate, try_out, recover]
