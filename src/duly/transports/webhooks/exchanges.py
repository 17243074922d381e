"""One HTTP exchange with an endpoint: sends the payload and turns the response into an outcome.

This module imports aiohttp, which takes longer than most commands run, so `sender` imports it only
when needed.
"""

from __future__ import annotations

import errno
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache
from typing import Any

import aiohttp
import msgspec
from aiohttp import BytesPayload, ClientSession, ClientTimeout, DummyCookieJar
from yarl import URL

import duly.failpoints as failpoints
from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Deferred, Failed, Outcome
from duly.domain.endpoints.signatures import ID, SIGNATURE, TIMESTAMP, signatures
from duly.domain.endpoints.webhooks import outcome_of
from duly.domain.schedules.schedule import decode_occasion
from duly.ports import Clock
from duly.records.reason import Reason
from duly.transports.webhooks.answers import Answer as Arriving
from duly.transports.webhooks.answers import broken
from duly.transports.webhooks.connector import Connector
from duly.transports.webhooks.egress import Guard, Passage
from duly.transports.webhooks.endpoint_cache import Reach
from duly.transports.webhooks.resolver import Resolver, ResolverAway
from duly.transports.webhooks.timeout import Deadline
from duly.transports.webhooks.timing import TIMED, ExchangeTiming
from duly.version import __version__

