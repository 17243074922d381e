"""`/v1/limits`: the limits of handlers and endpoints, and how far they are used."""

from __future__ import annotations

from duly.records.limit import Limit, LimitKey
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.pages import Page, PageQuery, page_of
from duly.surfaces.http.protocol.routing import get


@get("/limits", operation_id="list_limits")
async def list_(app: Namespace, query: PageQuery) -> Page[Limit]:
    """List the targets that have limits, with what runs and what waits for each."""
    found = await app.limits.list(after=query.cursor or "", limit=query.limit + 1)
    return page_of(found, query.limit, "target")


@get("/limits/{target}", operation_id="get_limit")
async def show(app: Namespace, target: str) -> Limit:
    """The limits of one target, and how far they are used now."""
    return await app.limits.get(target)


@get("/limits/{target}/keys", operation_id="list_limit_keys")
async def keys(app: Namespace, target: str, query: PageQuery) -> Page[LimitKey]:
    """List the keys of a target that were used lately, with what runs and waits for each."""
    found = await app.limits.keys(target, after=query.cursor or "", limit=query.limit + 1)
    return page_of(found, query.limit, "key")


ROUTES = [list_, show, keys]
