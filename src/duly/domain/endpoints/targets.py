"""Targets as requests name them."""

from __future__ import annotations

from duly.domain.endpoints.endpoint import endpoint
from duly.domain.endpoints.webhooks import webhook
from duly.errors import InvalidInput
from duly.records.partial import given
from duly.records.target import Destination, EndpointTarget, Target, Webhook


def target_of(named: str | Destination) -> Target:
    """The target that a request names."""
    return named if isinstance(named, str) else _webhook(named)


def _webhook(to: Destination) -> Webhook | EndpointTarget:
    own = given(to)
    url, name = own.pop("url"), own.pop("endpoint")
    if (url is None) == (name is None):
        raise InvalidInput("target", "give a handler's name, {url} or {endpoint}")
    if url is not None:
        return webhook(url, **own)
    if own:
        raise InvalidInput("target", f"an endpoint has its own {min(own)}; leave it out")
    return endpoint(name)
