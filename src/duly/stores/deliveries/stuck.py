"""Explains why a delivery does not progress by itself, from what the store contains."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import msgspec

from duly.domain.endpoints.endpoint import StoredEndpoint, endpoint_name, is_outside, why_shut
from duly.ports import EVERY
from duly.records.delivery import Delivery
from duly.records.worker import Worker


class Service(msgspec.Struct, frozen=True):
    """What serves a namespace: live workers by number, their handlers, endpoints by name."""

    namespace: str
    alive: set[int]
    works: bool
    """Whether a live worker serves the namespace."""
    handlers: set[str]
    endpoints: Mapping[str, StoredEndpoint]


def service(
    namespace: str, workers: Sequence[Worker], endpoints: Sequence[StoredEndpoint]
) -> Service:
    """The workers, handlers and endpoints that serve a namespace."""
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
    """The explanation for a delivery that has been processing for long."""
    if delivery.worker not in service.alive:
        return f"worker {delivery.worker} that holds it is dead; recovery reclaims it"
    since = f"worker {delivery.worker} has been running it since {delivery.claimed_at}"
    if delivery.overran_at is not None:
        since += f"; it ran past its deadline at {delivery.overran_at} and cannot be stopped"
    if delivery.cancel_asked_at is not None:
        since += f"; it was asked to cancel at {delivery.cancel_asked_at}"
    return since


def why_blocking(delivery: Delivery) -> str:
    """The explanation for a dead letter that blocks its stream."""
    name = shlex.quote(delivery.stream or "")
    return (
        f"it blocks stream {delivery.stream}; duly streams retry-now {name} retries it, "
        f"duly streams release {name} lets those behind it proceed"
    )


def why_left(delivery: Delivery, service: Service) -> str | None:
    """Why no worker claims a due delivery; None if one will."""
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
