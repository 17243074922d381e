"""`/v1/orphaned-schedules`: those that code declared and no longer declares, listed and removed.

They are not below `/v1/schedules`, where a schedule may have any name.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.records.schedule import OrphanedSchedule, RemovedOrphans
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.pages import Page, PageQuery, page_of
from duly.surfaces.http.protocol.routing import get, post
from duly.surfaces.http.schedules.bodies import MOST_NAMES

PATH = "/orphaned-schedules"


class RemoveOrphans(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which orphans to remove: those with these names, or all."""

    EXAMPLE: ClassVar = {"names": ["weekly-report"]}
    names: Annotated[tuple[str, ...], Meta(max_length=MOST_NAMES)] = ()
    all: Annotated[bool, Meta(description="all of them")] = False


@get(PATH, operation_id="list_orphaned_schedules")
async def list_(app: Namespace, query: PageQuery) -> Page[OrphanedSchedule]:
    """List schedules that code declared and no longer declares, by name; they still deliver."""
    found = await app.schedules.orphans(after=query.cursor or "", limit=query.limit + 1)
    return page_of(found, query.limit, "name")


@post(f"{PATH}/remove", status=200, repeatable=True, operation_id="remove_orphaned_schedules")
async def remove(app: Namespace, body: RemoveOrphans) -> RemovedOrphans:
    """Remove orphans; a schedule that is no orphan, or no longer one, is kept."""
    if bool(body.names) == body.all:
        raise InvalidInput("names", "give names, or all: true")
    return RemovedOrphans(await app.schedules.remove_orphans(None if body.all else body.names))


ROUTES = [list_, remove]
