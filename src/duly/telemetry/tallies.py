"""What one event adds to the per-minute counts of its namespace."""

from __future__ import annotations

from duly.domain import events
from duly.domain.events import Event
from duly.domain.monitoring.distributions import LATENESS, SECONDS, Times, spread
from duly.domain.monitoring.rollups import NO_TIMES, NOTHING, Tally
from duly.records.stats import Counts


def tally_of(event: Event) -> Tally:
    """The event as counts and durations, empty if it is not counted by the minute."""
    times = times_of(event) if isinstance(event, events.BatchSettled) else NO_TIMES
    return Tally(counts_of(event), times)


def times_of(batch: events.BatchSettled) -> Times:
    """The durations of a batch's attempts."""
    late = [(each.late, each.weight) for each in batch.timed if each.late is not None]
    return Times(
        lateness=spread(LATENESS, late),
        pickup=spread(SECONDS, [(each.pickup, each.weight) for each in batch.timed]),
        run=spread(SECONDS, [(each.run, each.weight) for each in batch.timed]),
    )


def counts_of(event: Event) -> Counts:
    """The event as counts, or `NOTHING` if it is not counted by the minute."""
    match event:
        case events.BatchSettled():
            return Counts(
                completed=event.completed,
                failed=event.retried + event.dead,
                dead=event.dead,
                cancelled=event.expired + event.skipped + event.cancelled,
                on_time=event.on_time,
                lateness_seconds=sum((each.late or 0.0) * each.weight for each in event.timed),
                run_seconds=sum(each.run * each.weight for each in event.timed),
            )
        case events.DeliveryLate():
            return Counts(late=1)
        case events.DeliveriesAccepted():
            return Counts(accepted=event.new)
        case events.SchedulesPlanned():
            return Counts(accepted=event.made)
        case events.Reclaimed():
            return Counts(reclaimed=event.deliveries, dead=event.poison)
        case _:
            return NOTHING
