"""Lists: filters, pages, and never a scan of the whole ledger."""

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.stores.deliveries import pages
from duly.system import SystemChance
from duly.testing import VirtualClock
from tests.http.conftest import Client
from tests.services.conftest import START, record_payloads

pytestmark = pytest.mark.requirement("S2")


@pytest.fixture
def chance(clock: VirtualClock) -> SystemChance:
    """Ids with the time of the virtual clock."""
    return SystemChance(lambda: int(clock.now().timestamp() * 1000))


async def found(client: Client, **query: Any) -> list[str]:
    """The ids of all pages of a list."""
    ids: list[str] = []
    while True:
        answer = await client.get("/v1/deliveries", params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        ids += [each["id"] for each in page["items"]]
        if page["next"] is None:
            return ids
        query["cursor"] = page["next"]


async def test_each_filter_finds_its_deliveries(
    app: App, client: Client, clock: VirtualClock
) -> None:
    record_payloads(app)
    await app.endpoints.add("shop", "https://shop.example/hook")
    plain = (await app.deliver("work", {"say": "needle"}, tags=["red"], key="k")).id
    clock.advance(60)
    in_stream = (await app.deliver("work", 1, stream="s")).id
    to_shop = (await app.deliver(duly.endpoint("shop"), 1, tags=["red", "blue"])).id
    gone = (await app.deliver("work", 2)).id
    await app.cancel(gone)
    assert await found(client) == [gone, to_shop, in_stream, plain]
    assert await found(client, limit=1) == [gone, to_shop, in_stream, plain]
    assert await found(client, target="endpoint:shop") == [to_shop]
    assert await found(client, tag="red") == [to_shop, plain]
    assert await found(client, key="k") == [plain]
    assert await found(client, key="k", tag="blue") == []
    assert await found(client, stream="s") == [in_stream]
    assert await found(client, stream="s", state="dead") == []
    assert await found(client, stream="none") == []
    assert await found(client, text="needle") == [plain]
    assert await found(client, state="cancelled") == [gone]
    assert await found(client, state="pending") == [to_shop, in_stream, plain]
    later = (START + timedelta(seconds=30)).isoformat()
    assert await found(client, since=later) == [gone, to_shop, in_stream]
    assert await found(client, until=later) == [plain]


async def test_deliveries_are_found_by_their_schedule(
    app: App, client: Client, clock: VirtualClock
) -> None:
    record_payloads(app)
    await app.schedule("nightly", duly.every("1h"), "work")
    await app.schedule("other", duly.every("1h"), "work")
    ids = [await app.schedules.trigger("nightly") for _ in range(3)]
    assert set(ids) < set(await found(client, schedule="nightly", limit=1))
    assert len(await found(client, schedule="nightly")) == 4
    assert await found(client, schedule="none") == []


async def test_a_reason_and_a_state_that_only_the_agenda_has_are_found(
    app: App, client: Client
) -> None:
    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Any) -> None:
        listed["while"] = await found(client, state="processing")
        raise duly.Fail("no")

    listed: dict[str, list[str]] = {}
    id = (await app.deliver("fails")).id
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.step()
    assert listed["while"] == [id]
    reason = (await app.get(id)).reason
    assert await found(client, reason=str(reason), state="dead") == [id]
    assert await found(client, reason="other") == []


async def test_a_page_reads_a_limited_number_and_the_next_continues(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST", 3)
    ids = [(await app.deliver("work", n, tags=["x"] if n == 1 else [])).id for n in range(10)]
    page = (await client.get("/v1/deliveries", params={"tag": "x"})).json()
    assert (page["items"], page["next"]) == ([], ids[7])
    assert await found(client, tag="x") == [ids[1]]
    assert [each.id for each in await app.list(tag="x")] == [ids[1]]
    streamed = [(await app.deliver("work", n, stream="s")).id for n in range(8)]
    assert await found(client, stream="s") == streamed[::-1]
    assert await found(client, stream="s", state="completed") == []


async def test_invalid_filters_are_refused(client: Client) -> None:
    bad = (
        {"limit": "0"},
        {"limit": "201"},
        {"limit": "many"},
        {"stat": "dead"},
        {"state": "died"},
        {"cursor": "banana"},
        {"since": "2026-01-01T00:00:00"},
        {"tag": ""},
    )
    for query in bad:
        answer = await client.get("/v1/deliveries", params=query)
        assert answer.status_code == 422, query
        assert answer.json()["detail"]
