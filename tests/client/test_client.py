"""duly.Client against a real server: the same calls as an App, over HTTP."""

import asyncio
from typing import Any

import pytest
import uvloop

import duly
from duly.surfaces.http.protocol.problems import problem_reply
from duly.testing import VirtualClock
from tests.client.servers import losing
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("C10", "S6")
UNKNOWN = "00000000-0000-7000-8000-000000000000"


async def test_it_delivers_and_shows_the_delivery(url: str) -> None:
    async with duly.Client(url) as client:
        accepted = await client.deliver("log", {"n": 1}, after=60, tags=["red"], key="one")
        repeated = await client.deliver("log", {"n": 1}, after=60, tags=["red"], key="one")
        found = await client.get(accepted.id)
    assert (repeated.id, repeated.known, accepted.known) == (accepted.id, True, False)
    assert (found.payload, found.tags, found.due_at) == ({"n": 1}, ["red"], accepted.due_at)


async def test_it_works_without_a_with_block_and_can_be_closed_twice(url: str) -> None:
    client = duly.Client(f"{url}/")
    assert (await client.stats.status()).store == "sqlite"
    await client.close()
    await client.close()


def test_it_works_in_several_event_loops(url: str) -> None:
    client = duly.Client(url)

    async def used() -> str:
        async with client:
            return (await client.stats.status()).store

    assert [asyncio.run(used()), uvloop.run(used())] == ["sqlite", "sqlite"]


def test_it_works_on_uvloop_with_large_payloads(url: str) -> None:
    async def used() -> None:
        async with duly.Client(url) as client:
            payload = "x" * 250_000
            items = [{"target": "log", "payload": payload, "after": 60, "tags": ["large"]}] * 12
            accepted = await client.deliver_many(items)
            found = await client.list(tag="large")
            assert {each.id for each in found} == {each.id for each in accepted}
            assert all(each.payload == payload for each in found)
            assert (await anext(client.events())).workers == 1

    uvloop.run(used())


async def test_many_are_accepted_together_or_not_at_all(url: str) -> None:
    items: list[Any] = [("log", n) for n in range(3)]
    items.append({"target": "log", "payload": 3, "after": 60, "tags": ["together"]})
    async with duly.Client(url) as client:
        accepted = await client.deliver_many(items)
        found = [await client.get(each.id) for each in accepted]
        assert [each.payload for each in found] == [0, 1, 2, 3]
        assert [each.due_at for each in found] == [each.due_at for each in accepted]
        assert await client.deliver_many([]) == []
        with pytest.raises(duly.InvalidInput) as wrong:
            await client.deliver_many([{"target": "log", "tags": ["half"]}, ("nobody", 1)])
        assert wrong.value.field.endswith("target")
        with pytest.raises(duly.NotFound):
            await client.deliver_many([(duly.endpoint("nobody"), 1)])
        for bad in ([{"payload": 1}], [("log", 1)] * 10_001):
            with pytest.raises(duly.InvalidInput, match="items: "):
                await client.deliver_many(bad)
        assert await client.list(tag="half") == []


async def test_each_error_is_the_one_that_an_app_raises(url: str) -> None:
    async with duly.Client(url) as client:
        with pytest.raises(duly.InvalidInput) as invalid:
            await client.deliver("log", key="a\tb")
        assert invalid.value.field == "key"
        with pytest.raises(duly.InvalidInput, match=r"target: .*nobody"):
            await client.deliver("nobody")
        with pytest.raises(duly.NotFound, match="no endpoint 'nobody'"):
            await client.deliver(duly.endpoint("nobody"))
        with pytest.raises(duly.NotFound, match=UNKNOWN):
            await client.get(UNKNOWN)
        await client.deliver("log", 1, key="taken", after=60)
        with pytest.raises(duly.Conflict, match="taken"):
            await client.deliver("log", 2, key="taken", after=60)


async def test_a_key_is_a_setting(url: str) -> None:
    wrong = f"duly_{'a' * 16}_{'b' * 52}"
    async with duly.Client(url, key=wrong) as client:
        with pytest.raises(duly.BadSetting, match=r"key: .*wrong, expired or revoked") as refused:
            await client.stats.status()
    assert wrong not in str(refused.value)
    async with duly.Client(url) as admin:
        made = await admin.keys.create("looks", scope="read")
    async with duly.Client(url, key=made.token) as client:
        await client.stats.status()
        with pytest.raises(duly.BadSetting, match="scope operate"):
            await client.deliver("log")


