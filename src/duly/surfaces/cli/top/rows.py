"""Records as rows: their cells, how they look, and what the keys do to them."""

from __future__ import annotations

from datetime import datetime

from duly.records.dead_letter import DeadLetterFilter, DeadLetterGroup
from duly.records.delivery import Delivery
from duly.records.endpoint import Circuit, Endpoint, EndpointState
from duly.records.schedule import Schedule, ScheduleState, ScheduleSummary
from duly.records.state import State
from duly.records.stream import Stream, StreamState
from duly.records.worker import Worker
from duly.safe_text import shown_url
from duly.surfaces.cli.endpoints.describe import state_in_words
from duly.surfaces.cli.terminal.output import cell
from duly.surfaces.cli.terminal.times import spelled
from duly.surfaces.cli.top.content import Move, Row, Tone, Verb
from duly.surfaces.cli.top.views import Kind, View

DELIVERY_HEADINGS = ("id", "state", "target", "try", "due", "error")
GROUP_HEADINGS = ("count", "reason", "targets", "last", "error")
SCHEDULE_HEADINGS = ("name", "state", "next", "rule", "target", "runs")
STREAM_HEADINGS = ("name", "state", "waiting", "try", "next", "error")
ENDPOINT_HEADINGS = ("name", "state", "waiting", "sending", "url")
WORKER_HEADINGS = ("id", "name", "state", "busy", "seen", "handlers")

SHORT_ID = 18
"""Enough of an id to tell it from its neighbours."""
TONES = {
    State.PENDING: Tone.PLAIN,
    State.PROCESSING: Tone.BUSY,
    State.COMPLETED: Tone.GOOD,
    State.DEAD: Tone.BAD,
    State.CANCELLED: Tone.FAINT,
}
STREAM_TONES = {
    StreamState.IDLE: Tone.FAINT,
    StreamState.RUNNING: Tone.BUSY,
    StreamState.RETRYING: Tone.WARNING,
    StreamState.BLOCKED: Tone.BAD,
    StreamState.PAUSED: Tone.WARNING,
}
SCHEDULE_TONES = {
    "paused": Tone.WARNING,
    "finished": Tone.FAINT,
    ScheduleState.UNREADABLE: Tone.BAD,
}


def delivery_row(found: Delivery, now: datetime) -> Row:
    """A delivery in a list."""
    cells = (found.id[:SHORT_ID], found.state, found.target, found.attempt)
    return Row(
        key=found.id,
        cells=_cells(*cells, when(found.due_at, now), found.error),
        tone=TONES[found.state],
        opens=View(Kind.DELIVERY, found.id),
        retry=delivery_retry(found, now),
    )


def delivery_retry(found: Delivery, now: datetime) -> Move | None:
    """Retry a dead letter, or a waiting delivery now; before its first moment only if confirmed."""
    if found.state not in (State.PENDING, State.DEAD):
        return None
    is_early = found.state is State.PENDING and found.attempt == 0 and found.due_at > now
    due = when(found.due_at, now)
    question = f"{found.target} is due {due}. Deliver it now?" if is_early else ""
    return Move(Verb.RETRY, Kind.DELIVERY, found.id, question)


def group_row(found: DeadLetterGroup, within: DeadLetterFilter, text: str, now: datetime) -> Row:
    """Dead letters with the same error; `within` is the filter of the list, typed as `text`."""
    last, targets = when(found.last_at, now), found.targets
    return Row(
        key=found.fingerprint,
        cells=_cells(found.count, found.reason, targets, last, found.error),
        tone=Tone.BAD,
        opens=View(Kind.GROUP, found.fingerprint, text=text),
        retry=group_retry(found, within),
    )


def group_retry(found: DeadLetterGroup, within: DeadLetterFilter) -> Move:
    """Retry the dead letters of a group that were shown, and not those that died since."""
    criteria = {name: getattr(within, name) for name in within.__struct_fields__}
    chosen = {"fingerprint": found.fingerprint, "until": found.last_at}
    letters = "1 dead letter" if found.count == 1 else f"{found.count} dead letters"
    return Move(
        Verb.RETRY,
        Kind.GROUP,
        found.fingerprint,
        f"Retry {letters} of {cell(found.targets)}?",
        DeadLetterFilter(**criteria | chosen),
    )


