"""Admission control: which targets may be called now, and reports to the store about them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.endpoints import gates
from duly.domain.endpoints.endpoint import endpoint_name
from duly.domain.endpoints.gates import COUNTED, NO_LIMITS
from duly.domain.events import CircuitClosed, CircuitOpened, EndpointDisabled
from duly.engine.loops import UNTIL_WOKEN, Pause
from duly.engine.membership import Membership
from duly.engine.targets.directory import TargetDirectory
from duly.engine.targets.pace import Pace
from duly.engine.targets.pacing import Pacing
from duly.engine.work_signal import WorkSignal
from duly.ports import ClaimableGroup, ClaimRequest, Emit, GateChange, SeenGate
from duly.ports import Gates as Store
from duly.records.endpoint import Circuit, EndpointState

LAND_SECONDS = 0.2
UNCLEAR = timedelta(seconds=1)
FIRST_SHARE = 8
FIRST_FEW = 8
"""A target without finished attempts gets an eighth of the slots, but at least eight."""
SLOW = 2
"""Ahead is what is completed in 50 ms. If twice as many run, an attempt takes about 100 ms: what is
ahead would be handed back before its turn, or soon after."""
LONGEST_PACE = timedelta(seconds=1)
"""How long a limit is used before it is read again."""


class TargetReport(msgspec.Struct):
    """Results of a target since the last report: failures since its last success."""

    failures: int = 0
    succeeded: bool = False
    gone: bool = False
    unclear: timedelta | None = None
    """Inconclusive probe: wait this long before the next one."""


class AdmissionControl:
    """What this worker knows about the gates; asked before a claim, updated after an attempt."""

    name = "admission control"

    def __init__(
        self,
        store: Store,
        emit: Emit,
        directory: TargetDirectory,
        signal: WorkSignal,
        membership: Membership,
        pacing: Pacing,
        pace: Pace,
        concurrency: int,
    ) -> None:
        self.wake = asyncio.Event()
        self.pacing = pacing
        self._pace = pace
        self._store = store
        self._emit = emit
        self._signal = signal
        self._membership = membership
        self._concurrency = concurrency
        self._outside = directory.outside
        self._foreign = directory.foreign
        self._shut: set[int] = set()
        self._guarded: set[int] = set()
        self._keyed: set[int] = set()
        """Targets whose keys have limits."""
        self._failing: set[int] = set()
        self._probe_at: dict[int, datetime] = {}
        self._paced: dict[int, datetime] = {}
        self._crowded: set[int] = set()
        self._probing: set[int] = set()
        self._turn = asyncio.Lock()
        # Not a Counter, which is slower: it is changed twice for every delivery.
        self._here: defaultdict[int, int] = defaultdict(int)
        self._ended: Counter[int] = Counter()
        self._outgoing = 0
        self._waiting: Counter[int] = Counter()
        self._reserved: Counter[int] = Counter()
        self._reported: dict[int, int] = {}
        self._reports: dict[int, TargetReport] = {}

    def learn(self, surveyed: Sequence[ClaimableGroup]) -> None:
        """Update from a survey."""
        self._shut = {each.target for each in surveyed if each.shut}
        # A survey does not list a target whose lanes are all held.
        self._failing -= {each.target for each in surveyed if not each.failing}
        self._failing |= {each.target for each in surveyed if each.failing}
        limited = {each.target for each in surveyed if each.limited}
        self._count_running(limited - self._guarded)
        self._probe_at = {
            each.target: each.probe_at for each in surveyed if each.probe_at is not None
        }
        self._guarded = limited | self._probe_at.keys()
        self._keyed = {each.target for each in surveyed if each.each_key != NO_LIMITS}
        self._paced = {target: at for target, at in self._paced.items() if target in limited}
        self.pacing.forget_all_but(limited)

    def _count_running(self, limited: Collection[int]) -> None:
        """Report the running attempts of targets that have a limit since the last survey."""
        for target in limited:
            if self._here.get(target) and target not in self._reported:
                # More than run, so that the next tick reports how many do.
                self._reported[target] = self._under_way(target) + 1
                self.wake.set()

    def ready_at(self, target: int, due_at: datetime) -> datetime | None:
        """When a lane of the target that is due can be claimed; None until something changes."""
        if target in self._shut or self.room(target) <= 0:
            return None
        return max(due_at, self._probe_at.get(target, due_at), self._paced.get(target, due_at))

    def room(self, target: int) -> int:
        """How many more deliveries of the target this worker may claim.

        An endpoint or URL that is fast may have some ahead of its slots. They are claimed together
        when less than half of them are left, since a large claim costs little more.
        """
        if target not in self._outside:
            return self._concurrency
        here, slots, ahead = self._here.get(target, 0), self._slots(target), self.ahead(target)
        left = slots + ahead - here
        return left if here < slots or 2 * left >= ahead else 0

    def room_now(self, target: int) -> int:
        """How many of those can start at once, if there are free slots."""
        if target not in self._outside:
            return self._concurrency
        return max(0, self._slots(target) - self._here.get(target, 0))

    def room_ahead(self, target: int) -> int:
        """How many of those are ahead of the slots of an endpoint or URL."""
        return max(0, self.room(target) - self.room_now(target))

    def ahead(self, target: int) -> int:
        """How many deliveries of an endpoint or URL may be held: none if it fails or has limits."""
        if target in self._guarded or target in self._keyed or self.has_to_report(target):
            return 0
        ahead = self._pace.ahead(target)
        return ahead if self._running(target) <= SLOW * ahead else 0

    def excess(self, target: int) -> int:
        """How many running attempts of an endpoint or URL exceed its slots."""
        # Without a pace, what was claimed for free slots runs, even if others took some meanwhile.
        slots = self._slots(target) if self.ahead(target) else self._concurrency // 2
        return self._running(target) - max(1, slots)

    def may_be_behind(self, target: int) -> bool:
        """Whether some of its deliveries may have to wait behind its attempts."""
        if target not in self._outside or target in self._guarded:
            return False
        return self.ahead(target) > 0 or self._here[target] > self._concurrency // 2

    def is_slow(self, targets: Collection[int], ahead: int) -> bool:
        """Whether attempts of these handlers take longer than what is held ahead may wait."""
        claimed = sum(self._here.get(target, 0) for target in targets)
        return min(claimed, self._concurrency) > SLOW * ahead

    def _running(self, target: int) -> int:
        return self._here.get(target, 0) - self._waiting[target]

    def _slots(self, target: int) -> int:
        """How many attempts of an endpoint or URL may run here.

        It may take half of the slots that the others leave, so there is always room for one more,
        however many of them hang. It begins with few slots and gets one more for each attempt that
        ended since the last failure, so a hanging one stays at few.
        """
        others = self._outgoing - self._running(target)
        first = max(self._concurrency // FIRST_SHARE, FIRST_FEW)
        proven = first + self._ended[target]
        return max(1, min((self._concurrency - others) // 2, proven))

    def is_held_up(self, target: int, now: datetime) -> bool:
        """Whether the target waits only for attempts of its own to end, or for its limits."""
        paced = self._paced.get(target)
        return self.room(target) <= 0 or (paced is not None and paced > now)

    def is_guarded(self, target: int) -> bool:
        """Whether each delivery needs to be admitted."""
        return target in self._guarded

    def may_wait(self, target: int) -> bool:
        """Whether its deliveries may be held until a slot is free: a handler without limits."""
        return target not in self._outside and target not in self._guarded

    def begin(self, targets: Iterable[int]) -> None:
        """Count started attempts."""
        for target, many in Counter(targets).items():
            self._here[target] += many
            if target in self._outside:
                self._outgoing += many

    def hold(self, target: int, many: int) -> None:
        """So many more deliveries of an endpoint or URL wait behind its attempts; or fewer."""
        self._waiting[target] += many
        self._outgoing -= many

    def end(self, target: int) -> None:
        """Count an ended attempt."""
        self.drop(target)
        if target in self._outside:
            self._ended[target] += 1

    def drop(self, target: int) -> None:
        """Count a delivery that was claimed, but not attempted, as gone."""
        self._here[target] -= 1
        if target in self._outside:
            self._outgoing -= 1
            # Hosts may be many; handlers are few, and a count of zero is quicker than none.
            if not self._here[target]:
                del self._here[target]
                del self._waiting[target]
        if target in self._crowded:
            self._crowded.discard(target)
            self._paced.pop(target, None)

    def claimed(self, begun: Collection[int] = ()) -> None:
        """The admitted claim has ended, and its deliveries to the targets `begun` were started."""
        self._reserved.clear()
        for target in self._probing.difference(begun):
            self.unclear(target, UNCLEAR)
        self._probing.clear()

    def _under_way(self, target: int) -> int:
        return self._here.get(target, 0) + self._reserved[target]

    async def passing(self, asks: list[ClaimRequest]) -> list[ClaimRequest]:
        """The requests, reduced to what the gates admit."""
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
            # Here, not after the commit, which takes a while: the delays count from `now`.
            self.pacing.set(target, passes[target].pace)
            again_at = passes[target].again_at
            if gate.circuit is Circuit.CLOSED and again_at is not None:
                passes[target] = msgspec.structs.replace(
                    passes[target], again_at=min(again_at, now + LONGEST_PACE)
                )
            if limits.in_flight is None:
                return GateChange(gate)
            here += passes[target].many
            if here + seen.elsewhere >= limits.in_flight:
                self._crowded.add(target)
            return GateChange(gate, here)

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
            self._reported[target] = change.in_flight
            self._reserved[target] = granted.many
            self.wake.set()

    def has_to_report(self, target: int) -> bool:
        """Whether a success has to be reported."""
        return target in self._failing or target in self._reports

    def note(self, target: int, settlement: Settlement) -> None:
        """Note the result of an attempt, if it has to be reported."""
        failed = settlement.verdict in (Verdict.RETRY, Verdict.DEAD)
        if failed and settlement.reason in COUNTED[target in self._outside]:
            self._reports.setdefault(target, TargetReport()).failures += 1
            self._ended[target] = 0
        elif settlement.gone:
            self._reports[target] = TargetReport(succeeded=True, gone=True)
        elif self.has_to_report(target) and (
            settlement.verdict is Verdict.COMPLETED or (failed and settlement.answer is not None)
        ):
            # It answered, although with a failure.
            self._reports[target] = TargetReport(succeeded=True)
        else:
            over = settlement.verdict in (Verdict.EXPIRED, Verdict.SKIPPED, Verdict.CANCELLED)
            self.unclear(target, timedelta() if over else UNCLEAR)
            return
        self.wake.set()

    def succeeded(self, target: int) -> None:
        """Note a success that the handler's transaction wrote."""
        if self.has_to_report(target):
            self._reports[target] = TargetReport(succeeded=True)
            self.wake.set()

    def unclear(self, target: int, rest: timedelta) -> None:
        """Note an inconclusive attempt: if it was a probe, another may follow."""
        if self.has_to_report(target):
            self._reports.setdefault(target, TargetReport()).unclear = rest
            self.wake.set()

    async def tick(self) -> Pause:
        """Report the results of targets, and attempts that ended, to the store."""
        reports, self._reports = self._reports, {}
        landed = {each for each, many in self._reported.items() if many > self._under_way(each)}
        if reports or landed:
            try:
                async with self._turn:
                    await self._report(reports, landed)
            except BaseException:
                self._reports = reports | self._reports
                raise
        self._reported = {each: many for each, many in self._reported.items() if many}
        return Pause(LAND_SECONDS) if self._reported else UNTIL_WOKEN

    async def _report(self, reports: Mapping[int, TargetReport], landed: Collection[int]) -> None:
        def decide(seen: SeenGate, now: datetime) -> GateChange:
            report = reports.get(seen.target, TargetReport())
            gate = gates.succeeded(seen.gate) if report.succeeded else seen.gate
            if report.failures:
                gate = gates.failed(gate, report.failures, now)
            elif report.unclear is not None:
                gate = gates.unclear(gate, now, report.unclear)
            under_way = self._under_way(seen.target) if seen.target in landed else None
            return GateChange(gate, under_way, _fault(seen, report, gate, now))

        changes = await self._store.revise(
            self._membership.worker, reports.keys() | set(landed), decide
        )
        for target, (seen, change) in changes.items():
            if change.in_flight is not None:
                self._reported[target] = change.in_flight
            (self._failing.add if change.gate.failures else self._failing.discard)(target)
            self._emit_changes(seen, change)
        if reports:
            self._signal.hint()

    def _emit_changes(self, seen: SeenGate, change: GateChange) -> None:
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


def _fault(seen: SeenGate, report: TargetReport, gate: gates.Gate, now: datetime) -> str | None:
    """Why the endpoint has to be disabled; None if it has not."""
    if endpoint_name(seen.name) is None or seen.state == EndpointState.DISABLED:
        return None
    if report.gone:
        return "it answered 410 Gone"
    if report.failures and gates.is_given_up(gate, now):
        return f"all attempts failed since {gate.first_failed_at}"
    return None
