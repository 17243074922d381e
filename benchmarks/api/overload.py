"""Many more callers than a server can take: what it takes and refuses, and that both is true.

Each caller has a connection and one request at a time. Some ask again at once when they are
refused, as nobody should; the others do as they are told by Retry-After.
"""

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duly
from benchmarks.api.callers import Caller, connected, posted
from benchmarks.api.servers import Running, running
from benchmarks.places import folder, fresh, server

CALLERS, PLACES, FEW = 512, 64, 32
RETRY_AFTER_SECONDS = 1.0


@dataclass
class Load:
    """What callers were told."""

    accepted: list[str] = field(default_factory=list)
    refused: int = 0
    waits: list[float] = field(default_factory=list)
    memory: float = 0.0

    def told(self, seconds: float) -> str:
        """In a line."""
        p99 = statistics.quantiles(self.waits, n=100)[98] * 1000
        return (
            f"{len(self.accepted) / seconds:,.0f}/s taken, {self.refused / seconds:,.0f}/s refused "
            f"with 429, p99 of those taken {p99:,.0f} ms, memory {self.memory:.0f} MB"
        )


async def overload(kind: str, seconds: float) -> None:
    """Print the figures of one store, after a check that all of it is true."""
    with server() as postgres, folder() as place:
        database, noted = await fresh(kind, postgres, place), place / "noted"
        serve = ("duly", "serve", "benchmarks.api.counted:app", "--port", "0")
        variables = {"DULY_ACCEPT_QUEUE": str(PLACES), "NOTED": str(noted)}
        with running(*serve, "--database", database, **variables) as served:
            before = served.memory()
            few = await asked(served, FEW, seconds, heeding=True)
            heeding = await asked(served, CALLERS, seconds, heeding=True)
            hasty = await asked(served, CALLERS, seconds, heeding=False)
            loads = (few, heeding, hasty)
            accepted = [id for each in loads for id in each.accepted]
            await until_noted(noted, len(accepted))
        await prove(database, accepted, noted)
    for name, load in (
        (f"{FEW} callers", few),
        (f"{CALLERS} that heed Retry-After", heeding),
        (f"{CALLERS} that ask again at once", hasty),
    ):
        print(f"{kind}, {PLACES} places, {name}: {load.told(seconds)}")
    refused = sum(each.refused for each in loads)
    print(
        f"{kind}: all {len(accepted):,} that were taken are stored and completed, each handled "
        f"once; of the {refused:,} refused none is there; memory before it all {before:.0f} MB",
        flush=True,
    )


async def asked(served: Running, callers: int, seconds: float, heeding: bool) -> Load:
    """Ask as fast as so many can."""
    load, until = Load(), time.perf_counter() + seconds
    found = await connected(served.url, callers)
    await asyncio.gather(*(_ask(each, load, until, heeding) for each in found))
    load.memory = await asyncio.to_thread(served.memory)
    for each in found:
        each.close()
    return load


async def _ask(caller: Caller, load: Load, until: float, heeding: bool) -> None:
    request = posted("/v1/deliveries", {"target": "noop", "payload": {"invoice": 4711}})
    while (asked_at := time.perf_counter()) < until:
        status, id = await _answered(caller, request)
        if status == 201:
            load.accepted.append(id)
            load.waits.append(time.perf_counter() - asked_at)
            continue
        load.refused += 1
        if heeding:
            await asyncio.sleep(RETRY_AFTER_SECONDS)


async def _answered(caller: Caller, request: bytes) -> tuple[int, str]:
    status, body = await caller.ask(request)
    assert status in (201, 429), (status, body)
    return status, body[7:43].decode() if status == 201 else ""


async def until_noted(noted: Path, count: int) -> None:
    """Wait until so many are handled."""
    async with asyncio.timeout(300):
        while len(_lines(noted)) < count:  # noqa: ASYNC110 - a look is enough
            await asyncio.sleep(0.1)


async def prove(database: str, accepted: list[str], noted: Path) -> None:
    """Fail unless exactly what was accepted is stored, completed, and was handled once."""
    async with duly.App(database, environment={}) as app:
        stored = await app.list(limit=10_000)
        while more := await app.list(limit=10_000, before=stored[-1].id):
            stored = [*stored, *more]
    assert {each.id for each in stored} == set(accepted)
    assert len(stored) == len(accepted)
    assert {each.state for each in stored} == {"completed"}
    assert Counter(_lines(noted)) == Counter(accepted)


def _lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []
