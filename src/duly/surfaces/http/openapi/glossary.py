"""Descriptions and examples of the fields of the API, by name.

A field of a request means the same everywhere. If it does not, and for fields of responses, the
entry also names the struct (`Why.reason`), or the resource in whose path it is (`keys.id`).
"""

from __future__ import annotations

from duly.surfaces.http.openapi.schemas import Words

ID = "01a1dfd1-5f0e-7c4b-9d5e-1f0c2a3b4c5d"
MOMENT = "2026-11-15T09:00:00Z"
LATER = "2026-11-16T09:00:00Z"

TAGS = {
    "alerts": "Current and past problems.",
    "audit": "Who changed what.",
    "calendars": "The closed days that rules leave out.",
    "dead-letters": "Deliveries that are not tried again by themselves.",
    "batches": "Deliveries whose common end is announced by one more.",
    "deliveries": "What to deliver, and the result.",
    "endpoints": "URLs with a name, a secret and limits.",
    "events": "Live counts, one event a second.",
    "keys": "Who may use this API.",
    "limits": "How many deliveries of a target run at once and start a second.",
    "orphaned-schedules": "Schedules that code declared and no longer declares.",
    "recovery": "How dead letters recover by themselves.",
    "schedules": "Rules that make deliveries.",
    "session": "Who the caller is, and sessions of browsers.",
    "stats": "Counts of deliveries, attempts and failures.",
    "status": "The current state.",
    "streams": "Deliveries that run one at a time, in order.",
    "user": "The birthday service: people and their yearly greeting.",
    "workers": "The processes that attempt deliveries.",
}

IN_PATHS = {
    "batches.id": Words("the id of a batch", ID),
    "calendars.name": Words("the name of a calendar", "nrw"),
    "dead-letters.id": Words("the id of a dead letter", ID),
    "deliveries.id": Words("the id of a delivery", ID),
    "endpoints.name": Words("the name of an endpoint", "billing"),
    "keys.id": Words("the id of a key, which is its public part", "k3f9a0c2"),
    "limits.target": Words("a handler's name, or endpoint:NAME", "report"),
    "recovery.reason": Words("why they died", "timeout_exceeded"),
    "schedules.name": Words("the name of a schedule", "monday-report"),
    "streams.name": Words("the name of a stream", "customer:17"),
    "workers.id": Words("the number of a worker", "3"),
    "events.Last-Event-ID": Words("the id of the last event that was received", "1794733200"),
}

FILTERS = {
    "CountsQuery.state": Words("not possible: the counts are by state", "dead"),
    "DeliveryFilter.state": Words("only those in this state", "dead"),
    "DeliveryFilter.batch": Words("the id of a batch: only its members", ID),
    "BatchQuery.state": Words("only those in this state; all by default", "closed"),
    "DeliveryFilter.key": Words("the key it was accepted with", "order-17"),
    "DeadLetterCriteria.target": Words(
        "a handler, endpoint:NAME, or https://example.org", "report"
    ),
    "FailuresQuery.since": Words("the start of the time to count; a day ago if left out", MOMENT),
    "AlertsQuery.limit": Words("the most that are returned", 50),
    "reason": Words("why it failed, as in timeout_exceeded", "timeout_exceeded"),
    "fingerprint": Words("the same for similar errors; see the groups", "9f2c51d03b7a"),
    "schedule": Words("the name of the schedule that made it", "monday-report"),
    "tag": Words("a tag that it has", "vip"),
    "text": Words("text in its error, key or payload", "connection refused"),
}

