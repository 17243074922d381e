"""The connections of a process to all origins: new ones, guarded, and those kept for later."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from contextvars import Context
from functools import cache, partial
from typing import Any

from aiohappyeyeballs import start_connection

from duly.transports.webhooks.connection import Connection
from duly.transports.webhooks.egress import Guard, Passage
from duly.transports.webhooks.requests import Origin
from duly.transports.webhooks.resolver import AddressInfo, Resolver, is_literal
from duly.transports.webhooks.timing import ExchangeTiming

KEPT_SECONDS = 15.0
"""How long a connection without a request is kept."""
MOST_KEPT = 1000
"""Connections without a request, to all origins."""
SECOND_ADDRESS_SECONDS = 0.25
"""How long the first address of a host may take before the next is tried beside it."""
OpenSocket = Callable[[int, int, int], Any]


class Connections:
    """Opens connections and keeps them, for each origin the last one used on top."""

    def __init__(self, guard: Guard, resolver: Resolver, open_socket: OpenSocket) -> None:
        self._guard = guard
        self._resolver = resolver
        self._open_socket = open_socket
        self._loop = asyncio.get_running_loop()
        self._kept: dict[Origin, list[Connection]] = {}
        self._many = 0
        self._is_closed = False
        self._sweeping: asyncio.TimerHandle | None = None

    def take(self, origin: Origin) -> Connection | None:
        """A kept connection that is still open, or None."""
        kept = self._kept.get(origin)
        while kept:
            connection = kept.pop()
            self._many -= 1
            if not kept:
                del self._kept[origin]
            if connection.is_open:
                return connection
        return None

    def keep(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection for the next request."""
        if self._is_closed:
            connection.close()
            return
        kept = self._kept.get(origin)
        if kept is None:
            kept = self._kept[origin] = []
        kept.append(connection)
        self._many += 1
        if self._many > MOST_KEPT:
            self._drop_oldest()
        if self._sweeping is None:
            self._sweep_in(KEPT_SECONDS)

    def _drop_oldest(self) -> None:
        """Close one of the origin that was not used for the longest time."""
        origin, kept = next(iter(self._kept.items()))
        kept.pop(0).close()
        self._many -= 1
        if not kept:
            del self._kept[origin]

    async def open(self, origin: Origin, timing: ExchangeTiming) -> Connection:
        """A new connection; raises AddressRefused if the guard allows none of the addresses."""
        addresses = self._resolver.known(origin.host, origin.port)
        if addresses is None:
            addresses = await self._resolver.resolve(origin.host, origin.port)
            if not is_literal(origin.host):
                timing.mark("dns")
        connected = None
        while connected is None:
            try:
                connected = await self._connect(origin, addresses)
            except OSError as error:
                if error.errno != errno.EMFILE or not self._kept:
                    raise
                self._drop_all()  # which makes room, and leaves nothing to drop
        timing.mark("connect")
        try:
            _, connection = await self._loop.create_task(
                self._loop.create_connection(
                    partial(Connection, self._loop),
                    sock=connected,
                    ssl=tls_context() if origin.is_secure else None,
                    server_hostname=origin.name if origin.is_secure else None,
                ),
                # A transport keeps its context: not that of the delivery it was opened for.
                context=Context(),
            )
        except BaseException:
            connected.close()
            raise
        if origin.is_secure:
            timing.mark("tls")
        return connection

    async def _connect(self, origin: Origin, addresses: list[AddressInfo]) -> Any:
        """A connected socket; a second address is tried beside one that takes long."""
        passage = Passage(origin.name)
        try:
            return await start_connection(
                addresses,
                happy_eyeballs_delay=SECOND_ADDRESS_SECONDS,
                socket_factory=partial(self._guarded_socket, passage),
            )
        except OSError:
            if (refused := passage.refusal()) is not None:
                raise refused from None
            raise
        except RuntimeError as error:  # uvloop raises this in place of some errors
            raise OSError(str(error)) from error

    def _guarded_socket(self, passage: Passage, address_info: Any) -> Any:
        # This is the address that is connected to: no later DNS lookup can replace it.
        family, kind, protocol, _, address = address_info
        passage.check(self._guard, address[0], address[1])
        return self._open_socket(family, kind, protocol)

    def _sweep_in(self, seconds: float) -> None:
        # A timer keeps its context: not that of the delivery that happens to start it.
        self._sweeping = self._loop.call_later(seconds, self._sweep, context=Context())

    def _sweep(self) -> None:
        """Close the connections that were kept for too long."""
        since = self._loop.time() - KEPT_SECONDS
        for origin, kept in list(self._kept.items()):
            fresh = [each for each in kept if each.is_open and each.rested_at > since]
            for each in kept:
                if each.rested_at <= since:
                    each.close()
            self._many -= len(kept) - len(fresh)
            if fresh:
                self._kept[origin] = fresh
            else:
                del self._kept[origin]
        self._sweeping = None
        if self._kept:
            self._sweep_in(KEPT_SECONDS / 3)

    def close(self) -> None:
        """Close the kept connections."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._drop_all()

    def _drop_all(self) -> None:
        for kept in self._kept.values():
            for each in kept:
                each.close()
        self._kept.clear()
        self._many = 0


@cache
def tls_context(authorities: str | None = None) -> ssl.SSLContext:
    """The authorities in this file, or the system's; the certificate has to be for the host."""
    context = ssl.create_default_context(cafile=authorities)
    context.set_alpn_protocols(["http/1.1"])
    return context
