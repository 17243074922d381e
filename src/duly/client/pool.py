"""Requests to one server over pooled keep-alive connections.

On asyncio and httptools, which load in 10 ms: aiohttp takes longer to load than most commands run.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import msgspec

from duly.client.http1 import Connection, TooLong
from duly.client.problems import Reply
from duly.errors import BadSetting, StoreUnavailable
from duly.safe_text import shown_url
from duly.system import addresses_of, run_in_thread

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 90.0
"""Without a byte from the server. Longer than any call takes: testing an endpoint takes 60 s."""
IDLE_SECONDS = 4.0
"""How long an idle connection can be reused; a server closes it after 5."""
CONNECTIONS = 64
LONGEST_ANSWER = 256 << 20
"""Bytes; a page of 200 deliveries with the largest payloads is shorter."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request; its path begins after that of the server's URL."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None


class Unanswered(StoreUnavailable):
    """A request was sent and no answer came: it may have been executed."""


class Stale(Unanswered):
    """A reused connection was closed before the first byte of an answer; use a new one."""


class Pool:
    """At most `connections` to one server, each for one request at a time."""

    def __init__(
        self,
        server: str,
        *,
        connections: int = CONNECTIONS,
        timeout: float | None = None,
        longest: int | None = None,
    ) -> None:
        self._server = shown_url(server)
        self._host, self._port, self._name, self._path = _address(server)
        self._is_secure = server.startswith("https:")
        self._tls: ssl.SSLContext | None = None
        self._most = connections
        self._timeout = timeout
        self._longest = longest
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(connections)

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of its connections, if that still runs in this process."""
        loop = self._loop if self._process == os.getpid() else None
        return loop if loop is not None and loop.is_running() else None

    async def exchange(self, request: Request, *, fresh: bool = False) -> Reply:
        """Send a request and read the whole answer; `fresh` is over a new connection.

        StoreUnavailable if the server cannot be reached, Unanswered if no answer came. When it is
        cancelled, its connection is closed.
        """
        self._follow_loop()
        async with self._free:
            connection = (None if fresh else self._reusable()) or await self._connected()
            try:
                with self._named_errors(connection):
                    connection.send(self._encoded(request))
                    return await connection.reply(self._longest or LONGEST_ANSWER)
            finally:
                self._give_back(connection)

    @asynccontextmanager
    async def streaming(self, request: Request) -> AsyncIterator[Connection]:
        """A connection outside the pool, with the request sent: its answer may have no end."""
        connection = await self._connected()
        try:
            with self._named_errors(connection):
                connection.send(self._encoded(request))
                yield connection
        finally:
            connection.close()

    async def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            connection = self._idle.pop()
            connection.close()
            await connection.closed.wait()

    def _follow_loop(self) -> None:
        """Forget the connections of another event loop, which may have ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self._loop is self.event_loop:
                self._loop.call_soon_threadsafe(_close_all, self._idle)
            self._loop, self._idle, self._free = loop, [], asyncio.Semaphore(self._most)
            self._process = os.getpid()

    def _reusable(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.idle_seconds < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    def _give_back(self, connection: Connection) -> None:
        if connection.rest() and connection.loop is self._loop:
            self._idle.append(connection)
        else:
            connection.close()

    async def _connected(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connect()
        except (OSError, UnicodeError) as error:
            raise StoreUnavailable(self._unreached(error)) from error

    async def _connect(self) -> Connection:
        """A connection to the first address of the server's name that accepts one."""
        # Not in the event loop's threads: its end would wait for a slow name server.
        look = run_in_thread(lambda: addresses_of(self._host))
        failed = OSError("its name has no address")
        for address in await asyncio.wrap_future(look):
            try:
                return await self._connect_to(address)
            except OSError as error:
                failed = error
        raise failed

    async def _connect_to(self, address: str) -> Connection:
        if self._is_secure and self._tls is None:
            self._tls = ssl.create_default_context()
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(self._timeout or ANSWER_SECONDS),
            address,
            self._port,
            ssl=self._tls,
            server_hostname=self._host if self._is_secure else None,
        )
        return connection

    def _encoded(self, request: Request) -> bytes:
        body = request.body or b""
        lines = [
            f"{request.method} {self._path}{request.path} HTTP/1.1",
            f"host: {self._name}",
            *(f"{name}: {value}" for name, value in request.headers.items()),
        ]
        if body or request.method in ("POST", "PUT", "PATCH"):
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    @contextmanager
    def _named_errors(self, connection: Connection) -> Iterator[None]:
        try:
            yield
        except TooLong as error:
            raise StoreUnavailable(
                f"the answer of the server at {self._server} is longer than {error}; is it a duly "
                "server? If so, use a smaller --limit"
            ) from error
        except OSError as error:
            is_stale = connection.was_used and not connection.has_begun
            kind = Stale if is_stale and not isinstance(error, TimeoutError) else Unanswered
            reason = str(error) or type(error).__name__
            raise kind(f"the server at {self._server} did not answer: {reason}") from error

    def _unreached(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the server at {self._server} cannot be trusted: {error.verify_message}"
        reason = str(error) or ("timed out" if isinstance(error, TimeoutError) else repr(error))
        if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
            # asyncio's own text repeats the address.
            reason = os.strerror(error.errno) if error.errno > 0 else error.strerror or reason
        return f"cannot reach the server at {self._server}: {reason}; does `duly serve` run there?"


def _close_all(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


def _address(server: str) -> tuple[str, int, str, str]:
    """Host, port, the Host header and the path of a server's URL."""
    parts = urlsplit(server)
    try:
        given, port = parts.hostname or "", parts.port
        host = given if ":" in given else given.encode("idna").decode()
    except ValueError as error:
        raise BadSetting("server", f"{error}") from None
    named = f"[{host}]" if ":" in host else host
    standard = 443 if parts.scheme == "https" else 80
    return (
        host,
        port or standard,
        named if port is None else f"{named}:{port}",
        parts.path.rstrip("/"),
    )
