"""Turns: which keys give how many of their lanes to a claim.

The keys with something due are visited in order, each claim goes on after the last key of the one
before. A fair key gives an equal share; a limit key gives no more than its limits allow.

What a worker holds ahead of its free slots is in flight too, but does not run yet. It does not
take the last quarter of a limit, so that other workers can start something meanwhile. They take all
that the limit allows, so in the end they have it, and nothing is held ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec

from duly.domain.checks import checked_text
from duly.domain.deliveries.delivery import FAIR, LIMIT
from duly.domain.endpoints.gates import AGAIN, TargetLimits, room_for
from duly.errors import InvalidInput

NEVER = datetime.max.replace(tzinfo=UTC)


def checked_turn(fair_key: str | None, limit_key: str | None, stream: str | None) -> str | None:
    """The stored form of a delivery's fair key or limit key; None without one."""
    if fair_key is None and limit_key is None:
        return None
    field, key = ("fair_key", fair_key) if limit_key is None else ("limit_key", limit_key)
    if fair_key is not None and limit_key is not None:
        raise InvalidInput(
            "fair_key", "limit keys take turns too; give either fair_key or limit_key, not both"
        )
    if stream is not None:
        raise InvalidInput(field, "a stream has an order of its own; leave out stream or this key")
    return (FAIR if limit_key is None else LIMIT) + checked_text(field, key)


def keys_of(turn: str | None) -> tuple[str | None, str | None]:
    """The fair key and the limit key of a stored delivery."""
    if turn is None:
        return None, None
    if turn.startswith(FAIR):
        return turn.removeprefix(FAIR), None
    return None, turn.removeprefix(LIMIT)


class VisitedKey(msgspec.Struct, frozen=True):
    """A key with a lane to claim, due at `due_at`.

    For a limit key that was claimed before: its version, the lanes in flight, and until when its
    rate is used up.
    """

    turn: str
    due_at: datetime
    version: int | None
    held: int | None
    paced_at: datetime | None


class KeyShare(msgspec.Struct, frozen=True):
    """How many lanes a claim takes of a key, at most: the claim counts those in flight again.

    At most `in_flight` are then in flight; if more than `at_once` are claimed, at most `ahead_to`.
    Each moves `paced_at` on by `interval` seconds; with a rate, the key's version must not have
    changed.
    """

    turn: str
    many: int
    version: int | None = None
    in_flight: int | None = None
    at_once: int | None = None
    ahead_to: int | None = None
    paced_at: datetime | None = None
    interval: float | None = None


class Visited(msgspec.Struct, frozen=True):
    """Keys in order, as they were at `seen_at`; `are_all` if no key follows them."""

    keys: list[VisitedKey]
    seen_at: datetime
    are_all: bool
    is_ring: bool = False
    """These are all keys, and no limit holds one back: they can have several turns."""
    next: int = 0
    """The place of the key that has the next turn."""


class Shares(msgspec.Struct, frozen=True):
    """What a claim takes of each key.

    `after` is the key to continue after, empty if the round is over; at `again_at` a key that its
    limits hold back may be asked again. `ahead` are the keys for the next claims. `is_full` if
    keys have no more to be held ahead, although their limits allow more.
    """

    shares: list[KeyShare]
    after: str
    ahead: Visited | None = None
    again_at: datetime | None = None
    is_full: bool = False


