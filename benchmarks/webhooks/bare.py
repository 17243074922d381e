"""The bare client loop: the same client, headers and signature, without store and engine."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator

import aiohttp
import uvloop

from benchmarks.webhooks.load import PAYLOAD, SECRET
from duly.domain.endpoints.signatures import secret_key, signatures
from duly.system import SystemChance, collect_rarely

TIMEOUT_SECONDS = 30


def headers(key: bytes, id: str, body: bytes) -> dict[str, str]:
    """The headers that duly sends."""
    timestamp = int(time.time())
    return {
        "content-type": "application/json",
        "user-agent": "bare/1",
        "accept-encoding": "identity",
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "Idempotency-Key": id,
        "X-Idempotency-Key": id,
        "webhook-attempt": "1",
        "webhook-signature": signatures([key], id, timestamp, body),
    }


async def send(session: aiohttp.ClientSession, url: str, bodies: Iterator[bytes]) -> None:
    """Send one after the other until there are no more."""
    key, chance = secret_key(SECRET), SystemChance()
    for body in bodies:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            sending = session.post(
                url,
                data=body,
                headers=headers(key, chance.delivery_id(), body),
                allow_redirects=False,
            )
            async with sending as response:
                await response.read()
                assert response.status == 200


async def main(url: str, count: int, in_flight: int) -> None:
    """Send this many with this many in flight, after a line on stdin."""
    body = json.dumps(PAYLOAD).encode()
    bodies = iter([body] * count)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        auto_decompress=False,
    )
    collect_rarely()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async with session, asyncio.TaskGroup() as tasks:
        for _ in range(in_flight):
            tasks.create_task(send(session, url, bodies))
    print("{}", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--in-flight", type=int, required=True)
    uvloop.install()
    asyncio.run(main(**vars(arguments.parse_args())))
