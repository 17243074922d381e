"""`/v1/workers`: who works, and who is to start nothing more."""

from __future__ import annotations

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, SkipValidation

from duly.errors import InvalidInput
from duly.ports import WorkerRow
from duly.surfaces.http.protocol.decoding import asked
from duly.surfaces.http.protocol.pages import Most, Page
from duly.surfaces.http.protocol.request_context import Served


class WorkerQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many to list."""

    limit: Most = 100


@get("/workers", dependencies={"wanted": asked(WorkerQuery)}, operation_id="list_workers")
async def list_(
    duly_app: Served, wanted: NamedDependency[SkipValidation[WorkerQuery]]
) -> Page[WorkerRow]:
    """List workers, those alive first."""
    return Page(list(await duly_app.workers.list(limit=wanted.limit)), None)


@post("/workers/{id:str}/drain", status_code=204, operation_id="drain_worker")
async def drain(duly_app: Served, id: FromPath[str]) -> None:
    """Let a worker start nothing more; what runs there ends, and it stays."""
    await duly_app.workers.drain(_number(id))


@post("/workers/{id:str}/resume", status_code=204, operation_id="resume_worker")
async def resume(duly_app: Served, id: FromPath[str]) -> None:
    """Let a drained worker start work again."""
    await duly_app.workers.resume(_number(id))


def _number(id: str) -> int:
    if not id.isascii() or not id.isdecimal() or len(id) > 15:
        raise InvalidInput("id", f"{id!r} is no worker's number")
    return int(id)


ROUTES = [list_, drain, resume]
