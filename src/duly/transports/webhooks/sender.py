"""Sends webhooks: signed, checked by the egress guard, and within one timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

from yarl import URL

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import STORE_AWAY, Deferred, Outcome
from duly.domain.endpoints.endpoint import StoredEndpoint, endpoint_name, is_outside
from duly.errors import Conflict, InvalidInput, StoreUnavailable
from duly.ports import Clock, Execution
from duly.records.retry_plan import RetryPlan
from duly.records.target import Webhook
from duly.transports.webhooks.egress import AddressRefused, Guard, literal_address
from duly.transports.webhooks.endpoint_cache import EndpointCache, Reach

if TYPE_CHECKING:
    from duly.transports.webhooks.exchanges import Exchanges

CLIENT = "duly.transports.webhooks.exchanges"
UNREACHABLE_SECONDS = 15.0
"""Delay if the endpoint is paused or removed, or a secret or header cannot be opened."""


class Webhooks:
    """The transport to URLs and endpoints."""

    def __init__(
        self,
        clock: Clock,
        guard: Guard,
        is_resolver_trouble: Callable[[OSError], bool],
        open_socket: Callable[[int, int, int], Any],
        endpoints: EndpointCache,
        keys: Sequence[bytes] = (),
        trace_headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._clock = clock
        self._guard = guard
        self._is_resolver_trouble = is_resolver_trouble
        self._open_socket = open_socket
        self._endpoints = endpoints
        self._keys = list(keys)
        self._trace_headers = trace_headers
        self._client: Exchanges | None = None

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
        url = URL(webhook.url, encoded=True)
        host = url.host or ""
        address = literal_address(host)
        if address is not None:
            try:
                self._guard.check(address, url.port, host)
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
        return await self._get_client().make(execution.claimed, reach, execution.now)

    async def _reach(self, execution: Execution) -> Reach | None:
        name = endpoint_name(execution.target)
        if name is not None:
            return await self._endpoints.reach(name, execution.namespace)
        assert execution.claimed.address is not None
        webhook = self._endpoints.webhook(
            execution.target, execution.namespace, execution.claimed.address
        )
        return None if webhook is None else Reach(webhook, self._keys)

    async def try_out(self, endpoint: StoredEndpoint, id: str, body: bytes) -> Outcome:
        """Send a test request to an endpoint, regardless of its state and its gate."""
        reach, now = self._endpoints.reach_of(endpoint, ""), self._clock.now
        if reach is None:
            raise Conflict(f"the secret of endpoint {endpoint.name!r} cannot be read; see the log")
        trial = Claimed(id, id, 0, 0, body, 0, 0, 0, now(), now(), None, None, None)
        return await self._get_client().make(trial, reach, now)

    @property
    def answers(self) -> Mapping[str, int]:
        """Number of responses by class, `2xx` to `5xx`, and of exchanges without one, `none`."""
        return {} if self._client is None else self._client.answers

    async def prepare(self) -> None:
        """Import and create the HTTP client now, so that the first webhook does not wait for it."""
        # In a thread, so that the event loop is not blocked; in a separate one, since the shared
        # threads may all be busy.
        thread = ThreadPoolExecutor(1, thread_name_prefix="duly-importing")
        await asyncio.get_running_loop().run_in_executor(thread, import_module, CLIENT)
        thread.shutdown()
        self._get_client()

    def _get_client(self) -> Exchanges:
        if self._client is None:
            # Imported only when needed: aiohttp takes longer to import than most commands run.
            from duly.transports.webhooks.exchanges import Exchanges

            self._client = Exchanges(
                self._clock,
                self._guard,
                self._is_resolver_trouble,
                self._open_socket,
                self._trace_headers,
            )
        return self._client

    async def close(self) -> None:
        """Close the connections and forget the event loop in which they were used."""
        self._endpoints.reset()
        if self._client is not None:
            await self._client.close()
