"""Deliveries as the API takes and shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.domain.delivery import DEFAULT_PRIORITY, Delivery
from duly.domain.endpoints import EndpointTarget, endpoint
from duly.domain.errors import InvalidInput
from duly.domain.states import State
from duly.domain.streams import OnFailure
from duly.domain.webhooks import Webhook, webhook
from duly.intake import Options

Moment = Annotated[datetime, Meta(tz=True)]


def _null() -> msgspec.Raw:
    # As a factory, since a plain default would be written into the description.
    return msgspec.Raw(b"null")


class Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a webhook goes: to a `url`, or to an `endpoint` by its name."""

    url: str | None = None
    endpoint: str | None = None
    method: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    timeout: float | UnsetType = UNSET

    def target(self) -> Webhook | EndpointTarget:
        """What a delivery takes as its target."""
        own = {name: getattr(self, name) for name in ("method", "headers", "timeout")}
        given = {name: value for name, value in own.items() if value is not UNSET}
        if (self.url is None) == (self.endpoint is None):
            raise InvalidInput("target", "give a handler's name, {url} or {endpoint}")
        if self.url is not None:
            return webhook(self.url, **given)
        if given:
            raise InvalidInput("target", f"an endpoint has its own {min(given)}; leave it out")
        assert self.endpoint is not None
        return endpoint(self.endpoint)


class NewDelivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A delivery to be accepted."""

    target: Annotated[
        str | Destination,
        Meta(description="a handler's name, {url, method, headers, timeout} or {endpoint}"),
    ]
    payload: Annotated[msgspec.Raw, Meta(description="any JSON; it is kept and sent as it is")] = (
        msgspec.field(default_factory=_null)
    )
    at: Moment | None = None
    after: Annotated[float, Meta(ge=0, description="seconds from now")] | None = None
    key: str | None = None
    stream: str | None = None
    on_failure: OnFailure | None = None
    priority: Annotated[int, Meta(ge=1, le=9)] = DEFAULT_PRIORITY
    tags: list[str] = []
    expires_at: Moment | None = None

    def asked(self) -> tuple[str | Webhook | EndpointTarget, msgspec.Raw, Options]:
        """As `app.deliver` takes it."""
        target = self.target if isinstance(self.target, str) else self.target.target()
        return (
            target,
            self.payload,
            Options(
                at=self.at,
                after=self.after,
                key=self.key,
                priority=self.priority,
                expires_at=self.expires_at,
                tags=self.tags,
                stream=self.stream,
                on_failure=self.on_failure,
            ),
        )


class AcceptedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The yes: it is on disk."""

    id: str
    state: State
    due_at: datetime
    known: Annotated[bool, Meta(description="it was there already, under its key")]


class DeliveryRecord(Delivery, frozen=True, kw_only=True):
    """A delivery on the books, with how many seconds late it started."""

    reason: str | None = None
    payload: msgspec.Raw = msgspec.field(default_factory=_null)
    late_seconds: float | None = None


def record(delivery: Delivery, kind: type[DeliveryRecord] = DeliveryRecord, **more: Any) -> Any:
    """A delivery as it is shown."""
    late_by = delivery.late_by
    late = None if late_by is None else late_by.total_seconds()
    facts = {name: getattr(delivery, name) for name in delivery.__struct_fields__}
    return kind(**facts, late_seconds=late, **more)
