"""Delivery ids, which sort by time, and fencing tokens."""

from __future__ import annotations

from hashlib import sha256

CLAIMS_PER_WORKER = 1 << 32
ID_DIGITS = 32
LAST_ID = (1 << 128) - 1


def delivery_id(milliseconds: int, chance: int) -> str:
    """A version 7 UUID: the moment, then 74 random bits."""
    moment = f"{milliseconds:012x}"
    return (
        f"{moment[:8]}-{moment[8:]}-7{chance >> 62:03x}-"
        f"{chance >> 48 & 0x3FFF | 0x8000:04x}-{chance & 0xFFFFFFFFFFFF:012x}"
    )


def span_of(beginning: str) -> tuple[str, str]:
    """The range of ids with this prefix: the first one, and the one after the last."""
    digits = beginning.replace("-", "")
    last = int(digits.ljust(ID_DIGITS, "f"), 16)
    return _formatted(int(digits.ljust(ID_DIGITS, "0"), 16)), _formatted(min(last + 1, LAST_ID))


def _formatted(number: int) -> str:
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def sibling(id: str, place: int) -> str:
    """The id number `place`, below 16 384, of those derived from one id; they sort by place.

    It is deterministic, and as unlikely to collide as the id itself.
    """
    digest = sha256(f"{id} {place}".encode()).digest()
    chance = place << 60 | int.from_bytes(digest[:8], "big") >> 4
    return delivery_id(int(id[:8] + id[9:13], 16), chance)


def token(worker: int, claim: int) -> int:
    """The fencing token of a worker's n-th claim.

    It contains the worker's id, so one column is both the owner of a lane and the fence.
    """
    return worker * CLAIMS_PER_WORKER + claim


def worker_of(token: int) -> int:
    """The id of the worker that holds the token."""
    return token // CLAIMS_PER_WORKER
