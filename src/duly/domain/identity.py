"""Names that duly gives: delivery ids, which sort by time, and fencing tokens."""

from __future__ import annotations

CLAIMS_PER_WORKER = 1 << 32


def delivery_id(milliseconds: int, chance: int) -> str:
    """A version 7 UUID: the moment first, then 74 bits of chance."""
    moment = f"{milliseconds:012x}"
    return (
        f"{moment[:8]}-{moment[8:]}-7{chance >> 62:03x}-"
        f"{chance >> 48 & 0x3FFF | 0x8000:04x}-{chance & 0xFFFFFFFFFFFF:012x}"
    )


def token(worker: int, claim: int) -> int:
    """The fencing token of a worker's n-th claim.

    The worker is readable from it, so that one column says who holds a lane and
    entitles whom to settle it.
    """
    return worker * CLAIMS_PER_WORKER + claim


def worker_of(token: int) -> int:
    """The worker to whom the token was given."""
    return token // CLAIMS_PER_WORKER
