"""The schedules of a server."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

import msgspec

from duly.client.bulk import Moving
from duly.client.requester import Requester
from duly.client.targets import contents, destination, refusal
from duly.domain import checks
from duly.domain.schedules.options import checked_options
from duly.domain.schedules.rule_spec import spec_of
from duly.domain.schedules.schedule import BACKFILL_SLICE
from duly.domain.time.rules import Rule
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.records.schedule import (
    Backfilled,
    DeclaredSchedule,
    OrphanedSchedule,
    RemovedOrphans,
    RuleExplanation,
    Schedule,
    ScheduleFilterKeywords,
    ScheduleKeywords,
    ScheduleSummary,
    Triggered,
    UpcomingRun,
)
from duly.records.target import Target
from duly.services.interruption import ended
from duly.services.schedules.bulk import checked
from duly.services.schedules.listing import checked_filter

INSTANT = timedelta(microseconds=1)


class Schedules:
    """The schedules of one server."""

    def __init__(self, requester: Requester, moving: Moving) -> None:
        self._requester = requester
        self._moving = moving

    async def declare(
        self,
        name: str,
        rule: Rule,
        target: Target,
        payload: Any = None,
        *,
        version: int | None = None,
        **given: Unpack[ScheduleKeywords],
    ) -> DeclaredSchedule:
        """Create or change a schedule by its name; an equal declaration changes nothing."""
        options = msgspec.structs.asdict(checked_options(given))
        body = {"rule": spec_of(rule), "target": destination(target), **options}
        if payload is not None:
            body["payload"] = contents(payload)
        try:
            return await self._requester.put(
                DeclaredSchedule, "schedules", _checked(name), body=body, version=version
            )
        except InvalidInput as error:
            raise refusal(target, error) from error

    async def get(self, name: str) -> Schedule:
        """One schedule, or NotFound."""
        return await self._requester.get(Schedule, "schedules", _checked(name))

    async def list(
        self, *, after: str = "", limit: int = 50, **wanted: Unpack[ScheduleFilterKeywords]
    ) -> Sequence[ScheduleSummary]:
        """Schedules by name; `after` is the last name of the previous page.

        `text` is a part of the name, in upper or lower case; `tag` one of its deliveries' tags.
        """
        start = checks.checked_start("after", after) or None
        query = msgspec.structs.asdict(checked_filter(wanted))
        return await self._requester.listed(
            ScheduleSummary, "schedules", limit=limit, cursor=start, **query
        )

    async def pause(self, name: str, reason: str | None = None) -> Schedule:
        """Create no deliveries until it is resumed; attempts in progress continue."""
        place = ("schedules", _checked(name), "pause")
        return await self._requester.post(Schedule, *place, body={"reason": reason})

    async def resume(self, name: str, *, from_pause: bool = False) -> Schedule:
        """Continue from now, or with occurrences missed since the pause, by its catch-up rule."""
        place = ("schedules", _checked(name), "resume")
        return await self._requester.post(Schedule, *place, body={"from_pause": from_pause})

    async def count(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        paused: bool = False,
    ) -> int:
        """How many match and are not paused, or with `paused` are."""
        body = {**_which(names, text, until), "dry_run": True}
        verb = "resume" if paused else "pause"
        found = await self._requester.post(BulkResult, "schedules", verb, body=body, safe=True)
        return found.matching

    def pause_all(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        reason: str | None = None,
    ) -> AsyncIterator[BulkProgress]:
        """Pause all that match, all schedules without a filter; yields the progress."""
        body = {**_which(names, text, until), "reason": reason}
        return self._moving.all(("schedules", "pause"), body)

    def resume_all(
        self,
        *,
        names: Sequence[str] = (),
        text: str | None = None,
        until: datetime | None = None,
        from_pause: bool = False,
    ) -> AsyncIterator[BulkProgress]:
        """Resume all that match, all schedules without a filter; yields the progress."""
        body = {**_which(names, text, until), "from_pause": from_pause}
        return self._moving.all(("schedules", "resume"), body)

    async def remove(self, name: str, *, version: int | None = None) -> None:
        """Remove it: pending deliveries are cancelled, attempts in progress continue."""
        await self._requester.delete("schedules", _checked(name), version=version)

    async def orphans(self, *, after: str = "", limit: int = 50) -> Sequence[OrphanedSchedule]:
        """Schedules that code declared and no longer declares, by name; they still deliver.

        `after` is the last name of the previous page.
        """
        start = checks.checked_start("after", after) or None
        return await self._requester.listed(
            OrphanedSchedule, "orphaned-schedules", limit=limit, cursor=start
        )

    async def remove_orphans(self, names: Sequence[str] | None = None) -> builtins.list[str]:
        """Remove all orphans, or those with these names; returns the names of the removed."""
        wanted = None if names is None else checked(names, None)[0]
        if wanted is not None and not wanted:
            return []
        body = {"all": True} if wanted is None else {"names": wanted}
        place = ("orphaned-schedules", "remove")
        return (await self._requester.post(RemovedOrphans, *place, body=body, once=True)).removed

    async def trigger(self, name: str) -> str:
        """Create one delivery now, paused or not, and return its id; the plan does not change."""
        place = ("schedules", _checked(name), "trigger")
        return (await self._requester.post(Triggered, *place, once=True)).id

    async def preview(self, name: str, n: int = 5) -> Sequence[UpcomingRun]:
        """The next moments of a schedule; of a paused one, as if it were resumed now."""
        place = ("schedules", _checked(name), "preview")
        return await self._requester.get(list[UpcomingRun], *place, n=n)

    async def explain(self, rule: Rule, n: int = 5) -> RuleExplanation:
        """What a rule means, what clock changes do to it, and its next moments."""
        body = {"rule": spec_of(rule), "n": n}
        place = ("schedules", "explain")
        return await self._requester.post(RuleExplanation, *place, body=body, safe=True)

    async def count_backfill(self, name: str, start: datetime, end: datetime) -> int:
        """How many occurrences a backfill would check."""
        return (await self._backfilled(name, start, end, dry_run=True)).moments

    async def backfill(self, name: str, start: datetime, end: datetime) -> AsyncIterator[int]:
        """Create the missing occurrences from start to end, due now.

        Yields how many were new after each part of the range; each part is one request.
        """
        parts = -(-await self.count_backfill(name, start, end) // BACKFILL_SLICE)
        begins = start
        for number in range(1, parts + 1):
            ends = end if number == parts else start + (end - start) * number / parts
            filled = Backfilled(0, 0, finished=False)
            # After a lost connection the server answers for the first try, which ended early.
            while not filled.finished:
                filled, cancelled = await ended(self._backfilled(name, begins, ends))
                yield filled.made
                if cancelled is not None:
                    raise cancelled
            begins = ends + INSTANT

    async def _backfilled(
        self, name: str, start: datetime, end: datetime, *, dry_run: bool = False
    ) -> Backfilled:
        body = {"start": start, "end": end, "dry_run": dry_run}
        place = ("schedules", _checked(name), "backfill")
        return await self._requester.post(
            Backfilled, *place, body=body, once=not dry_run, safe=dry_run
        )


def _which(names: Sequence[str], text: str | None, until: datetime | None) -> dict[str, Any]:
    """The filter as a body; `all` if it has no field that selects."""
    chosen, part = checked(names, text)
    return {"names": chosen, "text": part, "until": until, "all": not chosen and part is None}


def _checked(name: str) -> str:
    return checks.checked_text("name", name)
