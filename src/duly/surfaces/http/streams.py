"""`/v1/streams`: looked at, configured, paused, resumed, and set going again."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from litestar import get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, SkipValidation
from msgspec import Meta

from duly.domain.streams.policy import OnFailure
from duly.domain.streams.stream import Stream
from duly.surfaces.http.protocol.bodies import Note, Why
from duly.surfaces.http.protocol.decoding import asked
from duly.surfaces.http.protocol.pages import Page, PageQuery
from duly.surfaces.http.protocol.request_context import Served

NAME = "/streams/{name:str}"


class StreamQuery(PageQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which streams to list."""

    state: Annotated[str, Meta(description="blocked or paused; all of them without")] | None = None


class StreamChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a failed head does to those behind it; null is block."""

    EXAMPLE: ClassVar = {"on_failure": "release"}
    on_failure: OnFailure | None


@get("/streams", dependencies={"wanted": asked(StreamQuery)}, operation_id="list_streams")
async def list_(
    duly_app: Served, wanted: NamedDependency[SkipValidation[StreamQuery]]
) -> Page[Stream]:
    """List streams by name: all of them, or those that stand still."""
    found = await duly_app.streams.list(
        wanted.state, after=wanted.cursor or "", limit=wanted.limit + 1
    )
    items = list(found[: wanted.limit])
    return Page(items, items[-1].name if len(found) > wanted.limit else None)


@get(NAME, operation_id="get_stream")
async def show(duly_app: Served, name: FromPath[str]) -> Stream:
    """One stream: its head, what holds it up, who waits, and what can be done."""
    return await duly_app.streams.get(name)


@patch(NAME, operation_id="update_stream")
async def configure(duly_app: Served, name: FromPath[str], data: JSONBody[StreamChange]) -> Stream:
    """Say what a failed head does to those behind it."""
    return await duly_app.streams.configure(name, on_failure=data.on_failure)


@post(f"{NAME}/pause", status_code=200, operation_id="pause_stream")
async def pause(duly_app: Served, name: FromPath[str], data: JSONBody[Why | None] = None) -> Stream:
    """Start nothing more of it until it is resumed; it goes on accepting."""
    return await duly_app.streams.pause(name, None if data is None else data.reason)


@post(f"{NAME}/resume", status_code=200, operation_id="resume_stream")
async def resume(duly_app: Served, name: FromPath[str]) -> Stream:
    """Let it go on where it stopped; one that is blocked stays so."""
    return await duly_app.streams.resume(name)


@post(f"{NAME}/retry", status_code=200, operation_id="retry_stream")
async def retry(duly_app: Served, name: FromPath[str]) -> Stream:
    """Try its head now: one that waits is due, a dead one is pending with all its attempts."""
    return await duly_app.streams.retry_now(name)


@post(f"{NAME}/release", status_code=200, operation_id="release_stream")
async def release(duly_app: Served, name: FromPath[str]) -> Stream:
    """Let those behind a failed head go on."""
    return await duly_app.streams.release(name)


@post(f"{NAME}/dead-letter", status_code=200, operation_id="dead_letter_stream_head")
async def dead_letter(
    duly_app: Served, name: FromPath[str], data: JSONBody[Note | None] = None
) -> Stream:
    """Give its head up; those behind it go on, whatever the policy."""
    return await duly_app.streams.dead_letter_head(name, None if data is None else data.note)


ROUTES = [list_, show, configure, pause, resume, retry, release, dead_letter]
