"""Imported deliveries: which of them are new in this store, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from duly.domain.deliveries import retry
from duly.domain.deliveries.crashes import CrashRule
from duly.domain.deliveries.delivery import ALONE, Lane
from duly.domain.deliveries.unique import Member
from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.domain.endpoints.webhooks import decode_webhook, encode_webhook
from duly.domain.schedules.schedule import encode_occasion
from duly.domain.streams.stream import NEVER, Halt
from duly.domain.transfer.entries import DeliveryEntry, content
from duly.domain.transfer.import_checks import places
from duly.domain.turns import checked_turn
from duly.errors import Conflict
from duly.ports import ImportResult
from duly.stores import unique_keys
from duly.stores.database import Session
from duly.stores.deliveries.known import key_taken
from duly.stores.deliveries.steps import text_of

SUSPECTS = CrashRule()
PLAIN = (
    *("id", "state", "priority", "attempt", "key", "stream", "occurrence", "due_at", "accepted_at"),
    *("expires_at", "started_at", "finished_at", "dead_at", "reason", "error", "fingerprint"),
    *("disposition", "revivals", "generation", "unique_key", "replaced", "replaced_at"),
)
"""Columns copied unchanged from the export."""


class ExistingDelivery(msgspec.Struct, frozen=True):
    """A delivery in this store, found by its id, its key or its occurrence."""

    id: str
    namespace: str
    key: str | None
    schedule: int | None
    occurrence: str | None
    target: int
    payload: bytes | None
    address: str | None


class StreamTail(msgspec.Struct, frozen=True):
    """A stream to which deliveries are appended."""

    lane: Lane
    counter: int
    paused_at: datetime | None


async def sorted_out(
    session: Session,
    namespace: str,
    entries: Sequence[DeliveryEntry],
    targets: Mapping[str, int],
    addresses: SealedAddresses,
) -> list[ImportResult | Conflict]:
    """For each entry, whether it is new, exists already, or conflicts with another delivery."""
    schedules = await _schedules(session, namespace, entries)
    rows = await session.fetch_batch(
        "transfer.known",
        "plan",
        columns={
            "id": [each.id for each in entries],
            "key": [each.key for each in entries],
            "schedule": [_number(namespace, each, schedules) for each in entries],
            "occurrence": [each.occurrence for each in entries],
        },
        namespace=namespace,
    )
    existing = _Existing([ExistingDelivery(*row) for row in rows], namespace, addresses)
    return [
        existing.decide(each, targets.get(each.target), _number(namespace, each, schedules))
        for each in entries
    ]


async def _schedules(
    session: Session, namespace: str, entries: Sequence[DeliveryEntry]
) -> dict[str, int]:
    names = sorted({each.schedule for each in entries if each.schedule and each.former is None})
    if not names:
        return {}
    rows = await session.fetch_named("transfer.schedules", namespace=namespace, names=names)
    return {row["name"]: row["id"] for row in rows}


def _number(namespace: str, entry: DeliveryEntry, schedules: Mapping[str, int]) -> int | None:
    """The number of the entry's schedule in this store, if known.

    A removed schedule gets a negative number, which no schedule has; it is the same at each import.
    """
    if entry.schedule is None or entry.former is None:
        return schedules.get(entry.schedule or "")
    identity = msgspec.json.encode([namespace, entry.schedule, entry.former])
    return -1 - (int.from_bytes(blake2b(identity, digest_size=8).digest()) >> 2)


class _Existing:
    """The existing deliveries, and the earlier entries of the same batch."""

    def __init__(
        self, known: Sequence[ExistingDelivery], namespace: str, addresses: SealedAddresses
    ) -> None:
        self._namespace = namespace
        self._addresses = addresses
        self._ids = {each.id: each.namespace for each in known}
        self._keys = {each.key: each for each in known if each.key is not None}
        self._occurrences: set[tuple[int | None, str | None]] = {
            (each.schedule, each.occurrence) for each in known if each.occurrence is not None
        }

    def decide(
        self, entry: DeliveryEntry, target: int | None, schedule: int | None
    ) -> ImportResult | Conflict:
        """Decide on one entry; if it is new, it exists for the entries after it."""
        if entry.id in self._ids:
            return self._by_id(entry)
        if entry.key is not None and entry.key in self._keys:
            return self._by_key(entry, target, self._keys[entry.key])
        if schedule is not None and (schedule, entry.occurrence) in self._occurrences:
            return ImportResult.KNOWN
        self._ids[entry.id] = self._namespace
        if schedule is not None:
            self._occurrences.add((schedule, entry.occurrence))
        if entry.key is not None:
            fields = (entry.id, self._namespace, entry.key, None, None)
            self._keys[entry.key] = ExistingDelivery(
                *fields, target or 0, content(entry), _address(entry)
            )
        return ImportResult.NEW

    def _by_id(self, entry: DeliveryEntry) -> ImportResult | Conflict:
        namespace = self._ids[entry.id]
        if namespace == self._namespace:
            return ImportResult.KNOWN
        return Conflict(
            f"delivery {entry.id} is in this store already, in namespace {namespace}; ids are "
            "unique over all of a store"
        )

    def _by_key(
        self, entry: DeliveryEntry, target: int | None, known: ExistingDelivery
    ) -> ImportResult | Conflict:
        address = self._addresses.readable(known.address)
        webhook = None if address is None else decode_webhook(address)
        stored = (known.target, bytes(known.payload or b""), webhook)
        if stored == (target or 0, content(entry), entry.webhook):
            return ImportResult.KNOWN
        return key_taken(entry.key, known.id)


async def write(
    session: Session,
    namespace: str,
    entries: Sequence[DeliveryEntry],
    targets: Mapping[str, int],
    addresses: SealedAddresses,
) -> None:
    """Write new deliveries; those of streams are appended in their order."""
    if not entries:
        return
    schedules = await _schedules(session, namespace, entries)
    numbers = {each.id: _number(namespace, each, schedules) for each in entries}
    await _record_removed(session, namespace, entries, numbers)
    tails = await _open_streams(session, namespace, entries)
    placed, reached = places(entries, {name: each.counter for name, each in tails.items()})
    rows = [
        _row(each, targets[each.target], numbers[each.id], tails, placed.get(each.id))
        | {"address": addresses.sealed(_address(each))}
        for each in entries
    ]
    stored = await session.fetch_batch(
        "transfer.deliver", columns=_columns(rows), namespace=namespace
    )
    if len(stored) != len(entries):
        raise Conflict("another process wrote the same rows; import again to continue")
    await _create_lanes(session, entries)
    await unique_keys.admit(session, _keyed(entries, targets))
    if tails:
        counters = [{"lane": tails[name].lane, "counter": reached[name]} for name in sorted(tails)]
        await session.fetch_batch("transfer.reach", columns=_columns(counters))
        await _create_heads(session, entries, tails, placed)
    await _write_history(session, entries)


async def _record_removed(
    session: Session,
    namespace: str,
    entries: Sequence[DeliveryEntry],
    numbers: Mapping[str, int | None],
) -> None:
    """Record the schedules that were removed in the store of the export."""
    former = {numbers[each.id]: each.schedule for each in entries if each.former is not None}
    named = [{"number": number, "name": name} for number, name in former.items() if name]
    if named:
        await session.fetch_batch("transfer.remove", columns=_columns(named), namespace=namespace)


async def _open_streams(
    session: Session, namespace: str, entries: Sequence[DeliveryEntry]
) -> dict[str, StreamTail]:
    names = sorted({each.stream for each in entries if each.stream and each.position})
    if not names:
        return {}
    rows = await session.fetch_batch("transfer.open", columns={"name": names}, namespace=namespace)
    return {name: StreamTail(*rest) for name, *rest in rows}


def _row(
    entry: DeliveryEntry,
    target: int,
    schedule: int | None,
    tails: Mapping[str, StreamTail],
    position: int | None,
) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in PLAIN} | {
        "lane": tails[entry.stream or ""].lane if entry.in_line else None,
        "target": target,
        "position": position,
        "schedule": schedule,
        "crashes": entry.crashes if entry.state == "dead" else None,
        "occasion": None if entry.occasion is None else encode_occasion(entry.occasion),
        "tags": msgspec.json.encode(entry.tags).decode() if entry.tags else None,
        "retry": None if entry.retry is None else retry.encode(entry.retry),
        "payload": content(entry),
        "on_failure": None if entry.on_failure is None else entry.on_failure.value,
        "turn": checked_turn(entry.fair_key, entry.limit_key, entry.stream),
    }


def _address(entry: DeliveryEntry) -> str | None:
    return None if entry.webhook is None else encode_webhook(entry.webhook)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


async def _create_lanes(session: Session, entries: Sequence[DeliveryEntry]) -> None:
    rows = [
        {"id": each.id} | _lane_values(each)
        for each in entries
        if each.state == "pending" and not each.in_line
    ]
    if rows:
        await session.fetch_batch("transfer.lay", columns=_columns(rows))


def _keyed(
    entries: Sequence[DeliveryEntry], targets: Mapping[str, int]
) -> Iterator[tuple[tuple[int, str], Member]]:
    """The deliveries that wait with a unique key."""
    for each in entries:
        if each.unique_key is not None and each.state == "pending":
            written_at = each.replaced_at or each.accepted_at
            yield (targets[each.target], each.unique_key), Member(each.id, "free", written_at)


def _lane_values(entry: DeliveryEntry) -> dict[str, Any]:
    """When the delivery's lane is due, and with which priority and crashes."""
    return {
        "priority": ALONE if SUSPECTS.runs_alone(entry.crashes) else entry.priority,
        "due_at": entry.next_at or entry.due_at,
        "crashes": entry.crashes,
    }


