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
        "worker {worker} stopped; {released} deliveries handed back, {held} still run and are held",
    ),
    events.LeaseWasLost: (
        logging.WARNING,
        "worker {worker} lost its lease; its {running} running deliveries are abandoned",
    ),
    events.CrashesTakenBack: (
        logging.WARNING,
        "worker {worker} was declared dead but is alive; {crashes} crashes are no longer counted",
    ),
    events.WorkersDeclaredDead: (logging.WARNING, "workers {workers} are dead: no heartbeat"),
    events.Reclaimed: (
        logging.WARNING,
        "{deliveries} deliveries reclaimed from dead workers, {poison} of them poison",
    ),
    events.AttemptFailed: (
        logging.WARNING,
        "attempt {attempt} of delivery {delivery} to {target} failed ({reason}): {error}",
    ),
    events.DeliveryCompleted: (
        logging.DEBUG,
        "delivery {delivery} to {target} completed at attempt {attempt}",
    ),
    events.DeliveryCancelled: (
        logging.INFO,
        "delivery {delivery} to {target} was cancelled during attempt {attempt}, as asked",
    ),
    events.HandlerOverran: (
        logging.WARNING,
        "handler {target} still runs delivery {delivery} after its timeout of {timeout:g} s; "
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
    events.LaneSkipped: (logging.ERROR, "lane {lane} was skipped: {problem}"),
    events.PlanUnreadable: (
        logging.ERROR,
        "the retry plan of delivery {delivery} cannot be read, its handler's is used: {problem}",
    ),
    events.StoreUnreachable: (logging.ERROR, "{loop} waits for the store: {problem}"),
    events.ConnectionsShort: (
        logging.WARNING,
        "too few connections: {open} of {wanted} shared ones are open, and no more can be opened; "
        "work goes on more slowly: {problem}",
    ),
    events.StoreReachable: (logging.INFO, "{loop} works again after {failures} failures"),
    events.LoopFailed: (logging.ERROR, "{loop} failed and will try again: {problem}"),
    events.LoopEnded: (
        logging.ERROR,
        "{loop} has ended, and this process no longer does its work; restart it: {problem}",
    ),
    events.SweptUp: (
        logging.ERROR,
        "repaired {without_lane} deliveries without a lane, {without_owner} lanes without a "
        "holder, {lane_without_delivery} lanes without a delivery, {schedule_without_next} "
        "schedules without their next occurrence; this should never be needed",
    ),
    events.RecoveryBegan: (
        logging.WARNING,
        "recovering: {deliveries} late deliveries, the oldest due {oldest}",
    ),
    events.RecoveryGoesOn: (
        logging.WARNING,
        "recovering: {deliveries} late deliveries left, the oldest due {oldest}; {rate} a second, "
        "{seconds_left} s left",
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
        "schedule {schedule!r} is not planned, a newer version wrote it: {problem}",
    ),
    events.ZoneDataChanged: (
        logging.WARNING,
        "the data of zone {zone} changed (now {version}): {schedules} schedules replanned",
    ),
    events.OrphansFound: (
        logging.WARNING,
        "the code no longer declares these schedules, and they still deliver: {schedules} "
        "({orphans} in all); `duly schedules orphans --remove` removes them",
    ),
    events.OrphansRemoved: (
        logging.INFO,
        "removed schedules that the code no longer declares: {schedules} ({orphans} in all)",
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
        "{target} failed {failures} times in a row: its deliveries wait, one is tried at "
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
    events.StreamReleased: (
        logging.WARNING,
        "stream {stream} goes on without its head {delivery}, which failed for {seconds:g} s",
    ),
    events.BatchFinished: (
        logging.INFO,
        "batch {batch} is finished: {completed} of {members} members completed, {dead} are dead "
        "letters, {cancelled} were cancelled",
    ),
    events.BatchUnsent: (
        logging.ERROR,
        "the completion of batch {batch} was not sent; `duly batches show {batch}` says why",
    ),
    events.AlertRaised: (logging.ERROR, "ALERT {kind} {subject}: {detail}"),
    events.AlertCleared: (logging.INFO, "alert {kind} {subject} cleared after {minutes} minutes"),
    events.AlertUnreported: (logging.ERROR, "the alert {kind} could not be sent: {problem}"),
    events.AnalyticsUnreachable: (
        logging.WARNING,
        "analytics are not written, deliveries go on: {problem}",
    ),
    events.AnalyticsReachable: (
        logging.WARNING,
        "analytics are written again after {failures} failures, {lost} counts were lost",
    ),
    events.DeadLettersRevived: (
        logging.INFO,
        "{deliveries} dead letters retried by their recovery policies or for a generation",
    ),
    events.DeadLettersEnded: (
        logging.WARNING,
        "{deliveries} dead letters held or given up: the tries of their recovery policies are used "
        "up; see duly dead list --disposition held",
    ),
    events.RecoveryPoliciesDiffer: (
        logging.WARNING,
        "workers have different recovery policies; set recovery_policies alike for all of them",
    ),
    events.GenerationBegan: (
        logging.INFO,
        "generation {generation} is new; dead letters with a recovery policy get one try in it",
    ),
    events.GenerationWaits: (
        logging.INFO,
        "generation {generation} waits for other workers that have {handlers}",
    ),
    events.GenerationDone: (
        logging.INFO,
        "generation {generation} has tried {deliveries} dead letters",
    ),
    events.Pruned: (logging.INFO, "{deliveries} finished deliveries pruned"),
    events.Draining: (logging.INFO, "stopping: {running} deliveries have {seconds:g} s to finish"),
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