EXCERPT_BYTES = 16 * 1024
OUR_FAULT_SECONDS = 10.0
OUR_FAULTS = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EMFILE})
"""Errors of this machine: nothing was sent, so the endpoint is not to blame."""
OpenSocket = Callable[[int, int, int], Any]
PASSAGE: ContextVar[Passage] = ContextVar("passage")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a response that is stored with the attempt; times in milliseconds."""

    status: int | None = None
    timing: dict[str, float] = {}
    excerpt: str = ""
    truncated: bool = False
    note: str = ""
    """A problem with the body: incomplete, malformed, or not allowed for the status."""


class Heard:
    """The part of a response received so far; once there is a status, it decides the outcome."""

    __slots__ = ("body", "note", "retry_after", "status", "truncated")

    def __init__(self) -> None:
        self.status: int | None = None
        self.retry_after: str | None = None
        self.body = bytearray()
        self.truncated = False
        self.note = ""


class Exchanges:
    """The one HTTP client of a process."""

    def __init__(
        self,
        clock: Clock,
        guard: Guard,
        is_resolver_trouble: Callable[[OSError], bool],
        open_socket: OpenSocket,
        carried: Callable[[], Mapping[str, str]],
    ) -> None:
        self._clock = clock
        self._guard = guard
        self._resolver = Resolver(clock.monotonic, is_resolver_trouble)
        self._open_socket = open_socket
        self._carried = carried
        self._session: ClientSession | None = None
        self.answers: Counter[str] = Counter()
        """Number of responses by class (`2xx`), and of exchanges without one (`none`)."""

    async def make(self, claimed: Claimed, reach: Reach, now: Callable[[], datetime]) -> Outcome:
        """Make one exchange within its timeout; `now` dates the signature and Retry-After."""
        webhook = reach.webhook
        PASSAGE.set(Passage(_parsed(webhook.url).host))
        timing = ExchangeTiming(self._clock.monotonic)
        TIMED.set(timing)
        reply = Heard()
        try:
            with Deadline(webhook.timeout):
                await self._exchange(claimed, reach, timing, reply, now)
        except TimeoutError:
            if reply.status is None:
                problem = f"no answer within {webhook.timeout:g} seconds"
                return self._failed(Reason.TIMEOUT_EXCEEDED, problem, timing)
            reply.note = broken(f"it did not end within {webhook.timeout:g} seconds")
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            if reply.status is None:
                return self._outcome_of_error(error, timing)
            reply.note = reply.note or broken(_problem(error))
        return self._outcome_of_response(reply, timing, now)

    async def _exchange(
        self,
        claimed: Claimed,
        reach: Reach,
        timing: ExchangeTiming,
        reply: Heard,
        now: Callable[[], datetime],
    ) -> None:
        if failpoints.armed:
            await failpoints.hit("webhook.before")
        webhook, body = reach.webhook, claimed.payload
        request = self._open_session().request(
            webhook.method,
            _parsed(webhook.url),
            data=BytesPayload(body),
            headers=self._headers(claimed, reach, body, now()),
            allow_redirects=False,
        )
        async with request as response:
            if failpoints.armed:
                await failpoints.hit("webhook.sent")
            assert isinstance(response, Arriving)
            timing.mark("first_byte")
            self.answers[f"{response.status // 100}xx"] += 1
            reply.status, reply.retry_after = response.status, response.headers.get("Retry-After")
            try:
                reply.truncated = await _read_excerpt(response, reply.body)
            finally:
                reply.note = response.oddity or ""
            if reply.truncated:
                response.close()
        if failpoints.armed:
            await failpoints.hit("webhook.answered")

    def _outcome_of_response(
        self, reply: Heard, timing: ExchangeTiming, now: Callable[[], datetime]
    ) -> Outcome:
        assert reply.status is not None
        excerpt = bytes(reply.body[:EXCERPT_BYTES])
        text = excerpt.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        answer = Answer(reply.status, timing.milliseconds(), text, reply.truncated, reply.note)
        return outcome_of(reply.status, reply.retry_after, now(), _encoded(answer))

    def _headers(
        self, claimed: Claimed, reach: Reach, body: bytes, now: datetime
    ) -> dict[str, str]:
        timestamp = int(now.timestamp())
        headers = {
            "content-type": "application/json",
            "user-agent": f"duly/{__version__}",
            "accept-encoding": "identity",
            **self._carried(),
            **reach.webhook.headers,
            ID: claimed.id,
            TIMESTAMP: str(timestamp),
            "Idempotency-Key": claimed.id,
            "X-Idempotency-Key": claimed.id,
            "webhook-attempt": str(claimed.attempt + 1),
        }
        if reach.keys:
            headers[SIGNATURE] = signatures(reach.keys, claimed.id, timestamp, body)
        if claimed.occasion is not None:
            occasion = decode_occasion(claimed.occasion)
            headers["webhook-scheduled-for"] = occasion.scheduled_for.isoformat()
            headers["webhook-merged"] = str(occasion.merged)
        return headers

    def _open_session(self) -> ClientSession:
        if self._session is None:
            connector = Connector(
                limit=0, resolver=self._resolver, socket_factory=self._guarded_socket
            )
            self._session = ClientSession(
                connector=connector,
                cookie_jar=DummyCookieJar(),
                # `Deadline` is used instead: aiohttp rounds its timeouts up to whole seconds.
                timeout=ClientTimeout(total=None, sock_connect=None),
                auto_decompress=False,
                response_class=Arriving,
            )
        return self._session

    def _guarded_socket(self, address_info: Any) -> Any:
        # This is the address that is connected to: no later DNS lookup can replace it.
        family, kind, protocol, _, address = address_info
        PASSAGE.get().check(self._guard, address[0], address[1])
        return self._open_socket(family, kind, protocol)

    def _outcome_of_error(self, error: Exception, timing: ExchangeTiming) -> Outcome:
        if (refused := PASSAGE.get().refusal()) is not None:
            return Failed(Reason.VALIDATION_FAILURE, str(refused), again=False)
        cause = _system_error(error)
        if isinstance(cause, ResolverAway) or (cause and cause.errno in OUR_FAULTS):
            return Deferred(OUR_FAULT_SECONDS)
        return self._failed(Reason.TRANSPORT_UNAVAILABLE, _problem(error), timing)

    def _failed(self, reason: Reason, problem: str, timing: ExchangeTiming) -> Failed:
        self.answers["none"] += 1
        return Failed(reason, problem, answer=_encoded(Answer(timing=timing.milliseconds())))

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


@lru_cache(1000)
def _parsed(url: str) -> URL:
    """Cached, since a URL object caches the parts that the client reads for each request."""
    return URL(url, encoded=True)


async def _read_excerpt(response: aiohttp.ClientResponse, excerpt: bytearray) -> bool:
    """Read the beginning of the body; returns whether there is more."""
    content = response.content
    while len(excerpt) <= EXCERPT_BYTES:
        part = await content.read(EXCERPT_BYTES + 1 - len(excerpt))
        excerpt += part
        # Checked only after a read: reading raises the error of an incomplete body.
        if not part or content.at_eof():
            break
    return len(excerpt) > EXCERPT_BYTES


def _encoded(answer: Answer) -> str:
    return msgspec.json.encode(answer).decode()


def _problem(error: Exception) -> str:
    cause: object = _system_error(error) or error
    if isinstance(cause, aiohttp.ClientResponseError):
        # Its text contains the whole URL, whose query may hold a secret.
        cause = f"{cause.status}, {cause.message}"
    return f"{type(error).__name__}: {cause}"


def _system_error(error: BaseException | None) -> OSError | None:
    """The first operating system error in an error's chain of causes."""
    while error is not None:
        if isinstance(error, OSError) and not isinstance(error, aiohttp.ClientError):
            return error
        error = getattr(error, "os_error", None) or error.__cause__ or error.__context__
    return None
