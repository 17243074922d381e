"""`/v1/endpoints`: named webhooks; added, edited, paused, rotated, tested and recovered."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar
from urllib.parse import quote

import msgspec

from duly.records.dead_letter import BulkResult
from duly.records.endpoint import (
    Endpoint,
    EndpointChange,
    EndpointTest,
    EndpointWithSecret,
    NewEndpoint,
)
from duly.records.key import Scope
from duly.records.partial import given
from duly.safe_text import shown_url
from duly.services.namespace import Namespace
from duly.surfaces.http.endpoints.bodies import Recover, RemoveQuery, Rotate, Trial
from duly.surfaces.http.protocol.bodies import Why
from duly.surfaces.http.protocol.bulk import run_bulk
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.etags import etag
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import delete, get, patch, post

NAME = "/endpoints/{name}"
UNCACHED = {"cache-control": "no-store"}
Kind = TypeVar("Kind", bound=Endpoint)


@get("/endpoints", operation_id="list_endpoints")
async def list_(app: Namespace, query: PageQuery) -> Page[Endpoint]:
    """List endpoints by name, with the number of deliveries that wait for each."""
    found = await app.endpoints.list(after=query.cursor or "", limit=query.limit + 1)
    items = list(found[: query.limit])
    return Page(items, items[-1].name if len(found) > query.limit else None)


@post("/endpoints", secret=True, operation_id="add_endpoint", is_versioned=True)
async def add(app: Namespace, body: NewEndpoint) -> Answer[EndpointWithSecret]:
    """Add an endpoint; its secret is only in this answer."""
    added = await app.endpoints.add(**given(body))
    return _answer(added, UNCACHED | {"location": f"/v1/endpoints/{quote(added.name, safe='')}"})


@get(NAME, operation_id="get_endpoint", is_versioned=True)
async def show(app: Namespace, request: Request, name: str) -> Answer[Endpoint]:
    """One endpoint: its state, circuit, limits and plan, and which keys seal its secrets.

    Its URL has the values of its query only for a key with scope admin.
    """
    found = await app.endpoints.get(name)
    if request.caller is None or request.caller.scope is not Scope.ADMIN:
        found = msgspec.structs.replace(found, url=shown_url(found.url))
    return _answer(found)


@patch(NAME, operation_id="update_endpoint", is_versioned=True)
async def change(
    app: Namespace, name: str, version: int | None, body: EndpointChange
) -> Answer[Endpoint]:
    """Change the given options; each delivery uses them from its next attempt on."""
    return _answer(await app.endpoints.edit(name, version=version, **given(body)))


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
async def pause(app: Namespace, name: str, body: Why | None = None) -> Answer[Endpoint]:
    """Let its deliveries wait until it is resumed; attempts under way continue."""
    return _answer(await app.endpoints.pause(name, None if body is None else body.reason))


@post(f"{NAME}/resume", status=200, operation_id="resume_endpoint", is_versioned=True)
async def resume(app: Namespace, name: str) -> Answer[Endpoint]:
    """Send its deliveries again after it was paused or disabled, or its circuit opened."""
    return _answer(await app.endpoints.resume(name))


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
    """Set a new secret, which is only in this answer; the old one stays valid for a while."""
    wanted = body or Rotate()
    overlap = timedelta(seconds=wanted.overlap_seconds)
    rotated = await app.endpoints.rotate(name, secret=wanted.secret, overlap=overlap)
    return _answer(rotated, UNCACHED)


@post(f"{NAME}/test", status=200, operation_id="test_endpoint")
async def try_out(app: Namespace, name: str, body: Trial | None = None) -> EndpointTest:
    """Send a test request at once, in any state of the endpoint; nothing is stored."""
    sent = None if body is None else checked(body.payload)
    return await app.endpoints.test(name, None if sent is None or sent.data == b"null" else sent)


@post(f"{NAME}/recover", status=200, repeatable=True, operation_id="recover_endpoint")
async def recover(app: Namespace, request: Request, name: str, body: Recover) -> BulkResult:
    """Retry its dead letters with all their attempts."""
    matching = await app.endpoints.count_dead(name, body.since, body.until)
    moves = app.endpoints.recover(name, body.since, rate=body.rate, until=body.until)
    return await run_bulk(request, app.clock, body, matching, moves, body.rate)


def _answer(found: Kind, headers: dict[str, str] | None = None) -> Answer[Kind]:
    return Answer(found, headers=etag(found.version) | (headers or {}))


ROUTES = [list_, add, show, change, remove, pause, resume, rotate, try_out, recover]
