"""The endpoint of a delivery, and what a waiting delivery waits for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from duly.domain.deliveries.retry import attempts_allowed, decode
from duly.domain.deliveries.unique import waits_for
from duly.domain.endpoints.endpoint import StoredEndpoint, endpoint_name, is_outside, why_waiting
from duly.domain.endpoints.limits import key_record, limit_record, why_key_limited, why_limited
from duly.domain.streams.stream import plight, to_do
from duly.errors import NotFound
from duly.ports import Store
from duly.records.delivery import Delivery, EndpointPlace
from duly.records.retry_plan import RetryPlan
from duly.records.state import State
from duly.safe_text import shown_url

Problem = Callable[[StoredEndpoint], str | None]
"""Returns why an endpoint's secrets cannot be read here, or None."""


async def outlook(
    store: Store, problem: Problem, delivery: Delivery, default: RetryPlan
) -> dict[str, Any]:
    """The fields of `DeliveryDetail` that depend on the present: endpoint, wait, attempts allowed.

    The attempts allowed are None for handlers, whose plans only their workers know.
    """
    name = endpoint_name(delivery.target)
    endpoint = None if name is None else await _found(store, name)
    url = None if endpoint is None else shown_url(endpoint.details.url)
    waits = None
    if delivery.state is State.PENDING:
        turn = _turn if delivery.unique is None else _same_key
        waits = await turn(store, delivery)
    if delivery.state is State.PENDING and waits is None:
        waits = await _circuit(store, delivery) if name is None else _why(problem, name, endpoint)
    if delivery.state is State.PENDING and waits is None:
        waits = await _limit(store, delivery)
    return {
        "endpoint": None if name is None else EndpointPlace(name, url),
        "waits": waits,
        "attempts_allowed": _allowed(delivery, endpoint, default),
    }


def _allowed(delivery: Delivery, endpoint: StoredEndpoint | None, default: RetryPlan) -> int | None:
    if delivery.retry is not None:
        return attempts_allowed(delivery.retry)
    if not is_outside(delivery.target):
        return None
    stored = None if endpoint is None else endpoint.details.retry
    return attempts_allowed(default if stored is None else decode(stored))


async def _turn(store: Store, delivery: Delivery) -> str | None:
    """What the stream waits for, if the delivery is behind others or the stream is paused."""
    if delivery.stream is None or delivery.position is None or delivery.next_at is not None:
        return None
    stream = await store.streams.get(delivery.stream, 0)
    if stream.head == delivery.id and stream.paused_at is None:
        return None
    return f"stream {delivery.stream}, {plight(stream)}; {to_do(stream)}"


async def _same_key(store: Store, delivery: Delivery) -> str | None:
    """The running delivery with the same unique key, if it waits for that."""
    if delivery.next_at is not None:
        return None
    running = await store.unique_keys.before(delivery.id)
    return None if running is None else waits_for(running)


def _why(problem: Problem, name: str, endpoint: StoredEndpoint | None) -> str | None:
    why = why_waiting(name, endpoint)
    if why is None and endpoint is not None and (found := problem(endpoint)):
        # The workers may have other keys than this process.
        return f"the secrets of endpoint {name} cannot be read from here: {found}"
    return why


async def _found(store: Store, name: str) -> StoredEndpoint | None:
    try:
        return await store.endpoints.get(name)
    except NotFound:
        return None


async def _circuit(store: Store, delivery: Delivery) -> str | None:
    """The open circuit of a handler or of the host of a plain URL."""
    numbers = await store.targets.numbers([delivery.target], create=False)
    for each in await store.agenda.look():
        if each.target == numbers.get(delivery.target) and each.probe_at is not None:
            return (
                f"{delivery.target} failed too often in a row, so its circuit is open; one "
                f"delivery tries it at {_formatted(each.probe_at)}"
            )
    return None


async def _limit(store: Store, delivery: Delivery) -> str | None:
    """The limit of the target, if a due delivery waits for it."""
    limits = await store.limits.get(delivery.target)
    if limits is None or delivery.next_at is None:
        return None
    used, now = await store.limits.use([limits.target], 1)
    if now is None or delivery.next_at > now:
        return None
    why = why_limited(limit_record(limits, used[limits.target], now))
    if why is None and delivery.limit_key is not None and limits.key_limits is not None:
        key, _ = await store.turns.use(limits.target, delivery.limit_key)
        return why_key_limited(key_record(key, limits.key_limits, now), limits.key_limits)
    return why


def _formatted(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
