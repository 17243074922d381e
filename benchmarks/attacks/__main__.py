"""How a server under attack serves others, measured from outside.

python -m benchmarks.attacks [--only NAME] [--store postgresql] [--seconds 10]

Each attack gets its own `duly serve`, which may have 1,024 open files. An attacker in another
process attacks it for the given seconds. Meanwhile `/health` is requested on a new connection
every 20 ms, the server's memory is measured, and ten webhooks a second become due. At the end of
the attack, while it continues, a delivery must be accepted. The column "bare" is the slowest
response of a bare server that is not attacked: if it is slow too, the machine was slow.
"""

import argparse
import asyncio
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

from benchmarks.api.servers import Running, running
from benchmarks.attacks.attacker import ATTACKS
from benchmarks.places import ROOT, folder, fresh, server

REST = "at rest"
DESCRIPTORS = 1024
EVERY, DUE_EVERY, SETTLED = 0.02, 0.1, 3.0
PATIENCE = 10.0
MOST_HEALTH, MOST_MEMORY, MOST_LATE = 0.25, 150.0, 1.0
"""Seconds, megabytes and seconds: the limits under each attack."""


@dataclass
class Measurements:
    """The measurements of one attack."""

    name: str
    health: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    """Of a server that is not attacked."""
    rest: float = 0.0
    memory: float = 0.0
    late: list[float] = field(default_factory=list)
    due: int = 0
    accepts: bool = False
    """Whether a delivery was accepted at the end of the attack, while it continued."""

    @property
    def passed(self) -> bool:
        """Whether everything is within its limits."""
        return (
            max(self.health) <= MOST_HEALTH
            and self.memory - self.rest <= MOST_MEMORY
            and self.latest <= MOST_LATE
            and self.accepts
        )

    @property
    def latest(self) -> float:
        """How late the latest webhook was; infinite if one did not arrive."""
        return max(self.late) if len(self.late) == self.due else float("inf")

    def row(self) -> str:
        """A row of the table."""
        health = sorted(self.health)
        p99 = health[min(len(health) - 1, int(len(health) * 0.99))]
        late = (
            f"{len(self.late)} of {self.due} arrived"
            if self.latest == float("inf")
            else (f"{self.latest * 1000:,.0f} ms")
        )
        return (
            f"| {self.name} | {health[-1] * 1000:,.0f} ms | {p99 * 1000:,.0f} ms "
            f"| {max(self.bare) * 1000:,.0f} ms "
            f"| {self.memory - self.rest:+,.0f} MB | {late} | {'yes' if self.accepts else 'NO'} "
            f"| {'yes' if self.passed else 'NO'} |"
        )


