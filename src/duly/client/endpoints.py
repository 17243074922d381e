"""A server's endpoints: added, edited, paused, resumed, rotated, tried out, recovered, removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from duly.client.bulk import Moving
from duly.client.connection import Wire
from duly.domain import checks
from duly.domain.deliveries import payloads, retry
from duly.domain.deliveries.outcomes import Completed, Failed, Outcome, Released
from duly.domain.endpoints.endpoint import OVERLAP, Details, Sealed, StoredEndpoint
from duly.domain.endpoints.gates import Gate
from duly.ports import EndpointBacklog
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.records.endpoint import Circuit, EndpointState
from duly.records.reason import Reason
from duly.services.endpoints import LONGEST_TEST, Added, Standing

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
NOT_SENT = "not_sent"


class CircuitTold(msgspec.Struct, frozen=True):
    """An endpoint's circuit as the API tells it."""

    state: Circuit
    failures: int
    failing_since: datetime | None
    opened_at: datetime | None
    probe_at: datetime | None


class SecretTold(msgspec.Struct, frozen=True):
    """That there is a secret."""

    sealed_with: str | None
    signs_until: datetime | None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint as the API tells it: how it stands, without its secrets."""

    name: str
    url: str
    description: str
    method: str
    headers: dict[str, str]
    timeout: float
    rate: float | None
    in_flight: int | None
    retry: msgspec.Raw
    state: EndpointState
    state_reason: str | None
    state_at: datetime
    circuit: CircuitTold
    waiting: int
    under_way: int
    secrets: list[SecretTold]
    secrets_problem: str | None
    created_at: datetime
    version: int

    def endpoint(self) -> StoredEndpoint:
        """The endpoint itself; its secrets are empty, and its number is the store's alone."""
        return StoredEndpoint(
            name=self.name,
            target=0,
            details=self._details(),
            state=self.state,
            state_reason=self.state_reason,
            state_at=self.state_at,
            created_at=self.created_at,
            version=self.version,
            secrets=tuple(Sealed("", each.sealed_with, each.signs_until) for each in self.secrets),
            gate=self._gate(),
        )

    def _details(self) -> Details:
        return Details(
            url=self.url,
            description=self.description,
            method=self.method,
            headers=self.headers,
            timeout=self.timeout,
            rate=self.rate,
            in_flight=self.in_flight,
            retry=bytes(self.retry).decode(),
        )

    def _gate(self) -> Gate:
        return Gate(
            failures=self.circuit.failures,
            first_failed_at=self.circuit.failing_since,
            opened_at=self.circuit.opened_at,
            probe_at=self.circuit.probe_at,
            probing=self.circuit.state is Circuit.PROBING,
        )

    def on_the_books(self) -> EndpointBacklog:
        """What waits, with what is under way."""
        return EndpointBacklog(self.waiting + self.under_way, self.under_way)


