"""Batches of a server, filled by a client."""

from __future__ import annotations

import asyncio

import pytest

import duly
from duly import Client, Conflict
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("P8", "S6")


async def test_a_block_of_a_client(own_home: Home) -> None:
    with own_home.serving() as server:
        async with Client(server.url) as client:
            async with client.batch(then=("log", {"month": 11}), name="november") as batch:
                await batch.deliver("log", 1)
                await batch.deliver_many([("log", 2), {"target": "log", "payload": 3}])
                await client.batches.deliver(batch.id, "log", 4)
            with pytest.raises(Conflict, match="closed"):
                await batch.deliver("log", 5)
            for then in (("log", [1]), ("nobody", None), {"target": "log", "surplus": 1}, None):
                with pytest.raises(duly.InvalidInput):
                    await client.batches.open(then)  # type: ignore[arg-type]
            async with asyncio.timeout(30):
                while (found := await batch.get()).state != "finished":
                    pass
            assert (found.members, found.completed) == (4, 4)
            completion = await client.wait(found.completion or "", timeout=30)
            assert completion.payload["batch"]["name"] == "november"
            members = await client.list(batch=batch.id)
            assert len(members) == 4
