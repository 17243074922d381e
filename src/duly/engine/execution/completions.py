"""Events of single completions, for a log that wants them; nothing is emitted for any other."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.events import DeliveryCompleted
from duly.engine.execution.settler import Settler
from duly.ports import Emit


def emit_completions(settler: Settler, emit: Emit) -> None:
    """Have an event emitted for each delivery that the settler completed."""
    others = settler.on_settled

    def note(written: Sequence[Settlement]) -> None:
        if others is not None:
            others(written)
        for each in written:
            if each.verdict is Verdict.COMPLETED:
                emit(_event(settler, each))

    settler.on_settled = note


def _event(settler: Settler, settlement: Settlement) -> DeliveryCompleted:
    started_at = settlement.started_at
    ran = None if started_at is None else settlement.finished_at - started_at
    return DeliveryCompleted(
        delivery=settlement.delivery,
        target=settler.names.get(settlement.target, str(settlement.target)),
        attempt=settlement.attempt,
        seconds=None if ran is None else ran.total_seconds(),
        namespace=settler.foreign.get(settlement.target),
    )
