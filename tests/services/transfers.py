"""A namespace with every kind of record, and short ways to move it to another store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import duly
from duly import App, DeadLetterFilter, Delivery
from duly.domain.deliveries.outcomes import Verdict
from duly.services.transfer.importing import ImportOptions
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import Work
from tests.stores.store_probe import StoreProbe, settlement

HOURLY = duly.cron("0 * * * *")
DAY = timedelta(days=1)
CREDENTIALS = {"Authorization": "Bearer hunter2", "X-Team": "7"}
PRETTY = b'{\n  "pretty": [1e5, "\\u00e9"]\n}'


async def export_lines(app: App, **options: Any) -> list[bytes]:
    """The lines of an export."""
    return [each.line async for each in app.exporting.lines(**options)]


async def import_lines(app: App, lines: list[bytes], **options: Any) -> dict[str, tuple[int, int]]:
    """How many of each kind were new, and how many existed already."""

    def fail(number: int, problem: str) -> None:
        raise AssertionError(f"{number}: {problem}")

    how, found = ImportOptions(**options), {}
    survey = app.importing.survey(lines, how, fail)
    async for each in app.importing.write(lines, survey, how, fail):
        new, known = found.get(each.kind, (0, 0))
        found[each.kind] = (new + each.new, known + each.known)
    return found


async def move(app: App, other: App, **options: Any) -> dict[str, tuple[int, int]]:
    """Move everything of one app's namespace to another's."""
    return await import_lines(other, await export_lines(app, **options))


def records(lines: list[bytes]) -> list[bytes]:
    """The records of an export, in any order of its streams."""
    return sorted(lines[1:])


class Stepping:
    """A handler with two steps, the second of which fails at first."""

    def __init__(self, app: App) -> None:
        self.ran: list[str] = []
        app.handler("stepping", retry=duly.delays(60, 60))(self._handle)

    async def _handle(self, delivery: Delivery[Any]) -> None:
        await delivery.do("charge", self.ran.append, "charge")
        self.ran.append(f"attempt {delivery.attempt}")
        if delivery.attempt == 1:
            raise RuntimeError("not yet")


async def fill(work: Work, clock: VirtualClock) -> None:
    """Every kind of record that can be exported.

    In the stream `replayed`, one died and was released, then another died and blocks it;
    meanwhile the first was retried.
    """
    app = work.app
    app.expect("held", "unknown")
    await _names(app)
    left = await _streams(work)
    await _deliveries(work)
    await run_until_idle(app)
    await app.streams.pause("paused", "holidays")
    await app.dead_letters.retry(left)
    await _dispositions(app)
    await _held(StoreProbe(app.store, clock))  # type: ignore[arg-type]


async def _dispositions(app: App) -> None:
    """Policies, and dead letters that are held and given up."""
    await app.recovery.set("unknown", tries=3, after="1h", then="hold")
    await app.recovery.set("unknown", tries=0, target="endpoint:billing")
    held, gone = await app.dead_letters.list(DeadLetterFilter(target="other"))
    await app.dead_letters.hold(held.id, "ask first")
    await app.dead_letters.give_up(gone.id, "no use")


async def _names(app: App) -> None:
    url = "https://example.org/in"
    await app.endpoints.add("billing", url, headers=CREDENTIALS, rate=5, retry=duly.delays(1, 2))
    await app.endpoints.rotate("billing", overlap=timedelta(hours=2))
    await app.endpoints.add("shut", url, timeout=7, in_flight=3, description="é")
    await app.endpoints.pause("shut", "they asked")
    await app.schedule("hourly", HOURLY, "work", {"team": 7}, overlap="skip", tags=["x", "y"])
    await app.schedule("joined", HOURLY, "work", stream="joined", priority=7, jitter=30)
    webhook = duly.webhook(url, headers=CREDENTIALS, timeout=9)
    await app.schedule("off", duly.yearly(2, 29), webhook, PRETTY, expires_after=60, max_runs=5)
    await app.schedules.pause("off", "holidays")
    await app.schedule("once", duly.at("2026-12-24T18:00", tz="Europe/Oslo"), "work")
    await app.streams.configure("unused", on_failure="release")
    for stream, limit in (("unused too", "90m"), ("retried", 90), ("blocked", "1h")):
        await app.streams.configure(stream, block_for=limit)


async def _streams(work: Work) -> str:
    for stream, first, *rest in (
        ("retried", "a", "b", "c"),
        ("paused", "d", "e"),
        ("released", "f", "g"),
    ):
        work.fails(first)
        policy = {"on_failure": "release"} if stream == "released" else {}
        await work.add(first, *rest, stream=stream, **policy)
    work.dies("h")
    await work.add("h", "i", stream="blocked")
    work.dies("j")
    work.dies("k")
    (left,) = await work.add("j", stream="replayed", on_failure="release")
    await work.add("k", "l", stream="replayed")
    return left


async def _deliveries(work: Work) -> None:
    app, url = work.app, "https://example.org/hook"
    Stepping(app)
    work.fails("retry")
    work.dies("dead")
    await app.deliver("work", "retry", retry=duly.delays(600, 600), tags=["a", "b"], priority=9)
    await app.deliver("work", "dead", key="dead")
    for each in ("held", "gone"):
        work.dies(each)
        await app.deliver("other", each, key=each)
    await app.deliver("work", "done", key="done")
    await app.deliver("stepping", {"order": 7})
    await app.deliver("unknown", PRETTY, after=3600, expires_at=work.app.clock.now() + DAY)
    await app.deliver(duly.webhook(url, method="PUT", headers=CREDENTIALS), [1], after=60)
    await app.deliver(duly.endpoint("shut"), {"invoice": 12})
    await app.cancel((await app.deliver("unknown", after=60, key="cancelled")).id)


async def _held(probe: StoreProbe) -> None:
    """One delivery that a worker holds, and one whose workers died."""
    await probe.deliver(target="held", payload=b'"held"', id=_id(1))
    worker = await probe.worker()
    suspect = (await probe.claim(worker, requests=[await probe.claim_request(target="held")]))[0]
    crashed = settlement(suspect, Verdict.RECLAIMED, probe.clock.now(), crashes=2, priority=0)
    await probe.settle(crashed)
    await probe.deliver(target="held", payload=b'"suspect"', id=_id(2))
    await probe.claim(worker, requests=[await probe.claim_request(target="held")])
    await probe.store.workers.end(worker)


def _id(number: int) -> str:
    return f"01990000-0000-7000-8000-00000000000{number}"