MOVES = {
    "ids": Words("the ids of dead letters", [ID]),
    "since": Words("died at this time or later", MOMENT),
    "until": Words("died at this time or earlier", LATER),
    "Which.until": Words("the `until` of an answer, to continue the same operation", LATER),
    "PendingMove.state": Words("only `pending` is possible; leave it out", "pending"),
    "PendingMove.until": Words("the `until` of an answer, to continue the same operation", LATER),
    "names": Words("the names of schedules", ["monday-report"]),
    "ScheduleMove.until": Words("the `until` of an answer, to continue the same operation", LATER),
    "PauseMany.reason": Words("why; it is stored and shown later", "maintenance"),
    "dry_run": Words("only count", True),
    "note": Words("why; it is stored and shown later", "the customer has left"),
    "Why.reason": Words("why; it is stored and shown later", "maintenance"),
    "only": Words("the ids of those to release; all others stay behind the head", [ID]),
    "keep": Words("the ids of those that stay behind the head; all others are released", [ID]),
    "block_for": Words(
        "for how many seconds a failed head blocks the stream; null: until somebody acts", 900
    ),
    "overlap_seconds": Words("the seconds for which requests are signed with both secrets", 86400),
}

DELIVERIES = {
    "at": Words("when it is due; now if neither `at` nor `after` is given", LATER),
    "key": Words("a repeated key returns the first delivery and makes no other", "order-17"),
    "unique": Words("`pending`: of those with this key and target only one waits", "pending"),
    "on_duplicate": Words(
        "if another waits: drop this one (keep), or give that one its contents (replace), and its "
        "due time too (postpone)",
        "keep",
    ),
    "latest": Words("seconds from the first acceptance, past which it is not postponed", 300),
    "url": Words("an http or https address", "https://example.org/hook"),
    "endpoint": Words("the name of an endpoint", "billing"),
    "method": Words("the method of the request", "POST"),
    "headers": Words("headers of the request, by name", {"x-team": "blue"}),
    "timeout": Words("the seconds for the whole exchange, 1 to 60", 10),
    "payload": Words("any JSON; its bytes are stored and sent unchanged", {"hello": "world"}),
    "stream": Words("deliveries of one stream run one at a time, in order", "customer:17"),
    "on_failure": Words(
        "deliveries behind a failed one wait (block) or proceed (release); null: the default",
        "release",
    ),
    "fair_key": Words("deliveries with different fair keys take turns", "customer:17"),
    "limit_key": Words("the key to which the target's limits for each key apply", "customer:17"),
    "batch": Words("the id of the open batch that it joins", ID),
    "priority": Words("9 is the highest, 1 the lowest", 5),
    "tags": Words("tags for searching", ["vip"]),
    "expires_at": Words("it is cancelled if it has not started by this time", LATER),
    "retry": Words("when to try again", {"type": "exponential", "base": 5, "attempts": 3}),
    "Exponential.type": Words("each wait is twice as long as the previous one"),
    "Delays.type": Words("a list of waits"),
    "NoRetry.type": Words("one attempt, no retry"),
    "Delays.seconds": Words("how long to wait before each attempt after the first", [30, 120, 600]),
}

SCHEDULES = {
    "rule": Words("when: exactly one of cron, every, at, yearly and any_of", {"every": "15m"}),
    "catch_up": Words("what happens with missed occurrences", "latest"),
    "window": Words("occurrences missed longer ago than this many seconds are left out", 3600),
    "cap": Words("the most missed occurrences that are delivered", 1000),
    "overlap": Words("what happens with an occurrence while an earlier one is unfinished", "skip"),
    "start": Words("no occurrence before this time", MOMENT),
    "end": Words("no occurrence after this time", LATER),
    "Backfill.start": Words("the start of the range", MOMENT),
    "Backfill.end": Words("the end of the range", LATER),
    "max_runs": Words("the schedule ends after this many occurrences", 12),
    "jitter": Words("each occurrence is delayed by up to this many seconds", 30),
    "expires_after": Words(
        "each delivery is cancelled if it has not started this many seconds after it was due", 3600
    ),
}

OTHERS = {
    "NewBatch.name": Words("a name for people", "november"),
    "NewEndpoint.name": Words("the name that deliveries use", "billing"),
    "description": Words("what it is for", "invoices"),
    "rate": Words("the most deliveries per second", 50),
    "in_flight": Words("the most deliveries in flight at once", 10),
    "limits": Words("limits for each key", {"name": "customer", "in_flight": 2}),
    "scope": Words("what it may do: read, operate or admin", "operate"),
    "NewKey.expires_at": Words("when it expires", LATER),
}

