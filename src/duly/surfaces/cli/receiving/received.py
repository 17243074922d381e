"""What a local receiver shows of a webhook: its signature, whether it is a repeat, its content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from duly.domain.endpoints.signatures import ID, SignatureRefused
from duly.receiving import verify
from duly.surfaces.cli.terminal.output import cell

ATTEMPT = "webhook-attempt"
SHOWN = 2000
"""Characters of a body that are shown."""
LONGEST = 300
"""Characters of a path or an id that are kept."""
MOST_REMEMBERED = 10_000


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request; `verified` is null without a secret, `why` is the reason if it is false."""

    at: datetime
    method: str
    path: str
    id: str | None
    attempt: int | None
    verified: bool | None
    why: str | None
    repeat: bool
    answer: int
    body: msgspec.Raw | str


class Inbox:
    """Records requests, and decides how each is answered."""

    def __init__(self, secret: str, failing: Sequence[int], answer: int) -> None:
        self._secret = secret
        self._failing = failing
        self._answer = answer
        self._times: dict[str | None, int] = {}

    def take(
        self, at: datetime, line: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Received:
        """Record a request; `line` is its method and path."""
        id = _kept(headers.get(ID, "")) or None
        before = self._count(id)
        verified, why = self._checked(headers, body)
        return Received(
            at=at,
            method=line[0],
            path=_kept(line[1]),
            id=id,
            attempt=_number(headers.get(ATTEMPT, "")),
            verified=verified,
            why=why,
            repeat=id is not None and before > 0,
            answer=self._failing[before] if before < len(self._failing) else self._answer,
            body=_document(body),
        )

    def _count(self, id: str | None) -> int:
        """How often the id was received before; the oldest ids are forgotten first."""
        before = self._times.pop(id, 0)
        self._times[id] = before + 1
        if len(self._times) > MOST_REMEMBERED:
            del self._times[next(iter(self._times))]
        return before

    def _checked(self, headers: Mapping[str, str], body: bytes) -> tuple[bool | None, str | None]:
        if not self._secret:
            return None, None
        try:
            verify(body, headers, self._secret)
        except SignatureRefused as error:
            return False, str(error)
        return True, None


def _kept(text: str) -> str:
    # Escaped here: bytes that are not text become lone surrogates, which JSON cannot encode.
    return cell(text[:LONGEST])


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _document(body: bytes) -> msgspec.Raw | str:
    """JSON, compact since each request is printed on one line; anything else as text."""
    try:
        return msgspec.Raw(msgspec.json.format(body.decode(), indent=-1))
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return body.decode(errors="backslashreplace")


def shown(received: Received) -> str:
    """A request as text."""
    facts = [
        f"{received.at:%H:%M:%S}",
        f"{received.method} {received.path}",
        received.id or "no id",
        *([f"attempt {received.attempt}"] if received.attempt else []),
        *(["repeat"] if received.repeat else []),
        _verdict(received),
        f"answered {received.answer}",
    ]
    return "\n".join(["  ".join(facts), *(f"    {each}" for each in _body_lines(received.body))])


def _verdict(received: Received) -> str:
    if received.verified is None:
        return "not checked"
    return "verified" if received.verified else f"NOT VERIFIED: {received.why}"


def _body_lines(body: msgspec.Raw | str) -> list[str]:
    text = body if isinstance(body, str) else _pretty(body)
    lines = [cell(each) for each in text[:SHOWN].splitlines()]
    return [*lines, f"... {len(text) - SHOWN} characters more"] if len(text) > SHOWN else lines


def _pretty(body: msgspec.Raw) -> str:
    return msgspec.json.format(bytes(body), indent=2).decode()
