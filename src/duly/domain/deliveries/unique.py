"""Deliveries with a unique key: what a caller may ask for, and which of them wait.

Of the deliveries with the same key and target at most one runs and at most one waits:

| there is                     | a new one                                                      |
|------------------------------|----------------------------------------------------------------|
| none, or only ended ones     | waits                                                          |
| one that waits               | is not added: keep, replace or postpone                        |
| one that runs                | waits, and is not due before that one has ended                |
| one that runs, one that waits| is not added: keep, replace or postpone                        |

If the running one should wait again while another waits, the one with the older contents ends.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, TypeVar

import msgspec

from duly.domain import checks
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.errors import Conflict, InvalidInput, quoted
from duly.records.delivery import Delivery
from duly.records.state import State
from duly.records.unique import OnDuplicate, Unique

Lane = Literal["free", "held"]
Choice = TypeVar("Choice", bound=StrEnum)


class UniqueOptions(msgspec.Struct, frozen=True):
    """How a delivery with a unique key is accepted."""

    on_duplicate: OnDuplicate
    latest: float | None


def checked_unique(
    unique: object,
    key: str | None,
    on_duplicate: object,
    latest: float | timedelta | None,
    **others: str | None,
) -> UniqueOptions | None:
    """The options of a unique delivery, None of any other; InvalidInput if they do not match."""
    if unique is None:
        _refuse_alone(on_duplicate, latest)
        return None
    checked_scope(unique)
    if key is None:
        raise InvalidInput("unique", "it needs a key; give one, as in key='customer:7'")
    for name, other in others.items():
        if other is not None:
            raise InvalidInput("unique", f"it does not go with {name}; leave out one of them")
    policy = OnDuplicate.KEEP if on_duplicate is None else checked_on_duplicate(on_duplicate)
    if latest is None:
        return UniqueOptions(policy, None)
    if policy is not OnDuplicate.POSTPONE:
        raise InvalidInput("latest", "only on_duplicate='postpone' has one; leave it out")
    return UniqueOptions(policy, checks.checked_wait("latest", latest))


def _refuse_alone(on_duplicate: object, latest: object) -> None:
    for name, value in (("on_duplicate", on_duplicate), ("latest", latest)):
        if value is not None:
            raise InvalidInput(
                name, "only a unique delivery has one; give unique='pending' and a key too"
            )


def checked_scope(value: object) -> Unique:
    """The scope with this name."""
    return _checked("unique", Unique, value)


def checked_on_duplicate(value: object) -> OnDuplicate:
    """The policy with this name."""
    return _checked("on_duplicate", OnDuplicate, value)


def _checked(field: str, choices: type[Choice], value: object) -> Choice:
    try:
        return choices(str(value))
    except ValueError:
        names = ", ".join(choices)
        raise InvalidInput(field, f"{quoted(value)} is not known; take {names}") from None


def made_unique(
    prepared: PreparedDelivery, options: UniqueOptions, now: datetime
) -> PreparedDelivery:
    """The delivery with a unique key in place of its key."""
    if options.latest is not None:
        _check_latest(prepared, options.latest, now)
    return msgspec.structs.replace(
        prepared,
        key=None,
        unique_key=prepared.key,
        on_duplicate=options.on_duplicate.value,
        latest=options.latest,
    )


def _check_latest(prepared: PreparedDelivery, latest: float, now: datetime) -> None:
    seconds, field = prepared.after or 0.0, "after"
    if prepared.due_at is not None:
        seconds, field = (prepared.due_at - now).total_seconds(), "at"
    if seconds > latest:
        raise InvalidInput(
            "latest",
            f"{latest:g} seconds are over before the delivery is due; "
            f"give more, or an earlier {field}",
        )


class Member(msgspec.Struct, frozen=True):
    """A delivery that a key names, and its lane, None if it has ended."""

    id: str
    lane: Lane | None
    written_at: datetime
    """When its contents were accepted."""
    is_shut: bool = False
    """Its lane waits for the end of the running one."""
    due_at: datetime | None = None
    accepted_at: datetime | None = None


class Standing(msgspec.Struct):
    """Which delivery of a key waits, and which runs."""

    waits: Member | None = None
    runs: Member | None = None
    superseded: list[tuple[str, str]] = []
    """Those that end, each with the one that has taken its place."""

    def place(self, newcomer: Member) -> None:
        """Let one more wait; if another waits already, the one with the older contents ends."""
        waits = self.waits
        if waits is None:
            self.waits = newcomer
        elif newcomer.written_at > waits.written_at:
            self.waits = newcomer
            self.superseded.append((waits.id, newcomer.id))
        else:
            self.superseded.append((newcomer.id, waits.id))

    @property
    def names(self) -> tuple[str | None, str | None]:
        """The ids of the one that waits and the one that runs."""
        waits, runs = self.waits, self.runs
        return None if waits is None else waits.id, None if runs is None else runs.id

    @property
    def opened(self) -> str | None:
        """The one that need not wait for a running one any longer."""
        if self.waits is None or self.runs is not None or not self.waits.is_shut:
            return None
        return self.waits.id

    @property
    def shut(self) -> str | None:
        """The one that must wait for the running one, and does not yet."""
        if self.waits is None or self.runs is None or self.waits.is_shut:
            return None
        return self.waits.id


def standing(last: Member | None, before: Member | None) -> Standing:
    """Which ones wait and run of those that a key names: the last one to wait, and one before."""
    members = [each for each in (last, before) if each is not None]
    found = Standing(runs=next((each for each in members if each.lane == "held"), None))
    for each in members:
        if each.lane == "free":
            found.place(each)
    return found


class Replacement(msgspec.Struct):
    """New contents of a delivery that waits; `due_at` is None if that stays."""

    contents: PreparedDelivery
    due_at: datetime | None = None
    times: int = 1


class Arrivals(msgspec.Struct):
    """The result of accepting deliveries with one key, one after the other."""

    standing: Standing
    new: PreparedDelivery | None = None
    replacement: Replacement | None = None
    replaced: int = 0
    """How often the new one was replaced by later ones of the same call."""

    def accept(self, request: PreparedDelivery, now: datetime) -> Member:
        """Accept one more; returns the delivery that waits then."""
        due_at = request.due_at or now + timedelta(seconds=request.after or 0.0)
        waits = self.standing.waits
        if waits is None:
            self.new = msgspec.structs.replace(request, due_at=due_at, after=None)
            self.standing.waits = Member(
                request.id, "free", now, self.standing.runs is not None, due_at, now
            )
        elif request.on_duplicate != OnDuplicate.KEEP:
            self._replace(waits, request, due_at)
        assert self.standing.waits is not None
        return self.standing.waits

    def _replace(self, waits: Member, request: PreparedDelivery, due_at: datetime) -> None:
        moves = request.on_duplicate == OnDuplicate.POSTPONE
        if moves:
            if request.latest is not None and waits.accepted_at is not None:
                due_at = min(due_at, waits.accepted_at + timedelta(seconds=request.latest))
            self.standing.waits = msgspec.structs.replace(waits, due_at=due_at)
        if self.new is not None:
            at = due_at if moves else self.new.due_at
            self.new = msgspec.structs.replace(request, id=self.new.id, due_at=at, after=None)
            self.replaced += 1
            return
        before = self.replacement
        kept = None if before is None else before.due_at
        times = 1 if before is None else before.times + 1
        self.replacement = Replacement(request, due_at if moves else kept, times)


def superseded_by(id: str) -> str:
    """Why a delivery ended, in words."""
    return f"delivery {id} with the same unique key has taken its place"


def waits_for(id: str) -> str:
    """What a delivery waits for while another one with its key runs, in words."""
    return f"delivery {id} with the same unique key runs; when that has ended, this one may run"


def refuse_shut(delivery: Delivery) -> None:
    """Raise Conflict if the delivery waits for a running one, and so cannot be made due."""
    if delivery.unique and delivery.state is State.PENDING and delivery.next_at is None:
        raise Conflict(
            f"delivery {delivery.id} waits for another one with the same unique key, which runs; "
            "it may run when that has ended"
        )


def key_waits(id: str, other: str) -> Conflict:
    """The error for a dead letter whose key another delivery has that waits."""
    return Conflict(
        f"delivery {id} cannot be retried: delivery {other} with the same unique key waits; "
        f"cancel that one first, or discard this one"
    )
