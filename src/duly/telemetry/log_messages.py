"""The log message and level of each event; log wording is written nowhere else."""

from __future__ import annotations

import logging

from duly.domain import events
from duly.domain.events import Event

WORDING: dict[type[Event], tuple[int, str]] = {
    events.WorkerStarted: (
        logging.INFO,
        "worker {worker} started with {concurrency} slots for {handlers}",
    ),
    events.WorkerStopped: (
        logging.INFO,
        "worker {worker} stopped, {released} handed back, {held} could not be ended and stay held",
    ),
    events.LeaseWasLost: (
        logging.WARNING,
        "worker {worker} lost its lease; its {running} running deliveries are abandoned",
    ),
    events.CrashesTakenBack: (
        logging.WARNING,
        "worker {worker} was taken for dead but lives: {crashes} crashes were taken back",
    ),
    events.WorkersBuried: (logging.WARNING, "workers {workers} are dead: no heartbeat"),
    events.Reclaimed: (
        logging.WARNING,
        "{deliveries} deliveries taken back from dead workers, {poison} of them poison",
    ),
    events.AttemptFailed: (
        logging.WARNING,
        "attempt {attempt} of delivery {delivery} to {target} failed ({reason}): {error}",
    ),
    events.DeliveryCompleted: (
        logging.DEBUG,
        "delivery {delivery} to {target} completed at attempt {attempt}",
    ),
    events.HandlerOverran: (
        logging.WARNING,
        "handler {target} goes on with delivery {delivery} after its timeout of {timeout:g} s; "
        "the delivery stays held until it ends",
    ),
    events.DeliveryLate: (
        logging.WARNING,
        "delivery {delivery} to {target} (schedule: {schedule}) was due {due_at} and started "
        "{started_at}, {minutes_late} minutes late",
    ),
    events.MoreWereLate: (logging.WARNING, "{deliveries} more deliveries were late"),
    events.SettleRefused: (
        logging.WARNING,
        "the outcome of delivery {delivery} was refused: its lane is no longer held under {token}",
    ),
    events.SuspectRuns: (
        logging.WARNING,
        "delivery {delivery} runs alone: its workers died {crashes} times",
    ),
    events.RowPassedOver: (logging.ERROR, "lane {lane} was passed over: {problem}"),
    events.PlanUnreadable: (
        logging.ERROR,
        "the retry plan of delivery {delivery} cannot be read, its handler's is taken: {problem}",
    ),
    events.StoreWentAway: (logging.ERROR, "{loop} waits: {problem}"),
    events.ConnectionsShort: (
        logging.WARNING,
        "connections are short: {open} of {wanted} shared ones are open, and no more are to be had "
        "for now; it goes on more slowly: {problem}",
    ),
    events.StoreCameBack: (logging.INFO, "{loop} goes on after {failures} failures"),
    events.LoopFailed: (logging.ERROR, "{loop} failed and will try again: {problem}"),
    events.LoopEnded: (
        logging.ERROR,
        "{loop} has ended and this process no longer does its work; restart it: {problem}",
    ),
    events.SweptUp: (
        logging.ERROR,
        "swept up {without_lane} deliveries without a lane, {held_by_nobody} lanes held by nobody, "
        "{lane_without_delivery} lanes without a delivery, {schedule_without_next} schedules "
        "without their next occurrence; this should never be needed",
    ),
    events.RecoveryBegan: (
        logging.WARNING,
        "recovering: {deliveries} late deliveries, the oldest due {oldest}",
    ),
    events.RecoveryGoesOn: (
        logging.WARNING,
        "recovering: {deliveries} late deliveries left, the oldest due {oldest}; {rate} a second, "
        "{seconds_left} s to go",
    ),
    events.RecoveryEnded: (
        logging.INFO,
        "recovered: {deliveries} late deliveries drained by this worker in {seconds} s",
    ),
    events.SchedulesPlanned: (
        logging.DEBUG,
        "{schedules} schedules planned: {made} made, {merged} merged, {skipped} skipped",
    ),
    events.ScheduleUnreadable: (
        logging.ERROR,
        "schedule {schedule!r} is left alone, a newer version wrote it: {problem}",
    ),
    events.ZoneDataChanged: (
        logging.WARNING,
        "the data of zone {zone} changed (now {version}): {schedules} schedules computed anew",
    ),
    events.ClockStepped: (
        logging.WARNING,
        "the clock stepped by {seconds:+.0f} s; nothing is repeated, what was missed is caught up",
    ),
    events.ClockIsBehind: (
        logging.ERROR,
        "the clock is {seconds:.0f} s behind what was planned already "
        "(planning stops: {planning_stops}); set the clock",
    ),
    events.CircuitOpened: (
        logging.WARNING,
        "{target} failed {failures} times in a row: its deliveries wait, one of them tries it at "
        "{probe_at}",
    ),
    events.CircuitClosed: (logging.INFO, "{target} answers again: its deliveries go on"),
    events.EndpointDisabled: (
        logging.ERROR,
        "endpoint {endpoint} is disabled: {reason}; its deliveries wait until it is resumed",
    ),
    events.SecretUnreadable: (
        logging.ERROR,
        "a secret or header of {endpoint} cannot be read, its deliveries wait: {problem}",
    ),
    events.AlertRaised: (logging.ERROR, "ALERT {kind} {subject}: {detail}"),
    events.AlertCleared: (logging.INFO, "alert {kind} {subject} is over after {minutes} minutes"),
    events.AlertUntold: (logging.ERROR, "the alert {kind} could not be handed on: {problem}"),
    events.AnalyticsWentAway: (
        logging.WARNING,
        "analytics are not written, deliveries go on: {problem}",
    ),
    events.AnalyticsCameBack: (
        logging.WARNING,
        "analytics are written again after {failures} failures, {lost} counts were lost",
    ),
    events.Pruned: (logging.INFO, "{deliveries} finished deliveries removed"),
    events.Draining: (logging.INFO, "stopping: {running} deliveries get {seconds:g} s to end"),
}

ONLY_COUNTED: frozenset[type[Event]] = frozenset(
    {
        events.BatchSettled,
        events.DeliveriesAccepted,
        events.LanesClaimed,
        events.PlannerTicked,
    }
)
"""Events too frequent to log."""

LIMITED: dict[type[Event], type[events.MoreWereLate]] = {events.DeliveryLate: events.MoreWereLate}
"""Events with a limit of log lines a second, each with the event that counts the omitted ones."""
