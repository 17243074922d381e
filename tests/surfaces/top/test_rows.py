"""Rows: what the keys do to a record, and which moves ask first."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.records.alert import Alert, AlertKind
from duly.records.dead_letter import DeadLetterFilter, DeadLetterGroup
from duly.records.delivery import Delivery
from duly.records.state import State
from duly.records.status import NamespaceStatus
from duly.records.stream import Head, Policy, Stream, StreamState
from duly.records.worker import Worker
from duly.surfaces.cli.top import rows
from duly.surfaces.cli.top.attention import concerns
from duly.surfaces.cli.top.content import Verb
from duly.surfaces.cli.top.reading import bars
from duly.surfaces.cli.top.views import Kind, View

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


def delivery(state: State, attempt: int = 0, due_at: datetime = NOW) -> Delivery:
    return Delivery(
        id="01a1e745-948d-710f-a557-b93770673dfa",
        namespace="default",
        target="mail",
        state=state,
        priority=5,
        attempt=attempt,
        due_at=due_at,
        accepted_at=NOW - HOUR,
    )


@pytest.mark.parametrize(
    ("found", "question"),
    [
        (delivery(State.DEAD, 3), ""),
        (delivery(State.PENDING, 2, NOW + HOUR), ""),
        (delivery(State.PENDING, 0, NOW - HOUR), ""),
        (delivery(State.PENDING, 0, NOW + HOUR), "mail is due in 1h. Deliver it now?"),
    ],
)
def test_a_delivery_is_asked_about_only_before_its_moment(found: Delivery, question: str) -> None:
    move = rows.delivery_row(found, NOW).retry
    assert move is not None
    assert (move.verb, move.name, move.question) == (Verb.RETRY, found.id, question)


@pytest.mark.parametrize("state", [State.PROCESSING, State.COMPLETED, State.CANCELLED])
def test_a_delivery_that_runs_or_ended_is_not_retried(state: State) -> None:
    assert rows.delivery_row(delivery(state), NOW).retry is None


@pytest.mark.requirement("F4")
def test_a_group_is_retried_as_it_was_shown_and_asked_about() -> None:
    group = DeadLetterGroup(
        fingerprint="abc",
        reason="timeout",
        count=3,
        first_at=NOW - HOUR,
        last_at=NOW,
        targets=["mail", "sms"],
        error="late",
    )
    row = rows.group_row(group, DeadLetterFilter(tag="red"), "tag:red", NOW + HOUR)
    assert row.opens == View(Kind.GROUP, "abc", text="tag:red")
    assert row.retry is not None
    assert row.retry.question == "Retry 3 dead letters of mail, sms?"
    assert row.retry.which == DeadLetterFilter(tag="red", fingerprint="abc", until=NOW)


def stream(state: StreamState, *, waiting: int, head: State | None) -> Stream:
    at = Head(id="x", state=head, attempt=1, position=1) if head else None
    paused_at = NOW if state is StreamState.PAUSED else None
    return Stream(
        name="s",
        state=state,
        on_failure=Policy.BLOCK,
        head=at,
        waiting=waiting,
        paused_at=paused_at,
    )


@pytest.mark.requirement("F7")
def test_a_stream_is_retried_and_paused_and_asks_before_it_resumes_many() -> None:
    blocked = rows.stream_row(stream(StreamState.BLOCKED, waiting=2, head=State.DEAD), NOW)
    assert blocked.retry is not None
    assert blocked.pause is not None
    assert (blocked.retry.question, blocked.pause.verb) == ("", Verb.PAUSE)
    resume = rows.stream_pause(stream(StreamState.PAUSED, waiting=2, head=State.PENDING))
    assert (resume.verb, resume.question) == (Verb.RESUME, "Resume s? 3 deliveries wait for it.")
    assert rows.stream_pause(stream(StreamState.PAUSED, waiting=0, head=None)).question == ""
    assert rows.stream_retry(stream(StreamState.RUNNING, waiting=1, head=State.PROCESSING)) is None


def test_only_a_worker_that_is_alive_can_be_drained() -> None:
    def worker(alive: bool, draining_at: datetime | None = None) -> Worker:
        return Worker(
            id=7,
            name="here:1",
            namespace="default",
            started_at=NOW,
            beat_at=NOW,
            lease=60.0,
            concurrency=9,
            handlers=[],
            namespaces=["*"],
            version="1",
            draining_at=draining_at,
            alive=alive,
        )

    def verb(found: Worker) -> str | None:
        move = rows.worker_row(found, NOW).pause
        return None if move is None else move.verb

    assert [verb(worker(True)), verb(worker(True, NOW)), verb(worker(False))] == [
        *(Verb.PAUSE, Verb.RESUME, None)
    ]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, ""),
        (NOW, "now"),
        (NOW + HOUR, "in 1h"),
        (NOW - timedelta(seconds=90), "1m30s ago"),
        (NOW - timedelta(milliseconds=300), "now"),
    ],
)
def test_moments_are_relative(moment: datetime | None, text: str) -> None:
    assert rows.when(moment, NOW) == text


def test_each_concern_opens_what_it_is_about() -> None:
    status = NamespaceStatus(
        at=NOW,
        store_seconds=0.0,
        due=1,
        dead=10_000,
        undecided=10_000,
        poison=2,
        blocked_streams=1,
        paused_streams=3,
        circuits_open=["endpoint:billing", "https://a.example"],
        endpoints_disabled=["old"],
        endpoints_paused=["new"],
    )
    alert = Alert(
        id=1,
        kind=AlertKind.PLANNER_SILENT,
        subject="",
        detail="since 09:00",
        raised_at=NOW,
        seen_at=NOW,
    )
    assert [(each.cells[0], each.opens) for each in concerns(status, [alert])] == [
        ("no worker runs, and 1 delivery is due", View(Kind.WORKERS)),
        ("10000 or more dead letters need a decision", View(Kind.DEAD_LETTERS)),
        ("2 deliveries have crashed workers", View(Kind.DELIVERIES, state="pending")),
        ("1 stream is blocked", View(Kind.STREAMS, state="blocked")),
        ("3 streams are paused", View(Kind.STREAMS, state="paused")),
        ("the circuit of endpoint:billing is open", View(Kind.ENDPOINT, "billing")),
        (
            "the circuit of https://a.example is open",
            View(Kind.DELIVERIES, text='target:"https://a.example"'),
        ),
        ("the endpoint old is disabled", View(Kind.ENDPOINT, "old")),
        ("the endpoint new is paused", View(Kind.ENDPOINT, "new")),
        ("planner silent: since 09:00", None),
    ]
    assert concerns(NamespaceStatus(at=NOW, store_seconds=0.0, workers=1, due=5), []) == ()


def test_bars_show_the_highest_and_the_lowest() -> None:
    assert bars([0, 1, 50, 100]) == " ▁▄█"
    assert bars([0, 0]) == "  "
    assert bars([]) == ""
