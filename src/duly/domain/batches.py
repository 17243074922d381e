"""Batches: when one is finished, and what its completion says."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

import msgspec

from duly.domain import checks
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.errors import Conflict, InvalidInput, NotFound, quoted
from duly.records.batch import BatchOutcome, BatchState, Then
from duly.records.delivery import DeliveryKeywords

FIELD = "batch"
"""Where the payload of a completion has the counts."""
RESERVED_BYTES = 1024
"""What the counts need of a payload's limit, with the longest name."""
LONGEST_NAME = 255


class MemberCounts(msgspec.Struct, frozen=True):
    """How many members are in each state."""

    pending: int = 0
    completed: int = 0
    dead: int = 0
    cancelled: int = 0

    def __add__(self, other: MemberCounts) -> MemberCounts:
        return MemberCounts(
            self.pending + other.pending,
            self.completed + other.completed,
            self.dead + other.dead,
            self.cancelled + other.cancelled,
        )

    @property
    def members(self) -> int:
        """All of them."""
        return self.pending + self.completed + self.dead + self.cancelled


class MemberSlice(msgspec.Struct, frozen=True):
    """Some members of a batch in the order of their ids; `last` is None if none follow."""

    counts: MemberCounts
    last: str | None


def checked_batch(value: object) -> str:
    """The id of a batch in canonical form."""
    try:
        return checks.checked_id(value)
    except InvalidInput:
        raise InvalidInput(
            "batch", f"{quoted(value)} is no id of a batch, which is a UUID; give batch.id"
        ) from None


def checked_batch_name(value: object) -> str:
    """The name of a batch: any printable text."""
    return checks.checked_text("name", value, LONGEST_NAME)


def checked_batch_state(value: object) -> BatchState:
    """The state by which batches are listed."""
    try:
        return BatchState(str(value))
    except ValueError:
        known = ", ".join(BatchState)
        raise InvalidInput("state", f"{quoted(value)} is none of {known}") from None


def arguments_of(then: Then) -> dict[str, Any]:
    """What is delivered at the end, as arguments of `deliver`."""
    if isinstance(then, Mapping):
        found = dict(then)
    elif isinstance(then, tuple) and len(then) == 2:
        found = {"target": then[0], "payload": then[1]}
    else:
        found = {"target": then}
    if isinstance(found.get("target"), tuple | list | Mapping | NoneType):
        raise _no_target()
    for each in ("id", "connection", "batch"):
        if found.pop(each, None) is not None:
            raise InvalidInput("then", f"a completion has no {each}; leave it out")
    return found


def _no_target() -> InvalidInput:
    return InvalidInput(
        "then",
        'it names no target; give one, as in then=("report.ready", {"month": 11}), '
        "or a mapping of the arguments of deliver",
    )


def refuse_other_payloads(payload: bytes, limit: int) -> None:
    """InvalidInput unless the counts can be added to the payload of a completion."""
    if payload != b"null" and not isinstance(msgspec.json.decode(payload), dict):
        raise InvalidInput(
            "then", f"its payload is not an object, to which the counts are added as {FIELD!r}"
        )
    if FIELD in _fields(payload):
        raise InvalidInput(
            "then", f"its payload has a field {FIELD!r}, which is for the counts; rename yours"
        )
    if len(payload) + RESERVED_BYTES > limit:
        raise InvalidInput(
            "then",
            f"its payload has {len(payload)} bytes, and the counts need {RESERVED_BYTES} "
            f"of the {limit} allowed; deliver a reference to the large part",
        )


def payload_with(payload: bytes, outcome: BatchOutcome) -> bytes:
    """The payload of a completion: the given one, with the counts added."""
    fields = _fields(payload)
    fields[FIELD] = msgspec.Raw(msgspec.json.encode(outcome))
    return msgspec.json.encode(fields)


def _fields(payload: bytes) -> dict[str, msgspec.Raw]:
    found = msgspec.json.decode(payload, type=dict[str, msgspec.Raw] | None)
    return found or {}


def encode_completion(completion: PreparedDelivery) -> str:
    """As it is stored; the address is stored apart, since it may be sealed again."""
    plain = msgspec.structs.replace(completion, address=None)
    return msgspec.json.encode(plain).decode()


def decode_completion(stored: str, address: str | None) -> PreparedDelivery:
    """The completion from what is stored."""
    found = msgspec.json.decode(stored, type=PreparedDelivery)
    return msgspec.structs.replace(found, address=address)


def as_member(options: DeliveryKeywords, batch: str) -> DeliveryKeywords:
    """Options of a delivery with the batch added."""
    if options.get("batch") is not None:
        raise InvalidInput("batch", "the delivery is a member of this batch; leave it out")
    member = options.copy()
    member["batch"] = batch
    return member


def no_batch(id: str) -> NotFound:
    """The error for a batch that does not exist in the namespace."""
    return NotFound("batch", id, "duly batches list shows what there is")


def batch_closed(id: str) -> Conflict:
    """The error for a delivery to a batch that takes no more members."""
    return Conflict(f"batch {id} is closed and takes no more members; open another one")


def not_member(key: str | None, delivery: str, batch: str) -> Conflict:
    """The error for a key whose delivery does not belong to the batch."""
    return Conflict(
        f"key {key!r} already belongs to delivery {delivery}, which is not in batch {batch}; "
        "use another key, or deliver without the batch"
    )
