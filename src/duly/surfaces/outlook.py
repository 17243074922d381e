"""Which endpoint a delivery goes to and, while it waits for its target or its turn, why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from duly.app import App
from duly.domain.delivery import Delivery
from duly.domain.endpoints import Endpoint, endpoint_name, why_waiting
from duly.domain.errors import NotFound
from duly.domain.lines import plight, to_do
from duly.domain.states import State


async def outlook(app: App, delivery: Delivery) -> dict[str, Any]:
    """The delivery's endpoint with its present URL, and what it waits for besides its moment."""
    name = endpoint_name(delivery.target)
    endpoint = None if name is None else await _found(app, name)
    url = None if endpoint is None else endpoint.details.url
    waits = None
    if delivery.state is State.PENDING:
        waits = await _turn(app, delivery)
    if delivery.state is State.PENDING and waits is None:
        waits = await _circuit(app, delivery) if name is None else _why(app, name, endpoint)
    return {"endpoint": None if name is None else {"name": name, "url": url}, "waits": waits}


async def _turn(app: App, delivery: Delivery) -> str | None:
    """What holds up one that has no time of its own, since others of its stream go first."""
    if delivery.stream is None or delivery.position is None or delivery.next_at is not None:
        return None
    line = await app.store.streams.get(delivery.stream, 0)
    if line.head == delivery.id and line.paused_at is None:
        return None
    return f"stream {delivery.stream}, {plight(line)}; {to_do(line)}"


def _why(app: App, name: str, endpoint: Endpoint | None) -> str | None:
    why = why_waiting(name, endpoint)
    if why is None and endpoint is not None and (problem := app.endpoints.problem(endpoint)):
        # The workers may have other keys than we; nobody but them can tell.
        return f"the secrets of endpoint {name} cannot be read from here: {problem}"
    return why


async def _found(app: App, name: str) -> Endpoint | None:
    try:
        return await app.endpoints.get(name)
    except NotFound:
        return None


async def _circuit(app: App, delivery: Delivery) -> str | None:
    """What is held against a handler, or the host of a plain URL."""
    numbers = await app.store.targets.numbers([delivery.target], create=False)
    for each in await app.store.agenda.look():
        if each.target == numbers.get(delivery.target) and each.probe_at is not None:
            return (
                f"{delivery.target} failed too often in a row, so its circuit is open; one "
                f"delivery tries it at {_told(each.probe_at)}"
            )
    return None


def _told(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
