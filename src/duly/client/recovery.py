"""A server's recovery policies, and generations of its deployment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from duly.client.requester import Requester, page_of
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.recovery import checked_cause, checked_generation, checked_policy
from duly.records.recovery import AfterTries, Generation, RecoveryPolicy, Replay

POLICIES = ("recovery", "policies")
GENERATIONS = ("recovery", "generations")


class Recovery:
    """The recovery of one server's dead letters."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def policies(self) -> Sequence[RecoveryPolicy]:
        """The policies that apply: stored ones, and presets if its setting turns them on."""
        return (await self._requester.get(page_of(RecoveryPolicy), *POLICIES)).items

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
        """
        policy = checked_policy(reason, tries=tries, after=after, then=then, target=target)
        body = msgspec.to_builtins(policy)
        del body["reason"], body["is_preset"]
        return await self._requester.put(RecoveryPolicy, *POLICIES, policy.reason, body=body)

    async def remove(self, reason: str, *, target: str | None = None) -> None:
        """Remove a stored policy; NotFound if there is none."""
        name = None if target is None else wanted_target(target)
        await self._requester.delete(*POLICIES, checked_cause(reason), target=name)

    async def generations(self, *, limit: int = 50) -> Sequence[Generation]:
        """The generations of the deployment, the latest first."""
        kind = page_of(Generation)
        return (await self._requester.get(kind, *GENERATIONS, limit=limit)).items

    async def replay(self, generation: str, *, held: bool = False, dry_run: bool = False) -> Replay:
        """Give dead letters with a policy one try in a generation; workers do it at their rate."""
        name = checked_generation(generation)
        body = {"generation": name, "held": held, "dry_run": dry_run}
        return await self._requester.post(Replay, *GENERATIONS, body=body)
