"""Named endpoints as the transport sees them: how each is reached, read anew every second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol

import msgspec

from duly.domain.deliveries import retry
from duly.domain.deliveries.retry import RetryPlan
from duly.domain.endpoints.endpoint import (
    Details,
    EndpointState,
    Sealed,
    StoredEndpoint,
    still_used,
)
from duly.domain.endpoints.sealed_headers import opened_headers
from duly.domain.endpoints.signatures import secret_key
from duly.domain.endpoints.webhooks import Webhook
from duly.domain.events import Event, SecretUnreadable
from duly.errors import DulyError
from duly.ports import Clock

FRESH_SECONDS = 1.0
KEPT_SECONDS = 600.0
"""How long one is read again with the others: longer than any attempt, whose plan it has."""
Open = Callable[[Sealed, str], str]
Place = tuple[str, str]
"""A namespace, and an endpoint's name there."""


class Source(Protocol):
    """Where endpoints of one namespace are read."""

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        """Those of the names that exist."""


class Reach(msgspec.Struct, frozen=True):
    """How an endpoint is reached."""

    webhook: Webhook
    keys: list[bytes]


class Kept(msgspec.Struct, frozen=True):
    """How an endpoint is reached, and what that was made of."""

    details: Details
    secrets: tuple[Sealed, ...]
    reach: Reach


class Book:
    """The endpoints that this process sends to.

    All of them are read together, at most once a second, so that an edit counts from the next
    attempt and two hundred busy endpoints cost one small query.
    """

    def __init__(
        self,
        source: Callable[[str], Source],
        clock: Clock,
        open_secret: Open,
        emit: Callable[[Event], None],
        own: str,
        default: RetryPlan = retry.WEBHOOK,
    ) -> None:
        self._source = source
        self._clock = clock
        self._open = open_secret
        self._emit = emit
        self._own = own
        self.default = default
        """The plan where an endpoint has none, and of plain URLs."""
        self._known: dict[Place, StoredEndpoint] = {}
        self._reaches: dict[Place, Kept] = {}
        self._complained: set[Place] = set()
        self._wanted: dict[Place, float] = {}
        self._read_at = float("-inf")
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget the event loop in which it was used before."""
        self._reading = asyncio.Lock()

    def plan(self, name: str, namespace: str) -> RetryPlan:
        """The endpoint's own plan, if it is known and has one."""
        known = self._known.get((namespace, name))
        if known is None or known.details.retry is None:
            return self.default
        return retry.decode(known.details.retry)

    async def reach(self, name: str, namespace: str) -> Reach | None:
        """How it is reached now; None when it is paused, disabled, removed or unreadable."""
        place = (namespace, name)
        self._wanted[place] = self._clock.monotonic()
        if not self._is_fresh(place):
            async with self._reading:
                if not self._is_fresh(place):
                    await self._read()
        endpoint = self._known.get(place)
        if endpoint is None or endpoint.state is not EndpointState.ACTIVE:
            return None
        kept = self._reaches.get(place)
        return None if kept is None else kept.reach

    def _is_fresh(self, place: Place) -> bool:
        age = self._clock.monotonic() - self._read_at
        return age < FRESH_SECONDS and place in self._known

    async def _read(self) -> None:
        since = self._clock.monotonic() - KEPT_SECONDS
        self._wanted = {place: at for place, at in self._wanted.items() if at >= since}
        wanted: dict[str, list[str]] = {}
        for namespace, name in self._wanted:
            wanted.setdefault(namespace, []).append(name)
        known, usable = {}, {}
        for namespace, names in wanted.items():
            for each in await self._source(namespace).some(names):
                known[namespace, each.name] = each
                if (found := self._kept(each, namespace)) is not None:
                    usable[namespace, each.name] = found
        self._known, self._reaches = known, usable
        self._read_at = self._clock.monotonic()

    def _kept(self, endpoint: StoredEndpoint, namespace: str) -> Kept | None:
        """The same as before if nothing changed: opening hundreds of headers takes long."""
        details, secrets = endpoint.details, still_used(endpoint.secrets, self._clock.now())
        before = self._reaches.get((namespace, endpoint.name))
        if before is not None and (before.details, before.secrets) == (details, secrets):
            return before
        reach = self.reach_of(endpoint, namespace)
        return None if reach is None else Kept(details, secrets, reach)

    def reach_of(self, endpoint: StoredEndpoint, namespace: str) -> Reach | None:
        """How it is reached; None, and a word to the operator, if it cannot be read."""
        secrets, place = still_used(endpoint.secrets, self._clock.now()), (namespace, endpoint.name)
        try:
            headers = opened_headers(endpoint.details.headers, endpoint.name, self._open)
            webhook = msgspec.structs.replace(endpoint.details.webhook, headers=headers)
            return Reach(webhook, [secret_key(self._open(each, endpoint.name)) for each in secrets])
        except DulyError as error:
            if place not in self._complained:
                self._complained.add(place)
                foreign, problem = None if namespace == self._own else namespace, str(error)
                self._emit(
                    SecretUnreadable(endpoint=endpoint.name, problem=problem, namespace=foreign)
                )
            return None
