"""Requests to store deliveries: which statement stores them, and its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from duly.domain.deliveries.delivery import PreparedDelivery
from duly.ports import Refusal
from duly.records.delivery import Accepted


def is_new(requests: Sequence[PreparedDelivery]) -> bool:
    """Whether none of them can conflict, and all are members of the same batch or of none."""
    batch = requests[0].batch
    return all(each.is_new and each.batch == batch for each in requests)


def statement_for(
    requests: Sequence[PreparedDelivery], numbers: Mapping[str, int]
) -> tuple[str, dict[str, Sequence[Any]]]:
    """The simplest statement that stores all of them, and its columns."""
    columns = columns_for(requests, numbers)
    if all(each.stream is each.batch is each.turn is None for each in requests):
        return "ledger.accept", columns
    columns["stream"] = [each.stream for each in requests]
    columns["on_failure"] = [each.on_failure for each in requests]
    columns["in_batch"] = [each.batch for each in requests]
    columns["turn"] = [each.turn for each in requests]
    return "streams.accept", columns


def columns_for(
    requests: Sequence[PreparedDelivery], numbers: Mapping[str, int]
) -> dict[str, Sequence[Any]]:
    """The columns that every statement has."""
    return {
        "id": [each.id for each in requests],
        "target": [numbers[each.target] for each in requests],
        "priority": [each.priority for each in requests],
        "key": [each.key for each in requests],
        "address": [each.address for each in requests],
        "due_at": [each.due_at for each in requests],
        "after": [each.after for each in requests],
        "expires_at": [each.expires_at for each in requests],
        "tags": [_tags(each.tags) for each in requests],
        "retry": [each.retry for each in requests],
        "payload": [each.payload for each in requests],
    }


def _tags(tags: tuple[str, ...]) -> str | None:
    return msgspec.json.encode(tags).decode() if tags else None


def apart(
    requests: Sequence[PreparedDelivery],
) -> tuple[list[PreparedDelivery], list[PreparedDelivery]]:
    """Those without a unique key, and those with one."""
    keyed = [each for each in requests if each.unique_key is not None]
    if not keyed:
        return list(requests), keyed
    return [each for each in requests if each.unique_key is None], keyed


def in_order(
    keys: Sequence[str | None],
    others: Sequence[Accepted | Refusal],
    keyed: Sequence[Accepted | Refusal],
) -> list[Accepted | Refusal]:
    """The answers in the order of the requests, given by their unique keys."""
    if not keyed:
        return list(others)
    rest, those = iter(others), iter(keyed)
    return [next(rest) if key is None else next(those) for key in keys]