ANSWERED = {
    "Accepted.id": Words("the id of the delivery", ID),
    "Accepted.state": Words("the state of the delivery"),
    "Accepted.due_at": Words("when it is due"),
    "Delivery.id": Words("its id", ID),
    "Delivery.namespace": Words("the namespace it belongs to"),
    "Delivery.target": Words("a handler, endpoint:NAME, or the origin of a URL"),
    "Delivery.state": Words("the state of the delivery"),
    "Delivery.attempt": Words("how many attempts were begun"),
    "Delivery.due_at": Words("when it was, or will be, due"),
    "Delivery.accepted_at": Words("when it was stored"),
    "Delivery.next_at": Words("when it will be tried next"),
    "Delivery.claimed_at": Words("when a worker last claimed it"),
    "Delivery.started_at": Words("when the last attempt began"),
    "Delivery.finished_at": Words("when it was completed, cancelled or became dead"),
    "Delivery.dead_at": Words("when it became a dead letter"),
    "Delivery.late_seconds": Words("how long after its due moment the last attempt began"),
    "Delivery.key": Words("the key it was accepted with"),
    "Delivery.unique": Words("`pending` if only one with its key waits for its target"),
    "Delivery.replaced_at": Words("when its contents were last replaced"),
    "Delivery.url": Words("where a webhook goes"),
    "Delivery.batch": Words("the batch it belongs to"),
    "Delivery.stream": Words("the stream it belongs to"),
    "Delivery.position": Words("its position in that stream"),
    "Delivery.schedule": Words("the schedule that made it"),
    "Delivery.scheduled_for": Words("the moment that the schedule's rule named"),
    "Delivery.merged": Words("how many missed occurrences were merged into this one"),
    "Delivery.reason": Words("why the last attempt failed"),
    "Delivery.error": Words("the error of the last attempt"),
    "Delivery.fingerprint": Words("the same for similar errors"),
    "Delivery.crashes": Words("how many workers died while they held it"),
    "Delivery.worker": Words("the number of the worker that holds or held it"),
    "Delivery.payload": Words("what is delivered"),
    "Schedule.version": Words("counts its changes; it is the `ETag`"),
    "Calendar.version": Words("counts its changes; it is the `ETag`"),
    "Endpoint.version": Words("counts its changes; it is the `ETag`"),
    "Batch.id": Words("its id", ID),
    "Batch.name": Words("its name"),
    "Batch.state": Words("open, closed, finished or cancelled"),
    "Batch.members": Words("how many members it has"),
    "Batch.waiting": Words("members that wait"),
    "Batch.processing": Words("members that are being processed"),
    "Batch.completed": Words("members that completed"),
    "Batch.dead": Words("members that are dead letters"),
    "Batch.cancelled": Words("members that were cancelled"),
    "Batch.opened_at": Words("when it was opened"),
    "Batch.closed_at": Words("when it was closed"),
    "Batch.cancelled_at": Words("when it was cancelled"),
    "Batch.finished_at": Words("when all its members had ended"),
    "BulkResult.matching": Words("how many matched"),
    "BulkResult.moved": Words("how many this call changed"),
    "BulkResult.until": Words("pass it with the same request to continue"),
    "BulkResult.finished": Words("false while some are left"),
    "Page.items": Words("what was found"),
    "Page.next": Words("pass it as `cursor` to get the next page; null at the end"),
    "Problem.status": Words("the HTTP status", 422),
    "Problem.title": Words("the HTTP status in words", "Unprocessable Entity"),
    "Problem.detail": Words("what is wrong, and what to do about it"),
    "Problem.type": Words("about:blank: the status is the kind of problem"),
    "Problem.field": Words("which part of the request is invalid", "priority"),
}

GLOSSARY: dict[str, Words] = IN_PATHS | FILTERS | MOVES | DELIVERIES | SCHEDULES | OTHERS | ANSWERED
