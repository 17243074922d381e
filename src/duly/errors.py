"""Exceptions for mistakes of the caller; failures of a target are outcomes (see outcomes).

DulyError
├── InvalidInput        a value is not valid                 (HTTP 422, exit 2)
│   └── BadSetting      a setting is not valid               (HTTP 500, exit 2)
├── NotFound            the resource does not exist          (HTTP 404, exit 3)
├── Conflict            the resource's state forbids it      (HTTP 409, exit 5)
│   ├── Outdated        it was changed since it was read     (HTTP 412)
│   ├── InProgress      the same request is in progress      (HTTP 409)
│   ├── StoreIsOwned    another server runs on this file     (exit 1)
│   └── OtherEventLoop  the App is open in another event loop
├── StoreUnavailable    the store cannot be reached          (HTTP 503, exit 4)
│   ├── SchemaMismatch  the schema is of another version     (exit 1)
│   └── Contended       a lock or connection was held too long
├── NotEnded            a delivery has not ended in time      (see handles)
├── DeliveryFailed      a delivery ended without success      (see handles)
├── Busy                too many requests to store them all  (HTTP 429)
├── SignatureRefused    a signature is not valid             (exit 1; see signatures)
├── UnreadableRule      a newer version wrote the rule       (the schedule is skipped)
├── SettlementRefused   a constraint of the store forbids it (never leaves the engine)
└── LeaseLost           this worker no longer holds the lane (never leaves the engine)
"""

from __future__ import annotations

import re

LONGEST_QUOTE = 60
LONGEST_MISFIT = 300


class DulyError(Exception):
    """The base of all errors that duly raises."""


class InvalidInput(DulyError):
    """A value is not valid; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.problem = message


def misfit(error: Exception, root: str = "body") -> InvalidInput:
    """The InvalidInput for an error of msgspec, whose text ends with ``- at `$.tags[0]` ``."""
    found = MISFIT.fullmatch(str(error))
    message, place = (str(error), "") if found is None else found.groups()
    field = f"{root}{place}" if root != "body" else place.lstrip(".") or root
    return InvalidInput(_short(field), _short(message))


def _short(text: str) -> str:
    # msgspec repeats names from the input, which may be very long.
    return text if len(text) <= LONGEST_MISFIT else f"{text[:LONGEST_MISFIT]}…"


MISFIT = re.compile(r"(.*) - at (?:`key` in )?`\$(.*)`", re.DOTALL)


def quoted(value: object) -> str:
    """A value as an error shows it: on one line, and cut to LONGEST_QUOTE characters."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"


def shown_number(value: object) -> str:
    """A number as an error shows it: 7 for 7 and 7.0; any other value as `quoted`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else quoted(value)


class BadSetting(InvalidInput):
    """A setting is not valid; `field` is its name."""


class NotFound(DulyError):
    """A resource does not exist; `kind` and `name` identify it."""

    def __init__(self, kind: str, name: str, remedy: str = "") -> None:
        super().__init__(f"no {kind} {name!r}" + (f"; {remedy}" if remedy else ""))
        self.kind = kind
        self.name = name


class Conflict(DulyError):
    """The operation is not allowed in the present state of the resource."""


NOT_YET = 0
"""The version of a resource that does not exist yet."""


class Outdated(Conflict):
    """The resource was changed since the caller read it."""

    def __init__(self, kind: str, name: str, version: int | None, wanted: int) -> None:
        present = "gone" if version is None else f"at version {version}"
        expected = f"at version {wanted}" if wanted else "new"
        super().__init__(f"{kind} {name!r} is {present}, and not {expected}; read it again")


class InProgress(Conflict):
    """The same request is in progress; repeat it in a moment to get its answer."""


class StoreIsOwned(Conflict):
    """Another server already runs on this SQLite file."""


class OtherEventLoop(Conflict):
    """An App is used in another event loop than the one in which it was opened."""

    def __init__(self, *, has_ended: bool) -> None:
        super().__init__(
            "the event loop in which this App was opened has ended before the App was closed; make "
            "a new App, and use `async with app:` within one asyncio.run(...)"
            if has_ended
            else "this App is open in another event loop; make an App for each event loop, or pass "
            "the call to the App's own loop: await asyncio.to_thread(app.sync.deliver, ...), or "
            "in a thread without an event loop app.sync.deliver(...)"
        )


class StoreUnavailable(DulyError):
    """The store cannot be reached or did not answer in time; `source` is the store, if known."""

    def __init__(self, message: str = "", *, source: object = None) -> None:
        super().__init__(message)
        self.source = source


class Contended(StoreUnavailable):
    """A needed connection or lock was in use for too long; try again."""


class Busy(DulyError):
    """Too many requests are waiting to be stored; nothing was stored, try again later."""


class SchemaMismatch(StoreUnavailable):
    """The store's schema is not one that this version can work with."""


class UnreadableRule(DulyError):
    """A stored rule that this version cannot read; `stored` is its text."""

    def __init__(self, stored: str, problem: str) -> None:
        super().__init__(
            f"this version cannot read the rule {stored}: {problem}; "
            "use a newer version; this one skips the schedule"
        )
        self.stored = stored
        self.problem = problem


class SettlementRefused(DulyError):
    """A settlement violates a constraint of the store; a retry would not help."""


class LeaseLost(DulyError):
    """The lane is no longer held under this token, so nothing was written."""
