"""One exchange with an endpoint: the bytes go out, and what comes back is read as an outcome.

Here the HTTP client is imported, which takes longer than most commands do: `webhooks` imports this
when it is needed.
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
from duly.domain.deliveries.failures import Reason
from duly.domain.deliveries.outcomes import Deferred, Failed, Outcome
from duly.domain.endpoints.signatures import ID, SIGNATURE, TIMESTAMP, signatures
from duly.domain.endpoints.webhooks import outcome_of
from duly.domain.schedules.schedule import decode_occasion
from duly.ports import Clock
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
"""Nothing left the machine: the endpoint is not to blame."""
OpenSocket = Callable[[int, int, int], Any]
PASSAGE: ContextVar[Passage] = ContextVar("passage")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an attempt's record keeps of an exchange; times in milliseconds."""

    status: int | None = None
    timing: dict[str, float] = {}
    excerpt: str = ""
    truncated: bool = False
    note: str = ""
    """What was odd about it: a body that broke off, or that should not be there."""


class Heard:
    """As much of an answer as has arrived; its status decides, whatever becomes of the rest."""

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
        """How many there were of each class of answers, `none` being one."""

    async def make(self, claimed: Claimed, reach: Reach, now: Callable[[], datetime]) -> Outcome:
        """Make one exchange within its deadline; `now` is what it is signed and told by."""
        webhook = reach.webhook
        PASSAGE.set(Passage(_parsed(webhook.url).host))
        timing = ExchangeTiming(self._clock.monotonic)
        TIMED.set(timing)
        heard = Heard()
        try:
            with Deadline(webhook.timeout):
                await self._exchange(claimed, reach, timing, heard, now)
        except TimeoutError:
            if heard.status is None:
                problem = f"no answer within {webhook.timeout:g} seconds"
                return self._failed(Reason.TIMEOUT_EXCEEDED, problem, timing)
            heard.note = broken(f"it did not end within {webhook.timeout:g} seconds")
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            if heard.status is None:
                return self._outcome_of(error, timing)
            heard.note = heard.note or broken(_problem(error))
        return self._judged(heard, timing, now)

    async def _exchange(
        self,
        claimed: Claimed,
        reach: Reach,
        timing: ExchangeTiming,
        heard: Heard,
        now: Callable[[], datetime],
    ) -> None:
        if failpoints.armed:
            await failpoints.hit("webhook.before")
        webhook, body = reach.webhook, claimed.payload
        sending = self._opened().request(
            webhook.method,
            _parsed(webhook.url),
            data=BytesPayload(body),
            headers=self._headers(claimed, reach, body, now()),
            allow_redirects=False,
        )
        async with sending as response:
            if failpoints.armed:
                await failpoints.hit("webhook.sent")
            assert isinstance(response, Arriving)
            timing.mark("first_byte")
            self.answers[f"{response.status // 100}xx"] += 1
            heard.status, heard.retry_after = response.status, response.headers.get("Retry-After")
            try:
                heard.truncated = await _read_excerpt(response, heard.body)
            finally:
                heard.note = response.oddity or ""
            if heard.truncated:
                response.close()
        if failpoints.armed:
            await failpoints.hit("webhook.answered")

    def _judged(self, heard: Heard, timing: ExchangeTiming, now: Callable[[], datetime]) -> Outcome:
        assert heard.status is not None
        excerpt = bytes(heard.body[:EXCERPT_BYTES])
        text = excerpt.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
        answer = Answer(heard.status, timing.milliseconds(), text, heard.truncated, heard.note)
        return outcome_of(heard.status, heard.retry_after, now(), _told(answer))

    def _headers(
        self, claimed: Claimed, reach: Reach, body: bytes, now: datetime
    ) -> dict[str, str]:
        timestamp = int(now.timestamp())
        ours = {
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
            ours[SIGNATURE] = signatures(reach.keys, claimed.id, timestamp, body)
        if claimed.occasion is not None:
            occasion = decode_occasion(claimed.occasion)
            ours["webhook-scheduled-for"] = occasion.scheduled_for.isoformat()
            ours["webhook-merged"] = str(occasion.merged)
        return ours

    def _opened(self) -> ClientSession:
        if self._session is None:
            connector = Connector(
                limit=0, resolver=self._resolver, socket_factory=self._guarded_socket
            )
            self._session = ClientSession(
                connector=connector,
                cookie_jar=DummyCookieJar(),
                # The deadline is ours; the client's own rounds it up to whole seconds.
                timeout=ClientTimeout(total=None, sock_connect=None),
                auto_decompress=False,
                response_class=Arriving,
            )
        return self._session

    def _guarded_socket(self, address_info: Any) -> Any:
        # Here the address is the one that is connected to: no name can lead elsewhere afterwards.
        family, kind, protocol, _, address = address_info
        PASSAGE.get().check(self._guard, address[0], address[1])
        return self._open_socket(family, kind, protocol)

    def _outcome_of(self, error: Exception, timing: ExchangeTiming) -> Outcome:
        if (refused := PASSAGE.get().refusal()) is not None:
            return Failed(Reason.VALIDATION_FAILURE, str(refused), again=False)
        system = _system_error(error)
        if isinstance(system, ResolverAway) or (system and system.errno in OUR_FAULTS):
            return Deferred(OUR_FAULT_SECONDS)
        return self._failed(Reason.TRANSPORT_UNAVAILABLE, _problem(error), timing)

    def _failed(self, reason: Reason, problem: str, timing: ExchangeTiming) -> Failed:
        self.answers["none"] += 1
        return Failed(reason, problem, answer=_told(Answer(timing=timing.milliseconds())))

    async def close(self) -> None:
        """Let go of the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


@lru_cache(1000)
def _parsed(url: str) -> URL:
    """Kept for the next to the same place: it remembers what the client asks of it each time."""
    return URL(url, encoded=True)


async def _read_excerpt(response: aiohttp.ClientResponse, found: bytearray) -> bool:
    """Read the beginning of the body; whether there was more."""
    content = response.content
    while len(found) <= EXCERPT_BYTES:
        part = await content.read(EXCERPT_BYTES + 1 - len(found))
        found += part
        # Asked only after a read: a body that was cut off is told by its error.
        if not part or content.at_eof():
            break
    return len(found) > EXCERPT_BYTES


def _told(answer: Answer) -> str:
    return msgspec.json.encode(answer).decode()


def _problem(error: Exception) -> str:
    told: object = _system_error(error) or error
    if isinstance(told, aiohttp.ClientResponseError):
        # Its own text has the whole URL, and with it what its query may carry.
        told = f"{told.status}, {told.message}"
    return f"{type(error).__name__}: {told}"


def _system_error(error: BaseException | None) -> OSError | None:
    """The first error of the system's own among an error and what led to it."""
    while error is not None:
        if isinstance(error, OSError) and not isinstance(error, aiohttp.ClientError):
            return error
        error = getattr(error, "os_error", None) or error.__cause__ or error.__context__
    return None
