"""Keeping the gates: which targets may be asked for now, and telling the store how they fare."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.endpoints import gates
from duly.domain.endpoints.endpoint import endpoint_name
from duly.domain.endpoints.gates import COUNTED
from duly.domain.events import CircuitClosed, CircuitOpened, EndpointDisabled
from duly.engine.loops import UNTIL_WOKEN, Pause
from duly.engine.membership import Membership
from duly.engine.targets.directory import TargetDirectory
from duly.engine.work_signal import WorkSignal
from duly.ports import ClaimableGroup, ClaimRequest, Emit, GateChange, SeenGate
from duly.ports import Gates as Store
from duly.records.endpoint import Circuit, EndpointState

LAND_SECONDS = 0.2
UNCLEAR = timedelta(seconds=1)
FIRST_SHARE = 8
FIRST_FEW = 8
"""One that has ended nothing yet gets an eighth of the slots, or as many if that is less."""
LONGEST_PACE = timedelta(seconds=1)
"""How long a limit is taken for granted: somebody may have changed it."""


class TargetReport(msgspec.Struct):
    """How a target fared since the store was told last: failures since its last success."""

    failures: int = 0
    succeeded: bool = False
    gone: bool = False
    unclear: timedelta | None = None
    """An attempt told nothing of it; after so long another may."""


class AdmissionControl:
    """What this worker knows of the gates, asked before each claim and told after each attempt."""

    name = "gates"

    def __init__(
        self,
        store: Store,
        emit: Emit,
        directory: TargetDirectory,
        signal: WorkSignal,
        membership: Membership,
        concurrency: int,
    ) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._emit = emit
        self._signal = signal
        self._membership = membership
        self._concurrency = concurrency
        self._outside = directory.outside
        self._foreign = directory.foreign
        self._shut: set[int] = set()
        self._guarded: set[int] = set()
        self._failing: set[int] = set()
        self._probe_at: dict[int, datetime] = {}
        self._paced: dict[int, datetime] = {}
        self._crowded: set[int] = set()
        self._probing: set[int] = set()
        self._turn = asyncio.Lock()
        self._here: Counter[int] = Counter()
        self._ended: Counter[int] = Counter()
        self._outgoing = 0
        self._reserved: Counter[int] = Counter()
        self._told: dict[int, int] = {}
        self._fared: dict[int, TargetReport] = {}

    def learn(self, surveyed: Sequence[ClaimableGroup]) -> None:
        """Take over what a survey saw of the gates."""
        self._shut = {each.target for each in surveyed if each.shut}
        # Of a target whose lanes are all under way a survey says nothing.
        self._failing -= {each.target for each in surveyed if not each.failing}
        self._failing |= {each.target for each in surveyed if each.failing}
        limited = {each.target for each in surveyed if each.limited}
        self._probe_at = {
            each.target: each.probe_at for each in surveyed if each.probe_at is not None
        }
        self._guarded = limited | self._probe_at.keys()
        self._paced = {target: at for target, at in self._paced.items() if target in limited}

    def ready_at(self, target: int, due_at: datetime) -> datetime | None:
        """When its lanes can be asked for, if they are due then; None until something changes."""
        if target in self._shut or self.room(target) <= 0:
            return None
        return max(due_at, self._probe_at.get(target, due_at), self._paced.get(target, due_at))

    def room(self, target: int) -> int:
        """How many more may be under way from here.

        One outside may take half of the slots that the others leave: so there is always room for
        one more, however many of them hang. It begins with few, and has one more for each that
        ended since the last failure: so one that hangs never gets that far.
        """
        if target not in self._outside:
            return self._concurrency
        here = self._here[target]
        others = self._outgoing - here
        first = max(self._concurrency // FIRST_SHARE, FIRST_FEW)
        proven = first + self._ended[target]
        return max(1, min((self._concurrency - others) // 2, proven)) - here

    def is_guarded(self, target: int) -> bool:
        """Whether each single one has to be let through."""
        return target in self._guarded

    def begin(self, target: int) -> None:
        """An attempt starts; those of handlers are nobody's business here."""
        if target in self._outside:
            self._here[target] += 1
            self._outgoing += 1

    def end(self, target: int) -> None:
        """An attempt is over."""
        if target not in self._outside:
            return
        self._here[target] -= 1
        self._ended[target] += 1
        self._outgoing -= 1
        if target in self._crowded:
            self._crowded.discard(target)
            self._paced.pop(target, None)
        if not self._here[target]:
            del self._here[target]

    def claimed(self, begun: Collection[int] = ()) -> None:
        """The claim that was let through is over: what it brought has begun."""
        self._reserved.clear()
        for target in self._probing.difference(begun):
            self.unclear(target, UNCLEAR)
        self._probing.clear()

    def _under_way(self, target: int) -> int:
        return self._here[target] + self._reserved[target]

    async def passing(self, asks: list[ClaimRequest]) -> list[ClaimRequest]:
        """Those asks, or as much of them, as the gates let through."""
        wanted: Counter[int] = Counter()
        for ask in asks:
            if ask.target in self._guarded:
                wanted[ask.target] += ask.quota
        if not wanted:
            return asks
        left = await self._admitted(wanted)
        passing = []
        for ask in asks:
            if ask.target in wanted:
                quota = min(ask.quota, left[ask.target])
                left[ask.target] -= quota
                ask = msgspec.structs.replace(ask, quota=quota)
            if ask.quota:
                passing.append(ask)
        return passing

    async def _admitted(self, wanted: Counter[int]) -> dict[int, int]:
        passes: dict[int, gates.Pass] = {}

        def decide(seen: SeenGate, now: datetime) -> GateChange:
            target, limits = seen.target, seen.limits
            here = self._under_way(target)
            gate, passes[target] = gates.admit(
                seen.gate, limits, wanted[target], here, seen.elsewhere, now
            )
            again_at = passes[target].again_at
            if gate.circuit is Circuit.CLOSED and again_at is not None:
                passes[target] = gates.Pass(passes[target].many, min(again_at, now + LONGEST_PACE))
            if limits.in_flight is None:
                return GateChange(gate)
            if here + seen.elsewhere >= limits.in_flight:
                self._crowded.add(target)
            return GateChange(gate, here + passes[target].many)

        async with self._turn:
            changes = await self._store.revise(self._membership.worker, wanted.keys(), decide)
            for target, granted in passes.items():
                self._granted(target, granted, changes[target][1])
        return {target: granted.many for target, granted in passes.items()}

    def _granted(self, target: int, granted: gates.Pass, change: GateChange) -> None:
        is_open = change.gate.circuit is not Circuit.CLOSED
        if is_open and granted.many:
            self._probing.add(target)
        if granted.again_at is not None:
            (self._probe_at if is_open else self._paced)[target] = granted.again_at
        if change.in_flight is not None:
            self._told[target] = change.in_flight
            self._reserved[target] = granted.many
            self.wake.set()

    def cares(self, target: int) -> bool:
        """Whether a success is worth telling."""
        return target in self._failing or target in self._fared

    def note(self, target: int, settlement: Settlement) -> None:
        """Remember how an attempt fared, if anyone needs to know."""
        failed = settlement.verdict in (Verdict.RETRY, Verdict.DEAD)
        if failed and settlement.reason in COUNTED[target in self._outside]:
            self._fared.setdefault(target, TargetReport()).failures += 1
            self._ended[target] = 0
        elif settlement.gone:
            self._fared[target] = TargetReport(succeeded=True, gone=True)
        elif self.cares(target) and (
            settlement.verdict is Verdict.COMPLETED or (failed and settlement.answer is not None)
        ):
            # It answered, if not as hoped.
            self._fared[target] = TargetReport(succeeded=True)
        else:
            over = settlement.verdict in (Verdict.EXPIRED, Verdict.SKIPPED)
            self.unclear(target, timedelta() if over else UNCLEAR)
            return
        self.wake.set()

    def succeeded(self, target: int) -> None:
        """An attempt's own transaction wrote that it succeeded."""
        if self.cares(target):
            self._fared[target] = TargetReport(succeeded=True)
            self.wake.set()

    def unclear(self, target: int, rest: timedelta) -> None:
        """What was let through told nothing of the target: if it was a probe, another may go."""
        if self.cares(target):
            self._fared.setdefault(target, TargetReport()).unclear = rest
            self.wake.set()

    async def tick(self) -> Pause:
        """Tell the store how targets fared, and what is no longer under way."""
        fared, self._fared = self._fared, {}
        landed = {target for target, told in self._told.items() if told > self._under_way(target)}
        if fared or landed:
            try:
                async with self._turn:
                    await self._tell(fared, landed)
            except BaseException:
                self._fared = fared | self._fared
                raise
        self._told = {target: told for target, told in self._told.items() if told}
        return Pause(LAND_SECONDS) if self._told else UNTIL_WOKEN

    async def _tell(self, fared: Mapping[int, TargetReport], landed: Collection[int]) -> None:
        def decide(seen: SeenGate, now: datetime) -> GateChange:
            report = fared.get(seen.target, TargetReport())
            gate = gates.succeeded(seen.gate) if report.succeeded else seen.gate
            if report.failures:
                gate = gates.failed(gate, report.failures, now)
            elif report.unclear is not None:
                gate = gates.unclear(gate, now, report.unclear)
            under_way = self._under_way(seen.target) if seen.target in landed else None
            return GateChange(gate, under_way, _verdict(seen, report, gate, now))

        changes = await self._store.revise(
            self._membership.worker, fared.keys() | set(landed), decide
        )
        for target, (seen, change) in changes.items():
            if change.in_flight is not None:
                self._told[target] = change.in_flight
            (self._failing.add if change.gate.failures else self._failing.discard)(target)
            self._tell_people(seen, change)
        if fared:
            self._signal.hint()

    def _tell_people(self, seen: SeenGate, change: GateChange) -> None:
        before, after = seen.gate.circuit, change.gate.circuit
        foreign = self._foreign.get(seen.target)
        if after is Circuit.CLOSED and before is not Circuit.CLOSED:
            self._emit(CircuitClosed(target=seen.name, namespace=foreign))
        elif before is Circuit.CLOSED and after is not Circuit.CLOSED:
            self._emit(
                CircuitOpened(
                    target=seen.name,
                    failures=change.gate.failures,
                    probe_at=change.gate.probe_at,
                    namespace=foreign,
                )
            )
        if change.disable is not None:
            name = endpoint_name(seen.name) or seen.name
            self._emit(EndpointDisabled(endpoint=name, reason=change.disable, namespace=foreign))


def _verdict(seen: SeenGate, fared: TargetReport, gate: gates.Gate, now: datetime) -> str | None:
    """Why the endpoint has to be disabled, if it has to."""
    if endpoint_name(seen.name) is None or seen.state == EndpointState.DISABLED:
        return None
    if fared.gone:
        return "it answered 410 Gone"
    if fared.failures and gates.is_given_up(gate, now):
        return f"nothing but failures since {gate.first_failed_at}"
    return None
