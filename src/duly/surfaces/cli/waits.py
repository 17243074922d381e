"""Which endpoint a delivery goes to and, while it waits for its target, why."""

from __future__ import annotations

from typing import Any

from duly.app import App
from duly.domain.delivery import Delivery
from duly.domain.endpoints import Endpoint, endpoint_name, why_waiting
from duly.domain.errors import NotFound
from duly.domain.states import State
from duly.surfaces.cli.render import cell


async def outlook(app: App, delivery: Delivery) -> dict[str, Any]:
    """The delivery's endpoint with its present URL, and what it waits for besides its moment."""
    name = endpoint_name(delivery.target)
    endpoint = None if name is None else await _found(app, name)
    url = None if endpoint is None else endpoint.details.url
    waits = None
    if delivery.state is State.PENDING:
        waits = await _circuit(app, delivery) if name is None else _why(app, name, endpoint)
    return {"endpoint": None if name is None else {"name": name, "url": url}, "waits": waits}


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
    for each in await app.store.agenda.survey():
        if each.target == numbers.get(delivery.target) and each.probe_at is not None:
            return (
                f"{delivery.target} failed too often in a row, so its circuit is open; one "
                f"delivery tries it at {cell(each.probe_at)}"
            )
    return None
