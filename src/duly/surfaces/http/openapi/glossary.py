"""What the fields of the API mean: the description and the example of each, by its name.

A name that is sent means the same everywhere. Where it does not, and for what is answered, the
entry names the struct too (`Why.reason`), or the resource in whose path it stands (`keys.id`).
"""

from __future__ import annotations

from duly.surfaces.http.openapi.schemas import Words

ID = "01a1dfd1-5f0e-7c4b-9d5e-1f0c2a3b4c5d"
MOMENT = "2026-11-15T09:00:00Z"
LATER = "2026-11-16T09:00:00Z"

TAGS = {
    "alerts": "What is wrong, or was.",
    "audit": "Who changed what.",
    "dead-letters": "Deliveries that will not be tried again by themselves.",
    "deliveries": "What is to be delivered, and what became of it.",
    "endpoints": "URLs with a name, a secret and limits.",
    "events": "What happens, second by second.",
    "keys": "Who may use this API.",
    "schedules": "Rules that make deliveries.",
    "stats": "How much was done, and how it went.",
    "status": "The current state.",
    "streams": "Deliveries that go one at a time, in order.",
    "user": "The birthday service: people who are greeted once a year.",
    "workers": "The processes that attempt deliveries.",
}

IN_PATHS = {
    "dead-letters.id": Words("the id of a dead letter", ID),
    "deliveries.id": Words("the id of a delivery", ID),
    "endpoints.name": Words("the name of an endpoint", "billing"),
    "keys.id": Words("the id of a key, which is its public part", "k3f9a0c2"),
    "schedules.name": Words("the name of a schedule", "monday-report"),
    "streams.name": Words("the name of a stream", "customer:17"),
    "workers.id": Words("the number of a worker", "3"),
    "events.Last-Event-ID": Words("the id of the last event that was received", "1794733200"),
}

FILTERS = {
    "DeliveryQuery.state": Words("only those in this state", "dead"),
    "DeliveryQuery.key": Words("the key that it was accepted under", "order-17"),
    "DeadWanted.target": Words("a handler, endpoint:NAME, or https://example.org", "report"),
    "FailuresQuery.since": Words("from when on to count; a day ago if left out", MOMENT),
    "AlertsQuery.limit": Words("how many at most", 50),
    "reason": Words("why it failed, as in timeout_exceeded", "timeout_exceeded"),
    "fingerprint": Words("what like errors have in common; see the groups", "9f2c51d03b7a"),
    "schedule": Words("the name of the schedule that made it", "monday-report"),
    "tag": Words("a tag that it has", "vip"),
    "text": Words("text in its error, key or payload", "connection refused"),
}

MOVES = {
    "ids": Words("the ids of dead letters", [ID]),
    "Which.target": Words("a handler, endpoint:NAME, or https://example.org", "report"),
    "since": Words("died then or later", MOMENT),
    "until": Words("died then or before", LATER),
    "dry_run": Words("only count", True),
    "note": Words("why, for those who look at it later", "the customer has left"),
    "Why.reason": Words("why, for those who look at it later", "maintenance"),
    "overlap_seconds": Words("for how many seconds the old secret signs beside the new", 86400),
}

DELIVERIES = {
    "at": Words("when it is due; now without it and without `after`", LATER),
    "key": Words("the same key gives the same delivery, and makes no second one", "order-17"),
    "url": Words("an http or https address", "https://example.org/hook"),
    "endpoint": Words("the name of an endpoint", "billing"),
    "method": Words("the method of the request", "POST"),
    "headers": Words("headers of the request, by name", {"x-team": "blue"}),
    "timeout": Words("for how many seconds to wait for the whole answer, 1 to 60", 10),
    "payload": Words("any JSON; it is kept and sent as it is", {"hello": "world"}),
    "stream": Words("those of one stream go one at a time, in order", "customer:17"),
    "on_failure": Words(
        "whether those behind one that fails wait (block) or go on (release); null for the default",
        "release",
    ),
    "priority": Words("9 goes first, 1 last", 5),
    "tags": Words("words to find it by", ["vip"]),
    "expires_at": Words("it is cancelled if it was not started by then", LATER),
    "retry": Words("when to try again", {"type": "exponential", "base": 5, "attempts": 3}),
    "Exponential.type": Words("each wait is twice as long as the one before"),
    "Delays.type": Words("waits that are listed"),
    "NoRetry.type": Words("one attempt, and no other"),
    "Delays.seconds": Words("how long to wait before each attempt after the first", [30, 120, 600]),
}

