"""The transport's cache of named endpoints, refreshed every second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec

from duly.domain.deliveries import retry
from duly.domain.endpoints.endpoint import Details, Sealed, StoredEndpoint, still_used
from duly.domain.endpoints.sealed_addresses import PLAIN, SealedAddresses
from duly.domain.endpoints.sealed_headers import opened_headers
from duly.domain.endpoints.signatures import secret_key
from duly.domain.events import Event, SecretUnreadable
from duly.errors import DulyError
from duly.ports import Clock
from duly.records.endpoint import EndpointState
from duly.records.retry_plan import RetryPlan
from duly.records.target import Webhook
from duly.transports.webhooks.requests import Prepared, prepared

SHORT = 500
"""Characters of the longest address that is cached; with headers it may be much longer."""
FRESH_SECONDS = 1.0
KEPT_SECONDS = 600.0
"""How long an endpoint is refreshed after its last use: longer than any attempt, so that its retry
plan is still known when the attempt ends."""
Open = Callable[[Sealed, str], str]
Place = tuple[str, str]
"""A namespace and the name of an endpoint."""


class Source(Protocol):
    """Reads the endpoints of one namespace."""

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        """The endpoints with these names; unknown names are left out."""


class Reach(msgspec.Struct, frozen=True):
    """A webhook and its signing keys, decrypted, and the unchanging part of its requests."""

    webhook: Webhook
    keys: list[bytes]
    prepared: Prepared


class Kept(msgspec.Struct, frozen=True):
    """A `Reach` with the stored values that it was built from."""

    details: Details
    secrets: tuple[Sealed, ...]
    reach: Reach


class EndpointCache:
    """The cached endpoints that this process sends to.

    All are read in one query, at most once a second: two hundred busy endpoints cost one small
    query, and an edit takes effect within a second.
    """

    def __init__(
        self,
        source: Callable[[str], Source],
        clock: Clock,
        open_secret: Open,
        emit: Callable[[Event], None],
        own: str,
        default: RetryPlan = retry.WEBHOOK,
        addresses: SealedAddresses = PLAIN,
        keys: Sequence[bytes] = (),
    ) -> None:
        self._source = source
        self._clock = clock
        self._open = open_secret
        self._addresses = addresses
        self._plain_keys = list(keys)
        self._opened_and_cached = lru_cache(1000)(self._opened)
        self._emit = emit
        self._own = own
        self.default = default
        """The retry plan of plain URLs and of endpoints without one."""
        self._endpoints: dict[Place, StoredEndpoint] = {}
        self._entries: dict[Place, Kept] = {}
        self._reported: set[Place] = set()
        self._used_at: dict[Place, float] = {}
        self._read_at = float("-inf")
        self.reset()

    def reset(self) -> None:
        """Forget the previous event loop."""
        self._lock = asyncio.Lock()

    def plan(self, name: str, namespace: str) -> RetryPlan:
        """The endpoint's retry plan, or the default if it is unknown or has none."""
        endpoint = self._endpoints.get((namespace, name))
        if endpoint is None or endpoint.details.retry is None:
            return self.default
        return retry.decode(endpoint.details.retry)

    async def reach(self, name: str, namespace: str) -> Reach | None:
        """The endpoint's current `Reach`; None if it is paused, disabled, removed or unreadable."""
        place = (namespace, name)
        self._used_at[place] = self._clock.monotonic()
        if not self._is_fresh(place):
            async with self._lock:
                if not self._is_fresh(place):
                    await self._read()
        endpoint = self._endpoints.get(place)
        if endpoint is None or endpoint.state is not EndpointState.ACTIVE:
            return None
        entry = self._entries.get(place)
        return None if entry is None else entry.reach

    def _is_fresh(self, place: Place) -> bool:
        age = self._clock.monotonic() - self._read_at
        return age < FRESH_SECONDS and place in self._endpoints

    async def _read(self) -> None:
        since = self._clock.monotonic() - KEPT_SECONDS
        self._used_at = {place: at for place, at in self._used_at.items() if at >= since}
        names_by_namespace: dict[str, list[str]] = {}
        for namespace, name in self._used_at:
            names_by_namespace.setdefault(namespace, []).append(name)
        endpoints, entries = {}, {}
        for namespace, names in names_by_namespace.items():
            for each in await self._source(namespace).some(names):
                endpoints[namespace, each.name] = each
                if (entry := self._entry(each, namespace)) is not None:
                    entries[namespace, each.name] = entry
        self._endpoints, self._entries = endpoints, entries
        self._read_at = self._clock.monotonic()

    def _entry(self, endpoint: StoredEndpoint, namespace: str) -> Kept | None:
        """The cached entry if nothing changed, since decrypting hundreds of headers is slow."""
        details, secrets = endpoint.details, still_used(endpoint.secrets, self._clock.now())
        cached = self._entries.get((namespace, endpoint.name))
        if cached is not None and (cached.details, cached.secrets) == (details, secrets):
            return cached
        reach = self.reach_of(endpoint, namespace)
        return None if reach is None else Kept(details, secrets, reach)

    def reach_of(self, endpoint: StoredEndpoint, namespace: str) -> Reach | None:
        """The endpoint's `Reach`; None, with one SecretUnreadable, if it cannot be decrypted."""
        secrets = still_used(endpoint.secrets, self._clock.now())
        try:
            headers = opened_headers(endpoint.details.headers, endpoint.name, self._open)
            webhook = msgspec.structs.replace(endpoint.details.webhook, headers=headers)
            keys = [secret_key(self._open(each, endpoint.name)) for each in secrets]
            return Reach(webhook, keys, prepared(webhook))
        except DulyError as error:
            self._report(endpoint.name, namespace, error)
            return None

    def plain_reach(self, target: str, namespace: str, address: str) -> Reach | None:
        """The `Reach` of a URL; None, with one SecretUnreadable, if it cannot be decrypted."""
        try:
            return (self._opened_and_cached if len(address) <= SHORT else self._opened)(address)
        except DulyError as error:
            self._report(target, namespace, error)
            return None

    def _opened(self, address: str) -> Reach:
        webhook = self._addresses.opened(address)
        return Reach(webhook, self._plain_keys, prepared(webhook))

    def _report(self, name: str, namespace: str, error: DulyError) -> None:
        if (namespace, name) not in self._reported:
            self._reported.add((namespace, name))
            foreign = None if namespace == self._own else namespace
            self._emit(SecretUnreadable(endpoint=name, problem=str(error), namespace=foreign))
