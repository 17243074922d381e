"""HEAD has the same status and headers as GET, and no body."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from duly.testing import VirtualClock
from tests.http.ports import Port, port
from tests.http.protocol.test_routes import ENDLESS, all_methods, fill_store

pytestmark = pytest.mark.requirement("S2")
DEADLINE_SECONDS = 20.0
CHANGING = {"date", "content-length"}
"""Headers that change with time; metrics of the request itself change the length."""


@pytest.fixture
async def public(database_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    async with port(database_url, clock, host="0.0.0.0") as found:
        yield found


async def test_every_route_with_get_answers_head_alike(public: Port) -> None:
    named, key = await fill_store(public.app), await public.token("admin")
    walked = [each for each in all_methods(public) if each.method == "GET"]
    assert len(walked) > 15
    for each in walked:
        if each.path in ENDLESS:
            continue
        path = each.at(named)
        whole, head = (
            await public.request(path, key=key),
            await public.request(path, "HEAD", key=key),
        )
        assert (head.status_code, head.content) == (whole.status_code, b""), each
        assert "content-length" in head.headers, each
        wanted, found = (
            {name: value for name, value in answer.headers.items() if name not in CHANGING}
            for answer in (whole, head)
        )
        assert found == wanted, each


async def test_a_head_is_refused_where_a_get_is(public: Port) -> None:
    for each in all_methods(public):
        path = each.at({f"/v1/{kind}": "none" for kind in KINDS})
        if each.path in ENDLESS:
            continue
        whole, head = await public.request(path), await public.request(path, "HEAD")
        assert (head.status_code, head.content) == (whole.status_code, b""), each


KINDS = (
    *("deliveries", "streams", "endpoints", "schedules", "calendars", "keys", "workers"),
    *("dead-letters", "recovery", "limits", "batches"),
)


async def test_head_of_an_event_stream_ends(public: Port) -> None:
    key = await public.token("read")
    for path in ENDLESS:
        async with asyncio.timeout(DEADLINE_SECONDS):
            head = await public.request(path, "HEAD", key=key)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")