class WithSecret(Told, frozen=True, kw_only=True):
    """One with its new secret, which is told this once."""

    secret: str


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a try."""

    ok: bool
    status: int | None
    timing: dict[str, float]
    excerpt: str
    truncated: bool
    note: str = ""
    reason: str | None
    error: str | None

    def outcome(self) -> Outcome:
        """The same as an attempt would have it."""
        names = ("status", "timing", "excerpt", "truncated", "note")
        answer = msgspec.json.encode({name: getattr(self, name) for name in names}).decode()
        if self.ok:
            return Completed(answer)
        if self.reason in (None, NOT_SENT):
            return Released()
        return Failed(Reason(self.reason), self.error or "", answer=answer)


class Endpoints:
    """The endpoints of one server."""

    def __init__(self, wire: Wire, moving: Moving) -> None:
        self._wire = wire
        self._moving = moving
        self._told: dict[str, Told] = {}
        """What was told last of each: how it stands comes with it."""

    async def add(self, name: str, url: str, *, secret: str | None = None, **details: Any) -> Added:
        """Create one; without a secret it gets one. Conflict when the name is taken."""
        body = {"name": name, "url": url, "secret": secret, **_said(details)}
        return self._added(await self._wire.post(WithSecret, "endpoints", body=body))

    async def get(self, name: str) -> StoredEndpoint:
        """One endpoint, or NotFound."""
        return self._heard(await self._wire.get(Told, *_place(name)))

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[StoredEndpoint]:
        """Endpoints by name; `after` is the last name of the page before."""
        start = checks.checked_start("after", after) or None
        found = await self._wire.listed(Told, "endpoints", limit=limit, cursor=start)
        return [self._heard(each) for each in found]

    async def standing(self, endpoint: StoredEndpoint) -> Standing:
        """How it stood when it was told."""
        told = self._told[endpoint.name]
        # The server has left out which secrets are no longer used, by its own clock.
        plan = retry.decode(bytes(told.retry).decode())
        return Standing(endpoint, LONG_AGO, told.on_the_books(), plan, told.secrets_problem)

    async def waiting(self, name: str) -> EndpointBacklog:
        """What is on the books for it."""
        return (await self._wire.get(Told, *_place(name))).on_the_books()

    async def edit(
        self,
        name: str,
        *,
        header_changes: Mapping[str, str | None] | None = None,
        **details: Any,
    ) -> StoredEndpoint:
        """Change what is given; deliveries that wait go by it from their next attempt on."""
        body = _said(details) | ({"header_changes": header_changes} if header_changes else {})
        return self._heard(await self._wire.patch(Told, *_place(name), body=body))

    async def pause(self, name: str, reason: str | None = None) -> StoredEndpoint:
        """Let its deliveries wait until it is resumed; what is under way goes on."""
        place, body = _place(name), {"reason": reason}
        return self._heard(await self._wire.post(Told, *place, "pause", body=body))

    async def resume(self, name: str) -> StoredEndpoint:
        """Let its deliveries go, whether it was paused, disabled or only failed too often."""
        return self._heard(await self._wire.post(Told, *_place(name), "resume"))

    async def rotate(
        self, name: str, *, secret: str | None = None, overlap: timedelta = OVERLAP
    ) -> Added:
        """Give it a new secret; it signs with the old one too for `overlap` more."""
        body = {"secret": secret, "overlap_seconds": overlap.total_seconds()}
        return self._added(await self._wire.post(WithSecret, *_place(name), "rotate", body=body))

    async def test(self, name: str, payload: Any = None) -> Outcome:
        """Have the server send something there at once; it leaves no trace on the books."""
        body = {}
        if payload is not None:
            body["payload"] = msgspec.Raw(payloads.payload_bytes(payload, LONGEST_TEST))
        return (await self._wire.post(Tried, *_place(name), "test", body=body)).outcome()

    async def remove(self, name: str, *, cancel_waiting: bool = False) -> None:
        """Remove it; Conflict while deliveries wait for it, unless they are to be cancelled too."""
        await self._wire.delete(*_place(name), cancel_waiting=cancel_waiting)

    async def count_dead(self, name: str, since: datetime, until: datetime | None = None) -> int:
        """How many deliveries `recover` would try again."""
        body = {"since": since, "until": until, "dry_run": True}
        place = (*_place(name), "recover")
        return (await self._wire.post(BulkResult, *place, body=body, safe=True)).matching

    def recover(
        self,
        name: str,
        since: datetime,
        *,
        rate: float | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[BulkProgress]:
        """Try its dead letters since then again, at most `rate` a second; yields how far it is."""
        body = {"since": since, "until": until, "rate": rate}
        return self._moving.all((*_place(name), "recover"), body, rate)

    def _heard(self, told: Told) -> StoredEndpoint:
        self._told[told.name] = told
        return told.endpoint()

    def _added(self, told: WithSecret) -> Added:
        return Added(self._heard(told), told.secret)


def _said(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details, once their plan is seen to be one: the server would name a part of the body."""
    if details.get("retry") is not None:
        retry.encode_checked(details["retry"])
    return dict(details)


def _place(name: str) -> tuple[str, str]:
    return "endpoints", checks.checked_text("name", name)
