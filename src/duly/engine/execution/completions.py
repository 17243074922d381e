"""Events of single completions, emitted only if the log level includes them."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.events import DeliveryCompleted
from duly.engine.execution.settler import Observer
from duly.engine.targets.directory import TargetDirectory
from duly.ports import Emit


def emit_completions(emit: Emit) -> Observer:
    """An observer that emits an event for each completed delivery."""

    def note(written: Sequence[Settlement], directory: TargetDirectory) -> None:
        for each in written:
            if each.verdict is Verdict.COMPLETED:
                emit(_event(each, directory))

    return note


def _event(settlement: Settlement, directory: TargetDirectory) -> DeliveryCompleted:
    started_at = settlement.started_at
    ran = None if started_at is None else settlement.finished_at - started_at
    return DeliveryCompleted(
        delivery=settlement.delivery,
        target=directory.names.get(settlement.target, str(settlement.target)),
        attempt=settlement.attempt,
        seconds=None if ran is None else ran.total_seconds(),
        namespace=directory.foreign.get(settlement.target),
    )
