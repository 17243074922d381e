"""Why a delivery does not move by itself: what is said of it, from what the store knows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import msgspec

from duly.domain.deliveries.delivery import Delivery
from duly.domain.endpoints.endpoint import StoredEndpoint, endpoint_name, is_outside, why_shut
from duly.ports import EVERY, WorkerRow


class Service(msgspec.Struct, frozen=True):
    """Who is there to take deliveries: workers by number, their handlers, endpoints by name."""

    namespace: str
    alive: set[int]
    works: bool
    """Whether a living worker works for the namespace."""
    handlers: set[str]
    endpoints: Mapping[str, StoredEndpoint]


def service(
    namespace: str, workers: Sequence[WorkerRow], endpoints: Sequence[StoredEndpoint]
) -> Service:
    """Who serves a namespace, of all that are on the books."""
    alive = [each for each in workers if each.alive]
    serving = [each for each in alive if {EVERY, namespace} & set(each.namespaces)]
    return Service(
        namespace,
        {each.id for each in alive},
        bool(serving),
        {name for each in serving for name in each.handlers},
        {each.name: each for each in endpoints},
    )


def why_held(delivery: Delivery, service: Service) -> str:
    """What is to be said of one that has been under way for long."""
    if delivery.worker not in service.alive:
        return f"worker {delivery.worker} that holds it is dead; recovery takes it back"
    return f"worker {delivery.worker} has been running it since {delivery.claimed_at}"


def why_blocking(delivery: Delivery) -> str:
    """What is to be said of a dead letter that its stream stands behind."""
    name = shlex.quote(delivery.stream or "")
    return (
        f"it blocks stream {delivery.stream}; duly streams retry-now {name} tries it again, "
        f"duly streams release {name} lets those behind it go on"
    )


def why_left(delivery: Delivery, service: Service) -> str | None:
    """Why nobody takes one that is due; None when somebody will."""
    why = _why_unserved(delivery.target, service)
    if why is None and delivery.crashes:
        return f"its worker died {delivery.crashes} times; it runs alone"
    return why


def _why_unserved(target: str, service: Service) -> str | None:
    name = endpoint_name(target)
    if name is not None and (why := why_shut(name, service.endpoints.get(name))) is not None:
        return why
    if not service.works:
        return (
            f"no worker that is alive works for namespace {service.namespace!r}; start one: "
            f"duly serve --namespaces {service.namespace}"
        )
    if is_outside(target):
        return None
    return None if target in service.handlers else f"no worker alive has the handler {target!r}"
