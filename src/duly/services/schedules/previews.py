"""The next moments of schedules and rules, and why some are missing or moved."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain import checks
from duly.domain.schedules import options as schedule_options
from duly.domain.schedules.planning import INSTANT
from duly.domain.schedules.rule_spec import explained
from duly.domain.schedules.upcoming import upcoming_runs
from duly.domain.time.rules import Rule
from duly.ports import Clock, Store
from duly.records.schedule import RuleExplanation, ScheduleOptions, UpcomingRun
from duly.services.schedules.calendars import Timings, with_calendars


class Previews:
    """Previews in one namespace; nothing is stored."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def preview(self, name: str, n: int = 5) -> Sequence[UpcomingRun]:
        """The next moments of a schedule; of a paused one, as if it were resumed now."""
        schedule = await self._store.schedules.get(checks.checked_text("name", name))
        timing, progress = schedule.timing, schedule.progress
        now, _ = await self._store.plans.clock()
        begins = progress.made_at or timing.starts_at or now
        found = timing.rule.preview(n, after=max(now, begins - INSTANT))
        if timing.ends_at is not None:
            found = [each for each in found if each <= timing.ends_at]
        if timing.max_runs is not None:
            found = found[: max(0, timing.max_runs - schedule.runs)]
        since = max(now, (timing.starts_at or now) - INSTANT)
        return upcoming_runs(timing.rule, found, after=since)

    async def explain(self, rule: Rule, n: int = 5) -> RuleExplanation:
        """What a rule means, what clock changes do to it, and its next moments."""
        timing = schedule_options.timing(rule, ScheduleOptions())

        async def explain(timings: Timings, _: object) -> RuleExplanation:
            known, now = timings[0].rule, self._clock.now()
            return explained(known, upcoming_runs(known, known.preview(n, after=now), after=now))

        return await with_calendars(self._store, [timing], explain)
