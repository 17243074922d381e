"""A client from synchronous code."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import duly

pytestmark = pytest.mark.requirement("P2")


def test_a_client_is_used_by_many_threads(url: str) -> None:
    with duly.Client(url).sync as client, ThreadPoolExecutor(8) as threads:
        ids = set(threads.map(lambda n: client.deliver("log", n, after=3600).id, range(40)))
        assert len(ids) == 40
        assert {client.deliveries.get(id).id for id in ids} == ids
        client.schedule("often", duly.every("1h"), "log")
        assert client.schedules.pause("often").state == "paused"
        assert next(client.events()).due >= 0
        with pytest.raises(duly.NotFound, match="no schedule 'never'"):
            client.schedules.pause("never")


def test_a_client_may_be_used_with_and_without_an_event_loop(url: str) -> None:
    client = duly.Client(url)

    async def use() -> int:
        async with client:
            await client.list()
            return len(await asyncio.to_thread(client.sync.list))

    assert len(client.sync.list()) == asyncio.run(use()) == len(client.sync.list())
    client.sync.close()


def test_a_call_on_an_event_loop_says_what_to_write(url: str) -> None:
    async def misuse() -> None:
        with pytest.raises(
            duly.Conflict, match=r"write `await client\.schedules\.pause\(\.\.\.\)`"
        ):
            duly.Client(url).sync.schedules.pause("often")

    asyncio.run(misuse())
