"""What a caller did wrong, as exceptions; what the world did is an outcome (see outcomes).

DulyError
├── InvalidInput        the value cannot be taken            (HTTP 422, exit 2)
│   └── BadSetting      a setting cannot be taken            (HTTP 500, exit 2)
├── NotFound            there is no such thing               (HTTP 404, exit 3)
├── Conflict            the thing is in another state        (HTTP 409, exit 5)
│   ├── Outdated        it was changed since it was read     (HTTP 412)
│   ├── StoreIsOwned    another server runs on this file     (exit 1)
│   └── OtherEventLoop  the App is open in another event loop
├── StoreUnavailable    the store cannot be reached          (HTTP 503, exit 4)
│   ├── SchemaMismatch  the store was made by another version (exit 1)
│   └── Contended       others held what it needed for too long
├── Busy                more comes in than can be stored     (HTTP 429)
├── SignatureRefused    a message is not what was signed     (exit 1; see signatures)
├── UnreadableRule      a stored rule is not for this version (left alone)
├── SettlementRefused   the store's own rules forbid it      (never leaves the engine)
└── LeaseLost           this worker no longer holds the lane (never leaves the engine)
"""

from __future__ import annotations

import re

LONGEST_QUOTE = 60
LONGEST_MISFIT = 300


class DulyError(Exception):
    """The root of every error that duly raises on purpose."""


class InvalidInput(DulyError):
    """A value cannot be taken; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.problem = message


def misfit(error: Exception, root: str = "body") -> InvalidInput:
    """The refusal that names the field: msgspec says it as ``... - at `$.tags[0]` ``."""
    told = MISFIT.fullmatch(str(error))
    message, place = (str(error), "") if told is None else told.groups()
    field = f"{root}{place}" if root != "body" else place.lstrip(".") or root
    return InvalidInput(_short(field), _short(message))


def _short(text: str) -> str:
    # msgspec repeats names that somebody else wrote, however long they are.
    return text if len(text) <= LONGEST_MISFIT else f"{text[:LONGEST_MISFIT]}…"


MISFIT = re.compile(r"(.*) - at (?:`key` in )?`\$(.*)`", re.DOTALL)


def quoted(value: object) -> str:
    """A value as a refusal shows it: on one line, and short however long it is."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


class BadSetting(InvalidInput):
    """A setting cannot be taken; `field` is the setting's name."""


class NotFound(DulyError):
    """There is no such thing; `kind` and `name` say which was asked for."""

    def __init__(self, kind: str, name: str, remedy: str = "") -> None:
        super().__init__(f"no {kind} {name!r}" + (f"; {remedy}" if remedy else ""))
        self.kind = kind
        self.name = name


class Conflict(DulyError):
    """The thing is in a state in which this move is refused."""


NOT_YET = 0
"""The version of what is not there yet."""


class Outdated(Conflict):
    """It was changed since whoever changes it now has read it."""

    def __init__(self, kind: str, name: str, version: int | None, wanted: int) -> None:
        present = "gone" if version is None else f"at version {version}"
        hoped = f"at version {wanted}" if wanted else "new"
        super().__init__(f"{kind} {name!r} is {present}, and not {hoped}; read it again")


class StoreIsOwned(Conflict):
    """Another server already runs on this SQLite file."""


class OtherEventLoop(Conflict):
    """An App is used from another event loop than the one it was opened in."""

    def __init__(self, *, has_ended: bool) -> None:
        super().__init__(
            "the event loop in which this App was opened has ended before the App was closed; make "
            "a new App, and use `async with app:` within one asyncio.run(...)"
            if has_ended
            else "this App is open in another event loop; make an App for each event loop, or pass "
            "the call to the App's own loop: "
            "asyncio.run_coroutine_threadsafe(app.deliver(...), loop).result()"
        )


class StoreUnavailable(DulyError):
    """The store cannot be reached, or did not answer in time; `source` says which one, if known."""

    def __init__(self, message: str = "", *, source: object = None) -> None:
        super().__init__(message)
        self.source = source


class Contended(StoreUnavailable):
    """Others held a connection or a lock that it needed for too long; it may be tried again."""


class Busy(DulyError):
    """More comes in than can be stored; nothing was, and it may be sent again later."""


class SchemaMismatch(StoreUnavailable):
    """The store's schema is not one that this version can work with."""


class UnreadableRule(DulyError):
    """A stored rule that this version cannot read; `stored` is its text."""

    def __init__(self, stored: str, problem: str) -> None:
        super().__init__(
            f"this version cannot read the rule {stored}: {problem}; "
            "run a version that can; this one leaves the schedule alone"
        )
        self.stored = stored
        self.problem = problem


class SettlementRefused(DulyError):
    """What was to be written breaks a rule of the store itself; trying again is no use."""


class LeaseLost(DulyError):
    """The lane is no longer held under this token, so nothing was written."""