SCHEDULES = {
    "rule": Words("when: exactly one of cron, every, at and yearly", {"every": "15m"}),
    "catch_up": Words("what becomes of occurrences that were missed", "latest"),
    "window": Words("occurrences missed longer ago than this many seconds are left out", 3600),
    "cap": Words("how many that were missed are made up at most", 1000),
    "overlap": Words("what becomes of an occurrence while an earlier one is unfinished", "skip"),
    "start": Words("no occurrence before that", MOMENT),
    "end": Words("no occurrence after that", LATER),
    "Backfill.start": Words("from when on", MOMENT),
    "Backfill.end": Words("up to when", LATER),
    "max_runs": Words("the schedule ends after this many occurrences", 12),
    "jitter": Words("each occurrence is delayed by a random time of up to this many seconds", 30),
    "expires_after": Words(
        "each delivery is cancelled if it has not started this many seconds after it was due", 3600
    ),
}

OTHERS = {
    "NewEndpoint.name": Words("its name, by which deliveries name it", "billing"),
    "description": Words("what it is for", "invoices"),
    "rate": Words("the most deliveries per second", 50),
    "in_flight": Words("the most deliveries in flight at once", 10),
    "scope": Words("what it may do: read, operate or admin", "operate"),
    "NewKey.expires_at": Words("from when on it opens nothing", LATER),
}

ANSWERED = {
    "AcceptedDelivery.id": Words("the id of the delivery", ID),
    "AcceptedDelivery.state": Words("the state of the delivery"),
    "AcceptedDelivery.due_at": Words("when it is due"),
    "DeliveryRecord.id": Words("its id", ID),
    "DeliveryRecord.namespace": Words("whose it is"),
    "DeliveryRecord.target": Words("a handler, endpoint:NAME, or the origin of a URL"),
    "DeliveryRecord.state": Words("the state of the delivery"),
    "DeliveryRecord.attempt": Words("how many attempts were begun"),
    "DeliveryRecord.due_at": Words("when it was, or will be, due"),
    "DeliveryRecord.accepted_at": Words("when it was stored"),
    "DeliveryRecord.next_at": Words("when it will be tried next"),
    "DeliveryRecord.claimed_at": Words("when a worker took it last"),
    "DeliveryRecord.started_at": Words("when the last attempt began"),
    "DeliveryRecord.finished_at": Words("when it reached its end"),
    "DeliveryRecord.dead_at": Words("when it became a dead letter"),
    "DeliveryRecord.late_seconds": Words("how long after its due moment the last attempt began"),
    "DeliveryRecord.key": Words("the key that it was accepted under"),
    "DeliveryRecord.url": Words("where a webhook goes"),
    "DeliveryRecord.stream": Words("the stream in whose order it goes"),
    "DeliveryRecord.position": Words("its place in that stream"),
    "DeliveryRecord.schedule": Words("the schedule that made it"),
    "DeliveryRecord.scheduled_for": Words("the moment that the schedule's rule named"),
    "DeliveryRecord.merged": Words("how many missed occurrences were merged into this one"),
    "DeliveryRecord.reason": Words("why it failed last"),
    "DeliveryRecord.error": Words("what went wrong last"),
    "DeliveryRecord.fingerprint": Words("what like errors have in common"),
    "DeliveryRecord.crashes": Words("how many workers ended while they had it"),
    "DeliveryRecord.worker": Words("the number of the worker that has, or had, it"),
    "DeliveryRecord.payload": Words("what is delivered"),
    "ScheduleRecord.version": Words("counts its changes; it is the `ETag`"),
    "EndpointRecord.version": Words("counts its changes; it is the `ETag`"),
    "Moved.matching": Words("how many there were"),
    "Moved.moved": Words("how many were moved by this call"),
    "Moved.until": Words("give it with the same request to go on"),
    "Moved.finished": Words("false while there are more to move"),
    "Page.items": Words("what was found"),
    "Page.next": Words("give it as `cursor` to get the following page; null at the end"),
    "Problem.status": Words("the HTTP status", 422),
    "Problem.title": Words("the HTTP status in words", "Unprocessable Entity"),
    "Problem.detail": Words("what is wrong, and what to do about it"),
    "Problem.type": Words("about:blank: the status says which kind of problem it is"),
    "Problem.field": Words("which part of the request cannot be taken", "priority"),
}

GLOSSARY: dict[str, Words] = IN_PATHS | FILTERS | MOVES | DELIVERIES | SCHEDULES | OTHERS | ANSWERED
