"""`/v1/workers`: listed, drained and resumed."""

from __future__ import annotations

import msgspec

from duly.errors import InvalidInput
from duly.records.worker import Worker
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.pages import Most, Page
from duly.surfaces.http.protocol.routing import get, post


class WorkerQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many to list."""

    limit: Most = 100


@get("/workers", operation_id="list_workers")
async def list_(app: Namespace, query: WorkerQuery) -> Page[Worker]:
    """List workers, live ones first."""
    return Page(list(await app.workers.list(limit=query.limit)), None)


@post("/workers/{id}/drain", status=200, operation_id="drain_worker")
async def drain(app: Namespace, id: str) -> Worker:
    """Stop a worker from starting deliveries; those under way finish."""
    return await app.workers.drain(_number(id))


@post("/workers/{id}/resume", status=200, operation_id="resume_worker")
async def resume(app: Namespace, id: str) -> Worker:
    """Let a drained worker start deliveries again."""
    return await app.workers.resume(_number(id))


def _number(id: str) -> int:
    if not id.isascii() or not id.isdecimal() or len(id) > 15:
        raise InvalidInput("id", f"{id!r} is not the number of a worker")
    return int(id)


ROUTES = [list_, drain, resume]