def divide(
    visited: Visited, quota: int, limits: TargetLimits, now: datetime, early: int = 0
) -> Shares:
    """Divide a quota among the first keys that have something due and room within their limits.

    `early` of the quota would be held ahead of free slots.
    """
    at_once = quota - early
    chosen = _chosen(visited, quota, at_once, limits, now)
    again, is_full = chosen.again, chosen.is_full
    is_ring = visited.is_ring and not again
    keys = list(visited.keys) if is_ring else visited.keys
    shares, left = [], quota
    for rank, place in enumerate(chosen.places):
        wanted, first = (-(-each // (len(chosen.places) - rank)) for each in (left, at_once))
        share, again_at = _share(keys[place], wanted, first, limits, now)
        if again_at is not None:
            again.append(again_at)
        is_full = is_full or (again_at is None and share.many < wanted)
        if share.many > 0:
            shares.append(share)
            left -= share.many
            at_once -= min(first, share.many)
            if is_ring:
                keys[place] = _when_claimed(keys[place], share)
    if is_ring and chosen.is_full:
        # At their next turns, the claim counts what is in flight then.
        keys = [msgspec.structs.replace(each, held=None) for each in keys]
    reached = Visited(keys, visited.seen_at, visited.are_all, is_ring, chosen.reached)
    after, ahead = _progress(reached)
    is_full = is_full and early > 0 and left > 0
    return Shares(shares, after, ahead, min(again, default=None), is_full)


class Chosen(msgspec.Struct):
    """The places of the keys that give something, and where the next claim goes on."""

    reached: int
    places: list[int] = []
    again: list[datetime] = []
    is_full: bool = False


def _chosen(
    visited: Visited, quota: int, at_once: int, limits: TargetLimits, now: datetime
) -> Chosen:
    """The first keys that give anything."""
    chosen = Chosen(visited.next)
    for place, key in enumerate(islice(visited.keys, visited.next, None), visited.next):
        if len(chosen.places) >= quota:
            break
        chosen.reached += 1
        if key.due_at <= now:
            share, again_at = _share(key, 1, min(at_once, 1), limits, now)
            if share.many > 0:
                chosen.places.append(place)
            elif again_at is not None:
                chosen.again.append(again_at)
            else:
                chosen.is_full = True
    return chosen


def may_be_held_ahead(limits: TargetLimits) -> bool:
    """Whether lanes of keys with these limits may be held ahead of free slots.

    With a rate, a lane starts when it is claimed. A single one in flight has to run.
    """
    return limits.rate is None and limits.in_flight != 1


def _progress(visited: Visited) -> tuple[str, Visited | None]:
    """The key to continue after, and the keys ahead."""
    if visited.next < len(visited.keys):
        return visited.keys[visited.next - 1].turn, visited
    if visited.is_ring:
        return "", msgspec.structs.replace(visited, next=0)
    return "" if visited.are_all or not visited.keys else visited.keys[-1].turn, None


def _when_claimed(key: VisitedKey, share: KeyShare) -> VisitedKey:
    """The key after the claim; how many of its lanes are in flight then is not known."""
    if share.version is None:
        return key
    paced_at = key.paced_at
    if share.paced_at is not None and share.interval is not None:
        paced_at = share.paced_at + timedelta(seconds=share.many * share.interval)
    return VisitedKey(key.turn, key.due_at, share.version + 1, None, paced_at)


def is_short_ahead(share: KeyShare, claimed: int) -> bool:
    """Whether a limit key gave less than was asked of it to be held ahead."""
    return share.at_once is not None and max(share.at_once, claimed) < share.many


def still_ahead(
    ahead: Visited, shares: Sequence[KeyShare], claimed: Mapping[str, int]
) -> Visited | None:
    """The keys for the next claims after one that got so many of each key; None to read them again.

    A fair key that gave less than its share has nothing left. A limit key that gave nothing may be
    held back, and has its turn as soon as it is not.
    """
    if not ahead.is_ring and 2 * sum(claimed.values()) < sum(share.many for share in shares):
        # Other workers are at the same keys.
        return None
    empty: set[str] = set()
    for share in shares:
        got = claimed.get(share.turn, 0)
        if got >= share.many:
            continue
        if share.version is None:
            empty.add(share.turn)
        elif share.interval is not None or not got:
            return None
    if not empty or not ahead.is_ring:
        return ahead
    keys = [
        msgspec.structs.replace(key, due_at=NEVER) if key.turn in empty else key
        for key in ahead.keys
    ]
    return msgspec.structs.replace(ahead, keys=keys)


def _share(
    key: VisitedKey, wanted: int, at_once: int, limits: TargetLimits, now: datetime
) -> tuple[KeyShare, datetime | None]:
    """What a key gives, and when it may give more; `at_once` of it would not be held ahead."""
    if not key.turn.startswith(LIMIT):
        return KeyShare(key.turn, wanted), None
    version, held = key.version or 0, key.held or 0
    free = wanted if limits.rate is None else at_once
    bounds: tuple[int, int, int] | tuple[()] = ()
    if limits.in_flight is not None:
        if held >= limits.in_flight:
            return KeyShare(key.turn, 0), now + AGAIN
        ahead_to = limits.in_flight * 3 // 4
        free = min(free, max(at_once, ahead_to - held), limits.in_flight - held)
        bounds = (limits.in_flight, at_once, ahead_to)
    if limits.rate is None:
        return KeyShare(key.turn, free, version, *bounds), None
    many, start = room_for(limits.rate, key.paced_at, free, now)
    interval = 1 / limits.rate
    again_at = start + timedelta(seconds=(many + 1) * interval) if many < wanted else None
    share = KeyShare(key.turn, many, version, *bounds)
    return msgspec.structs.replace(share, paced_at=start, interval=interval), again_at