async def answered(url: str, request: bytes) -> bytes:
    """The response to a request on its own connection."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(request)
        answer = await reader.read(-1)
        return answer.partition(b"\r\n\r\n")[2]
    finally:
        writer.close()


def get_request(path: str) -> bytes:
    """A GET request."""
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode()


def post_request(path: str, document: object) -> bytes:
    """A POST request with a document."""
    body = json.dumps(document).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def probe(url: str, path: str, expected: bytes, took: list[float]) -> None:
    """Measure repeatedly how long an answer takes; none within 10 s counts as 10 s."""
    while True:
        begun, seconds = time.perf_counter(), PATIENCE
        try:
            async with asyncio.timeout(PATIENCE):
                if expected in await answered(url, get_request(path)):
                    seconds = time.perf_counter() - begun
        except (TimeoutError, OSError):
            """Counted as the longest."""
        took.append(seconds)
        await asyncio.sleep(EVERY)


async def measure_memory(served: Running, seen: Measurements) -> None:
    """Record the maximum."""
    while True:
        seen.memory = max(seen.memory, await asyncio.to_thread(served.memory))
        await asyncio.sleep(0.1)


async def plan_webhooks(url: str, sink: str, seconds: float, seen: Measurements) -> None:
    """Make webhooks become due throughout; their payloads have the due time."""
    first = time.time() + 1.0
    moments = [first + n * DUE_EVERY for n in range(int(seconds / DUE_EVERY))]
    given = [
        {
            "target": {"url": f"{sink}/due"},
            "payload": {"due": each},
            "at": datetime.fromtimestamp(each, UTC).isoformat(),
        }
        for each in moments
    ]
    answer = json.loads(await answered(url, post_request("/v1/deliveries/bulk", given)))
    assert answer["accepted"] == len(given), answer
    seen.due = len(given)


async def accepts(url: str, sink: str) -> bool:
    """Whether a delivery is accepted now."""
    later = {"target": {"url": f"{sink}/due"}, "payload": 1, "after": 36000}
    try:
        async with asyncio.timeout(PATIENCE):
            return "id" in json.loads(await answered(url, post_request("/v1/deliveries", later)))
    except (TimeoutError, OSError, ValueError):
        return False


async def measured(
    name: str, served: Running, receivers: list[str], seconds: float
) -> Measurements:
    """The measurements while a server is attacked."""
    sink, hostile, bare = receivers
    seen = Measurements(name)
    await answered(served.url, get_request("/health"))
    seen.rest = served.memory()
    await plan_webhooks(served.url, sink, seconds, seen)
    probes = [
        asyncio.create_task(probe(served.url, "/health", b'"ok"', seen.health)),
        asyncio.create_task(probe(bare, "/report", b"[]", seen.bare)),
        asyncio.create_task(measure_memory(served, seen)),
    ]
    command = ("-m", "benchmarks.attacks.attacker", name, served.url, hostile)
    attacker = None
    if name != REST:
        attacker = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT)
    try:
        await asyncio.sleep(seconds)
        seen.accepts = await accepts(served.url, sink)
    finally:
        if attacker is not None:
            attacker.kill()
            await attacker.wait()
    await asyncio.sleep(SETTLED)
    for each in probes:
        each.cancel()
    await asyncio.gather(*probes, return_exceptions=True)
    seen.late = json.loads(await answered(sink, get_request("/report")))
    return seen


async def attacked(name: str, database: str, seconds: float) -> Measurements:
    """One attack, with its own server and receivers."""
    serve = ("duly", "serve", "--port", "0", "--database", database)
    allowed = {"DULY_EGRESS_ALLOW": "127.0.0.1"}
    with ExitStack() as stack:
        # One for webhooks; one that is hostile, since its circuit delays everything for it;
        # one for comparison.
        receivers = [
            stack.enter_context(running("benchmarks.attacks.receiver")).url for _ in range(3)
        ]
        served = stack.enter_context(running(*serve, descriptors=DESCRIPTORS, **allowed))
        return await measured(name, served, receivers, seconds)


async def main(kind: str, names: list[str], seconds: float) -> bool:
    """Print the table; returns whether all passed."""
    print(f"{kind}, {seconds:g} s each, {DESCRIPTORS} open files", flush=True)
    print(
        "| attack | /health worst | p99 | bare | memory above rest | webhooks late by | accepts "
        "| passed |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    found: list[Measurements] = []
    with folder() as place:
        if kind == "sqlite":
            for name in names:
                found.append(await attacked(name, await fresh(kind, None, place), seconds))
                print(found[-1].row(), flush=True)
        else:
            with server() as postgres:
                for name in names:
                    database = await fresh(kind, postgres, place)
                    found.append(await attacked(name, database, seconds))
                    print(found[-1].row(), flush=True)
    return all(each.passed for each in found)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--only", choices=list(ATTACKS), action="append", default=[])
    arguments.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    arguments.add_argument("--seconds", type=float, default=10)
    given = arguments.parse_args()
    names = [REST, *(given.only or ATTACKS)]
    sys.exit(0 if asyncio.run(main(given.store, names, given.seconds)) else 1)
