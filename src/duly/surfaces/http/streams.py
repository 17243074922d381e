"""`/v1/streams`: listed, configured, paused, resumed, retried and released."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.domain.streams.selection import MOST_CHOSEN
from duly.records.partial import given
from duly.records.stream import Stream, StreamChange
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.bodies import Note, Why
from duly.surfaces.http.protocol.pages import Page, PageQuery, page_of
from duly.surfaces.http.protocol.routing import get, patch, post

NAME = "/streams/{name}"
Ids = Annotated[tuple[str, ...], Meta(max_length=MOST_CHOSEN)]


class StreamQuery(PageQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which streams to list."""

    state: Annotated[str, Meta(description="blocked or paused; all by default")] | None = None


class Followers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deliveries behind the head are released; all if neither is given."""

    EXAMPLE: ClassVar = {"only": ["01a1dfd1-5f0e-7c4b-9d5e-1f0c2a3b4c5d"]}
    only: Ids | None = None
    keep: Ids | None = None


@get("/streams", operation_id="list_streams")
async def list_(app: Namespace, query: StreamQuery) -> Page[Stream]:
    """List streams by name: all of them, or those that are blocked or paused."""
    found = await app.streams.list(query.state, after=query.cursor or "", limit=query.limit + 1)
    return page_of(found, query.limit, "name")


@get(NAME, operation_id="get_stream")
async def show(app: Namespace, name: str) -> Stream:
    """One stream: its head, why it waits, what waits behind it, and what to do."""
    return await app.streams.get(name)


@patch(NAME, operation_id="update_stream")
async def configure(app: Namespace, name: str, body: StreamChange) -> Stream:
    """Set what a failed head does to those behind it, and for how long at most."""
    return await app.streams.configure(name, **given(body))


@post(f"{NAME}/pause", status=200, operation_id="pause_stream")
async def pause(app: Namespace, name: str, body: Why | None = None) -> Stream:
    """Start no more of its deliveries until it is resumed; it still accepts new ones."""
    return await app.streams.pause(name, None if body is None else body.reason)


@post(f"{NAME}/resume", status=200, operation_id="resume_stream")
async def resume(app: Namespace, name: str) -> Stream:
    """Continue a paused stream; one that is blocked stays blocked."""
    return await app.streams.resume(name)


@post(f"{NAME}/retry", status=200, operation_id="retry_stream")
async def retry(app: Namespace, name: str) -> Stream:
    """Retry its head now; a dead one gets all its attempts again."""
    return await app.streams.retry_now(name)


@post(f"{NAME}/release", status=200, operation_id="release_stream")
async def release(app: Namespace, name: str, body: Followers | None = None) -> Stream:
    """Let those behind a failed head proceed: all of them, or a selection while the head stays."""
    body = body or Followers()
    return await app.streams.release(name, only=body.only, keep=body.keep)


@post(f"{NAME}/cancel", status=200, operation_id="cancel_stream_head")
async def cancel(app: Namespace, name: str) -> Stream:
    """Cancel its head, or ask for it if it runs; those behind it proceed."""
    return await app.streams.cancel_head(name)


@post(f"{NAME}/dead-letter", status=200, operation_id="dead_letter_stream_head")
async def dead_letter(app: Namespace, name: str, body: Note | None = None) -> Stream:
    """Make its head a dead letter; those behind it proceed under any policy."""
    return await app.streams.dead_letter_head(name, None if body is None else body.note)


ROUTES = [list_, show, configure, pause, resume, retry, release, cancel, dead_letter]
