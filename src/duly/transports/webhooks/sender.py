"""Sending webhooks: signed, guarded, within one deadline, and never trusting what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from yarl import URL

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import STORE_AWAY, Deferred, Outcome
from duly.domain.deliveries.retry import RetryPlan
from duly.domain.endpoints.endpoint import StoredEndpoint, endpoint_name, is_outside
from duly.domain.endpoints.webhooks import Webhook, decode_webhook
from duly.errors import Conflict, InvalidInput, StoreUnavailable
from duly.ports import Clock, Execution
from duly.transports.webhooks.egress import AddressRefused, Guard, literal_address
from duly.transports.webhooks.endpoint_cache import Book, Reach

if TYPE_CHECKING:
    from duly.transports.webhooks.exchanges import Exchanges

CLIENT = "duly.transports.webhooks.exchanges"
SHORT = 500
"""Characters of a target that is remembered: with headers it may be much longer."""
UNREACHABLE_SECONDS = 15.0
"""Paused after it was claimed, removed, or its secret cannot be read."""


class Webhooks:
    """The transport to URLs and endpoints."""

    def __init__(
        self,
        clock: Clock,
        guard: Guard,
        is_resolver_trouble: Callable[[OSError], bool],
        open_socket: Callable[[int, int, int], Any],
        book: Book,
        keys: Sequence[bytes] = (),
        trace_headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._clock = clock
        self._guard = guard
        self._is_resolver_trouble = is_resolver_trouble
        self._open_socket = open_socket
        self._book = book
        self._keys = list(keys)
        self._trace_headers = trace_headers
        self._made: Exchanges | None = None

    def serves(self) -> Sequence[str]:
        """None by name: whatever URL or endpoint there is, it is reached."""
        return ()

    def reaches(self, target: str) -> bool:
        """Whether the target is an origin or an endpoint."""
        return is_outside(target)

    def plan(self, target: str, namespace: str) -> RetryPlan:
        """The endpoint's own, or the default one."""
        name = endpoint_name(target)
        return self._book.default if name is None else self._book.plan(name, namespace)

    def check(self, webhook: Webhook) -> None:
        """Refuse early what the guard would refuse later, as far as a URL shows it."""
        url = URL(webhook.url, encoded=True)
        host = url.host or ""
        address = literal_address(host)
        if address is not None:
            try:
                self._guard.check(address, url.port, host)
            except AddressRefused as error:
                raise InvalidInput("url", str(error)) from None

    def refuse_own(self, address: str, port: int) -> None:
        """From now on this process listens there, and sends nothing to itself."""
        self._guard.refuse_own(address, port)

    async def attempt(self, execution: Execution) -> Outcome:
        """Send the delivery's bytes and read what came of it."""
        try:
            reach = await self._reach(execution)
        except StoreUnavailable:
            return STORE_AWAY
        if reach is None:
            return Deferred(UNREACHABLE_SECONDS)
        return await self._exchanges().make(execution.claimed, reach, execution.now)

    async def _reach(self, execution: Execution) -> Reach | None:
        name = endpoint_name(execution.target)
        if name is not None:
            return await self._book.reach(name, execution.namespace)
        assert execution.claimed.address is not None
        return Reach(_decoded(execution.claimed.address), self._keys)

    async def try_out(self, endpoint: StoredEndpoint, id: str, body: bytes) -> Outcome:
        """Send something to an endpoint as it stands, past its state and its gate."""
        reach, now = self._book.reach_of(endpoint, ""), self._clock.now
        if reach is None:
            raise Conflict(f"the secret of endpoint {endpoint.name!r} cannot be read; see the log")
        trial = Claimed(id, id, 0, 0, body, 0, 0, 0, now(), now(), None, None, None)
        return await self._exchanges().make(trial, reach, now)

    @property
    def answers(self) -> Mapping[str, int]:
        """How many answers of each class there were: `2xx` to `5xx`, and `none`."""
        return {} if self._made is None else self._made.answers

    async def prepare(self) -> None:
        """Be ready to send: whoever delivers does not want to wait for it at the first webhook."""
        # In a thread, since others are served meanwhile; of its own, since they may take the rest.
        thread = ThreadPoolExecutor(1, thread_name_prefix="duly-importing")
        await asyncio.get_running_loop().run_in_executor(thread, import_module, CLIENT)
        thread.shutdown()
        self._exchanges()

    def _exchanges(self) -> Exchanges:
        if self._made is None:
            # Not before it is needed: the client takes longer to import than most commands do.
            from duly.transports.webhooks.exchanges import Exchanges

            self._made = Exchanges(
                self._clock,
                self._guard,
                self._is_resolver_trouble,
                self._open_socket,
                self._trace_headers,
            )
        return self._made

    async def close(self) -> None:
        """Let go of the connections, and of the event loop in which they were used."""
        self._book.begin_anew()
        if self._made is not None:
            await self._made.close()


def _decoded(address: str) -> Webhook:
    return _remembered(address) if len(address) <= SHORT else decode_webhook(address)


_remembered = lru_cache(1000)(decode_webhook)
