"""Many more callers than a server can serve: how many it accepts and refuses.

Each caller has a connection and one request at a time. Some repeat a refused request at once,
as they should not; the others wait as Retry-After says.
"""

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duly
from benchmarks.api.callers import Caller, connect, post_request
from benchmarks.api.servers import Running, running
from benchmarks.places import folder, fresh, server

CALLERS, PLACES, FEW = 512, 64, 32
RETRY_AFTER_SECONDS = 1.0


@dataclass
class Load:
    """The responses that callers got."""

    accepted: list[str] = field(default_factory=list)
    refused: int = 0
    waits: list[float] = field(default_factory=list)
    memory: float = 0.0

    def summary(self, seconds: float) -> str:
        """One line of text."""
        p99 = statistics.quantiles(self.waits, n=100)[98] * 1000
        return (
            f"{len(self.accepted) / seconds:,.0f}/s accepted, "
            f"{self.refused / seconds:,.0f}/s refused with 429, p99 of those accepted "
            f"{p99:,.0f} ms, memory {self.memory:.0f} MB"
        )


async def overload(kind: str, seconds: float) -> None:
    """Print the results of one store, after a check of the stored deliveries."""
    with server() as postgres, folder() as place:
        database, handled = await fresh(kind, postgres, place), place / "handled"
        serve = ("duly", "serve", "benchmarks.api.counted:app", "--port", "0")
        variables = {"DULY_ACCEPT_QUEUE": str(PLACES), "HANDLED_FILE": str(handled)}
        with running(*serve, "--database", database, **variables) as served:
            before = served.memory()
            few = await load_server(served, FEW, seconds, respects_retry_after=True)
            patient = await load_server(served, CALLERS, seconds, respects_retry_after=True)
            impatient = await load_server(served, CALLERS, seconds, respects_retry_after=False)
            loads = (few, patient, impatient)
            accepted = [id for each in loads for id in each.accepted]
            await until_handled(handled, len(accepted))
        await check(database, accepted, handled)
    for name, load in (
        (f"{FEW} callers", few),
        (f"{CALLERS} that respect Retry-After", patient),
        (f"{CALLERS} that repeat at once", impatient),
    ):
        print(f"{kind}, {PLACES} queued at most, {name}: {load.summary(seconds)}")
    refused = sum(each.refused for each in loads)
    print(
        f"{kind}: all {len(accepted):,} accepted ones are stored and completed, each handled "
        f"once; of the {refused:,} refused ones none is stored; memory before {before:.0f} MB",
        flush=True,
    )


async def load_server(
    served: Running, callers: int, seconds: float, respects_retry_after: bool
) -> Load:
    """Send requests as fast as this many callers can."""
    load, until = Load(), time.perf_counter() + seconds
    found = await connect(served.url, callers)
    await asyncio.gather(*(_call(each, load, until, respects_retry_after) for each in found))
    load.memory = await asyncio.to_thread(served.memory)
    for each in found:
        each.close()
    return load


async def _call(caller: Caller, load: Load, until: float, respects_retry_after: bool) -> None:
    request = post_request("/v1/deliveries", {"target": "noop", "payload": {"invoice": 4711}})
    while (asked_at := time.perf_counter()) < until:
        status, id = await _send(caller, request)
        if status == 201:
            load.accepted.append(id)
            load.waits.append(time.perf_counter() - asked_at)
            continue
        load.refused += 1
        if respects_retry_after:
            await asyncio.sleep(RETRY_AFTER_SECONDS)


async def _send(caller: Caller, request: bytes) -> tuple[int, str]:
    status, body = await caller.ask(request)
    assert status in (201, 429), (status, body)
    return status, body[7:43].decode() if status == 201 else ""


async def until_handled(handled: Path, count: int) -> None:
    """Wait until this many are handled."""
    async with asyncio.timeout(300):
        while len(_lines(handled)) < count:  # noqa: ASYNC110 - polling is enough
            await asyncio.sleep(0.1)


async def check(database: str, accepted: list[str], handled: Path) -> None:
    """Fail unless exactly the accepted deliveries are stored, completed, and handled once."""
    async with duly.App(database, environment={}) as app:
        stored = await app.list(limit=10_000)
        while more := await app.list(limit=10_000, before=stored[-1].id):
            stored = [*stored, *more]
    assert {each.id for each in stored} == set(accepted)
    assert len(stored) == len(accepted)
    assert {each.state for each in stored} == {"completed"}
    assert Counter(_lines(handled)) == Counter(accepted)


def _lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []
