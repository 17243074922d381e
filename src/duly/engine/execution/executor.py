"""What all executions share, and how outcomes become settlements."""

from __future__ import annotations

import msgspec

from duly.domain.deliveries import retry
from duly.domain.deliveries.crashes import CrashRule
from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Outcome, Settlement, settle
from duly.domain.events import PlanUnreadable
from duly.engine.execution.settler import Settler
from duly.engine.store_clock import StoreClock
from duly.ports import Chance, Emit, Report, Store, Transport
from duly.records.retry_plan import RetryPlan


class Executor:
    """What all executions share: the store, the transport, and the rules for outcomes."""

    def __init__(
        self,
        store: Store,
        transport: Transport,
        store_clock: StoreClock,
        chance: Chance,
        crash_rule: CrashRule,
        settler: Settler,
        emit: Emit,
    ) -> None:
        self.store = store
        self.transport = transport
        self.store_clock = store_clock
        self.now = store_clock.now
        """The current time by the store's clock."""
        self.now_us = store_clock.now_us
        """The same in microseconds since 1970; called twice for every delivery."""
        self.settler = settler
        self.reports: dict[tuple[str, int], Report] = {}
        """The latest report of each attempt that is not stored yet; written from any thread."""
        self.is_stopping = False
        """Whether the worker is cancelling its attempts."""
        self._chance = chance
        self._crash_rule = crash_rule
        self._emit = emit

    def plan(self, claimed: Claimed, target: str, namespace: str) -> RetryPlan:
        """The delivery's own retry plan, or its target's if there is none or it is unreadable."""
        if claimed.retry is not None:
            try:
                return retry.decode(claimed.retry)
            except msgspec.MsgspecError as error:
                foreign = None if namespace == self.store.namespace else namespace
                problem = str(error)
                self._emit(PlanUnreadable(delivery=claimed.id, problem=problem, namespace=foreign))
        return self.transport.plan(target, namespace)

    def decide(
        self,
        claimed: Claimed,
        target: str,
        namespace: str,
        outcome: Outcome,
        started_us: int | None,
    ) -> Settlement:
        """The settlement for an outcome."""
        return settle(
            claimed,
            outcome,
            self.plan(claimed, target, namespace),
            started_us=started_us,
            finished_us=self.now_us(),
            chance=self._chance.fraction,
            crash_rule=self._crash_rule,
        )
