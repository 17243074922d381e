"""Sends webhooks: signed, checked by the egress guard, and within one timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import STORE_AWAY, Deferred, Outcome
from duly.domain.endpoints.endpoint import StoredEndpoint, endpoint_name, is_outside
from duly.errors import Conflict, InvalidInput, StoreUnavailable
from duly.ports import Clock, Execution
from duly.records.retry_plan import RetryPlan
from duly.records.target import Webhook
from duly.transports.webhooks.connections import tls_context
from duly.transports.webhooks.egress import AddressRefused, Guard, literal_address
from duly.transports.webhooks.endpoint_cache import EndpointCache, Reach
from duly.transports.webhooks.exchanges import Exchanges
from duly.transports.webhooks.requests import origin_of
from duly.transports.webhooks.resolver import LookUp

UNREACHABLE_SECONDS = 15.0
"""Delay if the endpoint is paused or removed, or a secret or header cannot be opened."""


class Webhooks:
    """The transport to URLs and endpoints."""

    def __init__(
        self,
        clock: Clock,
        guard: Guard,
        look_up: LookUp,
        is_resolver_trouble: Callable[[OSError], bool],
        open_socket: Callable[[int, int, int], Any],
        endpoints: EndpointCache,
        trace_headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._clock = clock
        self._guard = guard
        self._endpoints = endpoints
        self._exchanges = Exchanges(
            clock, guard, look_up, is_resolver_trouble, open_socket, trace_headers
        )

    def serves(self) -> Sequence[str]:
        """No names: every URL and endpoint is reached."""
        return ()

    def reaches(self, target: str) -> bool:
        """Whether the target is a URL's origin or an endpoint."""
        return is_outside(target)

    def plan(self, target: str, namespace: str) -> RetryPlan:
        """The endpoint's retry plan, or the default."""
        name = endpoint_name(target)
        return self._endpoints.default if name is None else self._endpoints.plan(name, namespace)

    def check(self, webhook: Webhook) -> None:
        """Refuse a URL with a literal address that the guard would refuse later."""
        host, port, _ = origin_of(webhook.url)
        address = literal_address(host)
        if address is not None:
            try:
                self._guard.check(address, port, host)
            except AddressRefused as error:
                raise InvalidInput("url", str(error)) from None

    def refuse_own(self, address: str, port: int) -> None:
        """Send nothing to this address from now on, because this process listens on it."""
        self._guard.refuse_own(address, port)

    async def attempt(self, execution: Execution) -> Outcome:
        """Send the delivery's payload and return the outcome."""
        try:
            reach = await self._reach(execution)
        except StoreUnavailable:
            return STORE_AWAY
        if reach is None:
            return Deferred(UNREACHABLE_SECONDS)
        timestamp = execution.started_us // 1_000_000
        return await self._exchanges.make(execution.claimed, reach, timestamp, execution.now)

    async def _reach(self, execution: Execution) -> Reach | None:
        name = endpoint_name(execution.target)
        if name is not None:
            return await self._endpoints.reach(name, execution.namespace)
        address = execution.claimed.address
        assert address is not None
        return self._endpoints.plain_reach(execution.target, execution.namespace, address)

    async def try_out(self, endpoint: StoredEndpoint, id: str, body: bytes) -> Outcome:
        """Send a test request to an endpoint, regardless of its state and its gate."""
        reach, now = self._endpoints.reach_of(endpoint, ""), self._clock.now
        if reach is None:
            raise Conflict(f"the secret of endpoint {endpoint.name!r} cannot be read; see the log")
        trial = Claimed(id, id, 0, 0, body, 0, 0, 0, now(), now(), None, None, None)
        return await self._exchanges.make(trial, reach, int(now().timestamp()), now)

    @property
    def answers(self) -> Mapping[str, int]:
        """Number of answers by class, `2xx` to `5xx`, and of exchanges without one, `none`."""
        return self._exchanges.answers

    async def prepare(self) -> None:
        """Read the certificate authorities now, so that the first webhook does not wait for it."""
        # In a thread, so that the event loop is not blocked; in a separate one, since the shared
        # threads may all be busy.
        thread = ThreadPoolExecutor(1, thread_name_prefix="duly-preparing")
        await asyncio.get_running_loop().run_in_executor(thread, tls_context)
        thread.shutdown()

    async def close(self) -> None:
        """Close the connections and forget the event loop in which they were used."""
        self._endpoints.reset()
        self._exchanges.close()
