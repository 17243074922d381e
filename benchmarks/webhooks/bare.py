"""The bare client loop: the same client, requests and signature, without store and engine."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import uvloop

import duly
from benchmarks.webhooks.load import PAYLOAD, SECRET
from duly.domain.deliveries.delivery import Claimed
from duly.domain.endpoints.signatures import secret_key
from duly.system import SystemChance, collect_rarely, look_up, open_socket
from duly.transports.webhooks.answers import Heard
from duly.transports.webhooks.connections import Connections
from duly.transports.webhooks.egress import Guard
from duly.transports.webhooks.requests import prepared, request_of
from duly.transports.webhooks.resolver import Resolver
from duly.transports.webhooks.timing import ExchangeTiming

TIMEOUT_SECONDS = 30


async def send(connections: Connections, url: str, bodies: Iterator[bytes]) -> None:
    """Send one after the other until there are no more."""
    to, keys, chance = prepared(duly.webhook(url)), [secret_key(SECRET)], SystemChance()
    now = datetime.now(UTC)
    connection = await connections.open(to.origin, ExchangeTiming(time.monotonic))
    for body in bodies:
        id = chance.delivery_id()
        claimed = Claimed(id, 1, 0, 0, body, 0, 0, 0, now, now, None, None, None)
        heard = Heard(ExchangeTiming(time.monotonic))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            request = request_of(to, claimed, keys, int(time.time()), {})
            assert await connection.exchange(request, heard)
        assert heard.status == 200


async def main(url: str, count: int, in_flight: int) -> None:
    """Send this many with this many in flight, after a line on stdin."""
    body = json.dumps(PAYLOAD).encode()
    bodies = iter([body] * count)
    resolver = Resolver(time.monotonic, look_up, lambda _: False)
    connections = Connections(Guard(["127.0.0.0/8"]), resolver, open_socket)
    collect_rarely()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(in_flight):
            tasks.create_task(send(connections, url, bodies))
    print("{}", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--in-flight", type=int, required=True)
    uvloop.install()
    asyncio.run(main(**vars(arguments.parse_args())))
