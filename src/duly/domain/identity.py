"""Names that duly gives: delivery ids, which sort by time, and fencing tokens."""

from __future__ import annotations

CLAIMS_PER_WORKER = 1 << 32


def delivery_id(milliseconds: int, chance: int) -> str:
    """A version 7 UUID: the moment first, then 74 bits of chance."""
    number = (milliseconds & 0xFFFFFFFFFFFF) << 80
    number |= 0x7000 << 64
    number |= ((chance >> 62) & 0xFFF) << 64
    number |= 0x8000000000000000
    number |= chance & 0x3FFFFFFFFFFFFFFF
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def token(worker: int, claim: int) -> int:
    """The fencing token of a worker's n-th claim.

    The worker is readable from it, so that one column says who holds a lane and
    entitles whom to settle it.
    """
    return worker * CLAIMS_PER_WORKER + claim


def worker_of(token: int) -> int:
    """The worker to whom the token was given."""
    return token // CLAIMS_PER_WORKER
