"""A server's schedules: declared, listed, paused, resumed, triggered, back-filled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from duly.client.connection import Wire
from duly.client.targets import LARGEST_PAYLOAD, destination, refusal
from duly.domain import checks
from duly.domain.endpoints.webhooks import encode_webhook
from duly.domain.schedules import options as schedule_options
from duly.domain.schedules.options import checked_options
from duly.domain.schedules.rule_spec import rule_of, spelled
from duly.domain.schedules.schedule import (
    Contents,
    ScheduleProgress,
    ScheduleTiming,
    StoredSchedule,
)
from duly.domain.schedules.upcoming import Moment
from duly.domain.time.rules import Rule
from duly.errors import InvalidInput
from duly.records.schedule import CatchUp, Overlap, ScheduleSummary
from duly.records.target import Webhook
from duly.services.interruption import ended
from duly.services.schedules import BACKFILL_SLICE, Declared, Target

INSTANT = timedelta(microseconds=1)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the API tells it."""

    id: int
    name: str
    version: int
    rule: dict[str, str]
    target: str
    webhook: Webhook | None
    payload: msgspec.Raw
    catch_up: CatchUp
    window: float | None
    cap: int
    overlap: Overlap
    start: datetime | None
    end: datetime | None
    max_runs: int | None
    jitter: float
    expires_after: float | None
    retry: msgspec.Raw
    priority: int
    stream: str | None
    tags: tuple[str, ...]
    progress: ScheduleProgress
    paused_at: datetime | None
    pause_reason: str | None
    created_at: datetime
    updated_at: datetime

    def schedule(self) -> StoredSchedule:
        """The schedule itself."""
        return StoredSchedule(
            id=self.id,
            name=self.name,
            version=self.version,
            timing=self._timing(),
            contents=self._contents(),
            progress=self.progress,
            created_at=self.created_at,
            updated_at=self.updated_at,
            paused_at=self.paused_at,
            pause_reason=self.pause_reason,
        )

    def _timing(self) -> ScheduleTiming:
        return ScheduleTiming(
            rule=rule_of(self.rule),
            catch_up=self.catch_up,
            window=self.window,
            cap=self.cap,
            overlap=self.overlap,
            starts_at=self.start,
            ends_at=self.end,
            max_runs=self.max_runs,
            jitter=self.jitter,
        )

    def _contents(self) -> Contents:
        retry = _given(self.retry)
        return Contents(
            target=self.target,
            address=None if self.webhook is None else encode_webhook(self.webhook),
            payload=_given(self.payload),
            priority=self.priority,
            stream=self.stream,
            expires_after=self.expires_after,
            retry=None if retry is None else retry.decode(),
            tags=self.tags,
        )


class Upserted(Told, frozen=True, kw_only=True):
    """A schedule, and whether it was created, changed or neither."""

    change: str


class Triggered(msgspec.Struct, frozen=True):
    """The delivery that was made."""

    id: str


class Backfilled(msgspec.Struct, frozen=True):
    """How many moments there were, and how many deliveries are new."""

    moments: int
    made: int
    finished: bool = True


