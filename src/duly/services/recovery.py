"""Recovery of dead letters: its policies, and generations of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from duly.domain import checks
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.recovery import (
    checked_cause,
    checked_generation,
    checked_policy,
    policies_of,
)
from duly.errors import NotFound
from duly.ports import Store
from duly.records.recovery import (
    AfterTries,
    Disposition,
    Generation,
    RecoveryPolicy,
    Replay,
)
from duly.records.retry_plan import RetryPlan

COUNTED_UP_TO = 10_000
MOST_TARGETS = 1000


class Recovery:
    """Recovery in one namespace; `actor` is named in the audit trail."""

    def __init__(
        self,
        store: Store,
        plan: Callable[[str], RetryPlan],
        presets: str,
        actor: str = "python",
    ) -> None:
        self._store = store
        self._plan = plan
        self._presets = presets
        self.actor = actor

    async def policies(self) -> Sequence[RecoveryPolicy]:
        """The policies that apply: the stored ones, and presets for the other reasons."""
        return policies_of(await self._store.recovery.policies(), self._presets).all

    async def set(
        self,
        reason: str,
        *,
        tries: int,
        after: float | timedelta | str = 0.0,
        then: AfterTries | str | None = None,
        target: str | None = None,
    ) -> RecoveryPolicy:
        """Retry dead letters of this reason `tries` times, each `after` so long dead.

        Those that die again after the last try are held (`then="hold"`) or given up ("fail").
        With `target` it applies to that target only, in place of the one for all. `tries=0`
        without `then` leaves them alone.
        """
        policy = checked_policy(reason, tries=tries, after=after, then=then, target=target)
        await self._store.recovery.set_policy(policy, self.actor)
        return policy

    async def remove(self, reason: str, *, target: str | None = None) -> None:
        """Remove a stored policy; NotFound if there is none. Presets are turned off by setting."""
        cause = checked_cause(reason)
        name = None if target is None else wanted_target(target)
        if not await self._store.recovery.remove_policy(cause, name, self.actor):
            which = cause if name is None else f"{cause} of {name}"
            raise NotFound("recovery policy", which, "duly recovery list shows all of them")

    async def generations(self, *, limit: int = 50) -> Sequence[Generation]:
        """The generations of the deployment, the latest first."""
        return await self._store.generations.latest(checks.checked_limit(limit))

    async def replay(self, generation: str, *, held: bool = False, dry_run: bool = False) -> Replay:
        """Give dead letters with a policy one try in a generation; workers do it at their rate.

        Each gets one try in a generation, however often this is asked for; also held ones with
        `held`, never those given up. Dead letters that died since the generation first started are
        left out. A dry run only counts.
        """
        name = checked_generation(generation)
        known = await self._store.generations.get(name)
        first_at = None if known is None else known.first_at
        which = [Disposition.RECOVERING, *([Disposition.HELD] if held else [])]
        matching = await self._undecided()
        for each in which:
            matching += await self._store.generations.count_untried(name, first_at, each)
        if dry_run:
            return Replay(matching=matching)
        begun = await self._store.generations.begin(name, with_held=held, actor=self.actor)
        return Replay(matching=matching, generation=begun)

    async def _undecided(self) -> int:
        """How many a policy applies to that no worker has looked at yet; not counted to the end."""
        store, found = self._store.recovery, 0
        policies = policies_of(await store.policies(), self._presets)
        for number, target in (await store.undecided_targets(MOST_TARGETS)).items():
            plan = self._plan(target)
            for letter in await store.undecided(number, target, COUNTED_UP_TO):
                found += policies.decide(letter, plan).disposition is Disposition.RECOVERING
            if found >= COUNTED_UP_TO:
                break
        return found
