"""Retries dead letters by their recovery policies, and once in a new generation of the deployment.

One statement finds the namespaces with something to do, so the others cost nothing. Each step is a
short transaction; a worker that is killed between two of them leaves the rest to the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from duly.domain.deliveries.retry import decode
from duly.domain.endpoints.endpoint import endpoint_name, is_outside
from duly.domain.events import (
    DeadLettersEnded,
    DeadLettersRevived,
    Event,
    GenerationBegan,
    GenerationDone,
    GenerationWaits,
    RecoveryPoliciesDiffer,
)
from duly.domain.recovery import DeadLetter, Policies, policies_of
from duly.engine.loops import Pause, contained
from duly.ports import Clock, Emit, RecoveryWork, Store, Transport
from duly.records.recovery import Disposition, Generation
from duly.records.retry_plan import RetryPlan
from duly.settings import Settings

IDLE = 5.0
BUSY = 0.2
"""Seconds between two batches, at least."""
SHARE = 0.1
"""The share of its time in which it works, so that the store is left to urgent work."""
AGAIN = timedelta(minutes=10)
"""For how long the policies of a worker with another setting stay applied."""
BATCH = 50
TARGETS = 1000


class Reviver:
    """Applies policies to dead letters, and retries them when their time has come."""

    name = "reviver"

    def __init__(
        self, store: Store, transport: Transport, settings: Settings, clock: Clock, emit: Emit
    ) -> None:
        self.wake = asyncio.Event()
        self._clock = clock
        self._store = store
        self._transport = transport
        self._settings = settings
        self._emit = emit
        self.next_at: datetime | None = None
        """When the next dead letter is retried, as of the last tick."""
        self.did_some = False
        """Whether the last tick changed anything."""
        self._memory = _Memory()

    async def tick(self) -> Pause:
        """Do one batch in each namespace that has something to do."""
        settings, began = self._settings, self._clock.monotonic()
        steps = [_Step(IDLE)]
        for work in await self._store.recovery.survey(settings.served, settings.generation or None):
            store = self._store.within(work.namespace)
            foreign = None if store is self._store else work.namespace
            revival = _Revival(store, self._transport, settings, self._emit_within(foreign), work)
            step = await contained(self.name, foreign, self._emit, revival.step(self._memory))
            steps.append(step if isinstance(step, _Step) else _Step(step.seconds))
        self.next_at = min((each.next_at for each in steps if each.next_at), default=None)
        self.did_some = any(each.did_some for each in steps)
        took = self._clock.monotonic() - began
        return Pause(max(min(each.seconds for each in steps), took * (1 / SHARE - 1)))

    async def catch_up(self) -> None:
        """Do all that can be done at this moment."""
        await self.tick()
        while self.did_some:
            await self.tick()

    def _emit_within(self, namespace: str | None) -> Emit:
        if namespace is None:
            return self._emit
        return lambda event: self._emit(_in(event, namespace))


class _Memory(msgspec.Struct):
    """What a worker remembers between two ticks."""

    waits: set[tuple[str, str]] = msgspec.field(default_factory=set)
    """Namespaces and generations of which it was reported that they wait."""
    applied: dict[str, tuple[str, datetime]] = msgspec.field(default_factory=dict)
    """By namespace: the digest of this worker's policies, and when it was last seen applied."""


class _Step(msgspec.Struct, frozen=True):
    """How long to wait after a step, whether it changed anything, and the next retry."""

    seconds: float
    did_some: bool = False
    next_at: datetime | None = None


class _Tried(msgspec.Struct, frozen=True):
    """How many dead letters a generation changed, and why others still wait."""

    changed: int = 0
    has_rest: bool = False
    """The rate may allow no more at this moment."""
    waits_for: list[str] = []
    """Handlers that other workers have."""


def _in(event: Event, namespace: str) -> Event:
    return msgspec.structs.replace(event, namespace=namespace)


