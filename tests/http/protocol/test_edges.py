"""Unusual requests: duplicate values, cursors of other namespaces, very slow rates."""

import asyncio
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from duly import App, endpoint
from duly.services import dead_letters
from duly.stores.deliveries import pages as stored_pages
from duly.testing import VirtualClock, run_until_idle
from tests.http.conftest import Client
from tests.http.ports import port

pytestmark = pytest.mark.requirement("S2")


async def test_a_duplicate_header_is_refused(sqlite_url: str, clock: VirtualClock) -> None:
    async with port(sqlite_url, clock) as found:
        key = await found.token("read")
        own = [("Authorization", f"Bearer {key}"), ("authorization", "Bearer duly_x_y")]
        for headers in (own, own[::-1], [("host", "127.0.0.1"), ("host", "evil.example")]):
            async with AsyncClient(transport=ASGITransport(found.site)) as client:
                answer = await client.get("http://127.0.0.1/v1/workers", headers=headers)
            assert answer.status_code == 400, headers
            assert "given twice" in answer.json()["detail"]


async def test_a_duplicate_query_parameter_is_refused(client: Client) -> None:
    answer = await client.get("/v1/deliveries?state=dead&state=pending")
    assert (answer.status_code, answer.json()["field"]) == (422, "state")
    assert (await client.get("/v1/dead-letters/groups?cursor=x")).status_code == 422


async def test_a_duplicate_name_in_an_object_is_refused_at_any_depth(
    app: App, client: Client
) -> None:
    for body in (
        b'{"target": "a", "target": "work"}',
        b'{"target": "work", "payload": {"a": 1, "a": 2}}',
    ):
        answer = await client.post("/v1/deliveries", content=body)
        assert (answer.status_code, answer.json()["field"]) == (422, "body")
        assert "twice in one object" in answer.json()["detail"]
        many = await client.post("/v1/deliveries/bulk", content=b'[%s, {"target": "work"}]' % body)
        assert [many.json()[each] for each in ("accepted", "refused")] == [1, 1]
        lines = await client.post(
            "/v1/deliveries/bulk",
            content=b'%s\n{"target": "work"}' % body,
            headers={"content-type": "application/x-ndjson"},
        )
        assert "twice" in lines.json()["items"][0]["problem"]["detail"]
    assert len(await app.list()) == 4
    alike = b'{"target": "work", "payload": [{"a": 1}, {"a": {"a": 1}}, "\\"a\\": 1", "a"]}'
    assert (await client.post("/v1/deliveries", content=alike)).status_code == 201


async def test_a_cursor_of_another_namespace_reveals_nothing(app: App, client: Client) -> None:
    theirs = app.within("billing")
    theirs.expect("work")
    for stream in ("line", "other"):
        for _ in range(3):
            await app.deliver("work", stream=stream)
    cursor = (await theirs.deliver("work", stream="line")).id
    for place in (cursor, "01980000-0000-7000-8000-000000000000"):
        answer = await client.get("/v1/deliveries", params={"stream": "line", "cursor": place})
        assert answer.json() == {"items": [], "next": None}


async def test_a_small_namespace_does_not_read_the_whole_ledger(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "MOST", 3)
    for _ in range(7):
        await app.deliver("work")
    theirs = app.within("billing")
    pages, cursor = [], None
    while not pages or cursor is not None:
        page = await theirs.page(before=cursor)
        cursor = page.next
        pages.append(len(page.items))
    assert pages == [0, 0, 0]


async def test_running_deliveries_are_found_however_old_they_are(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "MOST", 3)
    begun, ends = asyncio.Event(), asyncio.Event()

    @app.handler("slow")
    async def slow(delivery: Any) -> None:
        begun.set()
        await ends.wait()

    old = (await app.deliver("slow", tags=["red"])).id
    for _ in range(9):
        await app.deliver("work", after=60)
    working = asyncio.create_task(run_until_idle(app))
    await asyncio.wait_for(begun.wait(), 10)
    for more, wanted in (({}, [old]), ({"tag": "red"}, [old]), ({"tag": "blue"}, [])):
        query = {"state": "processing", **more}
        page = (await client.get("/v1/deliveries", params=query)).json()
        assert ([each["id"] for each in page["items"]], page["next"]) == (wanted, None)
    ends.set()
    await working


async def test_a_slow_rate_does_not_delay_the_answer(
    app: App, client: Client, clock: VirtualClock
) -> None:
    for n in range(3):
        await app.deliver("work", stream=f"s{n}", after=60)
        await app.streams.dead_letter_head(f"s{n}")
    sent = {"all": True, "rate": 0.001}
    answer = await asyncio.wait_for(client.post("/v1/dead-letters/retry", json=sent), 10)
    moved = answer.json()
    assert (moved["matching"], moved["moved"], moved["finished"]) == (3, 1, False)
    more = {"until": moved["until"], "rate": 1000}
    rest = (await client.post("/v1/dead-letters/retry", json=sent | more)).json()
    assert (rest["moved"], rest["finished"]) == (2, True)


async def test_an_endpoint_is_removed_only_at_the_expected_version(
    app: App, client: Client
) -> None:
    new = {"name": "a/b", "url": "https://example.org/"}
    added = await client.post("/v1/endpoints", json=new)
    path, version = added.headers["location"], {"if-match": added.headers["etag"]}
    assert path == "/v1/endpoints/a%2Fb"
    await client.patch(path, json={"description": "changed"})
    await app.deliver(endpoint("a/b"))
    for query in ("", "?cancel_waiting=true"):
        assert (await client.delete(path + query, headers=version)).status_code == 412
    found = await client.get(path)
    assert (found.json()["state"], found.json()["waiting"]) == ("active", 1)
    right = {"if-match": found.headers["etag"]}
    assert (await client.delete(f"{path}?cancel_waiting=true", headers=right)).status_code == 204
    assert (await client.get(path)).status_code == 404


async def test_a_page_of_dead_letters_reads_a_limited_number(
    app: App, client: Client, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LOOKED_AT", 2)
    for n in range(7):
        await app.deliver("work", stream=f"s{n}", after=60, tags=["red"] if n == 1 else [])
        await app.streams.dead_letter_head(f"s{n}")
        # Two die at the same moment each time.
        clock.advance(n % 2)
    for query, wanted in (({}, 7), ({"tag": "red"}, 1), ({"tag": "none"}, 0)):
        ids, cursor, pages = [], None, 0
        while cursor is not None or not pages:
            parameters = query if cursor is None else query | {"cursor": cursor}
            page = (await client.get("/v1/dead-letters", params=parameters)).json()
            ids += [each["id"] for each in page["items"]]
            cursor, pages = page["next"], pages + 1
        assert (len(ids), len(set(ids))) == (wanted, wanted)
        assert pages > 1


async def test_groups_count_all_in_their_index_and_otherwise_the_latest(
    app: App, client: Client, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.dead_letters.LOOKED_AT", 2)
    for n in range(6):
        await app.deliver("work", stream=f"s{n}", after=60, tags=["red"])
        await app.streams.dead_letter_head(f"s{n}")
        clock.advance(1)

    async def counted(**query: str) -> list[int]:
        found = (await client.get("/v1/dead-letters/groups", params=query)).json()
        return [each["count"] for each in found["items"]]

    assert await counted() == [6]
    assert await counted(target="work") == [6]
    assert await counted(target="nobody") == []
    # The row at the limit is read as well.
    assert await counted(tag="red") == [3]
    assert await counted(tag="none") == []