def schedule_row(found: ScheduleSummary, now: datetime) -> Row:
    """A schedule in a list."""
    rule = found.description or found.problem
    return Row(
        key=found.name,
        cells=_cells(
            found.name, found.state, when(found.next_at, now), rule, found.target, found.runs
        ),
        tone=SCHEDULE_TONES.get(found.state, Tone.PLAIN),
        opens=View(Kind.SCHEDULE, found.name),
        pause=schedule_pause(found),
    )


def schedule_pause(found: ScheduleSummary | Schedule) -> Move | None:
    """Pause it, or resume it if it is paused."""
    if found.state == ScheduleState.UNREADABLE:
        return None
    return _toggle(Kind.SCHEDULE, found.name, found.state == "paused")


def stream_row(found: Stream, now: datetime) -> Row:
    """A stream in a list."""
    head = found.head
    attempt, next_at, error = (
        ("", None, "") if head is None else (head.attempt, head.next_at, head.error)
    )
    return Row(
        key=found.name,
        cells=_cells(found.name, found.state, found.waiting, attempt, when(next_at, now), error),
        tone=STREAM_TONES.get(found.state, Tone.PLAIN),
        opens=View(Kind.STREAM, found.name),
        retry=stream_retry(found),
        pause=stream_pause(found),
    )


def stream_retry(found: Stream) -> Move | None:
    """Retry its head now."""
    if found.head is None or found.head.state is State.PROCESSING:
        return None
    return Move(Verb.RETRY, Kind.STREAM, found.name)


def stream_pause(found: Stream) -> Move:
    """Pause it, or resume it if it is paused."""
    waiting = found.waiting + (found.head is not None)
    return _toggle(Kind.STREAM, found.name, found.paused_at is not None, waiting)


def endpoint_row(found: Endpoint) -> Row:
    """An endpoint in a list."""
    is_well = found.state is EndpointState.ACTIVE and found.circuit.state is Circuit.CLOSED
    is_paused = found.state is EndpointState.PAUSED
    url = shown_url(found.url)
    return Row(
        key=found.name,
        cells=_cells(found.name, state_in_words(found), found.waiting, found.under_way, url),
        tone=Tone.PLAIN if is_well else Tone.WARNING if is_paused else Tone.BAD,
        opens=View(Kind.ENDPOINT, found.name),
        pause=endpoint_pause(found),
    )


def endpoint_pause(found: Endpoint) -> Move:
    """Pause it; resume it if it is paused or disabled, or its circuit is not closed."""
    sends = found.state is EndpointState.ACTIVE and found.circuit.state is Circuit.CLOSED
    return _toggle(Kind.ENDPOINT, found.name, not sends, found.waiting)


def worker_row(found: Worker, now: datetime) -> Row:
    """A worker in a list; a worker is paused by draining it."""
    is_draining = found.draining_at is not None
    state = ("draining" if is_draining else "running") if found.alive else found.ended_how or "lost"
    busy, seen = f"{found.holding}/{found.concurrency}", when(found.beat_at, now)
    return Row(
        key=str(found.id),
        cells=_cells(found.id, found.name, state, busy, seen, found.handlers),
        tone=(Tone.WARNING if is_draining else Tone.PLAIN) if found.alive else Tone.FAINT,
        pause=_toggle(Kind.WORKER, str(found.id), is_draining) if found.alive else None,
    )


def when(moment: datetime | None, now: datetime) -> str:
    """How long ago a moment was, or how far it is."""
    if moment is None:
        return ""
    seconds = round((moment - now).total_seconds())
    if seconds == 0:
        return "now"
    return f"in {spelled(seconds)}" if seconds > 0 else f"{spelled(-seconds)} ago"


def _toggle(kind: Kind, name: str, is_paused: bool, waiting: int = 0) -> Move:
    if not is_paused:
        return Move(Verb.PAUSE, kind, name)
    question = f"Resume {cell(name)}? {waiting} deliveries wait for it." if waiting > 1 else ""
    return Move(Verb.RESUME, kind, name, question)


def _cells(*values: object) -> tuple[str, ...]:
    return tuple(map(cell, values))