class Schedules:
    """The schedules of one server."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def declare(
        self, name: str, rule: Rule, target: Target, payload: Any = None, **given: Any
    ) -> Declared:
        """Create or change a schedule by its name; the same again changes nothing."""
        options = checked_options(given)
        timing = schedule_options.timing(rule, options)
        named = target if isinstance(target, str) else "elsewhere"
        contents = schedule_options.contents(named, payload, options, LARGEST_PAYLOAD, None)
        body = _body(timing, contents) | {"target": destination(target)}
        try:
            told = await self._wire.put(Upserted, "schedules", _checked(name), body=body)
        except InvalidInput as error:
            raise refusal(target, error) from error
        return Declared(told.schedule(), told.change)

    async def get(self, name: str) -> StoredSchedule:
        """One schedule, or NotFound."""
        return (await self._wire.get(Told, "schedules", _checked(name))).schedule()

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[ScheduleSummary]:
        """Schedules by name, each in a line; `after` is the last name of the page before."""
        start = checks.checked_start("after", after) or None
        return await self._wire.listed(ScheduleSummary, "schedules", limit=limit, cursor=start)

    async def pause(self, name: str, reason: str | None = None) -> StoredSchedule:
        """Make nothing until it is resumed; what is under way goes on."""
        return await self._moved(name, "pause", {"reason": reason})

    async def resume(self, name: str, *, from_pause: bool = False) -> StoredSchedule:
        """Go on from now; or with what was missed since the pause, by its catch-up rule."""
        return await self._moved(name, "resume", {"from_pause": from_pause})

    async def _moved(self, name: str, move: str, body: dict[str, Any]) -> StoredSchedule:
        told = await self._wire.post(Told, "schedules", _checked(name), move, body=body)
        return told.schedule()

    async def remove(self, name: str) -> None:
        """End it: what is pending is cancelled, what is under way goes on."""
        await self._wire.delete("schedules", _checked(name))

    async def trigger(self, name: str) -> str:
        """Make one delivery now, beside the plan, paused or not; returns its id."""
        place = ("schedules", _checked(name), "trigger")
        return (await self._wire.post(Triggered, *place, once=True)).id

    async def preview(self, name: str, n: int = 5) -> Sequence[datetime]:
        """The next moments of a schedule as it stands."""
        place = ("schedules", _checked(name), "preview")
        return [each.at for each in await self._wire.get(list[Moment], *place, n=n)]

    async def count_backfill(self, name: str, start: datetime, end: datetime) -> int:
        """How many occurrences a backfill would look at."""
        return (await self._backfilled(name, start, end, dry_run=True)).moments

    async def backfill(self, name: str, start: datetime, end: datetime) -> AsyncIterator[int]:
        """Make the occurrences from start to end that were never made, due now.

        Yields how many were new after each stretch of time; they are as many as slices of an app's
        own backfill.
        """
        stretches = -(-await self.count_backfill(name, start, end) // BACKFILL_SLICE)
        begins = start
        for number in range(1, stretches + 1):
            ends = end if number == stretches else start + (end - start) * number / stretches
            told = Backfilled(0, 0, finished=False)
            # A stretch is cut off when its connection was: the answer is that to the first try.
            while not told.finished:
                told, cancelled = await ended(self._backfilled(name, begins, ends))
                yield told.made
                if cancelled is not None:
                    raise cancelled
            begins = ends + INSTANT

    async def _backfilled(
        self, name: str, start: datetime, end: datetime, *, dry_run: bool = False
    ) -> Backfilled:
        body = {"start": start, "end": end, "dry_run": dry_run}
        place = ("schedules", _checked(name), "backfill")
        return await self._wire.post(Backfilled, *place, body=body, once=not dry_run, safe=dry_run)


def _body(timing: ScheduleTiming, contents: Contents) -> dict[str, Any]:
    return {
        "rule": spelled(timing.rule),
        "payload": None if contents.payload is None else msgspec.Raw(contents.payload),
        "catch_up": timing.catch_up,
        "window": timing.window,
        "cap": timing.cap,
        "overlap": timing.overlap,
        "start": timing.starts_at,
        "end": timing.ends_at,
        "max_runs": timing.max_runs,
        "jitter": timing.jitter,
        "expires_after": contents.expires_after,
        "retry": None if contents.retry is None else msgspec.Raw(contents.retry.encode()),
        "priority": contents.priority,
        "stream": contents.stream,
        "tags": list(contents.tags),
    }


def _checked(name: str) -> str:
    return checks.checked_text("name", name)


def _given(raw: msgspec.Raw) -> bytes | None:
    found = bytes(raw)
    return None if found == b"null" else found
