"""`/v1/workers`: who works."""

from __future__ import annotations

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from duly.ports import WorkerRow
from duly.surfaces.http.bodies import asked
from duly.surfaces.http.cursors import Limit, Page
from duly.surfaces.http.served import Served


class WorkerQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many to list."""

    limit: Limit = 100


@get("/workers", dependencies={"wanted": asked(WorkerQuery)})
async def list_(
    duly_app: Served, wanted: NamedDependency[SkipValidation[WorkerQuery]]
) -> Page[WorkerRow]:
    """List workers, those alive first."""
    return Page(await duly_app.store.workers.roster(wanted.limit), None)


ROUTES = [list_]