class _Revival:
    """The next steps in one namespace."""

    def __init__(
        self,
        store: Store,
        transport: Transport,
        settings: Settings,
        emit: Emit,
        work: RecoveryWork,
    ) -> None:
        self._store, self._generations = store.recovery, store.generations
        self._endpoints, self._wakeups = store.endpoints, store.wakeups
        self._namespace = work.namespace
        self._transport = transport
        self._settings = settings
        self._emit = emit
        self._work = work
        self._policies: Policies = policies_of(work.policies, settings.recovery_policies)

    async def step(self, memory: _Memory) -> _Step:
        """Do one batch of each kind."""
        await self._begin_own()
        if not self._policies and self._work.digest is None:
            return _Step(IDLE)
        digest = self._policies.digest
        if self._work.digest != digest:
            return await self._apply(digest, memory.applied)
        memory.applied[self._namespace] = digest, self._work.seen_at
        decided = self._work.undecided and bool(self._policies) and await self._decide(digest)
        revived = await self._revive()
        tried = await self._try_generations(memory.waits, more=decided)
        next_at = self._soonest if tried.has_rest else self._next_at
        if decided or revived or tried.changed:
            return _Step(BUSY, did_some=True, next_at=next_at)
        return _Step(self._idle(next_at), next_at=next_at)

    async def _apply(self, digest: str, applied: dict[str, tuple[str, datetime]]) -> _Step:
        """Let this worker's policies be applied to a batch again.

        Not if they were, and a worker with another setting has applied its own since: the two would
        undo each other's decisions all the time.
        """
        known, seen_at = applied.get(self._namespace, (None, self._work.seen_at))
        if known == digest and self._work.seen_at < seen_at + AGAIN:
            return _Step(IDLE)
        if known == digest:
            self._emit(RecoveryPoliciesDiffer())
        more = await self._store.forget(digest, BATCH)
        if not more:
            applied[self._namespace] = digest, self._work.seen_at
        return _Step(BUSY, did_some=more or bool(self._policies))

    async def _begin_own(self) -> None:
        own = self._settings.generation
        if own and not self._work.knows_own:
            await self._generations.begin(own, with_held=self._settings.generation_held)
            self._emit(GenerationBegan(generation=own))

    @property
    def _soonest(self) -> datetime:
        """When the rate allows the next retry at the latest."""
        return self._work.seen_at + timedelta(seconds=1 / self._settings.recovery_rate)

    @property
    def _next_at(self) -> datetime | None:
        next_at = self._work.next_at
        return None if next_at is None else max(next_at, self._soonest)

    def _idle(self, next_at: datetime | None) -> float:
        if next_at is None:
            return IDLE
        return min(IDLE, max(BUSY, (next_at - self._work.seen_at).total_seconds()))

    async def _decide(self, digest: str) -> bool:
        """Apply the policies to one batch of each target; whether there may be more."""
        decided = False
        for number, name in (await self._store.undecided_targets(TARGETS)).items():
            if self._transport.reaches(name):
                letters = await self._store.undecided(number, name, BATCH)
                plan = await self._plan(name)
                decisions = [self._policies.decide(each, plan) for each in letters]
                ended = await self._store.decide(digest, decisions)
                decided = True
                if ended:
                    self._emit(DeadLettersEnded(deliveries=ended))
        return decided

    async def _revive(self) -> int:
        work = self._work
        if work.next_at is None or work.next_at > work.seen_at:
            return 0
        revived = await self._store.revive(self._settings.recovery_rate, BATCH)
        self._tell(revived, None)
        return revived

    def _tell(self, revived: int, generation: str | None) -> None:
        if revived:
            self._wakeups.hint()
            self._emit(DeadLettersRevived(deliveries=revived, generation=generation))

    async def _try_generations(self, waits: set[tuple[str, str]], *, more: bool) -> _Tried:
        """Give dead letters of before their try in new generations."""
        found = _Tried()
        if not self._work.has_generation and (
            self._work.knows_own or not self._settings.generation
        ):
            return found
        for generation, demanded in await self._generations.open(self._settings.generation):
            waiting = set() if demanded else await self._generations.elsewhere(generation.name)
            tried = await self._try(generation, waiting, demanded=demanded)
            found = _Tried(found.changed + tried.changed, found.has_rest or tried.has_rest)
            if tried.waits_for:
                self._report(generation.name, tried.waits_for, waits)
            elif not (tried.changed or tried.has_rest or more or await self._others_decide()):
                await self._end(generation)
        return found

    async def _others_decide(self) -> bool:
        """Whether other workers have yet to apply the policies to dead letters of their targets."""
        if not (self._work.undecided and self._policies):
            return False
        targets = (await self._store.undecided_targets(TARGETS)).values()
        return not (await self._generations.elsewhere(None)).isdisjoint(targets)

    async def _end(self, generation: Generation) -> None:
        await self._generations.end(generation.name)
        self._emit(GenerationDone(generation=generation.name, deliveries=generation.tried))

    async def _try(self, generation: Generation, waiting: set[str], *, demanded: bool) -> _Tried:
        """Retry a batch in a generation; those of targets in `waiting` are left for later."""
        letters, others = await self._chosen(generation, waiting)
        if others:
            await self._generations.skip(generation.name, [each.id for each in others])
        if letters:
            rate = self._settings.recovery_rate
            done = await self._generations.revive(generation, letters, rate, BATCH)
            self._tell(done, generation.name)
            return _Tried(done + len(others), has_rest=True)
        if others:
            return _Tried(len(others))
        left = await self._untried(generation, Disposition.RECOVERING, set())
        if generation.with_held and not left:
            left = await self._untried(generation, Disposition.HELD, set())
        targets = {each.target for each in left}
        if not demanded:
            # Handlers that only other programs of the namespace have are not of this deployment.
            own = await self._generations.handlers(generation.name)
            targets = {each for each in targets if each in own or is_outside(each)}
        return _Tried(waits_for=sorted(targets))

    async def _chosen(
        self, generation: Generation, waiting: set[str]
    ) -> tuple[Sequence[DeadLetter], Sequence[DeadLetter]]:
        """A batch to retry, and held ones to which no policy applies.

        That a policy applies to a recovering one was decided by a worker that has its target's
        retry plan; held ones of targets that this worker does not reach are left to others.
        """
        letters = await self._untried(generation, Disposition.RECOVERING, waiting)
        if letters or not generation.with_held:
            return letters, []
        held = await self._untried(generation, Disposition.HELD, waiting)
        while foreign := {each.target for each in held if not self._transport.reaches(each.target)}:
            waiting = waiting | foreign
            held = await self._untried(generation, Disposition.HELD, waiting)
        plans = {target: await self._plan(target) for target in {each.target for each in held}}
        matching = [each for each in held if self._matches(each, plans[each.target])]
        return matching, [each for each in held if each not in matching]

    async def _untried(
        self, generation: Generation, disposition: Disposition, waiting: set[str]
    ) -> Sequence[DeadLetter]:
        return await self._generations.untried(generation, disposition, waiting, BATCH)

    async def _plan(self, target: str) -> RetryPlan:
        """The retry plan of a target: the transport knows only endpoints that it sends to."""
        name = endpoint_name(target)
        for endpoint in [] if name is None else await self._endpoints.some([name]):
            if endpoint.details.retry is not None:
                # An unreadable plan counts as none.
                with contextlib.suppress(msgspec.MsgspecError):
                    return decode(endpoint.details.retry)
        return self._transport.plan(target, self._namespace)

    def _matches(self, letter: DeadLetter, plan: RetryPlan) -> bool:
        policy = self._policies.policy_for(letter, plan)
        return policy is not None and policy.tries > 0

    def _report(self, generation: str, handlers: list[str], waits: set[tuple[str, str]]) -> None:
        if (place := (self._namespace, generation)) not in waits:
            waits.add(place)
            self._emit(GenerationWaits(generation=generation, handlers=handlers))
