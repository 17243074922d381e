"""HEAD, wherever GET is: the same status and headers, and no body."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from duly.testing import VirtualClock
from tests.http.doors import Port, port
from tests.http.protocol.test_routes import ENDLESS, furnished, walk

pytestmark = pytest.mark.requirement("S2")
DEADLINE_SECONDS = 20.0
CHANGING = {"date", "content-length"}
"""Headers that tell of the moment; figures of this very request make a page longer."""


@pytest.fixture
async def public(database_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    async with port(database_url, clock, host="0.0.0.0") as found:
        yield found


async def test_every_route_that_answers_get_answers_head_alike(public: Port) -> None:
    named, key = await furnished(public.app), await public.token("admin")
    walked = [each for each in walk(public) if each.method == "GET"]
    assert len(walked) > 15
    for each in walked:
        if each.path in ENDLESS:
            continue
        path = each.at(named)
        whole, head = await public.ask(path, key=key), await public.ask(path, "HEAD", key=key)
        assert (head.status_code, head.content) == (whole.status_code, b""), each
        assert "content-length" in head.headers, each
        wanted, found = (
            {name: value for name, value in answer.headers.items() if name not in CHANGING}
            for answer in (whole, head)
        )
        assert found == wanted, each


async def test_a_head_is_refused_where_a_get_is(public: Port) -> None:
    for each in walk(public):
        path = each.at({f"/v1/{kind}": "none" for kind in KINDS})
        if each.path in ENDLESS:
            continue
        whole, head = await public.ask(path), await public.ask(path, "HEAD")
        assert (head.status_code, head.content) == (whole.status_code, b""), each


KINDS = ("deliveries", "streams", "endpoints", "schedules", "keys", "workers", "dead-letters")


async def test_the_head_of_an_endless_answer_ends(public: Port) -> None:
    key = await public.token("read")
    for path in ENDLESS:
        async with asyncio.timeout(DEADLINE_SECONDS):
            head = await public.ask(path, "HEAD", key=key)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")
