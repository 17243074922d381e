"""What needs attention, each with the view that solves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from duly.records.alert import Alert
from duly.records.status import NamespaceStatus
from duly.records.stream import StreamState
from duly.surfaces.cli.terminal.output import cell, counted
from duly.surfaces.cli.top.content import Row, Tone
from duly.surfaces.cli.top.views import Kind, View

ENDPOINT_TARGET = "endpoint:"


def concerns(now: NamespaceStatus, alerts: Sequence[Alert]) -> tuple[Row, ...]:
    """One row for each concern; Enter opens what it is about."""
    return (*_of_work(now), *_of_streams(now), *_of_endpoints(now), *_of_alerts(alerts))


def _of_work(now: NamespaceStatus) -> Iterator[Row]:
    if now.due and not now.workers:
        text = f"no worker runs, and {_number(now, now.due, 'delivery is', 'deliveries are')} due"
        yield _row("workers", Tone.BAD, text, View(Kind.WORKERS))
    if now.undecided:
        text = f"{_number(now, now.undecided, 'dead letter needs', 'dead letters need')} a decision"
        yield _row("dead", Tone.BAD, text, View(Kind.DEAD_LETTERS))
    if now.poison:
        text = f"{_number(now, now.poison, 'delivery has', 'deliveries have')} crashed workers"
        yield _row("poison", Tone.BAD, text, View(Kind.DELIVERIES, state="pending"))


def _of_streams(now: NamespaceStatus) -> Iterator[Row]:
    for count, state, tone in (
        (now.blocked_streams, StreamState.BLOCKED, Tone.BAD),
        (now.paused_streams, StreamState.PAUSED, Tone.WARNING),
    ):
        if count:
            text = f"{_number(now, count, 'stream is', 'streams are')} {state}"
            yield _row(f"streams {state}", tone, text, View(Kind.STREAMS, state=state))


def _of_endpoints(now: NamespaceStatus) -> Iterator[Row]:
    for target in now.circuits_open:
        yield _row(f"open {target}", Tone.BAD, f"the circuit of {target} is open", _target(target))
    for names, state, tone in (
        (now.endpoints_disabled, "disabled", Tone.BAD),
        (now.endpoints_paused, "paused", Tone.WARNING),
    ):
        for name in names:
            text = f"the endpoint {name} is {state}"
            yield _row(f"{state} {name}", tone, text, View(Kind.ENDPOINT, name))


def _of_alerts(alerts: Sequence[Alert]) -> Iterator[Row]:
    for each in alerts:
        text = f"{each.kind.replace('_', ' ')}: {each.detail}"
        opens = _target(each.subject) if each.subject else None
        yield _row(f"alert {each.id}", Tone.WARNING, text, opens)


def _target(name: str) -> View:
    """The endpoint, or the deliveries of another target."""
    if name.startswith(ENDPOINT_TARGET):
        return View(Kind.ENDPOINT, name.removeprefix(ENDPOINT_TARGET))
    return View(Kind.DELIVERIES, text=f'target:"{name}"')


def _number(now: NamespaceStatus, count: int, one: str, many: str) -> str:
    return f"{counted(count, now.counted_up_to)} {one if count == 1 else many}"


def _row(key: str, tone: Tone, text: str, opens: View | None) -> Row:
    return Row(key=key, cells=(cell(text),), tone=tone, opens=opens)
