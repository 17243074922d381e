"""`/v1/batches`: opened, listed, closed and cancelled."""

from __future__ import annotations

import msgspec

from duly.domain.endpoints.targets import target_of
from duly.errors import InvalidInput, NotFound
from duly.records.batch import Batch, BatchState, NewBatch
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.decoding import checked
from duly.surfaces.http.protocol.pages import Page, PageQuery, page_of
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import get, post

ID = "/batches/{id}"


class BatchQuery(PageQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which batches to list."""

    state: BatchState | None = None


@post("/batches", repeatable=True, operation_id="open_batch")
async def open_(app: Namespace, request: Request, body: NewBatch) -> Answer[Batch]:
    """Open a batch: when all its members have ended, `then` is delivered once.

    Deliveries become members with `batch`, the id of an open batch.
    """
    then = msgspec.structs.asdict(body.then)
    then |= {"target": target_of(body.then.target), "payload": checked(body.then.payload)}
    try:
        opened = await app.batches.open(then, name=body.name, id=request.seed)
    except NotFound as error:
        # The body names a target that does not exist; the path is right.
        raise InvalidInput("target", str(error)) from error
    return Answer(opened, 201, {"location": f"/v1/batches/{opened.id}"})


@get("/batches", operation_id="list_batches")
async def list_(app: Namespace, query: BatchQuery) -> Page[Batch]:
    """List batches, newest first, with their progress."""
    found = await app.batches.list(query.state, before=query.cursor, limit=query.limit + 1)
    return page_of(found, query.limit, "id")


@get(ID, operation_id="get_batch")
async def show(app: Namespace, id: str) -> Batch:
    """One batch with the progress of its members."""
    return await app.batches.get(id)


@post(f"{ID}/close", status=200, operation_id="close_batch")
async def close(app: Namespace, id: str) -> Batch:
    """Take no more members: the batch finishes when those that it has have ended."""
    return await app.batches.close(id)


@post(f"{ID}/cancel", status=200, operation_id="cancel_batch")
async def cancel(app: Namespace, id: str) -> Batch:
    """Take no more members, cancel those that wait, and send no completion.

    Of a large batch, the workers cancel the rest.
    """
    return await app.batches.cancel(id)


ROUTES = [open_, list_, show, close, cancel]