async def _create_heads(
    session: Session,
    entries: Sequence[DeliveryEntry],
    tails: Mapping[str, StreamTail],
    placed: Mapping[str, int],
) -> None:
    waiting = [
        each for each in entries if each.in_line and (each.state == "pending" or each.blocks)
    ]
    first: dict[str, DeliveryEntry] = {}
    leading: dict[str, DeliveryEntry] = {}
    for each in waiting:
        stream = each.stream or ""
        first.setdefault(stream, each)
        if each.blocks or stream not in leading:
            leading[stream] = each
    if leading:
        rows = [
            _head(each, tails[stream], placed[first[stream].id], placed[each.id])
            for stream, each in sorted(leading.items())
        ]
        await session.fetch_batch("transfer.lead", columns=_columns(rows))


def _head(
    entry: DeliveryEntry, tail: StreamTail, first_position: int, position: int
) -> dict[str, Any]:
    halted, halted_at = None, None
    if entry.blocks is not None:
        halted, halted_at = Halt.BLOCKED.value, entry.blocks
    elif tail.paused_at is not None:
        halted, halted_at = Halt.PAUSED.value, tail.paused_at
    head = {"id": entry.id, "lane": tail.lane} | _lane_values(entry)
    if halted is not None:
        head["due_at"] = NEVER
    replay_from = first_position if first_position < position else None
    return head | {
        "replay_from": replay_from,
        "halted": halted,
        "halted_at": halted_at,
        "unblocks_at": entry.unblocks_at,
    }


async def _write_history(session: Session, entries: Sequence[DeliveryEntry]) -> None:
    history = [
        {"delivery": entry.id}
        | msgspec.structs.asdict(past)
        | {"answer": bytes(past.answer).decode() or None}
        for entry in entries
        for past in entry.history
    ]
    if history:
        await session.fetch_batch("transfer.remember", columns=_columns(history))
    steps = [
        {
            "delivery": entry.id,
            "name": step.name,
            "attempt": step.attempt,
            "done_at": step.done_at,
            "result": text_of(step.result_json),
        }
        for entry in entries
        for step in entry.steps
    ]
    if steps:
        await session.fetch_batch("transfer.record", columns=_columns(steps))
