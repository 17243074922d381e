"""`/v1/endpoints`: named webhooks; added, edited, paused, rotated, tested and recovered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, SkipValidation

from duly.domain.access.keys import Scope
from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.services.endpoints import Added
from duly.services.namespace import Namespace
from duly.surfaces.http.dead_letters.bodies import Moved, carried_out, counted
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
from duly.surfaces.http.protocol.decoding import asked, checked
from duly.surfaces.http.protocol.etags import ETAG, IF_MATCH, Version, etag
from duly.surfaces.http.protocol.hangups import while_heard
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.request_context import AnyRequest, Served
from duly.surfaces.standing import record, tried

NAME = "/endpoints/{name:str}"
Kind = TypeVar("Kind", bound=EndpointRecord)


@get("/endpoints", dependencies={"wanted": asked(PageQuery)}, operation_id="list_endpoints")
async def list_(
    duly_app: Served, wanted: NamedDependency[SkipValidation[PageQuery]]
) -> Page[EndpointRecord]:
    """List endpoints by name, with what waits for each."""
    found = await duly_app.endpoints.list(after=wanted.cursor or "", limit=wanted.limit + 1)
    items = [await _record(duly_app, each, EndpointRecord) for each in found[: wanted.limit]]
    return Page(items, items[-1].name if len(found) > wanted.limit else None)


@post("/endpoints", opt={"secret": True}, operation_id="add_endpoint", response_headers=ETAG)
async def add(duly_app: Served, data: JSONBody[NewEndpoint]) -> Response[EndpointWithSecret]:
    """Add an endpoint; its secret is in the answer, and never again."""
    added = await duly_app.endpoints.add(data.name, **data.details())
    answer = await _told_once(duly_app, added)
    answer.headers["location"] = f"/v1/endpoints/{quote(data.name, safe='')}"
    return answer


@get(NAME, operation_id="get_endpoint", response_headers=ETAG)
async def show(
    duly_app: Served, request: AnyRequest, name: FromPath[str]
) -> Response[EndpointRecord]:
    """One endpoint: its state, circuit, limits and plan, and which keys seal its secrets.

    Its URL has the values of its query only for a key with scope admin.
    """
    endpoint = await duly_app.endpoints.get(name)
    may_see = request.scope["state"]["caller"].scope is Scope.ADMIN
    return await _shown(duly_app, endpoint, url=endpoint.details.url if may_see else None)


@patch(NAME, dependencies=IF_MATCH, operation_id="update_endpoint", response_headers=ETAG)
async def change(
    duly_app: Served, name: FromPath[str], version: Version, data: JSONBody[EndpointChange]
) -> Response[EndpointRecord]:
    """Change what is given; it counts from the next attempt of each delivery."""
    edited = await duly_app.endpoints.edit(name, version=version, **data.details())
    return await _shown(duly_app, edited)


@delete(
    NAME, dependencies={"wanted": asked(RemoveQuery), **IF_MATCH}, operation_id="remove_endpoint"
)
async def remove(
    duly_app: Served,
    name: FromPath[str],
    version: Version,
    wanted: NamedDependency[SkipValidation[RemoveQuery]],
) -> None:
    """Remove an endpoint that nothing waits for, and that no schedule sends to."""
    await duly_app.endpoints.remove(name, cancel_waiting=wanted.cancel_waiting, version=version)


@post(f"{NAME}/pause", status_code=200, operation_id="pause_endpoint", response_headers=ETAG)
async def pause(
    duly_app: Served, name: FromPath[str], data: JSONBody[Why | None] = None
) -> Response[EndpointRecord]:
    """Let its deliveries wait until it is resumed; what is under way goes on."""
    reason = None if data is None else data.reason
    return await _shown(duly_app, await duly_app.endpoints.pause(name, reason))


@post(f"{NAME}/resume", status_code=200, operation_id="resume_endpoint", response_headers=ETAG)
async def resume(duly_app: Served, name: FromPath[str]) -> Response[EndpointRecord]:
    """Let its deliveries go, whether it was paused, disabled or its circuit was open."""
    return await _shown(duly_app, await duly_app.endpoints.resume(name))


@post(
    f"{NAME}/rotate",
    status_code=200,
    opt={"secret": True},
    operation_id="rotate_endpoint_secret",
    response_headers=ETAG,
)
async def rotate(
    duly_app: Served, name: FromPath[str], data: JSONBody[Rotate | None] = None
) -> Response[EndpointWithSecret]:
    """Give it a new secret, which is in the answer; the old one signs too for a while."""
    given = data or Rotate()
    overlap = timedelta(seconds=given.overlap_seconds)
    rotated = await duly_app.endpoints.rotate(name, secret=given.secret, overlap=overlap)
    return await _told_once(duly_app, rotated)


@post(f"{NAME}/test", status_code=200, operation_id="test_endpoint")
async def try_out(
    duly_app: Served, name: FromPath[str], data: JSONBody[Trial | None] = None
) -> Tried:
    """Send something there at once, whatever its state; it leaves no trace on the books."""
    endpoint = await duly_app.endpoints.get(name)
    given = None if data is None else checked(data.payload)
    payload = None if given is None or given.data == b"null" else given
    outcome = await duly_app.endpoints.test(name, payload)
    return msgspec.convert(tried(endpoint, outcome), Tried)


@post(f"{NAME}/recover", status_code=200, opt={"repeatable": True}, operation_id="recover_endpoint")
async def recover(
    duly_app: Served, request: AnyRequest, name: FromPath[str], data: JSONBody[Recover]
) -> Moved:
    """Try its dead letters again, with all their attempts."""
    matching = await duly_app.endpoints.count_dead(name, data.since, data.until)
    if data.dry_run:
        return counted(matching)
    moves = duly_app.endpoints.recover(name, data.since, rate=data.rate, until=data.until)
    work = carried_out(matching, moves, duly_app.clock, data.seconds, data.rate)
    return await while_heard(request, work)


async def _record(app: Namespace, endpoint: StoredEndpoint, kind: type[Kind], **more: Any) -> Kind:
    found = record(await app.endpoints.standing(endpoint)) | more
    known = {name: found[name] for name in kind.__struct_fields__}
    known["retry"] = msgspec.json.decode(known["retry"])
    return msgspec.convert(known, kind)


async def _shown(
    app: Namespace, endpoint: StoredEndpoint, url: str | None = None
) -> Response[EndpointRecord]:
    """The endpoint; a `url` is shown in place of the masked one."""
    found = await _record(app, endpoint, EndpointRecord, **({} if url is None else {"url": url}))
    return Response(found, headers=etag(endpoint.version))


async def _told_once(app: Namespace, added: Added) -> Response[EndpointWithSecret]:
    found = await _record(app, added.endpoint, EndpointWithSecret, secret=added.secret)
    return Response(found, headers=etag(added.endpoint.version) | {"cache-control": "no-store"})


ROUTES = [list_, add, show, change, remove, pause, resume, rotate, try_out, recover]