@pytest.mark.parametrize(
    "given",
    [
        {"server": ""},
        {"server": "localhost:8787"},
        {"server": "http://user:pw@host"},
        {"server": "http://host:99999"},
        {"server": "http://host", "key": "hunter2"},
        {"server": "http://host", "connections": 0},
        {"server": "http://host", "timeout": 0},
    ],
    ids=str,
)
def test_an_invalid_setting_is_refused_without_showing_it(given: dict[str, Any]) -> None:
    with pytest.raises(duly.InvalidInput) as refused:
        duly.Client(**given)
    assert "pw" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


async def test_too_many_requests_raise_busy_after_a_few_retries(own_home: Home) -> None:
    key = own_home.ok("keys", "create", "slow", "--scope", "read")
    with own_home.serving(environ={"DULY_KEY_RATE": "0.01"}) as server:
        async with duly.Client(server.url, key=key, clock=VirtualClock()) as client:
            calls = [client.stats.status() for _ in range(20)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(each, duly.Busy) for each in answers), answers


@pytest.mark.requirement("D3")
async def test_a_lost_answer_makes_no_second_delivery(url: str) -> None:
    async with (
        losing(url, lambda number: number <= 3) as proxy,
        duly.Client(proxy.url, clock=VirtualClock()) as client,
    ):
        accepted = await client.deliver("log", 1, after=60, tags=["lost"])
        assert len(proxy.requests) == 4
        assert len(set(proxy.requests)) == 1, "the same request, with the same key"
        assert [each.id for each in await client.list(tag="lost")] == [accepted.id]


async def test_lost_answers_to_bulk_requests_make_nothing_twice(url: str) -> None:
    async with (
        losing(url, lambda number: number == 1) as proxy,
        duly.Client(proxy.url, clock=VirtualClock()) as client,
    ):
        item = {"target": "log", "after": 60, "tags": ["lost many"]}
        accepted = await client.deliver_many([item, item])
        found = await client.list(tag="lost many")
    assert {each.id for each in found} == {each.id for each in accepted}
    assert len(proxy.requests) == 3


async def test_a_repeated_request_waits_while_the_first_runs(
    sqlite_url: str,
) -> None:
    app = duly.App(sqlite_url, environment={})
    async with app:
        begun = await app.requests.begin("the key", "the request", repeatable=True)
        with pytest.raises(duly.Conflict) as running:
            await app.requests.begin("the key", "the request", repeatable=True)
        app.requests.leave(begun)
    reply = problem_reply({}, running.value)
    assert (reply.status, reply.headers["retry-after"]) == (409, "1")


async def test_without_a_key_a_lost_answer_is_raised(url: str) -> None:
    async with losing(url, lambda _number: True) as proxy, duly.Client(proxy.url) as client:
        with pytest.raises(duly.StoreUnavailable, match="check whether it was executed"):
            await client.streams.configure("line", on_failure="release")
    assert len(proxy.requests) == 1


async def test_a_server_may_be_killed_and_restarted_between_requests(own_home: Home) -> None:
    with own_home.serving() as server:
        address, client = server.url, duly.Client(server.url)
        first = await client.deliver("log", after=60)
        server.process.kill()
        server.process.wait()
    with pytest.raises(duly.StoreUnavailable, match="cannot reach the server at"):
        await client.get(first.id)
    port = address.rpartition(":")[2]
    with own_home.running("serve", "--port", port) as server:
        server.wait_for("Serving")
        assert (await client.get(first.id)).id == first.id
        await client.close()


@pytest.mark.requirement("L4")
async def test_followers_are_released_and_blocks_limited_through_a_client(url: str) -> None:
    async with duly.Client(url) as client:
        stream = await client.streams.configure("limited", block_for="15m")
        assert (stream.on_failure, stream.block_for) == ("block", 900)
        ids = [(await client.deliver("log", after=3600, stream="limited")).id for _ in range(2)]
        with pytest.raises(duly.Conflict, match="only while its head is dead or waits"):
            await client.streams.release("limited", only=ids[1:])
        with pytest.raises(duly.InvalidInput) as refused:
            await client.streams.release("limited", only=[])
        assert refused.value.field == "only"
        with pytest.raises(duly.InvalidInput) as refused:
            await client.streams.configure("limited", block_for=0)
        assert refused.value.field == "block_for"
